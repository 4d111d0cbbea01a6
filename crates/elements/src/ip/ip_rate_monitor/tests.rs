use crate::testing::*;

fn rig(arguments: &str) -> Rig {
    Rig::new(&format!(
        "i :: Inject -> MarkIPHeader -> [0] m :: IPRateMonitor({arguments});
         j :: Inject -> MarkIPHeader -> [1] m; m[0] -> c :: Collect; m[1] -> d :: Collect;"
    ))
}

fn packet(from: [u8; 4], to: [u8; 4]) -> Vec<u8> {
    udp((from.into(), 1), (to.into(), 2), &[])
}

/// Sends 1000 packets a second by `input` for a while, and returns the rates on the last.
fn load(rig: &mut Rig, input: &str, packet: &[u8], milliseconds: u64) -> (u32, u32) {
    let mut rates = (0, 0);
    for _ in 0..milliseconds {
        rig.push(input, packet);
        rig.pause(MS);
        let output = if input == "i" { "c" } else { "d" };
        let packets = rig.collected(output);
        rates = (packets[0].anno(FWD_RATE), packets[0].anno(REV_RATE));
    }
    rates
}

const A: [u8; 4] = [10, 1, 2, 3];
const B: [u8; 4] = [20, 1, 2, 3];

#[test]
fn packets_carry_the_rates_of_their_address() {
    let mut rig = rig("PACKETS, 1, 100000");
    let (from, to) = load(&mut rig, "i", &packet(A, B), 4000);
    assert!((985..=1005).contains(&from), "{from}");
    assert_eq!(to, 0);
    // Replies, by input 1, are counted by their destination.
    let (from, to) = load(&mut rig, "j", &packet(B, A), 4000);
    assert!((985..=1005).contains(&to), "{to}");
    assert!(from < 20, "{from}");
    let look = rig.read("m.look");
    let lines: Vec<&str> = look.lines().collect();
    assert_eq!(lines.len(), 2, "{look}");
    assert_eq!(lines[0], "1000");
    assert!(lines[1].starts_with("10\t"), "{look}");
    rig.write("m.reset", "");
    assert_eq!(rig.read("m.look"), "0\n");
}

#[test]
fn bytes_can_be_counted() {
    let mut rig = rig("BYTES, 1, 1000000");
    let (from, _) = load(&mut rig, "i", &packet(A, B), 4000);
    assert!((27_500..=28_100).contains(&from), "{from}");
    let mut silent = rig_without_annotations();
    assert_eq!(load(&mut silent, "i", &packet(A, B), 500), (0, 0));
}

fn rig_without_annotations() -> Rig {
    rig("PACKETS, 1, 10, 0, false")
}

#[test]
fn busy_prefixes_are_looked_at_more_closely_until_they_are_quiet() {
    let mut rig = rig("PACKETS, 1, 100");
    load(&mut rig, "i", &packet(A, B), 2000);
    let look = rig.read("m.look");
    let prefixes: Vec<&str> = look
        .lines()
        .skip(1)
        .filter_map(|l| l.split_once('\t'))
        .map(|(p, _)| p)
        .collect();
    assert_eq!(prefixes[0], "10");
    for prefix in ["\n\t10.1\t", "\n\t\t10.1.2\t", "\n\t\t\t10.1.2.3\t"] {
        assert!(look.contains(prefix), "{look}");
    }
    let deep: u64 = rig.read("m.mem").parse().unwrap();
    // Quiet for two seconds, then something else.
    rig.pause(2000 * MS);
    load(&mut rig, "i", &packet(B, A), 10);
    let shallow: u64 = rig.read("m.mem").parse().unwrap();
    assert!(shallow < deep - 3000, "{deep} {shallow}");
}

#[test]
fn a_part_of_packets_does() {
    let mut rig = rig("PACKETS, 0.5, 1000");
    assert_eq!(rig.read("m.thresh"), "500");
    let (from, _) = load(&mut rig, "i", &packet(A, B), 4000);
    assert!((380..=620).contains(&from), "{from}");
}

#[test]
fn memory_is_bounded() {
    let mut rig = rig("PACKETS, 1, 1, 100");
    let mut x = 1u32;
    for _ in 0..20_000 {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        rig.push("i", &packet(Ipv4Addr::from_bits(x).octets(), B));
        rig.pause(MS / 10);
        rig.collected("c");
    }
    let memory = |rig: &mut Rig, handler| rig.read(handler).parse::<u64>().unwrap();
    assert_eq!(memory(&mut rig, "m.memmax"), 102_400);
    let used = memory(&mut rig, "m.mem");
    assert!((90_000..=102_400).contains(&used), "{used}");
    rig.write("m.memmax", "4096");
    for n in 0..200 {
        load(&mut rig, "i", &packet([n, n, n, n], B), 40);
    }
    rig.write("m.memmax", "1");
    assert!(memory(&mut rig, "m.mem") <= 102_400);
    assert_eq!(rig.try_write("m.memmax", "x"), Err("not an integer".into()));
}

#[test]
fn prefixes_can_be_kept_whole_for_a_time() {
    let mut rig = rig("PACKETS, 1, 100");
    load(&mut rig, "i", &packet(A, B), 1000);
    let deep = |rig: &mut Rig| rig.read("m.look").contains("10.1.2.3");
    assert!(deep(&mut rig));
    rig.write("m.anno_level", "10.1.0.0 1 5");
    assert!(!deep(&mut rig));
    load(&mut rig, "i", &packet(A, B), 4000);
    assert!(!deep(&mut rig));
    load(&mut rig, "i", &packet(A, B), 2000);
    assert!(deep(&mut rig));
    rig.write("m.anno_level", "10.1.0.0, 0, 5");
    assert!(!rig.read("m.look").contains("10.1"));
    for (value, error) in [
        ("10.1.0.0 1", "expecting 3 arguments"),
        ("x 1 1", "not an IP address"),
        (
            "1.1.1.1 4 1",
            "2nd argument specifies a level, between 0 and 3, to annotate",
        ),
        (
            "1.1.1.1 1 0",
            "3rd argument specifies when this rule expires, must be > 0",
        ),
    ] {
        let error = HandlerError::failed(FailureKind::Failed, error);
        assert_eq!(rig.try_write("m.anno_level", value), Err(error));
    }
}

#[test]
fn pulled_packets_count_too_and_others_pass() {
    let config = "i :: Inject -> q :: Queue -> m :: IPRateMonitor(PACKETS, 1, 10) -> p :: Puller;";
    let mut rig = Rig::new(config);
    rig.push_with("i", &packet(A, B), |packet| {
        packet.set_network_header(0, 20)
    });
    rig.push("i", &[1]);
    assert_eq!(rig.pull("p", 5).len(), 2);
    rig.pause(1000 * MS / 125);
    assert_eq!(rig.read("m.look"), "1\n");
}

#[test]
fn mistakes_are_named() {
    for (arguments, error) in [
        (
            "BITS, 1, 1",
            "monitor type should be \"PACKETS\" or \"BYTES\"",
        ),
        ("PACKETS, 1.5, 1", "ratio must be between 0 and 1"),
        ("PACKETS, 1", "THRESH: required argument missing"),
    ] {
        Rig::refuses(
            &format!("Idle -> IPRateMonitor({arguments}) -> Discard;"),
            error,
        );
    }
}
