//! Guests whose processes a zygote forks.

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::*;

pub(super) static TESTS: &[(&str, Test)] = &[
    ("a_zygotes_guest_is_its_programs_child", child_of_program),
    ("a_zygotes_guest_ends_with_its_program", ends_with_program),
    ("a_zygote_that_was_killed_is_replaced", replaced),
    ("a_zygotes_unused_process_is_not_left", unused),
];

fn spec(isolation: Isolation, control: &Control) -> GuestSpec<'_> {
    GuestSpec {
        isolation,
        config: b"nothing",
        ..GuestSpec::new("one", 1, control)
    }
}

/// Processes whose parent this one is.
fn children() -> Result<Vec<u32>, Failed> {
    let text = fs::read_to_string("/proc/thread-self/children")?;
    Ok(text
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect())
}

fn zygote() -> Result<u32, Failed> {
    let is_zygote = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "weir-zygote\n")
    };
    Ok(children()?
        .into_iter()
        .find(is_zygote)
        .ok_or("there is no zygote")?)
}

fn child_of_program(isolation: Isolation) -> Outcome {
    let template = Template::with_zygote(HOSTILE)?;
    let control = Control::new()?;
    let mut guest = template.spawn(&spec(isolation, &control))?;
    check(children()?.contains(&guest.pid()), "another has the guest")?;
    until(|| Ok(control.state() == Some(State::Running)))?;
    guest.kill();
    // Only its parent sees by which signal a process ended.
    let exit = guest.wait(&control, Some(LIMIT))?;
    check(matches!(exit, Some(Exit::Killed(9))), format!("{exit:?}"))?;
    drop(template);
    check(children()?.is_empty(), "a process is left")
}

fn ends_with_program(isolation: Isolation) -> Outcome {
    let (read, write) = rustix::pipe::pipe()?;
    // SAFETY: one thread.
    match unsafe { nix::unistd::fork() }? {
        nix::unistd::ForkResult::Child => {
            let start = || -> Result<(), Failed> {
                let template = Template::with_zygote(HOSTILE)?;
                let control = Control::new()?;
                let guest = template.spawn(&spec(isolation, &control))?;
                until(|| Ok(control.state() == Some(State::Running)))?;
                let pids = [guest.pid(), zygote()?].map(u32::to_ne_bytes);
                rustix::io::write(&write, pids.as_flattened())?;
                std::mem::forget((guest, template));
                Ok(())
            };
            let _ = start();
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) }
        }
        nix::unistd::ForkResult::Parent { child } => {
            drop(write);
            let mut pids = [[0; 4]; 2];
            let got = rustix::io::read(&read, pids.as_flattened_mut())?;
            nix::sys::wait::waitpid(child, None)?;
            check(got == 8, "the guest did not start")?;
            until(|| {
                let mut left = pids
                    .iter()
                    .map(|pid| format!("/proc/{}", u32::from_ne_bytes(*pid)));
                Ok(!left.any(|path| fs::exists(path).unwrap_or(true)))
            })
        }
    }
}

fn replaced(isolation: Isolation) -> Outcome {
    let template = Template::with_zygote(HOSTILE)?;
    until(|| Ok(zygote().is_ok()))?;
    let first = zygote()?;
    let pid = Pid::from_raw(first as i32).ok_or("0")?;
    kill_process(pid, Signal::KILL)?;
    // Its socket is closed when the last of its threads has ended. It stays to be waited for.
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(pid), ended)?;
    let control = Control::new()?;
    let guest = template.spawn(&spec(isolation, &control))?;
    until(|| Ok(control.state() == Some(State::Running)))?;
    check(zygote()? != first, "the zygote is the old one")?;
    drop((guest, template));
    check(children()?.is_empty(), "a process is left")
}

fn unused(isolation: Isolation) -> Outcome {
    let template = Template::with_zygote(HOSTILE)?;
    let control = Control::new()?;
    let shape = spec(isolation, &control).shape();
    drop(template.prepare(&shape)?);
    let mut known = template.prepare(&shape)?;
    known.identity()?;
    drop(known);
    drop(template);
    check(children()?.is_empty(), "a process is left")
}
