//! Frames a second from one DPDK testpmd to another: virtio-user → vhost-user port → switch →
//! vhost-user port → virtio-user. The switch's lane keeps to core 0, the testpmds go where the kernel
//! has room: each polls without end, so that on fewer than three idle cores they take turns with
//! each other and the figure says little. Needs root, and Debian's package dpdk-dev.
//!
//! Split rings and packed ones take turns, each with testpmds and a switch of its own: five turns of
//! a second for each size; the medians are printed as JSON. Beside the rates stands the processor
//! time that the switch used for each frame that it took, with that of the best turn: under load
//! from elsewhere, they say more. `benches/vhost_rings.rs` has the rings' own cost.

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../tests/vhost/testpmd.rs"]
mod testpmd;

use std::path::Path;
use std::time::{Duration, Instant};

use common::unique;
use switch::links::{HostLink, VhostUser};
use switch::process::{Options, Switch};
use switch::properties::PortProperties;
use testpmd::Testpmd;

const A: &str = "52:54:00:00:00:0a";
const B: &str = "52:54:00:00:00:0b";

fn main() {
    let rows: Vec<_> = [60, 1514].into_iter().flat_map(measure).collect();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let report = serde_json::json!({
        "cores": cores,
        "bench": "testpmd to testpmd by vhost-user, the switch on core 0",
        "results": rows,
    });
    println!("{report:#}");
}

/// Processor time that a process has used, in nanoseconds.
fn processor_time(pid: i32) -> f64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("a process");
    let of_task = |task: std::io::Result<std::fs::DirEntry>| -> f64 {
        let stat = task.map(|task| std::fs::read_to_string(task.path().join("schedstat")));
        let stat = stat.expect("a thread").expect("its statistics");
        let first = stat.split(' ').next().map(str::parse);
        first.expect("a field").expect("a number")
    };
    tasks.map(of_task).sum()
}

/// Names of the layouts of rings, and testpmd's options for them.
const LAYOUTS: [(&str, &str); 2] = [("split", ""), ("packed", ",packed_vq=1")];
/// How often each layout is measured with each size.
const TURNS: usize = 5;

/// What one turn measured: frames taken and delivered a second, and the switch's processor time
/// for each that it took, in nanoseconds.
type Turn = [f64; 3];

/// Measures frames of a size in rings of each layout.
fn measure(size: u32) -> [serde_json::Value; 2] {
    let mut turns = [const { Vec::new() }; 2];
    for _ in 0..TURNS {
        for (turns, (_, option)) in turns.iter_mut().zip(LAYOUTS) {
            turns.push(turn(size, option));
        }
    }
    [0, 1].map(|i| row(size, LAYOUTS[i].0, &turns[i]))
}

fn row(size: u32, rings: &str, turns: &[Turn]) -> serde_json::Value {
    let median = |i: usize| {
        let mut values: Vec<f64> = turns.iter().map(|turn| turn[i]).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let least = turns.iter().map(|turn| turn[2]).fold(f64::MAX, f64::min);
    serde_json::json!({
        "frame_bytes": size,
        "rings": rings,
        "taken_mpps": (median(0) / 1e4).round() / 1e2,
        "delivered_mpps": (median(1) / 1e4).round() / 1e2,
        "switch_cpu_ns_per_frame_taken": median(2).round(),
        "switch_cpu_ns_per_frame_taken_least": least.round(),
    })
}

fn turn(size: u32, option: &str) -> Turn {
    let options = Options {
        lanes: 1,
        cpus: vec![0],
    };
    let switch = Switch::spawn_with(&options).expect("a switch");
    let paths = ["vba", "vbb"].map(|what| std::env::temp_dir().join(unique(what)));
    let ports = paths.each_ref().map(|path| {
        let link = HostLink::vhost_user(&VhostUser {
            path,
            name: "vm",
            mtu: 1500,
            owner: None,
        });
        let properties = PortProperties::default();
        let port = switch
            .client()
            .attach_link(link.expect("a socket"), 1, properties);
        port.expect("attached")
    });
    let device = format!(",queue_size=1024{option}");
    let start = |path: &Path, mode, own, peer, more: &[&str]| {
        let mut testpmd = Testpmd::start(path, mode, own, peer, &device, more);
        testpmd.forward();
        testpmd
    };
    let _sink = start(&paths[1], "rxonly", B, A, &["--rxd=1024"]);
    let length = format!("--txpkts={size}");
    let _source = start(&paths[0], "txonly", A, B, &["--txd=1024", &length]);
    let seen = || {
        let [taken, given] = ports.map(|port| switch.client().stats(port));
        let pid = switch.pid().as_raw_nonzero().get();
        (
            taken.frames_in as f64,
            given.frames_out as f64,
            processor_time(pid),
        )
    };
    std::thread::sleep(Duration::from_millis(500));
    let (started, before) = (Instant::now(), seen());
    std::thread::sleep(Duration::from_secs(1));
    let (seconds, after) = (started.elapsed().as_secs_f64(), seen());
    for path in paths {
        let _ = std::fs::remove_file(path);
    }
    let taken = after.0 - before.0;
    [
        taken / seconds,
        (after.1 - before.1) / seconds,
        (after.2 - before.2) / taken.max(1.0),
    ]
}
