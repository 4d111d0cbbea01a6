//! Frames a second from one DPDK testpmd to another: virtio-user → vhost-user port → switch →
//! vhost-user port → virtio-user. The switch's lane keeps to core 0, the testpmds go where the kernel
//! has room: each polls without end, so that on fewer than three idle cores they take turns with
//! each other and the figure says little. Needs root, and Debian's package dpdk-dev.
//!
//! Five turns of a second for each size; the medians are printed as JSON. Beside the rates stands
//! the processor time that the switch used for each frame that it took: under load from elsewhere,
//! it says more.

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
    let rows = [64, 512, 1500].map(measure);
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

fn measure(size: u32) -> serde_json::Value {
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
    let start = |path: &Path, mode, own, peer, more: &[&str]| {
        let mut testpmd = Testpmd::start(path, mode, own, peer, ",queue_size=1024", more);
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
    let mut turns = Vec::new();
    for _ in 0..5 {
        let (started, before) = (Instant::now(), seen());
        std::thread::sleep(Duration::from_secs(1));
        let (seconds, after) = (started.elapsed().as_secs_f64(), seen());
        let taken = after.0 - before.0;
        turns.push([
            taken / seconds,
            (after.1 - before.1) / seconds,
            (after.2 - before.2) / taken.max(1.0),
        ]);
    }
    for path in paths {
        let _ = std::fs::remove_file(path);
    }
    let median = |i: usize| {
        let mut values: Vec<f64> = turns.iter().map(|turn| turn[i]).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    serde_json::json!({
        "frame_bytes": size,
        "taken_mpps": (median(0) / 1e4).round() / 1e2,
        "delivered_mpps": (median(1) / 1e4).round() / 1e2,
        "switch_cpu_ns_per_frame_taken": median(2).round(),
    })
}
