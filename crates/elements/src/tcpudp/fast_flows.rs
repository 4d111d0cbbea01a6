//! What the sources over IPv4 share: frames, and the arguments of those with several flows.

use super::fast;
use crate::prelude::*;

/// Where headers start in a frame.
const IP: usize = 14;
pub const TRANSPORT: usize = 34;
/// The least length of a frame.
pub const LENGTH_MIN: u32 = 60;

/// Where the frames come from and go to, and how many flows there are.
#[derive(Clone, Component)]
pub struct Shape {
    /// Length of frames, in bytes; 60 at least.
    #[arg(mandatory)]
    pub length: u32,
    /// The source Ethernet address.
    #[arg(mandatory, name = "SRCETH")]
    from_ether: EtherAddress,
    /// The source address.
    #[arg(mandatory, name = "SRCIP")]
    from: Ipv4Addr,
    /// The destination Ethernet address.
    #[arg(mandatory, name = "DSTETH")]
    to_ether: EtherAddress,
    /// The destination address.
    #[arg(mandatory, name = "DSTIP")]
    to: Ipv4Addr,
    /// Number of flows at a time; 1048576 at most.
    #[arg(mandatory)]
    pub flows: u32,
    /// Packets of a flow.
    #[arg(mandatory, name = "FLOWSIZE")]
    pub size: u32,
    /// Whether it stops the driver when all packets are made.
    #[arg(read, write, checkbox, error = "stop parameter must be boolean")]
    pub stop: bool,
}

impl Shape {
    /// Checks the arguments; `size` is the least number of packets of a flow.
    pub fn configured(
        &mut self,
        cx: &mut Cx<'_>,
        args: &Args<'_>,
        size: u32,
    ) -> Result<(), Failed> {
        if self.size < size {
            cx.chatter(format_args!(
                "warning: flow size < {size}, defaulting to {size}"
            ));
            self.size = size;
        }
        self.length = fast::at_least(cx, self.length, LENGTH_MIN);
        fast::check(self.length, self.flows).map_err(|error| args.fail(error))
    }

    /// A frame of zeros with an Ethernet and an IP header.
    pub fn frame(&self, protocol: IpProtocol) -> Vec<u8> {
        let ether = EthernetHeader {
            source: self.from_ether,
            destination: self.to_ether,
            ethertype: EtherType::IPV4,
        };
        frame(self.length, ether, (self.from, self.to), protocol)
    }

    /// The sum of the pseudo header of the transport protocol.
    pub fn pseudo(&self, protocol: IpProtocol) -> Sum {
        let length = self.length as usize - TRANSPORT;
        pseudo_header_v4(self.from, self.to, protocol.0, length as u16)
    }

    /// A packet of `template`, its headers marked.
    #[inline]
    pub fn packet(&self, cx: &mut Cx<'_>, template: &[u8]) -> Option<Packet> {
        packet(cx, template, self.to)
    }
}

/// A frame of `length` zeros with an Ethernet and an IP header, from and to the addresses.
pub fn frame(
    length: u32,
    ether: EthernetHeader,
    (source, destination): (Ipv4Addr, Ipv4Addr),
    protocol: IpProtocol,
) -> Vec<u8> {
    let mut frame = alloc::vec![0; length as usize];
    ether.emit(&mut EthernetFrame::new_unchecked(&mut frame[..]));
    let header = Ipv4Header {
        tos: 0,
        total_len: (frame.len() - IP) as u16,
        ident: 0,
        dont_fragment: false,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 250,
        protocol,
        source,
        destination,
    };
    header.emit(&mut Ipv4Packet::new_unchecked(&mut frame[IP..]));
    frame
}

/// A packet of `template` to an address, its headers marked.
#[inline]
pub fn packet(cx: &mut Cx<'_>, template: &[u8], to: Ipv4Addr) -> Option<Packet> {
    let mut packet = cx.pool().copy(template)?;
    packet.set_network_header(IP, TRANSPORT - IP);
    packet.set_dst_ip(to);
    Some(packet)
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use crate::testing::*;

    const ENDS: &str = "5:5:5:5:5:5, 1.0.0.1, 6:6:6:6:6:6, 2.0.0.2";

    fn rig(class: &str, rate: u32, limit: i32, length: u32, rest: &str) -> Rig {
        Rig::new(&format!(
            "s :: {class}({rate}, {limit}, {length}, {ENDS}, {rest}) -> p :: Puller;"
        ))
    }

    fn pull(rig: &mut Rig, most: usize) -> Vec<Vec<u8>> {
        let packets = rig.pull("p", most);
        for packet in &packets {
            assert_eq!(packet.transport_offset(), Some(34));
            let data = packet.data();
            assert_eq!(
                data[..14],
                *b"\x06\x06\x06\x06\x06\x06\x05\x05\x05\x05\x05\x05\x08\x00"
            );
            assert_eq!(checksum(&data[14..34]), 0);
            let length = (data.len() - 34) as u16;
            let pseudo = [
                &data[26..34],
                &[0, data[23]],
                &length.to_be_bytes(),
                &data[34..],
            ];
            assert_eq!(checksum(&pseudo.concat()), 0);
        }
        packets
            .iter()
            .map(|packet| packet.data().to_vec())
            .collect()
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
                flows
                    .entry(packet[34..38].to_vec())
                    .or_default()
                    .push(packet[47]);
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
        rig.assert_handlers(&[("s.length", "100"), ("s.count", "51")]);
        rig.write("s.active", "false");
        rig.write("s.limit", "-1");
        assert!(pull(&mut rig, 1).is_empty());
    }

    #[test]
    fn the_driver_stops_when_all_packets_are_made() {
        for (class, limit) in [("FastUDPFlows", 10), ("FastTCPFlows", 40)] {
            let mut rig = Rig::new(&format!(
                "s :: {class}(0, {limit}, 60, {ENDS}, 2, 5, STOP true) -> Unqueue -> c :: Collect;"
            ));
            assert_eq!(rig.run(), Status::Stopped, "{class}");
            assert!(rig.data("c").len() >= limit);
            assert_eq!(rig.read("s.stop"), "true");
        }
        let mut rig = rig("FastUDPFlows", 0, 10, 60, "2, 5");
        assert_eq!(rig.pull("p", 64).len(), 10);
        assert_ne!(rig.run(), Status::Stopped);
    }

    #[test]
    fn the_rate_is_held() {
        let mut rig = rig("FastUDPFlows", 100, -1, 60, "2, 5, false");
        assert_eq!(rig.pull("p", 9).len(), 1);
        assert!(rig.pull("p", 9).is_empty());
        rig.pause(55_000_000);
        assert_eq!(rig.pull("p", 9).len(), 5);
        assert_eq!(
            rig.try_write("s.rate", "x").unwrap_err(),
            "rate parameter must be integer >= 0".into()
        );
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
        for (rest, error) in [
            ("60, {}, 0, 5", "FLOWS"),
            ("70000, {}, 1, 5", "LENGTH too large"),
        ] {
            let args = rest.replace("{}", ENDS);
            Rig::refuses(&format!("FastUDPFlows(0, 1, {args}) -> Puller;"), error);
        }
    }
}
