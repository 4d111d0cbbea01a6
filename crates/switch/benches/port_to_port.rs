//! Frames a second from one guest port to another.
//!
//! One thread plays both guests, on a core of its own: it fills the source's transmit ring and
//! empties the sink's receive ring. In mode `prepared` the frames stand in the buffers from the
//! start, as in VALE's own measure; in mode `written` the source writes the first 60 bytes of each
//! frame again and the sink reads them. Besides, with short frames: with 10 000 other ports that
//! are idle, and with the sink on another lane, which shares the guests' core where there are only
//! two. Lengths are without the 4 bytes of checksum that a wire adds. Rounds of 0.3 seconds,
//! alternating; the medians of seven are printed as JSON.
//!
//! `lane_ns` is the processor time that the lanes take for a frame, wake-ups included, where the
//! source sends a full ring at a time and pauses: it tells versions apart on a busy machine, too.
//!
//! `cargo bench -p switch --bench port_to_port [-- SIZE MODE]`; a size and a mode (`prepared`,
//! `written`, `idle`, `lanes`) run one case three seconds, for a profiler.

#[path = "../tests/common/mod.rs"]
mod common;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use abi::region::INTERFACES_MAX;
use abi::ring::Slot;
use common::attach_to_lanes;
use rustix::thread::{CpuSet, sched_setaffinity};
use switch::lanes::Lanes;
use switch::memory::{GuestSide, SharedRegion};
use switch::process::Options;
use switch::properties::PortProperties;

const SLOTS: u32 = 1024;
const BURST: u32 = 128;
const IDLE: usize = 10_000;
const ROUNDS: usize = 7;

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Prepared,
    Written,
    Idle,
    Lanes,
}

impl Mode {
    const ALL: [Mode; 4] = [Mode::Prepared, Mode::Written, Mode::Idle, Mode::Lanes];

    fn name(self) -> &'static str {
        match self {
            Mode::Prepared => "prepared",
            Mode::Written => "written",
            Mode::Idle => "prepared, 10000 idle ports",
            Mode::Lanes => "prepared, from lane to lane",
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with('-'))
        .collect();
    if let [size, mode] = args.as_slice() {
        let mode = match mode.as_str() {
            "written" => Mode::Written,
            "idle" => Mode::Idle,
            "lanes" => Mode::Lanes,
            _ => Mode::Prepared,
        };
        let size = size.parse().expect("a frame size");
        let (rate, cost) = measure(size, mode, Duration::from_secs(3));
        println!("{:.2} Mpps, {cost:.1} ns", rate / 1e6);
        return;
    }
    let long = [256, 512, 1514].into_iter();
    let long = long.flat_map(|size| [(size, Mode::Prepared), (size, Mode::Written)]);
    let short = Mode::ALL.into_iter().map(|mode| (60, mode));
    let cases: Vec<_> = short.chain(long).chain([(1514, Mode::Lanes)]).collect();
    let mut rates = vec![Vec::new(); cases.len()];
    for _ in 0..ROUNDS {
        for (&(size, mode), rates) in cases.iter().zip(&mut rates) {
            rates.push(measure(size, mode, Duration::from_millis(300)));
        }
    }
    let rows = cases.iter().zip(&rates).map(|(&(size, mode), figures)| {
        let (mut rates, mut costs): (Vec<f64>, Vec<f64>) = figures.iter().copied().unzip();
        rates.sort_by(f64::total_cmp);
        costs.sort_by(f64::total_cmp);
        let median = rates[rates.len() / 2];
        serde_json::json!({
            "frame_bytes": size,
            "mode": mode.name(),
            "mpps": (median / 1e4).round() / 1e2,
            "gbps": (median * f64::from(size) * 8.0 / 1e7).round() / 1e2,
            "mpps_lowest": (rates[0] / 1e4).round() / 1e2,
            "mpps_highest": (rates[rates.len() - 1] / 1e4).round() / 1e2,
            "lane_ns": (costs[costs.len() / 2] * 10.0).round() / 10.0,
        })
    });
    let report = serde_json::json!({
        "bench": "switch port to port, lane on one core, both guests on another",
        "ring_slots": SLOTS,
        "results": rows.collect::<Vec<_>>(),
    });
    println!("{report:#}");
}

fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    // With one core only there is nothing to choose.
    let _ = sched_setaffinity(None, &set);
}

struct Guest {
    side: GuestSide,
    doorbell: OwnedFd,
}

/// Attaches a guest whose interfaces have the addresses from `mac` on, to the lane on a CPU.
fn attach(
    lanes: &mut Lanes,
    (mac, interfaces): (u32, usize),
    slots: u32,
    cpu: u16,
) -> (Arc<SharedRegion>, OwnedFd) {
    let macs: Vec<_> = (0..interfaces as u32)
        .map(|i| {
            let [_, a, b, c] = (mac + i).to_be_bytes();
            [2, 0, 0, a, b, c]
        })
        .collect();
    let properties = PortProperties {
        cpus: vec![cpu],
        ..PortProperties::default()
    };
    let (region, doorbell, _) = attach_to_lanes(lanes, slots, &macs, 0, &properties);
    (region, doorbell)
}

fn guest(lanes: &mut Lanes, mac: u32, cpu: u16) -> Guest {
    let (region, doorbell) = attach(lanes, (mac, 1), SLOTS, cpu);
    Guest {
        side: region.guest_side(0).expect("an interface"),
        doorbell,
    }
}

/// Nanoseconds that the lanes' threads have used.
fn lanes_time() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("our own threads");
    let times = tasks.flatten().filter_map(|task| {
        let read = |what| std::fs::read_to_string(task.path().join(what)).ok();
        read("comm").filter(|name| name.starts_with("weir-lane"))?;
        let time: u64 = read("schedstat")?.split(' ').next()?.parse().ok()?;
        Some(time)
    });
    times.sum()
}

/// Frames a second that reach the sink, and nanoseconds of the lanes' for each.
fn measure(size: u16, mode: Mode, time: Duration) -> (f64, f64) {
    // The lane's thread begins on the core that it is to have, and the guests' go to the other:
    // where each runs ahead of everything else, neither can push the other away.
    pin(1);
    let two = mode == Mode::Lanes;
    let options = Options {
        lanes: if two { 2 } else { 1 },
        cpus: if two { vec![0, 1] } else { vec![0] },
    };
    let (mut lanes, _counters) = Lanes::start(&options).expect("lanes");
    let mut source = guest(&mut lanes, 1, 0);
    let mut sink = guest(&mut lanes, 2, two.into());
    let mut idle = Vec::new();
    if mode == Mode::Idle {
        for n in 0..IDLE.div_ceil(INTERFACES_MAX) {
            let first = 1000 + (n * INTERFACES_MAX) as u32;
            idle.push(attach(&mut lanes, (first, INTERFACES_MAX), 64, 0));
        }
    }
    let mut frame = [0u8; 60];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    for buffer in 0..source.side.region.geometry().buffers() {
        let slot = Slot {
            len: size,
            ..Slot::spent(buffer)
        };
        let room = source.side.region.frame(slot).expect("a buffer");
        room.write(&frame);
    }
    run(&mut source, &mut sink, &frame, size, mode, time / 10);
    let started = Instant::now();
    let received = run(&mut source, &mut sink, &frame, size, mode, time);
    let rate = received as f64 / started.elapsed().as_secs_f64();
    let before = lanes_time();
    let (mut frames, mut rounds) = (0, 0);
    while rounds < 200 {
        frames += burst(&mut source, &mut sink, &frame, size, mode);
        rounds += 1;
    }
    (rate, (lanes_time() - before) as f64 / frames as f64)
}

/// Sends a full ring, pauses, and empties the other.
fn burst(source: &mut Guest, sink: &mut Guest, frame: &[u8; 60], size: u16, mode: Mode) -> u64 {
    fill(source, frame, size, mode, SLOTS);
    std::thread::sleep(Duration::from_millis(1));
    empty(&mut sink.side, mode, SLOTS)
}

fn run(
    source: &mut Guest,
    sink: &mut Guest,
    frame: &[u8; 60],
    size: u16,
    mode: Mode,
    time: Duration,
) -> u64 {
    let started = Instant::now();
    let mut received = 0;
    while started.elapsed() < time {
        for _ in 0..64 {
            let sent = fill(source, frame, size, mode, BURST);
            let got = empty(&mut sink.side, mode, BURST);
            received += got;
            if mode == Mode::Lanes && sent == 0 && got == 0 {
                // The sink's lane may have to run here.
                std::thread::yield_now();
            }
        }
    }
    received
}

/// Sends what there is room for, `most` at most; returns how many.
fn fill(guest: &mut Guest, frame: &[u8; 60], size: u16, mode: Mode, most: u32) -> u64 {
    let side = &mut guest.side;
    let free = side.transmit.free(most);
    let free = free.expect("an honest switch").min(most);
    for i in 0..free {
        let spent = side.transmit.peek(i);
        let slot = Slot {
            len: size,
            ..Slot::spent(spent.buffer)
        };
        if mode == Mode::Written {
            let room = side.region.frame(slot).expect("a buffer");
            room.write_array(0, frame);
        }
        side.transmit.fill(i, slot);
    }
    if free > 0 {
        side.transmit.publish(free);
        if side.transmit.consumer_sleeps() {
            rustix::io::write(&guest.doorbell, &1u64.to_ne_bytes()).expect("rung");
        }
    }
    free.into()
}

/// Takes what has come; returns how many.
fn empty(side: &mut GuestSide, mode: Mode, wanted: u32) -> u64 {
    let filled = side.receive.filled(wanted).expect("an honest switch");
    let mut sum = 0u64;
    for i in 0..filled {
        let slot = side.receive.peek(i);
        if mode == Mode::Written {
            let bytes = side.region.frame(slot).expect("a frame");
            if let Some(head) = bytes.read_array::<60>(0) {
                sum = sum.wrapping_add(head[59].into());
            }
        }
    }
    std::hint::black_box(sum);
    if filled > 0 {
        side.receive.release(filled);
    }
    filled.into()
}
