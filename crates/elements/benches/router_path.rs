//! Time per packet through the elements of an IP router, each added to the ones before it: the
//! difference between two rows is what the added element costs.
//!
//! `cargo bench -p elements --bench router_path`
//!
//! Packets of 60 bytes from memory, one core, batches of 64; CPU time.

mod common;

use std::time::Duration;

use common::{BATCH, router};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use router::Status;
use rustix::time::{ClockId, clock_gettime};

/// Ethernet, IPv4 from 192.168.2.2 to 192.168.1.5, UDP.
const FRAME: &str = "\\<000000000003 000000000004 0800 4500002e 00000000 4011f667 c0a80202 c0a80105
    04d20035 001a0000 000000000000000000000000000000000000>";

const HEADER: &str = "EtherEncap(0x0800, 0:0:0:0:0:3, 0:0:0:0:0:4)";

/// CPU time of this thread so far: other programs on the machine count less than on a clock.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// How long a router of `path` behind a source takes for so many batches.
fn time(path: &str, batches: u64) -> Duration {
    let packets = batches * BATCH as u64;
    let mut router = router(
        &format!(
            "InfiniteSource(DATA {FRAME}, LIMIT {packets}, BURST 64, STOP true, TIMESTAMP false) {path}"
        ),
        &[],
    );
    let start = cpu_time();
    while router.run(64) != Status::Stopped {}
    cpu_time() - start
}

fn router_path(criterion: &mut Criterion) {
    let arp = "arp :: ARPQuerier(192.168.1.1, 0:0:0:0:0:1) -> Discard; Idle -> [1] arp;";
    let rows = [
        ("source", "-> Discard".to_string()),
        (
            "queue",
            "-> Queue(64) -> Unqueue(BURST 64) -> Discard".into(),
        ),
        ("EtherMirror", "-> EtherMirror -> Discard".into()),
        ("Strip", "-> Strip(14) -> Discard".into()),
        (
            "+ CheckIPHeader",
            "-> Strip(14) -> CheckIPHeader -> Discard".into(),
        ),
        (
            "+ DecIPTTL",
            "-> Strip(14) -> CheckIPHeader -> DecIPTTL -> Discard".into(),
        ),
        (
            "+ EtherEncap",
            format!("-> Strip(14) -> CheckIPHeader -> DecIPTTL -> {HEADER} -> Discard"),
        ),
        (
            "… all elements",
            format!(
                "-> Strip(14) -> CheckIPHeader -> GetIPAddress(16)
                -> rt :: StaticIPLookup(192.168.1.0/24 1, 0/0 0); rt[0] -> Discard;
                rt[1] -> DropBroadcasts -> IPGWOptions(192.168.1.1) -> FixIPSrc(192.168.1.1)
                -> DecIPTTL -> IPFragmenter(1500) -> {HEADER}
                -> Strip(14) -> StoreData(8, \\<40>) -> SetIPChecksum -> Unstrip(14) -> Discard"
            ),
        ),
        (
            "… ARPQuerier",
            format!(
                "-> Strip(14) -> CheckIPHeader -> DecIPTTL -> SetIPAddress(255.255.255.255) -> {arp}"
            ),
        ),
        (
            "… IPPrint, off",
            "-> Strip(14) -> CheckIPHeader -> IPPrint(ACTIVE false) -> Discard".into(),
        ),
    ];
    let mut group = criterion.benchmark_group("path");
    group.throughput(Throughput::Elements(BATCH as u64));
    for (name, path) in rows {
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|batches| time(&path, batches))
        });
    }
    group.finish();
}

criterion_group!(benches, router_path);
criterion_main!(benches);
