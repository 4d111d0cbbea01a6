//! Guests' rings under limits: frames that are held back stay in their ring, whole and in order.

mod flows;
mod wires;

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use crate::counters::{PortStats, Reason};
use crate::lanes::{Attach, Lanes, Options};
use crate::mac::Mac;
use crate::memory::CounterFile;
use crate::protocol::{FlowOn, PatchEnd, PortId, PortKind};
use crate::worker::ring_guest::RingGuest;

struct Net {
    lanes: Lanes,
    counters: CounterFile,
    /// The domain that guests join.
    domain: u32,
}

type NetGuest = RingGuest<PortId>;

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

    fn guest(&mut self, mac: u8, properties: &str) -> NetGuest {
        RingGuest::new(mac, 256, |link, doorbell| {
            let attach = Attach {
                links: vec![link],
                kind: PortKind::Guest,
                name: format!("guest{mac}"),
                domain: self.domain,
                mac: Some(Mac([2, 0, 0, 0, 0, mac])),
                properties: properties.parse().unwrap(),
                replaces: None,
                behind: None,
            };
            self.lanes
                .attach_guest(vec![attach], doorbell, None)
                .unwrap()[0]
        })
    }

    fn stats(&self, guest: &NetGuest) -> PortStats {
        self.counters.sum(guest.port.slot())
    }

    fn set(&mut self, guest: &NetGuest, properties: &str) {
        let properties = properties.parse().unwrap();
        self.lanes
            .set_properties(guest.port.slot(), properties)
            .unwrap();
    }
}

/// Longest that anything here may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Waits until something is so.
#[track_caller]
fn until(mut so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !so() {
        assert!(started.elapsed() < LIMIT, "it never is");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// What arrives until there are `n` frames.
#[track_caller]
fn receive_all(guest: &mut NetGuest, n: usize) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    until(|| {
        all.extend(guest.receive());
        all.len() >= n
    });
    all
}

/// What arrives until a frame does.
#[track_caller]
fn receive_until(guest: &mut NetGuest, last: &[u8]) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    until(|| {
        all.extend(guest.receive());
        all.last().is_some_and(|frame| frame == last)
    });
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
        while got.len() < frames.len() && started.elapsed() < LIMIT {
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
    until(|| net.stats(&a).dropped(Reason::Runt) >= 60);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(net.stats(&a).dropped(Reason::Runt), 60);
}

#[test]
fn those_who_wait_share_a_receivers_rate_by_weight_and_level() {
    let mut net = Net::new(1);
    let mut few = net.guest(1, "share=100");
    let mut many = net.guest(2, "share=300");
    let mut sink = net.guest(9, "maxbw=8M");
    // Frames of each that arrive while both have some that wait.
    let mut run = |few: &mut NetGuest, many: &mut NetGuest| {
        for guest in [many, few] {
            let frame = guest.frame(9, 0, 1500);
            (0..250).for_each(|_| assert!(guest.send(&frame)));
        }
        let senders: Vec<u8> = receive_all(&mut sink, 500)
            .iter()
            .map(|frame| frame[11])
            .collect();
        let first = |mac| senders.iter().position(|sender| *sender == mac).unwrap();
        let last = |mac| senders.iter().rposition(|sender| *sender == mac).unwrap();
        // Those of `few` are sent last: from the first of them on, both wait.
        let both = &senders[first(1)..=last(1).min(last(2)).max(first(1))];
        [1, 2].map(|mac| both.iter().filter(|sender| **sender == mac).count())
    };
    let [a, b] = run(&mut few, &mut many);
    assert!(
        (2.6..3.4).contains(&(b as f64 / a as f64)),
        "{a} and {b} frames for 1 : 3"
    );
    net.set(&few, "share=100,priority=high");
    let [a, b] = run(&mut few, &mut many);
    assert!(
        a > 10 * b,
        "{a} frames of the higher level, {b} of the lower"
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
    net.lanes.detach(b.port.slot());
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

#[test]
fn a_flood_that_reaches_no_port_is_counted() {
    let mut net = Net::new(1);
    let (mut a, b) = (net.guest(1, "vlan=7"), net.guest(2, "vlan=8"));
    let frame = a.frame(0xff, 0, 60);
    assert!(a.send(&frame));
    until(|| net.stats(&a).dropped(Reason::NoDestination) == 1);
    assert_eq!(net.stats(&b).frames_out, 0);
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
            // 5 is no port's address: frames to it are flooded.
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
            // A flooded frame leaves up to three times, or not at all if no other port is in its
            // VLAN.
            let done = out + dropped;
            if taken == sent && done + floods >= sent && done <= sent + 2 * floods {
                break;
            }
            let late = started.elapsed() > LIMIT;
            prop_assert!(!late, "{sent} sent, {taken} taken, {out} out, {dropped} dropped, {floods} floods");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
