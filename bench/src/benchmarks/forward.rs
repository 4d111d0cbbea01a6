//! Guest → switch → guest on two cores: one guest with two interfaces is source and sink, on one
//! core; the switch is on the other.
//!
//! Frames of 60 and 1514 bytes (64 and 1518 on a wire, with their checksums), behind either wall,
//! `ROUNDS` times (5), alternating; rates are the frames that the sink counts in a second, medians.
//! `STARTS` times (40) the same guest is started, in a pre-forked process and in a new one, and
//! ended when its first frame has crossed the switch.

use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use abi::message::kind;
use abi::region::{Geometry, Interface, Region};
use bench::program::setting;
use bench::{machine, median, save};
use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::{CpuSet, sched_setaffinity, set_current_timer_slack};
use serde::Serialize;
use switch::client::Guest as Attachment;
use switch::memory::SharedRegion;
use switch::process::{Options, Switch};
use switch::properties::PortProperties;
use switch::protocol::GuestInterface;
use vmm::{Control, DataFile, Guest, GuestSpec, IMAGE, Isolation, Template};

const SLOTS: u32 = 1024;
/// How long the benchmark sleeps between checks for the first frame, the first of which comes within that time at a
/// moment of its own in each start. It shares a processor with the switch, from which each check takes 25 us.
const LOOK: Duration = Duration::from_micros(100);
/// Time for a process to be pre-forked, and for the switch to fall asleep.
const SETTLE: Duration = Duration::from_millis(5);
/// Long enough for the huge-page collapse of the guest's region.
const WARM_UP: Duration = Duration::from_secs(1);
const MEASURED: Duration = Duration::from_secs(1);

/// A sentence that ends the benchmark.
type Failure = Box<dyn std::error::Error>;

#[derive(Clone, Copy, Serialize)]
struct Case {
    wall: &'static str,
    #[serde(skip)]
    isolation: Isolation,
    frame_bytes: usize,
}

#[derive(Serialize)]
struct Figure {
    #[serde(flatten)]
    case: Case,
    /// Million frames a second, median.
    mpps: f64,
    least: f64,
    most: f64,
    /// Bits of frames a second, in Gb/s, median.
    gigabits: f64,
    /// From the request for the guest until its first frame has crossed the switch, in ms, median: in
    /// a pre-forked process, and in a new one.
    first_frame_ms: f64,
    first_frame_spawned_ms: f64,
}

#[derive(Serialize)]
struct Report {
    benchmark: &'static str,
    machine: String,
    ring_slots: u32,
    rounds: usize,
    starts: usize,
    figures: Vec<Figure>,
}

/// A guest that sends to itself through a switch, whose first frame has arrived.
struct Running {
    control: Control,
    /// From the request for the guest until its first frame has crossed the switch.
    first: Duration,
    _guest: Guest,
    _switch: Switch,
}

/// Starts a switch and a guest that sends to itself, in a pre-forked process or a new one.
///
/// `number` is that of the start, from which the moments of the checks come.
fn start(
    template: &Template,
    case: Case,
    pre_forked: bool,
    number: usize,
) -> Result<Running, Failure> {
    let interfaces = ["source", "sink"];
    let mut described = Vec::new();
    for (i, name) in (1..).zip(interfaces) {
        described.extend(Interface::new(name, [2, 0, 0, 0, 0, i], 1500));
    }
    let geometry = Geometry::new(SLOTS, described.len())?;
    let switch = Switch::spawn_with(&Options {
        lanes: 1,
        cpus: vec![1],
    })?;
    let (region, file) = SharedRegion::create(geometry, &described)?;
    drop(region);
    let doorbell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let port = |name: &str| GuestInterface {
        name: name.into(),
        domain: 0,
        mtu: 1500,
        mac: None,
        properties: PortProperties::default(),
        replaces: None,
        behind: None,
    };
    let ports = switch.client().attach_guest(Attachment {
        region: file.as_fd(),
        doorbell: doorbell.as_fd(),
        shared: None,
        waits: None,
        slots: SLOTS,
        interfaces: interfaces.map(port).into(),
    })?;
    // To the sink's address, from the source's.
    let head = "02000000000202000000000108004500";
    let config = format!(
        "InfiniteSource(DATA \\<{head}>, LENGTH {}, BURST 64, TIMESTAMP false) -> ToNetfront(source);
         FromNetfront(sink) -> sunk :: Counter -> Discard;",
        case.frame_bytes
    );
    let mut control = Control::new()?;
    let spec = GuestSpec {
        isolation: case.isolation,
        config: config.as_bytes(),
        data: Some(DataFile {
            file: file.as_fd(),
            length: geometry.bytes(),
            wake_offset: Region::WAKE_OFFSET,
        }),
        switch_doorbell: Some(doorbell.as_fd()),
        pins: &[0],
        ..GuestSpec::new("forward", 1, &control)
    };
    let prepared = if pre_forked {
        Some(template.prepare(&spec.shape())?)
    } else {
        None
    };
    std::thread::sleep(SETTLE);
    let asked = Instant::now();
    let guest = match prepared {
        Some(prepared) => prepared.start(&spec)?,
        None => template.spawn(&spec)?,
    };
    schedule(libc::SCHED_FIFO, &[1])?;
    std::thread::sleep(LOOK.mul_f64(number as f64 * 0.618 % 1.0));
    while switch.client().stats(ports[1]).frames_out == 0 {
        if asked.elapsed() > Duration::from_secs(2) {
            let mut console = Vec::new();
            control.read_console(&mut console)?;
            return Err(format!(
                "the guest did not start: {}",
                String::from_utf8_lossy(&console)
            )
            .into());
        }
        std::thread::sleep(LOOK);
    }
    let first = asked.elapsed();
    schedule(libc::SCHED_OTHER, &[0, 1])?;
    Ok(Running {
        first,
        control,
        _guest: guest,
        _switch: switch,
    })
}

/// Sets how this thread is scheduled, and on which CPUs. It looks in real time beside the switch: the switch's lanes
/// outrank others, which would look when a lane has slept first; and a guest on KVM would not come to work if it were
/// interrupted so often. rustix and nix lack the first call.
fn schedule(policy: i32, cpus: &[usize]) -> std::io::Result<()> {
    let parameters = libc::sched_param {
        sched_priority: (policy == libc::SCHED_FIFO).into(),
    };
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu));
    sched_setaffinity(None, &set)?;
    // SAFETY: the kernel reads the parameters.
    match unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Frames a second from a guest through the switch back to the guest.
fn rate(template: &Template, case: Case) -> Result<f64, Failure> {
    let mut running = start(template, case, true, 0)?;
    std::thread::sleep(WARM_UP);
    let mut count = || -> Result<u64, Failure> {
        let answer = running
            .control
            .call(kind::READ, "sunk.count", Duration::from_secs(2))?;
        Ok(String::from_utf8_lossy(&answer.contents).trim().parse()?)
    };
    let (before, from) = (count()?, Instant::now());
    std::thread::sleep(MEASURED);
    let (after, to) = (count()?, Instant::now());
    Ok((after - before) as f64 / to.duration_since(from).as_secs_f64())
}

/// The samples of one case.
#[derive(Clone, Default)]
struct Samples {
    /// Million frames a second.
    rates: Vec<f64>,
    /// Time to the first frame, in ms: in a pre-forked process, and in a new one.
    prepared: Vec<f64>,
    spawned: Vec<f64>,
}

pub(super) fn run() -> Result<(), String> {
    measure_all().map_err(|error| error.to_string())
}

fn measure_all() -> Result<(), Failure> {
    let (rounds, starts) = (setting("ROUNDS", 5), setting("STARTS", 40));
    // Sleeps end on time, not 50 us later.
    set_current_timer_slack(NonZeroU64::new(1))?;
    let template = Template::with_zygote(IMAGE)?;
    let mut cases = Vec::new();
    for (wall, isolation) in [("vm", Isolation::Vm), ("process", Isolation::Process)] {
        if let Err(error) = template.wall(isolation) {
            eprintln!("skipped: {error}");
            continue;
        }
        let case = |frame_bytes| Case {
            wall,
            isolation,
            frame_bytes,
        };
        cases.extend([case(60), case(1514)]);
    }
    let mut measured = vec![Samples::default(); cases.len()];
    for number in 0..starts {
        for (case, samples) in cases.iter().zip(&mut measured) {
            for (forked, times) in [(true, &mut samples.prepared), (false, &mut samples.spawned)] {
                let running = start(&template, *case, forked, number)?;
                times.push(running.first.as_secs_f64() * 1e3);
            }
        }
    }
    for _ in 0..rounds {
        for (case, samples) in cases.iter().zip(&mut measured) {
            samples.rates.push(rate(&template, *case)? / 1e6);
        }
    }
    let figures = cases.iter().zip(&measured).map(|(case, samples)| Figure {
        case: *case,
        mpps: median(&samples.rates),
        least: samples.rates.iter().copied().fold(f64::INFINITY, f64::min),
        most: samples.rates.iter().copied().fold(0.0, f64::max),
        gigabits: median(&samples.rates) * case.frame_bytes as f64 * 8.0 / 1e3,
        first_frame_ms: median(&samples.prepared),
        first_frame_spawned_ms: median(&samples.spawned),
    });
    let report = Report {
        benchmark: "forward",
        machine: machine(),
        ring_slots: SLOTS,
        rounds,
        starts,
        figures: figures.collect(),
    };
    for figure in &report.figures {
        println!(
            "{:<8} {:>5} bytes  {:6.2} Mpps  {:6.2} Gb/s  first frame after {:.2} ms, {:.2} in a new process",
            figure.case.wall,
            figure.case.frame_bytes,
            figure.mpps,
            figure.gigabits,
            figure.first_frame_ms,
            figure.first_frame_spawned_ms
        );
    }
    println!("{}", save("forward", &report)?.display());
    Ok(())
}
