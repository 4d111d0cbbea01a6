use std::collections::BTreeMap;

use proptest::prelude::*;

use switch::lookup::frames::{EVERYONE, ethernet, flow, long, mac, packet, steer};
use switch::port::BATCH;

use super::*;

/// A function with ports a, b and c, at 0, 1 and 2.
fn function(config: &str) -> ClickFunction {
    let mut function = ClickFunction::new(config).unwrap();
    for (port, name) in (0..).zip(["a", "b", "c"]) {
        function.introduce(port, name, false);
        function.attach(port, None, 0);
    }
    function
}

fn read(function: &mut ClickFunction, handler: &str) -> String {
    let handler = handler.into();
    match function.command(&Command::Read { handler }) {
        Ok(Answer::Text { text }) => text,
        other => panic!("{other:?}"),
    }
}

fn tcp(to: u8, from: u8) -> Frame {
    packet(mac(to), mac(from), flow(from, to, 0), None)
}

const NOWHERE: Destination = Destination::Drop(Reason::Lookup);

#[test]
fn a_wire_between_two_ports_leaves_others_out() {
    let mut function = function("FromPort(a) -> ToPort(b); FromPort(b) -> ToPort(a);");
    assert_eq!(steer(&mut function, 0, tcp(2, 1), 0), Destination::Port(1));
    assert_eq!(steer(&mut function, 1, tcp(1, 2), 0), Destination::Port(0));
    assert_eq!(steer(&mut function, 2, tcp(1, 2), 0), NOWHERE);
    function.detach(1);
    assert_eq!(steer(&mut function, 0, tcp(2, 1), 0), NOWHERE);
    function.introduce(7, "b", false);
    function.attach(7, None, 0);
    assert_eq!(steer(&mut function, 0, tcp(2, 1), 0), Destination::Port(7));
    assert_eq!(steer(&mut function, 7, tcp(2, 1), 0), Destination::Port(0));
}

#[test]
fn another_configuration_may_take_frames_from_ports_that_the_first_left_out() {
    let mut function = function("FromPort(b) -> ToPort(a);");
    assert_eq!(steer(&mut function, 0, tcp(2, 1), 0), NOWHERE);
    for config in [
        "FromPort(a) -> ToPort(b); FromPort(b) -> ToPort(a);",
        "FromPort(b) -> ToPort(a);",
        "FromPort(*) -> ToPort(b);",
    ] {
        function.replace(config).unwrap();
        let to = match config.starts_with("FromPort(b)") {
            true => NOWHERE,
            false => Destination::Port(1),
        };
        assert_eq!(steer(&mut function, 0, tcp(2, 1), 0), to, "{config}");
    }
}

#[test]
fn a_filter_decides_by_headers_and_its_counters_can_be_read() {
    let mut function = function(
        "FromPort(a) -> kinds :: Classifier(12/0800, 12/0806, -);
         kinds[0] -> Strip(14) -> CheckIPHeader -> f :: IPFilter(allow src port 1001, deny all)
             -> passed :: Counter -> ToPort(b);
         kinds[1] -> ToPort(*);
         kinds[2] -> Discard;",
    );
    let frames = [
        tcp(2, 1),
        tcp(2, 3),
        ethernet(EVERYONE, mac(1), 0x0806, &[0; 28]),
        ethernet(mac(2), mac(1), 0x88b5, &[]),
        tcp(4, 1),
    ];
    let mut to = [Destination::Flood; 5];
    function.steer(0, &frames, &mut to, 0);
    let through = Destination::Port(1);
    assert_eq!(to, [through, NOWHERE, Destination::Flood, NOWHERE, through]);
    assert_eq!(read(&mut function, "passed.count"), "2");
    let write = Command::Write {
        handler: "passed.reset_counts".into(),
        value: String::new(),
    };
    assert_eq!(function.command(&write), Ok(Answer::Done));
    assert_eq!(read(&mut function, "passed.count"), "0");
    for wrong in ["none.count", "passed.none"] {
        let handler = wrong.into();
        let refused = function.command(&Command::Read { handler });
        assert!(refused.is_err_and(|why| why.starts_with("the configuration has no")));
    }
}

#[test]
fn queues_are_run_through_and_what_stays_in_one_is_dropped() {
    let mut function = function(
        "FromPort(a) -> Queue(100) -> Unqueue -> ToPort(b);
         FromPort(b) -> held :: Queue(100) -> RatedUnqueue(1) -> ToPort(a);",
    );
    assert_eq!(steer(&mut function, 0, tcp(2, 1), 0), Destination::Port(1));
    // The first may pass at once; what comes out later belongs to no batch any more.
    let frames: Vec<_> = (0..10).map(|_| tcp(1, 2)).collect();
    let mut to = [Destination::Flood; 10];
    function.steer(1, &frames, &mut to, 0);
    assert!(to[2..].iter().all(|&to| to == NOWHERE));
    assert_ne!(read(&mut function, "held.length"), "0");
    assert_eq!(steer(&mut function, 0, tcp(2, 1), 0), Destination::Port(1));
}

#[test]
fn the_first_of_several_arrivals_counts() {
    let mut function = function("FromPort(*) -> t :: Tee; t[0] -> ToPort(b); t[1] -> ToPort(c);");
    assert_eq!(steer(&mut function, 0, tcp(2, 1), 0), Destination::Port(1));
    // A frame does not go back to where it came from.
    let back = Destination::Drop(Reason::SameSide);
    assert_eq!(steer(&mut function, 1, tcp(2, 1), 0), back);
}

#[test]
fn a_frame_that_is_longer_than_a_packet_passes_for_one() {
    let mut function =
        function("FromPort(a) -> Strip(14) -> CheckIPHeader -> l :: AverageCounter -> ToPort(b);");
    let short = tcp(2, 1);
    let long = long(short.head(), 65_000);
    assert_eq!(steer(&mut function, 0, long, 0), Destination::Port(1));
}

#[test]
fn what_is_wrong_with_a_configuration_is_told() {
    let refused = |config| ClickFunction::new(config).err().unwrap();
    let typo = refused("FromPort(a) -> ToProt(b);");
    assert!(typo.contains("did you mean"), "{typo}");
    assert!(refused("FromPort -> ToPort(b);").contains("PORT"));
    assert!(refused("FromPort(a) -> ToDump(/tmp/x);").contains("ToDump"));
}

#[test]
fn another_configuration_takes_over_what_the_first_counted() {
    let mut function = function("FromPort(a) -> out :: ToPort(b);");
    steer(&mut function, 0, tcp(2, 1), 0);
    assert!(function.replace("FromPort(a) -> nonsense").is_err());
    assert_eq!(steer(&mut function, 0, tcp(2, 1), 0), Destination::Port(1));
    function
        .replace("FromPort(a) -> out :: ToPort(c);")
        .unwrap();
    assert_eq!(steer(&mut function, 0, tcp(2, 1), 0), Destination::Port(2));
    assert_eq!(read(&mut function, "out.count"), "3");
}

proptest! {
    /// A rule list against a loop over the rules.
    #[test]
    fn it_agrees_with_a_naive_model(
        rules in proptest::collection::vec((0..16u8, prop::option::of(0..3u8)), 1..6),
        frames in proptest::collection::vec((0..3u16, 0..16u8, 0..16u8, any::<bool>()), 1..100),
    ) {
        // Rule: packets from host h go to a port, or nowhere.
        let names = ["a", "b", "c"];
        let mut config = String::from("FromPort(*) -> k :: Classifier(");
        for (host, _) in &rules {
            config += &format!("12/0800 26/0a0000{host:02x}, ");
        }
        config += "-);\n";
        for (i, (_, to)) in rules.iter().enumerate() {
            config += &match to {
                Some(to) => format!("k[{i}] -> ToPort({});\n", names[usize::from(*to)]),
                None => format!("k[{i}] -> Discard;\n"),
            };
        }
        config += &format!("k[{}] -> ToPort(*);\n", rules.len());
        let mut function = function(&config);
        // In batches of one source each, as a worker has them.
        let mut by_source: BTreeMap<PortIndex, Vec<(u8, u8, bool)>> = BTreeMap::new();
        for (from, source, to, v4) in frames {
            by_source.entry(from).or_default().push((source, to, v4));
        }
        for (from, frames) in by_source {
            for frames in frames.chunks(BATCH) {
                let sent: Vec<_> = frames
                    .iter()
                    .map(|&(source, to, v4)| {
                        packet(mac(to), mac(source), flow(source, to, u8::from(!v4)), None)
                    })
                    .collect();
                let mut got = vec![Destination::Drop(Reason::Closed); sent.len()];
                function.steer(from, &sent, &mut got, 0);
                for (&(source, _, v4), got) in frames.iter().zip(got) {
                    let rule = rules.iter().find(|(host, _)| v4 && *host == source);
                    let expected = match rule {
                        Some((_, Some(to))) if u16::from(*to) == from => {
                            Destination::Drop(Reason::SameSide)
                        }
                        Some((_, Some(to))) => Destination::Port((*to).into()),
                        Some((_, None)) => NOWHERE,
                        None => Destination::Flood,
                    };
                    prop_assert_eq!(got, expected);
                }
            }
        }
    }
}
