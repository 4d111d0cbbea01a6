use super::fast::{self, Packets, Source};
use super::fast_flows::{LENGTH_MIN, Shape, TRANSPORT};
use crate::prelude::*;

/// Makes UDP packets of many flows: a benchmark tool.
///
/// Each packet is of a flow chosen at random. After FLOWSIZE packets a flow begins again with other
/// random ports. The IP header is marked.
///
/// # Example
/// ```click
/// FastUDPFlows(0, 100, 60, 0:0:0:0:0:0, 1.0.0.1, 1:1:1:1:1:1, 2.0.0.2, 10, 10)
///     -> Unqueue -> Strip(14) -> IPPrint -> Discard;
/// ```
///
/// # See also
/// FastTCPFlows, FastUDPSourceIP6, InfiniteSource
#[derive(Element)]
#[element(ports = "0/1", processing = "l")]
pub struct FastUDPFlows {
    #[delegate]
    source: Source<UdpFlows>,
}

/// The packets of FastUDPFlows.
#[derive(Component)]
#[component(handlers)]
struct UdpFlows {
    #[flatten]
    shape: Shape,
    /// Whether UDP has a checksum.
    #[arg(positional, default = true)]
    checksum: bool,
    /// A packet with ports 0.
    template: Vec<u8>,
    /// Each flow's ports, and packets sent with them.
    flows: Vec<(u16, u16, u32)>,
}

#[handlers]
impl UdpFlows {
    /// The argument LENGTH.
    #[read]
    fn read_length(&self) -> u32 {
        self.shape.length
    }

    /// The argument LENGTH; all flows get other ports.
    #[write(error = "length parameter must be integer")]
    fn write_length(&mut self, cx: &mut Cx<'_>, length: u32) -> Result<(), String> {
        let length = fast::at_least(cx, length, LENGTH_MIN);
        fast::check(length, self.shape.flows)?;
        self.shape.length = length;
        self.start(cx);
        Ok(())
    }
}

impl Packets for UdpFlows {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.shape.configured(cx, args, 1)
    }

    fn start(&mut self, cx: &mut Cx<'_>) {
        let mut frame = self.shape.frame(IpProtocol::UDP);
        let header = UdpHeader {
            source: 0,
            destination: 0,
            length: (frame.len() - TRANSPORT) as u16,
        };
        let mut udp = UdpPacket::new_unchecked(&mut frame[TRANSPORT..]);
        header.emit(&mut udp);
        if self.checksum {
            udp.fill_checksum(self.shape.pseudo(IpProtocol::UDP));
        }
        self.template = frame;
        let random = cx.random();
        let flow = |_| (random.next_u32() as u16, random.next_u32() as u16, 0);
        self.flows = (0..self.shape.flows).map(flow).collect();
    }

    fn next(&mut self, cx: &mut Cx<'_>, _count: u64, _spent: bool) -> Option<Packet> {
        let at = cx.random().below(self.shape.flows) as usize;
        let flow = self.flows.get_mut(at)?;
        if flow.2 == self.shape.size {
            let random = cx.random();
            *flow = (random.next_u32() as u16, random.next_u32() as u16, 0);
        }
        flow.2 += 1;
        let (source, destination, _) = *flow;
        let mut packet = self.shape.packet(cx, &self.template)?;
        let mut udp = UdpPacket::new_unchecked(packet.data_mut().get_mut(TRANSPORT..)?);
        udp.set_source(source);
        udp.set_destination(destination);
        udp.update_checksum(Delta::of_u16(0, source) + Delta::of_u16(0, destination));
        Some(packet)
    }
    fn stops(&self) -> bool {
        self.shape.stop
    }
}
