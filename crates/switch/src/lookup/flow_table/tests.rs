use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::lookup::frames::{ethernet, flow, mac, packet, steer};

const TIGHT: Limits = Limits {
    table: 1000,
    port: 1000,
    aging: 10,
};

fn table(flows: usize, per_port: usize, ports: PortIndex) -> FlowTable {
    let mut table = FlowTable::new(flows, per_port, TIGHT);
    (0..ports).for_each(|port| table.attach(port, None, 0));
    table
}

fn frame(from: u8, to: u8, which: u8) -> Frame {
    packet(mac(to), mac(from), flow(from, to, which), None)
}

#[test]
fn replies_go_back_to_where_the_flow_came_from() {
    let mut table = table(100, 100, 3);
    // Another host answers with an unknown address.
    assert_eq!(steer(&mut table, 0, frame(1, 2, 0), 0), Destination::Flood);
    let answer = packet(mac(77), mac(2), flow(2, 1, 0), None);
    assert_eq!(steer(&mut table, 1, answer, 0), Destination::Port(0));
    // From then on in both directions, with any Ethernet addresses.
    let more = packet(mac(99), mac(1), flow(1, 2, 0), None);
    assert_eq!(steer(&mut table, 0, more, 0), Destination::Port(1));
    assert_eq!(table.flows(), 2);
    // Another port that claims the flow does not get it, until it has aged.
    let claim = packet(mac(50), mac(51), flow(1, 2, 0), None);
    steer(&mut table, 2, claim, 5);
    assert_eq!(
        steer(&mut table, 1, frame(2, 1, 0), 6),
        Destination::Port(0)
    );
    let late = packet(mac(77), mac(2), flow(2, 1, 0), None);
    assert_eq!(steer(&mut table, 1, late, 100), Destination::Flood);
}

#[test]
fn an_entry_by_hand_holds_until_it_is_removed() {
    let mut table = table(100, 100, 3);
    let add = Command::AddFlow {
        flow: flow(1, 2, 3),
        port: 2,
    };
    assert_eq!(table.command(&add), Ok(Answer::Done));
    assert_eq!(
        steer(&mut table, 0, frame(1, 2, 3), 0),
        Destination::Port(2)
    );
    assert_eq!(
        steer(&mut table, 0, frame(1, 2, 3), 1000),
        Destination::Port(2)
    );
    table.flush();
    let list = table.command(&Command::Flows { from: 0 }).unwrap();
    let Answer::Flows { flows, next: None } = list else {
        panic!("{list:?}");
    };
    assert_eq!(flows.len(), 1);
    assert_eq!(
        (flows[0].flow, flows[0].port, flows[0].age),
        (flow(1, 2, 3), 2, None)
    );
    let remove = Command::RemoveFlow {
        flow: flow(1, 2, 3),
    };
    assert_eq!(table.command(&remove), Ok(Answer::Done));
    assert_eq!(table.command(&remove), Err("no such flow".into()));
    let elsewhere = Command::AddFlow {
        flow: flow(1, 2, 3),
        port: 9,
    };
    assert!(table.command(&elsewhere).is_err());
}

#[test]
fn what_has_no_entry_goes_by_the_default() {
    let mut table = table(100, 100, 3);
    let set = |default| Command::SetDefault { default };
    table.command(&set(FlowDefault::Port(2))).unwrap();
    assert_eq!(
        steer(&mut table, 0, frame(1, 2, 0), 0),
        Destination::Port(2)
    );
    assert_eq!(steer(&mut table, 2, frame(3, 4, 0), 0), Destination::Flood);
    table.command(&set(FlowDefault::Drop)).unwrap();
    let nowhere = Destination::Drop(Reason::NoDestination);
    assert_eq!(steer(&mut table, 0, frame(5, 6, 0), 0), nowhere);
    // ARP goes on by addresses.
    let arp = ethernet(mac(3), mac(1), 0x0806, &[0; 28]);
    assert_eq!(steer(&mut table, 0, arp, 0), Destination::Port(2));
    assert!(table.command(&set(FlowDefault::Port(9))).is_err());
    table.command(&set(FlowDefault::Port(2))).unwrap();
    table.detach(2);
    assert_eq!(steer(&mut table, 0, frame(7, 8, 0), 0), Destination::Flood);
}

#[test]
fn a_fragment_is_no_flow_and_a_tag_no_other_one() {
    let mut tagged = packet(mac(1), mac(2), flow(1, 2, 3), Some(5));
    assert_eq!(Flow::of(&tagged), Some(flow(1, 2, 3)));
    tagged = packet(mac(1), mac(2), flow(1, 2, 2), None);
    assert_eq!(Flow::of(&tagged), Some(flow(1, 2, 2)));
    let mut head = *tagged.head();
    head[20] = 0x20;
    let fragment = Frame::new(head, 60, crate::port::Body::Staged(0));
    assert_eq!(Flow::of(&fragment), None);
    let short = Frame::new(*tagged.head(), 36, crate::port::Body::Staged(0));
    assert_eq!(Flow::of(&short), None);
}

#[derive(Clone, Debug)]
enum Step {
    Frame {
        from: PortIndex,
        source: u8,
        to: u8,
        which: u8,
    },
    Add {
        source: u8,
        to: u8,
        which: u8,
        port: PortIndex,
    },
    Remove {
        source: u8,
        to: u8,
        which: u8,
    },
    Default(FlowDefault<PortIndex>),
    Wait(Seconds),
    Rejoin(PortIndex),
    Flush,
}

fn step() -> impl Strategy<Value = Step> {
    let default = prop_oneof![
        Just(FlowDefault::Addresses),
        (0..4u16).prop_map(FlowDefault::Port),
        Just(FlowDefault::Drop),
    ];
    prop_oneof![
        12 => (0..4u16, 0..5u8, 0..5u8, 0..4u8)
            .prop_map(|(from, source, to, which)| Step::Frame { from, source, to, which }),
        2 => (0..5u8, 0..5u8, 0..4u8, 0..4u16)
            .prop_map(|(source, to, which, port)| Step::Add { source, to, which, port }),
        1 => (0..5u8, 0..5u8, 0..4u8).prop_map(|(source, to, which)| Step::Remove { source, to, which }),
        1 => default.prop_map(Step::Default),
        2 => (0..8u32).prop_map(Step::Wait),
        1 => (0..4u16).prop_map(Step::Rejoin),
        1 => Just(Step::Flush),
    ]
}

proptest! {
    /// Against a model with a plain map, and a learning table for what has no entry. The bounds
    /// are left out of it: see the next.
    #[test]
    fn it_agrees_with_a_naive_model(steps in proptest::collection::vec(step(), 1..300)) {
        let mut function = table(100_000, 100_000, 4);
        let mut addresses = Learning::new(TIGHT);
        (0..4).for_each(|port| addresses.attach(port, None, 0));
        // Port, pinned, last seen.
        let mut flows: BTreeMap<Flow, (PortIndex, bool, Seconds)> = BTreeMap::new();
        let mut default = FlowDefault::Addresses;
        let mut now = 0;
        for step in steps {
            match step {
                Step::Wait(seconds) => now += seconds,
                Step::Default(to) => {
                    default = to;
                    function.command(&Command::SetDefault { default: to }).unwrap();
                }
                Step::Add { source, to, which, port } => {
                    let flow = flow(source, to, which);
                    function.command(&Command::AddFlow { flow, port }).unwrap();
                    flows.insert(flow, (port, true, now));
                }
                Step::Remove { source, to, which } => {
                    let flow = flow(source, to, which);
                    // An aged entry may be gone from the one and still be in the other.
                    let _ = function.command(&Command::RemoveFlow { flow });
                    flows.remove(&flow);
                }
                Step::Rejoin(port) => {
                    function.detach(port);
                    function.attach(port, None, 0);
                    addresses.detach(port);
                    addresses.attach(port, None, 0);
                    flows.retain(|_, entry| entry.0 != port);
                    if default == FlowDefault::Port(port) {
                        default = FlowDefault::Addresses;
                    }
                }
                Step::Flush => {
                    function.flush();
                    addresses.flush();
                    flows.retain(|_, entry| entry.1);
                }
                Step::Frame { from, source, to, which } => {
                    let sent = || frame(source, to, which);
                    let got = steer(&mut function, from, sent(), now);
                    let by_address = steer(&mut addresses, from, sent(), now);
                    let fresh = |entry: &(PortIndex, bool, Seconds)| entry.1 || now - entry.2 < TIGHT.aging;
                    let this = flow(source, to, which);
                    let found = flows.get(&this).filter(|entry| fresh(entry) && entry.0 != from);
                    let expected = match (found, default) {
                        (Some(entry), _) => Destination::Port(entry.0),
                        (None, FlowDefault::Port(port)) if port != from => Destination::Port(port),
                        (None, FlowDefault::Drop) => Destination::Drop(Reason::NoDestination),
                        _ => by_address,
                    };
                    prop_assert_eq!(got, expected);
                    if found.is_some() || !matches!(by_address, Destination::Drop(_)) {
                        let back = this.reversed();
                        match flows.get_mut(&back) {
                            Some(entry) if entry.0 == from => entry.2 = now,
                            Some(entry) if fresh(entry) => {}
                            _ => drop(flows.insert(back, (from, false, now))),
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_bounds_hold_and_the_counts_are_those_of_the_table(
        frames in proptest::collection::vec((0..4u16, 0..16u8, 0..16u8, 0..8u8, 0..2u32), 1..400),
    ) {
        let mut function = table(20, 8, 4);
        let mut now = 0;
        for (from, source, to, which, wait) in frames {
            now += wait;
            steer(&mut function, from, frame(source, to, which), now);
            prop_assert!(function.flows() <= 20);
            let mut counts = BTreeMap::new();
            for entry in function.table.values() {
                *counts.entry(entry.port).or_insert(0) += 1;
            }
            for port in 0..4 {
                let counted = counts.get(&port).copied().unwrap_or(0);
                prop_assert!(counted <= 8);
                prop_assert_eq!(function.learned[&port], counted);
            }
        }
    }
}
