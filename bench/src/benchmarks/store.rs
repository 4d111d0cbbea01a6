//! The control store beside Xen's `xenstored`: CPU time of the server for each request, and requests
//! a second, with stores of few and of many domains.
//!
//! `WEIR` names the `weir` program, `XENSTORED` the other server, which runs without Xen; without
//! it the store is measured alone. Both run at the same time, each with its own socket, and are
//! measured alternately, `ROUNDS` times (7). Each store holds `DOMAINS` (1, 100, 10000) domains of
//! 17 nodes. A client sends its requests in bursts of 16. Requests of a transaction depend on each
//! other: two round trips for four requests. In the last row it has 8 transactions under way at a
//! time. Client and servers run on processor 0: between two processors that sleep and wake each
//! other, most of the time is the kernel's.

use std::io::{BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bench::program::{rounds, weir};
use bench::{machine, median, results, save};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::Serialize;
use store::wire::{Header, Kind, append};

/// Nodes of a domain.
const NODES: usize = 17;
/// Requests that a client sends at once.
const BURST: usize = 16;
/// Transactions under way at a time in the last row.
const TOGETHER: usize = 8;
/// Bytes that a client reads at a time, so that its own system calls are few.
const BUFFER: usize = 64 << 10;
/// Requests of a row in a round.
const REQUESTS: usize = 40_000;
/// How long a server may take to open its socket.
const START: Duration = Duration::from_secs(5);

struct Server {
    name: &'static str,
    child: Child,
    folder: PathBuf,
    socket: PathBuf,
}

impl Server {
    fn start(name: &'static str, program: &Path) -> Result<Server, String> {
        let folder =
            std::env::temp_dir().join(format!("bench-store-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        let socket = folder.join("socket");
        let mut command = Command::new(program);
        match name {
            "weir" => command.args(["store", "--socket"]).arg(&socket),
            _ => command
                .args(["--no-domain-init", "--no-fork", "--pid-file"])
                .arg(folder.join("pid"))
                .env("XENSTORED_RUNDIR", &folder)
                .env("XENSTORED_ROOTDIR", &folder),
        };
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.map_err(|error| format!("{}: {error}", program.display()))?;
        let server = Server {
            name,
            child,
            folder,
            socket,
        };
        let began = Instant::now();
        while UnixStream::connect(&server.socket).is_err() {
            if began.elapsed() > START {
                return Err(format!("{}: no socket after {START:?}", program.display()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    fn client(&self) -> Result<Client, String> {
        let stream = UnixStream::connect(&self.socket);
        let stream = stream.map_err(|error| format!("{}: {error}", self.name))?;
        Ok(Client {
            stream: BufReader::with_capacity(BUFFER, stream),
            sent: Vec::new(),
            waiting: 0,
            transaction: 0,
        })
    }

    /// CPU time so far, in nanoseconds.
    fn cpu(&self) -> f64 {
        let path = format!("/proc/{}/task", self.child.id());
        let tasks = std::fs::read_dir(path).into_iter().flatten().flatten();
        let time = tasks.filter_map(|task| {
            let spent = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            spent.split(' ').next()?.parse::<f64>().ok()
        });
        time.sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

struct Client {
    stream: BufReader<UnixStream>,
    sent: Vec<u8>,
    waiting: usize,
    transaction: u32,
}

impl Client {
    fn ask(&mut self, kind: Kind, payload: &[u8]) -> Result<(), String> {
        let header = Header {
            kind: kind as u32,
            transaction: self.transaction,
            ..Header::default()
        };
        append(&mut self.sent, header, payload);
        self.waiting += 1;
        match self.waiting < BURST {
            true => Ok(()),
            false => self.finish(),
        }
    }

    /// Begins so many transactions; their numbers.
    fn begin(&mut self, count: usize) -> Result<Vec<u32>, String> {
        let mut numbers = Vec::with_capacity(count);
        for _ in 0..count {
            self.ask(Kind::TransactionStart, b"\0")?;
        }
        self.finish_each(|reply| {
            let number = String::from_utf8_lossy(reply);
            numbers.push(number.trim_end_matches('\0').parse());
        })?;
        let numbers = numbers.into_iter().collect::<Result<_, _>>();
        numbers.map_err(|_| "no transaction".to_string())
    }

    /// Sends the waiting requests and takes the replies.
    fn finish(&mut self) -> Result<(), String> {
        self.finish_each(|_| ())
    }

    /// As [`finish`](Self::finish); `each` gets each reply.
    fn finish_each(&mut self, mut each: impl FnMut(&[u8])) -> Result<(), String> {
        let told = |error: std::io::Error| format!("the socket: {error}");
        self.stream.get_mut().write_all(&self.sent).map_err(told)?;
        self.sent.clear();
        let mut payload = Vec::new();
        while self.waiting > 0 {
            let mut header = [0; Header::LEN];
            self.stream.read_exact(&mut header).map_err(told)?;
            let header = Header::parse(&header);
            payload.resize(header.len as usize, 0);
            self.stream.read_exact(&mut payload).map_err(told)?;
            if header.kind == Kind::Error as u32 {
                return Err(format!("refused: {}", String::from_utf8_lossy(&payload)));
            }
            if header.kind != Kind::WatchEvent as u32 {
                self.waiting -= 1;
                each(&payload);
            }
        }
        Ok(())
    }
}

/// The measured requests.
const ROWS: [&str; 5] = [
    "read",
    "write",
    "write, watched",
    "transaction",
    "transactions",
];

/// A node of a domain, spread over all of them.
fn path(n: usize, domains: usize) -> String {
    let domain = 1 + n.wrapping_mul(7919) % domains;
    format!("/local/domain/{domain}/data/n{}\0", n % (NODES - 2))
}

fn fill(server: &Server, domains: usize) -> Result<(), String> {
    let mut client = server.client()?;
    for domain in 1..=domains {
        for node in 0..NODES - 2 {
            let payload = format!("/local/domain/{domain}/data/n{node}\0value");
            client.ask(Kind::Write, payload.as_bytes())?;
        }
    }
    client.finish()
}

/// Runs a row; returns its number of requests.
fn ask_all(server: &Server, row: &str, domains: usize) -> Result<usize, String> {
    let mut client = server.client()?;
    if let Some(together) = match row {
        "transaction" => Some(1),
        "transactions" => Some(TOGETHER),
        _ => None,
    } {
        for first in (0..REQUESTS / 4).step_by(together) {
            let numbers = client.begin(together)?;
            // All at once: none depends on another's replies, nor on its nodes.
            for (n, number) in (first..).zip(numbers) {
                client.transaction = number;
                let path = path(n, domains);
                client.ask(Kind::Read, path.as_bytes())?;
                client.ask(Kind::Write, format!("{path}{n}").as_bytes())?;
                client.ask(Kind::TransactionEnd, b"T\0")?;
            }
            client.finish()?;
            client.transaction = 0;
        }
        return Ok(REQUESTS);
    }
    if row == "write, watched" {
        // By a watch for each domain, up to 1000.
        for domain in 1..=domains.min(1000) {
            let payload = format!("/local/domain/{domain}\0w\0");
            client.ask(Kind::Watch, payload.as_bytes())?;
        }
        client.finish()?;
    }
    for n in 0..REQUESTS {
        let path = path(n, domains.min(1000));
        match row {
            "read" => client.ask(Kind::Read, path.as_bytes())?,
            _ => client.ask(Kind::Write, format!("{path}{n}").as_bytes())?,
        }
    }
    client.finish()?;
    Ok(REQUESTS)
}

#[derive(Serialize)]
struct Figure {
    row: &'static str,
    domains: usize,
    server: &'static str,
    /// The server's CPU time for a request, median.
    cpu_ns: f64,
    /// Requests a second, median.
    rate: f64,
}

#[derive(Serialize)]
struct Ratio {
    row: &'static str,
    domains: usize,
    /// The other server's CPU time over the store's.
    by_cpu: f64,
    /// The store's rate over the other server's.
    by_rate: f64,
}

#[derive(Serialize)]
struct Report {
    benchmark: &'static str,
    machine: String,
    rounds: usize,
    burst: usize,
    figures: Vec<Figure>,
    ratios: Vec<Ratio>,
}

fn measure(servers: &[Server], domains: usize, rounds: usize) -> Result<Vec<Figure>, String> {
    let mut figures = Vec::new();
    for row in ROWS {
        let mut costs = vec![Vec::new(); servers.len()];
        let mut rates = vec![Vec::new(); servers.len()];
        for _ in 0..rounds {
            for (i, server) in servers.iter().enumerate() {
                let (cpu, began) = (server.cpu(), Instant::now());
                let requests = ask_all(server, row, domains)? as f64;
                rates[i].push(requests / began.elapsed().as_secs_f64());
                costs[i].push((server.cpu() - cpu) / requests);
            }
        }
        for (i, server) in servers.iter().enumerate() {
            let figure = Figure {
                row,
                domains,
                server: server.name,
                cpu_ns: median(&costs[i]),
                rate: median(&rates[i]),
            };
            println!(
                "{row:16} {domains:6} {:10} {:8.0} ns {:9.0} /s",
                figure.server, figure.cpu_ns, figure.rate
            );
            figures.push(figure);
        }
    }
    Ok(figures)
}

fn ratios(figures: &[Figure]) -> Vec<Ratio> {
    let pairs = figures.chunks_exact(2);
    let ratio = |pair: &[Figure]| Ratio {
        row: pair[0].row,
        domains: pair[0].domains,
        by_cpu: pair[1].cpu_ns / pair[0].cpu_ns,
        by_rate: pair[0].rate / pair[1].rate,
    };
    pairs.map(ratio).collect()
}

pub(super) fn run() -> Result<(), String> {
    let mut first = CpuSet::new();
    first.set(0);
    sched_setaffinity(None, &first).map_err(|error| format!("processor 0: {error}"))?;
    let weir = weir();
    let other = std::env::var_os("XENSTORED");
    let rounds = rounds(7);
    let sizes = std::env::var("DOMAINS").unwrap_or_else(|_| "1,100,10000".into());
    let mut figures = Vec::new();
    for domains in sizes.split(',') {
        let domains = domains.trim().parse();
        let domains = domains.map_err(|_| format!("DOMAINS: {sizes}: numbers are expected"))?;
        let mut servers = vec![Server::start("weir", &weir)?];
        if let Some(other) = &other {
            servers.push(Server::start("xenstored", Path::new(other))?);
        }
        for server in &servers {
            fill(server, domains)?;
        }
        figures.extend(measure(&servers, domains, rounds)?);
    }
    let ratios = match other {
        Some(_) => ratios(&figures),
        None => Vec::new(),
    };
    let saved = save(
        "store",
        &Report {
            benchmark: "store",
            machine: machine(),
            rounds,
            burst: BURST,
            figures,
            ratios,
        },
    )?;
    println!("{} in {}", saved.display(), results().display());
    Ok(())
}
