//! Rounds over guests' rings: which queue goes first, without harm to the other queues' frames.

use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use crate::counters::Reason;
use crate::doorbell::Doorbell;
use crate::ids::PortIndex;
use crate::worker::alone::Alone;
use crate::worker::ring_guest::RingGuest;

type SomeGuest = RingGuest<PortIndex>;

const SINK: u8 = 99;

fn guest(alone: &mut Alone, mac: u8, slots: u32) -> SomeGuest {
    RingGuest::new(mac, slots, |link, doorbell| {
        alone.attach(link, Some(doorbell))
    })
}

/// Sends a frame with a number in it.
fn send(guest: &mut SomeGuest, to: u8, number: u32, len: usize) {
    let frame = guest.frame(to, number, len);
    assert!(guest.send(&frame), "a slot is free");
}

/// Senders, numbers and lengths of the frames that have come.
fn receive(guest: &mut SomeGuest) -> Vec<(u8, u32, usize)> {
    let frames = guest.receive().into_iter().map(|frame| {
        let number: [u8; 4] = frame[14..18].try_into().unwrap();
        let number = u32::from_be_bytes(number);
        assert!(frame[18..].iter().all(|&byte| byte == number as u8));
        (frame[11], number, frame.len())
    });
    frames.collect()
}

/// A worker with a sink, whose address it knows, and so many others.
fn net(others: u8, slots: u32) -> (Alone, SomeGuest, Vec<SomeGuest>) {
    let mut alone = Alone::new();
    let mut sink = guest(&mut alone, SINK, slots);
    let mut others: Vec<_> = (1..=others)
        .map(|mac| guest(&mut alone, mac, slots))
        .collect();
    send(&mut sink, 1, 0, 60);
    alone.go_round();
    for guest in &mut others {
        assert_eq!(receive(guest).len(), 1);
    }
    (alone, sink, others)
}

#[test]
fn a_round_that_takes_long_is_left_for_a_job_and_goes_on_where_it_was() {
    for contended in [false, true] {
        let (mut alone, mut sink, mut guests) = net(3, 256);
        if contended {
            // That several had frames in a round is known after the first.
            for guest in &mut guests {
                send(guest, SINK, 0, 60);
            }
            alone.go_round();
            assert_eq!(receive(&mut sink).len(), 3);
        }
        for guest in &mut guests {
            send(guest, SINK, 1, 60);
        }
        alone.round_with_a_job(Instant::now() - Duration::from_millis(2));
        assert_eq!(receive(&mut sink), [], "no queue is served before the job");
        // It begins later than it can be left.
        alone.round_with_a_job(Instant::now() + Duration::from_secs(60));
        let mut senders: Vec<_> = receive(&mut sink).iter().map(|frame| frame.0).collect();
        senders.sort_unstable();
        assert_eq!(senders, [1, 2, 3], "a short round is not left");
    }
}

#[test]
fn a_rare_frame_does_not_wait_for_the_batch_that_is_under_way() {
    for rare in 0..3 {
        let (mut alone, mut sink, mut guests) = net(3, 1024);
        for (i, guest) in guests.iter_mut().enumerate().filter(|(i, _)| *i != rare) {
            for number in 0..200 {
                send(guest, SINK, number, 1514 - i);
            }
        }
        send(&mut guests[rare], SINK, 7, 60);
        let mut came = Vec::new();
        for _ in 0..30 {
            alone.go_round();
            came.extend(receive(&mut sink));
        }
        assert_eq!(came.len(), 401);
        let own = guests[rare].mac;
        let before = came.iter().position(|&(from, ..)| from == own).unwrap();
        // A quantum of each of the two that it finds, since none of the three has sent anything.
        let runs: Vec<_> = came
            .chunk_by(|a, b| a.0 == b.0)
            .map(|run| (run[0].0, run.len()))
            .collect();
        assert!(before <= 2 * 12, "{before} frames before it: {runs:?}");
    }
}

#[test]
fn batches_are_short_as_long_as_a_queue_may_go_first() {
    let (mut alone, mut sink, mut guests) = net(2, 1024);
    let [flood, other] = &mut guests[..] else {
        unreachable!()
    };
    let chains = |alone: &Alone, of: &SomeGuest| {
        let stats = alone.stats(of.port);
        (stats.chains_10_to_50, stats.chains_over_50)
    };
    // The other is looked at, and has sent nothing.
    for number in 0..128 {
        send(flood, SINK, number, 60);
    }
    let mut came = 0;
    while came < 128 {
        alone.go_round();
        came += receive(&mut sink).len();
    }
    assert_eq!(chains(&alone, flood), (4, 0));

    // Both have used up their deficit counters.
    for number in 0..400 {
        send(flood, SINK, number, 1514);
        send(other, SINK, number, 1514);
    }
    while came < 128 + 800 {
        alone.go_round();
        came += receive(&mut sink).len();
    }
    assert!(chains(&alone, flood).1 + chains(&alone, other).1 > 0);
}

#[test]
fn a_receiver_that_does_not_keep_up_still_gets_rare_frames() {
    let (mut alone, mut sink, mut guests) = net(2, 64);
    let [flood, rare] = &mut guests[..] else {
        unreachable!()
    };
    let mut came = Vec::new();
    for number in 0..100 {
        // It may be held back for a moment.
        while flood.side.transmit.free(1) != Ok(0) {
            send(flood, SINK, 0, 60);
        }
        alone.go_round();
        send(rare, SINK, number, 61);
        alone.go_round();
        // Four slots of 64 come free.
        let n = sink.side.receive.filled(u32::MAX).unwrap().min(4);
        for i in 0..n {
            came.push(sink.side.receive.peek(i).len);
        }
        sink.side.receive.release(n);
    }
    // The last one's queue may have gone to sleep before it, and been woken by the look that saw the
    // doorbell.
    for _ in 0..2 {
        came.extend(receive(&mut sink).iter().map(|&(_, _, len)| len as u16));
        alone.go_round();
    }
    came.extend(receive(&mut sink).iter().map(|&(_, _, len)| len as u16));
    let rares = came.iter().filter(|&&len| len == 61).count();
    assert_eq!(rares, 100);
    assert!(alone.stats(sink.port).dropped(Reason::RingFull) > 0);
    assert!(came.len() >= 400, "nothing is wasted: {}", came.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn in_any_order_all_frames_arrive_once_and_each_senders_in_order(
        steps in proptest::collection::vec(
            proptest::collection::vec((0usize..5, 1u32..90, 60usize..=1514), 0..6),
            1..12,
        ),
    ) {
        let (mut alone, mut sink, mut guests) = net(5, 1024);
        let (mut sent, mut came) = (vec![Vec::new(); 5], vec![Vec::new(); 5]);
        for step in steps {
            for (from, frames, len) in step {
                for _ in 0..frames {
                    let number = sent[from].len() as u32;
                    send(&mut guests[from], SINK, number, len);
                    sent[from].push((number, len));
                }
            }
            for _ in 0..20 {
                alone.go_round();
                for (from, number, len) in receive(&mut sink) {
                    came[usize::from(from) - 1].push((number, len));
                }
            }
        }
        prop_assert_eq!(came, sent);
    }
}

#[test]
fn guests_that_share_a_doorbell_are_served_and_the_others_sleep_on() {
    let (mut alone, mut sink, _) = net(1, 64);
    let mut shared = None;
    let mut guests: Vec<SomeGuest> = (10..14)
        .map(|mac| {
            let attach = |link, file| {
                let doorbell = shared.get_or_insert_with(|| Arc::new(Doorbell::new(1000, file)));
                alone.attach_with(link, Some(Arc::clone(doorbell)))
            };
            let mut guest = RingGuest::new(mac, 64, attach);
            if let Some(doorbell) = &shared {
                guest.rings(doorbell);
            }
            guest
        })
        .collect();
    let sleep = |alone: &mut Alone| {
        std::thread::sleep(Duration::from_millis(1));
        for _ in 0..200 {
            alone.go_round();
        }
    };
    let wakeups = |alone: &Alone, guests: &[SomeGuest]| -> Vec<u64> {
        let ports = guests.iter().map(|guest| guest.port);
        ports.map(|port| alone.stats(port).wakeups).collect()
    };
    for from in [2, 0, 2, 3, 1] {
        sleep(&mut alone);
        let before = wakeups(&alone, &guests);
        send(&mut guests[from], SINK, from as u32, 60);
        alone.go_round();
        alone.go_round();
        let came = receive(&mut sink);
        assert_eq!(came, [(10 + from as u8, from as u32, 60)]);
        let mut woken = wakeups(&alone, &guests);
        woken[from] -= 1;
        assert_eq!(woken, before, "guest {from} alone was woken");
    }
    // A ring without a frame wakes none.
    sleep(&mut alone);
    let before = wakeups(&alone, &guests);
    guests[0].ring();
    alone.go_round();
    assert_eq!(wakeups(&alone, &guests), before);
}
