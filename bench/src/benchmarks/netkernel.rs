//! NetKernel beside the plain kernel: the same unmodified programs on the kernel's own sockets, on a
//! kernel NSM, in shared memory, and on a user NSM.
//!
//! `WEIR` names the `weir` program. In each of `ROUNDS` rounds (3) every load runs once in each mode,
//! in turn, for `SECONDS_EACH` (1):
//!
//! - plain: server and client on the kernel's sockets, over loopback;
//! - kernel: the server on a kernel NSM, the client on the kernel's sockets, over loopback;
//! - shm: both on one NSM that connects them through shared memory;
//! - vnic: server and client on the kernel's sockets, each in a network namespace with a VNIC of one switch;
//! - vnic-kernel, vnic-user: the server on an NSM of that kind with a VNIC of the switch, the client as in vnic.
//!
//! Ratios are to plain on loopback, and to vnic behind the switch. Beside rates of requests and bytes: how fast
//! connections are made, and what an idle one takes of the machine's memory, at both ends and in between.
//!
//! Words select loads by what their names contain, and [`gateways`] by that word. `MODES` names the modes (all).
//! Only a whole run writes its table into the docs.

mod gateways;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bench::api::Api;
use bench::node::Node;
use bench::program::{rounds, setting, weir};
use bench::{document, median, report, with_folder};
use serde::Serialize;
use weir::lab::{Namespace, Runner};

/// How long a load may take beyond its time.
const GRACE: Duration = Duration::from_secs(30);

/// How the programs of a load are run.
#[derive(Default)]
struct Mode {
    name: &'static str,
    /// The mode that ratios are to.
    base: &'static str,
    /// Where the server is.
    host: &'static str,
    /// What runs the server, the client, or the shell that runs both.
    server: String,
    client: String,
    shell: Vec<String>,
}

/// A server, and a client that loads it. `HOST` stands for the server's address.
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
    /// To the mode's base.
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

/// Accepts connections and keeps them; or makes them, and says how many a second, and how much
/// memory programs and the kernel take more for each.
const IDLE_PROGRAM: &str = "\
import resource, socket, sys, time

hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

def used():
    fields = {'AnonPages:', 'KernelStack:', 'PageTables:', 'Shmem:', 'Slab:'}
    lines = [line.split() for line in open('/proc/meminfo')]
    return sum(int(line[1]) for line in lines if line[0] in fields) * 1024

kept = []
if sys.argv[1] == 'server':
    listener = socket.create_server(('0.0.0.0', int(sys.argv[2])), backlog=4096)
    while True:
        kept.append(listener.accept()[0])
before, start = used(), time.monotonic()
for _ in range(int(sys.argv[3])):
    kept.append(socket.create_connection((sys.argv[4], int(sys.argv[2]))))
rate = len(kept) / (time.monotonic() - start)
time.sleep(0.5)
for connection in kept:
    try:
        connection.recv(1, socket.MSG_DONTWAIT)
        sys.exit('a connection is at its end')
    except BlockingIOError:
        pass
print(rate, (used() - before) / len(kept))
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
                    "wrk -t1 -c{clients} -d{seconds}s --latency {more}http://HOST:18090/"
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
            server: "redis-server --port 18091 --protected-mode no --save '' --appendonly no"
                .to_owned(),
            client: format!(
                "redis-benchmark -h HOST -p 18091 -t get -c {clients} -P {pipeline} -n {} --csv",
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
                        "iperf3 -c HOST -p 18092 -t {seconds} -l {size} -P {connections}{option} -J"
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
            client: format!("{program} client 18093 {IDLE} HOST"),
            port: 18093,
            unit,
            read,
        });
    }
    all
}

/// Server and client behind a switch: a node, the client's network namespace, and the server's.
struct Lan {
    node: Node,
    client: Namespace,
    server: Namespace,
}

impl Lan {
    fn new() -> Result<Lan, String> {
        let runner = Runner::new(Arc::default());
        let namespace = || Namespace::new(&runner).map_err(|error| error.to_string());
        let lan = Lan {
            node: Node::start("netkernel")?,
            client: namespace()?,
            server: namespace()?,
        };
        // Many connections to one address need many ports, and again sooner than a minute after their end.
        for setting in ["tcp_tw_reuse=1", "ip_local_port_range=1024 65535"] {
            let mut command = lan.client.command("sysctl", "-qw");
            command.arg(format!("net.ipv4.{setting}"));
            let limit = Duration::from_secs(5);
            runner.run(command, limit).map_err(|e| e.to_string())?;
        }
        let [client, server] = [&lan.client, &lan.server].map(inside);
        for arguments in [
            "stub create lan".to_owned(),
            format!("vnic create -l lan --netns {client} -a 10.77.0.1/24 client"),
            format!("vnic create -l lan --netns {server} -a 10.77.0.2/24 server"),
            "nsm create user --kind user -l lan -a 10.77.0.3/24".to_owned(),
            "nsm create kernel".to_owned(),
            "vnic create -l lan --netns weir-nsm-kernel -a 10.77.0.4/24 kernel0".to_owned(),
        ] {
            lan.weir(&arguments)?;
        }
        Ok(lan)
    }

    /// Runs `weir` with arguments separated by spaces.
    fn weir(&self, arguments: &str) -> Result<(), String> {
        let mut command = Command::new(weir());
        command
            .args(arguments.split(' '))
            .env("WEIR_RUN", &self.node.folder);
        let made = command.output().map_err(|error| error.to_string())?;
        if !made.status.success() {
            let said = String::from_utf8_lossy(&made.stderr);
            return Err(format!("weir {arguments}: {}", said.trim()));
        }
        Ok(())
    }

    fn api(&self) -> Result<Api, String> {
        Api::connect(&self.node.socket())
    }

    fn modes(&self) -> [Mode; 3] {
        let [client, server] = [&self.client, &self.server]
            .map(|namespace| format!("nsenter --net={}", inside(namespace)));
        let on = |nsm| {
            format!(
                "WEIR_RUN={} {} sock run --nsm {nsm} --",
                self.node.folder.display(),
                weir().display()
            )
        };
        let mode = |name, host, server| Mode {
            name,
            base: "vnic",
            host,
            server,
            client: client.clone(),
            shell: Vec::new(),
        };
        [
            mode("vnic", "10.77.0.2", server),
            mode("vnic-kernel", "10.77.0.4", on("kernel")),
            mode("vnic-user", "10.77.0.3", on("user")),
        ]
    }
}

fn inside(namespace: &Namespace) -> String {
    format!("/proc/{}/ns/net", namespace.pid())
}

fn on_loopback() -> [Mode; 3] {
    let weir = weir().display().to_string();
    let mode = |name| Mode {
        name,
        base: "plain",
        host: "127.0.0.1",
        ..Mode::default()
    };
    [
        mode("plain"),
        Mode {
            server: format!("{weir} sock run --"),
            ..mode("kernel")
        },
        Mode {
            shell: [&weir, "sock", "run", "--local", "--"]
                .map(String::from)
                .into(),
            ..mode("shm")
        },
    ]
}

/// Runs a load in a mode.
fn run_load(load: &Load, mode: &Mode, time: Duration) -> Result<[f64; 3], String> {
    // One shell has the server and the client, so that one run of an NSM may have both.
    let Mode { name, host, .. } = mode;
    let (server, client, port) = (&mode.server, &mode.client, load.port);
    let script = format!(
        "{server} {} >/dev/null 2>&1 & server=$!
        n=0; until {client} bash -c ': <>/dev/tcp/{host}/{port}' 2>/dev/null; do
            sleep 0.02; n=$((n+1)); [ $n -lt 250 ] || exit 9
        done
        # iperf3 accepts that connection as a client, and listens again after it.
        sleep 0.2
        {client} {}; kill $server; wait $server",
        load.server,
        load.client.replace("HOST", host),
    );
    let mut words = mode.shell.clone();
    words.extend(["sh", "-c", &script].map(String::from));
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
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
            return Err(format!("{} in mode {name} did not end", load.name));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let text = reader
        .join()
        .map_err(|_| "a thread failed")?
        .map_err(|e| e.to_string())?;
    (load.read)(&text).ok_or_else(|| format!("{} in mode {name} said: {text}", load.name))
}

pub(super) fn run(words: &[String]) -> Result<(), String> {
    let folder = std::env::temp_dir().join(format!("weir-bench-{}", std::process::id()));
    with_folder(&folder, || measure(&folder, words))
}

fn measure(folder: &Path, words: &[String]) -> Result<(), String> {
    let rounds = rounds(3);
    let seconds = setting("SECONDS_EACH", 1);
    let at = folder.display();
    let nginx = format!(
        "daemon off; worker_processes 1; pid {at}/nginx.pid; error_log {at}/error.log;
events {{ worker_connections 4096; }}
http {{ access_log off; keepalive_requests 1000000000;
  server {{ listen 18090 backlog=1024; location / {{ return 200 \"hello\\n\"; }} }} }}
"
    );
    for (file, text) in [("nginx.conf", nginx.as_str()), ("idle.py", IDLE_PROGRAM)] {
        std::fs::write(folder.join(file), text).map_err(|e| e.to_string())?;
    }
    let wanted = std::env::var("MODES").unwrap_or_default();
    let wanted: Vec<_> = wanted
        .split([',', ' '])
        .filter(|name| !name.is_empty())
        .collect();
    let lan = Lan::new()?;
    let mut modes: Vec<Mode> = on_loopback().into_iter().chain(lan.modes()).collect();
    modes.retain(|mode| wanted.is_empty() || wanted.contains(&mode.name));
    let mut rows = Vec::new();
    for load in loads(folder, seconds) {
        if !words.is_empty() && !words.iter().any(|word| load.name.contains(word.as_str())) {
            continue;
        }
        let mut figures = vec![Vec::new(); modes.len()];
        for _ in 0..rounds {
            for (mode, figures) in modes.iter().zip(&mut figures) {
                match run_load(&load, mode, Duration::from_secs(seconds)) {
                    Ok(figure) => figures.push(figure),
                    Err(error) => eprintln!("{error}"),
                }
            }
        }
        let figures: Vec<_> = figures.iter().map(|rounds| medians(rounds)).collect();
        for (mode, [rate, latency, latency_99]) in modes.iter().zip(&figures) {
            let base = modes.iter().position(|it| it.name == mode.base);
            let [latency, latency_99] =
                [latency, latency_99].map(|ms| Some(*ms).filter(|ms| !ms.is_nan()));
            let row = Row {
                load: load.name.clone(),
                unit: load.unit,
                mode: mode.name,
                rate: *rate,
                ratio: base.map_or(f64::NAN, |base| rate / figures[base][0]),
                latency_ms: latency,
                latency_99_ms: latency_99,
            };
            let ms = |value: Option<f64>| value.map_or("-".to_owned(), |ms| format!("{ms:.3}"));
            println!(
                "{}: {} {rate:.1} {} ({:.2}), {} ms, 99 % {} ms",
                row.load,
                mode.name,
                row.unit,
                row.ratio,
                ms(latency),
                ms(latency_99)
            );
            rows.push(row);
        }
    }
    if words.is_empty() || words.iter().any(|word| word == "gateways") {
        let seconds = setting("GATEWAY_SECONDS", 20);
        let figures = gateways::measure(&lan, folder, seconds)?;
        report("netkernel-gateways", 1, &figures)?;
    }
    if words.is_empty() && wanted.is_empty() {
        document("netkernel", &table(&modes, &rows)).map_err(|error| error.to_string())?;
    }
    report("netkernel", rounds, &rows)
}

/// The rates of all loads in all modes, with the ratio to the mode's base; and the latencies at the 99th percentile.
fn table(modes: &[Mode], rows: &[Row]) -> String {
    let cell = |row: &Row| {
        let digits = usize::from(row.rate < 1000.0);
        let rate = format!("{:.digits$}", row.rate);
        match modes.iter().any(|mode| mode.base == row.mode) {
            true => rate,
            false => format!("{rate} ({:.2})", row.ratio),
        }
    };
    let line = |cells: &mut dyn Iterator<Item = String>| {
        let cells: Vec<String> = cells.collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let names = modes.iter().map(|mode| mode.name.to_owned());
    let mut text = line(&mut std::iter::once("load".to_owned()).chain(names));
    text += &format!("| --- |{}\n", " ---: |".repeat(modes.len()));
    for load in rows.chunks(modes.len()) {
        let Some(first) = load.first() else { continue };
        let name = format!("{}, {}", first.load, first.unit);
        text += &line(&mut std::iter::once(name).chain(load.iter().map(cell)));
        if load.iter().any(|row| row.latency_99_ms.is_some()) {
            let late = |row: &Row| {
                row.latency_99_ms
                    .map_or("-".into(), |ms| format!("{ms:.2}"))
            };
            let name = "99th percentile, ms".to_owned();
            text += &line(&mut std::iter::once(name).chain(load.iter().map(late)));
        }
    }
    text
}

fn medians(rounds: &[[f64; 3]]) -> [f64; 3] {
    [0, 1, 2].map(|figure| median(&rounds.iter().map(|all| all[figure]).collect::<Vec<_>>()))
}
