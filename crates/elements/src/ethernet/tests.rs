//! What holds for every element of the group, and its neighbours in ip and icmp.

use crate::testing::*;

/// Elements that take any packet, each with arguments that make it do its work.
const ELEMENTS: &[&str] = &[
    "ARPPrint(ETHER true)",
    "CheckARPHeader(2)",
    "EnsureEther",
    "EtherVLANEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2, ANNO)",
    "GetEtherAddress(0, src)",
    "HostEtherFilter(1:1:1:1:1:1, true)",
    "ICMPIPEncap(1.0.0.1, 2.0.0.2, timestamp)",
    "IPRateMonitor(PACKETS, 1, 1)",
    "MarkIPCE(true)",
    "RFC2507c",
    "RFC2507d",
    "SetIPDSCP(1)",
    "SetIPECN(ce)",
    "StoreEtherAddress(1:1:1:1:1:1, 3)",
    "StripEtherVLANHeader(-1)",
    "TruncateIPPayload(1)",
    "UnstripIPHeader",
    "VLANDecap",
    "VLANEncap(ANNO, NATIVE_VLAN 5)",
];

proptest! {
    #[test]
    fn no_packet_breaks_an_element(
        element in prop::sample::select(ELEMENTS),
        packets in prop::collection::vec(
            (any::<Vec<u8>>(), prop::option::of((0usize..80, 0usize..64)), any::<[u8; 24]>()),
            1..20,
        ),
        stripped in 0usize..30,
    ) {
        let mut rig = Rig::new(&format!("i :: Inject -> {element} -> Discard;"));
        for (data, header, annotations) in packets {
            rig.push_with("i", &data, |packet| {
                if let Some((at, length)) = header {
                    packet.set_mac_header(at / 2);
                    packet.set_network_header(at, length);
                }
                packet.annotations_mut()[..24].copy_from_slice(&annotations);
                packet.pull(stripped);
            });
        }
        prop_assert_eq!(rig.outstanding(), 0);
    }
}
