//! The guest: a freestanding program behind a wall.
//!
//! It runs at ring 3 from its first instruction, in memory provided by the wall, and communicates through
//! rings only. There is no kernel in the guest; this crate takes its place.
//!
//! - [`Platform`]: boot parameters, console, clock and doorbells; [`Cpu`]: one of the guest's CPUs;
//! - [`run()`]: the main loop around an [`Application`];
//! - [`RouterApplication`]: the application of ordinary guests, a router; [`Netfront`] is its network device;
//! - with the `image` feature: entry point, allocator, panic handler, memory functions. A binary names its
//!   main function with [`entry!`].
//!
//! Without that feature the crate is an ordinary `no_std` library.
//!
//! With several CPUs, the first sets up what all share, makes the router, divides it, and keeps the control channel:
//! requests and hotswaps stop the world there. The others wait until they get a part of the router ([`Cpu::give`]). A
//! ring's "sleeps" word names the CPU that waits for it, and the switch wakes that one. The two sides of an interface
//! are opened apart, so one CPU may receive and another send. The heap has one lock; the data path does not take it.
#![no_std]

extern crate alloc;

mod agent;
mod clock;
mod configurations;
mod console;
mod cpu;
mod cpus;
pub mod memory;
mod netfront;
mod platform;
mod router_application;
mod run;
mod sockets;
#[cfg(feature = "image")]
mod start;
mod store;
mod suspension;
mod system;

pub use agent::{Answer, Request};
pub use clock::Clock;
pub use console::Console;
pub use cpu::{Cpu, Wakes};
pub use netfront::Netfront;
pub use platform::Platform;
pub use router_application::RouterApplication;
pub use run::{Application, Round, run};

/// Makes `$main`, a `fn(&'static guest::Platform) -> !`, the image's main function. The first CPU runs it; the
/// others wait for [jobs](Cpu::give).
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        /// Called by the entry point with the platform set up.
        #[unsafe(no_mangle)]
        extern "Rust" fn weir_main(platform: &'static $crate::Platform) -> ! {
            let main: fn(&'static $crate::Platform) -> ! = $main;
            main(platform)
        }
    };
}
