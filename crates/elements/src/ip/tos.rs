//! The type of service of IP packets.

use crate::prelude::*;

/// The marked IP header, if there is one.
#[inline(always)]
pub(crate) fn header(packet: &mut Packet) -> Option<Ipv4Packet<&mut [u8]>> {
    let header = packet.network_header_mut()?;
    (header.len() >= 20).then(|| Ipv4Packet::new_unchecked(header))
}

/// Checks a differentiated services code point.
pub(crate) fn check_code_point(dscp: u32) -> Result<(), &'static str> {
    if dscp > 63 {
        return Err("diffserv code point out of range");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    fn packet(tos: u8, ident: u16) -> Vec<u8> {
        let mut packet = udp(
            (Ipv4Addr::new(1, 0, 0, 1), 5),
            (Ipv4Addr::new(2, 0, 0, 2), 6),
            &[],
        );
        packet[1] = tos;
        packet[4..6].copy_from_slice(&ident.to_be_bytes());
        packet[10..12].fill(0);
        let sum = checksum(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet
    }

    fn rig(element: &str) -> Rig {
        Rig::new(&format!(
            "i :: Inject -> MarkIPHeader -> e :: {element} -> c :: Collect;"
        ))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn checksums_are_as_if_computed_anew(ident: u16, code_point in 0u8..64, ecn in 0u8..4) {
            let mut dscp = rig(&format!("SetIPDSCP({code_point})"));
            let mut ecn_rig = rig(&format!("SetIPECN({ecn})"));
            let mut ce = rig("MarkIPCE(true)");
            let packets: Vec<_> = (0..=255).map(|tos| packet(tos, ident)).collect();
            for (rig, new) in [
                (&mut dscp, &(|tos: u8| code_point << 2 | tos & 3) as &dyn Fn(u8) -> u8),
                (&mut ecn_rig, &|tos| tos & 0xfc | ecn),
                (&mut ce, &|tos| tos | 3),
            ] {
                rig.push_all("i", &packets);
                let expected: Vec<_> = (0..=255).map(|tos| packet(new(tos), ident)).collect();
                prop_assert_eq!(rig.data("c"), expected);
            }
        }
    }

    #[test]
    fn only_capable_transports_are_marked_without_force() {
        let mut rig = rig("MarkIPCE");
        rig.push_all(
            "i",
            &[packet(0xb8, 1), packet(1, 2), packet(2, 3), packet(3, 4)],
        );
        assert_eq!(rig.data("c"), [packet(3, 2), packet(3, 3), packet(3, 4)]);
        assert_eq!(rig.read("e.drops"), "1");
        let mut bare = Rig::new("i :: Inject -> e :: MarkIPCE(true) -> c :: Collect;");
        bare.push("i", &packet(1, 1));
        assert_eq!(bare.read("e.drops"), "1");
    }

    #[test]
    fn handlers_change_the_fields() {
        let mut dscp = rig("SetIPDSCP(DSCP 10)");
        dscp.write("e.dscp", "0x2");
        assert_eq!(dscp.read("e.dscp"), "2");
        assert_eq!(dscp.read("e.config"), "DSCP 0x2");
        let refused = dscp.try_write("e.dscp", "64");
        assert_eq!(refused, Err("diffserv code point out of range".into()));
        assert_eq!(dscp.read("e.config"), "DSCP 0x2");
        let mut ecn = rig("SetIPECN(no)");
        for text in ["ECT(1)", "ect2", "CE", "-", "1"] {
            ecn.write("e.ecn", text);
            assert_eq!(ecn.read("e.ecn"), text);
            assert_eq!(ecn.read("e.config"), text);
        }
        assert_eq!(ecn.try_write("e.ecn", "4"), Err("bad ECN argument".into()));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (element, error) in [
            ("SetIPDSCP(64)", "diffserv code point out of range"),
            ("SetIPECN(maybe)", "bad ECN argument"),
        ] {
            Rig::refuses(&format!("Inject -> {element} -> Collect;"), error);
        }
    }

    #[test]
    fn packets_without_a_header_pass_unchanged() {
        let config = "i :: Inject -> SetIPDSCP(1) -> SetIPECN(ce) -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.push("i", &packet(0, 0));
        rig.push_with("i", &[0x45; 19], |packet| packet.set_network_header(0, 20));
        assert_eq!(rig.data("c"), [packet(0, 0), [0x45; 19].to_vec()]);
    }
}
