//! NetKernel: queue elements through CoreEngine.
//!
//! A tenant's processes submit SENDs, an NSM answers each with a SENT. CoreEngine's rounds are timed
//! alone, so the rate is of one core that does nothing else: what its neighbours do in between takes
//! the rings' lines into other caches only if they run elsewhere, which here they do not. Prints JSON.
//!
//! `cargo bench -p netkernel --bench nqe -- [rounds]`

use std::time::{Duration, Instant};

use abi::nqe::{Nqe, STREAM, operation};
use netkernel::core::CoreEngine;
use netkernel::process::Process;
use netkernel::protocol::{Limits, Operator, Request, Token};
use netkernel::service::Service;
use serde::Serialize;
use serde_json::json;

/// Elements that a row switches in a round of the benchmark.
const ELEMENTS: u64 = 4_000_000;

#[derive(Serialize)]
struct Row {
    /// Processes that submit.
    queue_sets: usize,
    /// Elements of each in a round.
    batch: u32,
    /// Millions of elements a second, to the NSM.
    requests: f64,
    /// And to the tenant.
    answers: f64,
}

/// A CoreEngine, with a tenant's processes and an NSM, in this thread.
struct Bench {
    core: CoreEngine,
    processes: Vec<Process>,
    nsm: Service,
    _folder: Folder,
}

struct Folder(std::path::PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Bench {
    fn start(sets: usize) -> Result<Bench, String> {
        let folder = std::env::temp_dir().join(format!("weir-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
        let folder = Folder(folder);
        let (door, operator) = (folder.0.join("door"), folder.0.join("operator"));
        let mut core = CoreEngine::listen(&door, &operator).map_err(|e| e.to_string())?;
        // CoreEngine listens here, so a caller that waits for its answer has a thread of its own.
        let joining = std::thread::spawn(move || -> std::io::Result<(Service, Vec<Process>)> {
            let operator = Operator::connect(&operator)?;
            let (tenant, nsm) = (Token::random()?, Token::random()?);
            let name = "nsm".to_owned();
            operator.ask(&Request::AddNsm { name, token: nsm })?;
            operator.ask(&Request::AddTenant {
                name: "tenant".to_owned(),
                token: tenant,
                nsm: "nsm".to_owned(),
                limits: Limits::default(),
            })?;
            let nsm = Service::join(&door, nsm)?;
            let processes = (0..sets).map(|_| Process::join(&door, tenant));
            Ok((nsm, processes.collect::<Result<_, _>>()?))
        });
        while !joining.is_finished() {
            core.hear(Duration::from_millis(1))
                .map_err(|e| e.to_string())?;
        }
        let joined = joining.join().map_err(|_| "a thread failed")?;
        let (nsm, processes) = joined.map_err(|e| e.to_string())?;
        let mut bench = Bench {
            core,
            processes,
            nsm,
            _folder: folder,
        };
        for (at, process) in bench.processes.iter_mut().enumerate() {
            for socket in 0..SOCKETS {
                let number = at as u32 * SOCKETS + socket;
                let nqe = Nqe::new(operation::SOCKET, number);
                process.submit(nqe.with_data(STREAM).with_family(4));
            }
            process.flush();
        }
        bench.core.round();
        while bench.nsm.hear().map_err(|e| e.to_string())?.is_some() {}
        while bench.nsm.request().map_err(|e| e.to_string())?.is_some() {}
        bench.nsm.flush();
        Ok(bench)
    }

    /// Switches a batch of each process there and back; adds the time of CoreEngine's rounds.
    fn turn(&mut self, batch: u32, times: &mut [Duration; 2]) -> Result<(), String> {
        for (at, process) in self.processes.iter_mut().enumerate() {
            for n in 0..batch {
                let socket = at as u32 * SOCKETS + n % SOCKETS;
                process.submit(Nqe::new(operation::SEND, socket).with_chunk(0, 64));
            }
            process.flush();
        }
        let whole = batch * self.processes.len() as u32;
        let mut taken = 0;
        let start = Instant::now();
        self.core.round();
        times[0] += start.elapsed();
        while let Some(nqe) = self.nsm.request().map_err(|e| e.to_string())? {
            self.nsm.answer(Nqe {
                operation: operation::SENT,
                ..nqe
            });
            taken += 1;
        }
        if taken != whole {
            return Err(format!("the NSM got {taken} elements"));
        }
        self.nsm.flush();
        let start = Instant::now();
        // A round takes no more than 1 024 from an NSM.
        for _ in 0..whole.div_ceil(1024) {
            self.core.round();
        }
        times[1] += start.elapsed();
        for process in &mut self.processes {
            let n = process.take(2 * batch, |_| ());
            if n != batch {
                return Err(format!("a process got {n} elements"));
            }
        }
        Ok(())
    }
}

/// Sockets of a process, in turn.
const SOCKETS: u32 = 16;

fn row(queue_sets: usize, batch: u32, rounds: usize) -> Result<Row, String> {
    let mut bench = Bench::start(queue_sets)?;
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        let turns = ELEMENTS / (u64::from(batch) * queue_sets as u64);
        let mut times = [Duration::ZERO; 2];
        for _ in 0..turns {
            bench.turn(batch, &mut times)?;
        }
        for (rates, time) in rates.iter_mut().zip(times) {
            let elements = turns * u64::from(batch) * queue_sets as u64;
            rates.push(elements as f64 / time.as_secs_f64() / 1e6);
        }
    }
    Ok(Row {
        queue_sets,
        batch,
        requests: median(&rates[0]),
        answers: median(&rates[1]),
    })
}

fn median(rates: &[f64]) -> f64 {
    let mut sorted = rates.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn main() {
    let rounds = std::env::args()
        .find_map(|word| word.parse().ok())
        .unwrap_or(5);
    let mut rows = Vec::new();
    for queue_sets in [1, 8] {
        for batch in [1, 8, 32, 64, 128, 256] {
            let row = row(queue_sets, batch, rounds).unwrap_or_else(|error| panic!("{error}"));
            eprintln!(
                "{queue_sets} queue sets, batches of {batch}: {:.1} M/s to the NSM, {:.1} M/s back",
                row.requests, row.answers
            );
            rows.push(row);
        }
    }
    let report = json!({"benchmark": "netkernel-nqe", "rounds": rounds, "figures": rows});
    println!("{report:#}");
}
