use crate::prelude::*;

/// Sets packets' destination address annotation to a fixed address.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> Strip(14) -> SetIPAddress(18.26.4.1)
///     -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> Discard;
/// ```
///
/// # See also
/// StoreIPAddress, GetIPAddress
#[derive(Element)]
#[element(ports = "1/1", segments, live)]
pub struct SetIPAddress {
    /// The address.
    #[arg(
        mandatory,
        name = "IPADDR",
        handler = "addr",
        read,
        write,
        error = "expected IP address"
    )]
    address: Ipv4Addr,
    /// The annotation to set.
    #[arg(default = AnnoOf::new(DST_IP), default_text = "DST_IP")]
    anno: AnnoOf<4>,
}

impl Element for SetIPAddress {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        packet.set_anno(self.anno.anno(), u32::from_ne_bytes(self.address.octets()));
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn the_annotation_is_set() {
        let config = "i :: Inject -> s :: SetIPAddress(1.2.3.4)
            -> SetIPAddress(5.6.7.8, ANNO 20) -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.push("i", &[]);
        let packets = rig.collected("c");
        assert_eq!(packets[0].dst_ip(), Ipv4Addr::new(1, 2, 3, 4));
        assert_eq!(packets[0].annotations()[20..24], [5, 6, 7, 8]);
        rig.write("s.addr", "9.9.9.9");
        assert_eq!(rig.read("s.addr"), "9.9.9.9");
        let error = rig.try_write("s.addr", "zork").unwrap_err();
        assert_eq!(error, "expected IP address".into());
        rig.write("s.config", "8.8.8.8");
        assert_eq!(rig.read("s.addr"), "8.8.8.8");
    }
}
