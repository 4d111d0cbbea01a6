use super::fast::{self, Packets, Source};
use crate::prelude::*;

/// Where headers start in a frame.
const IP: usize = 14;
const UDP: usize = 54;
/// The least length of a frame: its headers.
const LENGTH_MIN: u32 = 62;

/// Makes UDP packets over IPv6 of one flow: a benchmark tool.
///
/// The IPv6 header is marked, and the destination address annotation set.
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
#[derive(Element)]
#[element(ports = "0/1", processing = "l")]
pub struct FastUDPSourceIP6 {
    #[delegate]
    source: Source<UdpIp6Frames>,
}

/// The packets of FastUDPSourceIP6.
#[derive(Component)]
struct UdpIp6Frames {
    /// Length of frames, in bytes; 62 at least.
    #[arg(mandatory)]
    length: u32,
    /// The source Ethernet address.
    #[arg(mandatory, name = "SRCETH")]
    from_ether: EtherAddress,
    /// The source address.
    #[arg(mandatory, name = "SRCIP6")]
    from: Ipv6Addr,
    /// The source port.
    #[arg(mandatory, name = "SPORT")]
    from_port: UdpPort,
    /// The destination Ethernet address.
    #[arg(mandatory, name = "DSTETH")]
    to_ether: EtherAddress,
    /// The destination address.
    #[arg(mandatory, name = "DSTIP6")]
    to: Ipv6Addr,
    /// The destination port.
    #[arg(mandatory, name = "DPORT")]
    to_port: UdpPort,
    /// Whether UDP has a checksum, as it has to over IPv6.
    #[arg(positional, default = true)]
    checksum: bool,
    /// Packets after which both ports increase by one; never if 0.
    #[arg(positional, default = 0)]
    interval: u32,
    /// The frame that is copied.
    template: Vec<u8>,
}

impl UdpIp6Frames {
    fn make_template(&mut self) {
        let mut frame = alloc::vec![0; self.length as usize];
        let header = EthernetHeader {
            source: self.from_ether,
            destination: self.to_ether,
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
            source: self.from,
            destination: self.to,
        };
        let mut ip = Ipv6Packet::new_unchecked(&mut frame[IP..]);
        header.emit(&mut ip);
        let pseudo = ip.pseudo_header(IpProtocol::UDP, length.into());
        let header = UdpHeader {
            source: self.from_port.0,
            destination: self.to_port.0,
            length,
        };
        let mut udp = UdpPacket::new_unchecked(ip.payload_mut());
        header.emit(&mut udp);
        if self.checksum {
            udp.fill_checksum(pseudo);
        }
        self.template = frame;
    }
}

impl Packets for UdpIp6Frames {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.length = fast::at_least(cx, self.length, LENGTH_MIN);
        fast::check(self.length, 1).map_err(|error| args.fail(error))?;
        self.make_template();
        Ok(())
    }

    fn next(&mut self, cx: &mut Cx<'_>, count: u64, _spent: bool) -> Option<Packet> {
        if let Some(raised) = fast::raised(count, self.interval) {
            let datagram = self.template.get_mut(UDP..)?;
            fast::set_ports(datagram, (self.from_port, self.to_port), raised);
        }
        let mut packet = cx.pool().copy(&self.template)?;
        packet.set_network_header(IP, 40);
        packet.set_dst_ip6(self.to);
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::ip6::{addr, udp};
    use crate::testing::*;

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
        assert_eq!(
            rig.printed(),
            ["warning: packet length < 62, defaulting to 62"]
        );
        let packets: Vec<_> = rig.pull("p", 9);
        assert_eq!(packets[0].len(), 62);
        assert_eq!(packets[0].data()[60..], [0, 0]);
    }
}
