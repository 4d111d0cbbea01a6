//! Frontends and drivers that break the rules: each is disconnected, and others go on.

use rustix::fd::AsFd;
use switch::counters::Reason;
use switch::process::Switch;

use crate::common::wait_for;
use crate::frames::tcp;
use crate::frontend::packed::{AVAIL, PACKED_SIZE, Position, USED};
use crate::frontend::{
    BUFFERS, BYTES, Driver, Frontend, GUEST, HEADER, INDIRECT, NEXT, SIZE, USER, WRITE, ask,
    available_at, feature, table_at,
};
use crate::{LAYOUTS, MERGING, Pair, Socket};

/// One way to break the rules.
type Breaking = (&'static str, fn(&Frontend, &mut [Driver; 2]));

/// Messages.
const MESSAGES: &[Breaking] = &[
    ("a table that does not cover the rings", |frontend, _| {
        let elsewhere = (GUEST, 1 << 20, USER + (1 << 20), 1 << 20);
        frontend.share_as(&[elsewhere], &[frontend.memory.as_fd()]);
    }),
    ("a region past the end of its file", |frontend, _| {
        frontend.share_as(&[(GUEST, BYTES + 1, USER, 0)], &[frontend.memory.as_fd()]);
    }),
    ("a region of a file that is no memory", |frontend, _| {
        let file = std::fs::File::open("/proc/self/exe").expect("a file");
        frontend.share_as(&[(GUEST, 4096, USER, 0)], &[file.as_fd()]);
    }),
    ("a table without its files", |frontend, _| {
        frontend.share_as(&[(GUEST, BYTES, USER, 0)], &[]);
    }),
    ("a kick that is announced and missing", |frontend, _| {
        frontend.tell(ask::SET_VRING_KICK, &[1], &[]);
    }),
    ("a call that is a socket", |frontend, _| {
        frontend.tell(ask::SET_VRING_CALL, &[1], &[frontend.stream.as_fd()]);
    }),
    ("a queue that there is not", |frontend, _| {
        frontend.tell(ask::SET_VRING_BASE, &[99], &[]);
    }),
    ("a size that is no power of two", |frontend, _| {
        frontend.tell(ask::SET_VRING_NUM, &[1 | 100 << 32], &[]);
    }),
    ("features that were not offered", |frontend, _| {
        frontend.tell(ask::SET_FEATURES, &[1 << 35], &[]);
    }),
    ("a message of no known kind", |frontend, _| {
        frontend.send(77, 1, &[], &[]);
    }),
    ("a message that is too long", |frontend, _| {
        frontend.send(ask::SET_OWNER, 1, &[0; 5000], &[]);
    }),
    ("answers that are not read", |frontend, _| {
        frontend.stream.set_nonblocking(true).expect("non-blocking");
        while frontend.tell(ask::GET_FEATURES, &[], &[]) {}
    }),
];

/// Rings of either layout.
const RINGS: &[Breaking] = &[
    ("a buffer in no memory", |_, [_, transmit]| {
        transmit.set_descriptor(0, GUEST + BYTES - 60, 61, 0, 0);
        transmit.offer(0);
        transmit.ring();
    }),
    (
        "a buffer at the end of all addresses",
        |_, [_, transmit]| {
            transmit.set_descriptor(0, u64::MAX - 10, 100, 0, 0);
            transmit.offer(0);
            transmit.ring();
        },
    ),
    (
        "a buffer to be written on the way out",
        |_, [_, transmit]| {
            transmit.set_descriptor(0, GUEST + BUFFERS, 100, WRITE, 0);
            transmit.offer(0);
            transmit.ring();
        },
    ),
    (
        "an indirect table that was not agreed on",
        |_, [_, transmit]| {
            transmit.set_descriptor(0, GUEST + BUFFERS, 160, INDIRECT, 0);
            transmit.offer(0);
            transmit.ring();
        },
    ),
    ("a buffer without an end", |_, [_, transmit]| {
        transmit.set_descriptor(0, GUEST + BUFFERS, 1, NEXT, 0);
        transmit.offer(0);
        transmit.ring();
    }),
    ("room to be read on the way in", |_, [receive, _]| {
        receive.set_descriptor(0, GUEST + BUFFERS, 2000, 0, 0);
        receive.offer(0);
    }),
    ("room in no memory", |_, [receive, _]| {
        receive.set_descriptor(0, GUEST - 1, 2000, WRITE, 0);
        receive.offer(0);
    }),
    ("room without an end", |_, [receive, _]| {
        receive.set_descriptor(0, GUEST + BUFFERS, 0, WRITE | NEXT, 0);
        receive.offer(0);
    }),
    ("memory that is taken away", |frontend, [_, transmit]| {
        frontend.memory.set_len(0).expect("shorter");
        transmit.ring();
    }),
    (
        "memory that is taken away while it is filled",
        |frontend, [receive, _]| {
            (0..8).for_each(|i| receive.give_room(i, 2048));
            frontend.memory.set_len(BUFFERS).expect("shorter");
        },
    ),
    ("rings that overflow", |frontend, _| {
        frontend.set_addresses(1, u64::MAX - 15, USER, USER + 0x8000);
    }),
];

/// Split rings.
const SPLIT: &[Breaking] = &[
    ("an index that jumps", |_, [_, transmit]| {
        transmit.set_index(SIZE + 1);
        transmit.ring();
    }),
    ("a head that is none", |_, [_, transmit]| {
        transmit.offer(SIZE);
        transmit.ring();
    }),
    ("a buffer that goes on nowhere", |_, [_, transmit]| {
        transmit.set_descriptor(0, GUEST + BUFFERS, 100, NEXT, SIZE);
        transmit.offer(0);
        transmit.ring();
    }),
    ("room whose index jumps", |_, [receive, _]| {
        receive.set_index(1000);
    }),
    ("rings that the memory does not cover", |frontend, _| {
        frontend.set_addresses(1, USER, USER + BYTES - 16, USER + 0x8000);
    }),
];

/// Packed rings.
const PACKED: &[Breaking] = &[
    ("a chain over the whole ring and on", |_, [_, transmit]| {
        for slot in (0..PACKED_SIZE).rev() {
            let flags = NEXT | AVAIL;
            (transmit.packed()).write(slot, GUEST + BUFFERS, 0, slot, flags);
        }
        transmit.ring();
    }),
    ("room over the whole ring and on", |_, [receive, _]| {
        for slot in (0..PACKED_SIZE).rev() {
            let flags = NEXT | WRITE | AVAIL;
            (receive.packed()).write(slot, GUEST + BUFFERS, 0, slot, flags);
        }
    }),
    (
        "a chain over what is available of the ring",
        |_, [_, transmit]| {
            let ring = transmit.packed();
            for slot in (0..PACKED_SIZE).rev() {
                let flags = if slot == 0 { AVAIL } else { NEXT | AVAIL };
                ring.write(slot, GUEST + BUFFERS, 100, slot, flags);
            }
            transmit.ring();
        },
    ),
    ("a position past the end of a ring", |frontend, _| {
        let position = Position::START.number() | PACKED_SIZE;
        frontend.tell(ask::SET_VRING_BASE, &[1 | u64::from(position) << 32], &[]);
    }),
    (
        "a ring that begins past its end when it is found",
        |frontend, _| {
            frontend.stop(1);
            let of = |n: u16| 1 | u64::from(n) << 32;
            frontend.tell(ask::SET_VRING_BASE, &[of(PACKED_SIZE)], &[]);
            frontend.set_addresses(1, USER, USER + 0x8000, USER + 0xa000);
        },
    ),
    ("a wish that is not aligned", |frontend, _| {
        frontend.set_addresses(1, USER, USER + 0x8002, USER + 0xa000);
    }),
    ("a ring whose wishes are in no memory", |frontend, _| {
        frontend.set_addresses(1, USER, USER + BYTES - 2, USER + 0xa000);
    }),
];

/// Tables of indirect descriptors, in rings of either layout.
const TABLES: &[Breaking] = &[
    ("a table in a table", |_, [_, transmit]| {
        let table = GUEST + table_at(1);
        transmit.set_entry(0, table, 16, INDIRECT, 0);
        transmit.offer_table(0, 16, 0);
        transmit.ring();
    }),
    ("a table without entries", |_, [_, transmit]| {
        transmit.offer_table(0, 0, 0);
        transmit.ring();
    }),
    ("a table of an entry and a half", |_, [_, transmit]| {
        transmit.set_entry(0, GUEST + BUFFERS, 100, 0, 0);
        transmit.offer_table(0, 24, 0);
        transmit.ring();
    }),
    ("a table that is too long", |_, [_, transmit]| {
        transmit.offer_table(0, 16 * 1025, 0);
        transmit.ring();
    }),
    ("a table that goes on in the ring", |_, [_, transmit]| {
        transmit.set_entry(0, GUEST + BUFFERS, 100, 0, 0);
        transmit.set_descriptor(1, GUEST + BUFFERS, 100, 0, 0);
        transmit.set_descriptor(0, GUEST + table_at(1), 16, INDIRECT | NEXT, 1);
        transmit.offer(0);
        transmit.ring();
    }),
    ("a table in no memory", |_, [_, transmit]| {
        transmit.set_descriptor(0, GUEST + BYTES - 16, 32, INDIRECT, 0);
        transmit.offer(0);
        transmit.ring();
    }),
    ("an entry in no memory", |_, [_, transmit]| {
        transmit.set_entry(0, GUEST + BUFFERS, HEADER as u32, NEXT, 1);
        transmit.set_entry(1, GUEST + BYTES, 100, 0, 0);
        transmit.offer_table(0, 32, 0);
        transmit.ring();
    }),
    (
        "an entry to be written on the way out",
        |_, [_, transmit]| {
            transmit.set_entry(0, GUEST + BUFFERS, HEADER as u32, NEXT, 1);
            transmit.set_entry(1, GUEST + BUFFERS, 100, WRITE, 0);
            transmit.offer_table(0, 32, 0);
            transmit.ring();
        },
    ),
    ("an entry to be read on the way in", |_, [receive, _]| {
        receive.set_entry(0, GUEST + BUFFERS, 2000, 0, 0);
        receive.offer_table(0, 16, 0);
    }),
];

/// Tables of indirect descriptors in split rings, where entries say where they go on.
const SPLIT_TABLES: &[Breaking] = &[
    ("a table without an end", |_, [_, transmit]| {
        transmit.set_entry(0, GUEST + BUFFERS, 1, NEXT, 0);
        transmit.offer_table(0, 16, 0);
        transmit.ring();
    }),
    ("a table that goes on behind its end", |_, [_, transmit]| {
        transmit.set_entry(0, GUEST + BUFFERS, 100, NEXT, 1);
        transmit.set_entry(1, GUEST + BUFFERS, 100, 0, 0);
        transmit.offer_table(0, 16, 0);
        transmit.ring();
    }),
];

pub fn who_breaks_the_rules_is_disconnected_and_others_go_on() {
    break_rules(MERGING, &[MESSAGES, RINGS, SPLIT]);
    break_rules(MERGING | feature::PACKED, &[RINGS, PACKED]);
    break_rules(MERGING | feature::INDIRECT, &[TABLES, SPLIT_TABLES]);
    break_rules(MERGING | feature::INDIRECT | feature::PACKED, &[TABLES]);
}

/// Breaks rules with these features, each by a frontend of its own.
fn break_rules(features: u64, breakings: &[&[Breaking]]) {
    let pair = Pair::new();
    let client = pair.switch.client();
    // Other frontends, which go on all the while.
    let (c, d) = (Socket::new(client, "vhc", 2), Socket::new(client, "vhd", 2));
    let source = Frontend::connect(&c.path);
    let [_, mut transmit] = source.set_up(MERGING);
    let sink = Frontend::connect(&d.path);
    let [mut receive, _] = sink.set_up(MERGING);
    let honest = Frontend::connect(&pair.b.path);
    let [_, mut honest_transmit] = honest.set_up(MERGING);
    for (n, (what, broken)) in (1..).zip(breakings.iter().copied().flatten()) {
        let frontend = Frontend::connect(&pair.a.path);
        let mut drivers = frontend.set_up(features);
        broken(&frontend, &mut drivers);
        wait_for(what, || {
            // What breaks on delivery takes a frame to deliver.
            honest_transmit.send([0; HEADER], &tcp(10), &[1]);
            pair.violations(&pair.a) == n
        });
        let mut rest = Vec::new();
        let _ = frontend.stream.set_nonblocking(false);
        let ended = std::io::Read::read_to_end(&mut &frontend.stream, &mut rest);
        let reset = std::io::ErrorKind::ConnectionReset;
        assert!(
            ended.is_ok() || ended.is_err_and(|e| e.kind() == reset),
            "{what}"
        );
        receive.give_room(0, 2048);
        transmit.send([0; HEADER], &tcp(10), &[1]);
        wait_for("others go on", || receive.receive().is_some());
    }
    assert!(honest.is_served() && source.is_served() && sink.is_served());
    assert_eq!(pair.violations(&pair.b), 0);
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Fills a ring with anything.
fn fill(driver: &Driver, state: &mut u64) {
    let near = |state: &mut u64, n: u64| random(state) % n;
    for i in 0..driver.size() {
        let address = match near(state, 8) {
            0 => random(state),
            1 => GUEST + table_at(driver.queue),
            _ => GUEST + near(state, BYTES),
        };
        let len = match near(state, 8) {
            0 => random(state) as u32,
            1 => near(state, 8) as u32 * 16,
            _ => near(state, 70_000) as u32,
        };
        let flags = (near(state, 64) & near(state, 64)) as u16 & 7;
        driver.set_entry(i, address, len, flags, near(state, 70) as u16);
        if driver.is_packed() {
            let lap = [AVAIL, AVAIL, AVAIL, USED, USED, USED, 0, AVAIL | USED];
            let lap = lap[near(state, 8) as usize];
            (driver.packed()).write(i, address, len, random(state) as u16, flags | lap);
        } else {
            let next = near(state, u64::from(SIZE) + 2) as u16;
            driver.set_descriptor(i, address, len, flags, next);
        }
    }
    if driver.is_packed() {
        let wish = (random(state) as u32).to_le_bytes();
        driver.write(available_at(driver.queue), &wish);
        return;
    }
    let heads: Vec<u8> = (0..SIZE)
        .flat_map(|_| (random(state) as u16 % (SIZE + 1)).to_le_bytes())
        .collect();
    driver.write(available_at(driver.queue) + 4, &heads);
    driver.set_index(random(state) as u16 % (SIZE + SIZE / 4));
}

pub fn random_rings_do_no_harm() {
    let switch = Switch::spawn().expect("a switch");
    let client = switch.client();
    let honest = Socket::new(client, "vhb", 1);
    let [mut room, mut transmit] = Frontend::connect(&honest.path).set_up_and_stay(MERGING);
    (0..32).for_each(|i| room.give_room(i, 2048));
    let mut state = 0x9e37_79b9_7f4a_7c15;
    for round in 0..100 {
        // A port of its own, which is closed in the end.
        let hostile = Socket::new(client, "vha", 1);
        let frontend = Frontend::connect(&hostile.path);
        let features = feature::EVENT_IDX | feature::INDIRECT;
        let features = MERGING | LAYOUTS[round % 2] | random(&mut state) & features;
        let drivers = frontend.set_up(features);
        for _ in 0..20 {
            for driver in &drivers {
                fill(driver, &mut state);
                driver.ring();
            }
            transmit.send([0; HEADER], &tcp(random(&mut state) as usize % 1400), &[1]);
        }
        drop(frontend);
        client.detach(&[hostile.port]).expect("detached");
        wait_for("the honest one goes on", || {
            transmit.back() > 0 || round > 0
        });
    }
    let stats = client.stats(honest.port);
    assert_eq!(stats.dropped(Reason::Violation), 0);
    while transmit.take_back().is_some() {}
    transmit.send([0; HEADER], &tcp(10), &[1]);
    wait_for("the honest one goes on", || transmit.back() > 0);
}
