//! Guests with several CPUs.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use abi::region::RECEIVE_OFFSET;
use abi::ring::{Consumer, Producer, Slot};
use rustix::thread::futex;

use super::*;

pub const TESTS: &[(&str, Test)] = &[
    ("several_cpus_run_and_wake_each_other", several_run),
    ("several_cpus_sleep_without_cpu", several_sleep),
    ("a_crash_names_its_cpu", crash_names_its_cpu),
    ("a_loop_on_any_cpu_is_stopped", loop_is_stopped),
    ("crashes_at_once_leave_one_report", crashes_at_once),
    ("every_cpu_is_confined", every_cpu_is_confined),
    ("scribbling_cpus_harm_their_guest_alone", scribbling_cpus),
    ("every_thread_is_jailed_and_pinned", threads_are_jailed),
    ("numbers_of_cpus_are_checked", numbers_are_checked),
    ("routers_side_by_side_forward", side_by_side),
    ("a_pipeline_over_cpus_loses_nothing", pipeline),
    ("a_cpu_is_woken_by_the_ring_it_sleeps_on", woken_by_ring),
];

fn start(isolation: Isolation, cpus: usize, config: &str) -> Result<Run, vmm::Error> {
    Run::start_with(HOSTILE, isolation, config, |spec| spec.cpus = cpus)
}

fn crash(isolation: Isolation, deed: &str) -> Result<Box<vmm::Crash>, Failed> {
    match start(isolation, 2, deed)?.end(STOP * crowd())?.0 {
        Exit::Crashed(crash) => Ok(crash),
        exit => Err(format!("{deed}: {exit}").into()),
    }
}

fn several_run(isolation: Isolation) -> Outcome {
    for cpus in [2, 3, 8] {
        // The first CPU answers when it has been woken and has slept often enough.
        let mut run = start(isolation, cpus, "all/wakes 200")?;
        run.await_state(State::Running)?;
        let answer = run.control.call(kind::PING, "all well", LIMIT)?;
        check(answer.contents == b"all well", format!("{answer:?}"))?;
        run.control.call(kind::STOP, "", LIMIT)?;
        let (exit, _) = run.end(LIMIT)?;
        check(matches!(exit, Exit::Halted), exit.to_string())?;
    }
    Ok(())
}

fn several_sleep(isolation: Isolation) -> Outcome {
    let mut run = start(isolation, 4, "nothing")?;
    run.await_state(State::Running)?;
    let pid = run.guest.pid();
    let used = |time| {
        let before = cpu_ticks(pid)?;
        std::thread::sleep(Duration::from_millis(time));
        Ok::<_, Failed>(cpu_ticks(pid)? - before)
    };
    until(|| Ok(used(50)? == 0))?;
    let used = used(300)?;
    check(used == 0, format!("sleeping CPUs used {used} ticks"))
}

fn crash_names_its_cpu(isolation: Isolation) -> Outcome {
    for (deed, fault) in [
        ("null", Fault::Unmapped),
        ("write-text", Fault::Protected),
        ("jump-data", Fault::NotExecutable),
        ("jump-stack-above", Fault::NotExecutable),
        ("overflow", Fault::StackOverflow),
        ("divide", Fault::DivideByZero),
        ("panic 3", Fault::Failed),
    ] {
        for cpu in [0, 1] {
            let crash = crash(isolation, &format!("{cpu}/{deed}"))?;
            let right = crash.fault == fault && crash.cpu == Some(cpu);
            check(right, format!("{deed}: {:?}: {crash}", crash.fault))?;
            check(
                crash.element == element(6 + cpu as usize),
                format!("{deed}: {crash}"),
            )?;
            let said = crash.to_string().contains(&format!("on vCPU {cpu}"));
            check(said, crash.to_string())?;
        }
    }
    Ok(())
}

fn loop_is_stopped(isolation: Isolation) -> Outcome {
    for (deed, cpu) in [("1/loop", Some(1)), ("0/loop", Some(0)), ("all/loop", None)] {
        let start = Instant::now();
        let (exit, _) = super::cpus::start(isolation, 2, deed)?.end(LIMIT)?;
        let elapsed = start.elapsed();
        let Exit::Stopped(crash) = &exit else {
            return Err(format!("{deed}: {exit}").into());
        };
        check(cpu.is_none() || crash.cpu == cpu, format!("{deed}: {exit}"))?;
        // As many want the CPUs as the guest has, besides the crowd.
        check(
            elapsed < 2 * STOP * crowd(),
            format!("stopped after {elapsed:?}"),
        )?;
    }
    Ok(())
}

fn crashes_at_once(isolation: Isolation) -> Outcome {
    for _ in 0..20 {
        let crash = crash(isolation, "all/null")?;
        let cpu = crash.cpu.unwrap_or(9);
        let whole = crash.fault == Fault::Unmapped && crash.element == element(6 + cpu as usize);
        check(whole, format!("{crash}"))?;
    }
    Ok(())
}

/// What one CPU may not do, none may.
fn every_cpu_is_confined(isolation: Isolation) -> Outcome {
    for deed in [
        "hlt", "cli", "cr3", "lgdt", "wrmsr", "int3", "syscall", "socket",
    ] {
        let crash = crash(isolation, &format!("1/{deed}"))?;
        let right = matches!(
            crash.fault,
            Fault::Instruction | Fault::SystemCall | Fault::Other
        );
        check(right, format!("{deed}: {:?}: {crash}", crash.fault))?;
    }
    if isolation == Isolation::Vm {
        for page in 1..8 {
            crash(isolation, &format!("1/probe {page}"))?;
        }
        // The doorbell of a third CPU, which is not there.
        let crash = crash(isolation, "1/port 56")?;
        check(crash.fault == Fault::Doorbell, crash.to_string())?;
    }
    Ok(())
}

fn scribbling_cpus(isolation: Isolation) -> Outcome {
    let mut neighbour = start(isolation, 2, "nothing")?;
    for seed in 0..4 {
        let mut run = start(isolation, 2, &format!("all/scribble {seed}"))?;
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(30) {
            let _ = run.control.read_console(&mut Vec::new());
            let _ = run.control.poll();
            let _ = run.control.request(kind::PING, "x");
        }
        let (exit, _) = run.end(LIMIT)?;
        let stopped = matches!(exit, Exit::Stopped(_) | Exit::Crashed(_));
        check(stopped, format!("{seed}: {exit}"))?;
    }
    let answer = neighbour.control.call(kind::READ, "fine", LIMIT)?;
    check(answer.contents == b"fine", "the neighbour was harmed")
}

fn threads_are_jailed(isolation: Isolation) -> Outcome {
    let mut run = Run::start_with(HOSTILE, isolation, "nothing", |spec| {
        spec.cpus = 3;
        spec.pins = &[0];
    })?;
    run.await_state(State::Running)?;
    let tasks = format!("/proc/{}/task", run.guest.pid());
    let user = 0x7000_0000 + run.guest.pid();
    let user = format!("Uid:\t{user}\t{user}\t{user}\t{user}");
    let confined = |status: &String| {
        let lines = [
            "NoNewPrivs:\t1",
            "Seccomp:\t2",
            "CapEff:\t0000000000000000",
            "CapPrm:\t0000000000000000",
            &user,
            "Cpus_allowed_list:\t0\n",
        ];
        lines.iter().all(|line| status.contains(line))
    };
    // A thread puts itself in jail before its CPU's first instruction; the first CPU does not wait for it.
    until(|| {
        let mut threads = Vec::new();
        for task in fs::read_dir(&tasks)? {
            threads.push(fs::read_to_string(task?.path().join("status"))?);
        }
        // KVM may have a kernel thread of its own in the process.
        threads.retain(|status| !status.contains("Name:\tkvm"));
        Ok(threads.len() == 3 && threads.iter().all(confined))
    })
}

fn numbers_are_checked(isolation: Isolation) -> Outcome {
    for cpus in [0, 9] {
        let refused = start(isolation, cpus, "nothing").err();
        let sentence = refused.map(|e| e.to_string()).unwrap_or_default();
        check(sentence.contains("give it 1 to 8"), sentence)?;
    }
    let template = Template::new(HOSTILE)?;
    let control = Control::new()?;
    let spec = GuestSpec {
        isolation,
        cpus: 2,
        ..GuestSpec::new("other", 1, &control)
    };
    let one = GuestSpec { cpus: 1, ..spec };
    let refused = template.prepare(&one.shape())?.start(&spec).err();
    let sentence = refused.map(|e| e.to_string()).unwrap_or_default();
    check(sentence.contains("prepare one for its"), sentence)
}

/// A guest with two CPUs and two interfaces, `a` and `b`, and this test as its switch.
struct Wired {
    run: Run,
    region: Region,
    doorbell: OwnedFd,
    to: [Producer; 2],
    from: [Consumer; 2],
}

impl Wired {
    fn start(isolation: Isolation, config: &str) -> Result<Wired, Failed> {
        let geometry = Geometry::new(64, 2)?;
        let file = memfd_create("test-data", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, geometry.bytes() as u64)?;
        let (access, length) = (ProtFlags::READ | ProtFlags::WRITE, geometry.bytes());
        // SAFETY: a new mapping, which stays for the test's whole life.
        let base = unsafe {
            mmap(
                std::ptr::null_mut(),
                length,
                access,
                MapFlags::SHARED,
                &file,
                0,
            )
        }?;
        let base = NonNull::new(base.cast::<u8>()).expect("not 0");
        let interfaces = [("a", 1), ("b", 2)]
            .map(|(name, n)| Interface::new(name, [2, 0, 0, 0, 0, n], 1500).expect("a name"));
        // SAFETY: never unmapped; it has no other user yet.
        let region = unsafe { Region::format(base, geometry, &interfaces) }?;
        let doorbell = doorbell();
        let control = Control::new()?;
        let mut spec = GuestSpec::new("wired", 1, &control);
        spec.isolation = isolation;
        spec.cpus = 2;
        spec.config = config.as_bytes();
        spec.switch_doorbell = Some(doorbell.as_fd());
        spec.data = Some(vmm::DataFile {
            file: file.as_fd(),
            length,
            wake_offset: Region::WAKE_OFFSET,
        });
        let guest = Template::new(vmm::IMAGE)?.spawn(&spec)?;
        let mut run = Run {
            control,
            guest,
            console: Vec::new(),
        };
        run.await_state(State::Running)?;
        // SAFETY: this is the switch, and opens each end once.
        let (to, from) = unsafe {
            (
                [0, 1].map(|i| region.receive_producer(i)),
                [0, 1].map(|i| region.transmit_consumer(i)),
            )
        };
        Ok(Wired {
            run,
            region,
            doorbell,
            to,
            from,
        })
    }

    fn wake(&self, cpu: u32) {
        let word = &self.region.wake_words()[cpu as usize % abi::CPUS_MAX];
        word.fetch_add(1, Ordering::SeqCst);
        let _ = futex::wake(word, futex::Flags::empty(), 1);
    }

    /// Puts as many frames into an interface's receive ring as there is room for, at most `most`, numbered
    /// from `next` on; returns how many.
    fn send(&mut self, i: usize, next: u64, most: u64) -> Result<u64, Failed> {
        let free = self.to[i].free(64).map_err(|v| v.to_string())?;
        let n = free.min(most as u32);
        for k in 0..n {
            let spent = self.to[i].peek(k).buffer;
            let mut frame = [0; 60];
            frame[..8].copy_from_slice(&(next + u64::from(k)).to_ne_bytes());
            let room = self
                .region
                .receive_buffer(spent, 60)
                .map_err(|v| v.to_string())?;
            room.write(&frame);
            let slot = Slot {
                offset: RECEIVE_OFFSET as u16,
                len: 60,
                ..Slot::spent(spent)
            };
            self.to[i].fill(k, slot);
        }
        if n > 0 {
            self.to[i].publish(n);
            if let Some(cpu) = self.to[i].consumer_sleeper() {
                self.wake(cpu);
            }
        }
        Ok(n.into())
    }

    /// Takes all that an interface sends now: the frames' numbers.
    fn take(&mut self, i: usize, numbers: &mut Vec<u64>) -> Outcome {
        let filled = self.from[i].filled(64).map_err(|v| v.to_string())?;
        for k in 0..filled {
            let slot = self.from[i].peek(k);
            let mut number = [0; 8];
            let frame = self.region.frame(slot).map_err(|v| v.to_string())?;
            frame.read(&mut number);
            numbers.push(u64::from_ne_bytes(number));
        }
        if filled > 0 {
            self.from[i].release(filled);
            if let Some(cpu) = self.from[i].producer_sleeper() {
                self.wake(cpu);
            }
        }
        Ok(())
    }

    /// Sends frames both ways at once, and sees that all come out on the other side in order.
    fn cross(&mut self, frames: u64) -> Outcome {
        let (mut sent, mut came) = ([0; 2], [Vec::new(), Vec::new()]);
        let start = Instant::now();
        while came.iter().any(|numbers| (numbers.len() as u64) < frames) {
            for way in 0..2 {
                // No more under way than a transmit ring holds.
                let under_way = sent[way] - came[way].len() as u64;
                let most = (frames - sent[way]).min(60 - under_way.min(60));
                sent[way] += self.send(way, sent[way], most)?;
                self.take(1 - way, &mut came[way])?;
            }
            if start.elapsed() > LIMIT * crowd() {
                let lengths = came.map(|numbers| numbers.len());
                self.run.control.read_console(&mut self.run.console)?;
                let console = String::from_utf8_lossy(&self.run.console).into_owned();
                let fared = match self.run.guest.try_wait(&self.run.control)? {
                    Some(exit) => exit.to_string(),
                    None => String::new(),
                };
                return Err(format!("{sent:?} in, {lengths:?} out {fared}{console}").into());
            }
            std::thread::yield_now();
        }
        let ordered = |numbers: &Vec<u64>| numbers.iter().copied().eq(0..frames);
        check(came.iter().all(ordered), "frames changed their order")
    }

    fn read(&mut self, handler: &str) -> Result<String, Failed> {
        let answer = self.run.control.call(kind::READ, handler, LIMIT)?;
        let text = String::from_utf8_lossy(&answer.contents).into_owned();
        check(answer.ok(), format!("{handler}: {text}"))?;
        Ok(text)
    }
}

fn side_by_side(isolation: Isolation) -> Outcome {
    let mut wired = Wired::start(
        isolation,
        "fa :: FromNetfront(a) -> ca :: Counter -> ToNetfront(b);
         fb :: FromNetfront(b) -> cb :: Counter -> ToNetfront(a);
         StaticThreadSched(fa 0, fb 1);",
    )?;
    wired.cross(20_000)?;
    for (handler, value) in [
        ("fa.home_thread", "0"),
        ("fb.home_thread", "1"),
        ("ca.count", "20000"),
        ("cb.count", "20000"),
    ] {
        let text = wired.read(handler)?;
        check(text == value, format!("{handler}: {text}"))?;
    }
    Ok(())
}

/// What one CPU receives the other sends, either way; the buffers that one gives the other has to give back.
fn pipeline(isolation: Isolation) -> Outcome {
    let mut wired = Wired::start(
        isolation,
        "fa :: FromNetfront(a) -> Queue(200) -> tb :: ToNetfront(b);
         fb :: FromNetfront(b) -> Queue(200) -> ta :: ToNetfront(a);
         StaticThreadSched(fa 0, tb 1, fb 1, ta 0);",
    )?;
    wired.cross(20_000)?;
    let home = wired.read("tb.home_thread")?;
    check(home == "1", home)?;
    // One way only, pushed all the way: the first CPU never gets a buffer back by itself.
    let config = "fa :: FromNetfront(a) -> Queue(200) -> u :: Unqueue -> ToNetfront(b);
         fb :: FromNetfront(b) -> ToNetfront(a); StaticThreadSched(fa 0, u 1, fb 0);";
    let answer = wired.run.control.call(kind::HOTSWAP, config, LIMIT)?;
    check(answer.ok(), String::from_utf8_lossy(&answer.contents))?;
    wired.cross(20_000)?;
    let drops = wired.read("thread_drops")?;
    check(drops == "0", drops)
}

fn woken_by_ring(isolation: Isolation) -> Outcome {
    let mut wired = Wired::start(
        isolation,
        "fa :: FromNetfront(a) -> ToNetfront(b); fb :: FromNetfront(b) -> ToNetfront(a);
         StaticThreadSched(fa 0, fb 1);",
    )?;
    for round in 0..20 {
        // Both CPUs go to sleep, each on its own ring.
        until(|| {
            let asleep = [0, 1].map(|i| wired.to[i].consumer_sleeper());
            Ok(asleep == [Some(0), Some(1)])
        })?;
        std::thread::sleep(Duration::from_millis(1));
        let way = round % 2;
        // A switch that sleeps is rung.
        wired.from[1 - way].set_sleeps(true);
        let _ = rings(&wired.doorbell);
        wired.send(way, 7, 1)?;
        until(|| Ok(rings(&wired.doorbell) > 0))?;
        wired.from[1 - way].set_sleeps(false);
        let mut came = Vec::new();
        wired.take(1 - way, &mut came)?;
        check(came == [7], format!("{came:?}"))?;
    }
    Ok(())
}
