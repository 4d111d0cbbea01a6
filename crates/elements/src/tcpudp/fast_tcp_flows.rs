use super::fast::{Packets, Source};
use super::fast_flows::{Shape, TRANSPORT};
use crate::prelude::*;

/// Makes TCP packets of many flows: a benchmark tool.
///
/// Each packet is of a flow chosen at random. A flow's first packet is a SYN and its last a FIN;
/// then it starts again with other random ports. Sequence numbers are meaningless. After LIMIT
/// packets, each unfinished flow sends its FIN. Checksums are right, and the IP header is marked.
///
/// # Example
/// ```click
/// FastTCPFlows(0, 100, 60, 0:0:0:0:0:0, 1.0.0.1, 1:1:1:1:1:1, 2.0.0.2, 10, 10)
///     -> Unqueue -> Strip(14) -> IPPrint -> Discard;
/// ```
///
/// # See also
/// FastUDPFlows, InfiniteSource
#[derive(Element)]
#[element(ports = "0/1", processing = "l")]
pub struct FastTCPFlows {
    #[delegate]
    source: Source<TcpFlows>,
}

/// The packets of FastTCPFlows.
#[derive(Component)]
struct TcpFlows {
    #[flatten]
    shape: Shape,
    /// A SYN, a segment of data and a FIN, with ports and numbers 0.
    templates: [Vec<u8>; 3],
    flows: Vec<TcpFlow>,
    /// The flow whose FIN is next when the limit is reached.
    finishing: usize,
}

#[derive(Clone, Default)]
struct TcpFlow {
    ports: (u16, u16),
    numbers: (u32, u32),
    sent: u32,
}

/// Which of [`TcpFlows::templates`].
const SYN: usize = 0;
const DATA: usize = 1;
const FIN: usize = 2;

impl TcpFlows {
    /// The flow and the template of the next packet.
    fn choose(&mut self, cx: &mut Cx<'_>, spent: bool) -> Option<(usize, usize)> {
        let size = self.shape.size;
        if spent {
            let rest = self.flows.get_mut(self.finishing..)?;
            let at = rest.iter().position(|flow| flow.sent != size);
            self.finishing += at.unwrap_or(rest.len());
            self.flows.get_mut(self.finishing)?.sent = size;
            return Some((self.finishing, FIN));
        }
        let at = cx.random().below(self.shape.flows) as usize;
        let flow = self.flows.get_mut(at)?;
        if flow.sent == size {
            let random = cx.random();
            flow.ports = (random.next_u32() as u16, random.next_u32() as u16);
            flow.sent = 0;
        }
        flow.sent += 1;
        Some((
            at,
            match flow.sent {
                1 => SYN,
                sent if sent == size => FIN,
                _ => DATA,
            },
        ))
    }
}

impl Packets for TcpFlows {
    const AFTER_LIMIT: bool = true;

    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.shape.configured(cx, args, 3)
    }

    fn start(&mut self, cx: &mut Cx<'_>) {
        let flags = [TcpFlags::SYN, TcpFlags::PSH | TcpFlags::ACK, TcpFlags::FIN];
        let pseudo = self.shape.pseudo(IpProtocol::TCP);
        self.templates = flags.map(|flags| {
            let mut frame = self.shape.frame(IpProtocol::TCP);
            let header = TcpHeader {
                source: 0,
                destination: 0,
                sequence: TcpSequence(0),
                acknowledgment: TcpSequence(0),
                flags,
                window: 65535,
                urgent: 0,
            };
            let mut tcp = TcpPacket::new_unchecked(&mut frame[TRANSPORT..]);
            header.emit(&mut tcp);
            tcp.fill_checksum(pseudo);
            frame
        });
        let random = cx.random();
        let flow = |_| TcpFlow {
            ports: (random.next_u32() as u16, random.next_u32() as u16),
            numbers: (random.next_u32(), random.next_u32()),
            sent: 0,
        };
        self.flows = (0..self.shape.flows).map(flow).collect();
    }

    fn next(&mut self, cx: &mut Cx<'_>, _count: u64, spent: bool) -> Option<Packet> {
        let (flow, template) = self.choose(cx, spent)?;
        let mut packet = self.shape.packet(cx, &self.templates[template])?;
        let flow = self.flows.get(flow)?;
        let mut tcp = TcpPacket::new_unchecked(packet.data_mut().get_mut(TRANSPORT..)?);
        tcp.set_source(flow.ports.0);
        tcp.set_destination(flow.ports.1);
        tcp.set_sequence(TcpSequence(flow.numbers.0));
        tcp.set_acknowledgment(TcpSequence(flow.numbers.1));
        tcp.update_checksum(
            Delta::of_u16(0, flow.ports.0)
                + Delta::of_u16(0, flow.ports.1)
                + Delta::of_u32(0, flow.numbers.0)
                + Delta::of_u32(0, flow.numbers.1),
        );
        Some(packet)
    }
    fn stops(&self) -> bool {
        self.shape.stop
    }

    fn reset(&mut self) {
        self.finishing = 0;
    }
}
