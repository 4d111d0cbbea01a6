//! Packets a second that IPRewriter rewrites, with few flows and many.
//!
//! `cargo bench -p elements --bench nat`
//!
//! A source that copies 50-byte UDP packets of so many flows from memory, in random order, feeds an
//! IPRewriter that changes their source address and port; a Discard takes them. The figure without
//! the rewriter is the cost of source and Discard. One thread; the best of several passes, each
//! with the flows known already; and the time to make a flow.

use std::time::{Duration, Instant};

use click::{Diagnostics, Options};
use packet::Pool;
use router::args::Failed;
use router::{
    ClassEntry, Cx, Element, Embedding, Ran, Router, Runtime, Settings, Status, Steady, TaskId,
};

const BATCH: usize = 64;

/// Sends packets of `FLOWS` flows, `LIMIT` in all, then stops the router.
#[derive(Element)]
#[element(ports = "0/1", processing = "h")]
struct Flows {
    #[arg(mandatory)]
    flows: u32,
    #[arg(mandatory)]
    limit: u64,
    sent: u64,
    order: Vec<u32>,
    task: Option<TaskId>,
}

/// A UDP packet over IPv4 of 22 bytes; its IP checksum is filled in for source 0.0.0.0.
const TEMPLATE: [u8; 50] = {
    let mut packet = [0; 50];
    packet[0] = 0x45;
    packet[3] = 50;
    packet[8] = 64;
    packet[9] = 17;
    packet[16] = 2;
    packet[19] = 2;
    packet[23] = 80;
    packet[25] = 30;
    packet[26] = 0x12;
    packet[27] = 0x34;
    packet
};

impl Element for Flows {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.order = (0..self.flows).collect();
        for i in (1..self.order.len()).rev() {
            let j = cx.random().below(i as u32 + 1) as usize;
            self.order.swap(i, j);
        }
        let task = cx.task();
        cx.schedule(task);
        self.task = Some(task);
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, task: TaskId) -> Ran {
        let mut batch = cx.batch();
        let start = (self.sent % u64::from(self.flows)) as usize;
        let mut order = self.order[start..].iter().chain(self.order.iter().cycle());
        for _ in 0..BATCH {
            let flow = *order.next().unwrap_or(&0);
            let Some(mut packet) = cx.pool().copy(&TEMPLATE) else {
                break;
            };
            let data = packet.data_mut();
            let address = 0x0a00_0000 | (flow / 4);
            data[12..16].copy_from_slice(&address.to_be_bytes());
            data[20..22].copy_from_slice(&(5000 + flow as u16 % 4).to_be_bytes());
            // As many flows to one destination as ports can tell apart with ease.
            data[22..24].copy_from_slice(&(80 + (flow / 40_000) as u16).to_be_bytes());
            packet.set_network_header(0, 20);
            if batch.push(packet).is_err() {
                break;
            }
        }
        self.sent += batch.len() as u64;
        cx.push(0, batch);
        if self.sent >= self.limit {
            cx.stop();
        } else {
            cx.schedule(task);
        }
        Ran::Worked
    }
}

static CLASSES: &[ClassEntry] = &[ClassEntry::of::<Flows>()];

/// A program with a clock and nothing else.
struct Bare(Instant);

impl Embedding for Bare {
    fn steady(&self) -> Steady {
        Steady(self.0.elapsed().as_nanos() as u64)
    }
    fn wall(&self) -> i64 {
        0
    }
    fn chatter(&mut self, line: &str) {
        eprintln!("{line}");
    }
    fn seed(&mut self) -> u64 {
        7
    }
    fn driver(&self) -> &'static str {
        "bench"
    }
}

fn router(config: &str) -> Router {
    let mut diagnostics = Diagnostics::new();
    let mut library = elements::library();
    library.add(CLASSES);
    let options = Options::new(&library);
    let flat = click::parse(config.as_bytes(), "bench", &options, &mut diagnostics);
    let runtime = Runtime::new(Box::new(Bare(Instant::now())), Pool::heap(1 << 12));
    let settings = Settings {
        batch: BATCH,
        ..Settings::default()
    };
    let made = flat.and_then(|flat| {
        Router::new(flat, config, &library, runtime, settings, &mut diagnostics).ok()
    });
    match made {
        Some(router) => router,
        None => panic!("{diagnostics}"),
    }
}

/// Nanoseconds a packet: the best of the passes, and the first one.
fn time(flows: u32, element: &str) -> (f64, f64) {
    let pass = u64::from(flows.max(1 << 20));
    let passes = 8;
    let config = format!(
        "f :: Flows(FLOWS {flows}, LIMIT {}); f -> {element} Discard;",
        pass * passes
    );
    let mut router = router(&config);
    let mut best = Duration::MAX;
    let run = |router: &mut Router, packets: u64| {
        let start = Instant::now();
        for _ in 0..packets / BATCH as u64 {
            if router.run(1) == Status::Stopped {
                break;
            }
        }
        start.elapsed()
    };
    let first = run(&mut router, u64::from(flows));
    for _ in 0..passes - 1 {
        best = best.min(run(&mut router, pass));
    }
    if let Some(rewriter) = router.find("rw") {
        let mappings = router.read(Some(rewriter), "size", "");
        assert_eq!(mappings, Ok(flows.to_string()), "every flow is rewritten");
    }
    let ns = |time: Duration, packets: u64| time.as_secs_f64() * 1e9 / packets as f64;
    (ns(best, pass), ns(first, flows.into()))
}

fn main() {
    const REWRITER: &str = "rw :: IPRewriter(pattern 1.0.0.1 1024-65535 - - 0 0) ->";
    println!("  flows  source only ns  whole ns    Mpps  rewriting ns  first packet ns");
    for flows in [1, 64, 1000, 10_000, 100_000, 1_000_000] {
        let (source, _) = time(flows, "");
        let (whole, first) = time(flows, REWRITER);
        println!(
            "{flows:7} {source:15.1} {whole:9.1} {:7.2} {:13.1} {first:16.1}",
            1000.0 / whole,
            whole - source,
        );
    }
}
