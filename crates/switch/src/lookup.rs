//! Lookup functions: where a frame of a domain goes.
//!
//! A domain has one [`Lookup`], asked once for each batch. The default is [`Learning`]. A program
//! adds functions of its own with [`register`]. (Exchangeable lookup functions are mSwitch's idea;
//! Honda et al. 2015.)

pub mod command;
pub mod flow;
pub mod flow_table;
pub mod flow_text;
#[cfg(any(test, feature = "testing"))]
pub mod frames;
pub mod hash;
pub mod learning;

use std::sync::{PoisonError, RwLock};

use crate::counters::Reason;
use crate::port::{Frame, HEAD};
use crate::properties::DomainProperties;

pub use crate::ids::PortIndex;
pub use crate::mac::{Mac, NoMac};
pub use command::{Answer, Command, FlowDefault, FlowEntry};
pub use flow::Flow;
pub use learning::{Learning, Limits};

/// Seconds on a clock of the worker's.
pub type Seconds = u32;

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// To one port.
    Port(PortIndex),
    /// To every other port of the domain.
    Flood,
    /// Nowhere.
    Drop(Reason),
}

/// A domain's lookup function and its state.
pub trait Lookup: Send {
    /// Says for each of `frames`, which came from port `from`, where it goes: `to[i]` for
    /// `frames[i]`. Both are of the same length, [`crate::port::BATCH`] at most. `now` never goes
    /// back. Runs for each batch: it must not allocate.
    fn steer(&mut self, from: PortIndex, frames: &[Frame], to: &mut [Destination], now: Seconds);

    /// A port is about to join the domain: what users call it, and whether it leads out of the
    /// host.
    fn introduce(&mut self, port: PortIndex, name: &str, uplink: bool) {
        let _ = (port, name, uplink);
    }

    /// Carries out a command to functions of this kind.
    fn command(&mut self, command: &Command<PortIndex>) -> Result<Answer, String> {
        let _ = command;
        Err("the domain's lookup function has neither flows nor handlers".into())
    }

    /// A port joins the domain. `mac` is the address that is known to be behind it, in VLAN `vlan`
    /// if that is not 0.
    fn attach(&mut self, port: PortIndex, mac: Option<Mac>, vlan: u16);

    /// A port leaves the domain: nothing goes to it from now on.
    fn detach(&mut self, port: PortIndex);

    /// Forgets the learned entries.
    fn flush(&mut self);

    /// The domain's properties have changed; those of this function's own kind.
    fn configure(&mut self, properties: &DomainProperties);

    /// The port behind which an address is, outside any VLAN, if this function sends all frames to the address there.
    fn behind(&self, mac: Mac) -> Option<PortIndex> {
        let _ = mac;
        None
    }

    /// Whether this function learns behind which ports addresses are, and sends by that alone.
    fn learns(&self) -> bool {
        false
    }

    /// Whether an address has moved from port to port since this was asked last.
    fn has_moved(&mut self) -> bool {
        false
    }

    /// Something that was learned and that this function's replicas on other lanes are yet to be
    /// told. Only asked where there are any.
    fn news(&mut self) -> Option<LearnedEntry> {
        None
    }

    /// A replica on another lane has learned something.
    fn hear(&mut self, news: LearnedEntry, now: Seconds) {
        let _ = (news, now);
    }

    /// Number of addresses known.
    fn entries(&self) -> usize;

    /// The addresses known, in no order.
    fn table(&self, now: Seconds) -> Vec<Known>;
}

/// What one lane's lookup function tells its replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LearnedEntry {
    /// An address was seen.
    Address {
        /// It, in the low 48 bits.
        key: u64,
        /// Behind which port.
        port: PortIndex,
    },
    /// A flow was seen whose other direction this is.
    Flow {
        /// That direction.
        flow: Flow,
        /// Where its packets go.
        port: PortIndex,
    },
}

/// Makes a lookup function: see [`Function::build`].
pub type Build = fn(&DomainProperties, bool) -> Result<Box<dyn Lookup>, String>;

/// A kind of lookup function, by the name that [`LookupKind`](crate::properties::LookupKind) has
/// for it.
pub struct Function {
    /// The name.
    pub name: &'static str,
    /// Makes the function of a domain with these properties. `true` if it is one of several
    /// replicas, one for each lane. The error is the reason, as a sentence.
    pub build: Build,
}

/// The functions of every switch.
static BUILT_IN: [Function; 3] = [
    Function {
        name: "learning",
        build: learning::build,
    },
    Function {
        name: "hash",
        build: hash::build,
    },
    Function {
        name: "flow-table",
        build: flow_table::build,
    },
];

/// The functions that the program added.
static REGISTERED: RwLock<Vec<&'static Function>> = RwLock::new(Vec::new());

/// Adds a function to the switches that this process starts from now on.
pub fn register(function: &'static Function) {
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    registered.push(function);
}

/// The lookup function of a domain with these properties. `replicated` if it is one of several, one
/// for each lane.
pub fn build(properties: &DomainProperties, replicated: bool) -> Result<Box<dyn Lookup>, String> {
    let name = properties.lookup.name();
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
    let mut functions = BUILT_IN.iter().chain(registered.iter().copied());
    match functions.find(|function| function.name == name) {
        Some(function) => (function.build)(properties, replicated),
        None => Err(format!("this switch has no lookup function ‘{name}’")),
    }
}

/// An address that a lookup function knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The address.
    pub mac: Mac,
    /// The VLAN it was seen in; 0 for none, or where VLANs are not told apart.
    pub vlan: u16,
    /// The port that it is behind.
    pub port: PortIndex,
    /// Since when it was not seen, unless it does not age.
    pub age: Option<Seconds>,
}

/// Most reports that wait. A dropped report is repeated when its frame is seen again.
const LEARNED_MAX: usize = 1024;

/// Whether a frame goes to a multicast or the broadcast address.
#[inline(always)]
fn is_group(head: &[u8; HEAD]) -> bool {
    head[0] & 1 != 0
}
