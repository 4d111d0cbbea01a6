use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::port::Body;

/// A frame between two addresses, each of one byte and a multicast bit.
fn frame(destination: (u8, bool), source: (u8, bool)) -> Frame {
    let mut head = [0; HEAD];
    head[0] = 2 | u8::from(destination.1);
    head[5] = destination.0;
    head[6] = 2 | u8::from(source.1);
    head[11] = source.0;
    Frame::new(head, 60, Body::Staged(0))
}

fn steer_one(table: &mut Learning, from: PortIndex, frame: Frame, now: Seconds) -> Destination {
    let mut to = [Destination::Drop(Reason::Closed)];
    table.steer(from, &[frame], &mut to, now);
    to[0]
}

fn table(ports: PortIndex, limits: Limits) -> Learning {
    let mut table = Learning::new(limits);
    for port in 0..ports {
        table.attach(port, None, 0);
    }
    table
}

const TIGHT: Limits = Limits {
    table: 8,
    port: 3,
    aging: 10,
};

#[test]
fn an_address_is_flooded_until_it_is_seen_and_again_when_it_has_aged() {
    let mut table = table(3, Limits::default());
    let to_b = || frame((2, false), (1, false));
    assert_eq!(steer_one(&mut table, 0, to_b(), 0), Destination::Flood);
    let answer = frame((1, false), (2, false));
    assert_eq!(steer_one(&mut table, 1, answer, 1), Destination::Port(0));
    assert_eq!(steer_one(&mut table, 0, to_b(), 2), Destination::Port(1));
    assert_eq!(
        steer_one(&mut table, 1, to_b(), 3),
        Destination::Drop(Reason::SameSide)
    );
    assert_eq!(steer_one(&mut table, 0, to_b(), 301), Destination::Flood);
}

#[test]
fn one_port_cannot_fill_the_table() {
    let mut table = table(2, TIGHT);
    for source in 0..100 {
        steer_one(&mut table, 0, frame((200, false), (source, false)), 0);
    }
    assert_eq!(table.entries(), TIGHT.port);
    steer_one(&mut table, 1, frame((200, false), (150, false)), 0);
    let found = steer_one(&mut table, 0, frame((150, false), (0, false)), 0);
    assert_eq!(found, Destination::Port(1));
}

#[test]
fn no_frame_makes_the_table_grow() {
    let limits = Limits {
        table: 600,
        port: 200,
        aging: 10,
    };
    let mut table = table(4, limits);
    let capacity = table.table.capacity();
    for now in 0..200 {
        for source in 0..500u32 {
            let mut head = *frame((1, false), (1, false)).head();
            head[7..11].copy_from_slice(&(now / 3 * 1000 + source).to_be_bytes());
            let port = (source % 4) as PortIndex;
            steer_one(&mut table, port, Frame::new(head, 60, Body::Staged(0)), now);
        }
        assert!(table.entries() <= limits.table);
    }
    // Removed entries lower what a map says it has room for; growth alone raises it.
    assert!(table.table.capacity() <= capacity);
}

#[test]
fn a_pinned_address_stays_where_it_was_put() {
    let mut table = Learning::new(TIGHT);
    table.attach(0, None, 0);
    table.attach(1, Some(Mac([2, 0, 0, 0, 0, 7])), 0);
    steer_one(&mut table, 0, frame((9, false), (7, false)), 0);
    table.flush();
    let found = steer_one(&mut table, 0, frame((7, false), (1, false)), 1000);
    assert_eq!(found, Destination::Port(1));
    table.detach(1);
    let found = steer_one(&mut table, 0, frame((7, false), (1, false)), 1000);
    assert_eq!(found, Destination::Flood);
}

#[derive(Clone, Debug)]
enum Step {
    Frame {
        from: PortIndex,
        source: (u8, bool),
        destination: (u8, bool),
    },
    Wait(Seconds),
    Flush,
    Rejoin(PortIndex),
}

fn step() -> impl Strategy<Value = Step> {
    let address = || (0u8..20, proptest::bool::weighted(0.1));
    prop_oneof![
        20 => (0..4u16, address(), address()).prop_map(|(from, source, destination)| {
            Step::Frame { from, source, destination }
        }),
        3 => (0..8u32).prop_map(Step::Wait),
        1 => Just(Step::Flush),
        1 => (0..4u16).prop_map(Step::Rejoin),
    ]
}

proptest! {
    #[test]
    fn a_frame_goes_where_its_destination_was_last_seen(
        steps in proptest::collection::vec(step(), 1..300),
    ) {
        let limits = Limits { aging: 10, ..Limits::default() };
        let mut table = table(4, limits);
        let mut seen: BTreeMap<u8, (PortIndex, Seconds)> = BTreeMap::new();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Wait(seconds) => now += seconds,
                Step::Flush => {
                    table.flush();
                    seen.clear();
                }
                Step::Rejoin(port) => {
                    table.detach(port);
                    table.attach(port, None, 0);
                    seen.retain(|_, at| at.0 != port);
                }
                Step::Frame { from, source, destination } => {
                    let to = steer_one(&mut table, from, frame(destination, source), now);
                    if source.1 {
                        prop_assert_eq!(to, Destination::Drop(Reason::MulticastSource));
                        continue;
                    }
                    seen.insert(source.0, (from, now));
                    let expected = match seen.get(&destination.0) {
                        _ if destination.1 => Destination::Flood,
                        Some(&(_, at)) if now - at >= limits.aging => Destination::Flood,
                        Some(&(port, _)) if port == from => Destination::Drop(Reason::SameSide),
                        Some(&(port, _)) => Destination::Port(port),
                        None => Destination::Flood,
                    };
                    prop_assert_eq!(to, expected);
                }
            }
        }
    }

    #[test]
    fn limits_hold_and_the_counts_are_those_of_the_table(
        steps in proptest::collection::vec(step(), 1..300),
    ) {
        let mut table = table(4, TIGHT);
        let room = table.table.capacity();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Wait(seconds) => now += seconds,
                Step::Flush => table.flush(),
                Step::Rejoin(port) => {
                    table.detach(port);
                    table.attach(port, None, 0);
                }
                Step::Frame { from, source, destination } => {
                    steer_one(&mut table, from, frame(destination, source), now);
                }
            }
            prop_assert!(table.entries() <= TIGHT.table);
            for (&port, &Learned { count, .. }) in &table.learned {
                prop_assert!(count <= TIGHT.port);
                let entries = table.table.values().filter(|entry| entry.port == port);
                prop_assert_eq!(entries.count(), count);
            }
            prop_assert_eq!(table.table.capacity(), room, "steering never allocates");
        }
    }
}

#[test]
fn addresses_are_read_as_they_are_written() {
    let mac = Mac([2, 0, 0x5e, 0xff, 0, 9]);
    assert_eq!(mac.to_string().parse::<Mac>().unwrap(), mac);
    assert_eq!("02-00-5E-ff-00-09".parse::<Mac>().unwrap(), mac);
    let json = serde_json::to_string(&mac).unwrap();
    assert_eq!(json, "\"02:00:5e:ff:00:09\"");
    assert_eq!(serde_json::from_str::<Mac>(&json).unwrap(), mac);
    for wrong in [
        "",
        "02:00:5e:ff:00",
        "02:00:5e:ff:00:09:01",
        "2:0:5e:ff:0:9",
        "02:00:5e:ff:00:+9",
    ] {
        assert!(wrong.parse::<Mac>().is_err(), "{wrong}");
    }
}

#[test]
fn a_port_takes_its_addresses_with_it_be_they_few_or_many() {
    for many in [3, KEYS as u8, 200] {
        let mut table = table(2, Limits::default());
        for round in 0..3 {
            for source in 0..many {
                steer_one(
                    &mut table,
                    0,
                    frame((250, false), (source + 1, false)),
                    round,
                );
            }
            // Some move, and some of these come back.
            for source in 0..2 {
                steer_one(
                    &mut table,
                    1,
                    frame((250, false), (source + 1, false)),
                    round,
                );
            }
            steer_one(&mut table, 0, frame((250, false), (1, false)), round);
        }
        assert_eq!(table.entries(), usize::from(many));
        table.detach(0);
        assert_eq!(table.entries(), 1, "what moved stays where it is");
        table.attach(0, None, 0);
        for source in 0..many {
            let to = steer_one(&mut table, 0, frame((source + 1, false), (251, false)), 3);
            let expected = match source {
                1 => Destination::Port(1),
                _ => Destination::Flood,
            };
            assert_eq!(to, expected, "{source} of {many}");
        }
    }
}

#[test]
fn addresses_that_come_and_go_at_one_port_do_not_pile_up() {
    let mut table = table(2, Limits::default());
    for i in 0..10_000u32 {
        let source = (i % 7) as u8 + 1;
        let from = (i / 7 % 2) as u16;
        steer_one(&mut table, from, frame((250, false), (source, false)), 0);
    }
    for port in [0, 1] {
        let learned = &table.learned[&port];
        assert!(learned.keys.len() <= KEYS && !learned.many);
        table.detach(port);
    }
    assert_eq!(table.entries(), 0);
}
