//! The wall around a guest.
//!
//! A guest is one image, the same behind either wall. Under **KVM** it is a virtual machine whose virtual
//! processors run at ring 3 from their first instruction, on page tables that it can't see. As a **process** it
//! is a child that has nothing mapped but its own memory and may make six system calls. Each of its CPUs is a
//! thread. One process per guest
//! keeps one's harm away from the others', and creating the ten-thousandth as cheap as the first.
//!
//! ```text
//! Template ──spawn(GuestSpec)──> Guest      one process each, forked from this one
//!    image, parsed once             pidfd     ──wait──> Exit: what became of it
//!    /dev/kvm, filters              Control   console, state, requests, wake-up
//! ```
//!
//! [`Template`] is made once. [`Template::spawn`] forks, so the calling process has one thread at that time
//! (it checks). The child lays the guest's memory out at fixed addresses ([`layout`]), puts itself in a jail
//! ([`jail`]) and starts the guest. It tells its parent how it ended through a page that the guest can't reach
//! ([`report`]); the parent needs one descriptor per guest, the child's pidfd.
//!
//! Whatever a guest can write to is read once, bounded, and believed only where being wrong harms the guest
//! alone.

mod adopt;
mod child;
mod control;
mod error;
mod guest;
mod image;
mod jail;
mod kvm;
mod layout;
mod order;
mod paging;
mod process;
mod report;
mod spec;
mod template;
mod text;
mod watchdog;

pub use adopt::{Found, Trace, started};
pub use control::{Answer, Control};
pub use error::{Error, Result};
pub use guest::Guest;
pub use report::{Crash, Exit, Fault, REGISTERS, Registers};
pub use spec::{DEFAULT_MEMORY, DataFile, GuestSpec, Isolation, Shape, Wall};
pub use template::{Prepared, Template};
pub use text::printable;

/// The guest image that this build made.
pub static IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/weir-guest"));
