//! The switch and vhost-user frontends: DPDK's testpmd, QEMU, one that this program plays by the book,
//! and one that breaks every rule. Needs root for the switch's sake; each in a process of its own, since the
//! switch is forked from a process without threads.

#[macro_use]
#[path = "../common/mod.rs"]
mod common;
mod frames;
mod frontend;
mod linux;
mod qemu;
mod real;
mod rules;
mod testpmd;

use std::path::PathBuf;
use std::time::Duration;

use common::{descriptors, join, mappings, state, unique, wait_for};
use frames::{tcp, tcp_sum, tcp_sum_of_nothing, to_be_cut};
use frontend::packed::{AVAIL, USED};
use frontend::{
    Driver, Frontend, GUEST, HEADER, NEXT, SIZE, USER, WRITE, ask, available_at, descriptors_at,
    feature, used_at,
};
use real::{
    PACKED, a_guest_of_qemu_fetches_a_file_by_tcp, a_killed_testpmd_comes_back, linux_guest,
    two_testpmds,
};
use rules::{random_rings_do_no_harm, who_breaks_the_rules_is_disconnected_and_others_go_on};
use rustix::fd::AsFd;
use rustix::process::Signal;
use switch::client::SwitchClient;
use switch::counters::Reason;
use switch::links::{HostLink, VhostUser, VhostUserConnected};
use switch::lookup::{Answer, Command, Flow};
use switch::process::Switch;
use switch::properties::{DomainProperties, LookupKind};
use switch::protocol::{PortId, PortState};

fn main() {
    common::run_all(tests![
        two_testpmds_exchange_what_both_counted,
        two_testpmds_with_packed_rings_do_likewise,
        packed_rings_and_split_ones_meet,
        a_killed_testpmd_comes_back,
        a_guest_of_qemu_fetches_a_file_by_tcp,
        a_linux_guest_moves_segments_and_outlives_its_switch,
        a_linux_guest_with_packed_rings_does_likewise,
        segments_pass_whole_or_are_cut_as_the_driver_can_take_them,
        any_layout_of_a_frame_is_understood,
        chains_go_round_a_ring_in_order,
        a_packed_ring_is_read_as_far_as_it_goes,
        an_event_index_is_kept_to,
        queues_may_be_enabled_before_features_are_set,
        a_queue_stops_where_it_stands_and_goes_on,
        rings_go_on_in_a_switch_that_takes_the_place_of_one_that_was_killed,
        who_breaks_the_rules_is_disconnected_and_others_go_on,
        random_rings_do_no_harm,
        a_port_is_closed_after_too_many_violations,
        nothing_of_a_frontend_stays,
        a_frontend_that_listens_is_connected_to,
        flows_are_spread_over_a_drivers_queues,
        a_domain_asks_a_click_configuration_or_a_flow_table,
    ]);
}

fn two_testpmds_exchange_what_both_counted() {
    two_testpmds("", "");
}

fn two_testpmds_with_packed_rings_do_likewise() {
    two_testpmds(PACKED, PACKED);
}

fn packed_rings_and_split_ones_meet() {
    two_testpmds(PACKED, "");
    two_testpmds("", PACKED);
}

fn a_linux_guest_moves_segments_and_outlives_its_switch() {
    linux_guest("");
}

fn a_linux_guest_with_packed_rings_does_likewise() {
    linux_guest(",packed=on");
}

/// A port that frontends connect to.
struct Socket {
    path: PathBuf,
    port: PortId,
}

impl Socket {
    fn new(switch: &SwitchClient, what: &str, domain: u32) -> Socket {
        let path = std::env::temp_dir().join(unique(what));
        let link = HostLink::open(&VhostUser {
            path: &path,
            name: what,
            mtu: 1500,
            owner: None,
        });
        let port = join(switch, link.expect("a socket"), domain);
        Socket { path, port }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

const PLAIN: u64 = feature::VERSION_1;
const MERGING: u64 = feature::VERSION_1 | feature::MRG_RXBUF;
const SEGMENTS: u64 = MERGING | feature::GUEST_CSUM | feature::GUEST_TSO4;
/// Split rings and packed ones.
const LAYOUTS: [u64; 2] = [0, feature::PACKED];

/// A switch with two ports and a frontend at each, the second of which tells what arrives.
struct Pair {
    switch: Switch,
    a: Socket,
    b: Socket,
}

impl Pair {
    fn new() -> Pair {
        let switch = Switch::spawn().expect("a switch");
        let client = switch.client();
        let (a, b) = (Socket::new(client, "vha", 1), Socket::new(client, "vhb", 1));
        Pair { switch, a, b }
    }

    fn violations(&self, socket: &Socket) -> u64 {
        let stats = self.switch.client().stats(socket.port);
        stats.dropped(Reason::Violation)
    }
}

fn segments_pass_whole_or_are_cut_as_the_driver_can_take_them() {
    LAYOUTS.into_iter().for_each(segments_pass_by);
}

fn segments_pass_by(layout: u64) {
    let pair = Pair::new();
    let source = Frontend::connect(&pair.a.path);
    let [_, mut transmit] = source.set_up(SEGMENTS | layout);
    let sent = tcp(20_000);
    // A driver that takes segments uncut gets them so, over as many buffers as it takes.
    let sink = Frontend::connect(&pair.b.path);
    let [mut receive, _] = sink.set_up(SEGMENTS | layout);
    (0..16).for_each(|i| receive.give_room(i, 4096));
    transmit.send(to_be_cut(), &sent, &[HEADER, 4000, 9000, 1]);
    wait_for("a frame comes", || receive.back() > 0);
    let (header, frame) = receive.receive().expect("a frame");
    assert_eq!(header[..10], to_be_cut()[..10]);
    assert_eq!(u16::from_le_bytes([header[10], header[11]]), 5);
    assert!(frame == sent);
    drop(sink);
    wait_for("it is gone", || {
        transmit.send([0; HEADER], &tcp(10), &[HEADER, 1]);
        let stats = pair.switch.client().stats(pair.b.port);
        stats.dropped(Reason::LinkDown) > 0
    });
    // One that does not gets them cut, with their checksums complete.
    let sink = Frontend::connect(&pair.b.path);
    let [mut receive, _] = sink.set_up(PLAIN | layout);
    (0..16).for_each(|i| receive.give_room(i, 1600));
    transmit.send(to_be_cut(), &sent, &[HEADER, 4000, 9000, 1]);
    wait_for("frames come", || receive.back() == 14);
    let mut payload: Vec<u8> = Vec::new();
    for _ in 0..14 {
        let (header, frame) = receive.receive().expect("a frame");
        assert_eq!(header[..10], [0; 10]);
        assert!(frame.len() <= 1514);
        assert_eq!(tcp_sum(&frame), 0xffff);
        payload.extend(&frame[54..]);
    }
    assert!(payload == sent[54..]);
    // A checksum alone is completed, too.
    let mut unchecked = to_be_cut();
    unchecked[1] = 0;
    let mut frame = tcp(100);
    let pseudo = !tcp_sum_of_nothing(&frame);
    frame[50..52].copy_from_slice(&(!pseudo).to_be_bytes());
    transmit.send(unchecked, &frame, &[HEADER, 1]);
    wait_for("it comes", || receive.back() > 0);
    let (_, frame) = receive.receive().expect("a frame");
    assert_eq!(tcp_sum(&frame), 0xffff);
    assert_eq!(pair.violations(&pair.a) + pair.violations(&pair.b), 0);
}

fn any_layout_of_a_frame_is_understood() {
    for layout in LAYOUTS {
        any_layout_by(layout, false);
        any_layout_by(layout, true);
    }
}

/// In rings of a layout, by a chain of descriptors or by a table of them.
fn any_layout_by(layout: u64, by_table: bool) {
    let pair = Pair::new();
    let features = MERGING | feature::INDIRECT | layout;
    let [_, mut transmit] = Frontend::connect(&pair.a.path).set_up_and_stay(features);
    let [mut receive, _] = Frontend::connect(&pair.b.path).set_up_and_stay(features);
    transmit.by_table = by_table;
    let frame = tcp(500);
    let layouts: [&[usize]; 6] = [
        &[1],
        &[HEADER, 1],
        &[5, 3, 4, 1],
        &[HEADER + 7, 1, 0, 20, 1],
        &[HEADER, 14, 20, 20, 1],
        &[0, HEADER, 0, 1],
    ];
    for layout in layouts {
        // The room, too, is in pieces: of a header's part, and of less than a frame.
        let pieces = [receive.buffer(0), receive.buffer(0) + 7].map(|at| GUEST + at);
        if by_table {
            receive.set_entry(0, pieces[0], 7, WRITE | NEXT, 1);
            receive.set_entry(1, pieces[1], 100, WRITE, 0);
            receive.offer_table(0, 32, 0);
        } else {
            receive.set_descriptor(0, pieces[0], 7, WRITE | NEXT, 1);
            receive.set_descriptor(1, pieces[1], 100, WRITE, 0);
            receive.offer(0);
        }
        for i in 2..5 {
            receive.give_room(i, 200);
        }
        transmit.send([0; HEADER], &frame, layout);
        wait_for("it comes", || receive.back() >= 4);
        let (_, received) = receive.receive().expect("a frame");
        assert!(received == frame, "{layout:?}");
        assert_eq!(transmit.take_back(), Some((0, 0)));
    }
    // Too short for a header, and for an Ethernet header.
    let before = pair
        .switch
        .client()
        .stats(pair.a.port)
        .dropped(Reason::Runt);
    transmit.send([0; HEADER], &[], &[HEADER]);
    transmit.send([0; HEADER], &[1; 13], &[HEADER, 1]);
    wait_for("they are refused", || {
        let stats = pair.switch.client().stats(pair.a.port);
        stats.dropped(Reason::Runt) == before + 2
    });
    // Room that is too small, and none.
    receive.give_room(0, 64);
    transmit.send([0; HEADER], &frame, &[1]);
    wait_for("it is dropped", || {
        let stats = pair.switch.client().stats(pair.b.port);
        stats.dropped(Reason::RingFull) == 1
    });
    assert_eq!(pair.violations(&pair.a) + pair.violations(&pair.b), 0);
}

impl Frontend {
    /// Sets a frontend up that stays connected for the rest of the test.
    fn set_up_and_stay(self, features: u64) -> [Driver; 2] {
        let drivers = self.set_up(features);
        std::mem::forget(self);
        drivers
    }
}

fn an_event_index_is_kept_to() {
    LAYOUTS.into_iter().for_each(an_event_index_by);
}

fn an_event_index_by(layout: u64) {
    let pair = Pair::new();
    let features = MERGING | feature::EVENT_IDX | layout;
    let source = Frontend::connect(&pair.a.path);
    let [_, mut transmit] = source.set_up(features);
    let sink = Frontend::connect(&pair.b.path);
    let [mut receive, _] = sink.set_up(features);
    let rung = |of: &Frontend| {
        let mut count = [0; 8];
        let read = rustix::io::read(&of.calls[0], &mut count);
        read.map_or(0, |_| u64::from_ne_bytes(count))
    };
    (0..8).for_each(|i| receive.give_room(i, 2048));
    // The driver wants an interrupt for the third frame.
    receive.hear_of(2);
    for (i, rings) in [0, 0, 1, 0].into_iter().enumerate() {
        transmit.send([0; HEADER], &tcp(10), &[1]);
        wait_for("it comes", || usize::from(receive.back()) == i + 1);
        wait_for("it is rung", || rings == 0 || rung(&sink) == rings);
        assert_eq!(rung(&sink), 0, "frame {i}");
    }
    // A sleeping switch asks to be kicked for the next buffer.
    wait_for("the switch sleeps", || transmit.is_heard_of(4));
}

/// Frames of one to four descriptors, over rooms of as many, some of which go over the end of the
/// ring.
fn chains_go_round_a_ring_in_order() {
    for layout in LAYOUTS {
        let pair = Pair::new();
        let [_, mut transmit] = Frontend::connect(&pair.a.path).set_up_and_stay(MERGING | layout);
        let [mut receive, _] = Frontend::connect(&pair.b.path).set_up_and_stay(MERGING | layout);
        for n in 0..400u16 {
            let frame = tcp(300 + usize::from(n));
            let pieces = 1 + n % 4;
            for i in 0..pieces {
                let at = GUEST + receive.buffer(0) + u64::from(i) * 400;
                let (len, flags) = match i + 1 == pieces {
                    true => (1200, WRITE),
                    false => (400, WRITE | NEXT),
                };
                receive.set_descriptor(i, at, len, flags, i + 1);
            }
            receive.offer(0);
            transmit.send([0; HEADER], &frame, &[100; 5][..usize::from(1 + n % 5)]);
            wait_for("it comes", || receive.back() > 0);
            let (_, received) = receive.receive().expect("a frame");
            assert!(received == frame, "{layout:x}: frame {n}");
            wait_for("it is given back", || transmit.take_back().is_some());
        }
        assert_eq!(pair.violations(&pair.a) + pair.violations(&pair.b), 0);
    }
}

fn a_packed_ring_is_read_as_far_as_it_goes() {
    let pair = Pair::new();
    let features = MERGING | feature::PACKED;
    let [_, transmit] = Frontend::connect(&pair.a.path).set_up_and_stay(features);
    let taken = || pair.switch.client().stats(pair.a.port).frames_in;
    let frame = [vec![0; HEADER], tcp(10)].concat();
    transmit.write(transmit.buffer(0), &frame);
    let say = |slot, id, flags| {
        let at = GUEST + transmit.buffer(0);
        let ring = transmit.packed();
        ring.write(slot, at, frame.len() as u32, id, flags);
        transmit.ring();
    };
    // What the device gave back in the lap before, or will give back in this one.
    for flags in [0, USED, AVAIL | USED] {
        say(0, 7, flags);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(taken(), 0);
    }
    // A buffer's id is the driver's own, and comes back as it is.
    say(1, 7, AVAIL);
    say(0, 0xffff, AVAIL);
    wait_for("both are taken", || taken() == 2);
    let entry = |slot: u64| transmit.read(descriptors_at(1) + 16 * slot + 8, 8);
    let [low, high] = (AVAIL | USED).to_le_bytes();
    wait_for("both come back", || {
        entry(0) == [0, 0, 0, 0, 0xff, 0xff, low, high] && entry(1) == [0, 0, 0, 0, 7, 0, low, high]
    });
    assert_eq!(pair.violations(&pair.a), 0);
}

fn queues_may_be_enabled_before_features_are_set() {
    /// Version 1, and an answer is waited for.
    const NEED_REPLY: u32 = 1 | 1 << 3;
    let pair = Pair::new();
    let [source, sink] = [&pair.a, &pair.b].map(|port| {
        let frontend = Frontend::connect(&port.path);
        for queue in [0u64, 1] {
            let body = (queue | 1 << 32).to_le_bytes();
            frontend.send(ask::SET_VRING_ENABLE, NEED_REPLY, &body, &[]);
            assert_eq!(frontend.answer(), Some(0));
        }
        frontend
    });
    let [_, mut transmit] = source.set_up(MERGING | feature::PROTOCOL);
    let [mut receive, _] = sink.set_up(MERGING | feature::PROTOCOL);
    receive.give_room(0, 2048);
    transmit.send([0; HEADER], &tcp(10), &[1]);
    wait_for("it comes", || receive.back() == 1);
    let third = Socket::new(pair.switch.client(), "vhc", 2);
    // What is no queue, or neither on nor off, breaks the rules.
    for body in [99u64 | 1 << 32, 2 << 32] {
        let frontend = Frontend::connect(&third.path);
        frontend.send(ask::SET_VRING_ENABLE, 1, &body.to_le_bytes(), &[]);
        assert!(!frontend.is_served());
    }
}

fn a_queue_stops_where_it_stands_and_goes_on() {
    // A packed ring's position has the lap in its highest bit, and comes twice.
    a_queue_stops_by(0, 3);
    a_queue_stops_by(feature::PACKED, 0x8003_8003);
}

fn a_queue_stops_by(layout: u64, at: u32) {
    let pair = Pair::new();
    let source = Frontend::connect(&pair.a.path);
    let [_, mut transmit] = source.set_up(MERGING | layout);
    let sink = Frontend::connect(&pair.b.path);
    let [mut receive, _] = sink.set_up(MERGING | layout);
    (0..8).for_each(|i| receive.give_room(i, 2048));
    for _ in 0..3 {
        transmit.send([0; HEADER], &tcp(10), &[1]);
    }
    wait_for("they come", || receive.back() == 3);
    assert_eq!(source.stop(1), Some(at));
    assert_eq!(sink.stop(0), Some(at));
    transmit.send([0; HEADER], &tcp(10), &[1]);
    let of = |n: u64| 1 | n << 32;
    source.tell(ask::SET_VRING_NUM, &[of(transmit.size().into())], &[]);
    source.tell(ask::SET_VRING_BASE, &[of(at.into())], &[]);
    let [d, a, u] = [descriptors_at, available_at, used_at].map(|at| USER + at(1));
    source.set_addresses(1, d, a, u);
    source.tell(ask::SET_VRING_KICK, &[1], &[source.kicks[1].as_fd()]);
    wait_for("the fourth is taken", || transmit.back() == 4);
    assert!(source.is_served());
    assert_eq!(receive.back(), 3);
}

fn rings_go_on_in_a_switch_that_takes_the_place_of_one_that_was_killed() {
    LAYOUTS.into_iter().for_each(another_switch_by);
}

fn another_switch_by(layout: u64) {
    let features = MERGING | layout;
    let mut pair = Pair::new();
    let mut source = Frontend::connect(&pair.a.path);
    let mut sink = Frontend::connect(&pair.b.path);
    let [_, mut transmit] = source.set_up(features);
    let [mut receive, _] = sink.set_up(features);
    const ROOM: u32 = 600;
    const ROOMS: u16 = 32;
    (0..ROOMS).for_each(|i| receive.give_room(i, ROOM));
    // A frame's length says which it is; some fill two rooms.
    let frame = |n: usize| tcp(n % 1000);
    let (mut sent, mut expected, mut room) = (0, 0, 0);
    for round in 0..40 {
        for n in 0..5 {
            send_from(&mut transmit, 3 * n, &frame(sent), 1 + sent % 3);
            sent += 1;
        }
        // It is killed while these pass.
        std::thread::sleep(Duration::from_micros(round % 10 * 20));
        rustix::process::kill_process(pair.switch.pid(), Signal::KILL).expect("killed");
        drop(pair);
        pair = Pair::new();
        sink.reconnect(&pair.b.path, features);
        assert!(sink.is_served());
        source.reconnect(&pair.a.path, features);
        wait_for("all is given back", || transmit.taken() == 0);
        // What was delivered and not yet given back comes twice; nothing is missing.
        while receive.back() > 0 {
            let (header, received) = receive.receive().expect("a frame");
            let n = (expected.max(5) - 5..=expected).find(|&n| received == frame(n));
            let n = n.unwrap_or_else(|| panic!("{layout:x}: {} bytes", received.len()));
            expected = expected.max(n + 1);
            for _ in 0..u16::from_le_bytes([header[10], header[11]]) {
                receive.give_room(room, ROOM);
                room = (room + 1) % ROOMS;
            }
        }
        assert_eq!(expected, sent, "{layout:x}: round {round}");
        assert!(source.is_served() && sink.is_served());
        assert_eq!(pair.violations(&pair.a) + pair.violations(&pair.b), 0);
    }
}

/// Sends a frame in so many pieces, from descriptors and buffers of its own.
fn send_from(transmit: &mut Driver, first: u16, frame: &[u8], pieces: usize) {
    let bytes = [&[0; HEADER], frame].concat();
    let size = bytes.len().div_ceil(pieces);
    for (i, piece) in (first..).zip(bytes.chunks(size)) {
        let at = transmit.buffer(i);
        transmit.write(at, piece);
        let flags = if usize::from(i - first) + 1 < pieces {
            NEXT
        } else {
            0
        };
        transmit.set_descriptor(i, GUEST + at, piece.len() as u32, flags, i + 1);
    }
    transmit.offer(first);
    transmit.ring();
}

fn a_port_is_closed_after_too_many_violations() {
    let pair = Pair::new();
    let state = || state(pair.switch.client(), pair.a.port);
    for n in 1..=64 {
        assert_eq!(state(), PortState::Open, "after {n}");
        let frontend = Frontend::connect(&pair.a.path);
        frontend.send(77, 1, &[], &[]);
        wait_for("it is counted", || pair.violations(&pair.a) == n);
    }
    wait_for("it is closed", || state() == PortState::Closed);
    let late = Frontend::connect(&pair.a.path);
    late.stream
        .set_read_timeout(Some(Duration::from_millis(50)))
        .expect("a timeout");
    assert!(!late.is_served());
}

fn nothing_of_a_frontend_stays() {
    let pair = Pair::new();
    let pid = pair.switch.pid().as_raw_pid();
    let held = || {
        let maps = mappings(pid);
        let shared = maps.iter().filter(|map| map.contains("frontend"));
        (descriptors(pid), shared.count())
    };
    let before = held();
    for round in 0..200 {
        let frontend = Frontend::connect(&pair.a.path);
        let [_, mut transmit] = frontend.set_up(MERGING);
        transmit.send([0; HEADER], &tcp(10), &[1]);
        if round == 0 {
            wait_for("the memory is mapped", || held().1 > 0);
        }
        // Its end is seen before the next is served.
    }
    wait_for("all is as it was", || held() == before);
}

fn a_frontend_that_listens_is_connected_to() {
    let switch = Switch::spawn().expect("a switch");
    let path = std::env::temp_dir().join(unique("vhl"));
    let listener = std::os::unix::net::UnixListener::bind(&path).expect("a listener");
    let link = HostLink::open(&VhostUserConnected(VhostUser {
        path: &path,
        name: "vm0",
        mtu: 1500,
        owner: None,
    }));
    let client = switch.client();
    let port = join(client, link.expect("connected"), 1);
    let (stream, _) = listener.accept().expect("a connection");
    let frontend = Frontend::on(stream);
    let [_, mut transmit] = frontend.set_up(PLAIN);
    transmit.send([0; HEADER], &tcp(10), &[1]);
    wait_for("it is taken", || client.stats(port).frames_in == 1);
    drop(frontend);
    wait_for("the port is gone with the frontend", || {
        client.ports().expect("ports")[0].state == PortState::Closed
    });
    let _ = std::fs::remove_file(&path);
}

fn a_domain_asks_a_click_configuration_or_a_flow_table() {
    switch::lookup::register(&click_lookup::FUNCTION);
    let pair = Pair::new();
    let client = pair.switch.client();
    let c = Socket::new(client, "vhc", 1);
    let [_, mut transmit] = Frontend::connect(&pair.a.path).set_up_and_stay(MERGING);
    let mut rooms = [&pair.b, &c].map(|socket| {
        let [mut room, _] = Frontend::connect(&socket.path).set_up_and_stay(MERGING);
        (0..32).for_each(|i| room.give_room(i, 2048));
        room
    });
    // Where a frame arrives: at b, at c, or nowhere.
    let mut send = |frame: &[u8]| {
        let taken = || client.stats(pair.a.port).frames_in;
        let before = taken();
        transmit.send([0; HEADER], frame, &[1]);
        wait_for("it is taken", || taken() == before + 1);
        // Taken and delivered are one to the guest that gets its buffer back.
        wait_for("it is dealt with", || transmit.back() > 0);
        while transmit.take_back().is_some() {}
        [0, 1].map(|i| std::iter::from_fn(|| rooms[i].receive()).count())
    };
    let set = |lookup| {
        let properties = DomainProperties {
            lookup,
            ..DomainProperties::default()
        };
        client.set_domain(1, properties)
    };
    let click = |config: &str| LookupKind::Click {
        config: config.into(),
    };
    assert_eq!(send(&tcp(10)), [1, 1]);
    let config = "FromPort(vha) -> Strip(14) -> MarkIPHeader -> f :: IPFilter(allow tcp, deny all) -> o :: ToPort(vhb);";
    set(click(config)).expect("a configuration");
    let mut udp = tcp(10);
    udp[23] = 17;
    assert_eq!(send(&tcp(10)), [1, 0]);
    assert_eq!(send(&udp), [0, 0]);
    assert_eq!(client.stats(pair.a.port).dropped(Reason::Lookup), 1);
    let read = |handler: &str| {
        let handler = handler.into();
        client.lookup(1, Command::Read { handler })
    };
    let text = |text: &str| Answer::Text { text: text.into() };
    assert_eq!(read("o.count").expect("a count"), text("1"));
    // A configuration that is none changes nothing; another one keeps what was counted.
    let refused = set(click("FromPort(vha) -> ToProt(vhb);")).expect_err("refused");
    assert!(refused.to_string().contains("ToPort"), "{refused}");
    set(click("FromPort(vha) -> o :: ToPort(vhc);")).expect("a configuration");
    assert_eq!(send(&udp), [0, 1]);
    assert_eq!(read("o.count").expect("a count"), text("2"));
    set(LookupKind::FlowTable).expect("a flow table");
    let flow = Flow {
        source: [198, 18, 0, 1].into(),
        destination: [198, 18, 0, 2].into(),
        protocol: 6,
        source_port: 1024,
        destination_port: 80,
    };
    let port = pair.b.port;
    let add = Command::AddFlow { flow, port };
    assert_eq!(client.lookup(1, add).expect("added"), Answer::Done);
    assert_eq!(send(&tcp(10)), [1, 0]);
    assert_eq!(send(&udp), [1, 1]);
    match client.lookup(1, Command::Flows { from: 0 }).expect("flows") {
        Answer::Flows { flows, next: None } => {
            assert!(
                flows
                    .iter()
                    .any(|f| (f.flow, f.port, f.age) == (flow, port, None))
            );
            assert!(
                flows
                    .iter()
                    .any(|f| f.flow == flow.reversed() && f.age.is_some())
            );
        }
        other => panic!("{other:?}"),
    }
    set(LookupKind::Hash).expect("hashing");
    // Members without an uplink reach each other as in a bridge.
    assert_eq!(send(&tcp(10)), [1, 1]);
    set(LookupKind::Learning).expect("learning");
    assert!(read("o.count").is_err());
}

fn flows_are_spread_over_a_drivers_queues() {
    let pair = Pair::new();
    let [_, mut transmit] = Frontend::connect(&pair.a.path).set_up_and_stay(MERGING);
    let sink = Frontend::connect(&pair.b.path);
    let [mut first, _] = sink.set_up(MERGING);
    sink.start(2);
    sink.start(3);
    assert!(sink.is_served());
    let [mut second, mut other_transmit] = sink.drivers_of(1);
    for room in [&mut first, &mut second] {
        (0..SIZE).for_each(|i| room.give_room(i, 2048));
    }
    let mut by = [0, 0];
    for flow in 0..32u8 {
        let mut frame = tcp(10);
        frame[35] = flow;
        let before = [first.back(), second.back()];
        for _ in 0..2 {
            transmit.send([0; HEADER], &frame, &[1]);
            wait_for("it is taken", || transmit.take_back().is_some());
        }
        let more = [first.back() - before[0], second.back() - before[1]];
        // Both frames of a flow go the same way.
        assert!(more == [2, 0] || more == [0, 2], "{more:?}");
        by[usize::from(more[1] == 2)] += 1;
    }
    assert!(by[0] > 4 && by[1] > 4, "{by:?}");
    // And what the driver sends by any of its queues is taken.
    other_transmit.send([0; HEADER], &tcp(10), &[1]);
    wait_for("it is taken", || other_transmit.take_back().is_some());
}
