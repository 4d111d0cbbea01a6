//! Packets a second that IPRewriter rewrites, with few flows and many.
//!
//! `cargo bench -p elements --bench nat`
//!
//! A source that copies 50-byte UDP packets of so many flows from memory, in random order, feeds an
//! IPRewriter that changes their source address and port; a Discard takes them. "source" is the same
//! without the rewriter. "rewritten" has the flows known already; in "first packets" every packet
//! makes a flow. One thread.

mod common;

use common::{BATCH, router};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use router::args::Failed;
use router::{ClassEntry, Cx, Element, Ran, Router, TaskId};

/// Sends packets of `FLOWS` flows, for ever.
#[derive(Element)]
#[element(ports = "0/1", processing = "h")]
struct Flows {
    #[arg(mandatory)]
    flows: u32,
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
        cx.schedule(task);
        Ran::Worked
    }
}

static CLASSES: &[ClassEntry] = &[ClassEntry::of::<Flows>()];

fn make(flows: u32, element: &str) -> Router {
    router(
        &format!("f :: Flows({flows}); f -> {element} Discard;"),
        CLASSES,
    )
}

/// Has every flow send a packet, in whole batches.
fn send_all(router: &mut Router, flows: u32) {
    for _ in 0..flows.div_ceil(BATCH as u32) {
        router.run(1);
    }
}

fn nat(criterion: &mut Criterion) {
    const REWRITER: &str = "rw :: IPRewriter(pattern 1.0.0.1 1024-65535 - - 0 0) ->";
    for flows in [1, 64, 1000, 10_000, 100_000, 1_000_000] {
        let mut group = criterion.benchmark_group(format!("flows/{flows}"));
        group
            .sample_size(15)
            .throughput(Throughput::Elements(BATCH as u64));
        for (name, element) in [("source", ""), ("rewritten", REWRITER)] {
            let mut router = make(flows, element);
            send_all(&mut router, flows);
            group.bench_function(name, |bencher| bencher.iter(|| router.run(1)));
            if let Some(rewriter) = router.find("rw") {
                let mappings = router.read(Some(rewriter), "size", "");
                assert_eq!(mappings, Ok(flows.to_string()), "every flow is rewritten");
            }
        }
        let sent = flows.next_multiple_of(BATCH as u32);
        group.throughput(Throughput::Elements(sent.into()));
        group.bench_function("first packets", |bencher| {
            let send = |router: &mut Router| send_all(router, flows);
            bencher.iter_batched_ref(|| make(flows, REWRITER), send, BatchSize::PerIteration);
        });
        group.finish();
    }
}

criterion_group!(benches, nat);
criterion_main!(benches);
