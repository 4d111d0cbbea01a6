use super::encap::Encap;
use crate::prelude::*;

/// Makes packets the data of ICMP echo requests.
///
/// The sequence number counts up from 1 and skips 0. The IP identification is the same number. The
/// IP header is marked, and the destination address annotation set to the destination.
///
/// # Example
/// ```click
/// RatedSource(DATA hello, RATE 1, LIMIT 3, STOP true)
///     -> ICMPPingEncap(1.0.0.1, 2.0.0.2) -> IPPrint -> Discard;
/// ```
///
/// # See also
/// ICMPPingSource, ICMPPingResponder, ICMPPingRewriter, ICMPIPEncap
#[derive(Element)]
#[element(ports = "1/1")]
pub struct ICMPPingEncap {
    #[delegate(configured = complete)]
    encap: Encap,
    /// The ICMP identifier.
    #[arg(default = 0)]
    identifier: u16,
}

impl ICMPPingEncap {
    fn complete(&mut self, cx: &mut Cx<'_>, _args: &mut Args<'_>) -> Result<(), Failed> {
        self.encap.ident = self.identifier;
        self.encap.make_template(cx);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    fn rig(arguments: &str) -> Rig {
        let config = format!("i :: Inject -> e :: ICMPPingEncap({arguments}) -> c :: Collect;");
        Rig::new(&config)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn both_checksums_hold(data: Vec<u8>, ident: u16) {
            let mut rig = rig(&format!("1.0.0.1, 2.0.0.2, IDENTIFIER {ident}"));
            rig.push("i", &data);
            let packets = rig.collected("c");
            let packet = packets[0].data();
            prop_assert_eq!(checksum(&packet[..20]), 0);
            prop_assert_eq!(checksum(&packet[20..]), 0);
            let length = (28 + data.len() as u16).to_be_bytes();
            let header = [0x45, 0, length[0], length[1], 0, 1, 0, 0, 255, 1];
            prop_assert_eq!(&packet[..10], &header);
            prop_assert_eq!(&packet[12..22], &[1, 0, 0, 1, 2, 0, 0, 2, 8, 0]);
            prop_assert_eq!(&packet[24..26], &ident.to_be_bytes());
            prop_assert_eq!(&packet[28..], &data[..]);
        }
    }

    #[test]
    fn sequence_numbers_count_up_and_leave_out_zero() {
        let mut rig = rig("1.0.0.1, 2.0.0.2");
        for number in [1, 2, 3].into_iter().chain(4..=u16::MAX).chain([1, 2]) {
            rig.push("i", &[]);
            let packets = rig.collected("c");
            assert_eq!(packets[0].data()[4..6], number.to_be_bytes());
            assert_eq!(packets[0].data()[26..28], number.to_be_bytes());
            assert_eq!(packets[0].dst_ip(), Ipv4Addr::new(2, 0, 0, 2));
            assert_eq!(packets[0].transport_offset(), Some(20));
        }
    }

    #[test]
    fn handlers_change_the_addresses() {
        let mut rig = rig("1.0.0.1, 2.0.0.2");
        rig.write("e.src", "3.0.0.3");
        rig.write("e.dst", "4.0.0.4");
        rig.assert_handlers(&[("e.src", "3.0.0.3"), ("e.dst", "4.0.0.4")]);
        assert_eq!(rig.try_write("e.dst", "zork"), Err("syntax error".into()));
        rig.push("i", &[]);
        let packet = rig.data("c").remove(0);
        assert_eq!(packet[12..20], [3, 0, 0, 3, 4, 0, 0, 4]);
        assert_eq!(checksum(&packet[..20]), 0);
    }
}
