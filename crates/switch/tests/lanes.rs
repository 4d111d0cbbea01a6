//! Switches of two lanes: traffic between them, flows spread over them, ports that come, go and
//! move under load, and patches. Needs root; each in a process of its own, since the switch is forked
//! from a process without threads.

#[macro_use]
mod common;

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use abi::ring::Slot;
use common::{GuestMemory, Host, anonymous, descriptors, exchange, mappings, unique, wait_for};
use switch::client::{Guest, SwitchClient};
use switch::counters::Reason;
use switch::lane::LaneStats;
use switch::lookup::Mac;
use switch::memory::GuestSide;
use switch::process::{Options, Switch};
use switch::properties::PortProperties;
use switch::protocol::{GuestInterface, PatchEnd, PortId};

fn main() {
    common::run_all(tests![
        every_thread_is_confined,
        tcp_passes_between_lanes,
        one_links_flows_are_spread,
        frames_cross_in_order,
        what_one_lane_learns_all_know,
        ports_move_under_load,
        coming_and_going_under_load_leaves_nothing,
        patches_join_domains,
        a_cycle_of_patches_is_bounded,
        a_guest_that_arrives_is_announced_and_what_came_late_follows,
        a_port_that_waits_calls_once_and_its_frames_follow,
        each_connection_to_a_front_has_a_port_behind_it,
        much_memory_is_given_back,
    ]);
}

/// A switch of two lanes, that the kernel moves between CPUs as it likes.
fn two_lanes() -> Switch {
    let options = Options {
        lanes: 2,
        cpus: Vec::new(),
    };
    Switch::spawn_with(&options).unwrap()
}

fn on(cpus: &[u16]) -> PortProperties {
    PortProperties {
        cpus: cpus.to_vec(),
        ..PortProperties::default()
    }
}

fn lanes(client: &SwitchClient) -> [LaneStats; 2] {
    client.lane_stats().unwrap().try_into().unwrap()
}

/// Attaches a TAP and takes its device into a namespace.
fn tap(client: &SwitchClient, what: &str, host: u8, properties: PortProperties) -> (Host, PortId) {
    let name = unique(what);
    let port = client
        .attach_link(common::tap(&name), 0, properties)
        .unwrap();
    let namespace = Host::new(what);
    namespace.take(&name, 1, host);
    (namespace, port)
}

/// A guest of one interface, played by the test.
struct Player {
    side: GuestSide,
    doorbell: OwnedFd,
    mac: u8,
    port: PortId,
}

impl Player {
    fn attach(client: &SwitchClient, mac: u8, domain: u32, properties: PortProperties) -> Player {
        let memory = GuestMemory::with("guest", 256, &[[2, 0, 0, 0, 0, mac]]);
        let port = memory.attach_with(client, &[domain], &properties)[0];
        Player {
            side: memory.region.guest_side(0).unwrap(),
            doorbell: memory.doorbell,
            mac,
            port,
        }
    }

    /// Sends as many of the frames `number`, … to a guest as there is room for; returns how many.
    fn send(&mut self, to: u8, number: u64, most: u32) -> u64 {
        let n = self.side.transmit.free(most).unwrap().min(most);
        for i in 0..n {
            let mut frame = [0; 60];
            frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, self.mac, 0x88, 0xb5]);
            frame[14..22].copy_from_slice(&(number + u64::from(i)).to_be_bytes());
            let slot = Slot {
                len: frame.len() as u16,
                ..Slot::spent(self.side.transmit.peek(i).buffer)
            };
            self.side.region.frame(slot).unwrap().write(&frame);
            self.side.transmit.fill(i, slot);
        }
        if n > 0 {
            self.side.transmit.publish(n);
            if self.side.transmit.consumer_sleeps() {
                rustix::io::write(&self.doorbell, &1u64.to_ne_bytes()).unwrap();
            }
        }
        n.into()
    }

    /// Sends a frame, if there is room.
    fn send_frame(&mut self, frame: &[u8]) {
        assert!(self.side.transmit.free(1).unwrap() > 0);
        let slot = Slot {
            len: frame.len() as u16,
            ..Slot::spent(self.side.transmit.peek(0).buffer)
        };
        self.side.region.frame(slot).unwrap().write(frame);
        self.side.transmit.fill(0, slot);
        self.side.transmit.publish(1);
        if self.side.transmit.consumer_sleeps() {
            rustix::io::write(&self.doorbell, &1u64.to_ne_bytes()).unwrap();
        }
    }

    /// The numbers of the frames that have come.
    fn receive(&mut self) -> Vec<u64> {
        let n = self.side.receive.filled(1).unwrap();
        let numbers = (0..n).map(|i| {
            let frame = self.side.region.frame(self.side.receive.peek(i)).unwrap();
            u64::from_be_bytes(frame.read_array(14).unwrap())
        });
        let numbers = numbers.collect();
        self.side.receive.release(n);
        numbers
    }

    /// Makes the switch learn the guest's port.
    fn say_hello(&mut self) {
        self.send(0xff, 0, 1);
    }
}

/// All that has come by a ring, as bytes.
fn frames_of(side: &mut GuestSide) -> Vec<Vec<u8>> {
    let filled = side.receive.filled(u32::MAX).unwrap();
    let frames = (0..filled).map(|i| {
        let bytes = side.region.frame(side.receive.peek(i)).unwrap();
        let mut frame = vec![0; bytes.len()];
        bytes.read(&mut frame);
        frame
    });
    let frames = frames.collect();
    side.receive.release(filled);
    frames
}

/// Frames that stay in the ring of a guest that left reach it where it is now, and all others of the domain, also on
/// another lane, are told where that is.
fn a_guest_that_arrives_is_announced_and_what_came_late_follows() {
    let switch = two_lanes();
    let client = switch.client();
    let mac = [2, 0, 0, 0, 0, 9];
    let attach = |memory: &GuestMemory, cpus: &[u16]| {
        let interface = GuestInterface {
            name: unique("mover"),
            domain: 0,
            mtu: 1500,
            mac: Some(Mac(mac)),
            properties: on(cpus),
            replaces: None,
            behind: None,
        };
        let guest = Guest {
            region: memory.file.as_fd(),
            doorbell: memory.doorbell.as_fd(),
            shared: None,
            waits: None,
            slots: memory.slots,
            interfaces: vec![interface],
        };
        client.attach_guest(guest).unwrap()[0]
    };
    let mut peers = [0, 1].map(|lane| Player::attach(client, 7 + lane as u8, 0, on(&[lane])));
    let left = GuestMemory::with("guest", 64, &[mac]);
    let port = attach(&left, &[0]);
    let came = |frames: u32| left.region.received() == [frames];
    peers[0].send(9, 1, 3);
    wait_for("three frames", || came(3));
    let copied = left.region.received();
    peers[0].send(9, 4, 2);
    wait_for("two more", || came(5));
    client.detach(&[port]).unwrap();
    let (late, filled) = left.region.late_frames(0, copied[0]);
    assert_eq!(filled, 5);
    assert_eq!(switch::late::count(&late), 2);

    let arrived = GuestMemory::with("guest", 64, &[mac]);
    let port = attach(&arrived, &[1]);
    client.announce(&[port]).unwrap();
    for peer in &mut peers {
        let mut heard = Vec::new();
        wait_for("an announcement", || {
            heard = frames_of(&mut peer.side);
            !heard.is_empty()
        });
        assert_eq!(heard.len(), 1);
        assert_eq!(
            &heard[0][..14],
            [&[0xff; 6][..], &mac, &[0x80, 0x35]].concat()
        );
        assert_eq!(heard[0].len(), 60);
        assert_eq!(heard[0][22..28], mac);
    }
    let file = rustix::fs::memfd_create("late", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::io::pwrite(&file, &late, 0).unwrap();
    client.deliver(port, file.as_fd()).unwrap();
    let mut side = arrived.region.guest_side(0).unwrap();
    let mut numbers = Vec::new();
    wait_for("what came late", || {
        let frames = frames_of(&mut side).into_iter();
        numbers.extend(frames.map(|frame| frame[21]));
        numbers.len() >= 2
    });
    assert_eq!(numbers, [4, 5]);
    // What is no file of frames does no harm.
    rustix::io::pwrite(&file, &[0xff; 100], 0).unwrap();
    rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0)).unwrap();
    client.deliver(port, file.as_fd()).unwrap();
    client.detach(&[port]).unwrap();
    assert!(client.announce(&[port]).is_err());
}

/// Frames to a port that waits for its guest are in the guest's rings when it comes, in their order, and each is counted
/// once. The port is the same when it waits again.
fn a_port_that_waits_calls_once_and_its_frames_follow() {
    let switch = two_lanes();
    let client = switch.client();
    let mac = [2, 0, 0, 0, 0, 9];
    let attach = |memory: &GuestMemory, waits, replaces| {
        let interface = GuestInterface {
            name: "on-demand".into(),
            domain: 0,
            mtu: 1500,
            mac: Some(Mac(mac)),
            properties: on(&[0]),
            replaces,
            behind: None,
        };
        let guest = Guest {
            region: memory.file.as_fd(),
            doorbell: memory.doorbell.as_fd(),
            shared: None,
            waits,
            slots: memory.slots,
            interfaces: vec![interface],
        };
        client.attach_guest(guest).unwrap()[0]
    };
    let calls = || {
        let mut calls = [0; 64];
        let read = rustix::io::read(client.calls(), &mut calls).unwrap_or(0);
        let calls = calls[..read].chunks(8);
        let calls = calls.map(|call| u64::from_le_bytes(call.try_into().unwrap()));
        calls.collect::<Vec<_>>()
    };
    let came = |memory: &GuestMemory, frames: u32| {
        wait_for("frames", || memory.region.received() == [frames]);
    };
    let mut peers = [0, 1].map(|lane| Player::attach(client, 7 + lane as u8, 0, on(&[lane])));
    let waiting = GuestMemory::with("guest", 64, &[mac]);
    let port = attach(&waiting, Some(7), None);
    assert!(calls().is_empty());
    for (peer, number) in peers.iter_mut().zip([1, 4]) {
        peer.send(9, number, 3);
        came(&waiting, number as u32 + 2);
    }
    assert_eq!(calls(), [7]);

    let memory = GuestMemory::with("guest", 64, &[mac]);
    assert_eq!(attach(&memory, None, Some(port)), port);
    came(&memory, 6);
    peers[1].send(9, 7, 2);
    came(&memory, 8);
    let mut side = memory.region.guest_side(0).unwrap();
    let numbers: Vec<_> = frames_of(&mut side).iter().map(|frame| frame[21]).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(client.stats(port).frames_out, 8);
    assert!(calls().is_empty());

    // A frame that the guest has not read when it goes is one that the next is started for.
    peers[0].send(9, 9, 1);
    came(&memory, 1);
    let waiting = GuestMemory::with("guest", 64, &[mac]);
    assert_eq!(attach(&waiting, Some(8), Some(port)), port);
    came(&waiting, 1);
    wait_for("a call", || calls() == [8]);
    assert_eq!(client.stats(port).frames_out, 9);
    peers[1].send(9, 10, 100);
    wait_for("a full ring", || {
        client.stats(port).dropped(Reason::RingFull) == 37
    });
    assert!(calls().is_empty());
    client.detach(&[port]).unwrap();
}

/// A TCP segment from a port of 10.0.0.7 to 10.0.0.9, or back.
fn segment(macs: [u8; 2], port: u16, flags: u8, back: bool) -> [u8; 60] {
    let mut frame = [0; 60];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, macs[0], 2, 0, 0, 0, 0, macs[1], 8, 0]);
    frame[14..24].copy_from_slice(&[0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6]);
    let (mut hosts, mut ports) = ([7, 9], [port, 80]);
    if back {
        hosts.reverse();
        ports.reverse();
    }
    frame[26..34].copy_from_slice(&[10, 0, 0, hosts[0], 10, 0, 0, hosts[1]]);
    frame[34..36].copy_from_slice(&ports[0].to_be_bytes());
    frame[36..38].copy_from_slice(&ports[1].to_be_bytes());
    frame[46] = 0x50;
    frame[47] = flags;
    frame
}

/// On whichever lane the connections come, each has a port of its own, whose frames come from the front's address; the
/// ports behind see no floods, and go with the front.
fn each_connection_to_a_front_has_a_port_behind_it() {
    const SYN: u8 = 2;
    const FIN: u8 = 1;
    const ACK: u8 = 16;
    let switch = two_lanes();
    let client = switch.client();
    let mac = [2, 0, 0, 0, 0, 9];
    let attach = |name: &str, memory: &GuestMemory, waits, (behind, replaces)| {
        let interface = GuestInterface {
            name: name.into(),
            domain: 0,
            mtu: 1500,
            mac: Some(Mac(mac)),
            properties: PortProperties::default(),
            replaces,
            behind,
        };
        client.attach_guest(Guest {
            region: memory.file.as_fd(),
            doorbell: memory.doorbell.as_fd(),
            shared: None,
            waits,
            slots: memory.slots,
            interfaces: vec![interface],
        })
    };
    let memory = || GuestMemory::with("guest", 64, &[mac]);
    let front_memory = memory();
    let front = attach("front", &front_memory, Some(1), (None, None)).unwrap()[0];
    let memories = [memory(), memory()];
    let behind: Vec<PortId> = std::iter::zip(&memories, 2..)
        .map(|(memory, number)| {
            let name = format!("front-{number}");
            attach(&name, memory, Some(number), (Some(front), None)).unwrap()[0]
        })
        .collect();
    // There is one level of them.
    let refused = attach("x", &memory(), Some(9), (Some(behind[0]), None)).unwrap_err();
    assert!(
        refused.to_string().contains("cannot be behind"),
        "{refused}"
    );
    let mut peers = [0, 1].map(|lane| Player::attach(client, 7 + lane as u8, 0, on(&[lane])));
    peers.iter_mut().for_each(Player::say_hello);
    let came = |memory: &GuestMemory, frames: u32| {
        wait_for("frames", || memory.region.received() == [frames]);
    };
    came(&front_memory, 2);
    for (peer, port) in peers.iter_mut().zip([1000, 1001]) {
        peer.send_frame(&segment([9, peer.mac], port, SYN, false));
        peer.send_frame(&segment([9, peer.mac], port, ACK, false));
    }
    for memory in &memories {
        came(memory, 2);
    }
    peers[0].send_frame(&segment([9, 7], 1002, SYN, false));
    wait_for("a drop", || {
        client.stats(front).dropped(Reason::NoGuest) == 1
    });
    came(&front_memory, 2);
    // The guest of one is started: it gets what waits, and its answer goes to its peer.
    let of = |side: &mut GuestSide| {
        let frames = frames_of(side);
        u16::from_be_bytes([frames[0][34], frames[0][35]])
    };
    let guest = memory();
    let port = behind[0];
    assert_eq!(
        attach("front-2", &guest, None, (Some(front), Some(port))).unwrap(),
        [port]
    );
    came(&guest, 2);
    let mut player = Player {
        side: guest.region.guest_side(0).unwrap(),
        doorbell: guest.doorbell.try_clone().unwrap(),
        mac: 9,
        port,
    };
    let which = of(&mut player.side);
    let peer = usize::from(which - 1000);
    for peer in &mut peers {
        frames_of(&mut peer.side);
    }
    player.send_frame(&segment([7 + peer as u8, 9], which, FIN | ACK, true));
    wait_for("an answer", || frames_of(&mut peers[peer].side).len() == 1);
    assert!(
        client
            .over(front, Duration::ZERO, Duration::from_secs(60))
            .unwrap()
            .is_empty()
    );
    peers[peer].send_frame(&segment([9, 7 + peer as u8], which, FIN | ACK, false));
    wait_for("the end", || {
        client
            .over(front, Duration::ZERO, Duration::from_secs(60))
            .unwrap()
            == [port]
    });
    // Its port waits for another connection then, and has nothing of the last one.
    let waiting = memory();
    attach("front-2", &waiting, Some(4), (Some(front), Some(port))).unwrap();
    peers[peer].send_frame(&segment([9, 7 + peer as u8], which, ACK, false));
    wait_for("a drop", || {
        client.stats(front).dropped(Reason::NotAwaited) == 1
    });
    peers[peer].send_frame(&segment([9, 7 + peer as u8], 1003, SYN, false));
    came(&waiting, 1);
    assert_eq!(of(&mut waiting.region.guest_side(0).unwrap()), 1003);
    client.detach(&[front]).unwrap();
    assert_eq!(client.ports().unwrap().len(), 2);
}

fn every_thread_is_confined() {
    let switch = two_lanes();
    // It answers when it is confined.
    lanes(switch.client());
    let tasks = format!("/proc/{}/task", switch.pid().as_raw_pid());
    let threads: Vec<_> = fs::read_dir(tasks).unwrap().flatten().collect();
    let named = "the control thread, two lanes, and the threads of huge pages and settled flows";
    assert_eq!(threads.len(), 5, "{named}");
    for thread in threads {
        let status = fs::read_to_string(thread.path().join("status")).unwrap();
        for line in [
            "Uid:\t65534\t65534\t65534\t65534",
            "CapEff:\t0000000000000000",
            "NoNewPrivs:\t1",
            "Seccomp:\t2",
        ] {
            assert!(status.lines().any(|l| l == line), "{line} not in {status}");
        }
    }
}

fn tcp_passes_between_lanes() {
    let switch = two_lanes();
    let client = switch.client();
    let (a, pa) = tap(client, "a", 1, on(&[0]));
    let (mut b, pb) = tap(client, "b", 2, on(&[1]));
    let rate = exchange(&a, &mut b, "200M");
    println!("  TAP to TAP by a handoff ring: {rate:.0} Mb/s");
    let described = client.ports().unwrap();
    assert_eq!(
        (&described[0].lanes, &described[1].lanes),
        (&vec![0], &vec![1])
    );
    for lane in lanes(client) {
        println!("  {lane:?}");
        assert!(lane.handoffs > 1000 && lane.frames > 1000);
        assert_eq!((lane.queues, lane.handoff_drops), (1, 0));
    }
    // Each counter is read by itself, and a host may say something at any time.
    wait_for("each frame was taken by poll or by wake-up", || {
        let lanes = lanes(client).map(|lane| (lane.frames, lane.by_poll + lane.by_wakeup));
        let ports = [pa, pb].map(|port| client.stats(port));
        let ports = ports.map(|stats| (stats.frames_in, stats.by_poll + stats.by_wakeup));
        lanes.iter().chain(&ports).all(|(all, parts)| all == parts)
    });
    for port in [pa, pb] {
        let stats = client.stats(port);
        assert_eq!(stats.dropped(Reason::HandoffFull), 0, "{stats:?}");
    }
}

fn one_links_flows_are_spread() {
    let switch = two_lanes();
    let client = switch.client();
    let (a, pa) = tap(client, "a", 1, on(&[0, 1]));
    let (mut b, _) = tap(client, "b", 2, on(&[0, 1]));
    b.serve("iperf3 -s", 5201);
    a.run("ping -q -c 3 -i 0.05 -W 2 10.9.1.2");
    // A quarter of the flows cross either way, and a flow is six frames at the least: its data
    // may come in a few segments.
    a.run("iperf3 -c 10.9.1.2 -n 20M -P 64");
    let handed_in = lanes(client).map(|lane| lane.handoffs);
    println!("  handoffs: {handed_in:?}, {:?}", client.stats(pa));
    assert!(handed_in.iter().all(|&frames| frames > 30), "{handed_in:?}");
    // What its own lane did not ask about, another sent by itself.
    assert_eq!(client.stats(pa).dropped(Reason::HandoffFull), 0);
    // No frame of a flow overtook another.
    let early = b.run("nstat -asz TcpExtTCPOFOQueue");
    let lost = a.run("nstat -asz TcpRetransSegs");
    let count = |text: &str| -> u64 {
        let line = text.lines().find(|line| line.starts_with("Tcp"));
        line.unwrap()
            .split_whitespace()
            .nth(1)
            .unwrap()
            .parse()
            .unwrap()
    };
    assert!(count(&lost) > 0 || count(&early) == 0, "{early}");
}

fn frames_cross_in_order() {
    let switch = two_lanes();
    let client = switch.client();
    let mut source = Player::attach(client, 1, 0, on(&[0]));
    let mut sink = Player::attach(client, 2, 0, on(&[1]));
    sink.say_hello();
    let (mut sent, mut seen, mut last) = (1, 0, 0);
    while sent < 200_000 {
        sent += source.send(2, sent, 64);
        for number in sink.receive() {
            assert!(number > last, "{number} came after {last}");
            last = number;
            seen += 1;
        }
    }
    wait_for("everything has arrived", || {
        seen += sink.receive().len() as u64;
        let lost = client.stats(sink.port).dropped(Reason::RingFull);
        let refused = client.stats(source.port).dropped(Reason::HandoffFull);
        seen + lost + refused == sent - 1
    });
    let stats = client.stats(source.port);
    println!("  {seen} of {} frames arrived", sent - 1);
    assert_eq!(stats.frames_in, sent - 1);
    assert_eq!(
        stats.dropped(Reason::HandoffFull),
        0,
        "its source held back"
    );
    assert!(lanes(client)[1].handoffs > 0);
}

fn what_one_lane_learns_all_know() {
    let switch = two_lanes();
    let client = switch.client();
    let mut guests: Vec<_> = (1..=6)
        .map(|mac| Player::attach(client, mac, 0, on(&[u16::from(mac) % 2])))
        .collect();
    let ports = client.ports().unwrap();
    assert!(ports.iter().all(|port| port.lanes.len() == 1));
    for guest in &mut guests {
        guest.say_hello();
    }
    let (mut hellos, mut table) = (0, Vec::new());
    wait_for("all have heard all", || {
        hellos += guests.iter_mut().map(|g| g.receive().len()).sum::<usize>();
        table = client.table(0).unwrap();
        hellos == 30 && table.len() == 6
    });
    for guest in &guests {
        let mac = Mac([2, 0, 0, 0, 0, guest.mac]);
        let entry = table.iter().find(|entry| entry.mac == mac).unwrap();
        assert_eq!(entry.port, guest.port);
    }
    // Nothing is flooded any more: on neither lane.
    for (from, to) in [(0, 1), (1, 0), (0, 2), (1, 3)] {
        let address = guests[to].mac;
        assert_eq!(guests[from].send(address, 7, 1), 1);
        wait_for("the frame", || guests[to].receive() == [7]);
        assert!(guests.iter_mut().all(|guest| guest.receive().is_empty()));
    }
    // A guest that moves is found on the other lane, too.
    let mut moved = Player::attach(client, 1, 0, on(&[0]));
    moved.say_hello();
    wait_for("the address has moved", || {
        let table = client.table(0).unwrap();
        table.iter().any(|entry| entry.port == moved.port)
    });
    for from in [1, 2] {
        wait_for("what goes to the mover arrives there", || {
            guests[from].send(1, 9, 1);
            std::thread::sleep(Duration::from_millis(1));
            moved.receive().contains(&9)
        });
    }
    client.flush(0).unwrap();
    assert!(client.table(0).unwrap().is_empty());
}

fn ports_move_under_load() {
    let switch = two_lanes();
    let client = switch.client();
    let mut source = Player::attach(client, 1, 0, on(&[0]));
    let mut sink = Player::attach(client, 2, 0, on(&[0]));
    sink.say_hello();
    let mut sent = 1;
    for round in 0..200u16 {
        let port = if round % 3 == 0 {
            source.port
        } else {
            sink.port
        };
        client.set_properties(port, on(&[round % 2])).unwrap();
        let mut seen = 0;
        wait_for("frames arrive after a move", || {
            sent += source.send(2, sent, 16);
            seen += sink.receive().len();
            seen > 100
        });
    }
    let queues: u32 = lanes(client).iter().map(|lane| lane.queues).sum();
    assert_eq!(queues, 2);
}

fn coming_and_going_under_load_leaves_nothing() {
    const ROUNDS: u16 = 400;
    let switch = two_lanes();
    let client = switch.client();
    let pid = switch.pid().as_raw_pid();
    let held = || (descriptors(pid), mappings(pid).len());
    let mut source = Player::attach(client, 1, 0, on(&[0]));
    let mut sent = 1;
    let mut round = |n: u16| {
        let mut guest = Player::attach(client, 2, 0, on(&[n % 2]));
        let tap = common::tap(&unique("t"));
        let tap = client.attach_link(tap, 0, on(&[0, 1])).unwrap();
        let ends = [0, 1].map(|domain| PatchEnd {
            name: format!("patch{domain}"),
            domain,
            properties: PortProperties::default(),
        });
        let (ends, _) = client.attach_patch(ends).unwrap();
        guest.say_hello();
        sent += source.send(2, sent, 64);
        // Both while frames are on their way there and after.
        if n.is_multiple_of(4) {
            wait_for("a frame", || {
                sent += source.send(2, sent, 64);
                !guest.receive().is_empty()
            });
        }
        client.detach(&[guest.port, tap, ends[0]]).unwrap();
    };
    for n in 0..50 {
        round(n);
    }
    let (before, memory) = (held(), anonymous(pid));
    for n in 0..ROUNDS {
        round(n);
    }
    assert_eq!(held(), before);
    let grown = anonymous(pid).saturating_sub(memory);
    println!("  memory after {ROUNDS} rounds: {grown} KiB more");
    assert!(grown < 2 * u64::from(ROUNDS));
    assert_eq!(client.ports().unwrap().len(), 1);
    assert_eq!(lanes(client).map(|lane| lane.queues), [1, 0]);
}

fn patch(client: &SwitchClient, a: u32, b: u32) -> ([PortId; 2], Option<String>) {
    let end = |domain, other| PatchEnd {
        name: format!("to{other}from{domain}"),
        domain,
        properties: PortProperties::default(),
    };
    client.attach_patch([end(a, b), end(b, a)]).unwrap()
}

fn patches_join_domains() {
    let switch = two_lanes();
    let client = switch.client();
    let mut guests: Vec<_> = (1..=3)
        .map(|n| Player::attach(client, n, n.into(), on(&[u16::from(n) % 2])))
        .collect();
    let same = PatchEnd {
        name: "self".into(),
        domain: 1,
        properties: PortProperties::default(),
    };
    let refused = client.attach_patch([same.clone(), same]).unwrap_err();
    assert!(refused.to_string().contains("in one domain"), "{refused}");
    let (ends, warning) = patch(client, 1, 2);
    assert_eq!(warning, None);
    assert_eq!(patch(client, 2, 3).1, None);
    for (from, to) in [(0, 2), (2, 0), (0, 1)] {
        let address = guests[to].mac;
        wait_for("a frame through the patches", || {
            guests[from].send(address, 5, 1);
            std::thread::sleep(Duration::from_millis(1));
            guests[to].receive().contains(&5)
        });
    }
    let table = client.table(1).unwrap();
    let third = Mac([2, 0, 0, 0, 0, 3]);
    assert!(table.iter().any(|e| e.mac == third && e.port == ends[0]));
    // One that was sent again, since the first took long, may still be on its way.
    wait_for("the ends count alike", || {
        let (out, back) = (client.stats(ends[0]), client.stats(ends[1]));
        (out.frames_out, out.bytes_out) == (back.frames_in, back.bytes_in)
    });
    let out = client.stats(ends[0]);
    assert!(out.frames_out > 0 && out.dropped(Reason::PatchLoop) == 0);
    client.detach(&[ends[1]]).unwrap();
    assert_eq!(client.ports().unwrap().len(), 5);
    guests[2].receive();
    guests[0].send(3, 6, 1);
    std::thread::sleep(Duration::from_millis(20));
    assert!(guests[2].receive().is_empty());
}

fn a_cycle_of_patches_is_bounded() {
    let switch = two_lanes();
    let client = switch.client();
    let mut guests: Vec<_> = (1..=2)
        .map(|n| Player::attach(client, n, n.into(), on(&[u16::from(n) % 2])))
        .collect();
    let (first, warning) = patch(client, 1, 2);
    assert_eq!(warning, None);
    let (second, warning) = patch(client, 1, 2);
    let warning = warning.unwrap();
    assert!(warning.contains("cycle") && warning.contains("spanning tree"));
    for number in 0..100 {
        guests[0].send(0xff, number, 1);
        wait_for("the broadcast", || !guests[1].receive().is_empty());
    }
    let ends = [first, second].concat();
    let loops = || -> u64 {
        let stats = ends.iter().map(|&end| client.stats(end));
        stats.map(|stats| stats.dropped(Reason::PatchLoop)).sum()
    };
    wait_for("what goes round is counted", || loops() >= 100);
    let passed: u64 = ends.iter().map(|&end| client.stats(end).frames_out).sum();
    println!("  100 broadcasts went through patches {passed} times");
    assert!(passed <= 100 * 64);
    client.detach(&[second[0]]).unwrap();
    let before = loops();
    guests[0].send(0xff, 0, 1);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(loops(), before);
}

/// What a lane frees when patches with a delay go makes the C library look at how the system gives
/// memory back, for which the switch has no way.
fn much_memory_is_given_back() {
    let switch = two_lanes();
    let client = switch.client();
    let mut delayed = PortProperties::default();
    delayed.set_all("delay=1ms").unwrap();
    let end = |name: &str, domain| PatchEnd {
        name: name.into(),
        domain,
        properties: delayed.clone(),
    };
    for round in 0..20 {
        let patches: Vec<_> = (0..1 + round % 4)
            .map(|i| client.attach_patch([end("a", 2 * i), end("b", 2 * i + 1)]))
            .map(|patch| patch.unwrap().0)
            .collect();
        for [a, _] in patches {
            client.detach(&[a]).unwrap();
        }
    }
    assert!(client.ports().unwrap().is_empty());
}
