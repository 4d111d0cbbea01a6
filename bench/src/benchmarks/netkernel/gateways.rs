//! Three application gateways whose loads have their peaks at different times: each with a network stack of its own,
//! and all three on one.
//!
//! The load has the shape of the gateways' in the NetKernel paper (Niu et al., 2020): low nearly always, with bursts
//! that the stacks must be made for. A stack's peak is the 99th percentile of the processor time that it takes in a
//! tenth of a second.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bench::percentile;
use bench::program::weir;
use bench::traffic::Random;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde::Serialize;

use super::{Lan, inside};

const GATEWAYS: usize = 3;
const SLOT: Duration = Duration::from_millis(100);
/// Requests of a gateway's clients are sent together so often.
const TICK: Duration = Duration::from_millis(1);
/// Requests a second, most of the time and in a burst.
const RATES: [u32; 2] = [200, 6000];
/// One slot in so many begins a burst, of so many slots.
const BURST_EVERY: u32 = 20;
const BURST: usize = 3;
/// Connections of a gateway's clients.
const CONNECTIONS: usize = 16;
/// Bytes of an answer.
const ANSWER: usize = 2048;
const FIRST_PORT: u16 = 18100;
/// How long a gateway may take to start, and to answer.
const LIMIT: Duration = Duration::from_secs(10);

/// With stacks of their own, or with one for all.
#[derive(Serialize)]
pub struct Figure {
    stacks: &'static str,
    requests: usize,
    latency_ms: f64,
    latency_99_ms: f64,
    /// Processor time of the stacks, in seconds, and cores for their peaks.
    cpu_s: f64,
    cores: f64,
}

/// What clients of a gateway saw: milliseconds of each request.
type Latencies = Vec<f64>;

/// The requests of each millisecond.
fn schedule(gateway: usize, slots: usize) -> Vec<usize> {
    let mut random = Random::new(gateway as u64 + 1);
    let (mut left, mut due, mut ticks) = (0, 0, Vec::new());
    for _ in 0..slots {
        if left == 0 && random.below(BURST_EVERY) == 0 {
            left = BURST;
        }
        let rate = RATES[usize::from(left > 0)];
        left = left.saturating_sub(1);
        for _ in 0..SLOT.as_millis() / TICK.as_millis() {
            due += rate;
            ticks.push((due / 1000) as usize);
            due %= 1000;
        }
    }
    ticks
}

/// Sends a gateway its requests.
fn load(address: SocketAddr, ticks: &[usize]) -> std::io::Result<Latencies> {
    let connect = |_| {
        let stream = TcpStream::connect_timeout(&address, LIMIT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LIMIT))?;
        Ok(stream)
    };
    let mut connections: Vec<TcpStream> = (0..CONNECTIONS)
        .map(connect)
        .collect::<std::io::Result<_>>()?;
    let mut latencies = Latencies::new();
    let mut next = Instant::now();
    for due in ticks {
        for some in (0..*due).collect::<Vec<_>>().chunks(CONNECTIONS) {
            let sent = Instant::now();
            let used = &mut connections[..some.len()];
            for connection in &mut *used {
                connection.write_all(b"GET / HTTP/1.1\r\nHost: gateway\r\n\r\n")?;
            }
            for connection in used {
                answer(connection)?;
                latencies.push(sent.elapsed().as_secs_f64() * 1e3);
            }
        }
        next += TICK;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    Ok(latencies)
}

/// Reads an answer: a head, and a body of [`ANSWER`] bytes.
fn answer(connection: &mut TcpStream) -> std::io::Result<()> {
    let (mut bytes, mut seen) = ([0; 2 * ANSWER], 0);
    loop {
        let read = connection.read(&mut bytes[seen..])?;
        seen += read;
        let head = bytes[..seen]
            .windows(4)
            .position(|four| four == b"\r\n\r\n");
        match head {
            Some(head) if seen >= head + 4 + ANSWER => return Ok(()),
            _ if read == 0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            _ => {}
        }
    }
}

/// Seconds of processor time that a process has used, by its threads.
fn used(pid: u64) -> Option<f64> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let times = threads.filter_map(|thread| {
        let text = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    });
    Some(times.sum::<f64>() / 1e9)
}

/// A gateway, which ends with this.
struct Gateway(Child);

impl Drop for Gateway {
    fn drop(&mut self) {
        // nginx ends its worker, if it is asked.
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}

fn start(lan: &Lan, folder: &Path, number: usize, nsm: &str) -> Result<Gateway, String> {
    let (at, port) = (folder.display(), FIRST_PORT + number as u16);
    let config = folder.join(format!("gateway{number}.conf"));
    let text = format!(
        "daemon off; worker_processes 1; pid {at}/gateway{number}.pid; error_log {at}/error.log;
events {{ worker_connections 64; }}
http {{ access_log off; keepalive_requests 1000000000;
  server {{ listen {port}; location / {{ return 200 \"{}\"; }} }} }}
",
        "x".repeat(ANSWER)
    );
    std::fs::write(&config, text).map_err(|error| error.to_string())?;
    let mut command = Command::new(weir());
    command.env("WEIR_RUN", &lan.node.folder);
    command
        .args(["sock", "run", "--nsm", nsm, "--", "nginx", "-c"])
        .arg(config);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let child = command.spawn().map_err(|error| error.to_string())?;
    Ok(Gateway(child))
}

/// Loads the gateways of `nsms`, the first by the first and so on, for so many slots.
fn measure_on(
    lan: &Lan,
    folder: &Path,
    stacks: &'static str,
    nsms: &[&str],
    slots: usize,
) -> Result<Figure, String> {
    let namespace = File::open(inside(&lan.client)).map_err(|error| error.to_string())?;
    let gateways: Result<Vec<_>, _> = (0..GATEWAYS)
        .map(|i| start(lan, folder, i, nsms[i % nsms.len()]))
        .collect();
    let gateways = gateways?;
    let pids: Result<Vec<u64>, String> = nsms
        .iter()
        .map(|nsm| {
            let seen = lan.api()?.ask("GET", &format!("/v1/nsms/{nsm}"), None)?;
            seen["status"]["pid"]
                .as_u64()
                .ok_or(format!("NSM {nsm} has no process"))
        })
        .collect();
    let pids = pids?;
    let clients: Vec<_> = (0..GATEWAYS)
        .map(|number| {
            let namespace = namespace.try_clone().map_err(|error| error.to_string())?;
            let address = SocketAddr::from(([10, 77, 0, 2], FIRST_PORT + number as u16));
            let ticks = schedule(number, slots);
            Ok(std::thread::spawn(move || -> Result<Latencies, String> {
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                    .map_err(|error| error.to_string())?;
                let begun = Instant::now();
                while TcpStream::connect_timeout(&address, LIMIT).is_err() {
                    if begun.elapsed() > LIMIT {
                        return Err(format!("gateway {number} does not answer"));
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
                load(address, &ticks).map_err(|error| format!("gateway {number}: {error}"))
            }))
        })
        .collect::<Result<_, String>>()?;
    let mut shares = vec![Vec::new(); pids.len()];
    let (mut total, mut before) = (0.0, Vec::new());
    while !clients.iter().all(|client| client.is_finished()) {
        let times: Vec<f64> = pids.iter().map(|pid| used(*pid).unwrap_or(0.0)).collect();
        for (shares, (now, before)) in shares.iter_mut().zip(times.iter().zip(&before)) {
            shares.push((now - before) / SLOT.as_secs_f64());
            total += now - before;
        }
        before = times;
        std::thread::sleep(SLOT);
    }
    let mut latencies = Latencies::new();
    for client in clients {
        latencies.extend(client.join().map_err(|_| "a thread failed")??);
    }
    drop(gateways);
    Ok(Figure {
        stacks,
        requests: latencies.len(),
        latency_ms: percentile(&latencies, 0.5),
        latency_99_ms: percentile(&latencies, 0.99),
        cpu_s: total,
        cores: shares.iter().map(|shares| percentile(shares, 0.99)).sum(),
    })
}

/// Both ways, for so many seconds each.
pub fn measure(lan: &Lan, folder: &Path, seconds: u64) -> Result<Vec<Figure>, String> {
    let slots = (seconds * 1000 / SLOT.as_millis() as u64) as usize;
    for nsm in ["own0", "own1", "own2", "pool"] {
        lan.weir(&format!("nsm create {nsm} --netns {}", inside(&lan.server)))?;
    }
    let own = measure_on(lan, folder, "own", &["own0", "own1", "own2"], slots)?;
    let pool = measure_on(lan, folder, "pool", &["pool"], slots)?;
    for figure in [&own, &pool] {
        println!(
            "gateways, stacks {}: {} requests, {:.2} ms, 99 % {:.2} ms; {:.2} s of processor time, {:.2} cores for the peaks",
            figure.stacks,
            figure.requests,
            figure.latency_ms,
            figure.latency_99_ms,
            figure.cpu_s,
            figure.cores
        );
    }
    Ok(vec![own, pool])
}
