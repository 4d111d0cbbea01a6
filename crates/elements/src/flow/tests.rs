//! A flow manager and the elements behind it.

use crate::testing::*;

const SECOND: u64 = 1_000_000_000;

fn from(port: u16) -> std::vec::Vec<u8> {
    udp(
        ([10, 0, 0, 1].into(), port),
        ([10, 0, 0, 2].into(), 53),
        &[0; 8],
    )
}

/// A manager with `arguments`, and a counter behind it.
fn rig(arguments: &str) -> Rig {
    Rig::new(&std::format!(
        "i :: Inject -> MarkIPHeader -> f :: FlowIPManager({arguments}) -> n :: FlowCounter -> c :: Collect;"
    ))
}

fn flows(rig: &mut Rig) -> std::vec::Vec<Option<u32>> {
    let packets = rig.collected("c");
    packets.iter().map(|packet| packet.flow()).collect()
}

#[test]
fn packets_carry_their_flow() {
    let mut rig = rig("CAPACITY 8, CACHE true, RESERVE 4");
    let (a, b) = (([10, 0, 0, 1].into(), 1), ([10, 0, 0, 2].into(), 53));
    let later = {
        let mut fragment = from(7);
        fragment[7] = 5;
        fragment
    };
    rig.push_all(
        "i",
        &[
            from(1),
            from(2),
            from(1),
            tcp(a, b, 2, &[]),
            ping(a.0, b.0, &[]),
            later,
        ],
    );
    rig.push("i", &from(2));
    let flows = flows(&mut rig);
    assert_eq!(flows, [0, 1, 0, 2, 3, 4, 1].map(Some));
    assert_eq!(
        (rig.read("f.count"), rig.read("n.count")),
        ("5".into(), "5".into())
    );
}

#[test]
fn what_is_not_ip_is_of_no_flow() {
    let mut rig =
        Rig::new("i :: Inject -> f :: FlowIPManager -> n :: FlowCounter -> c :: Collect;");
    rig.push_with("i", &from(1), |packet| packet.set_flow(Some(3)));
    assert_eq!(flows(&mut rig), [None]);
    assert_eq!(
        (rig.read("f.count"), rig.read("n.count")),
        ("0".into(), "0".into())
    );
}

#[test]
fn flows_end_without_packets_and_are_counted() {
    let mut rig = rig("CAPACITY 8, TIMEOUT 3");
    for port in [1, 1, 1, 2, 2, 3, 3] {
        rig.push("i", &from(port));
    }
    assert_eq!(
        (
            rig.read("n.open"),
            rig.read("n.average"),
            rig.read("n.dump")
        ),
        ("3".into(), "0".into(), "".into())
    );
    for _ in 0..3 {
        rig.advance(SECOND);
        rig.push("i", &from(1));
    }
    rig.advance(SECOND);
    assert_eq!(
        (rig.read("f.count"), rig.read("n.open"), rig.read("n.count")),
        ("1".into(), "1".into(), "3".into())
    );
    assert_eq!(
        (rig.read("n.dump"), rig.read("n.median")),
        ("2: 2\n".into(), "2".into())
    );
    rig.advance(5 * SECOND);
    assert_eq!(
        (rig.read("n.dump"), rig.read("n.open")),
        ("2: 2\n6: 1\n".into(), "0".into())
    );
    assert_eq!(rig.read("n.average").parse::<f64>().unwrap(), 10.0 / 3.0);
    // A number that is used again starts anew.
    rig.push("i", &from(9));
    assert_eq!(
        (rig.read("n.count"), rig.read("n.open")),
        ("4".into(), "1".into())
    );
}

#[test]
fn new_flows_are_dropped_while_the_table_is_full() {
    let mut rig = rig("CAPACITY 2, TIMEOUT 0");
    rig.push_all("i", &[from(1), from(2), from(3), from(1), from(4)]);
    assert_eq!(flows(&mut rig), [0, 1, 0].map(Some));
    assert_eq!((rig.read("f.drops"), rig.outstanding()), ("2".into(), 0));
    let said = rig.printed().join("\n");
    assert!(said.contains("all 2 flows are in use"), "{said}");
    rig.advance(1000 * SECOND);
    assert_eq!(rig.read("f.count"), "2", "flows live for ever");
}

#[test]
fn each_counter_counts_the_flows_that_come_its_way() {
    let config = "i :: Inject -> MarkIPHeader -> FlowIPManagerHMP(RESERVE 2, VERBOSE 1) -> s :: IPClassifier(src port 1, -);
        s[0] -> a :: FlowCounter -> all :: FlowCounter -> Discard; s[1] -> b :: FlowCounter -> all;";
    let mut rig = Rig::new(config);
    rig.push_all("i", &[from(1), from(2), from(3), from(3)]);
    let counts = ["a", "b", "all"].map(|name| rig.read(&std::format!("{name}.count")));
    assert_eq!(counts, ["1", "2", "3"]);
}

#[test]
fn a_second_manager_numbers_anew() {
    let config = "i :: Inject -> MarkIPHeader -> FlowIPManager(CAPACITY 4) -> a :: FlowCounter
        -> FlowIPManager(CAPACITY 2) -> b :: FlowCounter -> Discard;";
    let mut rig = Rig::new(config);
    rig.push_all("i", &[from(1), from(2), from(3)]);
    assert_eq!(
        (rig.read("a.count"), rig.read("b.count")),
        ("3".into(), "2".into())
    );
}

#[test]
fn a_counter_needs_one_manager() {
    let errors = Rig::errors("Idle -> FlowCounter -> Discard;");
    assert!(
        errors.contains("no flow manager upstream; put a FlowIPManager before it"),
        "{errors}"
    );
    let errors = Rig::errors(
        "c :: FlowCounter -> Discard; Idle -> f :: FlowIPManager -> c; Idle -> g :: FlowIPManager -> c;",
    );
    assert!(
        errors.contains("several flow managers upstream (f, g)"),
        "{errors}"
    );
}

#[test]
fn wrong_arguments_are_refused() {
    for (arguments, said) in [
        ("0", "CAPACITY must be from 1 to 4194304"),
        ("RECYCLE_INTERVAL 0", "RECYCLE_INTERVAL must be at least 1"),
        ("NOSUCH 1", "NOSUCH: unknown argument"),
    ] {
        let errors = Rig::errors(&std::format!(
            "Idle -> FlowIPManager({arguments}) -> Discard;"
        ));
        assert!(errors.contains(said), "{errors}");
    }
}
