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

extern crate alloc;
#[cfg(any(test, feature = "std"))]
extern crate std;

pub mod args;
mod builtin;
mod call;
mod chatter;
mod context;
mod crossing;
mod divide;
mod element;
mod embedding;
mod engine;
mod graph;
mod handler;
mod homes;
mod library;
pub mod llrpc;
mod notifier;
mod parting;
pub mod ports;
mod random;
mod router;
pub mod schedule;
mod segments;
mod shortcut;
mod sorting;
mod task;
mod team;
mod timer;

pub use builtin::VERSION;
pub use call::Call;
pub use chatter::DEFAULT_CHANNEL;
pub use context::{Cx, DeviceId, ElementId};
pub use element::{
    ArgumentDoc, Capability, Class, ClassEntry, Component, Declared, Descriptors, DriverHook,
    DynamicHandlers, Element, HandlerDoc, HandlersDeclared, Interface, Link, Llrpcs, Methods,
    Outcome, Page, Provided, Reading, Shown, Storage, Verdict, filter, outcome, parse_value, phase,
    reading, shown, write_argument,
};
/// Text as handlers exchange it.
pub type Text = alloc::string::String;

pub use elements_derive::{Component, Element, handlers};
pub use embedding::{Device, Embedding, Side, Steady};
pub use engine::{Runtime, Watch};
pub use graph::{ElementInfo, Graph};
pub use handler::{HandlerError, HandlerFlags, HandlerList, HandlerSpec};
pub use library::Library;
pub use llrpc::Llrpc;
pub use notifier::{Notice, Search, Signal, SignalId};
pub use random::Random;
pub use router::{Kept, Refused, Router, Settings, Status, THREADS_MAX};
pub use sorting::{Branch, Onward, Sorter, Sorting};
pub use task::{NO_THREAD, Ran, TICKETS, TICKETS_MAX, TaskId};
pub use team::{Bell, Member};
pub use timer::TimerId;
