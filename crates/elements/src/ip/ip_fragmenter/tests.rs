use crate::testing::*;

fn rig(args: &str) -> Rig {
    let config = format!(
        "i :: Inject -> MarkIPHeader -> f :: IPFragmenter({args}) -> c :: Collect;
         f[1] -> big :: Collect;"
    );
    Rig::new(&config)
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .bytes()
        .filter_map(|b| (b as char).to_digit(16).map(|d| d as u8))
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] * 16 + pair[1])
        .collect()
}

#[test]
fn options_that_are_not_to_be_copied_stay_with_the_first() {
    let mut rig = rig("40, HONOR_DF false");
    let head = "46000028 00002000 64061486 121a042c 0a000004 01010000";
    rig.push(
        "i",
        &hex(
            "4600002c 00000000 64063482 121a042c 0a000004 01010000 001e0028 00000000 00000000 \
         50000000 8f550000",
        ),
    );
    let first = hex(&format!("{head} 001e0028 00000000 00000000 50000000"));
    let last = hex("45000018 00000002 64063695 121a042c 0a000004 8f550000");
    assert_eq!(rig.data("c"), [first, last]);
    assert_eq!(rig.read("f.fragments"), "2");
}

#[test]
fn options_to_be_copied_are_in_every_fragment() {
    let mut rig = rig("60");
    let mut packet = udp((A, 1), (B, 2), &[7; 80]);
    // No operation, router alert (copied), record route (not copied), end.
    let options = [1, 148, 4, 0, 0, 7, 7, 4, 0, 0, 0, 0];
    packet.splice(20..20, options);
    packet[0] = 0x48;
    packet[3] += 12;
    rig.push("i", &packet);
    let fragments = rig.data("c");
    assert_eq!(fragments[0][20..32], options);
    assert_eq!(fragments[1][0], 0x46);
    assert_eq!(fragments[1][20..24], [148, 4, 0, 0]);
}

#[test]
fn what_fits_passes_unchanged_and_in_order() {
    let mut rig = rig("68");
    let short = udp((A, 1), (B, 2), &[7; 40]);
    let long = udp((A, 1), (B, 2), &[7; 41]);
    rig.push_all("i", &[short.clone(), long, short.clone()]);
    let packets = rig.data("c");
    assert_eq!(packets.len(), 4);
    assert_eq!([&packets[0], &packets[3]], [&short, &short]);
    assert_eq!((packets[1].len(), packets[2].len()), (68, 21));
}

#[test]
fn padding_is_not_fragmented() {
    let mut rig = rig("68");
    let packet = udp((A, 1), (B, 2), &[7; 40]);
    rig.push("i", &[packet.clone(), vec![0; 100]].concat());
    assert_eq!(rig.data("c"), [packet]);
}

#[test]
fn a_mac_header_is_pointed_to_only_where_it_is() {
    // With so much room asked for, the first fragment is a copy.
    for (strip, args, mac) in [
        ("Null -> MarkIPHeader(14)", "68", Some(0)),
        ("Null -> MarkIPHeader(14)", "68, HEADROOM 500", Some(0)),
        ("Strip(14) -> MarkIPHeader", "68", Some(-14)),
        ("Strip(14) -> MarkIPHeader", "68, HEADROOM 500", None),
    ] {
        let config = format!("i :: Inject -> {strip} -> IPFragmenter({args}) -> c :: Collect;");
        let mut rig = Rig::new(&config);
        let frame = [&[9; 14][..], &udp((A, 1), (B, 2), &[7; 100])].concat();
        rig.push_with("i", &frame, |packet| packet.set_mac_header(0));
        let fragments = rig.collected("c");
        assert_eq!(fragments[0].mac_offset(), mac);
        assert_eq!(fragments[1].mac_offset(), None);
    }
}

#[test]
fn dont_fragment_is_obeyed_or_not() {
    let mut packet = udp((A, 1), (B, 2), &[7; 100]);
    packet[6] = 0x40;
    let mut obedient = rig("68");
    for _ in 0..7 {
        obedient.push("i", &packet);
    }
    assert_eq!(obedient.data("big"), vec![packet.clone(); 7]);
    assert_eq!(obedient.read("f.drops"), "7");
    assert_eq!(
        obedient.printed(),
        ["IPFragmenter(68) DF 1.0.0.1 2.0.0.2 len=128"; 5]
    );
    let mut other = rig("68, false");
    other.push("i", &packet);
    let fragments = other.data("c");
    assert_eq!(fragments.len(), 3);
    assert!(fragments.iter().all(|f| f[4..6] == fragments[0][4..6]));
    assert_eq!((fragments[0][6], fragments[2][6]), (0x20, 0));
}

#[test]
fn nonsense_is_refused() {
    let mut rig = rig("27");
    rig.push("i", &udp((A, 1), (B, 2), &[7; 10]));
    rig.push("i", &[0x42; 40]);
    rig.push("i", &[0x4f; 40]);
    rig.push("i", &[&[0x45, 0, 0, 19][..], &[0; 40]].concat());
    assert_eq!(rig.data("big").len(), 4);
    assert_eq!(rig.outstanding(), 0);
    Rig::refuses(
        "Inject -> IPFragmenter(7) -> Collect;",
        "MTU must be at least 8",
    );
}

proptest! {
    #[test]
    fn fragments_make_up_the_packet(
        payload in proptest::collection::vec(any::<u8>(), 0..600),
        mtu in 28usize..300,
        offset in 0u16..100,
        more: bool,
    ) {
        let mut packet = udp((A, 1), (B, 2), &payload);
        let mut ip = Ipv4Packet::new_unchecked(&mut packet[..]);
        ip.set_fragment(false, more, offset * 8);
        ip.fill_checksum();
        let mut rig = rig(&format!("{mtu}"));
        rig.push("i", &packet);
        let fragments = rig.data("c");
        let mut whole = Vec::new();
        for (i, fragment) in fragments.iter().enumerate() {
            prop_assert!(fragment.len() <= mtu);
            prop_assert_eq!(checksum(&fragment[..20]), 0);
            let ip = Ipv4Packet::new_checked(&fragment[..]).unwrap();
            prop_assert_eq!(usize::from(ip.fragment_offset()), usize::from(offset) * 8 + whole.len());
            prop_assert_eq!(ip.more_fragments(), more || i + 1 < fragments.len());
            whole.extend_from_slice(ip.payload());
        }
        prop_assert_eq!(&whole, &packet[20..]);
    }
}
