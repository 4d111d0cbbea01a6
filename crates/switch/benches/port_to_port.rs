//! Frames a second from one guest port to another through a worker on a core of its own.
//!
//! One thread plays both guests, on the other core: it fills the source's transmit ring and
//! empties the sink's receive ring. In mode `prepared` the frames stand in the buffers from the
//! start, as in VALE's own measure; in mode `written` the source writes each frame's first 60
//! bytes anew and the sink reads them. Turns of 0.3 seconds each, turn about; the medians of five
//! are printed as JSON.
//!
//! `cargo bench -p switch --bench port_to_port [-- SIZE MODE]`; a size and a mode run one case
//! ten seconds, for a profiler.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use abi::region::{Geometry, Interface};
use abi::ring::Slot;
use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::{CpuSet, sched_setaffinity};
use switch::lanes::{Attach, Lanes};
use switch::memory::{GuestSide, SharedRegion};
use switch::port::Link;
use switch::port::guest::GuestLink;
use switch::process::Options;
use switch::properties::PortProperties;
use switch::protocol::PortKind;

const SLOTS: u32 = 1024;
const BURST: u32 = 128;

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Prepared,
    Written,
}

fn main() {
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with('-'))
        .collect();
    if let [size, mode] = args.as_slice() {
        let mode = if mode == "written" {
            Mode::Written
        } else {
            Mode::Prepared
        };
        let rate = measure(
            size.parse().expect("a frame size"),
            mode,
            Duration::from_secs(3),
        );
        println!("{:.2} Mpps", rate / 1e6);
        return;
    }
    let cases = [60, 256, 512, 1500]
        .into_iter()
        .flat_map(|size| [(size, Mode::Prepared), (size, Mode::Written)]);
    let cases: Vec<_> = cases.collect();
    let mut rates = vec![Vec::new(); cases.len()];
    for _ in 0..5 {
        for (&(size, mode), rates) in cases.iter().zip(&mut rates) {
            rates.push(measure(size, mode, Duration::from_millis(300)));
        }
    }
    let rows = cases.iter().zip(&mut rates).map(|(&(size, mode), rates)| {
        rates.sort_by(f64::total_cmp);
        let median = rates[rates.len() / 2];
        serde_json::json!({
            "frame_bytes": size,
            "mode": if mode == Mode::Written { "written" } else { "prepared" },
            "mpps": (median / 1e4).round() / 1e2,
            "gbps": (median * f64::from(size) * 8.0 / 1e7).round() / 1e2,
            "mpps_lowest": (rates[0] / 1e4).round() / 1e2,
            "mpps_highest": (rates[rates.len() - 1] / 1e4).round() / 1e2,
        })
    });
    let report = serde_json::json!({
        "bench": "switch port to port, worker on one core, both guests on another",
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
    bell: OwnedFd,
}

fn guest(lanes: &mut Lanes, mac: u8) -> Guest {
    let geometry = Geometry::new(SLOTS, 1).expect("a geometry");
    let interface = Interface::new("eth0", [2, 0, 0, 0, 0, mac], 1500).expect("a name");
    let (region, _) = SharedRegion::create(geometry, &[interface]).expect("a region");
    let region = Arc::new(region);
    let side = region.switch_side(0).expect("an interface");
    let attach = Attach {
        links: vec![Link::Guest(GuestLink::new(side, 1500))],
        kind: PortKind::Guest,
        name: format!("guest{mac}"),
        domain: 0,
        mac: Some(switch::lookup::Mac([2, 0, 0, 0, 0, mac])),
        properties: PortProperties::default(),
    };
    let bell = doorbell();
    let theirs = bell.try_clone().expect("a copy");
    lanes.attach_guest(vec![attach], theirs).expect("attached");
    Guest {
        side: region.guest_side(0).expect("an interface"),
        bell,
    }
}

fn doorbell() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an eventfd")
}

/// Frames a second that reach the sink.
fn measure(size: u16, mode: Mode, time: Duration) -> f64 {
    // The lane's thread begins on the core that it is to have, and the guests' go to the other:
    // where each runs ahead of everything else, neither can push the other away.
    pin(1);
    let options = Options {
        lanes: 1,
        cpus: vec![0],
    };
    let (mut lanes, _counters) = Lanes::start(&options).expect("a lane");
    let mut source = guest(&mut lanes, 1);
    let mut sink = guest(&mut lanes, 2);
    let mut frame = [0u8; 60];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    for buffer in 0..source.side.region.geometry().buffers() {
        let slot = Slot {
            len: size,
            ..Slot::spent(buffer)
        };
        source
            .side
            .region
            .frame(slot)
            .expect("a buffer")
            .write(&frame);
    }
    run(&mut source, &mut sink, &frame, size, mode, time / 10);
    let started = Instant::now();
    let received = run(&mut source, &mut sink, &frame, size, mode, time);
    received as f64 / started.elapsed().as_secs_f64()
}

fn run(
    source: &mut Guest,
    sink: &mut Guest,
    frame: &[u8; 60],
    size: u16,
    mode: Mode,
    time: Duration,
) -> u64 {
    let (source, bell) = (&mut source.side, &source.bell);
    let sink = &mut sink.side;
    let started = Instant::now();
    let (mut received, mut sum) = (0, 0u64);
    while started.elapsed() < time {
        for _ in 0..64 {
            let free = source
                .transmit
                .free(BURST)
                .expect("an honest switch")
                .min(BURST);
            for i in 0..free {
                let spent = source.transmit.peek(i);
                let slot = Slot {
                    len: size,
                    ..Slot::spent(spent.buffer)
                };
                if mode == Mode::Written {
                    let room = source.region.frame(slot).expect("a buffer");
                    room.write_array(0, frame);
                }
                source.transmit.fill(i, slot);
            }
            if free > 0 {
                source.transmit.publish(free);
                if source.transmit.consumer_sleeps() {
                    rustix::io::write(bell, &1u64.to_ne_bytes()).expect("rung");
                }
            }
            let filled = sink.receive.filled(BURST).expect("an honest switch");
            for i in 0..filled {
                let slot = sink.receive.peek(i);
                if mode == Mode::Written {
                    let bytes = sink.region.frame(slot).expect("a frame");
                    if let Some(head) = bytes.read_array::<60>(0) {
                        sum = sum.wrapping_add(head[59].into());
                    }
                }
            }
            if filled > 0 {
                sink.receive.release(filled);
                received += u64::from(filled);
            }
        }
    }
    std::hint::black_box(sum);
    received
}
