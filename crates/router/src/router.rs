//! A router: a configuration that runs.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use click::{Context, Diagnostics, FlatGraph, Severity};
use packet::BATCH;

use crate::args;
use crate::context::{Cx, ElementId};
use crate::element::{ClassEntry, Descriptors, DriverHook, Element, Llrpcs};
use crate::embedding::{Embedding, Steady};
use crate::engine::{Core, Runtime, Watch};
use crate::graph::{ElementInfo, Graph};
use crate::handler::{HandlerError, HandlerFlags, HandlerSpec};
use crate::library::Library;
use crate::llrpc::Llrpc;
use crate::ports::{self, Resolved};
use crate::random::Random;
use crate::team::{Bell, Member, Team};

/// What [`Router::run`] ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// There is more to do now.
    Busy,
    /// Nothing to do until the given moment, or until something happens outside.
    Idle(Option<Steady>),
    /// The router was asked to stop.
    Stopped,
}

/// How a router is to run.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Most packets of a batch, from 1 to [`BATCH`]. With 1, the order of events is Click's.
    pub batch: usize,
    /// Threads that the router is to be [divided](Router::divide) among, from 1 to
    /// [`THREADS_MAX`].
    pub threads: u16,
}

/// Most threads of a router.
pub const THREADS_MAX: u16 = 64;
/// Turns of tasks after which the clock is read again for those whom a recent time will do.
const RECENT: usize = 16;

impl Default for Settings {
    fn default() -> Self {
        Settings {
            batch: BATCH,
            threads: 1,
        }
    }
}

/// A configuration that runs.
pub struct Router {
    core: Core,
}

/// A router that could not be made gives its runtime back; why is in the diagnostics.
pub struct Refused(pub Box<Runtime>);

/// A router that could not be put in another's place; the other goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept;

impl Router {
    /// Makes the router that `flat` describes of elements from `library`, and initializes it.
    /// `source` is the text it came from, which the `config` handler shows.
    pub fn new(
        flat: FlatGraph,
        source: &str,
        library: &Library,
        runtime: Runtime,
        settings: Settings,
        diagnostics: &mut Diagnostics,
    ) -> Result<Router, Refused> {
        let mut router = Router::prepare(flat, source, library, runtime, settings, diagnostics)?;
        if router.start(|_| true, diagnostics) {
            return Ok(router);
        }
        Err(Refused(Box::new(router.end())))
    }

    /// Makes a router that is not to run, to see whether it can be made. All elements are
    /// configured, and those of classes for which `initialize` says true are initialized.
    pub fn check(
        flat: FlatGraph,
        library: &Library,
        runtime: Runtime,
        initialize: impl Fn(&ClassEntry) -> bool,
        diagnostics: &mut Diagnostics,
    ) -> Result<Router, Refused> {
        let settings = Settings::default();
        let mut router = Router::prepare(flat, "", library, runtime, settings, diagnostics)?;
        if router.start(initialize, diagnostics) {
            return Ok(router);
        }
        Err(Refused(Box::new(router.end())))
    }

    /// Puts this router in the place of `old`: elements of the same name and class take over
    /// their predecessors' state. If it cannot be made, `old` goes on.
    pub fn replace(
        old: &mut Router,
        flat: FlatGraph,
        source: &str,
        library: &Library,
        settings: Settings,
        diagnostics: &mut Diagnostics,
    ) -> Result<(), Kept> {
        let gathered = old.core.gather();
        let runtime = core::mem::replace(&mut old.core.runtime, Runtime::nothing());
        let kept = match Router::new(flat, source, library, runtime, settings, diagnostics) {
            Err(Refused(runtime)) => {
                old.core.runtime = *runtime;
                Err(Kept)
            }
            Ok(router) => {
                old.give_way(router);
                Ok(())
            }
        };
        if gathered {
            old.core.scatter();
        }
        kept
    }

    /// Lets `new` take this router's place, on its threads.
    fn give_way(&mut self, mut new: Router) {
        let share = self.core.share.as_mut();
        let others = share.map(|share| {
            let parts = core::mem::take(&mut share.parts).into_iter();
            let runtimes = parts.map(|mut part| part.take_runtime());
            (Arc::clone(&share.team), share.me, runtimes.collect())
        });
        if others.is_some() {
            self.core.unite();
        }
        new.take_state(self);
        core::mem::swap(self, &mut new);
        new.finish();
        if let Some((team, me, others)) = others {
            self.core.divide(team, me, others);
        }
    }

    /// Puts `new`, a router that was made in a runtime of its own, in the place of `old`. Elements
    /// of the same name and class take over their predecessors' state; `new` keeps its devices and
    /// gets everything else of `old`'s runtime.
    pub fn succeed(old: &mut Router, mut new: Router) {
        let gathered = old.core.gather();
        let (a, b) = (&mut new.core.runtime, &mut old.core.runtime);
        core::mem::swap(&mut a.embedding, &mut b.embedding);
        core::mem::swap(&mut a.pool, &mut b.pool);
        old.give_way(new);
        if gathered {
            old.core.scatter();
        }
    }

    /// Shares the router out: it keeps the first thread's part itself, and returns a part for each
    /// of `others`, to be run by a thread of its own. `bell` wakes the thread of the first. Any
    /// part can be asked for handlers of the whole router. When [`run`](Router::run) says that the
    /// router has stopped, the other threads drop their parts, and the first
    /// [unites](Router::unite) it.
    pub fn divide(&mut self, bell: Box<dyn Bell>, others: Vec<Member>) -> Vec<Router> {
        let (bells, runtimes): (Vec<_>, Vec<_>) = others
            .into_iter()
            .map(|member| (member.bell, member.runtime))
            .unzip();
        let team = Arc::new(Team::new([bell].into_iter().chain(bells)));
        self.core.divide(team, 0, runtimes);
        let share = self.core.share.as_mut();
        let mut parts = share.map_or(Vec::new(), |share| {
            share.whole = false;
            core::mem::take(&mut share.parts)
        });
        for part in &mut parts {
            self.core.give_to(part);
        }
        self.core.refresh_signals();
        parts
            .into_iter()
            .map(|part| Router { core: *part })
            .collect()
    }

    /// Stops the router, all its parts if it is divided, without asking anybody.
    pub fn stop(&mut self) {
        self.core.run_count = 0;
        if let Some(share) = &self.core.share {
            share.team.end();
        }
    }

    /// Makes a divided router one again: stops it, and waits until the other threads have left.
    pub fn unite(&mut self) {
        if let Some(share) = &self.core.share {
            share.team.end();
            self.core.gather();
            self.core.unite();
        }
    }

    fn prepare(
        mut flat: FlatGraph,
        source: &str,
        library: &Library,
        runtime: Runtime,
        settings: Settings,
        diagnostics: &mut Diagnostics,
    ) -> Result<Router, Refused> {
        let Some(classes) = library.classes(&flat, diagnostics) else {
            return Err(Refused(Box::new(runtime)));
        };
        let Some(resolved) = ports::resolve(&mut flat, &classes, diagnostics) else {
            diagnostics.error_here("Router could not be initialized!");
            return Err(Refused(Box::new(runtime)));
        };
        let elements = classes.iter().map(|class| class.make()).collect();
        let graph = Arc::new(graph(flat, &classes, resolved, source.into()));
        let mut core = Core::new(elements, graph, library.clone(), runtime, settings);
        core.random = Random::new(core.runtime.embedding.seed());
        Ok(Router { core })
    }

    /// Configures every element and initializes those of the classes chosen; returns whether all
    /// went well.
    fn start(
        &mut self,
        initialize: impl Fn(&ClassEntry) -> bool,
        diagnostics: &mut Diagnostics,
    ) -> bool {
        let core = &mut self.core;
        let mut order: Vec<usize> = (0..core.graph.elements.len()).collect();
        order.sort_by_key(|i| core.graph.elements[*i].class.phase);
        let mut ok = true;
        for &i in &order {
            let id = ElementId(i as u32);
            let graph = core.graph.clone();
            let (messages, _) = core.configure(id, &graph.info(id).config);
            let mut report = self::report(diagnostics, "While configuring", &graph, id);
            for message in messages {
                let severity = severity(message.severity);
                ok &= severity != Severity::Error;
                // A blank place is a place, and stands for itself.
                let place = match message.placed {
                    true => click::Location::unknown(),
                    false => click::Location::new(" ", 0),
                };
                report.report(severity, &place, message.text);
            }
        }
        for &i in order.iter().take_while(|_| ok) {
            let id = ElementId(i as u32);
            let graph = core.graph.clone();
            if !initialize(graph.info(id).class) {
                continue;
            }
            let base = core.stack_height();
            let done = core.with(id, |element, cx| element.initialize(cx));
            core.run_stack(base);
            let mut report = self::report(diagnostics, "While initializing", &graph, id);
            let mut errors = 0;
            for (severity, text) in core.reports.drain(..) {
                errors += (severity == Severity::Error) as usize;
                report.report(severity, &click::Location::unknown(), text);
            }
            if done != Some(Ok(())) && errors == 0 {
                report.error_here("unspecified error");
                errors = 1;
            }
            if errors > 0 {
                ok = false;
                break;
            }
        }
        if !ok {
            diagnostics.error_here("Router could not be initialized!");
        }
        ok
    }

    fn take_state(&mut self, old: &mut Router) {
        let graph = self.core.graph.clone();
        for (i, info) in graph.elements.iter().enumerate() {
            let Some(other) = old.core.graph.find(&info.name) else {
                continue;
            };
            if old.core.graph.info(other).class.name != info.class.name {
                continue;
            }
            if let Some(Some(other)) = old.core.elements.get_mut(other.index()) {
                self.core.with(ElementId(i as u32), |element, cx| {
                    element.take_state(cx, other.as_mut())
                });
            }
        }
        // Pulling and polling start over: whoever was asleep looks once more.
        self.core.run_stack(0);
    }

    fn finish(&mut self) {
        for i in (0..self.core.elements.len()).rev() {
            self.core
                .with(ElementId(i as u32), |element, cx| element.cleanup(cx));
        }
        self.core.run_stack(0);
    }

    /// Ends the router and gives its runtime back.
    pub fn end(mut self) -> Runtime {
        self.finish();
        core::mem::replace(&mut self.core.runtime, Runtime::nothing())
    }

    /// Runs at most `tasks` tasks, then the timers that expired: in Click's order.
    pub fn run(&mut self, tasks: usize) -> Status {
        let mut came = false;
        if self.core.share.is_some() {
            match self.core.meet() {
                None => return Status::Stopped,
                Some(some) => came = some,
            }
        }
        if self.core.run_count <= 0 && !self.managed() {
            return Status::Stopped;
        }
        self.core.check_devices();
        for turn in 0..tasks {
            if turn.is_multiple_of(RECENT) {
                self.core.recent = None;
            }
            match self.core.run_task() {
                Some(true) => {}
                Some(false) if self.core.tasks.len() > 1 => {}
                _ => break,
            }
            if self.core.run_count <= 0 {
                break;
            }
        }
        if self.core.run_count > 0 {
            self.run_timers();
        }
        if self.core.run_count <= 0 && !self.managed() {
            return Status::Stopped;
        }
        if self.core.share.is_some() {
            self.core.tell_others();
        }
        if self.core.tasks.is_idle() && !came {
            Status::Idle(self.core.timers.next())
        } else {
            Status::Busy
        }
    }

    fn run_timers(&mut self) {
        if self.core.timers.next().is_none() {
            return;
        }
        let now = self.core.runtime.embedding.steady();
        // A timer that is due again at once waits for the next round.
        for _ in 0..64 {
            match self.core.timers.expired(now) {
                Some(timer) => self.core.run_timer(timer),
                None => break,
            }
        }
    }

    /// Asks the element that manages the driver; returns whether the router goes on.
    fn managed(&mut self) -> bool {
        let goes_on = self.core.whole(|core| {
            if let Some(manager) = core.driver_manager {
                let base = core.stack_height();
                if let Some(link) = core.link::<dyn DriverHook>(manager) {
                    core.reach(link, |element, cx| element.driver_stopped(cx));
                }
                core.run_stack(base);
            }
            core.run_count > 0
        });
        if let (false, Some(share)) = (goes_on, &self.core.share) {
            share.team.end();
        }
        goes_on
    }

    /// Asks every device that a task waits for to wake the router; returns whether all are quiet,
    /// so that the router may sleep.
    pub fn arm(&mut self) -> bool {
        self.core.check_devices();
        let thread = self.core.share.as_ref().map_or(0, |share| share.me);
        let mut quiet = true;
        for i in 0..self.core.armed.len() {
            let (device, receive, _) = self.core.armed[i];
            let device = &mut self.core.runtime.devices[device].device;
            quiet &= if receive {
                device.arm_receive(thread)
            } else {
                device.arm_transmit(thread)
            };
        }
        if !quiet {
            self.core.check_devices();
        }
        quiet && self.core.tasks.is_idle() && (self.core.share.is_none() || self.core.doze())
    }

    /// File descriptors that elements wait for.
    pub fn watches(&self) -> &[Watch] {
        &self.core.watches
    }

    /// Tells an element that a descriptor it watches is ready.
    pub fn selected(&mut self, element: ElementId, fd: i32, readable: bool, writable: bool) {
        let base = self.core.stack_height();
        if let Some(link) = self.core.link::<dyn Descriptors>(element) {
            self.core.reach(link, |element, cx| {
                element.selected(cx, fd, readable, writable);
            });
        }
        self.core.run_stack(base);
    }

    /// Makes an LLRPC of an element.
    pub fn llrpc(
        &mut self,
        element: ElementId,
        call: Llrpc,
        data: &mut [u8],
    ) -> Result<(), HandlerError> {
        let link = self
            .core
            .link::<dyn Llrpcs>(element)
            .ok_or(HandlerError::Unknown)?;
        let made = self
            .core
            .reach(link, |element, cx| element.llrpc(cx, call, data));
        made.unwrap_or(Err(HandlerError::Unknown))
    }

    /// The element called `name`.
    pub fn find(&self, name: &str) -> Option<ElementId> {
        self.core.graph.find(name)
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.core.graph
    }

    /// The handlers of an element, or with `None` of the router.
    pub fn handlers(&mut self, element: Option<ElementId>) -> Vec<HandlerSpec> {
        self.core.whole(|core| core.handlers(element))
    }

    /// What a handler can do; `None` if there is none of the name.
    pub fn handler(&mut self, element: Option<ElementId>, name: &str) -> Option<HandlerFlags> {
        self.core.whole(|core| core.handler(element, name))
    }

    /// Reads a handler of an element, or with `None` of the router.
    pub fn read(
        &mut self,
        element: Option<ElementId>,
        name: &str,
        parameter: &str,
    ) -> Result<String, HandlerError> {
        self.core.read_handler(element, name, parameter)
    }

    /// Writes a handler of an element, or with `None` of the router.
    pub fn write(
        &mut self,
        element: Option<ElementId>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        self.core.write_handler(element, name, value)
    }

    /// Works with one element from outside.
    pub fn with<R>(
        &mut self,
        id: ElementId,
        work: impl FnOnce(&mut dyn Element, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        self.core.whole(|core| {
            let base = core.stack_height();
            let result = core.with(id, work);
            core.run_stack(base);
            result
        })
    }

    /// The runtime.
    pub fn runtime(&mut self) -> &mut Runtime {
        &mut self.core.runtime
    }

    /// The router runs while this is above 0.
    pub fn run_count(&self) -> i32 {
        self.core.run_count
    }

    /// Sets the run count: 0 stops the router.
    pub fn set_run_count(&mut self, count: i32) {
        self.core.run_count = count;
    }
}

impl Drop for Router {
    /// A part of a divided router leaves its elements to the others.
    fn drop(&mut self) {
        self.core.leave();
    }
}

impl Runtime {
    /// A runtime for a router that has given its own away.
    pub(crate) fn nothing() -> Runtime {
        struct Nowhere;
        impl Embedding for Nowhere {
            fn steady(&self) -> Steady {
                Steady(0)
            }
            fn wall(&self) -> i64 {
                0
            }
            fn chatter(&mut self, _line: &str) {}
            fn seed(&mut self) -> u64 {
                0
            }
            fn driver(&self) -> &'static str {
                ""
            }
        }
        Runtime::new(Box::new(Nowhere), packet::Pool::heap(0))
    }
}

fn graph(
    flat: FlatGraph,
    classes: &[&'static ClassEntry],
    resolved: Resolved,
    source: String,
) -> Graph {
    let ports = resolved.inputs.into_iter().zip(resolved.outputs);
    let elements = flat
        .elements
        .iter()
        .zip(classes)
        .zip(ports)
        .map(|((element, class), (inputs, outputs))| ElementInfo {
            name: element.name.clone(),
            class,
            config: element.config.clone(),
            location: element.location.clone(),
            inputs,
            outputs,
        })
        .collect();
    Graph::new(elements, flat, source)
}

fn severity(severity: args::Severity) -> Severity {
    match severity {
        args::Severity::Error => Severity::Error,
        args::Severity::Warning => Severity::Warning,
        args::Severity::Info => Severity::Message,
    }
}

fn report<'d>(
    diagnostics: &'d mut Diagnostics,
    what: &str,
    graph: &Graph,
    id: ElementId,
) -> click::Within<'d> {
    let info = graph.info(id);
    // Only the heading names the place, as Click has it.
    let place = match info.location.is_known() {
        true => alloc::format!("{}: ", info.location),
        false => String::new(),
    };
    let heading = alloc::format!("{place}{what} ‘{} :: {}’:", info.name, info.class.name);
    diagnostics.within(Context::heading(heading))
}
