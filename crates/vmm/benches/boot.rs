//! A guest's time to "running", and its memory then: from `spawn`, and from `start` in a pre-forked process; and
//! the time that its process takes to end. Prints JSON.
//!
//! `cargo bench -p vmm --bench boot -- [rounds]`

use std::fs;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::thread::yield_now;
use std::time::{Duration, Instant};

use abi::control::State;
use abi::region::{Geometry, Interface, Region};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use vmm::{Control, DataFile, GuestSpec, Isolation, Template};

/// Of so many guests one lives longer than it takes KVM to be done with what it was told when the machine was
/// made. A machine that ends earlier waits for that, which is a matter of the kernel's clock ticks.
const LINGERERS: usize = 10;
const LINGER: Duration = Duration::from_millis(50);
/// What the guests run.
const CONFIG: &[u8] = b"Idle -> Discard;";

fn main() {
    let rounds: usize = std::env::args()
        .filter_map(|a| a.parse().ok())
        .next()
        .unwrap_or(200);
    let template = Template::new(vmm::IMAGE).expect("the image");
    let mut walls = Vec::new();
    for (name, isolation) in [("vm", Isolation::Vm), ("process", Isolation::Process)] {
        if let Err(error) = template.wall(isolation) {
            eprintln!("{error}");
            continue;
        }
        // A second guest, so that what all guests share is not counted as the measured one's own.
        let control = Control::new().expect("a control region");
        let mut spec = GuestSpec::new("companion", 0, &control);
        spec.isolation = isolation;
        spec.config = CONFIG;
        let _companion = template.spawn(&spec).expect("a guest");
        // In turn, so that other load of the machine affects both alike.
        let (mut spawned, mut prepared) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            let linger = if round % LINGERERS == 0 {
                LINGER
            } else {
                Duration::ZERO
            };
            spawned.push(boot(&template, isolation, false, linger));
            prepared.push(boot(&template, isolation, true, linger));
        }
        let all = [("spawn", spawned), ("prepared", prepared)];
        walls.extend(all.map(|(how, samples)| report(name, how, samples)));
    }
    println!(
        "{{\n  \"benchmark\": \"boot\",\n  \"image_bytes\": {},\n  \"walls\": [\n{}\n  ]\n}}",
        vmm::IMAGE.len(),
        walls.join(",\n")
    );
}

fn report(wall: &str, how: &str, mut samples: Vec<Sample>) -> String {
    samples.sort_by_key(|s| s.running);
    let median = |part: fn(&Sample) -> Option<u64>| {
        let mut values: Vec<u64> = samples.iter().filter_map(part).collect();
        values.sort_unstable();
        values.get(values.len() / 2).copied().unwrap_or(0)
    };
    let at = |share: usize| {
        let sample = &samples[(samples.len() - 1) * share / 100];
        sample.running.as_micros()
    };
    format!(
        "    {{\"wall\": \"{wall}\", \"how\": \"{how}\", \"rounds\": {}, \"returns_us\": {}, \"running_us\": {{\"median\": {}, \"p10\": {}, \"p90\": {}, \"p99\": {}}}, \"end_us\": {}, \"end_at_once_us\": {}, \"private_kib\": {}, \"shared_kib\": {}}}",
        samples.len(),
        median(|s| Some(s.returns.as_micros() as u64)),
        at(50),
        at(10),
        at(90),
        at(99),
        median(|s| s.lingered.then_some(s.end.as_micros() as u64)),
        median(|s| (!s.lingered).then_some(s.end.as_micros() as u64)),
        median(|s| Some(s.private)),
        median(|s| Some(s.shared)),
    )
}

struct Sample {
    /// Until `spawn` or `start` returns.
    returns: Duration,
    /// From before that call until the guest's state is "running".
    running: Duration,
    /// From kill until its process is reaped.
    end: Duration,
    /// It lived for [`LINGER`] before.
    lingered: bool,
    /// Memory that it does not share, in KiB.
    private: u64,
    /// Memory that it shares with others, in KiB.
    shared: u64,
}

/// Starts a guest with two interfaces of 64 slots, as the demonstration has.
fn boot(template: &Template, isolation: Isolation, pre_forked: bool, linger: Duration) -> Sample {
    let geometry = Geometry::new(64, 2).expect("a geometry");
    let data = memfd_create("bench-data", MemfdFlags::CLOEXEC).expect("a memory file");
    ftruncate(&data, geometry.bytes() as u64).expect("room");
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping.
    let base = unsafe {
        mmap(
            std::ptr::null_mut(),
            geometry.bytes(),
            access,
            MapFlags::SHARED,
            &data,
            0,
        )
    }
    .expect("a mapping");
    let interfaces = ["inside", "outside"]
        .map(|name| Interface::new(name, [2, 0, 0, 0, 0, 1], 1500).expect("a name"));
    let start = NonNull::new(base.cast::<u8>()).expect("not 0");
    // SAFETY: mapped until the end of this function.
    let region = unsafe { Region::format(start, geometry, &interfaces) }.expect("a region");
    let wake_offset = region.wake_word().as_ptr() as usize - base as usize;
    let bells = [0, 1].map(|_| eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd"));
    let control = Control::new().expect("a control region");

    let mut spec = GuestSpec::new("bench", 1, &control);
    spec.isolation = isolation;
    spec.config = CONFIG;
    spec.data = Some(DataFile {
        file: data.as_fd(),
        length: geometry.bytes(),
        wake_offset,
    });
    spec.switch_doorbell = Some(bells[0].as_fd());
    spec.control_doorbell = Some(bells[1].as_fd());
    let prepared = pre_forked.then(|| template.prepare(&spec.shape()).expect("a process"));
    if pre_forked {
        std::thread::sleep(Duration::from_millis(4));
    }
    let before = Instant::now();
    let mut guest = match prepared {
        Some(prepared) => prepared.start(&spec).expect("a guest"),
        None => template.spawn(&spec).expect("a guest"),
    };
    let returns = before.elapsed();
    while control.state() != Some(State::Running) {
        if before.elapsed() > Duration::from_secs(5) {
            let exit = guest.try_wait(&control).expect("a wait");
            panic!(
                "the guest does not run: {}",
                exit.map_or("no exit".into(), |e| e.to_string())
            );
        }
        // Not a busy wait: the guest may have to run on this CPU.
        yield_now();
    }
    let running = before.elapsed();
    std::thread::sleep(Duration::from_millis(2));
    let (private, shared) = memory(guest.pid());
    std::thread::sleep(linger);
    let before = Instant::now();
    guest.kill();
    guest.wait(&control, None).expect("an end");
    let end = before.elapsed();
    // SAFETY: nothing refers to the region any more.
    unsafe { munmap(base, geometry.bytes()) }.expect("unmapped");
    Sample {
        returns,
        running,
        end,
        lingered: !linger.is_zero(),
        private,
        shared,
    }
}

fn memory(pid: u32) -> (u64, u64) {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("its memory");
    let sum = |prefix: &str| {
        let lines = rollup.lines().filter(|line| line.starts_with(prefix));
        lines
            .filter_map(|l| l.split_whitespace().nth(1)?.parse::<u64>().ok())
            .sum()
    };
    (sum("Private_"), sum("Shared_"))
}
