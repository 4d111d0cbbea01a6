//! The switch and vhost-user frontends: DPDK's testpmd, QEMU, one that this program plays by the book,
//! and one that breaks every rule. Needs root for the switch's sake; one after the other, since the
//! switch is forked from a process without threads.

#[path = "../common/mod.rs"]
mod common;
mod frontend;
mod qemu;
mod testpmd;

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{Host, unique, wait_for};
use frontend::{
    BUFFERS, BYTES, Driver, Frontend, GUEST, HEADER, INDIRECT, NEXT, SIZE, USER, WRITE, ask,
    available_at, descriptors_at, feature, used_at,
};
use qemu::Qemu;
use rustix::fd::AsFd;
use switch::client::SwitchClient;
use switch::counters::Reason;
use switch::links::{HostLink, VhostUser};
use switch::lookup::{Answer, Command, Flow};
use switch::process::Switch;
use switch::properties::{DomainProperties, LookupKind, PortProperties};
use switch::protocol::{PortId, PortState};
use testpmd::{Counted, Testpmd};

const TESTS: &[(&str, fn())] = &[
    ("two_testpmds_exchange_what_both_counted", two_testpmds),
    ("a_killed_testpmd_comes_back", a_killed_testpmd),
    ("a_guest_of_qemu_fetches_a_file_by_tcp", a_guest_of_qemu),
    (
        "segments_pass_whole_or_are_cut_as_the_driver_can_take_them",
        segments_pass,
    ),
    ("any_layout_of_a_frame_is_understood", any_layout),
    ("an_event_index_is_kept_to", an_event_index),
    (
        "queues_may_be_enabled_before_features_are_set",
        enabled_early,
    ),
    ("a_queue_stops_where_it_stands_and_goes_on", a_queue_stops),
    (
        "who_breaks_the_rules_is_disconnected_and_others_go_on",
        rules_are_broken,
    ),
    ("random_rings_do_no_harm", random_rings),
    (
        "a_port_is_closed_after_too_many_violations",
        a_port_is_closed,
    ),
    ("nothing_of_a_frontend_stays", nothing_stays),
    (
        "a_frontend_that_listens_is_connected_to",
        a_frontend_listens,
    ),
    ("flows_are_spread_over_a_drivers_queues", several_queues),
    (
        "a_domain_asks_a_click_configuration_or_a_flow_table",
        lookup_functions,
    ),
];

fn main() {
    common::run_all(TESTS);
}

/// Whether testpmd is there; says so if not.
fn has_testpmd() -> bool {
    let mut command = std::process::Command::new("dpdk-testpmd");
    command
        .args(["--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let found = command.status().is_ok();
    if !found {
        println!("skipped: dpdk-testpmd is missing (Debian's package dpdk-dev)");
    }
    found
}

const A: &str = "52:54:00:00:00:0a";
const B: &str = "52:54:00:00:00:0b";

/// A port that frontends connect to.
struct Socket {
    path: PathBuf,
    port: PortId,
}

impl Socket {
    fn new(switch: &SwitchClient, what: &str, domain: u32) -> Socket {
        let path = std::env::temp_dir().join(unique(what));
        let link = HostLink::vhost_user(&VhostUser {
            path: &path,
            name: what,
            mtu: 1500,
            owner: None,
        });
        let port = switch.attach_link(link.expect("a socket"), domain, PortProperties::default());
        Socket {
            path,
            port: port.expect("attached"),
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn two_testpmds() {
    if !has_testpmd() {
        return;
    }
    let switch = Switch::spawn().expect("a switch");
    let client = switch.client();
    let (a, b) = (Socket::new(client, "vha", 1), Socket::new(client, "vhb", 1));
    let mut source = Testpmd::start(&a.path, "txonly", A, B, "", &[]);
    let mut sink = Testpmd::start(&b.path, "rxonly", B, A, "", &[]);
    sink.forward();
    source.forward();
    for end in [&mut source, &mut sink] {
        let counted = |end: &mut Testpmd| {
            let Counted { received, sent } = end.counted();
            received + sent
        };
        let until = Instant::now() + Duration::from_secs(30);
        while counted(end) < 10_000 {
            assert!(Instant::now() < until, "{:?}", end.counted());
        }
    }
    source.stop();
    let sent = source.counted().sent;
    // All that testpmd counts as sent is in the ring, and taken from there.
    wait_for("all is taken", || client.stats(a.port).frames_in == sent);
    let out = client.stats(b.port);
    assert_eq!(out.frames_out + out.dropped(Reason::RingFull), sent);
    wait_for("all is received", || {
        sink.counted().received == out.frames_out
    });
    for port in [a.port, b.port] {
        assert_eq!(client.stats(port).dropped(Reason::Violation), 0);
    }
}

fn a_killed_testpmd() {
    if !has_testpmd() {
        return;
    }
    let switch = Switch::spawn().expect("a switch");
    let client = switch.client();
    let (a, b) = (Socket::new(client, "vha", 1), Socket::new(client, "vhb", 1));
    let mut source = Testpmd::start(&a.path, "txonly", A, B, "", &[]);
    source.forward();
    for _ in 0..2 {
        let mut sink = Testpmd::start(&b.path, "rxonly", B, A, "", &[]);
        sink.forward();
        wait_for("frames arrive", || sink.counted().received > 1000);
        sink.kill();
        let before = client.stats(b.port).dropped(Reason::LinkDown);
        wait_for("frames have nowhere to go", || {
            client.stats(b.port).dropped(Reason::LinkDown) > before
        });
    }
    assert_eq!(client.stats(b.port).dropped(Reason::Violation), 0);
}

fn a_guest_of_qemu() {
    if let Some(missing) = qemu::missing() {
        println!("skipped: {missing}");
        return;
    }
    let switch = Switch::spawn().expect("a switch");
    let client = switch.client();
    let (host, link) = Host::with_veth("vhq", 1, 1);
    let link = HostLink::device(&link).expect("a link");
    let uplink = client.attach_link(link, 1, PortProperties::default());
    uplink.expect("attached");
    let socket = Socket::new(client, "vhq", 1);
    // A script whose last line fetches another file: it was read to its end.
    let mut script = b"#!ipxe\n".to_vec();
    for i in 0..40_000 {
        script.extend(format!("# {i:08} is a line\n").bytes());
    }
    script.extend(b"imgfetch http://10.9.1.1:8080/all || goto end\n:end\n");
    for legacy in [false, true] {
        let files = vec![("/script", script.clone()), ("/all", b"all".to_vec())];
        let server = qemu::serve(&host.name, "10.9.1.1:8080", files, "/all");
        let commands = "set net0/ip 10.9.1.2\nset net0/netmask 255.255.255.0\nifopen net0\n\
            imgfetch http://10.9.1.1:8080/script\nimgexec script";
        let machine = Qemu::start(&socket.path, A, legacy, commands);
        let asked = server.join().expect("a server");
        let console = machine.console();
        assert_eq!(asked, ["/script", "/all"], "{legacy}: {console}");
    }
    let stats = client.stats(socket.port);
    assert_eq!(stats.dropped(Reason::Violation), 0);
    assert!(stats.frames_in > 100 && stats.frames_out > 500, "{stats:?}");
}

const PLAIN: u64 = feature::VERSION_1;
const MERGING: u64 = feature::VERSION_1 | feature::MRG_RXBUF;
const SEGMENTS: u64 = MERGING | feature::GUEST_CSUM | feature::GUEST_TSO4;

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

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// A TCP/IPv4 frame with `payload` bytes of payload and no checksums.
fn tcp(payload: usize) -> Vec<u8> {
    let mut frame = bytes_of(
        "52540000000b 52540000000a 0800
         4500 0000 1234 4000 40 06 0000 c6120001 c6120002
         0400 0050 00000001 00000001 5010 ffff 0000 0000",
    );
    frame.extend((0..payload).map(|i| (i * 7) as u8));
    let total = (frame.len() - 14) as u16;
    frame[16..18].copy_from_slice(&total.to_be_bytes());
    frame
}

/// The header of a TCP/IPv4 frame to be cut at 1460 bytes of payload.
fn to_be_cut() -> [u8; HEADER] {
    let mut header = [0; HEADER];
    (header[0], header[1]) = (1, 1);
    let words = [54u16, 1460, 34, 16];
    for (at, word) in (2..).step_by(2).zip(words) {
        header[at..at + 2].copy_from_slice(&word.to_le_bytes());
    }
    header
}

fn segments_pass() {
    let pair = Pair::new();
    let source = Frontend::connect(&pair.a.path);
    let [_, mut transmit] = source.set_up(SEGMENTS);
    let sent = tcp(20_000);
    // A driver that takes segments uncut gets them so, over as many buffers as it takes.
    let sink = Frontend::connect(&pair.b.path);
    let [mut receive, _] = sink.set_up(SEGMENTS);
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
    let [mut receive, _] = sink.set_up(PLAIN);
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

fn ones_sum(bytes: impl IntoIterator<Item = u8>) -> u16 {
    let bytes: Vec<u8> = bytes.into_iter().collect();
    let words = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The sum over the pseudo header alone.
fn tcp_sum_of_nothing(frame: &[u8]) -> u16 {
    let len = (frame.len() - 34) as u16;
    let pseudo = frame[26..34].iter().copied().chain([0, 6]);
    ones_sum(pseudo.chain(len.to_be_bytes()))
}

/// The sum over pseudo header and segment: all ones if the checksum is right.
fn tcp_sum(frame: &[u8]) -> u16 {
    let whole = tcp_sum_of_nothing(frame).to_be_bytes();
    ones_sum(whole.into_iter().chain(frame[34..].iter().copied()))
}

fn any_layout() {
    let pair = Pair::new();
    let [_, mut transmit] = Frontend::connect(&pair.a.path).set_up_and_stay(MERGING);
    let [mut receive, _] = Frontend::connect(&pair.b.path).set_up_and_stay(MERGING);
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
        receive.set_descriptor(0, GUEST + receive.buffer(0), 7, WRITE | NEXT, 1);
        receive.set_descriptor(1, GUEST + receive.buffer(0) + 7, 100, WRITE, 0);
        receive.offer(0);
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

fn an_event_index() {
    let pair = Pair::new();
    let features = MERGING | feature::EVENT_IDX;
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
    // The driver wants to hear of the third frame.
    let used_event = available_at(0) + 4 + 2 * u64::from(SIZE);
    receive.write(used_event, &2u16.to_le_bytes());
    for (i, rings) in [0, 0, 1, 0].into_iter().enumerate() {
        transmit.send([0; HEADER], &tcp(10), &[1]);
        wait_for("it comes", || usize::from(receive.back()) == i + 1);
        wait_for("it is rung", || rings == 0 || rung(&sink) == rings);
        assert_eq!(rung(&sink), 0, "frame {i}");
    }
    // A sleeping switch asks to be kicked for the next buffer.
    let avail_event = used_at(1) + 4 + 8 * u64::from(SIZE);
    wait_for("the switch sleeps", || {
        transmit.read(avail_event, 2) == 4u16.to_le_bytes()
    });
}

fn enabled_early() {
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

fn a_queue_stops() {
    let pair = Pair::new();
    let source = Frontend::connect(&pair.a.path);
    let [_, mut transmit] = source.set_up(MERGING);
    let sink = Frontend::connect(&pair.b.path);
    let [mut receive, _] = sink.set_up(MERGING);
    (0..8).for_each(|i| receive.give_room(i, 2048));
    for _ in 0..3 {
        transmit.send([0; HEADER], &tcp(10), &[1]);
    }
    wait_for("they come", || receive.back() == 3);
    assert_eq!(source.stop(1), Some(3));
    assert_eq!(sink.stop(0), Some(3));
    transmit.send([0; HEADER], &tcp(10), &[1]);
    let of = |n: u64| 1 | n << 32;
    source.tell(ask::SET_VRING_NUM, &[of(SIZE.into())], &[]);
    source.tell(ask::SET_VRING_BASE, &[of(3)], &[]);
    let [d, a, u] = [descriptors_at, available_at, used_at].map(|at| USER + at(1));
    source.set_addresses(1, d, a, u);
    source.tell(ask::SET_VRING_KICK, &[1], &[source.kicks[1].as_fd()]);
    wait_for("the fourth is taken", || transmit.back() == 4);
    assert!(source.is_served());
    assert_eq!(receive.back(), 3);
}

/// One way to break the rules.
type Breaking = (&'static str, fn(&Frontend, &mut [Driver; 2]));

const BREAKINGS: &[Breaking] = &[
    ("an index that jumps", |_, [_, transmit]| {
        transmit.set_index(SIZE + 1);
        transmit.ring();
    }),
    ("a head that is none", |_, [_, transmit]| {
        transmit.offer(SIZE);
        transmit.ring();
    }),
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
    ("an indirect table", |_, [_, transmit]| {
        transmit.set_descriptor(0, GUEST + BUFFERS, 160, INDIRECT, 0);
        transmit.offer(0);
        transmit.ring();
    }),
    ("a buffer without an end", |_, [_, transmit]| {
        transmit.set_descriptor(0, GUEST + BUFFERS, 1, NEXT, 0);
        transmit.offer(0);
        transmit.ring();
    }),
    ("a buffer that goes on nowhere", |_, [_, transmit]| {
        transmit.set_descriptor(0, GUEST + BUFFERS, 100, NEXT, SIZE);
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
    ("room whose index jumps", |_, [receive, _]| {
        receive.set_index(1000);
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
    ("rings that the memory does not cover", |frontend, _| {
        frontend.set_addresses(1, USER, USER + BYTES - 16, USER + 0x8000);
    }),
    ("rings that overflow", |frontend, _| {
        frontend.set_addresses(1, u64::MAX - 15, USER, USER + 0x8000);
    }),
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
        frontend.tell(ask::SET_FEATURES, &[1 << 34], &[]);
    }),
    ("a message of no known kind", |frontend, _| {
        frontend.send(77, 1, &[], &[]);
    }),
    ("a message that is too long", |frontend, _| {
        frontend.send(ask::SET_OWNER, 1, &[0; 5000], &[]);
    }),
    ("answers that nobody reads", |frontend, _| {
        frontend.stream.set_nonblocking(true).expect("non-blocking");
        while frontend.tell(ask::GET_FEATURES, &[], &[]) {}
    }),
];

fn rules_are_broken() {
    let pair = Pair::new();
    let client = pair.switch.client();
    // Others, who go on all the while.
    let (c, d) = (Socket::new(client, "vhc", 2), Socket::new(client, "vhd", 2));
    let source = Frontend::connect(&c.path);
    let [_, mut transmit] = source.set_up(MERGING);
    let sink = Frontend::connect(&d.path);
    let [mut receive, _] = sink.set_up(MERGING);
    let honest = Frontend::connect(&pair.b.path);
    let [_, mut honest_transmit] = honest.set_up(MERGING);
    for (n, (what, broken)) in (1..).zip(BREAKINGS) {
        let frontend = Frontend::connect(&pair.a.path);
        let mut drivers = frontend.set_up(MERGING);
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

fn random_rings() {
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
        let drivers = frontend.set_up(MERGING | random(&mut state) & feature::EVENT_IDX);
        for _ in 0..20 {
            let [receive, transmit_hostile] = &drivers;
            for driver in [receive, transmit_hostile] {
                for i in 0..SIZE {
                    let near = |state: &mut u64, n: u64| random(state) % n;
                    let address = match near(&mut state, 8) {
                        0 => random(&mut state),
                        _ => GUEST + near(&mut state, BYTES),
                    };
                    let len = match near(&mut state, 8) {
                        0 => random(&mut state) as u32,
                        _ => near(&mut state, 70_000) as u32,
                    };
                    let flags = (near(&mut state, 64) & near(&mut state, 64)) as u16 & 7;
                    let next = near(&mut state, u64::from(SIZE) + 2) as u16;
                    driver.set_descriptor(i, address, len, flags, next);
                }
                let heads: Vec<u8> = (0..SIZE)
                    .flat_map(|_| (random(&mut state) as u16 % (SIZE + 1)).to_le_bytes())
                    .collect();
                let queue = if std::ptr::eq(driver, receive) { 0 } else { 1 };
                driver.write(available_at(queue) + 4, &heads);
                driver.set_index(random(&mut state) as u16 % (SIZE + SIZE / 4));
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

fn a_port_is_closed() {
    let pair = Pair::new();
    let state = || {
        let ports = pair.switch.client().ports().expect("ports");
        let port = ports.into_iter().find(|port| port.id == pair.a.port);
        port.expect("the port").state
    };
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

fn nothing_stays() {
    let pair = Pair::new();
    let process = format!("/proc/{}", pair.switch.pid().as_raw_nonzero());
    let held = || {
        let files = std::fs::read_dir(format!("{process}/fd")).expect("descriptors");
        let maps = std::fs::read_to_string(format!("{process}/maps")).expect("mappings");
        let shared = maps.lines().filter(|line| line.contains("frontend"));
        (files.count(), shared.count())
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

fn a_frontend_listens() {
    let switch = Switch::spawn().expect("a switch");
    let path = std::env::temp_dir().join(unique("vhl"));
    let listener = std::os::unix::net::UnixListener::bind(&path).expect("a listener");
    let link = HostLink::vhost_user_connected(&VhostUser {
        path: &path,
        name: "vm0",
        mtu: 1500,
        owner: None,
    });
    let client = switch.client();
    let attached = client.attach_link(link.expect("connected"), 1, PortProperties::default());
    let port = attached.expect("attached");
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

fn lookup_functions() {
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

fn several_queues() {
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
