use super::fast::{LENGTH_MAX, Packets, Source, raised, set_ports};
use super::fast_flows::{LENGTH_MIN, TRANSPORT, frame, packet};
use crate::prelude::*;

/// Makes Ethernet frames with equal UDP datagrams at a rate: a benchmark tool.
///
/// The frames are copies of one frame. The payload is zero.
///
/// # Example
/// ```click
/// FastUDPSource(100000, 500, 60, 0:0:0:0:0:1, 1.0.0.1, 1234, 0:0:0:0:0:2, 2.0.0.2, 1234)
///     -> Discard;
/// ```
///
/// # See also
/// InfiniteSource, RatedSource, UDPIPEncap
#[derive(Element)]
#[element(ports = "0/1", processing = "l")]
pub struct FastUDPSource {
    #[delegate]
    source: Source<UdpFrames>,
}

/// The packets of FastUDPSource.
#[derive(Component)]
struct UdpFrames {
    /// A frame's bytes, from 60 to 65549; less becomes 60.
    #[arg(mandatory)]
    length: u32,
    /// The source Ethernet address.
    #[arg(mandatory, name = "SRCETH")]
    from_ether: EtherAddress,
    /// The source address.
    #[arg(mandatory, name = "SRCIP")]
    from: Ipv4Addr,
    /// The source port.
    #[arg(mandatory, name = "SPORT")]
    from_port: UdpPort,
    /// The destination Ethernet address.
    #[arg(mandatory, name = "DSTETH")]
    to_ether: EtherAddress,
    /// The destination address.
    #[arg(mandatory, name = "DSTIP")]
    to: Ipv4Addr,
    /// The destination port.
    #[arg(mandatory, name = "DPORT")]
    to_port: UdpPort,
    /// Whether to compute the UDP checksum.
    #[arg(positional, default = true)]
    checksum: bool,
    /// Frames after which both ports increase by 1; 0: never.
    #[arg(positional, default = 0)]
    interval: u32,
    /// The frame that is copied.
    frame: Vec<u8>,
}

impl UdpFrames {
    fn make_frame(&mut self) {
        let ether = EthernetHeader {
            source: self.from_ether,
            destination: self.to_ether,
            ethertype: EtherType::IPV4,
        };
        self.frame = frame(self.length, ether, (self.from, self.to), IpProtocol::UDP);
        let datagram = &mut self.frame[TRANSPORT..];
        let header = UdpHeader {
            source: self.from_port.0,
            destination: self.to_port.0,
            length: datagram.len() as u16,
        };
        let mut udp = UdpPacket::new_unchecked(datagram);
        header.emit(&mut udp);
        if self.checksum {
            let protocol = IpProtocol::UDP.0;
            udp.fill_checksum(pseudo_header_v4(
                self.from,
                self.to,
                protocol,
                header.length,
            ));
        }
    }
}

impl Packets for UdpFrames {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if self.length < LENGTH_MIN {
            args.warning("packet length < 60, defaulting to 60");
            self.length = LENGTH_MIN;
        }
        if self.length > LENGTH_MAX {
            return Err(args.fail("LENGTH must be at most 65549"));
        }
        self.make_frame();
        Ok(())
    }

    fn next(&mut self, cx: &mut Cx<'_>, count: u64, _spent: bool) -> Option<Packet> {
        if let Some(raised) = raised(count, self.interval) {
            let datagram = self.frame.get_mut(TRANSPORT..)?;
            set_ports(datagram, (self.from_port, self.to_port), raised);
        }
        packet(cx, &self.frame, self.to)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    const FROM_TO: &str = "0:0:0:0:0:1, 1.0.0.1, 7, 0:0:0:0:0:2, 2.0.0.2, 9";

    fn rig(before: &str, after: &str) -> Rig {
        let config = std::format!("s :: FastUDPSource({before}, {FROM_TO}{after}) -> p :: Puller;");
        Rig::new(&config)
    }

    fn frame(ports: (u16, u16)) -> std::vec::Vec<u8> {
        let (a, b) = ([1, 0, 0, 1].into(), [2, 0, 0, 2].into());
        let packet = udp((a, ports.0), (b, ports.1), &[0; 18]);
        ether([0, 0, 0, 0, 0, 2], [0, 0, 0, 0, 0, 1], 0x800, &packet)
    }

    #[test]
    fn frames_are_whole_and_ports_move_on() {
        let mut rig = rig("0, 5, 60", ", true, 2");
        let pulled = rig.pull("p", 9);
        let expected = [(7, 9), (7, 9), (8, 10), (8, 10), (9, 11)].map(frame);
        for (packet, expected) in pulled.iter().zip(&expected) {
            // The TTL, and so the IP header's checksum, are others.
            assert_eq!(packet.data()[..22], expected[..22]);
            assert_eq!(packet.data()[26..], expected[26..]);
            assert_eq!(crate::testing::checksum(&packet.data()[14..34]), 0);
        }
        assert_eq!((pulled.len(), pulled[0].network_offset()), (5, Some(14)));
        assert!(rig.pull("p", 1).is_empty());
        rig.assert_handlers(&[("s.count", "5"), ("s.rate", "5000")]);
        rig.write("s.reset", "");
        assert_eq!(rig.pull("p", 1)[0].data()[34..36], [0, 7]);
    }

    #[test]
    fn the_rate_is_kept() {
        let mut rig = rig("1000, -1, 20", "");
        assert!(rig.printed()[1].contains("packet length < 60, defaulting to 60"));
        let mut count = 0;
        for _ in 0..1000 {
            rig.advance(1_000_000);
            count += rig.pull("p", 64).len();
        }
        assert!((999..=1001).contains(&count), "{count}");
        rig.write("s.active", "false");
        rig.advance(1_000_000_000);
        assert!(rig.pull("p", 64).is_empty());
        assert!(rig.try_write("s.rate", "x").is_err());
    }
}
