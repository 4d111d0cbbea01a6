//! The main loop.

use abi::control::State;

use crate::agent::Agent;
use crate::{Answer, Platform, Request};

/// What an application says after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// It did something, or wants the next round at once.
    Busy,
    /// Nothing to do before this time (nanoseconds on the platform's clock), or before it is woken.
    Idle(Option<u64>),
    /// It has come to its end.
    Done,
}

/// What a guest does.
pub trait Application {
    /// One round of work, at most some milliseconds of it.
    fn round(&mut self) -> Round;

    /// Asks the other side of every ring to wake this guest (`true`), or takes that back (`false`). After
    /// asking, says whether some ring has become ready meanwhile.
    fn ask_for_wake(&mut self, wake: bool) -> bool;

    /// Answers a request from the control plane. Pings and stops don't come here.
    fn request(&mut self, request: Request) -> Answer;

    /// Last call before the guest ends because it was asked to.
    fn stop(&mut self) {}
}

/// Runs an application on the first CPU until it is done or the control plane stops it.
pub fn run(platform: &'static Platform, application: &mut impl Application) -> ! {
    let (control, cpu) = (platform.control(), platform.cpu(0));
    let mut agent = Agent::new(control);
    platform.set_state(State::Running, "");
    platform.ring_control();
    loop {
        cpu.beat();
        // Before the round, whose deadline then knows what a request started or stopped.
        if agent.poll(application) {
            platform.ring_control();
        }
        let round = match agent.stopped() {
            true => Round::Done,
            false => application.round(),
        };
        if platform.console().take_written() {
            platform.ring_control();
        }
        if round == Round::Done {
            application.stop();
            platform.halt();
        }
        let Round::Idle(deadline) = round else {
            continue;
        };
        if agent.has_work() {
            continue;
        }
        let seen = cpu.wakes();
        control.set_guest_sleeps(true);
        let ready = application.ask_for_wake(true) || agent.has_work();
        if !ready {
            cpu.sleep(seen, deadline);
        }
        control.set_guest_sleeps(false);
        application.ask_for_wake(false);
    }
}
