//! Both walls, from the outside: guests are started, woken, asked, stopped and made to misbehave.
//!
//! Guests are forked from this process, so its tests run one after the other on its only thread.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use abi::control::State;
use abi::message::kind;
use abi::region::{Geometry, Interface, Region};
use libtest_mimic::{Arguments, Failed, Trial};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use vmm::{
    Control, Ends, Exit, Fault, Guest, GuestSpec, Identity, Isolation, Orphan, Place, Template,
    Wall, Watch,
};

#[path = "wall/cpus.rs"]
mod cpus;
#[path = "wall/snapshot.rs"]
mod snapshot;
#[path = "wall/zygote.rs"]
mod zygote;

/// An element of the main configuration.
fn element(element: usize) -> Option<Place> {
    Some(Place {
        configuration: 0,
        element,
    })
}

static HOSTILE: &[u8] = include_bytes!(env!("HOSTILE_IMAGE"));

/// Longest time that anything here may take.
const LIMIT: Duration = Duration::from_secs(10);
/// A guest that goes wrong is stopped within this time.
const STOP: Duration = Duration::from_secs(1);

type Outcome = Result<(), Failed>;
/// A test that holds for either wall.
type Test = fn(Isolation) -> Outcome;

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let own: &[(&str, Test)] = &[
        ("boots_and_halts", boots_and_halts),
        ("console_arrives_and_the_doorbell_rings", console_arrives),
        ("sleeps_without_cpu_and_wakes", sleeps_and_wakes),
        ("answers_long_requests", answers_long_requests),
        ("a_timer_that_a_request_starts_runs", request_starts),
        ("many_sleeps_with_a_deadline_end", many_sleeps),
        ("vector_registers_work", vector_registers_work),
        ("the_switch_wakes_it_by_the_data_region", data_region_wakes),
        ("panic_is_reported_with_its_place", panic_is_reported),
        ("memory_exhaustion_is_a_sentence", memory_exhaustion),
        ("memory_too_small_is_refused", memory_too_small),
        ("mistakes_are_reported", mistakes_are_reported),
        ("privileged_instructions_end_it", privileged_instructions),
        ("system_calls_end_it", system_calls_end_it),
        ("the_walls_own_memory_is_out_of_reach", probes),
        ("an_endless_loop_is_stopped", endless_loop),
        ("scribbling_harms_itself_alone", scribbling),
        ("kill_is_noticed_by_the_pidfd", kill_is_noticed),
        ("the_process_is_jailed", jailed),
        ("it_ends_with_its_parent", ends_with_parent),
        ("it_is_taken_over_when_its_parent_ended", taken_over),
        ("its_end_is_told_without_a_descriptor_of_it", ends_are_told),
        (
            "a_process_that_never_gets_its_guest_is_none_and_ends",
            never_a_guest,
        ),
        ("nothing_is_left_behind", nothing_is_left),
        ("a_process_made_ready_takes_its_guest", prepared_starts),
        ("a_process_made_ready_takes_no_other", prepared_refuses),
    ];
    let mut trials = vec![
        Trial::test("vm::wild_doorbells_end_it", || {
            wild_doorbells(Isolation::Vm)
        }),
        Trial::test("threads_are_refused", threads_are_refused),
        Trial::test("kvm_missing_is_a_sentence", auto_prefers_kvm),
    ];
    for (wall, isolation) in [("vm", Isolation::Vm), ("process", Isolation::Process)] {
        let tests = own.iter().chain(cpus::TESTS).chain(zygote::TESTS);
        for &(name, test) in tests.chain(snapshot::TESTS) {
            trials.push(Trial::test(format!("{wall}::{name}"), move || {
                test(isolation)
            }));
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}

/// A guest and what belongs to it.
struct Run {
    control: Control,
    guest: Guest,
    console: Vec<u8>,
}

impl Run {
    fn start(image: &'static [u8], isolation: Isolation, config: &str) -> Result<Self, vmm::Error> {
        Self::start_with(image, isolation, config, |_| {})
    }

    fn start_with(
        image: &'static [u8],
        isolation: Isolation,
        config: &str,
        change: impl FnOnce(&mut GuestSpec<'_>),
    ) -> Result<Self, vmm::Error> {
        let template = Template::new(image)?;
        let control = Control::new()?;
        let mut spec = GuestSpec::new("test", 7, &control);
        spec.isolation = isolation;
        spec.config = config.as_bytes();
        change(&mut spec);
        let guest = template.spawn(&spec)?;
        Ok(Self {
            control,
            guest,
            console: Vec::new(),
        })
    }

    /// The end of a guest that has to come within `limit`.
    fn end(mut self, limit: Duration) -> Result<(Exit, String), Failed> {
        let start = Instant::now();
        let exit = self.guest.wait(&self.control, Some(limit))?;
        // A guest may have broken its console ring.
        let _ = self.control.read_console(&mut self.console);
        let console = String::from_utf8_lossy(&self.console).into_owned();
        match exit {
            Some(exit) => Ok((exit, console)),
            None => Err(format!("still running after {:?}: {console}", start.elapsed()).into()),
        }
    }

    fn await_state(&mut self, state: State) -> Outcome {
        until(|| Ok(self.control.state() == Some(state))).map_err(|_| {
            match self.guest.try_wait(&self.control) {
                Ok(Some(exit)) => exit.to_string().into(),
                _ => format!("the state is {:?}, not {state:?}", self.control.state()).into(),
            }
        })
    }
}

fn until(mut condition: impl FnMut() -> Result<bool, Failed>) -> Outcome {
    let start = Instant::now();
    while !condition()? {
        if start.elapsed() > LIMIT {
            return Err("what was waited for did not happen".into());
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}

fn check(condition: bool, otherwise: impl Into<String>) -> Outcome {
    if condition {
        Ok(())
    } else {
        Err(Failed::from(otherwise.into()))
    }
}

fn doorbell() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an eventfd")
}

fn rings(doorbell: &OwnedFd) -> u64 {
    let mut count = [0; 8];
    rustix::io::read(doorbell, &mut count).map_or(0, |_| u64::from_ne_bytes(count))
}

fn boots_and_halts(isolation: Isolation) -> Outcome {
    let mut run = Run::start(vmm::IMAGE, isolation, "")?;
    run.await_state(State::Running)?;
    let answer = run.control.call(kind::PING, "are you there", LIMIT)?;
    check(
        answer.ok() && answer.contents == b"are you there",
        format!("{answer:?}"),
    )?;
    run.control.call(kind::STOP, "", LIMIT)?;
    let (exit, _) = run.end(LIMIT)?;
    check(matches!(exit, Exit::Halted), exit.to_string())
}

fn console_arrives(isolation: Isolation) -> Outcome {
    let doorbell = doorbell();
    let control = Control::new()?;
    control.set_sleeps(true);
    let mut spec = GuestSpec::new("talker", 1, &control);
    spec.isolation = isolation;
    spec.config = b"nothing";
    spec.control_doorbell = Some(doorbell.as_fd());
    let guest = Template::new(HOSTILE)?.spawn(&spec)?;
    let mut run = Run {
        control,
        guest,
        console: Vec::new(),
    };
    until(|| Ok(rings(&doorbell) > 0))?;
    run.await_state(State::Running)?;
    run.control.read_console(&mut run.console)?;
    let text = String::from_utf8_lossy(&run.console).into_owned();
    check(text == "talker: nothing\n", text)
}

/// CPU time of a process, in clock ticks.
fn cpu_ticks(pid: u32) -> Result<u64, Failed> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or("").split(' ').collect();
    Ok(fields[11].parse::<u64>()? + fields[12].parse::<u64>()?)
}

/// How often a process gave up its CPU or lost it.
fn switches(pid: u32) -> Result<u64, Failed> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let lines = status
        .lines()
        .filter(|line| line.contains("_ctxt_switches"));
    let counts = lines.map(|line| line.rsplit('\t').next().unwrap_or("").parse::<u64>());
    Ok(counts.sum::<Result<u64, _>>()?)
}

fn sleeps_and_wakes(isolation: Isolation) -> Outcome {
    let mut run = Run::start(HOSTILE, isolation, "nothing")?;
    run.await_state(State::Running)?;
    let pid = run.guest.pid();
    // It goes to sleep soon after it says that it runs.
    let mut before = switches(pid)?;
    until(|| {
        std::thread::sleep(Duration::from_millis(50));
        let now = switches(pid)?;
        Ok(std::mem::replace(&mut before, now) == now)
    })?;
    let (cpu, beats) = (cpu_ticks(pid)?, run.control.heartbeat());
    std::thread::sleep(Duration::from_millis(300));
    check(
        run.control.heartbeat() == beats,
        "a sleeping guest has a heartbeat",
    )?;
    check(switches(pid)? == before, "a sleeping guest was scheduled")?;
    check(cpu_ticks(pid)? == cpu, "a sleeping guest used its CPU")?;
    run.control.wake();
    until(|| Ok(run.control.heartbeat() > beats))?;
    // A wake that comes while it is awake is not lost and does no harm.
    for _ in 0..100 {
        run.control.wake();
    }
    let answer = run.control.call(kind::READ, "again", LIMIT)?;
    check(answer.contents == b"again", format!("{answer:?}"))
}

fn answers_long_requests(isolation: Isolation) -> Outcome {
    let mut run = Run::start_with(HOSTILE, isolation, "nothing", |spec| spec.memory = 2 << 20)?;
    let long: Vec<u8> = (0..300_000u32).map(|n| (n / 7) as u8).collect();
    let answer = run.control.call(kind::HOTSWAP, long.clone(), LIMIT)?;
    check(
        answer.ok() && answer.contents == long,
        "a long request came back changed",
    )?;
    let answer = run.control.call(kind::LIST, "", LIMIT)?;
    check(
        answer.contents.len() == 100_000,
        "a long answer came back short",
    )?;
    // More than its memory: refused, and the channel goes on.
    let answer = run.control.call(kind::HOTSWAP, vec![0; 3 << 20], LIMIT)?;
    check(
        !answer.ok() && String::from_utf8_lossy(&answer.contents).contains("memory"),
        "too much",
    )?;
    let answer = run.control.call(kind::PING, "still there", LIMIT)?;
    check(answer.contents == b"still there", format!("{answer:?}"))
}

/// A guest that sleeps without a deadline acts on what a request changed before it sleeps again.
/// Its answers are not taken: that would wake it once more.
fn request_starts(isolation: Isolation) -> Outcome {
    let config = "s :: TimedSource(20ms, LIMIT 1, STOP true, ACTIVE false) -> Discard;";
    let mut run = Run::start(vmm::IMAGE, isolation, config)?;
    run.await_state(State::Running)?;
    std::thread::sleep(Duration::from_millis(20));
    run.control.request(kind::WRITE, "s.active true")?;
    let (exit, _) = run.end(LIMIT)?;
    check(matches!(exit, Exit::Halted), exit.to_string())
}

fn many_sleeps(isolation: Isolation) -> Outcome {
    let doorbell = doorbell();
    let mut run = Run::start_with(HOSTILE, isolation, "storm 2000", |_| {})?;
    run.await_state(State::Running)?;
    drop(run);
    // The same with a doorbell behind it.
    let control = Control::new()?;
    let mut spec = GuestSpec::new("storm", 1, &control);
    spec.isolation = isolation;
    spec.config = b"storm 500";
    spec.switch_doorbell = Some(doorbell.as_fd());
    let guest = Template::new(HOSTILE)?.spawn(&spec)?;
    let mut run = Run {
        control,
        guest,
        console: Vec::new(),
    };
    run.await_state(State::Running)?;
    let count = rings(&doorbell);
    check(count == 500, format!("the doorbell rang {count} times"))
}

fn vector_registers_work(isolation: Isolation) -> Outcome {
    let mut run = Run::start(HOSTILE, isolation, "float")?;
    run.await_state(State::Running)?;
    run.control.read_console(&mut run.console)?;
    let console = String::from_utf8_lossy(&run.console).into_owned();
    for (flag, name) in [("avx2", "avx2"), ("avx512f", "avx512")] {
        let host = fs::read_to_string("/proc/cpuinfo")?.contains(&format!(" {flag} "));
        check(console.contains(name) == host, format!("{name}: {console}"))?;
    }
    Ok(())
}

fn data_region_wakes(isolation: Isolation) -> Outcome {
    let geometry = Geometry::new(64, 2)?;
    let file = memfd_create("test-data", MemfdFlags::CLOEXEC)?;
    ftruncate(&file, geometry.bytes() as u64)?;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping.
    let base = unsafe {
        mmap(
            std::ptr::null_mut(),
            geometry.bytes(),
            access,
            MapFlags::SHARED,
            &file,
            0,
        )
    }?;
    let base = std::ptr::NonNull::new(base.cast::<u8>()).expect("not 0");
    let interfaces = [("inside", 1), ("outside", 2)]
        .map(|(name, n)| Interface::new(name, [2, 0, 0, 0, 0, n], 1500).expect("a name"));
    // SAFETY: mapped for the test's whole life.
    let region = unsafe { Region::format(base, geometry, &interfaces) }?;
    let wake = region.wake_word();
    let control = Control::new()?;
    let mut spec = GuestSpec::new("data", 1, &control);
    spec.isolation = isolation;
    spec.config = b"nothing";
    spec.data = Some(vmm::DataFile {
        file: file.as_fd(),
        length: geometry.bytes(),
        wake_offset: wake.as_ptr() as usize - base.as_ptr() as usize,
    });
    let guest = Template::new(HOSTILE)?.spawn(&spec)?;
    let mut run = Run {
        control,
        guest,
        console: Vec::new(),
    };
    run.await_state(State::Running)?;
    std::thread::sleep(Duration::from_millis(20));
    let beats = run.control.heartbeat();
    wake.fetch_add(1, std::sync::atomic::Ordering::Release);
    rustix::thread::futex::wake(wake, rustix::thread::futex::Flags::empty(), 1)?;
    until(|| Ok(run.control.heartbeat() > beats))
}

fn crash(isolation: Isolation, deed: &str) -> Result<Box<vmm::Crash>, Failed> {
    match Run::start(HOSTILE, isolation, deed)?.end(STOP)?.0 {
        Exit::Crashed(crash) => Ok(crash),
        exit => Err(format!("{deed}: {exit}").into()),
    }
}

fn panic_is_reported(isolation: Isolation) -> Outcome {
    let (exit, console) = Run::start(HOSTILE, isolation, "panic 12")?.end(STOP)?;
    let Exit::Crashed(crash) = &exit else {
        return Err(exit.to_string().into());
    };
    check(crash.fault == Fault::Failed, exit.to_string())?;
    let sentence = exit.to_string();
    for part in [
        "crates/guest/src/bin/hostile.rs:",
        "on purpose, number 12",
        "in element 6",
    ] {
        check(sentence.contains(part), sentence.clone())?;
    }
    check(console.contains("on purpose, number 12"), console)
}

fn memory_exhaustion(isolation: Isolation) -> Outcome {
    let crash = crash(isolation, "memory")?;
    check(
        crash
            .reason
            .starts_with("the guest's memory is too small: memory allocation of"),
        crash.reason,
    )
}

fn memory_too_small(isolation: Isolation) -> Outcome {
    let started = Run::start_with(HOSTILE, isolation, "nothing", |spec| {
        spec.memory = 100 << 10
    });
    let sentence = started.err().map(|e| e.to_string()).unwrap_or_default();
    check(
        sentence.starts_with("memory too small: guest test has 100 KiB"),
        sentence,
    )
}

fn mistakes_are_reported(isolation: Isolation) -> Outcome {
    for (deed, fault, part) in [
        ("null", Fault::Unmapped, "a null pointer at 0x8"),
        ("write-text", Fault::Protected, "wrote to its image"),
        ("write-constant", Fault::Protected, "wrote to its image"),
        ("write-boot", Fault::Protected, "wrote to its boot area"),
        ("jump-data", Fault::NotExecutable, "jumped to its heap"),
        ("jump-stack", Fault::NotExecutable, "jumped to its stack"),
        (
            "jump-away",
            Fault::NotExecutable,
            "jumped to unmapped memory",
        ),
        ("overflow", Fault::StackOverflow, "ran out of stack"),
        ("divide", Fault::DivideByZero, "divided by zero"),
    ] {
        let crash = crash(isolation, deed)?;
        check(
            crash.fault == fault && crash.reason.contains(part),
            format!("{deed}: {:?}: {crash}", crash.fault),
        )?;
        check(crash.element == element(6), format!("{deed}: {crash}"))?;
        if !deed.starts_with("jump") {
            let symbol = crash.symbol.clone().unwrap_or_default();
            check(
                symbol.contains("hostile") || symbol.contains("main"),
                format!("{deed}: {crash}"),
            )?;
        }
    }
    Ok(())
}

fn privileged_instructions(isolation: Isolation) -> Outcome {
    for deed in ["hlt", "out", "cli", "cr3", "lgdt", "wrmsr", "int3"] {
        let crash = crash(isolation, deed)?;
        let right = matches!(crash.fault, Fault::Instruction | Fault::Other);
        check(right, format!("{deed}: {:?}: {crash}", crash.fault))?;
    }
    Ok(())
}

fn system_calls_end_it(isolation: Isolation) -> Outcome {
    for deed in ["syscall", "socket", "int80", "sysenter"] {
        match Run::start(HOSTILE, isolation, deed)?.end(STOP)?.0 {
            // The filter kills at once for calls of another kind of processor (int 0x80,
            // and SYSENTER if it finds a stack).
            Exit::Killed(libc::SIGSYS)
                if matches!(deed, "int80" | "sysenter") && isolation == Isolation::Process => {}
            Exit::Crashed(crash) => {
                let right = crash.fault == Fault::SystemCall || !deed.starts_with('s');
                check(right || deed == "sysenter", format!("{deed}: {crash}"))?;
            }
            exit => return Err(format!("{deed}: {exit}").into()),
        }
    }
    Ok(())
}

fn wild_doorbells(isolation: Isolation) -> Outcome {
    for offset in [48, 56, 1000, 4088, 4, 17] {
        let crash = crash(isolation, &format!("port {offset}"))?;
        check(crash.fault == Fault::Doorbell, format!("{offset}: {crash}"))?;
    }
    for deed in ["byte", "read", "wide"] {
        let crash = crash(isolation, deed)?;
        let right = matches!(crash.fault, Fault::Doorbell | Fault::Other);
        check(right, format!("{deed}: {crash}"))?;
    }
    Ok(())
}

fn probes(isolation: Isolation) -> Outcome {
    for page in 1..8 {
        let exit = Run::start(HOSTILE, isolation, &format!("probe {page}"))?;
        // Behind the process wall its own signal stack is there; nothing else is.
        if isolation == Isolation::Vm {
            let (exit, _) = exit.end(STOP)?;
            check(matches!(exit, Exit::Crashed(_)), format!("{page}: {exit}"))?;
        }
    }
    Ok(())
}

/// How many times longer things may take because others want the CPUs too.
fn crowd() -> u32 {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = load
        .split(' ')
        .next()
        .and_then(|l| l.parse().ok())
        .unwrap_or(0.0);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    1 + (load / processors as f64) as u32
}

fn endless_loop(isolation: Isolation) -> Outcome {
    let start = Instant::now();
    let (exit, _) = Run::start(HOSTILE, isolation, "loop")?.end(LIMIT)?;
    let elapsed = start.elapsed();
    check(matches!(exit, Exit::Stopped(_)), exit.to_string())?;
    check(exit.to_string().contains("half a second"), exit.to_string())?;
    // The watchdog counts CPU time; on a crowded machine the guest has to wait for it.
    check(
        elapsed < STOP * crowd(),
        format!("stopped after {elapsed:?}"),
    )
}

fn scribbling(isolation: Isolation) -> Outcome {
    let mut neighbour = Run::start(HOSTILE, isolation, "nothing")?;
    for seed in 0..6 {
        let mut run = Run::start(HOSTILE, isolation, &format!("scribble {seed}"))?;
        let start = Instant::now();
        // Everything that reads the region goes on reading while it is being scribbled over.
        let mut rounds = 0;
        while start.elapsed() < Duration::from_millis(50) || rounds < 100 {
            rounds += 1;
            let mut console = Vec::new();
            let _ = run.control.read_console(&mut console);
            check(
                console.len() <= abi::control::CONSOLE_BYTES,
                "more console than there is",
            )?;
            let _ = run.control.poll();
            let _ = (
                run.control.state(),
                run.control.message(),
                run.control.heartbeat(),
            );
            let _ = run.control.request(kind::PING, "x");
        }
        let (exit, _) = run.end(LIMIT)?;
        let stopped = matches!(exit, Exit::Stopped(_) | Exit::Crashed(_));
        check(stopped, format!("{seed}: {exit}"))?;
    }
    let answer = neighbour.control.call(kind::READ, "fine", LIMIT)?;
    check(answer.contents == b"fine", "the neighbour was harmed")
}

fn kill_is_noticed(isolation: Isolation) -> Outcome {
    let mut run = Run::start(HOSTILE, isolation, "nothing")?;
    run.await_state(State::Running)?;
    run.guest.kill();
    let (exit, _) = run.end(STOP)?;
    check(matches!(exit, Exit::Killed(9)), exit.to_string())?;
    check(exit.to_string().contains("SIGKILL"), exit.to_string())
}

fn jailed(isolation: Isolation) -> Outcome {
    let mut run = Run::start(HOSTILE, isolation, "nothing")?;
    run.await_state(State::Running)?;
    let process = format!("/proc/{}", run.guest.pid());
    let status = fs::read_to_string(format!("{process}/status"))?;
    for line in ["NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0000000000000000"] {
        check(status.contains(line), format!("no {line}"))?;
    }
    // KVM may have a kernel thread of its own in the process.
    let threads = if isolation == Isolation::Vm { 2 } else { 1 };
    check(
        (1..=threads).any(|n| status.contains(&format!("Threads:\t{n}"))),
        "threads",
    )?;
    check(
        status.contains("CapPrm:\t0000000000000000"),
        "capabilities are left",
    )?;
    let user = 0x7000_0000 + run.guest.pid();
    check(
        status.contains(&format!("Uid:\t{user}\t{user}\t{user}\t{user}")),
        "it has no user of its own",
    )?;
    let command = fs::read_to_string(format!("{process}/cmdline"))?;
    check(command == "weir-guest: test\0", command)?;
    let root = fs::read_link(format!("{process}/root"))?;
    check(
        root.to_string_lossy().contains("(deleted)"),
        format!("its root is {root:?}"),
    )?;
    let mut descriptors = Vec::new();
    for entry in fs::read_dir(format!("{process}/fd"))? {
        descriptors.push(fs::read_link(entry?.path())?.to_string_lossy().into_owned());
    }
    // The userfaultfd is for the process that copies the guest; the filter refuses its ioctls.
    descriptors.retain(|name| name != "anon_inode:[userfaultfd]");
    let allowed = |name: &String| name.contains("kvm") && isolation == Isolation::Vm;
    check(
        descriptors.iter().all(allowed),
        format!("descriptors: {descriptors:?}"),
    )?;
    let limits = fs::read_to_string(format!("{process}/limits"))?;
    let files = limits
        .lines()
        .find(|line| line.starts_with("Max open files"))
        .unwrap_or("");
    check(files.split_whitespace().nth(3) == Some("0"), files)?;
    if isolation == Isolation::Process {
        let maps = fs::read_to_string(format!("{process}/maps"))?;
        let foreign = maps.lines().filter(|line| {
            let address = u64::from_str_radix(line.split('-').next().unwrap_or(""), 16);
            address.is_ok_and(|a| a > 1 << 40) && !line.contains("[v")
        });
        let foreign: Vec<&str> = foreign.collect();
        check(foreign.is_empty(), format!("left over: {foreign:?}"))?;
        check(
            !maps.lines().any(|l| l.contains("rwx")),
            "writable and executable memory",
        )?;
    }
    Ok(())
}

fn ends_with_parent(isolation: Isolation) -> Outcome {
    let (read, write) = rustix::pipe::pipe()?;
    // SAFETY: one thread; the child makes a guest and then waits to be killed.
    match unsafe { nix::unistd::fork() }? {
        nix::unistd::ForkResult::Child => {
            let run = Run::start(HOSTILE, isolation, "nothing");
            let pid = run.as_ref().map_or(0, |run| run.guest.pid());
            let _ = rustix::io::write(&write, &pid.to_ne_bytes());
            loop {
                std::thread::sleep(LIMIT);
            }
        }
        nix::unistd::ForkResult::Parent { child } => {
            let mut pid = [0; 4];
            rustix::io::read(&read, &mut pid)?;
            let pid = u32::from_ne_bytes(pid);
            let process = format!("/proc/{pid}");
            check(pid != 0 && fs::exists(&process)?, "the guest did not start")?;
            // It ties itself to its parent when it is jailed.
            until(|| Ok(fs::read_to_string(format!("{process}/status"))?.contains("Seccomp:\t2")))?;
            nix::sys::signal::kill(child, nix::sys::signal::Signal::SIGKILL)?;
            nix::sys::wait::waitpid(child, None)?;
            // The new parent of an orphan may reap it late: a zombie has ended too.
            until(|| {
                let status = fs::read_to_string(format!("{process}/status")).unwrap_or_default();
                Ok(status.is_empty() || status.contains("State:\tZ"))
            })
        }
    }
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

fn mappings() -> usize {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().filter(|line| line.contains("weir-")).count()
}

fn nothing_is_left(isolation: Isolation) -> Outcome {
    let template = Template::new(HOSTILE)?;
    let before = (descriptors(), mappings());
    let mut pids = Vec::new();
    for deed in ["nothing", "null", "halt", "loop"] {
        let control = Control::new()?;
        let mut spec = GuestSpec::new("left", 1, &control);
        spec.isolation = isolation;
        spec.config = deed.as_bytes();
        let guest = template.spawn(&spec)?;
        pids.push(guest.pid());
        std::thread::sleep(Duration::from_millis(10));
        let held = descriptors() - before.0;
        check(
            held == 2,
            format!("{held} descriptors for a guest: pidfd and control file are two"),
        )?;
        check(guest.pidfd().as_raw_fd() > 0, "no pidfd")?;
    }
    check(
        (descriptors(), mappings()) == before,
        "descriptors or mappings are left",
    )?;
    let alive: Vec<&u32> = pids
        .iter()
        .filter(|p| fs::exists(format!("/proc/{p}")).unwrap())
        .collect();
    check(alive.is_empty(), format!("processes are left: {alive:?}"))
}

/// Starts a guest that outlives the process that starts it. Returns its identity.
fn orphan(isolation: Isolation) -> Result<Identity, Failed> {
    let (read, write) = rustix::pipe::pipe()?;
    // SAFETY: one thread; the child makes a guest, says which, and ends without running anything of the parent's.
    match unsafe { nix::unistd::fork() }? {
        nix::unistd::ForkResult::Child => {
            let start = || -> Result<Identity, Failed> {
                let file = memfd_create("weir-data", MemfdFlags::CLOEXEC)?;
                ftruncate(&file, 8192)?;
                let doorbell = eventfd(7, EventfdFlags::CLOEXEC)?;
                let control = Control::new()?;
                let guest = Template::new(HOSTILE)?.spawn(&GuestSpec {
                    data: Some(vmm::DataFile {
                        file: file.as_fd(),
                        length: 8192,
                        wake_offset: 0,
                    }),
                    switch_doorbell: Some(doorbell.as_fd()),
                    ..orphans_spec(isolation, &control)
                })?;
                until(|| Ok(control.state() == Some(State::Running)))?;
                // Closed: the file is not what keeps the guest's memory.
                drop((file, doorbell));
                Ok(guest.identity()?)
            };
            if let Ok(identity) = start() {
                let wall = u64::from(identity.wall == Wall::Vm);
                let doorbell = identity.switch_doorbell.map_or(0, |number| number as u64);
                let words = [identity.pid.into(), identity.started, wall, doorbell];
                let _ = rustix::io::write(&write, words.map(u64::to_ne_bytes).as_flattened());
            }
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) }
        }
        nix::unistd::ForkResult::Parent { child } => {
            drop(write);
            let mut words = [[0; 8]; 4];
            let got = rustix::io::read(&read, words.as_flattened_mut())?;
            nix::sys::wait::waitpid(child, None)?;
            check(got == 32, "the guest did not start")?;
            let [pid, started, wall, doorbell] = words.map(u64::from_ne_bytes);
            Ok(Identity {
                pid: pid as u32,
                started,
                wall: if wall == 1 { Wall::Vm } else { Wall::Process },
                switch_doorbell: Some(doorbell as i32),
            })
        }
    }
}

fn orphans_spec(isolation: Isolation, control: &Control) -> GuestSpec<'_> {
    GuestSpec {
        isolation,
        config: b"nothing",
        end_with_parent: false,
        ..GuestSpec::new("orphan", 1, control)
    }
}

fn taken_over(isolation: Isolation) -> Outcome {
    let identity = orphan(isolation)?;
    let template = Template::new(HOSTILE)?;
    let length = {
        let orphan = Orphan::find(identity)?.ok_or("the guest is gone")?;
        // Files and region in it do not matter.
        let fresh = Control::new()?;
        let spec = GuestSpec {
            data: Some(vmm::DataFile {
                file: fresh.file(),
                length: 8192,
                wake_offset: 0,
            }),
            ..orphans_spec(isolation, &fresh)
        };
        let (guest, mut control) = orphan.adopt(&template, &spec)?;
        let answer = control.call(kind::PING, "still there?", LIMIT)?;
        check(answer.contents == b"still there?", "the answer is another")?;
        let mut count = [0; 8];
        rustix::io::read(guest.switch_doorbell()?, &mut count)?;
        check(u64::from_ne_bytes(count) == 7, "the doorbell is another")?;
        check(
            guest.identity()? == identity,
            "it is known by something else now",
        )?;
        rustix::fs::fstat(guest.data_file()?)?.st_size
    };
    check(length == 8192, "the data region is another")?;
    let orphan =
        Orphan::find(identity)?.ok_or("the guest did not outlive the process that adopted it")?;
    let fresh = Control::new()?;
    let (mut guest, control) = orphan.adopt(&template, &orphans_spec(isolation, &fresh))?;
    guest.kill();
    let exit = guest.wait(&control, Some(LIMIT))?;
    check(
        matches!(exit, Some(Exit::Killed(0 | 9))),
        format!("it ended with {exit:?}"),
    )?;
    check(
        Orphan::find(identity)?.is_none(),
        "it is found though it ended",
    )
}

/// Waits until a guest's end is told, and for the end.
fn told(
    ends: &Ends,
    watch: Watch,
    (guest, control): (&mut Guest, &Control),
) -> Result<Exit, Failed> {
    until(|| Ok(ends.take()?.is_none_or(|told| told.contains(&watch))))?;
    let mut exit = None;
    until(|| {
        check(guest.is_ending(), "it was told of too early")?;
        exit = guest.try_wait(control)?;
        Ok(exit.is_some())
    })?;
    exit.ok_or_else(|| "there is no exit".into())
}

fn ends_are_told(isolation: Isolation) -> Outcome {
    let template = Template::new(HOSTILE)?;
    let ends = Ends::new()?;
    let before = descriptors();
    for (deed, how) in [
        ("nothing", "killed"),
        ("halt", "halted"),
        ("null", "crashed"),
    ] {
        let mut control = Control::new()?;
        let mut spec = GuestSpec::new("watched", 1, &control);
        spec.isolation = isolation;
        spec.config = deed.as_bytes();
        let watch = ends.watch(&control)?;
        let mut guest = template.spawn(&spec)?;
        guest.close_pidfd();
        drop(control.take_file());
        check(descriptors() == before, "a guest takes a descriptor")?;
        if deed == "nothing" {
            until(|| Ok(control.state() == Some(State::Running)))?;
            check(!guest.is_ending(), "it runs")?;
            check(ends.take()? == Some(Vec::new()), "the end of one that runs")?;
            guest.signal(rustix::process::Signal::KILL)?;
        }
        let exit = told(&ends, watch, (&mut guest, &control))?;
        let as_it_was = match exit {
            Exit::Killed(9) => how == "killed",
            Exit::Halted => how == "halted",
            Exit::Crashed(_) => how == "crashed",
            _ => false,
        };
        check(as_it_was, format!("{deed}: {exit:?}"))?;
        ends.forget(watch);
    }
    // One that another process started.
    let identity = orphan(isolation)?;
    let orphan = Orphan::find(identity)?.ok_or("the guest is gone")?;
    let fresh = Control::new()?;
    let (mut guest, control) = orphan.adopt(&template, &orphans_spec(isolation, &fresh))?;
    let watch = ends.watch(&control)?;
    guest.close_pidfd();
    check(guest.try_wait(&control)?.is_none(), "it runs")?;
    check(guest.identity()? == identity, "it is another")?;
    // A close of the file by another process is reported, and is no end.
    drop(Orphan::find(identity)?);
    until(|| Ok(ends.take()?.is_some_and(|told| told == [watch])))?;
    check(!guest.is_ending(), "it runs")?;
    guest.kill();
    let exit = told(&ends, watch, (&mut guest, &control))?;
    check(
        matches!(exit, Exit::Killed(0 | 9)),
        format!("it ended with {exit:?}"),
    )
}

fn never_a_guest(isolation: Isolation) -> Outcome {
    let template = Template::new(HOSTILE)?;
    let control = Control::new()?;
    let spec = orphans_spec(isolation, &control);
    let mut prepared = template.prepare(&spec.shape())?;
    check(
        Orphan::find(prepared.identity()?)?.is_none(),
        "it is no guest yet",
    )?;
    check(
        match prepared.start(&spec) {
            Ok(mut guest) => guest.wait(&control, Some(LIMIT))?.is_some(),
            Err(_) => true,
        },
        "its process is still there",
    )
}

fn prepared_starts(isolation: Isolation) -> Outcome {
    let template = Template::new(HOSTILE)?;
    let control = Control::new()?;
    // Its length moves everything behind the boot area.
    let config = format!("halt{}", " ".repeat(3 * 4096));
    let spec = GuestSpec {
        isolation,
        config: config.as_bytes(),
        ..GuestSpec::new("late", 1, &control)
    };
    let prepared = template.prepare(&spec.shape())?;
    let mut guest = prepared.start(&spec)?;
    let exit = guest.wait(&control, Some(LIMIT))?;
    check(
        matches!(exit, Some(Exit::Halted)),
        format!("it ended with {exit:?}"),
    )
}

fn prepared_refuses(isolation: Isolation) -> Outcome {
    let template = Template::new(HOSTILE)?;
    let control = Control::new()?;
    let spec = GuestSpec {
        isolation,
        ..GuestSpec::new("other", 1, &control)
    };
    let before = descriptors();
    let prepared = template.prepare(&spec.shape())?;
    let larger = GuestSpec {
        memory: 2 * spec.memory,
        ..spec
    };
    let sentence = prepared.start(&larger).err().map(|e| e.to_string());
    let sentence = sentence.unwrap_or_default();
    check(sentence.contains("prepare one for its"), sentence)?;
    drop(template.prepare(&spec.shape())?);
    check(descriptors() == before, "descriptors are left")
}

fn threads_are_refused() -> Outcome {
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || receiver.recv());
    let sentence = Run::start(HOSTILE, Isolation::Process, "nothing")
        .err()
        .map(|e| e.to_string());
    drop(sender);
    let _ = thread.join();
    let sentence = sentence.unwrap_or_default();
    check(sentence.contains("one thread, this one has 2"), sentence)
}

fn auto_prefers_kvm() -> Outcome {
    let template = Template::new(HOSTILE)?;
    match template.wall(Isolation::Vm) {
        Ok(wall) => check(
            template.wall(Isolation::Auto)? == wall,
            "auto took the lesser wall",
        ),
        Err(error) => {
            check(
                template.wall(Isolation::Auto)? == vmm::Wall::Process,
                "auto found no wall",
            )?;
            let sentence = error.to_string();
            check(sentence.contains("isolation \"process\""), sentence)
        }
    }
}
