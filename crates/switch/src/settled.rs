//! Settled flows: what a guest has decided of a flow's packets is done where they are, in the kernel.
//!
//! A guest says that a flow is settled ([`abi::settle`]). The lane that reads it checks that the guest could have done as
//! much with the packets: that they come to its interface and to no other, that it may send what they become, and that the
//! switch would pass it on unchanged to another interface of the host. Then the flow gets a rule in a map, which two
//! eBPF programs on the interface by which the packets come obey ([`programs.c`](self)): they leave by the other interface
//! without being copied, and TCP's segments whole.
//!
//! What could make a rule wrong takes it back at once. A rule names cells of a map of epochs: those of both domains and of
//! both ports of the guest. It holds as long as they are as they were before the lane looked. So a store of one word
//! takes back all rules of a port or a domain. A rule holds for [`LEASE`], too: one packet in a second goes on to the
//! guest, whose word renews it. In front of that packet the guest is told how many it did not see, so that its elements
//! count them.

#![allow(unsafe_code)]

mod debts;
mod layout;
mod lease;
mod list;
mod open;
mod told;
mod unsettled;

pub(crate) use layout::{Hop, Key};
pub use lease::SettledFlows;
pub(crate) use lease::{Path, Sweeper};
pub(crate) use list::PortSlot;
pub use list::SettledFlow;
pub use open::{Programs, SettleError};
pub(crate) use unsettled::Asked;
pub use unsettled::Unsettled;

use std::time::Duration;

/// How long a rule holds.
const LEASE: Duration = Duration::from_secs(3);
