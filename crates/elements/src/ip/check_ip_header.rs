use super::header_check::Check;
use crate::prelude::*;

/// Checks IP headers, marks them, and drops packets whose header is wrong.
///
/// A header is right if its version is 4, its length fields fit each other and the packet, its
/// checksum holds, and the source address is not a bad one. A right header is marked, so that
/// other IP elements find it; the packet is cut to the length that the header says; and the
/// destination address annotation is set to the header's destination. The first wrong packet
/// draws a message.
///
/// # Example
/// ```click
/// FromDump(in.pcap)
///     -> CheckIPHeader(OFFSET 14, INTERFACES 18.26.4.9/24 18.32.9.44/28)
///     -> Discard;
/// ```
///
/// # See also
/// CheckIPHeader2, MarkIPHeader, SetIPChecksum, CheckTCPHeader, CheckUDPHeader, CheckICMPHeader
#[derive(Element)]
#[element(ports = "1/1-2", processing = "a/ah", segments)]
#[outputs("right packets", "wrong packets")]
pub struct CheckIPHeader {
    /// Whether to check the checksum.
    #[arg(default = true)]
    checksum: bool,
    #[delegate(configured = set_checksum)]
    check: Check,
}

impl CheckIPHeader {
    fn set_checksum(&mut self, _cx: &mut Cx<'_>, _args: &mut Args<'_>) -> Result<(), Failed> {
        self.check.set_checksum(self.checksum);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    const CONFIG: &str = "i :: Inject -> k :: CheckIPHeader(DETAILS true) -> c :: Collect;
        k[1] -> bad :: Collect;";

    fn packet() -> Vec<u8> {
        let (from, to) = (Ipv4Addr::new(1, 0, 0, 1), Ipv4Addr::new(2, 0, 0, 2));
        udp((from, 5), (to, 6), &[1, 2, 3])
    }

    /// The packet with some bytes of its header changed, and the checksum right.
    fn changed(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut packet = packet();
        change(&mut packet);
        packet[10..12].fill(0);
        let end = (usize::from(packet[0] & 15) * 4).min(packet.len());
        let sum = checksum(&packet[..end]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet
    }

    #[test]
    fn right_packets_are_marked_and_cut() {
        let mut rig = Rig::new(CONFIG);
        let padded = [packet(), Vec::from([0; 9])].concat();
        rig.push("i", &padded);
        let packets = rig.collected("c");
        assert_eq!(packets[0].data(), packet());
        assert_eq!(packets[0].network_offset(), Some(0));
        assert_eq!(packets[0].transport_offset(), Some(20));
        assert_eq!(packets[0].dst_ip(), Ipv4Addr::new(2, 0, 0, 2));
        assert_eq!(rig.read("k.drops"), "0");
    }

    #[test]
    fn wrong_packets_leave_by_output_1_and_are_counted() {
        let mut rig = Rig::new(CONFIG);
        let wrong = [
            packet()[..19].to_vec(),
            changed(|p| p[0] = 0x65),
            changed(|p| p[0] = 0x44),
            changed(|p| p[3] = 19),
            changed(|p| p[3] = 32),
            changed(|p| p[0] = 0x4f),
            {
                let mut packet = packet();
                packet[10] ^= 1;
                packet
            },
        ];
        rig.push_all("i", &wrong);
        assert_eq!(rig.data("bad"), wrong);
        assert!(rig.data("c").is_empty());
        assert_eq!(rig.printed(), ["k: IP header check failed: tiny packet"]);
        let details = "1\ttiny packet\n1\tbad IP version\n1\tbad IP header length\n\
            3\tbad IP length\n1\tbad IP checksum\n0\tbad source address\n";
        assert_eq!(rig.read("k.drop_details"), details);
        assert_eq!(rig.read("k.drops"), "7");
    }

    #[test]
    fn options_count_for_the_checksum() {
        let mut rig = Rig::new(CONFIG);
        let options = changed(|p| {
            p[0] = 0x46;
            p[20] = 7;
        });
        rig.push_all("i", &[options]);
        assert_eq!(rig.data("c").len(), 1);
    }

    #[test]
    fn bad_sources_pass_only_to_good_destinations() {
        let config =
            "i :: Inject -> k :: CheckIPHeader(INTERFACES 1.0.0.9/24 2.0.0.2/32, VERBOSE true)
            -> c :: Collect;";
        let mut rig = Rig::new(config);
        for source in [[1, 0, 0, 255], [0; 4], [255; 4]] {
            rig.push(
                "i",
                &changed(|p| {
                    p[12..16].copy_from_slice(&source);
                    p[19] = 3;
                }),
            );
            rig.push("i", &changed(|p| p[12..16].copy_from_slice(&source)));
        }
        assert_eq!(rig.data("c").len(), 3);
        assert_eq!(rig.read("k.drops"), "3");
        assert_eq!(rig.printed().len(), 3);
        assert!(rig.try_read("k.drop_details").is_err());
    }

    #[test]
    fn the_offset_may_be_given_alone() {
        let mut rig = Rig::new("i :: Inject -> CheckIPHeader2(2) -> c :: Collect;");
        let mut frame = [[0, 0].to_vec(), packet()].concat();
        frame[12] ^= 1;
        rig.push("i", &frame);
        assert_eq!(rig.collected("c")[0].network_offset(), Some(2));
        rig.push("i", &[0]);
        assert_eq!(rig.read("CheckIPHeader2@2.drops"), "1");
        Rig::refuses(
            "Inject -> CheckIPHeader(1, 2) -> Collect;",
            "too many arguments",
        );
    }

    proptest! {
        /// Elements that rely on what the check found out do as elements that do not: Paint, which
        /// forgets all that is known of packets, makes no difference.
        #[test]
        fn what_was_found_out_is_so(
            kinds in proptest::collection::vec((0u8..5, any::<bool>(), 0usize..3), 1..80),
        ) {
            let run = |between: &str| {
                let path = [
                    "i :: Inject -> Queue -> Unqueue(64)", "k :: CheckIPHeader", "GetIPAddress(16)", "DropBroadcasts",
                    "IPGWOptions(9.9.9.9)", "FixIPSrc(8.8.8.8)", "DecIPTTL", "IPFragmenter(1500)",
                ]
                .join(between);
                let config = alloc::format!("{path} -> c :: Collect; k[1] -> bad :: Collect;");
                let mut rig = Rig::new(&config);
                for (kind, fix, length) in &kinds {
                    let payload = alloc::vec![7; [3, 1400, 1600][*length]];
                    let (from, to) = ([1, 0, 0, 1].into(), [2, 0, 0, *kind].into());
                    let mut data = udp((from, 5), (to, 6), &payload);
                    match kind {
                        // A route to be recorded, in what were the ports.
                        1 => {
                            data[0] = 0x47;
                            data[20..28].copy_from_slice(&[7, 7, 4, 0, 0, 0, 0, 0]);
                        }
                        2 => data[8] = 0,
                        3 => data[0] = 0x44,
                        _ => {}
                    }
                    data[10..12].fill(0);
                    let end = usize::from(data[0] & 15) * 4;
                    let sum = checksum(&data[..end]);
                    data[10..12].copy_from_slice(&sum.to_be_bytes());
                    rig.push_with("i", &data, |packet| {
                        packet.set_anno(FIX_IP_SRC, u32::from(*fix));
                        if *kind == 4 {
                            packet.set_packet_type(PacketType::Broadcast);
                        }
                    });
                }
                rig.run();
                (rig.data("c"), rig.data("bad"))
            };
            let relying = run(" -> ");
            prop_assert_eq!(&relying, &run(" -> Paint(0) -> "));
            let good = kinds.iter().filter(|kind| kind.0 < 2 && kind.2 < 2).count();
            prop_assert!(relying.0.len() >= good);
        }
    }
}
