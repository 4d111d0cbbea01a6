use super::*;
use std::sync::atomic::{AtomicBool, Ordering};

const ENDLESS: Duration = Duration::from_secs(3600);

/// Writes the header of an empty message as a guest would.
fn write_message(ring: &mut Producer<'_>, request: u32, status: u32) -> bool {
    let words = [kind::PING, request, status, 0].map(u32::to_le_bytes);
    ring.write_whole(&[words.as_flattened()]).unwrap()
}

/// Runs `host` while a guest keeps the ring of answers full with such messages.
fn flooded<T>(status: u32, host: impl FnOnce(&mut Control) -> T) -> T {
    let mut control = Control::new().unwrap();
    // SAFETY: mapped until `control` is dropped, when the thread has ended.
    let region: Region<'static> = unsafe { Region::new(control.memory) };
    let mut ring = region.answers().producer();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                write_message(&mut ring, u32::MAX, status);
            }
        });
        let result = host(&mut control);
        done.store(true, Ordering::Relaxed);
        result
    })
}

#[test]
fn an_endless_answer_does_not_hold_a_poll() {
    let moved = flooded(abi::message::MORE, |control| {
        assert_eq!(control.poll().unwrap(), None);
        control.moved
    });
    assert!(moved <= MESSAGES_MAX as u64);
}

#[test]
fn answers_to_others_do_not_hold_a_call() {
    let limit = Duration::from_millis(50);
    let error = flooded(status::OK, |control| {
        control.call(kind::PING, "", limit).unwrap_err()
    });
    assert!(matches!(error, Error::NoAnswer(50)), "{error}");
}

#[test]
fn the_end_of_the_guest_ends_a_call() {
    let mut control = Control::new().unwrap();
    let error = control.call_while(kind::PING, "", ENDLESS, || false);
    let error = error.unwrap_err();
    assert_eq!(error.to_string(), "the guest ended before it answered");
}

#[test]
fn an_answer_counts_though_the_guest_has_ended() {
    let mut control = Control::new().unwrap();
    let mut ring = control.region().answers().producer();
    assert!(write_message(&mut ring, 77, status::OK));
    assert!(write_message(&mut ring, 1, status::OK));
    let answer = control.call_while(kind::PING, "", ENDLESS, || false);
    assert_eq!(answer.unwrap().request, 1);
}

#[test]
fn long_requests_are_refused_in_words() {
    let mut control = Control::new().unwrap();
    let error = control.request(kind::PING, vec![0; CONTENTS_MAX + 1]);
    let expected = format!(
        "the request is {} bytes long, and the maximum is {CONTENTS_MAX}",
        CONTENTS_MAX + 1
    );
    assert_eq!(error.unwrap_err().to_string(), expected);
    for _ in 0..2 {
        control.request(kind::PING, vec![0; CONTENTS_MAX]).unwrap();
    }
    // The first is partly out, and counts until all of it is.
    let error = control.request(kind::PING, "x").unwrap_err();
    assert!(matches!(error, Error::Backlog(_)), "{error}");
}
