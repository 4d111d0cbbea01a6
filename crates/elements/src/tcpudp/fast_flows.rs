use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::Ipv4Addr;

use packet::checksum::{Delta, Sum, pseudo_header_v4};
use packet::wire::{
    EtherAddress, EtherType, EthernetFrame, EthernetHeader, IpProtocol, Ipv4Header, Ipv4Packet,
    TcpFlags, TcpHeader, TcpPacket, TcpSequence, UdpHeader, UdpPacket,
};
use packet::{Batch, Packet};
use router::args::{Args, Failed};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList};

use super::fast::{self, Pace};

/// Where headers start in a frame.
const IP: usize = 14;
const TRANSPORT: usize = 34;
/// The least length of a frame.
const LENGTH_MIN: u32 = 60;

/// Where the frames come from and go to, and how many flows there are.
#[derive(Clone)]
struct Shape {
    length: u32,
    ether: (EtherAddress, EtherAddress),
    ip: (Ipv4Addr, Ipv4Addr),
    flows: u32,
    /// Packets of a flow.
    size: u32,
}

impl Default for Shape {
    fn default() -> Self {
        Shape {
            length: LENGTH_MIN,
            ether: (EtherAddress::ZERO, EtherAddress::ZERO),
            ip: (Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED),
            flows: 1,
            size: 1,
        }
    }
}

impl Shape {
    /// A frame of zeros with an Ethernet and an IP header.
    fn frame(&self, protocol: IpProtocol) -> Vec<u8> {
        let mut frame = alloc::vec![0; self.length as usize];
        let ether = EthernetHeader {
            source: self.ether.0,
            destination: self.ether.1,
            ethertype: EtherType::IPV4,
        };
        ether.emit(&mut EthernetFrame::new_unchecked(&mut frame[..]));
        let header = Ipv4Header {
            tos: 0,
            total_len: (self.length as usize - IP) as u16,
            ident: 0,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 250,
            protocol,
            source: self.ip.0,
            destination: self.ip.1,
        };
        header.emit(&mut Ipv4Packet::new_unchecked(&mut frame[IP..]));
        frame
    }

    fn pseudo(&self, protocol: IpProtocol) -> Sum {
        let length = self.length as usize - TRANSPORT;
        pseudo_header_v4(self.ip.0, self.ip.1, protocol.0, length as u16)
    }

    /// A packet of `template`, its headers marked.
    #[inline]
    fn packet(&self, cx: &mut Cx<'_>, template: &[u8]) -> Option<Packet> {
        let mut packet = cx.pool().copy(template)?;
        packet.set_network_header(IP, 20);
        packet.set_dst_ip(self.ip.1);
        Some(packet)
    }
}

/// Reads the arguments that both classes have; `size` is the least number of packets of a flow.
macro_rules! configure {
    ($self:ident, $cx:ident, $args:ident, $size:literal $(, $keyword:literal => $slot:expr)?) => {{
        let (mut rate, mut limit, mut active) = (0u32, 0i32, true);
        let mut shape = Shape::default();
        $args
            .mandatory_positional("RATE", &mut rate)
            .mandatory_positional("LIMIT", &mut limit)
            .mandatory_positional("LENGTH", &mut shape.length)
            .mandatory_positional("SRCETH", &mut shape.ether.0)
            .mandatory_positional("SRCIP", &mut shape.ip.0)
            .mandatory_positional("DSTETH", &mut shape.ether.1)
            .mandatory_positional("DSTIP", &mut shape.ip.1)
            .mandatory_positional("FLOWS", &mut shape.flows)
            .mandatory_positional("FLOWSIZE", &mut shape.size)
            $(.positional($keyword, &mut $slot))?
            .positional("ACTIVE", &mut active)
            .complete()?;
        if shape.size < $size {
            $cx.chatter(concat!("warning: flow size < ", $size, ", defaulting to ", $size));
            shape.size = $size;
        }
        shape.length = fast::at_least($cx, shape.length, LENGTH_MIN);
        fast::check(shape.length, shape.flows).map_err(|error| $args.fail(error))?;
        $self.shape = shape;
        $self.pace.configure($args, rate, limit, active)
    }};
}

/// Makes TCP packets of many flows: a benchmark tool.
///
/// Each packet is of a flow chosen at random. A flow's first packet is a SYN, its last a FIN, and
/// then it begins anew with other random ports. Sequence numbers do not make sense. After LIMIT
/// packets, each flow that is not at its end sends its FIN. Checksums are right, and the IP header
/// is marked.
///
/// # Arguments
/// - `RATE` (integer): packets a second; as many as are pulled if 0.
/// - `LIMIT` (integer): packets after which it stops; no limit if negative.
/// - `LENGTH` (integer): length of frames, in bytes; 60 at least.
/// - `SRCETH`, `SRCIP`, `DSTETH`, `DSTIP` (addresses): whom they are from and for.
/// - `FLOWS` (integer): number of flows at a time; 1048576 at most.
/// - `FLOWSIZE` (integer): packets of a flow; 3 at least.
/// - `ACTIVE` (boolean, true): whether it makes packets.
///
/// # Ports
/// No input; one pull output.
///
/// # Handlers
/// - `count` (read): packets made.
/// - `rate` (read): packets a second from the first to the last, after LIMIT packets; 0 before.
/// - `rate`, `limit` (write): the arguments.
/// - `active` (write): the argument; if true, also `reset`.
/// - `reset` (write): starts anew.
///
/// # Example
/// ```click
/// FastTCPFlows(0, 100, 60, 0:0:0:0:0:0, 1.0.0.1, 1:1:1:1:1:1, 2.0.0.2, 10, 10)
///     -> Unqueue -> Strip(14) -> IPPrint -> Discard;
/// ```
///
/// # See also
/// FastUDPFlows, InfiniteSource
#[derive(Default)]
pub struct FastTCPFlows {
    pace: Pace,
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

impl Class for FastTCPFlows {
    const NAME: &'static str = "FastTCPFlows";
    const PORTS: &'static str = "0/1";
    const PROCESSING: &'static str = "l";
}

/// Which of [`FastTCPFlows::templates`].
const SYN: usize = 0;
const DATA: usize = 1;
const FIN: usize = 2;

impl FastTCPFlows {
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

    /// The flow and the template of the next packet.
    fn next(&mut self, cx: &mut Cx<'_>) -> Option<(usize, usize)> {
        let size = self.shape.size;
        if self.pace.is_spent() {
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
        Some((at, match flow.sent {
            1 => SYN,
            sent if sent == size => FIN,
            _ => DATA,
        }))
    }

    fn make(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let (flow, template) = self.next(cx)?;
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
}

impl Declared for FastTCPFlows {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        configure!(self, cx, args, 3)
    }

    fn handlers(&self, list: &mut HandlerList) {
        Pace::handlers(list);
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        self.pace.read(name)
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        if self.pace.write(cx, name, value)? {
            self.finishing = 0;
        }
        Ok(())
    }
}

impl Element for FastTCPFlows {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.start(cx);
        Ok(())
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        for _ in 0..self.pace.due(cx, most) {
            let Some(packet) = self.make(cx) else {
                break;
            };
            if batch.push(packet).is_err() {
                break;
            }
            self.pace.made(cx, 1);
        }
    }
}

/// Makes UDP packets of many flows: a benchmark tool.
///
/// Each packet is of a flow chosen at random. After FLOWSIZE packets a flow begins anew with other
/// random ports. The IP header is marked.
///
/// # Arguments
/// - `RATE` (integer): packets a second; as many as are pulled if 0.
/// - `LIMIT` (integer): packets after which it stops; no limit if negative.
/// - `LENGTH` (integer): length of frames, in bytes; 60 at least.
/// - `SRCETH`, `SRCIP`, `DSTETH`, `DSTIP` (addresses): whom they are from and for.
/// - `FLOWS` (integer): number of flows at a time; 1048576 at most.
/// - `FLOWSIZE` (integer): packets of a flow.
/// - `CHECKSUM` (boolean, true): whether UDP has a checksum.
/// - `ACTIVE` (boolean, true): whether it makes packets.
///
/// # Ports
/// No input; one pull output.
///
/// # Handlers
/// - `count` (read): packets made.
/// - `rate` (read): packets a second from the first to the last, after LIMIT packets; 0 before.
/// - `rate`, `limit` (write): the arguments.
/// - `active` (write): the argument; if true, also `reset`.
/// - `reset` (write): starts anew.
/// - `length` (read, write): the argument; written, all flows get other ports.
///
/// # Example
/// ```click
/// FastUDPFlows(0, 100, 60, 0:0:0:0:0:0, 1.0.0.1, 1:1:1:1:1:1, 2.0.0.2, 10, 10)
///     -> Unqueue -> Strip(14) -> IPPrint -> Discard;
/// ```
///
/// # See also
/// FastTCPFlows, FastUDPSourceIP6, InfiniteSource
pub struct FastUDPFlows {
    pace: Pace,
    shape: Shape,
    checksum: bool,
    /// A packet with ports 0.
    template: Vec<u8>,
    /// Each flow's ports, and packets sent with them.
    flows: Vec<(u16, u16, u32)>,
}

impl Default for FastUDPFlows {
    fn default() -> Self {
        FastUDPFlows {
            pace: Pace::default(),
            shape: Shape::default(),
            checksum: true,
            template: Vec::new(),
            flows: Vec::new(),
        }
    }
}

impl Class for FastUDPFlows {
    const NAME: &'static str = "FastUDPFlows";
    const PORTS: &'static str = "0/1";
    const PROCESSING: &'static str = "l";
}

impl FastUDPFlows {
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

    fn make(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
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
}

impl Declared for FastUDPFlows {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        configure!(self, cx, args, 1, "CHECKSUM" => self.checksum)
    }

    fn handlers(&self, list: &mut HandlerList) {
        Pace::handlers(list);
        list.read_write("length");
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "length" => Ok(self.shape.length.to_string()),
            name => self.pace.read(name),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        if name != "length" {
            return self.pace.write(cx, name, value).map(drop);
        }
        let length = cx.names().parse(value);
        let length = length.map_err(|_| "length parameter must be integer")?;
        let length = fast::at_least(cx, length, LENGTH_MIN);
        fast::check(length, self.shape.flows)?;
        self.shape.length = length;
        self.start(cx);
        Ok(())
    }
}

impl Element for FastUDPFlows {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.start(cx);
        Ok(())
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        let most = self.pace.left(most);
        for _ in 0..self.pace.due(cx, most) {
            let Some(packet) = self.make(cx) else {
                break;
            };
            if batch.push(packet).is_err() {
                break;
            }
        }
        self.pace.made(cx, batch.len());
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::format;
    use alloc::vec::Vec;

    use crate::testing::{Rig, checksum};

    const ENDS: &str = "5:5:5:5:5:5, 1.0.0.1, 6:6:6:6:6:6, 2.0.0.2";

    fn rig(class: &str, rate: u32, limit: i32, length: u32, rest: &str) -> Rig {
        Rig::new(&format!("s :: {class}({rate}, {limit}, {length}, {ENDS}, {rest}) -> p :: Puller;"))
    }

    fn pull(rig: &mut Rig, most: usize) -> Vec<Vec<u8>> {
        let packets = rig.pull("p", most);
        for packet in &packets {
            assert_eq!(packet.transport_offset(), Some(34));
            let data = packet.data();
            assert_eq!(data[..14], *b"\x06\x06\x06\x06\x06\x06\x05\x05\x05\x05\x05\x05\x08\x00");
            assert_eq!(checksum(&data[14..34]), 0);
            let length = (data.len() - 34) as u16;
            let pseudo = [&data[26..34], &[0, data[23]], &length.to_be_bytes(), &data[34..]];
            assert_eq!(checksum(&pseudo.concat()), 0);
        }
        packets.iter().map(|packet| packet.data().to_vec()).collect()
    }

    #[test]
    fn tcp_flows_begin_with_syn_and_end_with_fin() {
        let mut rig = rig("FastTCPFlows", 0, 60, 61, "4, 5");
        let mut flows: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        loop {
            let packets = pull(&mut rig, 7);
            if packets.is_empty() {
                break;
            }
            for packet in packets {
                assert_eq!(packet.len(), 61);
                flows.entry(packet[34..38].to_vec()).or_default().push(packet[47]);
            }
        }
        assert!(flows.len() >= 12, "{}", flows.len());
        for flags in flows.values() {
            // A flow that never began gets its FIN at the end too, as Click's do.
            let (last, before) = flags.split_last().unwrap();
            assert_eq!(*last, 1);
            if let Some((first, middle)) = before.split_first() {
                assert_eq!(*first, 2);
                assert!(middle.iter().all(|flags| *flags == 0x18), "{flags:?}");
            }
        }
        let count: u64 = rig.read("s.count").parse().unwrap();
        assert!((60..=64).contains(&count), "{count}");
        assert_eq!(rig.read("s.rate"), format!("{}", count * 1000));
        rig.write("s.reset", "");
        assert_eq!(pull(&mut rig, 5).len(), 5);
    }

    #[test]
    fn udp_flows_change_their_ports() {
        let mut rig = rig("FastUDPFlows", 0, 50, 60, "2, 5");
        let mut ports = BTreeMap::new();
        for packet in pull(&mut rig, 64) {
            *ports.entry(packet[34..38].to_vec()).or_insert(0) += 1;
        }
        assert_eq!(ports.values().sum::<i32>(), 50);
        assert!(ports.values().all(|count| *count <= 5), "{ports:?}");
        assert!(pull(&mut rig, 1).is_empty());
        rig.write("s.limit", "51");
        rig.write("s.length", "100");
        assert_eq!(pull(&mut rig, 9)[0].len(), 100);
        assert_eq!((rig.read("s.length"), rig.read("s.count")), ("100".into(), "51".into()));
        rig.write("s.active", "false");
        rig.write("s.limit", "-1");
        assert!(pull(&mut rig, 1).is_empty());
    }

    #[test]
    fn the_rate_is_held() {
        let mut rig = rig("FastUDPFlows", 100, -1, 60, "2, 5, false");
        assert_eq!(rig.pull("p", 9).len(), 1);
        assert!(rig.pull("p", 9).is_empty());
        rig.pause(55_000_000);
        assert_eq!(rig.pull("p", 9).len(), 5);
        assert_eq!(rig.try_write("s.rate", "x").unwrap_err(), "rate parameter must be integer >= 0".into());
        assert_eq!(
            rig.try_write("s.rate", "2000000000").unwrap_err(),
            "rate too large; max is 1000000000".into()
        );
    }

    #[test]
    fn arguments_have_bounds() {
        let mut small = rig("FastTCPFlows", 0, 1, 20, "1, 1");
        let warnings = [
            "warning: flow size < 3, defaulting to 3",
            "warning: packet length < 60, defaulting to 60",
        ];
        assert_eq!(small.printed(), warnings);
        for (rest, error) in [("60, {}, 0, 5", "FLOWS"), ("70000, {}, 1, 5", "LENGTH too large")] {
            let args = rest.replace("{}", ENDS);
            let errors = Rig::errors(&format!("FastUDPFlows(0, 1, {args}) -> Puller;"));
            assert!(errors.contains(error), "{errors}");
        }
    }
}
