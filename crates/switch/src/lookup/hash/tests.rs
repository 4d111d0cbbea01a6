use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::lookup::frames::{EVERYONE, ethernet, flow, mac, packet, steer};

const UPLINK: PortIndex = 100;

fn with(members: impl IntoIterator<Item = PortIndex>) -> HashSteered {
    let mut function = HashSteered::new(Limits::default());
    function.introduce(UPLINK, "uplink", true);
    function.attach(UPLINK, None, 0);
    for member in members {
        function.introduce(member, "member", false);
        function.attach(member, None, 0);
    }
    function
}

/// Where the uplink's flows of all pairs of hosts go.
fn spread(function: &mut HashSteered) -> BTreeMap<(u8, u8, u8), PortIndex> {
    let mut found = BTreeMap::new();
    for (from, to, which) in
        (0..16u8).flat_map(|f| (0..16).flat_map(move |t| [(f, t, 0), (f, t, 3)]))
    {
        let frame = packet(mac(200), mac(201), flow(from, to, which), None);
        match steer(function, UPLINK, frame, 0) {
            Destination::Port(port) => drop(found.insert((from, to, which), port)),
            other => panic!("{other:?}"),
        }
    }
    found
}

#[test]
fn flows_are_spread_and_only_those_move_whose_member_comes_or_goes() {
    let mut function = with(0..4);
    let before = spread(&mut function);
    for member in 0..4 {
        let mine = before.values().filter(|&&port| port == member).count();
        assert!((64..192).contains(&mine), "{mine} of {}", before.len());
    }
    function.detach(2);
    let after = spread(&mut function);
    for (flow, port) in &before {
        assert!(after[flow] == *port || *port == 2);
        assert_ne!(after[flow], 2);
    }
    function.introduce(2, "member", false);
    function.attach(2, None, 0);
    assert_eq!(spread(&mut function), before);
}

#[test]
fn members_reach_each_other_by_address_and_all_else_by_the_uplink() {
    let mut function = with(0..3);
    let tcp = |to: u8, from: u8| packet(mac(to), mac(from), flow(from, to, 0), None);
    // Nothing is known of member 1's address yet.
    assert_eq!(
        steer(&mut function, 0, tcp(1, 9), 0),
        Destination::Port(UPLINK)
    );
    assert_eq!(steer(&mut function, 1, tcp(9, 1), 0), Destination::Port(0));
    assert_eq!(steer(&mut function, 0, tcp(1, 9), 0), Destination::Port(1));
    let request = ethernet(EVERYONE, mac(9), 0x0806, &[0; 28]);
    assert_eq!(steer(&mut function, UPLINK, request, 0), Destination::Flood);
    let reply = ethernet(mac(1), mac(50), 0x0806, &[0; 28]);
    assert_eq!(steer(&mut function, UPLINK, reply, 0), Destination::Port(1));
    function.detach(UPLINK);
    assert_eq!(steer(&mut function, 0, tcp(77, 9), 0), Destination::Flood);
}

#[test]
fn without_members_there_is_nowhere_to_go() {
    let mut function = with([]);
    let frame = packet(mac(1), mac(2), flow(1, 2, 0), None);
    let nowhere = Destination::Drop(Reason::NoDestination);
    assert_eq!(steer(&mut function, UPLINK, frame, 0), nowhere);
}

#[derive(Clone, Debug)]
enum Step {
    Join(PortIndex, bool),
    Leave(PortIndex),
    Frame {
        from: PortIndex,
        to: u8,
        source: u8,
        which: u8,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (0..8u16, prop::bool::weighted(0.3)).prop_map(|(port, up)| Step::Join(port, up)),
        1 => (0..8u16).prop_map(Step::Leave),
        6 => (0..8u16, 0..8u8, 0..8u8, 0..8u8).prop_map(|(from, to, source, which)| Step::Frame {
            from, to, source, which,
        }),
    ]
}

proptest! {
    /// Against a model that has lists and maps and looks through all of them each time.
    #[test]
    fn it_agrees_with_a_naive_model(steps in proptest::collection::vec(step(), 1..200)) {
        let mut function = HashSteered::new(Limits::default());
        let (mut uplinks, mut members) = (Vec::new(), BTreeSet::new());
        let mut addresses: BTreeMap<u8, PortIndex> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Join(port, up) if !uplinks.contains(&port) && !members.contains(&port) => {
                    function.introduce(port, "port", up);
                    function.attach(port, None, 0);
                    match up {
                        true => uplinks.push(port),
                        false => drop(members.insert(port)),
                    }
                }
                Step::Leave(port) if uplinks.contains(&port) || members.contains(&port) => {
                    function.detach(port);
                    uplinks.retain(|&up| up != port);
                    members.remove(&port);
                    addresses.retain(|_, behind| *behind != port);
                }
                Step::Frame { from, to, source, which }
                    if uplinks.contains(&from) || members.contains(&from) =>
                {
                    let sent = || packet(mac(to), mac(source), flow(source, to, which), None);
                    let got = steer(&mut function, from, sent(), 0);
                    addresses.insert(source, from);
                    let hash = crate::port::flow_hash::flow_hash(sent().head());
                    let class = hash % CLASSES as u32;
                    let known = addresses.get(&to).copied();
                    let expected = if known == Some(from) {
                        Destination::Drop(Reason::SameSide)
                    } else if uplinks.contains(&from) {
                        let heaviest = members.iter().max_by_key(|&&m| weight(m, class));
                        heaviest.map_or(Destination::Drop(Reason::NoDestination), |&m| {
                            Destination::Port(m)
                        })
                    } else if let Some(known) = known.filter(|known| members.contains(known)) {
                        Destination::Port(known)
                    } else if uplinks.is_empty() {
                        Destination::Flood
                    } else {
                        let which = hash.rotate_left(16) as usize % uplinks.len();
                        Destination::Port(uplinks[which])
                    };
                    prop_assert_eq!(got, expected);
                }
                _ => {}
            }
        }
    }
}
