//! The main loop.

use abi::control::State;

use crate::agent::Agent;
use crate::{Answer, Platform, Request, suspension};

/// The result of a round of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// It did some work, or needs the next round at once.
    Busy,
    /// It has no work before this time (nanoseconds on the platform's clock), or before it is woken.
    Idle(Option<u64>),
    /// It has ended.
    Done,
}

/// A guest's program.
pub trait Application {
    /// One round of work, of at most some milliseconds.
    fn round(&mut self) -> Round;

    /// Asks the other side of every ring to wake this guest (`true`), or withdraws that (`false`). True if a
    /// ring has become ready meanwhile.
    fn ask_for_wake(&mut self, wake: bool) -> bool;

    /// Answers a request from the control plane. Pings and stops don't come here.
    fn request(&mut self, request: Request) -> Answer;

    /// Last call before a requested end of the guest.
    fn stop(&mut self) {}

    /// Calls `stand` while nothing of it runs on other CPUs. The guest stands still during that call; if that
    /// returns true, this is a copy of it, with other random numbers and perhaps other interfaces.
    fn suspend(&mut self, stand: &mut dyn FnMut() -> bool) {
        stand();
    }
}

/// Runs an application on the first CPU until it is done or the control plane stops it.
pub fn run(platform: &'static Platform, application: &mut impl Application) -> ! {
    let (control, cpu) = (platform.control(), platform.cpu(0));
    let mut agent = Agent::new(control);
    platform.set_state(State::Running, "");
    platform.ring_control();
    loop {
        cpu.beat();
        // Before the round, so that its deadline accounts for what a request started or stopped.
        if agent.poll(application) {
            platform.ring_control();
        }
        if agent.take_suspension() {
            application.suspend(&mut || suspension::suspend(platform, &agent));
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
