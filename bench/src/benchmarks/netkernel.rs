//! NetKernel beside the plain kernel: the same unmodified programs on the kernel's own sockets, on a
//! kernel NSM, and in shared memory.
//!
//! `WEIR` names the `weir` program. In each of `ROUNDS` rounds (5) every load runs once in each mode,
//! in turn, on loopback, for `SECONDS_EACH` (2):
//!
//! - plain: server and client on the kernel's sockets;
//! - kernel: the server on a kernel NSM, the client on the kernel's sockets;
//! - shm: both on one NSM that connects them through shared memory.
//!
//! Beside rates of requests and bytes: how fast connections are made, and what an idle one takes of the
//! machine's memory, at both ends and in between.
//!
//! Words select loads by what their names contain.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bench::program::{rounds, setting, weir};
use bench::{median, report};
use serde::Serialize;

const MODES: [&str; 3] = ["plain", "kernel", "shm"];
/// How long a load may take beyond its time.
const GRACE: Duration = Duration::from_secs(30);

/// A server, and a client that loads it.
struct Load {
    name: String,
    server: String,
    client: String,
    port: u16,
    unit: &'static str,
    /// The figures in what the client prints: the rate, and latencies in milliseconds at the median
    /// and the 99th percentile where it tells them.
    read: fn(&str) -> Option<[f64; 3]>,
}

#[derive(Serialize)]
struct Row {
    load: String,
    unit: &'static str,
    mode: &'static str,
    rate: f64,
    /// Of the plain mode's.
    ratio: f64,
    latency_ms: Option<f64>,
    latency_99_ms: Option<f64>,
}

fn wrk(text: &str) -> Option<[f64; 3]> {
    let after = |name: &str| text.lines().find_map(|line| line.trim().strip_prefix(name));
    let rate = after("Requests/sec:")?.trim().parse().ok()?;
    let latency = |name| {
        let text = after(name)?.trim();
        let unit = text.find(|c: char| c.is_alphabetic())?;
        let value: f64 = text[..unit].parse().ok()?;
        Some(match &text[unit..] {
            "us" => value / 1e3,
            "s" => value * 1e3,
            _ => value,
        })
    };
    Some([rate, latency("50%")?, latency("99%")?])
}

/// `redis-benchmark --csv`: test, requests a second, latencies: mean, least, 50th, 95th, 99th, most.
fn redis(text: &str) -> Option<[f64; 3]> {
    let line = text.lines().rfind(|line| line.starts_with("\"GET\""))?;
    let field = |at: usize| line.split(',').nth(at)?.trim_matches('"').parse().ok();
    Some([field(1)?, field(4)?, field(6)?])
}

fn iperf(text: &str) -> Option<[f64; 3]> {
    let all: serde_json::Value = serde_json::from_str(text.get(text.find('{')?..)?).ok()?;
    let bits = all["end"]["sum_received"]["bits_per_second"].as_f64()?;
    Some([bits / 1e9, f64::NAN, f64::NAN])
}

/// Connections that are made, one after another, and then idle.
const IDLE: u32 = 10_000;

/// Accepts connections and keeps them; or makes them, and says how many a second, and by how much the
/// machine's free memory has shrunk for each.
const IDLE_PROGRAM: &str = "\
import resource, socket, sys, time

hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

def available():
    for line in open('/proc/meminfo'):
        if line.startswith('MemAvailable:'):
            return int(line.split()[1]) * 1024

kept = []
if sys.argv[1] == 'server':
    listener = socket.create_server(('127.0.0.1', int(sys.argv[2])), backlog=4096)
    while True:
        kept.append(listener.accept()[0])
before, start = available(), time.monotonic()
for _ in range(int(sys.argv[3])):
    kept.append(socket.create_connection(('127.0.0.1', int(sys.argv[2]))))
rate = len(kept) / (time.monotonic() - start)
time.sleep(0.5)
for connection in kept:
    try:
        connection.recv(1, socket.MSG_DONTWAIT)
        sys.exit('a connection is at its end')
    except BlockingIOError:
        pass
print(rate, (before - available()) / len(kept))
";

fn made(text: &str) -> Option<[f64; 3]> {
    let rate = text.split_whitespace().next()?.parse().ok()?;
    Some([rate, f64::NAN, f64::NAN])
}

fn room(text: &str) -> Option<[f64; 3]> {
    let bytes = text.split_whitespace().nth(1)?.parse().ok()?;
    Some([bytes, f64::NAN, f64::NAN])
}

fn loads(folder: &Path, seconds: u64) -> Vec<Load> {
    let mut all = Vec::new();
    let nginx = format!("nginx -c {}/nginx.conf", folder.display());
    for (name, more) in [("keep-alive", ""), ("short", "-H 'Connection: close' ")] {
        for clients in [1, 32, 256] {
            all.push(Load {
                name: format!("nginx, {name} connections, {clients}"),
                server: nginx.clone(),
                client: format!(
                    "wrk -t1 -c{clients} -d{seconds}s --latency {more}http://127.0.0.1:18090/"
                ),
                port: 18090,
                unit: "requests/s",
                read: wrk,
            });
        }
    }
    for (clients, pipeline) in [(1, 1), (50, 1), (50, 16)] {
        all.push(Load {
            name: format!("redis GET, {clients} connections, pipelines of {pipeline}"),
            server: "redis-server --port 18091 --save '' --appendonly no".to_owned(),
            client: format!(
                "redis-benchmark -p 18091 -t get -c {clients} -P {pipeline} -n {} --csv",
                seconds * 50_000 * pipeline / if clients == 1 { 4 } else { 1 }
            ),
            port: 18091,
            unit: "requests/s",
            read: redis,
        });
    }
    for connections in [1, 8] {
        for size in [64, 512, 1448, 8192, 65_536] {
            for (way, option) in [("received", ""), ("sent", " -R")] {
                all.push(Load {
                    name: format!("iperf3, {connections} connections, {size} B {way}"),
                    server: "iperf3 -s -p 18092".to_owned(),
                    client: format!(
                        "iperf3 -c 127.0.0.1 -p 18092 -t {seconds} -l {size} -P {connections}{option} -J"
                    ),
                    port: 18092,
                    unit: "Gb/s",
                    read: iperf,
                });
            }
        }
    }
    for (name, unit, read) in [
        ("made", "connections/s", made as fn(&str) -> _),
        ("idle", "bytes/connection", room),
    ] {
        let program = format!("python3 {}/idle.py", folder.display());
        all.push(Load {
            name: format!("{IDLE} connections, {name}"),
            server: format!("{program} server 18093"),
            client: format!("{program} client 18093 {IDLE}"),
            port: 18093,
            unit,
            read,
        });
    }
    all
}

/// Runs a load in a mode.
fn run_load(weir: &Path, load: &Load, mode: &str, time: Duration) -> Result<[f64; 3], String> {
    // One shell has the server and the client, so that one run of an NSM may have both.
    let start = format!("{} >/dev/null 2>&1 & server=$!", load.server);
    let wait = format!(
        "n=0; until ss -Hltn 'sport = :{}' | grep -q .; do sleep 0.02; n=$((n+1)); [ $n -lt 250 ] || exit 9; done",
        load.port
    );
    let weir = weir.display();
    let end = "kill $server; wait $server";
    let script = match mode {
        "plain" => format!("{start}; {wait}; {}; {end}", load.client),
        "kernel" => format!("{weir} sock run -- {start}; {wait}; {}; {end}", load.client),
        _ => format!("{start}; {wait}; {}; {end}", load.client),
    };
    let mut command = if mode == "shm" {
        let mut command = Command::new(weir.to_string());
        command.args(["sock", "run", "--local", "--", "sh", "-c", &script]);
        command
    } else {
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        command
    };
    command.stdin(Stdio::null()).stderr(Stdio::null());
    command.stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let mut said = child.stdout.take().ok_or("no output")?;
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut said, &mut text).map(|_| text)
    });
    let end = Instant::now() + time + GRACE;
    while child.try_wait().map_err(|e| e.to_string())?.is_none() {
        if Instant::now() > end {
            // The shell alone is ours to end; what it started ends with its NSM or is told below.
            let _ = child.kill();
            return Err(format!("{} in mode {mode} did not end", load.name));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let text = reader
        .join()
        .map_err(|_| "a thread failed")?
        .map_err(|e| e.to_string())?;
    (load.read)(&text).ok_or_else(|| format!("{} in mode {mode} said: {text}", load.name))
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(super) fn run(words: &[String]) -> Result<(), String> {
    let rounds = rounds(5);
    let seconds = setting("SECONDS_EACH", 2);
    let weir = weir();
    let folder = std::env::temp_dir().join(format!("weir-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
    let folder = Folder(folder);
    let at = folder.0.display();
    let nginx = format!(
        "daemon off; worker_processes 1; pid {at}/nginx.pid; error_log {at}/error.log;
events {{ worker_connections 4096; }}
http {{ access_log off; keepalive_requests 1000000000;
  server {{ listen 127.0.0.1:18090 backlog=1024; location / {{ return 200 \"hello\\n\"; }} }} }}
"
    );
    for (file, text) in [("nginx.conf", nginx.as_str()), ("idle.py", IDLE_PROGRAM)] {
        std::fs::write(folder.0.join(file), text).map_err(|e| e.to_string())?;
    }
    let mut rows = Vec::new();
    for load in loads(&folder.0, seconds) {
        if !words.is_empty() && !words.iter().any(|word| load.name.contains(word.as_str())) {
            continue;
        }
        let mut figures = [const { Vec::new() }; MODES.len()];
        for _ in 0..rounds {
            for (mode, figures) in MODES.iter().zip(&mut figures) {
                match run_load(&weir, &load, mode, Duration::from_secs(seconds)) {
                    Ok(figure) => figures.push(figure),
                    Err(error) => eprintln!("{error}"),
                }
            }
        }
        let of = |mode: usize, figure: usize| {
            let all: Vec<f64> = figures[mode].iter().map(|all| all[figure]).collect();
            median(&all)
        };
        for (at, mode) in MODES.into_iter().enumerate() {
            let latency = |figure| Some(of(at, figure)).filter(|ms| !ms.is_nan());
            let row = Row {
                load: load.name.clone(),
                unit: load.unit,
                mode,
                rate: of(at, 0),
                ratio: of(at, 0) / of(0, 0),
                latency_ms: latency(1),
                latency_99_ms: latency(2),
            };
            let ms = |value: Option<f64>| value.map_or("-".to_owned(), |ms| format!("{ms:.3}"));
            println!(
                "{}: {mode} {:.1} {} ({:.2}), {} ms, 99 % {} ms",
                row.load,
                row.rate,
                row.unit,
                row.ratio,
                ms(row.latency_ms),
                ms(row.latency_99_ms)
            );
            rows.push(row);
        }
    }
    report("netkernel", rounds, &rows)
}
