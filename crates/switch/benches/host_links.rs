//! Frames a second through host links: guest → port → veth pair → port → guest, all four ports on
//! one worker, and the veth's own work on its core, too. Needs root.
//!
//! Turns of half a second; the median of five is printed as JSON.

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::{Duration, Instant};

use abi::ring::Slot;
use common::{GuestMemory, output, run, unique};
use switch::counters::Reason;
use switch::links::HostLink;
use switch::memory::GuestSide;
use switch::process::Switch;
use switch::properties::PortProperties;

const BURST: u32 = 64;

fn main() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: host links need root");
        return;
    }
    let ends = [unique("p"), unique("q")];
    let rows = [60, 1500].map(|size| {
        let mut rates: Vec<_> = (0..5).map(|_| measure(&ends, size)).collect();
        rates.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (rate, lost) = rates[2];
        serde_json::json!({
            "frame_bytes": size,
            "mpps": (rate / 1e4).round() / 1e2,
            "lost_in_the_socket_percent": (lost * 1e4).round() / 1e2,
        })
    });
    let report = serde_json::json!({
        "bench": "guest to AF_PACKET to veth to AF_PACKET to guest, one worker",
        "results": rows,
    });
    println!("{report:#}");
}

/// Frames a second that arrive, and the share that the receiving socket's queue lost.
fn measure(ends: &[String; 2], size: u16) -> (f64, f64) {
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
        let link = HostLink::device(end).expect("opened");
        client
            .attach_link(link, domain, PortProperties::default())
            .expect("attached")
    });
    let [mut source, mut sink] = guests
        .each_ref()
        .map(|guest| guest.region.guest_side(0).expect("an interface"));
    let started = Instant::now();
    let mut received = 0;
    while started.elapsed() < Duration::from_millis(500) {
        send(&mut source, &guests[0], size);
        let n = sink.receive.filled(BURST).expect("an honest switch");
        sink.receive.release(n);
        received += u64::from(n);
    }
    let rate = received as f64 / started.elapsed().as_secs_f64();
    client.catch_up(ports[1]).expect("asked");
    let stats = client.stats(ports[1]);
    let lost = stats.dropped(Reason::SocketFull) as f64;
    drop(switch);
    output(&format!("ip link del {}", ends[0]));
    (rate, lost / (lost + stats.frames_in as f64))
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
