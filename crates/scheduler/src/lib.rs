//! Where a guest runs. As in oVirt, a policy is a named set of filters (which hosts may run it), weights (how well
//! each suits it), one balancer (which guest should move), and properties.
//!
//! The scheduler is logic without input, output or a clock; only [`plugins`] starts processes. It decides on an
//! [`Inventory`]: hosts, guests, and what is booked. A decision names the revision of the host that it was made on.
//! [`Scheduler::commit`] books it, and refuses if the host changed so that the guest no longer fits: so any number of
//! schedulers may decide at once.
//!
//! ```
//! use std::sync::Arc;
//! use scheduler::{Inventory, Occasion, Policy, Scheduler, facts};
//!
//! let mut inventory = Inventory::default();
//! for name in ["one", "two"] {
//!     let memory = facts::Memory(1 << 30);
//!     let processors = facts::Processors(2000);
//!     inventory.set_host(name, facts::Host { memory, processors, ..Default::default() })?;
//! }
//! let scheduler = Scheduler::new("default", Policy::default(), &[])?;
//! let guest = Arc::new(facts::Guest { memory: facts::Memory(4 << 20), ..Default::default() });
//! let decision = scheduler.decide(&inventory, "fw", &guest, Occasion::Start, true)?;
//! scheduler.commit(&mut inventory, &decision.placement)?;
//! # Ok::<(), scheduler::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod balancers;
mod error;
mod explain;
pub mod facts;
pub mod filters;
pub mod inventory;
pub mod plugins;
mod policy;
pub mod properties;
mod scene;
mod scheduler;
mod shared;
pub mod simulation;
pub mod unit;
pub mod weights;

pub use error::{Error, Failure, Result};
pub use explain::{Exclusion, Explanation, Score, WeightRow};
pub use inventory::{Inventory, Millis};
pub use policy::{BUILT_IN, BuiltIn, Concurrency, FACTOR_MAX, Policy, SkipWeights};
pub use scene::Scene;
pub use scheduler::{Decision, Placement, Power, Scheduler};
pub use shared::Shared;
pub use unit::{Occasion, Request};

#[cfg(test)]
mod tests;
