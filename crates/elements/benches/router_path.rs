//! Packets a second through the elements of an IP router, each added to the ones before it: the
//! difference between two lines is what the added element costs.
//!
//! `cargo bench -p elements --bench router_path`
//!
//! Packets of 60 bytes from memory, one core, batches of 64.

use std::time::Instant;

use click::{Diagnostics, Options};
use packet::Pool;
use router::{Embedding, Router, Runtime, Settings, Status, Steady};
use rustix::time::{ClockId, clock_gettime};

const PACKETS: u64 = 20_000_000;
const ROUNDS: usize = 5;

/// Ethernet, IPv4 from 192.168.2.2 to 192.168.1.5, UDP.
const FRAME: &str = "\\<000000000003 000000000004 0800 4500002e 00000000 4011f667 c0a80202 c0a80105
    04d20035 001a0000 000000000000000000000000000000000000>";

const HEADER: &str = "EtherEncap(0x0800, 0:0:0:0:0:3, 0:0:0:0:0:4)";

struct Clock(Instant);

impl Embedding for Clock {
    fn steady(&self) -> Steady {
        Steady(self.0.elapsed().as_nanos() as u64)
    }

    fn wall(&self) -> i64 {
        self.0.elapsed().as_nanos() as i64
    }

    fn chatter(&mut self, line: &str) {
        println!("{line}");
    }

    fn seed(&mut self) -> u64 {
        1
    }

    fn driver(&self) -> &'static str {
        "bench"
    }
}

/// CPU time of this thread so far: other programs on the machine count less than on a clock.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Seconds that a router of `path` behind a source takes.
fn seconds(path: &str) -> f64 {
    let config = format!(
        "InfiniteSource(DATA {FRAME}, LIMIT {PACKETS}, BURST 64, STOP true, TIMESTAMP false) {path}"
    );
    let mut diagnostics = Diagnostics::new();
    let library = elements::library();
    let options = Options::new(&library);
    let flat = click::parse(config.as_bytes(), "bench", &options, &mut diagnostics);
    let flat = flat.unwrap_or_else(|| panic!("{diagnostics}"));
    let runtime = Runtime::new(Box::new(Clock(Instant::now())), Pool::heap(1 << 12));
    let settings = Settings::default();
    let router = Router::new(flat, &config, &library, runtime, settings, &mut diagnostics);
    let mut router = router.unwrap_or_else(|_| panic!("{diagnostics}"));
    let start = cpu_seconds();
    while router.run(64) != Status::Stopped {}
    cpu_seconds() - start
}

fn main() {
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
    for (name, path) in rows {
        let mut times: Vec<f64> = (0..ROUNDS).map(|_| seconds(&path)).collect();
        times.sort_by(f64::total_cmp);
        let (best, median) = (times[0], times[ROUNDS / 2]);
        println!(
            "{name:16} {:6.1} Mpps ({:5.1} ns), median {:6.1} Mpps",
            PACKETS as f64 / best / 1e6,
            best / PACKETS as f64 * 1e9,
            PACKETS as f64 / median / 1e6
        );
    }
}
