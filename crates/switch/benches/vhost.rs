//! Frames a second by vhost-user: one DPDK testpmd with two virtio-user ports sends frames round
//! through the switch, from either port to the other. Its one forwarding thread keeps to core 0,
//! the switch's lane to core 1, so that none shares a core. Frames counted as delivered came back,
//! and the slower of the two threads sets the rate. Needs root, two cores, and Debian's package
//! dpdk-dev.
//!
//! Some hundred frames are under way in each direction, fewer than a ring holds, and none is lost:
//! what is lost would be missing from then on, so the benchmark fails. Split rings and packed ones
//! alternate, each with its own testpmd and switch: five rounds of a second for each size;
//! the medians are printed as JSON, with the part of the time for which the lane moved frames, and
//! that time by frame. `benches/vhost_rings.rs` has the rings' own cost.

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../tests/vhost/testpmd.rs"]
mod testpmd;

use std::time::{Duration, Instant};

use common::unique;
use switch::links::{HostLink, VhostUser};
use switch::process::{Options, Switch};
use switch::properties::PortProperties;
use testpmd::{Port, Testpmd};

const MACS: [&str; 2] = ["52:54:00:00:00:0a", "52:54:00:00:00:0b"];
/// Bursts of 32 frames that go round in each direction.
const BURSTS: u32 = 8;
/// The core of testpmd's threads, of which that for commands sleeps; and the lane's.
const CORES: (&str, usize) = ("0@0,1@0", 1);
/// Names of the layouts of rings, and testpmd's options for them.
const LAYOUTS: [(&str, &str); 2] = [("split", ""), ("packed", ",packed_vq=1")];
/// How often each layout is measured with each size.
const ROUNDS: usize = 5;

fn main() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    assert!(cores > 1, "the switch and testpmd need a core each");
    let rows: Vec<_> = [64, 1514].into_iter().flat_map(measure).collect();
    let report = serde_json::json!({
        "cores": cores,
        "bench": "round through the switch by vhost-user: one testpmd thread on core 0, the lane on core 1",
        "results": rows,
    });
    println!("{report:#}");
}

/// Measures frames of a size in rings of each layout.
fn measure(size: u32) -> [serde_json::Value; 2] {
    let mut rounds = [const { Vec::new() }; 2];
    for _ in 0..ROUNDS {
        for (rounds, (_, option)) in rounds.iter_mut().zip(LAYOUTS) {
            rounds.push(round(size, option));
        }
    }
    [0, 1].map(|i| row(size, LAYOUTS[i].0, &rounds[i]))
}

/// The result of one round.
struct Round {
    /// Frames a second that came back.
    delivered: f64,
    /// The part of the time for which the lane moved frames.
    busy: f64,
}

fn row(size: u32, rings: &str, rounds: &[Round]) -> serde_json::Value {
    let median = |of: &dyn Fn(&Round) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let delivered = median(&|round| round.delivered);
    let hundredths = |value: f64| (value * 1e2).round() / 1e2;
    serde_json::json!({
        "frame_bytes": size,
        "rings": rings,
        "delivered_mpps": hundredths(delivered / 1e6),
        "delivered_gbps": hundredths(delivered * f64::from(size) * 8.0 / 1e9),
        "lane_busy_percent": (median(&|round| round.busy) * 1e2).round(),
        "lane_ns_per_frame": median(&|round| round.busy / round.delivered * 1e9).round(),
    })
}

fn round(size: u32, option: &str) -> Round {
    let switch = Switch::spawn_with(&Options {
        lanes: 1,
        cpus: vec![CORES.1],
    });
    let switch = switch.expect("a switch");
    let client = switch.client();
    let paths = ["vba", "vbb"].map(|what| std::env::temp_dir().join(unique(what)));
    let ports = paths.each_ref().map(|path| {
        let link = HostLink::open(&VhostUser {
            path,
            name: "vm",
            mtu: 1500,
            owner: None,
        });
        let link = link.expect("a socket");
        let port = client.attach_link(link, 1, PortProperties::default());
        port.expect("attached")
    });
    let [a, b] = &paths;
    let ends = [
        Port {
            socket: a,
            mac: MACS[0],
            peer: MACS[1],
        },
        Port {
            socket: b,
            mac: MACS[1],
            peer: MACS[0],
        },
    ];
    let device = format!(",queue_size=1024{option}");
    let length = format!("--txpkts={size}");
    let more = ["--rxd=1024", "--txd=1024", &length];
    let mut testpmd = Testpmd::start_with(&ends, CORES.0, "io", &device, &more);
    testpmd.forward_bursts(BURSTS);
    // Frames given to the two ports, and nanoseconds for which the lane moved some.
    let seen = || {
        let given = ports.map(|port| client.stats(port).frames_out as f64);
        let lanes = client.lane_stats().expect("lanes");
        (given[0] + given[1], lanes[0].busy as f64)
    };
    std::thread::sleep(Duration::from_millis(500));
    let (started, before) = (Instant::now(), seen());
    std::thread::sleep(Duration::from_secs(1));
    let (seconds, after) = (started.elapsed().as_secs_f64(), seen());
    for path in &paths {
        let _ = std::fs::remove_file(path);
    }
    for port in ports {
        for (reason, frames) in client.stats(port).drops() {
            assert_eq!(frames, 0, "frames were lost: {}", reason.name());
        }
    }
    let delivered = (after.0 - before.0) / seconds;
    assert!(delivered > 0.0, "no frame came back");
    Round {
        delivered,
        busy: (after.1 - before.1) / 1e9 / seconds,
    }
}
