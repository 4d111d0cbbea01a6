use alloc::string::String;
use alloc::vec::Vec;
use core::net::Ipv6Addr;

use packet::Batch;
use packet::checksum::Delta;
use packet::wire::{
    EtherAddress, EtherType, EthernetFrame, EthernetHeader, IpProtocol, Ipv6Header, Ipv6Packet,
    UdpHeader, UdpPacket,
};
use router::args::{Args, Failed, Port};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList};

use super::fast::{self, Pace};

/// Where headers start in a frame.
const IP: usize = 14;
const UDP: usize = 54;
/// The least length of a frame: its headers.
const LENGTH_MIN: u32 = 62;

/// Makes UDP packets over IPv6 of one flow: a benchmark tool.
///
/// The IPv6 header is marked, and the destination address annotation set.
///
/// # Arguments
/// - `RATE` (integer): packets a second; as many as are pulled if 0.
/// - `LIMIT` (integer): packets after which it stops; no limit if negative.
/// - `LENGTH` (integer): length of frames, in bytes; 62 at least.
/// - `SRCETH`, `SRCIP6`, `SPORT`, `DSTETH`, `DSTIP6`, `DPORT` (addresses and ports): whom they are
///   from and for.
/// - `CHECKSUM` (boolean, true): whether UDP has a checksum, as it has to over IPv6.
/// - `INTERVAL` (integer, 0): packets after which both ports go up by one; never if 0.
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
/// FastUDPSourceIP6(0, 10, 64, 0:0:0:0:0:0, 2001:db8::1, 1234,
///         1:1:1:1:1:1, 2001:db8::2, 1234)
///     -> Unqueue -> Strip(14) -> IP6Print -> Discard;
/// ```
///
/// # See also
/// FastUDPFlows, UDPIP6Encap, InfiniteSource
pub struct FastUDPSourceIP6 {
    pace: Pace,
    ip: (Ipv6Addr, Ipv6Addr),
    ports: (u16, u16),
    checksum: bool,
    interval: u32,
    /// How often the ports went up.
    raised: u16,
    template: Vec<u8>,
}

impl Default for FastUDPSourceIP6 {
    fn default() -> Self {
        FastUDPSourceIP6 {
            pace: Pace::default(),
            ip: (Ipv6Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED),
            ports: (0, 0),
            checksum: true,
            interval: 0,
            raised: 0,
            template: Vec::new(),
        }
    }
}

impl Class for FastUDPSourceIP6 {
    const NAME: &'static str = "FastUDPSourceIP6";
    const PORTS: &'static str = "0/1";
    const PROCESSING: &'static str = "l";
}

impl FastUDPSourceIP6 {
    fn make_template(&mut self, length: u32, ether: (EtherAddress, EtherAddress)) {
        let mut frame = alloc::vec![0; length as usize];
        let header = EthernetHeader {
            source: ether.0,
            destination: ether.1,
            ethertype: EtherType::IPV6,
        };
        header.emit(&mut EthernetFrame::new_unchecked(&mut frame[..]));
        let length = (frame.len() - UDP) as u16;
        let header = Ipv6Header {
            traffic_class: 0,
            flow_label: 0,
            payload_len: length,
            next_header: IpProtocol::UDP,
            hop_limit: 250,
            source: self.ip.0,
            destination: self.ip.1,
        };
        let mut ip = Ipv6Packet::new_unchecked(&mut frame[IP..]);
        header.emit(&mut ip);
        let pseudo = ip.pseudo_header(IpProtocol::UDP, length.into());
        let header = UdpHeader {
            source: self.ports.0,
            destination: self.ports.1,
            length,
        };
        let mut udp = UdpPacket::new_unchecked(ip.payload_mut());
        header.emit(&mut udp);
        if self.checksum {
            udp.fill_checksum(pseudo);
        }
        self.template = frame;
    }

    /// Sets the ports to those given, raised by `raised`.
    fn raise(&mut self, raised: u16) {
        self.raised = raised;
        let udp = self.template.get_mut(UDP..).unwrap_or_default();
        let mut udp = UdpPacket::new_unchecked(udp);
        let ports = (
            self.ports.0.wrapping_add(raised),
            self.ports.1.wrapping_add(raised),
        );
        let delta = Delta::of_u16(udp.source(), ports.0)
            + Delta::of_u16(udp.destination(), ports.1);
        udp.set_source(ports.0);
        udp.set_destination(ports.1);
        udp.update_checksum(delta);
    }
}

impl Declared for FastUDPSourceIP6 {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let (mut rate, mut limit, mut active, mut length) = (0u32, 0i32, true, 0u32);
        let mut ether = (EtherAddress::ZERO, EtherAddress::ZERO);
        args.mandatory_positional("RATE", &mut rate)
            .mandatory_positional("LIMIT", &mut limit)
            .mandatory_positional("LENGTH", &mut length)
            .mandatory_positional("SRCETH", &mut ether.0)
            .mandatory_positional("SRCIP6", &mut self.ip.0)
            .mandatory_positional_with("SPORT", Port::UDP, &mut self.ports.0)
            .mandatory_positional("DSTETH", &mut ether.1)
            .mandatory_positional("DSTIP6", &mut self.ip.1)
            .mandatory_positional_with("DPORT", Port::UDP, &mut self.ports.1)
            .positional("CHECKSUM", &mut self.checksum)
            .positional("INTERVAL", &mut self.interval)
            .positional("ACTIVE", &mut active)
            .complete()?;
        let length = fast::at_least(cx, length, LENGTH_MIN);
        fast::check(length, 1).map_err(|error| args.fail(error))?;
        self.make_template(length, ether);
        self.pace.configure(args, rate, limit, active)
    }

    fn handlers(&self, list: &mut HandlerList) {
        Pace::handlers(list);
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        self.pace.read(name)
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        if self.pace.write(cx, name, value)? {
            self.raise(0);
        }
        Ok(())
    }
}

impl Element for FastUDPSourceIP6 {
    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        let most = self.pace.left(most);
        for _ in 0..self.pace.due(cx, most) {
            let Some(mut packet) = cx.pool().copy(&self.template) else {
                break;
            };
            packet.set_network_header(IP, 40);
            packet.set_dst_ip6(self.ip.1);
            if batch.push(packet).is_err() {
                break;
            }
            self.pace.made(cx, 1);
            if self.interval > 0 && self.pace.count().is_multiple_of(self.interval.into()) {
                self.raise(self.raised.wrapping_add(1));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use crate::testing::Rig;
    use crate::testing::ip6::{addr, udp};

    const ENDS: &str = "5:5:5:5:5:5, 2001:db8::1, 7, 6:6:6:6:6:6, 2001:db8::2, 65535";

    #[test]
    fn packets_are_whole_and_ports_go_up() {
        let config = "s :: FastUDPSourceIP6(0, 5, 66, ENDS, true, 2) -> p :: Puller;";
        let mut rig = Rig::new(&config.replace("ENDS", ENDS));
        for again in 0..2 {
            let packets = rig.pull("p", 9);
            assert_eq!(packets.len(), 5, "{again}");
            for (packet, up) in packets.iter().zip([0, 0, 1, 1, 2]) {
                let (a, b) = (addr("2001:db8::1"), addr("2001:db8::2"));
                let to = 65535u16.wrapping_add(up);
                let mut expected = udp((a, 7 + up), (b, to), &[0; 4]);
                expected[7] = 250;
                assert_eq!(packet.data()[14..], expected);
                assert_eq!(packet.dst_ip6(), b);
                assert_eq!(packet.network_offset(), Some(14));
            }
            rig.write("s.reset", "");
        }
    }

    #[test]
    fn headers_must_fit() {
        let config = "s :: FastUDPSourceIP6(0, 1, 60, ENDS, false) -> p :: Puller;";
        let mut rig = Rig::new(&config.replace("ENDS", ENDS));
        assert_eq!(rig.printed(), ["warning: packet length < 62, defaulting to 62"]);
        let packets: Vec<_> = rig.pull("p", 9);
        assert_eq!(packets[0].len(), 62);
        assert_eq!(packets[0].data()[60..], [0, 0]);
    }
}
