//! Elements: behaviour ([`Element`]), declaration ([`Class`], derived by `elements-derive`),
//! interfaces for other elements ([`Capability`]), and the manual page.

mod capability;
mod declared;
mod filter;
mod manual;

use core::any::Any;

use crate::args::{Args, Failed};
use crate::effects::Effects;
use crate::engine::Cx;
use crate::prelude::*;
use crate::scheduler::task::{Ran, TaskId};
use crate::scheduler::timer::TimerId;
use crate::threads::constraints::PerThread;

pub use capability::{
    Addressed, Capability, Descriptors, DriverHook, Interface, Link, Llrpcs, Provided, Storage,
    StoreUser,
};
pub use declared::{
    Component, DynElement, DynamicHandlers, HandlersDeclared, Methods, Outcome, Reading, Shown,
    outcome, parse_value, parse_words, reading, shown, write_argument,
};
pub use filter::filter;
pub use manual::{ArgumentDoc, HandlerDoc, Page};

/// What becomes of one packet; see [`Element::action`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// On by output 0.
    Forward,
    /// To the given output; dropped if the element has no such output.
    To(usize),
    /// Dropped.
    Drop,
}

/// A packet processor: one box of a configuration.
///
/// An element's life: it is made, [configured](Declared::configure) from its arguments,
/// [initialized](Element::initialize) when all elements are configured, then packets are pushed
/// into it and pulled from it, its tasks and timers run, and its handlers are read and written,
/// until the router ends.
///
/// Most elements say only what happens to one packet ([`action`](Element::action)); the loop over
/// a batch around it is generated for each element and inlined. Elements never call each other:
/// what an element sends on goes to the router, which walks the graph. So no element is ever
/// entered twice, and nothing is shared.
pub trait Element: Any + Send {
    /// Checks and completes arguments that were stored in the element's fields just now. Other
    /// elements may not be configured yet. An error leaves an element that is reconfigured with the
    /// arguments it had before.
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let _ = (cx, args);
        Ok(())
    }

    /// Prepares for packets: makes tasks and timers, finds notifiers, opens devices. All elements
    /// are configured and all connections known. Errors go to [`Cx::error`].
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let _ = cx;
        Ok(())
    }

    /// The argument that headings of messages name, beside the element's name and class.
    fn declared_argument(&self) -> Option<&str> {
        None
    }

    /// Gives back what dropping the element does not: the router ends, or did not start.
    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        let _ = cx;
    }

    /// Decides on one packet, and changes it as need be.
    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let _ = (cx, packet);
        Verdict::Forward
    }

    /// Whether [`action`](Element::action) has anything to do for a packet. Where it has not for
    /// any of a batch, it is not called: for elements that most packets pass as they are.
    #[inline]
    fn affects(&self, packet: &Packet) -> bool {
        let _ = packet;
        true
    }

    /// What the element does to packets. The effects are always the same, but for the element's
    /// handlers.
    #[inline]
    fn effects(&self) -> Effects {
        Effects::default()
    }

    /// Works on a batch on its way from input 0 to output 0, pushed or pulled:
    /// [`action`](Element::action) for each packet, unless an element says otherwise.
    #[inline]
    fn batch(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        filter(self, cx, batch);
    }

    /// Takes a batch that was pushed into input `port`. What is left in `batch` afterwards goes
    /// on by the output whose number is returned; it is dropped if there is no such output.
    /// Packets for other outputs are given to [`Cx::emit`].
    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) -> usize {
        let _ = port;
        self.batch(cx, batch);
        0
    }

    /// Fills `batch`, which is empty, with at most `most` packets that leave by pull output
    /// `port`, or leaves that to the router by [`Cx::pull_through`].
    #[inline]
    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch, most: usize) {
        let _ = (port, batch);
        cx.pull_through(0, most);
    }

    /// Works on a batch, which may be empty, that was pulled by [`Cx::pull_through`] for output
    /// `port`.
    #[inline]
    fn pulled(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        let _ = port;
        self.batch(cx, batch);
    }

    /// Runs a task that the element made.
    fn run_task(&mut self, cx: &mut Cx<'_>, task: TaskId) -> Ran {
        let _ = (cx, task);
        Ran::Nothing
    }

    /// Runs a timer that the element made, and that expired.
    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        let _ = (cx, timer);
    }
}

/// What the library knows of an element class, with Click's codes.
pub trait Class: Element + Component + Default {
    /// The name that configurations use.
    const NAME: &'static str;
    /// Numbers of input and output ports: `1/1`, `1/1-2`, `-/=`.
    const PORTS: &'static str;
    /// Push (`h`), pull (`l`) or agnostic (`a`) ports: `a/ah`.
    const PROCESSING: &'static str = "a/a";
    /// Which inputs' packets may leave by which outputs: `x/x`, `xy/x`.
    const FLOW: &'static str = "x/x";
    /// When among all elements it is configured: lower first.
    const PHASE: i32 = phase::DEFAULT;
    /// Other names that it may stand for, where an argument asks for an element of a kind.
    const IS_A: &'static [&'static str] = &[];
    /// Other names of the class.
    const ALIASES: &'static [&'static str] = &[];
    /// Whether each thread has an instance of its own, which is made and not configured.
    const PER_THREAD: PerThread = PerThread::No;
    /// Whether packets may come to it that stand for several TCP segments or UDP datagrams, whose
    /// data goes on in [parts](Packet::parts_data), and whose transport checksum is
    /// [partial](Packet::needs_checksum).
    ///
    /// An element that says so looks at nothing but headers, which the data always holds; means
    /// [`Packet::total_len`] where it asks for the length of a packet, and
    /// [`Packet::segment_len`] where it compares with an MTU; and keeps a partial checksum what it
    /// is. Where an element on the way of an interface's packets does not say so, they all come
    /// whole and complete: see [`Cx::segments_go_on`].
    const SEGMENTS: bool = false;
    /// Whether arguments may change while packets flow: then the `config` handler can be written.
    const LIVE: bool = false;
    /// Whether [`Element::configured`] reads the arguments that no field takes.
    const RAW: bool = false;
    /// The warning of each use, which says what to use instead; empty if it is not deprecated.
    const DEPRECATED: &'static str = "";
    /// The capabilities that other elements may use.
    const CAPABILITIES: &'static [Capability] = &[];

    /// Takes over the state of `old`, the element of this name in the router that this one
    /// replaces.
    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut Self) {
        let _ = (cx, old);
    }

    /// Adds the class to a manual page.
    fn document(page: &mut Page) {
        let _ = page;
    }
}

/// When an element is configured and initialized; lower first.
pub mod phase {
    /// Elements that define names for others' arguments.
    pub const INFO: i32 = 0;
    /// Elements that set privileges or time.
    pub const PRIVILEGED: i32 = 90;
    /// Most elements.
    pub const DEFAULT: i32 = 100;
}

/// A class as the library lists it.
pub struct ClassEntry {
    /// See [`Class::NAME`].
    pub name: &'static str,
    /// See [`Class::PORTS`].
    pub ports: &'static str,
    /// See [`Class::PROCESSING`].
    pub processing: &'static str,
    /// See [`Class::FLOW`].
    pub flow: &'static str,
    /// See [`Class::PHASE`].
    pub phase: i32,
    /// See [`Class::IS_A`].
    pub is_a: &'static [&'static str],
    /// See [`Class::ALIASES`].
    pub aliases: &'static [&'static str],
    /// See [`Class::PER_THREAD`].
    pub per_thread: PerThread,
    /// See [`Class::SEGMENTS`].
    pub segments: bool,
    /// See [`Class::CAPABILITIES`].
    pub capabilities: &'static [Capability],
    /// Why the class cannot be used here; `None` if it can.
    pub refused: Option<&'static str>,
    make: Option<fn() -> Box<dyn DynElement>>,
}

impl ClassEntry {
    /// The class's names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        core::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// The entry of class `C`.
    pub const fn of<C: Class>() -> ClassEntry {
        ClassEntry {
            name: C::NAME,
            ports: C::PORTS,
            processing: C::PROCESSING,
            flow: C::FLOW,
            phase: C::PHASE,
            is_a: C::IS_A,
            aliases: C::ALIASES,
            per_thread: C::PER_THREAD,
            segments: C::SEGMENTS,
            capabilities: C::CAPABILITIES,
            refused: None,
            make: Some(|| Box::<C>::default()),
        }
    }

    /// A class that exists elsewhere but cannot be used here; `reason`, a sentence, says why.
    pub const fn refused(name: &'static str, reason: &'static str) -> ClassEntry {
        ClassEntry {
            name,
            ports: "-/-",
            processing: "a/a",
            flow: "x/x",
            phase: phase::DEFAULT,
            is_a: &[],
            aliases: &[],
            per_thread: PerThread::No,
            segments: false,
            capabilities: &[],
            refused: Some(reason),
            make: None,
        }
    }

    /// Whether an element of the class can be used as a `kind`: a class, or a capability.
    pub fn is_a(&self, kind: &str) -> bool {
        self.name == kind
            || self.aliases.contains(&kind)
            || self.is_a.contains(&kind)
            || self
                .capabilities
                .iter()
                .any(|capability| capability.name() == kind)
    }

    /// An element of the class; `None` if it is refused.
    pub fn make(&self) -> Option<Box<dyn DynElement>> {
        self.make.map(|make| make())
    }
}
