//! The elements together: tunnels from end to end, and what an attacker may try.

use std::println;

use super::associations::AssociationOwner;
use super::radix_ipsec_lookup::RadixIPsecLookup;
use crate::testing::*;

/// Bytes from hexadecimal digits.
pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .bytes()
        .filter(|digit| !digit.is_ascii_whitespace())
        .collect();
    let pairs = digits
        .chunks(2)
        .map(|pair| core::str::from_utf8(pair).unwrap());
    pairs
        .map(|pair| u8::from_str_radix(pair, 16).unwrap())
        .collect()
}

const KEY: &str = r"\<0123456789abcdeffedcba9876543210>";
const AUTH: &str = r"\<00112233445566778899aabbccddeeff00112233>";
const HERE: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
const THERE: Ipv4Addr = Ipv4Addr::new(10, 2, 0, 1);

/// What stands between the tunnel's elements, both ways.
struct Suite {
    wrap: &'static str,
    unwrap: &'static str,
}

/// As the standards have it.
const STANDARD: Suite = Suite {
    wrap: "IPsecESPEncap(BLOCK 16) -> IPsecAES(1, IGNORE 0, BLOCK 16) -> IPsecAuthHMACSHA1(0)",
    unwrap: "IPsecAuthHMACSHA1(1) -> IPsecAES(0, IGNORE 0, BLOCK 16) -> IPsecESPUnencap(BLOCK 16)",
};

/// As Click's example has it: the tag is computed first, and AES works by half blocks.
const CLICK: Suite = Suite {
    wrap: "IPsecESPEncap -> IPsecAuthHMACSHA1(0) -> IPsecAES(1)",
    unwrap: "IPsecAES(0) -> IPsecAuthHMACSHA1(1) -> IPsecESPUnencap",
};

const DES: Suite = Suite {
    wrap: "IPsecESPEncap -> IPsecDES(1, IGNORE 0) -> IPsecAuthHMACSHA1(0)",
    unwrap: "IPsecAuthHMACSHA1(1) -> IPsecDES(0, IGNORE 0) -> IPsecESPUnencap",
};

/// A gateway: what is pushed into `in` leaves by `wire` in a tunnel, what comes by `back` out of
/// it by `out`.
fn gateway(suite: &Suite, association: &str) -> Rig {
    let Suite { wrap, unwrap } = suite;
    let names = ["IPsecESPEncap", "IPsecESPUnencap", "IPsecAuthHMACSHA1(1)"];
    let [wrap, unwrap] = [wrap, unwrap].map(|chain| {
        let named = ["encap", "unencap", "auth"].iter().zip(names);
        named.fold(String::from(*chain), |chain, (name, class)| {
            chain.replace(class, &format!("{name} :: {class}"))
        })
    });
    Rig::new(&format!(
        "in :: Inject -> MarkIPHeader -> GetIPAddress(16) -> rt :: RadixIPsecLookup(
             192.0.2.2 0, 192.0.2.1 3, 10.2.0.0/16 192.0.2.1 1 {association});
         back :: Inject -> MarkIPHeader -> GetIPAddress(16) -> rt;
         rt[0] -> StripIPHeader -> {unwrap} -> out :: Collect;
         rt[1] -> {wrap} -> IPsecEncap(50, SRC 192.0.2.9) -> wire :: Collect;
         rt[2] -> local :: Collect;
         rt[3] -> Discard;"
    ))
}

fn association(start: u32, window: u8) -> String {
    format!("234 {KEY} {AUTH} {start} {window}")
}

/// The packet on its way to the other side of the tunnel.
fn arriving(mut packet: Vec<u8>) -> Vec<u8> {
    packet[16..20].copy_from_slice(&[192, 0, 2, 2]);
    packet
}

fn wrapped(rig: &mut Rig, packet: &[u8]) -> Vec<u8> {
    rig.push("in", packet);
    rig.data("wire").remove(0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn what_enters_a_tunnel_leaves_it(
        payloads in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..1400), 1..10),
        standard in 0usize..3,
    ) {
        let suite = [&STANDARD, &CLICK, &DES][standard];
        let mut rig = gateway(suite, &association(1, 64));
        for payload in payloads {
            let packet = udp((HERE, 1), (THERE, 2), &payload);
            let outer = wrapped(&mut rig, &packet);
            prop_assert_eq!(checksum(&outer[..20]), 0);
            prop_assert_eq!((outer[9], outer[20..24].to_vec()), (50, 234u32.to_be_bytes().to_vec()));
            // Nothing of the packet can be read.
            let inner = &packet[..packet.len().min(32)];
            prop_assert!(!outer.windows(inner.len()).any(|window| window == inner));
            rig.push("back", &arriving(outer));
            prop_assert_eq!(rig.data("out"), [packet]);
        }
        prop_assert_eq!(rig.outstanding(), 0);
    }

    #[test]
    fn no_changed_packet_leaves_a_tunnel(
        payload in proptest::collection::vec(any::<u8>(), 0..100),
        at: prop::sample::Index,
        flip in 1u8..,
        cut in 0usize..40,
    ) {
        let mut rig = gateway(&STANDARD, &association(1, 64));
        let outer = arriving(wrapped(&mut rig, &udp((HERE, 1), (THERE, 2), &payload)));
        let mut changed = outer.clone();
        // The index chooses the keys; the rest is authenticated.
        let at = 24 + at.index(outer.len() - 24);
        changed[at] ^= flip;
        rig.push("back", &changed);
        if cut > 0 {
            rig.push("back", &outer[..outer.len() - cut]);
        }
        prop_assert_eq!(rig.data("out").len(), 0);
        rig.push("back", &outer);
        prop_assert_eq!(rig.data("out").len(), 1);
        prop_assert_eq!(rig.outstanding(), 0);
    }

    #[test]
    fn no_bytes_make_it_fail(
        packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..120), 1..20),
        spi in prop_oneof![Just(234u32), any::<u32>()],
    ) {
        for suite in [&STANDARD, &CLICK, &DES] {
            let mut rig = gateway(suite, &association(1, 64));
            for packet in &packets {
                let head = [&[0x45, 0, 0, 0, 0, 0, 0, 0, 9, 50][..], &[0; 6], &[192, 0, 2, 2]].concat();
                let esp = [&head[..], &spi.to_be_bytes(), packet].concat();
                rig.push("back", &esp);
                rig.push("back", &esp[..esp.len().min(packet.len())]);
                rig.push("in", packet);
            }
            rig.collected("out");
            rig.collected("wire");
            rig.collected("local");
            prop_assert_eq!(rig.outstanding(), 0);
        }
    }
}

#[test]
fn packets_are_what_rfc_3602_has() {
    // Section 4, case 5, but for the initialization vector, which is the sender's choice: the
    // receiver's side of it.
    let mut rig = Rig::new(
        r"back :: Inject -> MarkIPHeader -> GetIPAddress(16) -> rt :: RadixIPsecLookup(
             192.168.123.100 0, 0.0.0.0/0 1 17185
                 \<90d382b410eeba7ad938c46cec1a82bf> \<0123456789012345678901234567890123456789> 1 64);
         rt[0] -> StripIPHeader -> IPsecAES(0, IGNORE 0, BLOCK 16)
             -> IPsecESPUnencap(BLOCK 16) -> out :: Collect;
         rt[1] -> Discard; rt[2] -> Discard;",
    );
    let packet = hex("4500007c08f200004032f9a5c0a87b03c0a87b64 0000432100000001
         e96e8c08ab465763fd098d45dd3ff893
         f663c25d325c18c6a9453e194e120849a4870b66cc6b9965330013b4898dc856
         a4699e523a55db080b59ec3a8e4b7e52775b07d1db34ed9c538ab50c551b874a
         a269add047ad2d5913ac19b7cfbad4a6");
    rig.push("back", &packet);
    let expected = hex(
        "08000ebda70a00008e9c083db95b070008090a0b0c0d0e0f1011121314151617
         18191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f3031323334353637",
    );
    assert_eq!(rig.data("out"), [expected]);
}

#[test]
fn headers_and_padding_are_those_of_rfc_4303() {
    let mut rig = Rig::new(&format!(
        "in :: Inject -> MarkIPHeader -> GetIPAddress(16)
             -> rt :: RadixIPsecLookup(0.0.0.0/0 192.0.2.1 1 {});
         rt[0] -> Discard;
         rt[1] -> t :: Tee -> IPsecESPEncap(BLOCK 16) -> tunnel :: Collect;
         t[1] -> StripIPHeader -> IPsecESPEncap -> transport :: Collect;",
        association(7, 64),
    ));
    for n in 0..40 {
        let packet = udp((HERE, 1), (THERE, 2), &[9; 100][..n]);
        rig.push("in", &packet);
        let (tunnel, transport) = (
            rig.data("tunnel").remove(0),
            rig.data("transport").remove(0),
        );
        for (esp, block, inner, next) in [
            (&tunnel, 16, &packet[..], 4),
            (&transport, 8, &packet[20..], 17),
        ] {
            assert_eq!(esp[..4], 234u32.to_be_bytes());
            assert_eq!(esp[8 + block..][..inner.len()], *inner);
            let trailer = &esp[8 + block + inner.len()..];
            assert_eq!((esp.len() - 8) % block, 0);
            let padding = trailer.len() - 2;
            assert!(padding < block);
            assert!(
                trailer[..padding]
                    .iter()
                    .zip(1..)
                    .all(|(byte, i)| *byte == i)
            );
            assert_eq!(trailer[padding..], [padding as u8, next]);
        }
        let number = |esp: &[u8]| u32::from_be_bytes(*esp[4..].first_chunk().unwrap());
        assert_eq!(
            (number(&tunnel), number(&transport)),
            (7 + 2 * n as u32, 8 + 2 * n as u32)
        );
    }
}

#[test]
fn replayed_packets_are_dropped() {
    let mut rig = gateway(&STANDARD, &association(300, 4));
    let packets: Vec<_> = (0..8)
        .map(|n| arriving(wrapped(&mut rig, &ping(HERE, THERE, &[n]))))
        .collect();
    for (n, passes) in [
        (0, true),
        (0, false),
        (2, true),
        (1, true),
        (1, false),
        (7, true),
    ] {
        rig.push("back", &packets[n]);
        assert_eq!(rig.data("out").len(), usize::from(passes), "{n}");
    }
    // Outside of the window now.
    rig.push("back", &packets[3]);
    rig.push("back", &packets[4]);
    assert_eq!(rig.data("out").len(), 1);
    assert_eq!(rig.read("unencap.replays"), "3");
    let printed = rig.printed().join("\n");
    assert_contains(&printed, "This packet is already seen...");
    assert_contains(&printed, "This packet is too old to be accepted");
    // A packet that is not authentic does not move the window.
    let mut forged = packets[5].clone();
    forged[24..28].copy_from_slice(&9999u32.to_be_bytes());
    rig.push("back", &forged);
    rig.push("back", &packets[5]);
    assert_eq!(rig.data("out").len(), 1);
    assert_eq!(rig.read("auth.drops"), "1");
}

#[test]
fn a_sequence_number_is_never_used_twice() {
    let mut rig = gateway(&STANDARD, &association(1, 64));
    let id = rig.router.find("rt").unwrap();
    rig.router.with(id, |element, _| {
        let element: &mut dyn core::any::Any = element;
        let lookup = element.downcast_mut::<RadixIPsecLookup>().unwrap();
        let handle = lookup.associations().find(234).unwrap();
        lookup.associations().get(handle).unwrap().skip_to(u32::MAX);
    });
    for passes in [true, false, false] {
        rig.push("in", &ping(HERE, THERE, &[]));
        assert_eq!(rig.data("wire").len(), usize::from(passes));
    }
    let printed = rig.printed();
    assert_eq!(
        printed,
        ["IPsecESPEncap: sequence numbers used up, association needs new keys"]
    );
}

#[test]
fn only_esp_packets_come_out_of_tunnels() {
    let mut rig = gateway(&STANDARD, &association(1, 64));
    let here = Ipv4Addr::new(192, 0, 2, 2);
    let local = ping(HERE, here, b"local");
    rig.push("back", &local);
    assert_eq!(rig.data("local"), [local]);
    let outer = arriving(wrapped(&mut rig, &ping(HERE, THERE, &[])));
    let mut unknown = outer.clone();
    unknown[23] ^= 1;
    let mut fragment = outer.clone();
    fragment[6] = 0x20;
    for packet in [&unknown, &fragment, &outer[..22].to_vec()] {
        rig.push("back", packet);
    }
    assert_eq!(rig.data("out").len() + rig.data("local").len(), 0);
    assert_eq!(rig.printed(), ["Invalid SPI 235, Dropping packet"]);
    rig.push("in", &ping(HERE, Ipv4Addr::new(9, 9, 9, 9), &[]));
    assert_eq!(rig.printed(), ["IPsecRouteTable: no route for 9.9.9.9"]);
    assert_eq!(rig.outstanding(), 0);
}

#[test]
fn packets_without_association_are_dropped() {
    for chain in [
        "IPsecESPEncap",
        "IPsecESPUnencap",
        "IPsecAES(1)",
        "IPsecDES(0)",
        "IPsecAuthHMACSHA1(0)",
        "IPsecAuthHMACSHA1(1)",
    ] {
        let mut rig = Rig::new(&format!("i :: Inject -> {chain} -> c :: Collect;"));
        for forged in [0, 1 << 32, u64::MAX, 5 << 32 | 0xffff] {
            rig.push_with(
                "i",
                &[1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
                |packet| {
                    packet.set_anno_u64(packet::anno::IPSEC_SA_DATA_REFERENCE, forged);
                },
            );
        }
        assert_eq!(rig.data("c").len(), 0, "{chain}");
        assert_eq!(rig.outstanding(), 0);
    }
    let mut rig = Rig::new(
        "i :: Inject -> GetIPAddress(16) -> rt :: RadixIPsecLookup(0/0 1);
         rt[0] -> Discard; rt[1] -> c :: Collect;",
    );
    rig.push("i", &ping(HERE, THERE, &[]));
    assert_eq!(rig.data("c").len(), 0);
    assert_eq!(
        rig.printed(),
        ["No Ipsec tunnel for 10.2.0.1. Wrong tunnel setup"]
    );
}

#[test]
fn checksums_without_key_are_added_and_verified() {
    let mut rig = Rig::new(
        "i :: Inject -> IPsecAuthSHA1(0) -> t :: Tee -> v :: IPsecAuthSHA1(1) -> c :: Collect;
         t[1] -> tagged :: Collect;
         j :: Inject -> v; v[1] -> wrong :: Collect;",
    );
    rig.push("i", b"abc");
    let tagged = rig.data("tagged").remove(0);
    assert_eq!(
        tagged,
        [&b"abc"[..], &hex("a9993e364706816aba3e2571")].concat()
    );
    assert_eq!(rig.data("c"), [b"abc"]);
    rig.push("j", &[&b"abd"[..], &tagged[3..]].concat());
    rig.push("j", b"short");
    assert_eq!(
        (rig.data("wrong").len(), rig.read("v.drops")),
        (2, "2".into())
    );
    assert_eq!(rig.printed(), ["Invalid SHA1 authentication digest"]);
}

#[test]
fn associations_can_be_kept_elsewhere() {
    let (out, back) = (
        association(1, 64),
        association(5, 64).replacen("234", "235", 1),
    );
    let mut rig = Rig::new(&format!(
        "sa :: SATable({out}, {back});
         in :: Inject -> MarkIPHeader -> GetIPAddress(16)
             -> rt :: RadixIPsecLookup(192.0.2.2 0, 10.2.0.0/16 192.0.2.1 1 234, SATABLE sa);
         back :: Inject -> MarkIPHeader -> GetIPAddress(16) -> rt;
         rt[0] -> StripIPHeader -> IPsecAuthHMACSHA1(1) -> out :: Collect;
         rt[1] -> IPsecESPEncap -> IPsecAuthHMACSHA1(0) -> IPsecEncap(50) -> wire :: Collect;
         rt[2] -> Discard;"
    ));
    let packet = ping(HERE, THERE, &[]);
    let outer = wrapped(&mut rig, &packet);
    rig.push("back", &arriving(outer.clone()));
    assert_eq!(rig.data("out").len(), 1);
    assert_eq!(rig.read("sa.table"), "234\t2\t1\n235\t5\t5\n");
    rig.write("sa.remove", "234");
    rig.push("in", &packet);
    rig.push("back", &arriving(outer.clone()));
    assert_eq!(rig.data("out").len() + rig.data("wire").len(), 0);
    rig.write("sa.add", &association(8, 64));
    assert!(rig.try_write("sa.add", &association(9, 64)).is_err());
    assert!(rig.try_write("sa.remove", "99").is_err());
    assert_eq!(rig.read("sa.count"), "2");
    let outer = wrapped(&mut rig, &packet);
    assert_eq!(outer[24..28], 8u32.to_be_bytes());
    // The slot went to another association: a packet that still refers to the old one finds none.
    rig.push("back", &arriving(outer));
    assert_eq!(rig.data("out").len(), 1);
}

#[test]
fn tables_are_bounded() {
    let mut rig = Rig::new("sa :: SATable; Idle -> Discard;");
    for spi in 1..=4096 {
        rig.write(
            "sa.add",
            &association(1, 64).replacen("234", &format!("{spi}"), 1),
        );
    }
    let more = association(1, 64).replacen("234", "5000", 1);
    let refused = format!("{:?}", rig.try_write("sa.add", &more).unwrap_err());
    assert_contains(&refused, "too many security associations");
    rig.write("sa.remove", "77");
    rig.write("sa.add", &more);
}

#[test]
fn routes_come_and_go_with_their_associations() {
    let mut rig = gateway(&STANDARD, &association(1, 64));
    let route = |spi: &str| {
        format!(
            "10.3.0.0/16 192.0.2.7 1 {}",
            association(1, 64).replacen("234", spi, 1)
        )
    };
    rig.write("rt.add", &route("236"));
    // The same association again.
    rig.write("rt.add", &route("234").replacen("10.3", "10.4", 1));
    let table = rig.read("rt.table");
    assert_contains(&table, "10.3.0.0/16\t\t192.0.2.7\t1\tSPI 236\n");
    assert!(!table.contains("0123"), "{table}");
    assert_eq!(rig.read("rt.associations").lines().count(), 2);
    let id = rig.router.find("rt");
    for (address, hop) in [
        ("10.3.1.1", "1 192.0.2.7"),
        ("192.0.2.1", "3"),
        ("9.9.9.9", "-1"),
    ] {
        assert_eq!(rig.router.read(id, "lookup", address), Ok(hop.into()));
    }
    let conflict = format!("{:?}", rig.try_write("rt.add", &route("237")).unwrap_err());
    assert_contains(
        &conflict,
        "conflict with existing route ‘10.3.0.0/16 192.0.2.7 1’",
    );
    assert_eq!(rig.read("rt.associations").lines().count(), 2);
    // All or nothing; what is taken back still has its association.
    let commands = format!("remove 10.3.0.0/16\nset {}\nremove 9.9.9.9\n", route("238"));
    assert!(rig.try_write("rt.ctrl", &commands).is_err());
    assert_eq!(rig.read("rt.table"), table);
    assert_eq!(rig.read("rt.associations").lines().count(), 2);
    rig.write("rt.set", &route("239"));
    assert!(rig.read("rt.associations").contains("239\t1\t1\n"));
    assert!(!rig.read("rt.associations").contains("236"));
    assert!(
        rig.try_write("rt.remove", "10.3.0.0/16 192.0.2.8 1")
            .is_err()
    );
    rig.write("rt.remove", "10.3.0.0/16 192.0.2.7 1");
    rig.write("rt.remove", "10.2.0.0/16");
    assert_eq!(rig.read("rt.associations"), "234\t1\t1\n");
    rig.write("rt.remove", "10.4.0.0/16");
    assert_eq!(rig.read("rt.associations"), "");
}

#[test]
fn counters_go_on_over_a_hotswap() {
    let config = |key: &str| {
        format!(
            "in :: Inject -> GetIPAddress(16) -> rt :: RadixIPsecLookup(0/0 1 {});
             rt[0] -> Discard; rt[1] -> IPsecESPEncap -> wire :: Collect;",
            association(1, 64).replacen(KEY, key, 1)
        )
    };
    let mut rig = Rig::new(&config(KEY));
    for _ in 0..3 {
        rig.push("in", &ping(HERE, THERE, &[]));
    }
    rig.swap(&config(KEY));
    assert_eq!(rig.read("rt.associations"), "234\t4\t1\n");
    rig.swap(&config(r"\<ffffffffffffffffffffffffffffffff>"));
    assert_eq!(rig.read("rt.associations"), "234\t1\t1\n");
}

#[test]
fn wrong_arguments_are_refused() {
    let tail = "-> Discard;";
    let route =
        |text: &str| format!("Idle -> rt :: RadixIPsecLookup({text}) {tail} rt[1] -> Discard;");
    for (config, error) in [
        (
            route("10.0.0.1"),
            "argument 1 should be 'ADDR/MASK [GATEWAY] OUTPUT'",
        ),
        (
            route("10.0.0.1 7"),
            "argument 1 should be 'ADDR/MASK [GATEWAY] OUTPUT'",
        ),
        (
            route("0/0 1 5 a b 1 64"),
            "key is text: write hexadecimal digits as",
        ),
        (
            route(&format!("0/0 1 5 \"xyz\" {AUTH} 1 64")),
            "ENCRYPT_KEY: key has bad length",
        ),
        (
            route(&format!("0/0 1 5 {KEY} \"xyz\" 1 64")),
            "AUTH_KEY: key has bad length",
        ),
        (
            route(&format!("0/0 1 0 {KEY} {AUTH} 1 64")),
            "SPI: must not be 0",
        ),
        (
            route(&format!("0/0 1 5 {KEY} {AUTH} 0 64")),
            "REPLAY: must not be 0",
        ),
        (
            route(&format!("0/0 1 5 {KEY} {AUTH} 1")),
            "OOSIZE: required argument missing",
        ),
        (route(&format!("0/0 1 5 {KEY} {AUTH} 1 256")), "OOSIZE"),
        (
            route("0/0 1 5, SATABLE rt"),
            "element type mismatch, expected SATable",
        ),
        ("SATable(x);".into(), "argument 1: "),
        (
            format!("Idle -> IPsecESPEncap(BLOCK 12) {tail}"),
            "should be 8 or 16",
        ),
        (format!("Idle -> IPsecEncap(300) {tail}"), "bad IP protocol"),
    ] {
        let errors = Rig::errors(&config);
        assert!(errors.contains(error), "{config}\n{errors}");
        println!("{errors}");
    }
}
