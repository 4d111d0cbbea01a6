//! Guests with several CPUs.

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
    std::thread::sleep(Duration::from_millis(50));
    let before = cpu_ticks(run.guest.pid())?;
    std::thread::sleep(Duration::from_millis(300));
    let used = cpu_ticks(run.guest.pid())? - before;
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
            check(crash.element == Some(6 + cpu), format!("{deed}: {crash}"))?;
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
        let whole = crash.fault == Fault::Unmapped && crash.element == Some(6 + cpu);
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
        let crash = crash(isolation, "1/port 48")?;
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
    let confined = |status: &String| {
        let lines = [
            "NoNewPrivs:\t1",
            "Seccomp:\t2",
            "CapEff:\t0000000000000000",
            "CapPrm:\t0000000000000000",
            "Uid:\t65534\t65534\t65534\t65534",
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
