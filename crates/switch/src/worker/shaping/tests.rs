//! Guests' rings under limits: what is held back stays where it is, whole and in order.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use abi::region::{Geometry, Interface};
use abi::ring::Slot;
use proptest::prelude::*;
use rustix::event::EventfdFlags;

use crate::counters::{PortStats, Reason};
use crate::lanes::{Attach, Lanes, Options};
use crate::mac::Mac;
use crate::memory::{CounterFile, GuestSide, SharedRegion};
use crate::port::Link;
use crate::port::guest::GuestLink;

use crate::protocol::{FlowOn, PatchEnd, PortId, PortKind};

struct Net {
    lanes: Lanes,
    counters: CounterFile,
    /// The domain that guests join.
    domain: u32,
}

struct Guest {
    side: GuestSide,
    doorbell: OwnedFd,
    port: PortId,
    mac: u8,
}

impl Net {
    fn new(lanes: usize) -> Net {
        let options = Options {
            lanes,
            cpus: Vec::new(),
        };
        let (lanes, file) = Lanes::start(&options).unwrap();
        let counters = CounterFile::open(file.as_fd()).unwrap();
        Net {
            lanes,
            counters,
            domain: 0,
        }
    }

    fn guest(&mut self, mac: u8, properties: &str) -> Guest {
        let geometry = Geometry::new(256, 1).unwrap();
        let interface = Interface::new("eth0", [2, 0, 0, 0, 0, mac], 1500).unwrap();
        let (region, _) = SharedRegion::create(geometry, &[interface]).unwrap();
        let region = Arc::new(region);
        let attach = Attach {
            links: vec![Link::Guest(GuestLink::new(
                region.switch_side(0).unwrap(),
                1500,
            ))],
            kind: PortKind::Guest,
            name: format!("guest{mac}"),
            domain: self.domain,
            mac: Some(Mac([2, 0, 0, 0, 0, mac])),
            properties: properties.parse().unwrap(),
        };
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let doorbell = rustix::event::eventfd(0, flags).unwrap();
        let ports = self
            .lanes
            .attach_guest(vec![attach], doorbell.try_clone().unwrap())
            .unwrap();
        Guest {
            side: region.guest_side(0).unwrap(),
            doorbell,
            port: ports[0],
            mac,
        }
    }

    fn stats(&self, guest: &Guest) -> PortStats {
        self.counters.sum(guest.port.place())
    }

    fn set(&mut self, guest: &Guest, properties: &str) {
        let properties = properties.parse().unwrap();
        self.lanes
            .set_properties(guest.port.place(), properties)
            .unwrap();
    }
}

impl Guest {
    /// Sends one frame if there is room.
    fn send(&mut self, bytes: &[u8]) -> bool {
        if self.side.transmit.free(1) == Ok(0) {
            return false;
        }
        let slot = Slot {
            len: bytes.len() as u16,
            ..Slot::spent(self.side.transmit.peek(0).buffer)
        };
        self.side.region.frame(slot).unwrap().write(bytes);
        self.side.transmit.fill(0, slot);
        self.side.transmit.publish(1);
        if self.side.transmit.consumer_sleeps() {
            rustix::io::write(&self.doorbell, &1u64.to_ne_bytes()).unwrap();
        }
        true
    }

    fn receive(&mut self) -> Vec<Vec<u8>> {
        let n = self.side.receive.filled(u32::MAX).unwrap();
        let frames = (0..n).map(|i| {
            let bytes = self.side.region.frame(self.side.receive.peek(i)).unwrap();
            let mut frame = vec![0; bytes.len()];
            bytes.read(&mut frame);
            frame
        });
        let frames = frames.collect();
        self.side.receive.release(n);
        frames
    }

    /// A frame to another guest with a number in it.
    fn frame(&self, to: u8, number: u32, len: usize) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, self.mac, 0x88, 0xb5];
        frame.extend(number.to_be_bytes());
        frame.resize(len, number as u8);
        frame
    }
}

/// What arrives until there are `n` frames, five seconds at most.
fn receive_all(guest: &mut Guest, n: usize) -> Vec<Vec<u8>> {
    let started = Instant::now();
    let mut all = Vec::new();
    while all.len() < n && started.elapsed() < Duration::from_secs(5) {
        all.extend(guest.receive());
        std::thread::sleep(Duration::from_micros(200));
    }
    all
}

/// What arrives until a frame does, five seconds at most.
fn receive_until(guest: &mut Guest, last: &[u8]) -> Vec<Vec<u8>> {
    let started = Instant::now();
    let mut all: Vec<Vec<u8>> = Vec::new();
    while all.last().is_none_or(|frame| frame != last) {
        assert!(started.elapsed() < Duration::from_secs(5), "it never comes");
        all.extend(guest.receive());
        std::thread::sleep(Duration::from_micros(200));
    }
    all
}

#[test]
fn what_is_over_a_limit_stays_with_its_sender_and_arrives_in_order() {
    for (from, to) in [("maxbw=4M", ""), ("", "maxbw=4M"), ("maxbw=9M", "maxbw=4M")] {
        let mut net = Net::new(1);
        let (mut a, mut b) = (net.guest(1, from), net.guest(2, to));
        let frames: Vec<_> = (0..120).map(|n| a.frame(2, n, 1000)).collect();
        let started = Instant::now();
        for frame in &frames {
            assert!(a.send(frame));
        }
        let mut got = Vec::new();
        while got.len() < frames.len() && started.elapsed() < Duration::from_secs(5) {
            got.extend(b.receive());
            let bytes = got.len() as f64 * 1000.0;
            // What the bucket holds at first, 20 ms' worth, and a frame.
            let allowed = started.elapsed().as_secs_f64() * 500_000.0 + 10_000.0 + 1000.0;
            assert!(bytes <= allowed, "{bytes} bytes where {allowed} may pass");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(got, frames);
        for guest in [&a, &b] {
            assert_eq!(net.stats(guest).drops().count(), 0);
        }
        assert_eq!(net.stats(&a).frames_in, 120);
        assert_eq!(net.stats(&a).bytes_in, 120_000);
    }
}

#[test]
fn what_is_wrong_between_frames_that_wait_is_counted_once() {
    let mut net = Net::new(1);
    let (mut a, mut b) = (net.guest(1, "maxbw=4M"), net.guest(2, ""));
    for n in 0..60 {
        let frame = a.frame(2, n, 1000);
        assert!(a.send(&frame) && a.send(&[0; 13]));
    }
    assert_eq!(receive_all(&mut b, 60).len(), 60);
    // The last one is met when the sender may send again.
    let started = Instant::now();
    while net.stats(&a).dropped(Reason::Runt) < 60 && started.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(net.stats(&a).dropped(Reason::Runt), 60);
}

#[test]
fn those_who_wait_share_a_receivers_rate_by_weight_and_level() {
    let mut net = Net::new(1);
    let mut few = net.guest(1, "share=100");
    let mut many = net.guest(2, "share=300");
    let mut sink = net.guest(9, "maxbw=80M");
    let mut run = |net: &Net, few: &mut Guest, many: &mut Guest| {
        let before = [net.stats(few).bytes_in, net.stats(many).bytes_in];
        let started = Instant::now();
        while started.elapsed() < Duration::from_millis(400) {
            for guest in [&mut *few, &mut *many] {
                let frame = guest.frame(9, 0, 1500);
                while guest.send(&frame) {}
            }
            sink.receive();
            std::thread::sleep(Duration::from_micros(100));
        }
        let [a, b] = [net.stats(few).bytes_in, net.stats(many).bytes_in];
        [(a - before[0]) as f64, (b - before[1]) as f64]
    };
    let [a, b] = run(&net, &mut few, &mut many);
    assert!((2.4..3.8).contains(&(b / a)), "{a} and {b} bytes for 1 : 3");
    net.set(&few, "share=100,priority=high");
    // What waited before the change goes first.
    run(&net, &mut few, &mut many);
    let [a, b] = run(&net, &mut few, &mut many);
    assert!(
        a > 10.0 * b,
        "{a} bytes of the higher level, {b} of the lower"
    );
}

#[test]
fn a_sender_that_waits_for_a_port_goes_on_when_that_leaves_or_has_no_limit() {
    let mut net = Net::new(1);
    let (mut a, b) = (net.guest(1, ""), net.guest(2, "maxbw=50K"));
    let mut c = net.guest(3, "");
    let frame = a.frame(2, 0, 1500);
    for _ in 0..20 {
        assert!(a.send(&frame));
    }
    std::thread::sleep(Duration::from_millis(20));
    assert!(net.stats(&a).frames_in < 20);
    net.set(&b, "");
    let last = a.frame(3, 1, 60);
    assert!(a.send(&last));
    assert_eq!(receive_all(&mut c, 1), std::slice::from_ref(&last));
    net.set(&b, "maxbw=50K");
    for _ in 0..20 {
        assert!(a.send(&frame));
    }
    std::thread::sleep(Duration::from_millis(20));
    net.lanes.detach(b.port.place());
    assert!(a.send(&last));
    // The address behind it is known no more: what was for it is flooded.
    receive_until(&mut c, &last);
}

#[test]
fn a_queue_that_waits_can_move_to_another_lane() {
    let mut net = Net::new(2);
    let (mut a, mut b) = (net.guest(1, "maxbw=2M,cpus=0"), net.guest(2, "cpus=0"));
    let frames: Vec<_> = (0..60).map(|n| a.frame(2, n, 1000)).collect();
    for frame in &frames {
        assert!(a.send(frame));
    }
    let mut got = Vec::new();
    for cpu in [1, 0, 1, 0] {
        std::thread::sleep(Duration::from_millis(20));
        net.set(&a, &format!("maxbw=2M,cpus={cpu}"));
        got.extend(b.receive());
    }
    got.extend(receive_all(&mut b, 60 - got.len()));
    assert_eq!(got, frames);
}

#[test]
fn a_delayed_port_gets_everything_in_order_and_late() {
    let mut net = Net::new(1);
    let (mut a, mut b) = (net.guest(1, ""), net.guest(2, "delay=30ms,jitter=20ms"));
    let started = Instant::now();
    let frames: Vec<_> = (0..200)
        .map(|n| a.frame(2, n, 60 + 7 * n as usize))
        .collect();
    for frame in &frames {
        assert!(a.send(frame));
    }
    let got = receive_all(&mut b, 1);
    assert!(started.elapsed() >= Duration::from_millis(10));
    let mut all = got;
    all.extend(receive_all(&mut b, 200 - all.len()));
    assert_eq!(all, frames);
}

#[test]
fn what_is_under_way_arrives_at_its_time_whatever_the_port_is_given() {
    for then in [
        "delay=300ms,cpus=0,share=7",
        "delay=200ms,cpus=0,maxbw=1G",
        "delay=300ms,cpus=1",
        "loss=0%,cpus=0",
        "",
    ] {
        let mut net = Net::new(2);
        // On one lane: what was taken there is in the line before the port is given anything.
        let (mut a, mut b) = (net.guest(1, "cpus=0"), net.guest(2, "delay=300ms,cpus=0"));
        let started = Instant::now();
        let frames: Vec<_> = (0..40).map(|n| a.frame(2, n, 100)).collect();
        for frame in &frames {
            assert!(a.send(frame));
        }
        let until = Instant::now() + Duration::from_secs(5);
        while net.stats(&a).frames_in < 40 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        net.set(&b, then);
        assert_eq!(receive_all(&mut b, 40), frames, "{then:?}");
        let early = started.elapsed() < Duration::from_millis(300);
        assert!(!early || !then.contains("delay"), "{then:?}");
        assert_eq!(net.stats(&b).drops().count(), 0, "{then:?}");
    }
}

#[test]
fn what_waits_for_a_rate_waits_for_the_next_one_or_goes() {
    for then in ["maxbw=900K", "maxbw=4M", ""] {
        let mut net = Net::new(1);
        let (mut a, mut b) = (net.guest(1, ""), net.guest(2, "maxbw=1M"));
        let mut c = net.guest(3, "");
        // Floods wait in the port's line.
        let frames: Vec<_> = (0..30).map(|n| a.frame(0xff, n, 1000)).collect();
        for frame in &frames {
            assert!(a.send(frame));
        }
        assert_eq!(receive_all(&mut c, 30), frames);
        net.set(&b, then);
        assert_eq!(receive_all(&mut b, 30), frames, "{then:?}");
        assert_eq!(net.stats(&b).drops().count(), 0, "{then:?}");
    }
}

/// A UDP packet of 1000 bytes from the first guest to another.
fn udp(to: u8, port: u8, n: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 3, 0xd8];
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0, 9, 0, port, 3, 0xc4, 0, 0]);
    frame.resize(1000, n);
    frame
}

#[test]
fn a_frame_keeps_to_its_senders_flow_and_to_its_receivers() {
    for (sender, receiver) in [("", "maxbw=2M"), ("maxbw=2M", ""), ("maxbw=9M", "maxbw=2M")] {
        // To one port, and to all.
        for to in [2, 0xff] {
            let mut net = Net::new(1);
            let (mut a, mut b) = (net.guest(1, ""), net.guest(2, ""));
            let mut add = |name, guest: &Guest, properties: &str| {
                let attributes = "transport=udp".parse().unwrap();
                let on = FlowOn::Port(guest.port);
                let properties = properties.parse().unwrap();
                net.lanes
                    .add_flow(name, on, attributes, properties)
                    .unwrap();
            };
            add("tx", &a, sender);
            add("rx", &b, receiver);
            let started = Instant::now();
            let frames: Vec<_> = (0..60).map(|n| udp(to, 7, n)).collect();
            for frame in &frames {
                assert!(a.send(frame));
            }
            assert_eq!(receive_all(&mut b, 60), frames);
            // 60 KB at 250 KB a second, but for what the bucket holds at first and a frame.
            let least = (60_000.0 - 6000.0) / 250_000.0;
            assert!(
                started.elapsed().as_secs_f64() > least,
                "{sender}/{receiver} to {to}"
            );
            for flow in net.lanes.flows(None) {
                assert_eq!((flow.stats.frames, flow.stats.dropped), (60, 0));
            }
        }
    }
}

#[test]
fn what_waits_for_a_flow_goes_on_when_that_is_removed() {
    let mut net = Net::new(1);
    let (mut a, mut b) = (net.guest(1, ""), net.guest(2, ""));
    let (flow, limit) = (
        "transport=udp".parse().unwrap(),
        "maxbw=100K".parse().unwrap(),
    );
    let on = FlowOn::Port(a.port);
    net.lanes.add_flow("slow", on, flow, limit).unwrap();
    let frames: Vec<_> = (0..40).map(|n| udp(2, 7, n)).collect();
    for frame in &frames {
        assert!(a.send(frame));
    }
    let until = Instant::now() + Duration::from_secs(5);
    while net.stats(&a).frames_in < 40 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    net.lanes.remove_flow("slow").unwrap();
    assert_eq!(receive_all(&mut b, 40), frames);
}

#[test]
fn a_flood_that_reaches_nobody_is_counted() {
    let mut net = Net::new(1);
    let (mut a, b) = (net.guest(1, "vlan=7"), net.guest(2, "vlan=8"));
    let frame = a.frame(0xff, 0, 60);
    assert!(a.send(&frame));
    let until = Instant::now() + Duration::from_secs(5);
    while net.stats(&a).dropped(Reason::NoDestination) < 1 {
        assert!(Instant::now() < until, "{:?}", net.stats(&a));
    }
    assert_eq!(net.stats(&b).frames_out, 0);
}

#[test]
fn a_limited_flow_waits_in_its_line_and_the_rest_of_the_port_does_not() {
    let mut net = Net::new(1);
    let (mut a, mut b) = (net.guest(1, ""), net.guest(2, ""));
    let flow = "transport=udp,remote_port=7".parse().unwrap();
    let limit = "maxbw=2M".parse().unwrap();
    let on = FlowOn::Port(a.port);
    net.lanes.add_flow("slow", on, flow, limit).unwrap();
    let udp = |port: u8, n: u8| udp(2, port, n);
    let started = Instant::now();
    for n in 0..50 {
        assert!(a.send(&udp(7, n)));
    }
    assert!(a.send(&udp(8, 99)));
    let mut got = Vec::new();
    while !got.contains(&udp(8, 99)) {
        got.extend(b.receive());
        assert!(
            started.elapsed() < Duration::from_secs(5),
            "the other flow waits"
        );
    }
    let early = got.len();
    got.extend(receive_all(&mut b, 51 - got.len()));
    got.retain(|frame| *frame != udp(8, 99));
    assert_eq!(got, (0..50).map(|n| udp(7, n)).collect::<Vec<_>>());
    let slow = net.lanes.flows(None).next().unwrap().stats;
    assert_eq!((slow.frames, slow.bytes, slow.dropped), (50, 50_000, 0));
    assert!(early < 51 && slow.held > 0, "{early} early, {slow:?}");
}

#[test]
fn a_frame_bears_its_vlan_on_trunks_alone() {
    let mut net = Net::new(1);
    let (mut a, mut b) = (net.guest(1, "vlan=7"), net.guest(2, "vlan=7"));
    let (mut other, mut trunk) = (net.guest(3, "vlan=8"), net.guest(4, ""));
    for len in [60, 64, 65, 68, 1000, 1514] {
        let bare = a.frame(255, len as u32, len);
        let bare = [&[0xff; 6], &bare[6..]].concat();
        let mut tagged = bare.clone();
        tagged.splice(12..12, [0x81, 0, 0, 7]);
        assert!(a.send(&bare));
        assert_eq!(receive_all(&mut b, 1), std::slice::from_ref(&bare));
        assert_eq!(receive_all(&mut trunk, 1), [tagged.clone()]);
        let mut back = tagged.clone();
        back[11] = 4;
        assert!(trunk.send(&back));
        back.drain(12..16);
        assert_eq!(receive_all(&mut a, 1), [back.clone()]);
        assert_eq!(receive_all(&mut b, 1), [back]);
    }
    assert!(other.receive().is_empty());
}

#[test]
fn what_comes_through_a_patch_to_a_limited_port_waits_in_its_line() {
    use crate::lanes::PatchEnd;
    let mut net = Net::new(1);
    let end = |name: &str, domain| PatchEnd {
        name: name.into(),
        domain,
        properties: Default::default(),
    };
    net.lanes
        .attach_patch([end("left", 0), end("right", 1)])
        .unwrap();
    let mut a = net.guest(1, "maxbw=100M");
    net.domain = 1;
    let (mut b, mut c) = (net.guest(2, "maxbw=4M"), net.guest(3, ""));
    let hello = b.frame(1, 0, 60);
    assert!(b.send(&hello));
    assert_eq!(receive_all(&mut a, 1), [hello]);
    let slow: Vec<_> = (0..60).map(|n| a.frame(2, n, 1000)).collect();
    for frame in &slow {
        assert!(a.send(frame));
    }
    let quick = a.frame(3, 1, 1000);
    assert!(a.send(&quick));
    receive_until(&mut c, &quick);
    assert!(
        b.receive().len() < 50,
        "the quick one overtakes those who wait"
    );
    let stats = net.stats(&b);
    assert!(stats.frames_out < 60 && stats.drops().count() == 0);
    let got = receive_until(&mut b, &slow[59]);
    assert!(got.len() > 10 && got.ends_with(&slow[50..]), "in order");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn whatever_is_asked_of_ports_nothing_is_lost_without_being_counted(
        asked in proptest::collection::vec(prop_oneof![
            Just(""), Just("maxbw=200M"), Just("maxbw=2G,priority=high"), Just("vlan=7"),
            Just("delay=1ms"), Just("loss=10%"), Just("share=7"), Just("flood-limit=30"),
            Just("protection=mac-nospoof"), Just("maxbw=300M,delay=2ms,vlan=7"),
        ], 4),
        frames in proptest::collection::vec((0usize..4, 1u8..6, 14usize..1514), 1..300),
    ) {
        let mut net = Net::new(1);
        let mut guests: Vec<_> = (1..).zip(&asked).map(|(mac, asked)| net.guest(mac, asked)).collect();
        let (mut sent, mut floods) = (0u64, 0u64);
        for (from, to, len) in frames {
            // 5 is nobody's address: such frames are flooded.
            let frame = guests[from].frame(to, 0, len.max(18));
            while !guests[from].send(&frame) {
                guests.iter_mut().for_each(|guest| drop(guest.receive()));
            }
            sent += 1;
            floods += u64::from(to == 5 || asked.iter().any(|asked| asked.contains("vlan")));
        }
        let started = Instant::now();
        loop {
            guests.iter_mut().for_each(|guest| drop(guest.receive()));
            let all: Vec<_> = guests.iter().map(|guest| net.stats(guest)).collect();
            let taken: u64 = all.iter().map(|stats| stats.frames_in).sum();
            let out: u64 = all.iter().map(|stats| stats.frames_out).sum();
            let dropped: u64 = all.iter().flat_map(|stats| stats.drops()).map(|(_, n)| n).sum();
            // A flooded frame leaves up to three times, or not at all where nobody is in its VLAN.
            let done = out + dropped;
            if taken == sent && done + floods >= sent && done <= sent + 2 * floods {
                break;
            }
            let late = started.elapsed() > Duration::from_secs(5);
            prop_assert!(!late, "{sent} sent, {taken} taken, {out} out, {dropped} dropped, {floods} floods");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Joins domains 0 and 1.
fn join(net: &mut Net, properties: &str) {
    let end = |domain: u32| PatchEnd {
        name: format!("end{domain}"),
        domain,
        properties: properties.parse().unwrap(),
    };
    net.lanes.attach_patch([end(0), end(1)]).unwrap();
}

#[test]
fn a_vlans_frames_bear_its_tag_beyond_a_patch_as_on_a_bridges_trunk() {
    for lanes in [1, 2] {
        let mut net = Net::new(lanes);
        let mut access = net.guest(1, "vlan=7");
        net.domain = 1;
        let (mut far, mut other) = (net.guest(2, ""), net.guest(3, ""));
        join(&mut net, "");
        let plain = access.frame(2, 1, 100);
        let mut tagged = plain.clone();
        tagged.splice(12..12, [0x81, 0, 0, 7]);
        assert!(access.send(&plain));
        assert_eq!(receive_all(&mut far, 1), [tagged], "on {lanes} lanes");
        // Of what comes back, the VLAN's is bared, and nothing else arrives.
        let back = far.frame(1, 2, 100);
        for vlan in [8, 7] {
            let mut tagged = back.clone();
            tagged.splice(12..12, [0x81, 0, 0, vlan]);
            assert!(far.send(&tagged));
        }
        assert_eq!(receive_all(&mut access, 1), [back]);
        // What is for all bears it, too.
        let mut all = access.frame(0xff, 3, 100);
        all[..6].fill(0xff);
        assert!(access.send(&all));
        all.splice(12..12, [0x81, 0, 0, 7]);
        for guest in [&mut far, &mut other] {
            receive_until(guest, &all);
        }
        assert!(access.receive().is_empty());
    }
}

#[test]
fn a_patch_delays_in_each_direction_what_goes_through_it() {
    let mut net = Net::new(1);
    let mut near = net.guest(1, "");
    net.domain = 1;
    let mut far = net.guest(2, "");
    join(&mut net, "delay=20ms");
    for _ in 0..2 {
        let (from, to) = (&mut near, &mut far);
        let frame = from.frame(to.mac, 1, 100);
        let started = Instant::now();
        assert!(from.send(&frame));
        assert_eq!(receive_all(to, 1), [frame]);
        let took = started.elapsed();
        assert!(took >= Duration::from_millis(20), "{took:?}");
        std::mem::swap(&mut near, &mut far);
    }
}
