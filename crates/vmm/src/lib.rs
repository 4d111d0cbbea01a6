//! The wall around a guest.
//!
//! A guest is one image, the same behind either wall. Under **KVM** it is a virtual machine whose virtual
//! processors run at ring 3 from their first instruction, on page tables that the guest can't see. As a
//! **process** it is a child with only its own memory mapped, which may make six system calls. Each of its CPUs
//! is a thread. One process per guest isolates guests from each other, and makes the ten-thousandth as cheap as
//! the first.
//!
//! ```text
//! Template ──spawn(GuestSpec)──> Guest      one process each, forked from this one
//!    image, parsed once             pidfd     ──wait──> Exit: how it ended
//!    /dev/kvm, filters              Control   console, state, requests, wake-up
//! ```
//!
//! [`Template`] is created once. [`Template::spawn`] forks, so the calling process must have one thread (it
//! checks), unless the template has a process of its own that forks ([`Template::with_zygote`]). The child maps the guest's memory at fixed addresses ([`layout`]), enters a jail ([`jail`]) and
//! starts the guest. It reports how the guest ended in a page that the guest can't access ([`report`]). The parent
//! needs one descriptor per guest, the child's pidfd. A parent of thousands needs none: see [`Ends`].
//!
//! Memory that a guest can write is read once and bounded. Its contents are trusted only where false contents
//! harm the guest alone.

mod adopt;
mod child;
mod control;
mod ends;
mod error;
mod guest;
mod image;
mod jail;
mod kvm;
mod launch;
mod layout;
mod paging;
mod process;
mod report;
mod snapshot;
mod spec;
mod store;
mod template;
mod text;
mod title;
mod tracking;
mod watchdog;
mod zygote;

pub use abi::control::Place;
pub use adopt::{Identity, Orphan};
pub use control::{Answer, Control};
pub use ends::{Ends, Watch};
pub use error::{Error, Result};
pub use guest::{Guest, started};
pub use report::{Crash, Exit, Fault, REGISTERS, Registers};
pub use snapshot::{Part, Snapshot, data, data_ranges};
pub use spec::{DEFAULT_MEMORY, DataFile, GuestSpec, Isolation, Shape, SocketFiles, Wall};
pub use store::StoreConnection;
pub use template::{Prepared, Template};
pub use text::printable;
pub use title::{guest_of, show_title};
pub use tracking::{Content, Piece, Tracker, Tracking, can_track};

/// The guest image that this build made.
pub static IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/weir-guest"));
