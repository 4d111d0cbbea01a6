//! The engine: elements, the graph they stand in, push and pull, tasks, timers, notifiers and
//! handlers.
//!
//! A router is a flat array of elements and edges. An element gets a batch of packets, works on it
//! in place, and says where it goes; the router, not the element, walks the graph. [`Element`] is
//! what an element implements, [`Cx`] what it sees of the router around it, [`Router`] what a
//! program runs, and [`Embedding`] what the program gives it: time, a console, devices.
//!
//! The crate is `no_std`: the same engine runs in a guest, on the host and in tests.
#![no_std]
#![forbid(unsafe_code)]

#[macro_use]
extern crate alloc;
#[cfg(any(test, feature = "std"))]
extern crate std;

pub mod args;
mod call;
mod chatter;
mod classify;
mod effects;
mod embedding;
mod engine;
mod handler;
pub mod llrpc;
pub mod memory;
mod optimizer;
mod prelude;
mod random;
mod router;
mod runtime;
pub mod schedule;
mod scheduler;
mod settings;
mod store;
mod threads;
mod topology;
mod walk;

pub use call::Call;
pub use chatter::DEFAULT_CHANNEL;
pub use classify::{Classify, DecisionTree, TreeBranch, TreeNode};
pub use engine::element::{
    Addressed, ArgumentDoc, Capability, Class, ClassEntry, Component, Descriptors, DriverHook,
    DynElement, DynamicHandlers, Element, HandlerDoc, HandlersDeclared, Interface, Link, Llrpcs,
    Methods, Outcome, Page, Provided, Reading, Shown, Storage, StoreUser, Verdict, filter, outcome,
    parse_value, parse_words, phase, reading, shown, write_argument,
};
/// Text as handlers exchange it.
pub type Text = alloc::string::String;

pub use effects::Effects;
pub use elements_derive::{Component, Element, handlers};
pub use embedding::{
    Device, Embedding, Endpoint, NO_DEVICE, NO_SOCKETS, Side, SocketStatus, Steady,
};
pub use engine::graph::{ElementInfo, Graph};
pub use engine::library::{Library, nearest};
pub use engine::{Cx, Queues, VERSION, ports};
pub use handler::{Failure, FailureKind, HandlerError, HandlerFlags, HandlerList, HandlerSpec};
pub use llrpc::Llrpc;
pub use memory::{listing, spare};
pub use random::Random;
pub use router::{Kept, Refused, Router, Status};
pub use runtime::{DeviceId, Runtime};
pub use scheduler::Watch;
pub use scheduler::pace::DriverPace;
pub use scheduler::signal::{Notice, Signal, SignalId};
pub use scheduler::task::{NO_THREAD, Pull, Ran, TICKETS, TICKETS_MAX, TaskId};
pub use scheduler::timer::TimerId;
pub use settings::{Settings, THREADS_MAX};
pub use store::{StoreAnswer, StoreBox, StoreHandle, StoreMail, StoreRequest};
pub use threads::constraints::PerThread;
pub use threads::quiesce::{Member, Waker};
pub use topology::ElementId;
