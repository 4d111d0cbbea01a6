//! Guests that are suspended, and their copies.

use vmm::{Content, Part, Snapshot, Tracker, Tracking};

use super::*;

pub(super) static TESTS: &[(&str, Test)] = &[
    ("a_suspended_guest_stands_still_and_goes_on", goes_on),
    ("copies_go_on_where_the_original_stood", copies),
    ("copies_of_several_cpus_go_on", several_cpus),
    ("a_copy_can_be_copied", copy_of_a_copy),
    ("a_copy_behind_another_wall_goes_on", other_wall),
    ("a_stored_snapshot_is_made_again", stored),
    ("what_is_no_copy_is_refused", refused),
    ("what_is_written_while_a_guest_is_copied_is_found", tracked),
];

/// Counts, stores packets, and has a timer that counts.
const CONFIG: &str = "InfiniteSource(LIMIT 5) -> c :: Counter -> q :: Queue(10) -> Idle;
    TimedSource(0.01) -> t :: Counter -> Discard; s :: Script(TYPE PASSIVE, set x 1, return $x);";

fn read(control: &mut Control, handler: &str) -> Result<String, Failed> {
    let answer = control.call(kind::READ, handler, LIMIT)?;
    let text = String::from_utf8_lossy(&answer.contents).into_owned();
    check(answer.ok(), text.clone())?;
    Ok(text)
}

fn number(control: &mut Control, handler: &str) -> Result<u64, Failed> {
    Ok(read(control, handler)?.trim().parse()?)
}

fn start(isolation: Isolation, config: &str, cpus: usize) -> Result<(Template, Run), Failed> {
    let template = Template::new(vmm::IMAGE)?;
    let run = Run::start_with(vmm::IMAGE, isolation, config, |spec| spec.cpus = cpus)?;
    Ok((template, run))
}

/// Suspends a guest when it has done its work.
fn suspend(run: &mut Run) -> Result<Snapshot, Failed> {
    run.await_state(State::Running)?;
    until(|| Ok(number(&mut run.control, "c.count")? >= 5))?;
    run.control.call(kind::SUSPEND, "", LIMIT)?;
    run.await_state(State::Suspended)?;
    Ok(run.guest.snapshot(&run.control)?)
}

fn copy(
    template: &Template,
    snapshot: &Snapshot,
    isolation: Isolation,
    cpus: usize,
) -> Result<Run, Failed> {
    let control = snapshot.control()?;
    let spec = GuestSpec {
        isolation,
        cpus,
        snapshot: Some(snapshot),
        ..GuestSpec::new("copy", 8, &control)
    };
    let guest = template.spawn(&spec)?;
    let mut run = Run {
        control,
        guest,
        console: Vec::new(),
    };
    run.await_state(State::Running)?;
    Ok(run)
}

fn end(mut run: Run) -> Outcome {
    run.control.call(kind::STOP, "", LIMIT)?;
    let (exit, console) = run.end(LIMIT)?;
    check(matches!(exit, Exit::Halted), format!("{exit}: {console}"))
}

fn goes_on(isolation: Isolation) -> Outcome {
    let (_, mut run) = start(isolation, CONFIG, 1)?;
    let snapshot = suspend(&mut run)?;
    let beats = run.control.heartbeat();
    std::thread::sleep(Duration::from_millis(700));
    check(run.control.heartbeat() == beats, "it did not stand still")?;
    drop(snapshot);
    check(run.control.call(kind::RESUME, "", LIMIT)?.ok(), "no answer")?;
    run.await_state(State::Running)?;
    let count = number(&mut run.control, "t.count")?;
    until(|| Ok(number(&mut run.control, "t.count")? > count))?;
    check(
        number(&mut run.control, "q.length")? == 5,
        "packets are lost",
    )?;
    end(run)
}

fn copies(isolation: Isolation) -> Outcome {
    let (template, mut run) = start(isolation, CONFIG, 1)?;
    let snapshot = suspend(&mut run)?;
    run.control.call(kind::RESUME, "", LIMIT)?;
    let mut copies = Vec::new();
    for _ in 0..3 {
        copies.push(copy(&template, &snapshot, isolation, 1)?);
    }
    for copy in &mut copies {
        check(
            number(&mut copy.control, "c.count")? == 5,
            "a count is lost",
        )?;
        check(
            number(&mut copy.control, "q.length")? == 5,
            "packets are lost",
        )?;
        let count = number(&mut copy.control, "t.count")?;
        until(|| Ok(number(&mut copy.control, "t.count")? > count))?;
    }
    // Each has memory of its own.
    copies[0].control.call(kind::WRITE, "q.reset ", LIMIT)?;
    check(
        number(&mut copies[0].control, "q.length")? == 0,
        "not written",
    )?;
    check(number(&mut copies[1].control, "q.length")? == 5, "shared")?;
    check(number(&mut run.control, "q.length")? == 5, "shared")?;
    copies.into_iter().try_for_each(end)?;
    end(run)
}

fn several_cpus(isolation: Isolation) -> Outcome {
    let config = "InfiniteSource(LIMIT 5) -> c :: Counter -> Discard;
        a :: TimedSource(0.005) -> x :: Counter -> Discard;
        b :: TimedSource(0.005) -> y :: Counter -> Discard;
        i :: InfiniteSource -> z :: Counter -> Discard;
        StaticThreadSched(a 1, b 2, i 2);";
    let (template, mut run) = start(isolation, config, 3)?;
    run.await_state(State::Running)?;
    for handler in ["x.count", "y.count", "z.count"] {
        until(|| Ok(number(&mut run.control, handler)? > 0))?;
    }
    let snapshot = suspend(&mut run)?;
    let beats = run.control.heartbeat();
    std::thread::sleep(Duration::from_millis(700));
    check(run.control.heartbeat() == beats, "it did not stand still")?;
    let mut copy = copy(&template, &snapshot, isolation, 3)?;
    run.control.call(kind::RESUME, "", LIMIT)?;
    for control in [&mut copy.control, &mut run.control] {
        for handler in ["x.count", "y.count", "z.count"] {
            let count = number(control, handler)?;
            check(count > 0, "a count is lost")?;
            until(|| Ok(number(control, handler)? > count))?;
        }
    }
    end(copy)?;
    end(run)
}

fn copy_of_a_copy(isolation: Isolation) -> Outcome {
    let (template, mut run) = start(isolation, CONFIG, 1)?;
    let snapshot = suspend(&mut run)?;
    run.guest.kill();
    let mut first = copy(&template, &snapshot, isolation, 1)?;
    drop(snapshot);
    let snapshot = suspend(&mut first)?;
    first.guest.kill();
    let mut second = copy(&template, &snapshot, isolation, 1)?;
    check(
        number(&mut second.control, "q.length")? == 5,
        "packets are lost",
    )?;
    check(
        read(&mut second.control, "s.run")?.trim() == "1",
        "no script",
    )?;
    end(second)
}

fn other_wall(isolation: Isolation) -> Outcome {
    let other = match isolation {
        Isolation::Vm => Isolation::Process,
        _ => Isolation::Vm,
    };
    let (template, mut run) = start(isolation, CONFIG, 1)?;
    let snapshot = suspend(&mut run)?;
    run.guest.kill();
    let mut copy = copy(&template, &snapshot, other, 1)?;
    check(
        number(&mut copy.control, "q.length")? == 5,
        "packets are lost",
    )?;
    let count = number(&mut copy.control, "t.count")?;
    until(|| Ok(number(&mut copy.control, "t.count")? > count))?;
    end(copy)
}

fn stored(isolation: Isolation) -> Outcome {
    let (template, mut run) = start(isolation, CONFIG, 1)?;
    let snapshot = suspend(&mut run)?;
    run.guest.kill();
    let again = Snapshot::new(&template, &snapshot.description())?;
    let mut bytes = 0;
    for part in [Part::Memory, Part::Control] {
        let to = again.file(part);
        vmm::data(snapshot.file(part), |offset, data| {
            bytes += data.len();
            let written = rustix::io::pwrite(to, data, offset)?;
            assert_eq!(written, data.len());
            Ok(())
        })?;
    }
    check(bytes < 1 << 20, format!("{bytes} bytes were stored"))?;
    let mut copy = copy(&template, &again, isolation, 1)?;
    check(
        number(&mut copy.control, "c.count")? == 5,
        "a count is lost",
    )?;
    end(copy)
}

fn refused(isolation: Isolation) -> Outcome {
    let (template, mut run) = start(isolation, CONFIG, 1)?;
    run.await_state(State::Running)?;
    let error = run.guest.snapshot(&run.control).err();
    let sentence = error.map(|error| error.to_string()).unwrap_or_default();
    check(sentence.starts_with("the guest is not suspended"), sentence)?;
    let snapshot = suspend(&mut run)?;
    let control = snapshot.control()?;
    for (cpus, memory) in [(2, vmm::DEFAULT_MEMORY), (1, vmm::DEFAULT_MEMORY * 2)] {
        let spec = GuestSpec {
            isolation,
            cpus,
            memory,
            snapshot: Some(&snapshot),
            ..GuestSpec::new("copy", 8, &control)
        };
        let error = template.spawn(&spec).err();
        let sentence = error.map(|error| error.to_string()).unwrap_or_default();
        check(sentence.contains("another memory size"), sentence)?;
    }
    let mut description = snapshot.description();
    for at in 0..description.len() {
        description[at] ^= 0x55;
        // Any description is refused here or at the start.
        if let Ok(snapshot) = Snapshot::new(&template, &description) {
            let control = snapshot.control()?;
            let spec = GuestSpec {
                isolation,
                snapshot: Some(&snapshot),
                ..GuestSpec::new("copy", 8, &control)
            };
            check(template.spawn(&spec).is_err(), format!("byte {at}"))?;
        }
        description[at] ^= 0x55;
    }
    Ok(())
}

/// Writes what a look finds to a snapshot; how many bytes that are.
fn look(tracker: &mut Tracker, to: &Snapshot) -> Result<u64, Failed> {
    let mut found = 0;
    for piece in tracker.look()? {
        found += piece.bytes();
        tracker.read(&piece, |offset, content| match content {
            Content::Bytes(bytes) => {
                let written = rustix::io::pwrite(to.file(Part::Memory), bytes, offset);
                assert_eq!(written, Ok(bytes.len()));
                Ok(())
            }
            Content::Zeros(length) => to.forget(offset, length),
        })?;
    }
    Ok(found)
}

/// A copy that is made while the guest writes to its memory has all that the guest wrote, its looks find less and
/// less, and one can be made again.
fn tracked(isolation: Isolation) -> Outcome {
    let (template, mut run) = start(isolation, CONFIG, 1)?;
    run.await_state(State::Running)?;
    until(|| Ok(number(&mut run.control, "c.count")? >= 5))?;
    for _ in 0..2 {
        let mut tracker = run.guest.track(Tracking::Repeated)?;
        let snapshot = Snapshot::new(&template, &run.guest.description())?;
        let all = look(&mut tracker, &snapshot)?;
        let count = number(&mut run.control, "t.count")?;
        until(|| Ok(number(&mut run.control, "t.count")? > count + 2))?;
        run.control.call(kind::WRITE, "q.reset ", LIMIT)?;
        let some = look(&mut tracker, &snapshot)?;
        check(some > 0 && some < all, format!("{some} of {all} bytes"))?;
        run.control.call(kind::SUSPEND, "", LIMIT)?;
        run.await_state(State::Suspended)?;
        look(&mut tracker, &snapshot)?;
        // It says that it stands still before it sleeps; what it writes in between is of no use to a copy.
        until(|| Ok(look(&mut tracker, &snapshot)? == 0))?;
        let to = snapshot.file(Part::Control);
        rustix::io::pwrite(to, &run.control.contents(), 0)?;
        let mut copy = copy(&template, &snapshot, isolation, 1)?;
        drop(tracker);
        run.control.call(kind::RESUME, "", LIMIT)?;
        for control in [&mut copy.control, &mut run.control] {
            check(number(control, "c.count")? == 5, "a count is lost")?;
            check(number(control, "q.length")? == 0, "a page is old")?;
            let count = number(control, "t.count")?;
            check(count > 2, "a page is old")?;
            until(|| Ok(number(control, "t.count")? > count))?;
        }
        end(copy)?;
    }
    end(run)
}
