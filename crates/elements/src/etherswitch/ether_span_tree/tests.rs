use crate::testing::*;

/// The maximum age, twice the forward delay, and some hellos.
const SETTLED: u64 = 70 * SECOND;

/// Three switches in a triangle, with a host at port 2 of each. Links are `ab`, `bc` and `ca`, one
/// for each way, and can be cut; port 0 leads to the switch before, port 1 to the one behind.
fn triangle() -> Rig {
    let mut config = String::from(
        "elementclass Bridge { $address |
            tree :: EtherSpanTree($address, in, out, switch);
            switch :: EtherSwitch; in, out :: Suppressor;
            input[0] -> c0 :: Classifier(14/4242, -); c0[0] -> [0] tree;
            input[1] -> c1 :: Classifier(14/4242, -); c1[0] -> [1] tree;
            input[2] -> c2 :: Classifier(14/4242, -); c2[0] -> [2] tree;
            c0[1] -> [0] in [0] -> [0] switch [0] -> [0] out [0] -> q0 :: Queue -> u0 :: Unqueue -> [0] output;
            c1[1] -> [1] in [1] -> [1] switch [1] -> [1] out [1] -> q1 :: Queue -> u1 :: Unqueue -> [1] output;
            c2[1] -> [2] in [2] -> [2] switch [2] -> [2] out [2] -> [2] output;
            tree[0] -> q0; tree[1] -> q1; tree[2] -> Discard;
        }\n",
    );
    for (number, name) in ["a", "b", "c"].into_iter().enumerate() {
        config += &format!("{name} :: Bridge(2:0:0:0:0:{number});\n");
        config += &format!("i{name} :: Inject -> [2] {name} [2] -> h{name} :: Collect;\n");
    }
    for (from, to) in [("a", "b"), ("b", "c"), ("c", "a")] {
        config += &format!("{from} [1] -> {from}{to} :: Switch -> [0] {to};\n");
        config += &format!("{to} [0] -> {to}{from} :: Switch -> [1] {from};\n");
    }
    Rig::new(&config)
}

fn cut(rig: &mut Rig, link: [&str; 2], whole: bool) {
    for way in [[link[0], link[1]], [link[1], link[0]]] {
        rig.write(
            &format!("{}.switch", way.concat()),
            if whole { "0" } else { "-1" },
        );
    }
}

/// How many ports of the three switches do what `state` says.
fn count(rig: &mut Rig, state: &str) -> usize {
    let count = |name| {
        rig.read(&format!("{name}/tree.ports"))
            .matches(state)
            .count()
    };
    ["a", "b", "c"].map(count).iter().sum()
}

/// Sends a frame from the host at `from`, and says how often the hosts at the others got it.
fn send(rig: &mut Rig, from: &str, to: [u8; 6], source: [u8; 6]) -> Vec<(&'static str, usize)> {
    rig.push(&format!("i{from}"), &ether(to, source, 0x0800, &[7; 46]));
    rig.advance(SECOND / 10);
    let arrived = ["a", "b", "c"].map(|name| {
        let frames = rig.data(&format!("h{name}"));
        let ours = frames.iter().filter(|frame| frame[12..14] == [8, 0]);
        (name, ours.count())
    });
    arrived
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .collect()
}

const ALL: [u8; 6] = [0xff; 6];
const HOST_A: [u8; 6] = [4, 0, 0, 0, 0, 0xa];
const HOST_B: [u8; 6] = [4, 0, 0, 0, 0, 0xb];

#[test]
fn a_loop_of_switches_becomes_a_tree_and_mends_itself() {
    let mut rig = triangle();
    assert_eq!(
        send(&mut rig, "a", ALL, HOST_A),
        [],
        "nothing is forwarded at first"
    );
    rig.advance(SETTLED);
    assert_eq!(count(&mut rig, "blocking"), 1);
    assert_eq!(count(&mut rig, "forwarding"), 8);
    assert_eq!(
        rig.read("a/tree.ports").matches("designated").count(),
        3,
        "a is the root"
    );
    assert_eq!(send(&mut rig, "a", ALL, HOST_A), [("b", 1), ("c", 1)]);
    assert_eq!(send(&mut rig, "b", HOST_A, HOST_B), [("a", 1)]);
    assert_eq!(send(&mut rig, "a", HOST_B, HOST_A), [("b", 1)]);

    cut(&mut rig, ["a", "b"], false);
    rig.advance(SETTLED);
    assert_eq!(count(&mut rig, "blocking"), 0);
    assert_eq!(
        send(&mut rig, "a", HOST_B, HOST_A),
        [("b", 1), ("c", 1)],
        "b was forgotten"
    );
    assert_eq!(send(&mut rig, "b", HOST_A, HOST_B), [("a", 1)]);
    assert_eq!(send(&mut rig, "c", ALL, [4; 6]), [("a", 1), ("b", 1)]);

    cut(&mut rig, ["a", "b"], true);
    rig.advance(SETTLED);
    assert_eq!(count(&mut rig, "blocking"), 1);
    assert_eq!(send(&mut rig, "c", ALL, [4; 6]), [("a", 1), ("b", 1)]);
    assert_eq!(send(&mut rig, "b", ALL, HOST_B), [("a", 1), ("c", 1)]);
}

#[test]
fn the_tree_survives_its_root() {
    let mut rig = triangle();
    rig.advance(SETTLED);
    cut(&mut rig, ["a", "b"], false);
    cut(&mut rig, ["c", "a"], false);
    rig.advance(SETTLED);
    assert_eq!(
        rig.read("b/tree.ports").matches("designated").count(),
        3,
        "b is the root"
    );
    assert_eq!(send(&mut rig, "c", ALL, [4; 6]), [("b", 1)]);
    let root = "dead020000000001";
    assert!(
        rig.read("c/tree.msgs")
            .lines()
            .all(|line| line.contains(&format!("-> {root}")))
    );
}

#[test]
fn changes_shorten_the_memory_of_the_switch() {
    let mut rig = triangle();
    rig.advance(SETTLED);
    rig.advance(SETTLED);
    assert_eq!(rig.read("b/tree.topology_change"), "false");
    send(&mut rig, "b", ALL, HOST_B);
    cut(&mut rig, ["b", "c"], false);
    cut(&mut rig, ["a", "b"], false);
    rig.advance(25 * SECOND);
    assert_eq!(rig.read("b/tree.topology_change"), "true");
    // By its own timeout the switch would remember the host for five minutes.
    rig.advance(16 * SECOND);
    send(&mut rig, "b", HOST_B, HOST_A);
    assert!(!rig.read("b/switch.table").contains("04-00-00-00-00-0B"));
}

/// A switch with two ports, and arguments behind the first four.
fn errors(arguments: &str) -> String {
    Rig::errors(&format!(
        "t :: EtherSpanTree({arguments}); s :: EtherSwitch; a :: Suppressor;
         Idle -> [0] t [0] -> Discard; Idle -> [1] t [1] -> Discard;
         Idle -> [0] s [0] -> Discard; Idle -> [1] s [1] -> Discard;
         Idle -> a -> Discard;"
    ))
}

#[test]
fn mistakes_are_named() {
    for (arguments, error) in [
        (
            "2:0:0:0:0:1, a, s, s",
            "OUTPUT_SUPPRESSOR: element type mismatch, expected Suppressor",
        ),
        (
            "2:0:0:0:0:1, a, a, a",
            "SWITCH: element type mismatch, expected EtherSwitch",
        ),
        ("2:0:0:0:0:1, a, a, s", "has fewer than 2 ports"),
        (
            "2:0:0:0:0:1, a, a, s, HELLO_TIME 11",
            "HELLO_TIME must be between 1 and 10 seconds",
        ),
        (
            "2:0:0:0:0:1, a, a, s, MAX_AGE 6, HELLO_TIME 3",
            "MAX_AGE must be at least twice",
        ),
        (
            "2:0:0:0:0:1, a, a, s, FORWARD_DELAY 5",
            "FORWARD_DELAY must be at least half",
        ),
        (
            "2:0:0:0:0:1, a, a, s, PATH_COST 0",
            "PATH_COST must be positive",
        ),
    ] {
        let errors = errors(arguments);
        assert!(errors.contains(error), "{arguments}: {errors}");
    }
}

#[test]
fn other_frames_are_no_messages() {
    let mut rig = triangle();
    rig.advance(SETTLED);
    let before = rig.read("a/tree.msgs");
    for length in 14..60 {
        let mut frame = ether(ALL, HOST_A, 38, &[0x42; 60]);
        frame.truncate(length);
        rig.push("ia", &frame);
    }
    assert_eq!(rig.read("a/tree.msgs"), before);
}
