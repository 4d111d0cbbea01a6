//! What a frame costs from one vhost-user port to another in split rings and in packed ones, on one
//! thread: both frontends are played, and only what the ports do is timed. So neither layout gains
//! or loses by what another core has in its cache (`benches/vhost.rs` has that), and the figures
//! hold on a busy machine: each is a median over thousands of rounds of a few microseconds.

#[path = "../tests/vhost/frontend.rs"]
mod frontend;

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use frontend::{Driver, Frontend, GUEST, HEADER, feature};
use switch::port::Link;
use switch::port::testing::Joined;
use switch::port::vhost::VhostLink;

/// Frames a round.
const FRAMES: u16 = 48;
/// Measured rounds of each kind: with frames and without.
const ROUNDS_MEASURED: usize = 5000;
/// Repetitions, in which the layouts alternate.
const ROUNDS: usize = 5;
const LAYOUTS: [(&str, u64); 2] = [("split", 0), ("packed", feature::PACKED)];

fn main() {
    let rows: Vec<_> = [60, 1514].into_iter().flat_map(measure).collect();
    let report = serde_json::json!({
        "bench": "vhost-user port to vhost-user port on one thread, by played frontends",
        "results": rows,
    });
    println!("{report:#}");
}

fn measure(bytes: usize) -> [serde_json::Value; 2] {
    let mut pairs = LAYOUTS.map(|(_, layout)| Pair::new(layout, bytes));
    let mut rounds = [const { Vec::new() }; 2];
    for _ in 0..ROUNDS {
        for (pair, rounds) in pairs.iter_mut().zip(&mut rounds) {
            rounds.push(pair.cost());
        }
    }
    [0, 1].map(|i| {
        serde_json::json!({
            "frame_bytes": bytes,
            "rings": LAYOUTS[i].0,
            "ns_per_frame": (median(&mut rounds[i]) * 10.0).round() / 10.0,
        })
    })
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Two ports and what is on either side of them.
struct Pair {
    joined: Joined,
    _frontends: [Frontend; 2],
    transmit: Driver,
    room: Driver,
}

impl Pair {
    fn new(layout: u64, bytes: usize) -> Pair {
        let [(source, a), (sink, b)] = [port(), port()];
        let mut joined = Joined::new(a, b).expect("joined");
        for frontend in [&source, &sink] {
            frontend.announce(feature::VERSION_1 | feature::MRG_RXBUF | layout);
        }
        (0..4).for_each(|_| joined.round());
        let [[_, transmit], [room, _]] = [source.drivers(), sink.drivers()];
        for i in 0..FRAMES {
            let (from, into) = (GUEST + transmit.buffer(i), GUEST + room.buffer(i));
            transmit.set_descriptor(i, from, (HEADER + bytes) as u32, 0, 0);
            room.set_descriptor(i, into, 2048, frontend::WRITE, 0);
        }
        Pair {
            joined,
            _frontends: [source, sink],
            transmit,
            room,
        }
    }

    /// Nanoseconds a frame.
    fn cost(&mut self) -> f64 {
        let [mut idle, mut busy] = [0, FRAMES].map(|frames| {
            let round = |_| self.round(frames).as_nanos() as f64;
            (0..ROUNDS_MEASURED).map(round).collect::<Vec<_>>()
        });
        (median(&mut busy) - median(&mut idle)) / f64::from(FRAMES)
    }

    /// Moves a number of frames; returns how long that took.
    fn round(&mut self, frames: u16) -> Duration {
        for i in 0..frames {
            self.room.offer(i);
            self.transmit.offer(i);
        }
        let started = Instant::now();
        self.joined.round();
        let took = started.elapsed();
        for driver in [&mut self.room, &mut self.transmit] {
            let back = std::iter::from_fn(|| driver.take_back()).count();
            assert_eq!(back, usize::from(frames));
        }
        took
    }
}

fn port() -> (Frontend, Link) {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    let link = VhostLink::connected(theirs.into(), 1500).expect("a link");
    (Frontend::on(ours), Link::VhostUser(Box::new(link)))
}
