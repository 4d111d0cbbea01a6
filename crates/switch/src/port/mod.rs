//! Ports: sources and destinations of frames.
//!
//! A port is a [`Link`] of one [kind](kinds) (a guest's rings, a TAP device, a host interface) with
//! what all kinds have in common: a place in a domain, an MTU, counters, a pace of polling, and a
//! number of violations after which it is closed. The worker takes a batch of frames from one port
//! ([`Link::receive`]), asks the lookup function about them, gives each destination its share
//! ([`Link::send`]) and then ends the batch ([`Link::release`]).

mod backend;
mod batch;
mod carry;
pub mod flow_hash;
mod gro;
pub mod guest;
pub(crate) mod hold;
pub mod kinds;
pub mod links;
pub mod offload;
mod opening;
pub mod packet;
pub mod patch;
pub mod tap;
#[cfg(feature = "testing")]
pub mod testing;
pub mod vhost;
pub mod vxlan;
pub mod waiting;
mod whole;
pub mod xdp;

use rustix::io::Errno;

use crate::counters::Reason;

pub(crate) use backend::exactly;
pub use backend::{Attachment, HostBackend, Kind, Outcome};
pub use batch::{BATCH, Batch, Frame, HEAD, Stage};
pub(crate) use batch::{Body, FRAME_WORK, PassedFrame, Portion};
pub use kinds::{Link, LinkRecord, PortKind};

/// Violations after which a guest's port is closed.
pub const VIOLATIONS_MAX: u32 = 64;
/// Most queues of a host link. By AF_XDP each takes 8 MB of memory that stays where it is (16 MB
/// above an MTU of 1774 bytes).
pub const QUEUES_MAX: u32 = 16;
/// Most descriptors of a host link: its queues', and the shared ones.
pub const FILES_MAX: usize = 3 + QUEUES_MAX as usize;

/// Why the kernel would not take a frame; `None` if the link is gone.
fn refusal(error: Errno) -> Option<Reason> {
    match error {
        Errno::MSGSIZE => Some(Reason::TooLong),
        Errno::INVAL => Some(Reason::Offload),
        Errno::NETDOWN | Errno::IO => Some(Reason::LinkDown),
        Errno::NXIO | Errno::NODEV | Errno::BADFD | Errno::BADF => None,
        _ => Some(Reason::NoBuffer),
    }
}
