//! The image that guests run.
#![no_std]
#![no_main]

use core::fmt::Write;

use abi::message::status;
use guest::{Answer, Application, Platform, Request, Round, run};

guest::entry!(main);

fn main(platform: &'static Platform) -> ! {
    let _ = writeln!(platform.console(), "{}: up", platform.name());
    run(platform, &mut Nothing)
}

/// An application that has nothing to do.
struct Nothing;

impl Application for Nothing {
    fn round(&mut self) -> Round {
        Round::Idle(None)
    }

    fn ask_for_wake(&mut self, _wake: bool) -> bool {
        false
    }

    fn request(&mut self, _request: Request) -> Answer {
        Answer::refused(status::UNKNOWN, "this guest runs no router")
    }
}
