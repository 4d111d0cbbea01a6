//! Frames a second through host links: guest → port → veth pair → port → guest, all four ports on
//! one worker, and the veth's own work on its core, too. By each kind of socket. Needs root.
//!
//! Rounds of half a second, with alternating kinds of sockets; the median of five is printed as JSON.
//! Beside the rate stands the processor time that the switch's process used for a frame, which
//! includes what the kernel does in its name: under load from elsewhere, it says more.

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::{Duration, Instant};

use abi::ring::Slot;
use common::{GuestMemory, output, run, unique};
use switch::counters::Reason;
use switch::links::{Device, HostLink, Mode};
use switch::memory::GuestSide;
use switch::process::Switch;
use switch::properties::PortProperties;

const BURST: u32 = 64;

fn main() {
    let root = rustix::process::geteuid().is_root();
    assert!(root, "needs root: makes interfaces");
    let ends = [unique("p"), unique("q")];
    let modes = [("AF_PACKET", Mode::Packet), ("AF_XDP", Mode::Xdp)];
    let mut rows = Vec::new();
    for size in [60, 1500] {
        let mut rounds = modes.map(|_| Vec::new());
        for _ in 0..5 {
            for (rounds, (_, mode)) in rounds.iter_mut().zip(modes) {
                rounds.push(measure(&ends, size, mode));
            }
        }
        for (rounds, (socket, _)) in rounds.iter_mut().zip(modes) {
            rounds.sort_by(|a, b| a.rate.total_cmp(&b.rate));
            let median = rounds[2];
            rounds.sort_by(|a, b| a.nanoseconds.total_cmp(&b.nanoseconds));
            rows.push(serde_json::json!({
                "socket": socket,
                "frame_bytes": size,
                "mpps": (median.rate / 1e4).round() / 1e2,
                "switch_cpu_ns_per_frame": rounds[2].nanoseconds.round(),
                "lost_in_the_socket_percent": (median.lost * 1e4).round() / 1e2,
            }));
        }
    }
    let report = serde_json::json!({
        "bench": "guest to host link to veth to host link to guest, one worker",
        "results": rows,
    });
    println!("{report:#}");
}

/// The result of one round.
#[derive(Clone, Copy)]
struct Round {
    /// Frames a second that arrive.
    rate: f64,
    /// The switch's processor time for each of them.
    nanoseconds: f64,
    /// The share that the receiving socket's queue lost.
    lost: f64,
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

fn measure(ends: &[String; 2], size: u16, mode: Mode) -> Round {
    let switch = Switch::spawn().expect("a switch");
    run(&format!(
        "ip link add {} type veth peer name {}",
        ends[0], ends[1]
    ));
    for end in ends {
        // No address, so that the kernel has nothing to say on it.
        run(&format!("ip link set {end} addrgenmode none up"));
    }
    let client = switch.client();
    let guests = [1, 2].map(|domain| {
        let memory = GuestMemory::new("g", 1024, 1);
        memory.attach(client, &[domain]);
        memory
    });
    let ports = [(1, &ends[0]), (2, &ends[1])].map(|(domain, end)| {
        let link = HostLink::attach(&Device { name: end, mode }).expect("opened");
        client
            .attach_link(link, domain, PortProperties::default())
            .expect("attached")
    });
    let [mut source, mut sink] = guests
        .each_ref()
        .map(|guest| guest.region.guest_side(0).expect("an interface"));
    let pid = switch.pid().as_raw_pid();
    let (started, used) = (Instant::now(), processor_time(pid));
    let mut received = 0;
    while started.elapsed() < Duration::from_millis(500) {
        send(&mut source, &guests[0], size);
        let n = sink.receive.filled(BURST).expect("an honest switch");
        sink.receive.release(n);
        received += u64::from(n);
    }
    let rate = received as f64 / started.elapsed().as_secs_f64();
    let nanoseconds = (processor_time(pid) - used) / received as f64;
    client.catch_up(ports[1]).expect("asked");
    let stats = client.stats(ports[1]);
    let lost = stats.dropped(Reason::SocketFull) as f64;
    drop(switch);
    output(&format!("ip link del {}", ends[0]));
    Round {
        rate,
        nanoseconds,
        lost: lost / (lost + stats.frames_in as f64),
    }
}

fn send(source: &mut GuestSide, guest: &GuestMemory, size: u16) {
    let mut frame = [0; 60];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    let free = source.transmit.free(BURST).expect("an honest switch");
    for i in 0..free.min(BURST) {
        let spent = source.transmit.peek(i);
        let slot = Slot {
            len: size,
            ..Slot::spent(spent.buffer)
        };
        let room = source.region.frame(slot).expect("a buffer");
        room.write_array(0, &frame);
        source.transmit.fill(i, slot);
    }
    source.transmit.publish(free.min(BURST));
    if source.transmit.consumer_sleeps() {
        rustix::io::write(&guest.doorbell, &1u64.to_ne_bytes()).expect("rung");
    }
}
