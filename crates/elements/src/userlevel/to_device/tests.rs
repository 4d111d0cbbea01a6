//! FromDevice and ToDevice over a veth pair, in a network namespace of each test's own.

use crate::testing::*;

/// An Ethernet type for local experiments (IEEE 802), so that the host's own frames stay out.
const KIND: u16 = 0x88b5;
const FILTER: &str = "PROTOCOL 0x88b5";

fn frame(length: usize) -> Vec<u8> {
    let payload: Vec<u8> = (0..length - 14).map(|n| n as u8).collect();
    ether([0xff; 6], [2, 0, 0, 0, 0, 7], KIND, &payload)
}

#[test]
fn frames_cross_a_veth_pair() {
    Namespace::with_veth("cross").within(|| {
        let mut rig = Rig::new(&format!(
            "i :: Inject -> Queue -> t :: ToDevice(veth0, BURST 8) -> s :: Collect;
             f :: FromDevice(veth1, BURST 4, SNAPLEN 65535, {FILTER}) -> c :: Collect;"
        ));
        let frames = [frame(60), frame(1514), frame(5000), frame(60), frame(9014)];
        rig.push_all("i", &frames);
        run_until(&mut rig, |rig| rig.read("f.count") == "5");
        let packets = rig.collected("c");
        let data: Vec<&[u8]> = packets.iter().map(|packet| packet.data()).collect();
        assert_eq!(data, frames);
        assert_eq!(packets[0].packet_type(), PacketType::Broadcast);
        assert_eq!(packets[0].mac_offset(), Some(0));
        assert!(packets[0].timestamp() > 1_600_000_000_000_000_000);
        assert_eq!(rig.collected("s").len(), 5);
        rig.assert_handlers(&[("f.kernel_drops", "0"), ("f.encap", "ETHER")]);
        assert_eq!(rig.read("t.q"), "false");
    });
}

#[test]
fn frames_are_cut_to_snaplen_and_counted() {
    Namespace::with_veth("snaplen").within(|| {
        let mut rig = Rig::new(&format!(
            "i :: Inject -> Queue -> ToDevice(veth0);
             f :: FromDevice(veth1, SNAPLEN 100, TIMESTAMP false, {FILTER}) -> c :: Collect;"
        ));
        rig.push("i", &frame(3000));
        run_until(&mut rig, |rig| rig.read("f.count") == "1");
        let packets = rig.collected("c");
        assert_eq!(packets[0].data(), &frame(3000)[..100]);
        assert_eq!(packets[0].anno(EXTRA_LENGTH), 2900);
        assert_eq!(packets[0].timestamp(), 0);
    });
}

#[test]
fn what_the_host_sends_is_seen_only_if_asked_for() {
    Namespace::with_veth("outbound").within(|| {
        let mut host = Rig::new("i :: Inject -> Queue -> t :: ToDevice(veth0);");
        let mut rig = Rig::new(&format!(
            "f :: FromDevice(veth0, OUTBOUND true, {FILTER}) -> c :: Collect;
             g :: FromDevice(veth0, {FILTER}) -> d :: Collect;"
        ));
        host.push("i", &frame(60));
        host.run();
        run_until(&mut rig, |rig| rig.read("f.count") == "1");
        assert_eq!(rig.collected("c")[0].packet_type(), PacketType::Outgoing);
        assert_eq!(rig.read("g.count"), "0");
    });
}

/// As in Click: the ToDevice sends by the first FromDevice's socket, wherever it stands.
#[test]
fn the_first_reader_of_an_interface_does_not_see_what_its_router_sends() {
    Namespace::with_veth("own").within(|| {
        let mut rig = Rig::new(&format!(
            "i :: Inject -> Queue -> ToDevice(veth0);
             f :: FromDevice(veth0, OUTBOUND true, {FILTER}) -> Discard;
             g :: FromDevice(veth0, OUTBOUND true, {FILTER}) -> Discard;
             peer :: FromDevice(veth1, {FILTER}) -> Queue -> Unqueue -> j :: Collect;
             k :: Inject -> Queue -> ToDevice(veth1);"
        ));
        rig.push_all("i", &[frame(60), frame(61)]);
        rig.push("k", &frame(62));
        let all = |rig: &mut Rig| rig.read("g.count") == "3" && rig.read("peer.count") == "2";
        run_until(&mut rig, all);
        rig.run();
        assert_eq!(rig.read("f.count"), "1");
    });
}

#[test]
fn an_interface_is_promiscuous_while_it_is_listened_to() {
    let namespace = Namespace::with_veth("promisc");
    namespace.within(|| {
        let promiscuity = || {
            let shown = namespace.ip("-d link show veth1");
            let words: Vec<&str> = shown.split_whitespace().collect();
            let at = words.iter().position(|word| *word == "promiscuity");
            String::from(words[at.unwrap() + 1])
        };
        let rig = Rig::new("FromDevice(veth1, true) -> Discard;");
        assert_eq!(promiscuity(), "1");
        rig.end();
        assert_eq!(promiscuity(), "0");
    });
}

#[test]
fn an_interface_that_goes_away_is_told_of_once() {
    let namespace = Namespace::with_veth("gone");
    namespace.within(|| {
        let mut rig = Rig::new(&format!(
            "i :: Inject -> Queue -> t :: ToDevice(veth0) -> Discard; t[1] -> l :: Collect;
             f :: FromDevice(veth1, {FILTER}) -> c :: Collect;"
        ));
        rig.push("i", &frame(60));
        run_until(&mut rig, |rig| rig.read("f.count") == "1");
        namespace.ip("link del veth0");
        rig.push_all("i", &vec![frame(60); 3]);
        let mut lost = 0;
        run_until(&mut rig, |rig| {
            lost += rig.collected("l").len();
            lost == 3
        });
        assert_eq!(lost, 3);
        for _ in 0..20 {
            run_until(&mut rig, |_| true);
            rig.advance(1_000_000);
        }
        let printed = rig.printed();
        let of = |who: &str| printed.iter().filter(|line| line.contains(who)).count();
        assert_eq!(
            of("FromDevice(veth1): recvfrom: Network is down"),
            1,
            "{printed:?}"
        );
        assert!((1..=2).contains(&of("ToDevice(veth0): ")), "{printed:?}");
    });
}

#[test]
fn wrong_devices_are_refused_in_clicks_words() {
    Namespace::with_veth("wrong").within(|| {
        let error = |config: &str, text: &str| {
            Rig::refuses(config, text);
        };
        error(
            "FromDevice(nope) -> Discard;",
            "nope: SIOCGIFINDEX: No such device",
        );
        error(
            "Idle -> ToDevice(nope);",
            "nope: SIOCGIFINDEX: No such device",
        );
        error(
            "Idle -> ToDevice(veth0); Idle -> ToDevice(veth0);",
            "duplicate writer for device 'veth0'",
        );
        error(
            "FromDevice(veth0, SNAPLEN 13) -> Discard;",
            "SNAPLEN out of range",
        );
        error(
            "FromDevice(veth0, BURST 0) -> Discard;",
            "BURST out of range",
        );
        error("FromDevice(veth0, METHOD FOO) -> Discard;", "bad METHOD");
        error("Idle -> ToDevice(veth0, BURST 0);", "bad BURST");
    });
}

#[test]
fn a_vlan_tag_that_the_kernel_keeps_beside_a_frame_is_put_back() {
    Namespace::with_veth("vlan").within(|| {
        let mut rig = Rig::new(
            "i :: Inject -> Queue -> ToDevice(veth0, BURST 8);
             f :: FromDevice(veth1, BURST 4, PROMISC true, BPF_FILTER 'ether src 2:0:0:0:0:7')
                -> c :: Collect;",
        );
        let inner = [&[0x60, 0x05][..], &KIND.to_be_bytes(), &[7; 60]].concat();
        let frames =
            [0x8100, 0x88a8].map(|kind| ether([0xff; 6], [2, 0, 0, 0, 0, 7], kind, &inner));
        rig.push_all("i", &frames);
        run_until(&mut rig, |rig| rig.read("f.count") == "2");
        assert_eq!(rig.data("c"), frames);
    });
}

#[test]
fn many_frames_cross_in_order_and_no_buffer_is_lost() {
    Namespace::with_veth("many").within(|| {
        for (burst, limit) in [(1, 64), (200, 64), (7, 1)] {
            let config = format!(
                "i :: Inject -> Queue -> ToDevice(veth0, BURST {burst}) -> Discard;
                 f :: FromDevice(veth1, BURST {burst}, {FILTER}) -> c :: Collect;"
            );
            let mut rig = Rig::with_batch(&config, limit);
            let frames: Vec<Vec<u8>> = (0..500).map(|n| frame(60 + n)).collect();
            rig.push_all("i", &frames);
            run_until(&mut rig, |rig| rig.read("f.count") == "500");
            assert!(rig.data("c") == frames, "burst {burst}");
            assert_eq!(rig.outstanding(), 0);
        }
    });
}

#[test]
fn the_kernel_filters_by_an_expression() {
    Namespace::with_veth("bpf").within(|| {
        let mut rig = Rig::new(
            "i :: Inject -> Queue -> ToDevice(veth0);
             f :: FromDevice(veth1, BPF_FILTER 'ether proto 0x88b5 and len <= 100') -> c :: Collect;",
        );
        rig.push_all("i", &[frame(101), frame(100), frame(1000), frame(99)]);
        run_until(&mut rig, |rig| rig.read("f.count") == "2");
        assert_eq!(rig.data("c"), [frame(100), frame(99)]);
        let errors = Rig::errors("FromDevice(veth1, BPF_FILTER 'zork') -> Discard;");
        assert!(errors.contains("BPF_FILTER 'zork': can't parse filter expression"), "{errors}");
    });
}
