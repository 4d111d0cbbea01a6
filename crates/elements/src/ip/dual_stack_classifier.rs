use super::pattern_list::PatternList;
use crate::prelude::*;

/// Classifies packets of IPv4 and of IPv6 by patterns like tcpdump's.
///
/// A packet leaves by the output of the first pattern that it matches, and is dropped if it
/// matches none. IPClassifier's page has the patterns. Addresses and prefixes may be IPv6's, too, as in `src net
/// 2001:db8::/32`; a pattern with an address is about packets of its version, and one without is about both, of which
/// `ip vers 4` and `ip vers 6` are one. `icmp6` is a protocol, whose types are those of ICMPv6. Of an IPv6 packet, `ip
/// proto` is the protocol behind extension headers, `ip tos` and `ip dscp` the traffic class, `ip ttl` the hop limit,
/// and `ip len` the length with its header. An IPv6 packet whose extension headers are wrong is dropped.
///
/// Packets must have their network header marked, by CheckIPHeader or CheckIP6Header. IPv6 packets are compared one by
/// one.
///
/// # Handlers
/// - `pattern0`, `pattern1`, … (read, write): the pattern of an output.
///
/// # Example
/// ```click
/// c :: DualStackClassifier(dst tcp port www or https, icmp6 type echo, src net 2001:db8::/32, -);
/// FromDump(in.pcap) -> k :: Classifier(12/0800, 12/86dd);
/// k[0] -> CheckIPHeader(14) -> c;
/// k[1] -> CheckIP6Header(OFFSET 14) -> c;
/// c[0] -> Discard;
/// c[1] -> Discard;
/// c[2] -> Discard;
/// c[3] -> Discard;
/// ```
///
/// # See also
/// IPClassifier, FlowFirewall, CheckIP6Header
#[derive(Element)]
#[element(ports = "1/-", processing = "h/h", segments, live)]
#[outputs("one for each pattern")]
pub struct DualStackClassifier {
    #[delegate]
    list: PatternList<true>,
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    const V4: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];

    fn rig(patterns: &str) -> Rig {
        let outputs = patterns.split(',').count();
        let mut config = alloc::format!(
            "c :: DualStackClassifier({patterns}); i :: Inject -> k :: Classifier(0/60%f0, -);
             k[0] -> MarkIP6Header -> c; k[1] -> MarkIPHeader -> c;"
        );
        for output in 0..outputs {
            config += &alloc::format!("c[{output}] -> o{output} :: Collect;");
        }
        Rig::new(&config)
    }

    /// The lengths of what came, by output.
    fn counts<const N: usize>(rig: &mut Rig) -> [usize; N] {
        core::array::from_fn(|output| rig.data(&alloc::format!("o{output}")).len())
    }

    #[test]
    fn patterns_are_about_both_versions() {
        let [a6, b6] = ["2001:db8::1", "2001:db8:2::2"].map(ip6::addr);
        let patterns = "dst tcp port 80, src net 2001:db8::/64 and udp, src host 10.0.0.1, icmp6 type echo, ip vers 6";
        let mut rig = rig(patterns);
        let [a, b] = V4;
        let sent = [
            ip6::tcp((a6, 9), (b6, 80), 2, &[]),
            tcp((a, 9), (b, 80), 2, &[]),
            ip6::udp((a6, 9), (b6, 53), &[]),
            udp((a, 9), (b, 53), &[]),
            ip6::icmp(a6, b6, (128, 0, [0; 4]), &[]),
            ip6::udp((b6, 9), (a6, 53), &[]),
            // Of none.
            udp((b, 9), (a, 53), &[]),
        ];
        rig.push_all("i", &sent);
        assert_eq!(counts::<5>(&mut rig), [2, 1, 1, 1, 1]);
        rig.write("c.pattern4", "dst net 2001:db8::/64");
        rig.push_all("i", &sent);
        assert_eq!(counts::<5>(&mut rig), [2, 1, 1, 1, 1]);
        assert!(
            rig.try_write("c.pattern4", "src net 2001:db8::/129")
                .is_err()
        );
        assert_eq!(rig.outstanding(), 0);
    }

    #[test]
    fn a_later_fragment_has_no_ports_and_each_version_its_icmp() {
        let [a, b] = ["2001:db8::1", "2001:db8:2::2"].map(ip6::addr);
        let mut rig = rig("tcp dst port 80, icmp, icmp6, ip frag, ip unfrag");
        let fragment = |offset: u16, upper: &[u8]| {
            let header = [&[6, 0][..], &offset.to_be_bytes(), &[0, 0, 0, 1], upper].concat();
            ip6::packet(44, a, b, &header)
        };
        let segment = ip6::tcp((a, 1000), (b, 80), 16, b"data");
        // The first, a later one, one that is whole all the same, and ICMP of the other version.
        for (packet, output) in [
            (fragment(1, &segment[40..]), 0),
            (fragment(801, &segment[40..]), 3),
            (fragment(800, &segment[40..]), 3),
            (fragment(0, &segment[40..]), 0),
            (ip6::packet(1, a, b, &[8, 0, 0, 0, 0, 0, 0, 0]), 4),
            (ip6::icmp(a, b, (128, 0, [0; 4]), &[]), 2),
            (ping(V4[0], V4[1], &[]), 1),
        ] {
            rig.push("i", &packet);
            let mut expected = [0; 5];
            expected[output] = 1;
            assert_eq!(counts::<5>(&mut rig), expected, "{packet:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        /// IPv4 packets go where IPClassifier sends them, whatever is beside them in the batch, and an IPv6 packet goes
        /// where the IPv4 packet with the same upper layer does.
        #[test]
        fn it_agrees_with_ip_classifier(
            packets in prop::collection::vec((any::<bool>(), 0u8..3, 0u16..4, 0u16..4), 1..64),
        ) {
            let patterns = "tcp src port 1 or 2, udp, dst port 3, tcp, -";
            let mut rig = rig(patterns);
            let mut other = Rig::new(&alloc::format!(
                "i :: Inject -> MarkIPHeader -> c :: IPClassifier({patterns}); c[0] -> o0 :: Collect;
                 c[1] -> o1 :: Collect; c[2] -> o2 :: Collect; c[3] -> o3 :: Collect; c[4] -> o4 :: Collect;"
            ));
            let [a, b] = V4;
            let (mut mixed, mut plain) = (Vec::new(), Vec::new());
            for (is_v6, kind, from, to) in packets {
                let packet = match kind {
                    0 => tcp((a, from), (b, to), 2, &[]),
                    1 => udp((a, from), (b, to), &[]),
                    _ => ping(a, b, &[]),
                };
                mixed.push(if is_v6 && kind < 2 { ip6::from_v4(&packet) } else { packet.clone() });
                plain.push(packet);
            }
            rig.push_all("i", &mixed);
            other.push_all("i", &plain);
            prop_assert_eq!(counts::<5>(&mut rig), counts::<5>(&mut other));
        }

        #[test]
        fn hostile_packets_harm_nothing(
            packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..90), 1..40),
        ) {
            let mut rig = rig("tcp, udp port 53, src net 2001:db8::/32, -");
            for mut packet in packets {
                packet[0] = 0x60 | packet[0] & 0xf;
                rig.push("i", &packet);
            }
        }
    }
}
