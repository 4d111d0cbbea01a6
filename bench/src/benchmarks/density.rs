//! Many guests on one host: the time to create and destroy them, their memory and CPU time, and
//! whether all of them work.
//!
//! `WEIR` names the `weir` program; `GUESTS` is their number (10000). Each guest is on a stub of its own VNIC, has an
//! address, and answers ARP requests and pings. They are created by the node's API over 32 connections. Runs as
//! root, in a network namespace and folders of its own; the memory is touched before, since a virtual machine's
//! host gives it on first use. With a number on the command line, no result is saved.
//! Results of other numbers than 10 000 have the number in their names.

mod machine;
mod ping;
mod traffic;

use std::fmt::Write;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bench::api::Api;
use bench::memory::available;
use bench::program::weir;
use bench::{Axis, Line, lines, machine as machine_line, median, results, save};
use serde::Serialize;
use serde_json::{Value, json};
use traffic::Load;

/// Connections that create guests.
const CONNECTIONS: usize = 32;
/// Guests of a point of the curves.
const POINT: usize = 100;
/// Guests that are there before the others, to be busy alone and beside them.
const BUSY: usize = 2;
/// One of so many guests is busy when many are.
const PART: usize = 10;
/// Pings under way to each of the two.
const WINDOW: usize = 32;
/// A few pings.
const FEW: usize = 4;
/// How long the idle guests are watched.
const IDLE: Duration = Duration::from_secs(10);
/// How long a node may take to start or end.
const START: Duration = Duration::from_secs(20);
/// Memory of a guest that is touched before, with what the host needs beside it.
const TOUCHED: usize = 1 << 20;

#[derive(Serialize)]
struct Report {
    benchmark: &'static str,
    machine: String,
    guests: usize,
    /// Seconds until all guests run.
    created: f64,
    /// Milliseconds a guest, of each hundred.
    hundreds: Vec<f64>,
    /// The last hundred's time over the first's, each as a mean of three.
    last_over_first: f64,
    /// Memory that is gone, in KiB a guest, with all of them there.
    memory: f64,
    /// The same with fewer of them: number and KiB a guest.
    memory_by_count: Vec<(usize, f64)>,
    /// CPU time of guests, node and switch while all are idle, in percent of one processor.
    idle: f64,
    /// Guests that answer ping.
    answering: usize,
    /// Milliseconds to the first answer of a guest, medians of the first and the last hundred.
    first_answer: (f64, f64),
    /// Milliseconds to the second.
    second_answer: (f64, f64),
    /// Two guests under load, before the others are there, beside them, and when they are gone.
    two_busy: [Load; 3],
    /// A part of the guests under load at once: one ping to each at a time, and a few.
    many_busy: [Load; 2],
    /// Seconds until no guest is left.
    destroyed: f64,
    /// Processes that are left then, without node, switch and zygote.
    left: usize,
}

/// A node, its folder and its namespace.
struct Bed {
    node: Child,
    weir: PathBuf,
    folder: PathBuf,
    namespace: String,
}

impl Bed {
    fn start() -> Result<Bed, String> {
        let weir = weir();
        let id = std::process::id();
        let folder = std::env::temp_dir().join(format!("bench-density-{id}"));
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        let namespace = format!("density-{id}");
        ip(&["netns", "add", &namespace])?;
        let node = Command::new(&weir)
            .arg("node")
            .env("WEIR_RUN", &folder)
            .env("WEIR_STATE", &folder)
            .stdout(Stdio::null())
            .spawn();
        let node = node.map_err(|error| format!("{}: {error}", weir.display()))?;
        let bed = Bed {
            node,
            weir,
            folder,
            namespace,
        };
        let start = Instant::now();
        while !bed.socket().exists() {
            if start.elapsed() > START {
                return Err("the node did not start".into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_millis(500));
        Ok(bed)
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("node.sock")
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let mut purge = Command::new(&self.weir);
        purge.args(["node", "--purge"]);
        let _ = purge
            .env("WEIR_RUN", &self.folder)
            .env("WEIR_STATE", &self.folder)
            .stdout(Stdio::null())
            .status();
        let _ = self.node.kill();
        let _ = self.node.wait();
        let _ = ip(&["netns", "delete", &self.namespace]);
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(arguments).output();
    let output = output.map_err(|error| format!("ip: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("ip {}: {}", arguments.join(" "), said.trim()))
}

fn name(number: usize) -> String {
    format!("echo-{number}")
}

/// Addresses from 10.77.1.0 on; 10.77.0.1 is the sender of requests.
fn address(number: usize) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 77, 1, 0)) + number as u32)
}

/// A guest that answers ARP requests and pings for its address.
fn guest(number: usize) -> Value {
    let address = address(number);
    let config = format!(
        "FromDevice(lan) -> kind :: Classifier(12/0806 20/0001, 12/0800, -);
         send :: Queue(64) -> ToDevice(lan);
         kind[0] -> ARPResponder({address} lan) -> send;
         kind[1] -> Strip(14) -> CheckIPHeader
             -> IPFilter(allow dst host {address} and icmp type echo, deny all)
             -> ICMPPingResponder -> Unstrip(14) -> EtherMirror -> send;
         kind[2] -> Discard;"
    );
    json!({
        "name": name(number), "config": config, "interfaces": {"lan": "lan"},
        "ring-slots": 64, "memory": "2M",
    })
}

/// Guests that were created.
#[derive(Default)]
struct Created {
    /// Seconds until each of them ran, in order.
    times: Vec<f64>,
    /// The memory that was gone with so many of them, in bytes.
    memory: Vec<(usize, u64)>,
}

/// Creates guests of these numbers.
fn create(api: &Path, numbers: Range<usize>) -> Result<Created, String> {
    let before = available()?;
    let guests = numbers.end;
    let next = AtomicUsize::new(numbers.start);
    let done = Mutex::new(Created::default());
    let start = Instant::now();
    let work = || -> Result<(), String> {
        let mut api = Api::connect(api)?;
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= guests {
                return Ok(());
            }
            let made = api.ask("POST", "/v1/guests", Some(&guest(number)));
            if made.is_err() {
                next.store(guests, Ordering::Relaxed);
            }
            made?;
            let Ok(mut done) = done.lock() else {
                return Ok(());
            };
            done.times.push(start.elapsed().as_secs_f64());
            let count = done.times.len();
            if count % (guests / 10).max(1) == 0 {
                done.memory
                    .push((count, before.saturating_sub(available()?)));
            }
        }
    };
    std::thread::scope(|threads| {
        let all: Vec<_> = (0..CONNECTIONS).map(|_| threads.spawn(work)).collect();
        let mut ends = all.into_iter().map(|thread| thread.join());
        ends.try_for_each(|end| end.unwrap_or_else(|_| Err("a thread panicked".into())))
    })?;
    done.into_inner().map_err(|error| error.to_string())
}

/// Destroys guests of these numbers, by one request.
fn destroy(bed: &Bed, numbers: Range<usize>) -> Result<(), String> {
    let names: Vec<String> = numbers.map(name).collect();
    let action = json!({"action": "destroy", "guests": names});
    let mut api = Api::connect(&bed.socket())?;
    let outcomes = api.ask("POST", "/v1/guest-actions", Some(&action))?;
    let outcomes = outcomes.as_array().cloned().unwrap_or_default();
    let failed = outcomes.iter().find(|it| !it["error"].is_null());
    failed.map_or(Ok(()), |failed| {
        Err(format!("a guest was not destroyed: {failed}"))
    })
}

/// Gives the namespace a VNIC on the stub.
fn prepare_ping(bed: &Bed, api: &mut Api) -> Result<(), String> {
    let vnic = json!({
        "name": "probe", "link": "lan", "namespace": bed.namespace,
        "addresses": ["10.77.0.1/16"],
    });
    api.ask("POST", "/v1/vnics", Some(&vnic)).map(drop)
}

/// Gives the namespace the Ethernet addresses of all guests: a broadcast for each would wake all.
fn tell_addresses(bed: &Bed, api: &mut Api, guests: usize) -> Result<(), String> {
    let vnics = api.ask("GET", "/v1/vnics", None)?;
    let mut batch = String::new();
    for vnic in vnics.as_array().into_iter().flatten() {
        let number = vnic["name"].as_str().and_then(|name| {
            let number = name.strip_prefix("echo-")?.strip_suffix(".lan")?;
            number.parse().ok()
        });
        if let (Some(number), Some(mac)) = (number, vnic["mac"].as_str()) {
            let address = address(number);
            let _ = writeln!(
                batch,
                "neighbour replace {address} lladdr {mac} dev probe nud permanent"
            );
        }
    }
    let told = batch.lines().count();
    if told != guests {
        return Err(format!("{told} of {guests} guests have a VNIC"));
    }
    let file = bed.folder.join("neighbours");
    std::fs::write(&file, batch).map_err(|error| error.to_string())?;
    ip(&["-n", &bed.namespace, "-batch", &file.display().to_string()])
}

pub(super) fn run(words: &[String]) -> Result<(), String> {
    let from = |text: String| text.parse().map_err(|_| format!("{text} is no number"));
    let said = words.first().cloned();
    let number = said.clone().or_else(|| std::env::var("GUESTS").ok());
    let guests: usize = number.map_or(Ok(10_000), from)?;
    if guests < POINT {
        return Err(format!("at least {POINT} guests are measured"));
    }
    machine::check(guests)?;
    machine::touch(guests * TOUCHED)?;
    let bed = Bed::start()?;
    let mut api = Api::connect(&bed.socket())?;
    api.ask("POST", "/v1/stubs", Some(&json!({"name": "lan"})))?;
    let before = available()?;
    create(&bed.socket(), 0..BUSY)?;
    prepare_ping(&bed, &mut api)?;
    let mut prober = ping::Prober::enter(&bed.namespace)?;
    // What IPv6 sends to all by itself, now and then, would wake all.
    std::fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1")
        .map_err(|error| format!("IPv6 in the namespace: {error}"))?;
    tell_addresses(&bed, &mut api, BUSY)?;
    let two: Vec<Ipv4Addr> = (0..BUSY).map(address).collect();
    let alone = Load::measure(&mut prober, bed.node.id(), &two, WINDOW)?;
    println!("alone: {alone}");
    let Created { times, memory } = create(&bed.socket(), BUSY..guests + BUSY)?;
    let created = times.last().copied().unwrap_or(f64::NAN);
    println!("{guests} guests were created in {created:.1} s");
    let hundreds = times.chunks_exact(POINT);
    let mut last = 0.0;
    let hundreds = hundreds.map(|some| {
        let time = some[POINT - 1] - last;
        last = some[POINT - 1];
        time / POINT as f64 * 1e3
    });
    let hundreds: Vec<f64> = hundreds.collect();
    let few = (hundreds.len() / 2).clamp(1, 3);
    // The very first guests wait for the first process.
    let mean = |some: &[f64]| some.iter().sum::<f64>() / some.len() as f64;
    let last_over_first = mean(&hundreds[hundreds.len() - few..]) / mean(&hundreds[..few]);
    println!("the last hundreds took {last_over_first:.2} of the first's time");
    let gone = before.saturating_sub(available()?);
    let a_guest = |(count, bytes): (usize, u64)| (count, bytes as f64 / 1024.0 / count as f64);
    let memory_each = a_guest((guests, gone)).1;
    println!("memory: {memory_each:.0} KiB a guest");
    let busy = machine::cpu_time(bed.node.id())?;
    std::thread::sleep(IDLE);
    let busy = machine::cpu_time(bed.node.id())?.saturating_sub(busy);
    let idle = busy.as_secs_f64() / IDLE.as_secs_f64() * 100.0;
    println!("idle: {idle:.1} % of a processor");
    let mut api = Api::connect(&bed.socket())?;
    tell_addresses(&bed, &mut api, guests + BUSY)?;
    let some = guests.min(POINT);
    let mut one_by_one = |numbers: std::ops::Range<usize>| -> Result<f64, String> {
        let times: Result<Vec<f64>, String> = numbers.map(|it| prober.time(address(it))).collect();
        Ok(median(&times?) * 1e3)
    };
    let first_answer = (one_by_one(0..some)?, one_by_one(guests - some..guests)?);
    let second_answer = (one_by_one(0..some)?, one_by_one(guests - some..guests)?);
    println!(
        "ping: {:.2} and {:.2} ms of the first and last hundred, {:.2} and {:.2} ms the second time",
        first_answer.0, first_answer.1, second_answer.0, second_answer.1
    );
    let addresses: Vec<Ipv4Addr> = (0..guests + BUSY).map(address).collect();
    let answering = prober.answering(&addresses)?;
    println!("{answering} answer ping");
    let beside = Load::measure(&mut prober, bed.node.id(), &two, WINDOW)?;
    println!("beside the others: {beside}");
    let part: Vec<Ipv4Addr> = addresses.iter().copied().step_by(PART).collect();
    let mut many = |window| Load::measure(&mut prober, bed.node.id(), &part, window);
    let many_busy = [many(1)?, many(FEW)?];
    many_busy.iter().for_each(|load| println!("{load}"));
    let start = Instant::now();
    destroy(&bed, BUSY..guests + BUSY)?;
    let destroyed = start.elapsed().as_secs_f64();
    let again = Load::measure(&mut prober, bed.node.id(), &two, WINDOW)?;
    println!("alone again: {again}");
    destroy(&bed, 0..BUSY)?;
    let left = machine::guests_of(bed.node.id())?;
    println!("destroyed in {destroyed:.1} s; {left} left");
    let report = Report {
        benchmark: "density",
        machine: machine_line(),
        guests,
        created,
        hundreds,
        last_over_first,
        memory: memory_each,
        memory_by_count: memory.into_iter().map(a_guest).collect(),
        idle,
        answering,
        first_answer,
        second_answer,
        two_busy: [alone, beside, again],
        many_busy,
        destroyed,
        left,
    };
    if said.is_none() {
        let saved = match guests {
            10_000 => {
                draw(&report)?;
                save("density", &report)?
            }
            guests => save(&format!("density-{guests}"), &report)?,
        };
        println!("{}", saved.display());
    }
    Ok(())
}

/// Draws creation time and memory against the count, beside what others published.
fn draw(report: &Report) -> Result<(), String> {
    let points = report.hundreds.iter().enumerate();
    let weir = points.map(|(i, time)| (((i + 1) * POINT) as f64, *time));
    let line = |name: &str, points: Vec<(f64, f64)>| Line {
        name: name.into(),
        points,
    };
    lines(
        &results().join("density-time.svg"),
        "Time to create a guest",
        ("guests", "ms"),
        Axis::Logarithmic,
        &[
            line("Weir", weir.collect()),
            line("ClickOS (2014), boot", vec![(1.0, 21.0), (400.0, 200.0)]),
            line(
                "10 000 guests (2014), 64 cores",
                vec![(1.0, 10.0), (10_000.0, 100.0)],
            ),
            line("LightVM (2017), boot", vec![(1.0, 2.3), (8_000.0, 2.3)]),
        ],
    )?;
    let weir = report.memory_by_count.iter();
    let weir = weir.map(|(count, memory)| (*count as f64, *memory));
    let most = report.guests as f64;
    lines(
        &results().join("density-memory.svg"),
        "Memory of a guest, all in",
        ("guests", "KiB"),
        Axis::Logarithmic,
        &[
            line("Weir", weir.collect()),
            line("ClickOS (2014)", vec![(1.0, 5120.0), (most, 5120.0)]),
        ],
    )
}
