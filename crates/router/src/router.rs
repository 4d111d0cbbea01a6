//! A router: a configuration that runs.

use crate::args;
use crate::embedding::Steady;
use crate::engine::divide::Rings;
use crate::engine::element::{ClassEntry, Descriptors, DynElement, Llrpcs, StoreUser};
use crate::engine::graph::{ElementInfo, Graph, PushPorts};
use crate::engine::keeping::Staying;
use crate::engine::library::Library;
use crate::engine::ports::{self, Resolved};
use crate::engine::{Cx, Engine, Report};
use crate::handler::{HandlerError, HandlerFlags, HandlerSpec};
use crate::llrpc::Llrpc;
use crate::prelude::*;
use crate::random::Random;
use crate::runtime::Runtime;
use crate::scheduler::Watch;
use crate::scheduler::pace::{self, DriverPace};
use crate::settings::Settings;
use crate::store::StoreAnswer;
use crate::threads::quiesce::{Member, ThreadGroup, Waker};
use click::{Context, Diagnostics, FlatGraph, Severity};

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

/// A configuration that runs.
pub struct Router {
    /// In a place of its own: a guest's stack is short, and what is moved takes room there each time.
    engine: Box<Engine>,
}

/// A router that could not be made gives its runtime back; the diagnostics say why.
pub struct Refused(pub Box<Runtime>);

/// A router that could not replace another; the other goes on.
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
        let (router, _) =
            Router::prepare(flat, source, library, runtime, settings, diagnostics, anew)?;
        router.started(|_| true, |_| true, diagnostics)
    }

    /// Makes a router that will not run, to check a configuration. All elements are configured, and
    /// the elements of classes for which `initialize` returns true are initialized.
    pub fn check(
        flat: FlatGraph,
        library: &Library,
        runtime: Runtime,
        initialize: impl Fn(&ClassEntry) -> bool,
        diagnostics: &mut Diagnostics,
    ) -> Result<Router, Refused> {
        let settings = Settings::default();
        let (router, _) = Router::prepare(flat, "", library, runtime, settings, diagnostics, anew)?;
        router.started(|_| true, initialize, diagnostics)
    }

    /// Replaces `old` by the router that `flat` describes: elements of the same name and class take
    /// over their predecessors' state. If it cannot be made, `old` goes on.
    pub fn replace(
        old: &mut Router,
        flat: FlatGraph,
        source: &str,
        library: &Library,
        settings: Settings,
        diagnostics: &mut Diagnostics,
    ) -> Result<(), Kept> {
        Router::replace_by(old, flat, source, library, settings, diagnostics, anew)
    }

    /// As [`replace`](Self::replace). Of several configurations, the unchanged ones go on without a
    /// break.
    pub fn update(
        old: &mut Router,
        flat: FlatGraph,
        source: &str,
        library: &Library,
        settings: Settings,
        diagnostics: &mut Diagnostics,
    ) -> Result<(), Kept> {
        let former = Arc::clone(&old.engine.graph);
        let place = |graph: Graph| graph.placed_over(&former);
        Router::replace_by(old, flat, source, library, settings, diagnostics, place)
    }

    /// Replaces `old`; `place` gives the new graph a place for each element, and says which configurations stay.
    fn replace_by(
        old: &mut Router,
        flat: FlatGraph,
        source: &str,
        library: &Library,
        settings: Settings,
        diagnostics: &mut Diagnostics,
        place: impl FnOnce(Graph) -> (Graph, Vec<(usize, usize)>),
    ) -> Result<(), Kept> {
        let stopped = old.engine.quiesce();
        let runtime = old.engine.runtime.take();
        let made = Router::prepare(flat, source, library, runtime, settings, diagnostics, place);
        let made = made.and_then(|(mut router, staying)| {
            router.engine.reserve(&old.engine, &staying);
            let router = router.started(|id| !staying.has(id), |_| true, diagnostics)?;
            Ok((router, staying))
        });
        let kept = match made {
            Err(Refused(runtime)) => {
                old.engine.runtime = *runtime;
                Err(Kept)
            }
            Ok((router, staying)) => {
                // What was opened in the runtime is closed there.
                old.give_way(router, &staying, |new, former| {
                    core::mem::swap(&mut new.engine.runtime, &mut former.engine.runtime);
                    former.finish();
                    core::mem::swap(&mut new.engine.runtime, &mut former.engine.runtime);
                });
                Ok(())
            }
        };
        if stopped {
            old.engine.resume();
        }
        kept
    }

    /// Lets `new` replace this router, on its threads; `finish` ends what is replaced.
    fn give_way(
        &mut self,
        mut new: Router,
        staying: &Staying,
        finish: impl FnOnce(&mut Router, &mut Router),
    ) {
        let own = self.engine.threads.partition.as_mut();
        let others = own.map(|own| {
            let others = core::mem::take(&mut own.others).into_iter();
            let runtimes = others.map(|mut other| other.take_runtime());
            (Arc::clone(&own.group), own.me, runtimes.collect())
        });
        let rings = new.engine.take_rings_of(&mut self.engine, staying);
        if others.is_some() {
            self.engine.unite();
        }
        new.take_state(self);
        new.engine.take_staying(&mut self.engine, staying);
        new.engine.halt_as(&self.engine);
        core::mem::swap(self, &mut new);
        finish(self, &mut new);
        if let Some((group, me, others)) = others {
            self.engine.divide(group, me, others, rings);
        }
    }

    /// Replaces `old` by `new`, a router that was made in a runtime of its own. Elements of the same
    /// name and class take over their predecessors' state; `new` keeps its devices and gets
    /// everything else of `old`'s runtime.
    pub fn succeed(old: &mut Router, mut new: Router) {
        let stopped = old.engine.quiesce();
        let (a, b) = (&mut new.engine.runtime, &mut old.engine.runtime);
        core::mem::swap(&mut a.embedding, &mut b.embedding);
        core::mem::swap(&mut a.pool, &mut b.pool);
        old.give_way(new, &Staying::default(), |_, former| former.finish());
        if stopped {
            old.engine.resume();
        }
    }

    /// Does something while no other thread works with a part of the router.
    pub fn hold<R>(&mut self, work: impl FnOnce(&mut Router) -> R) -> R {
        let stopped = self.engine.quiesce();
        let result = work(self);
        if stopped {
            self.engine.resume();
        }
        result
    }

    /// Takes a new seed from the embedding, unless the configuration chose one. The other threads' parts are
    /// [held](Self::hold).
    pub fn reseed(&mut self) {
        self.engine.reseed();
        let own = self.engine.threads.partition.as_mut();
        let others = own.into_iter().flat_map(|own| &mut own.others);
        others.for_each(|other| other.reseed());
    }

    /// Tells the elements that addresses of interfaces have changed; they keep their state. Returns
    /// false if some element cannot follow. The other threads' parts are [held](Self::hold).
    pub fn readdress(&mut self) -> bool {
        self.engine.readdress()
    }

    /// Divides the router among threads: it keeps the first thread's part itself, and returns a part
    /// for each of `others`, to be run by a thread of its own. `waker` wakes the first thread. Any
    /// part can be asked for handlers of the whole router. When [`run`](Router::run) says that the
    /// router has stopped, the other threads drop their parts, and the first
    /// [unites](Router::unite) it.
    pub fn divide(&mut self, waker: Box<dyn Waker>, others: Vec<Member>) -> Vec<Router> {
        let (wakers, runtimes): (Vec<_>, Vec<_>) = others
            .into_iter()
            .map(|member| (member.waker, member.runtime))
            .unzip();
        let group = Arc::new(ThreadGroup::new([waker].into_iter().chain(wakers)));
        self.engine.divide(group, 0, runtimes, Rings::new());
        let own = self.engine.threads.partition.as_mut();
        let mut others = own.map_or(Vec::new(), |own| {
            own.whole = false;
            core::mem::take(&mut own.others)
        });
        for other in &mut others {
            self.engine.give_to(other);
        }
        self.engine.refresh_ring_signals();
        let others = others.into_iter();
        others.map(|engine| Router { engine }).collect()
    }

    /// What a user should know of a division that does not pay: sentences.
    pub fn advice(&self) -> Vec<String> {
        self.engine.advice()
    }

    /// Stops the router, all its parts if it is divided, without asking the element that manages
    /// it.
    pub fn stop(&mut self) {
        self.engine.driver.change_all(|_| 0);
        self.engine.threads.end();
    }

    /// Makes a divided router one again: stops it, and waits until the other threads have left.
    pub fn unite(&mut self) {
        if self.engine.threads.partition.is_some() {
            self.engine.threads.end();
            self.engine.await_others();
            self.engine.quiesce();
            self.engine.unite();
        }
    }

    fn prepare(
        mut flat: FlatGraph,
        source: &str,
        library: &Library,
        runtime: Runtime,
        settings: Settings,
        diagnostics: &mut Diagnostics,
        place: impl FnOnce(Graph) -> (Graph, Vec<(usize, usize)>),
    ) -> Result<(Router, Staying), Refused> {
        let Some(classes) = library.classes(&flat, diagnostics) else {
            return Err(Refused(Box::new(runtime)));
        };
        let Some(resolved) = ports::resolve(&mut flat, &classes, diagnostics) else {
            diagnostics.error_here("Router could not be initialized!");
            return Err(Refused(Box::new(runtime)));
        };
        let (graph, staying) = place(graph(flat, &classes, &resolved, source.into()));
        let staying = Staying::new(&graph, staying);
        let is_new = |at| !staying.has(ElementId::new(at));
        let elements = graph.elements.iter().enumerate();
        let elements = elements.map(|(at, info)| is_new(at).then(|| info.class.make()).flatten());
        let elements = elements.collect();
        let graph = Arc::new(graph);
        let mut engine = Engine::new(elements, graph, library.clone(), runtime, settings);
        engine.random = Random::new(engine.runtime.embedding.seed());
        Ok((Router { engine }, staying))
    }

    /// Starts the router, or gives its runtime back.
    fn started(
        mut self,
        is_new: impl Fn(ElementId) -> bool,
        initialize: impl Fn(&ClassEntry) -> bool,
        diagnostics: &mut Diagnostics,
    ) -> Result<Router, Refused> {
        if self.start(is_new, initialize, diagnostics) {
            return Ok(self);
        }
        Err(Refused(Box::new(self.end())))
    }

    /// Configures the new elements, and initializes the elements of the chosen classes. Returns
    /// whether all succeeded.
    fn start(
        &mut self,
        is_new: impl Fn(ElementId) -> bool,
        initialize: impl Fn(&ClassEntry) -> bool,
        diagnostics: &mut Diagnostics,
    ) -> bool {
        let engine = &mut self.engine;
        let new = engine.graph.present().filter(|(id, _)| is_new(*id));
        let mut order: Vec<ElementId> = new.map(|(id, _)| id).collect();
        order.sort_by_key(|id| engine.graph.info(*id).class.phase);
        let mut ok = true;
        for &id in &order {
            let graph = engine.graph.clone();
            let (messages, _) = engine.configure(id, &graph.info(id).config);
            if messages.is_empty() {
                continue;
            }
            let heading = engine.heading("While configuring", id);
            let mut report = diagnostics.within(Context::placed_heading(heading));
            for message in messages {
                let severity = severity(message.severity);
                ok &= severity != Severity::Error;
                let mut report = report.within(Context::prefix(message.part));
                report.report(severity, &message.location, message.text);
            }
        }
        for &id in order.iter().take_while(|_| ok) {
            let graph = engine.graph.clone();
            if !initialize(graph.info(id).class) {
                continue;
            }
            let done = engine.with_delivery(id, |element, cx| element.initialize(cx));
            if done == Some(Ok(())) && engine.reports.is_empty() {
                continue;
            }
            let heading = engine.heading("While initializing", id);
            let mut report = diagnostics.within(Context::placed_heading(heading));
            let mut errors = 0;
            for Report {
                severity,
                location,
                text,
            } in engine.reports.drain(..)
            {
                errors += (severity == Severity::Error) as usize;
                report.report(severity, &location, text);
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
        engine.scheduler.settle();
        if !ok {
            diagnostics.error_here("Router could not be initialized!");
        }
        ok
    }

    /// Elements take over state in the order in which they were configured.
    fn take_state(&mut self, old: &mut Router) {
        let graph = self.engine.graph.clone();
        let mut elements: Vec<_> = graph.present().collect();
        elements.sort_by_key(|(_, info)| info.class.phase);
        for (id, info) in elements {
            let old = &mut old.engine;
            let same = old.graph.find(&info.name);
            let same = same.filter(|id| old.graph.info(*id).class.name == info.class.name);
            if let Some(other) = same.and_then(|id| old.elements.get_mut(id)) {
                self.engine
                    .with(id, |element, cx| element.take_state(cx, other.as_mut()));
                let reports = core::mem::take(&mut self.engine.reports);
                if !reports.is_empty() {
                    let mut text = self.engine.heading("While hot-swapping state into", id);
                    for report in reports {
                        text += &alloc::format!("\n{report}");
                    }
                    self.engine.with(id, |_, cx| cx.report(&text));
                }
            }
        }
        // Pulling and polling start over: an element that slept looks once more.
        self.engine.run_stack(0);
    }

    fn finish(&mut self) {
        for id in self.engine.elements.ids().rev() {
            self.engine.with(id, |element, cx| element.cleanup(cx));
        }
        self.engine.run_stack(0);
    }

    /// Ends the router and gives its runtime back.
    pub fn end(mut self) -> Runtime {
        self.finish();
        self.engine.runtime.take()
    }

    /// As [`end`](Self::end) in a process that ends: memory that nothing else depends on is left to the system.
    pub fn end_with_process(mut self) {
        self.finish();
        self.engine.elements.clear();
        drop(self.engine.runtime.take());
        core::mem::forget(self);
    }

    /// Runs at most `tasks` tasks, then the timers that expired.
    pub fn run(&mut self, tasks: usize) -> Status {
        self.round(tasks, |_| true)
    }

    /// A round of Click's driver: some tasks, and the timers that expired if it is their turn.
    pub fn run_at(&mut self, pace: &mut DriverPace) -> Status {
        pace.begin();
        self.round(pace::TASKS, |engine| pace.timers(|| engine.lateness()))
    }

    /// Runs at most `tasks` tasks, then the timers that expired if `timers` says so.
    fn round(&mut self, tasks: usize, timers: impl FnOnce(&mut Engine) -> bool) -> Status {
        let mut received = false;
        let is_divided = self.engine.threads.partition.is_some();
        if is_divided {
            match self.engine.begin_round() {
                None => return Status::Stopped,
                Some(some) => received = some,
            }
        }
        if self.engine.driver.run_count <= 0 && !self.goes_on() {
            return Status::Stopped;
        }
        self.engine.run(tasks, timers);
        if self.engine.driver.run_count <= 0 && !self.goes_on() {
            return Status::Stopped;
        }
        if is_divided {
            self.engine.end_round();
        }
        let scheduler = &mut self.engine.scheduler;
        if self.engine.threads.is_blocked() {
            Status::Idle(None)
        } else if scheduler.tasks.is_idle() && !received {
            Status::Idle(scheduler.timers.next())
        } else {
            Status::Busy
        }
    }

    /// Asks the router to stop, at any run count: the element that manages the driver does the rest
    /// of its work, and cannot make the router go on.
    pub fn interrupt(&mut self) {
        self.engine.driver.change_all(|_| i32::MIN);
    }

    /// Asks the elements that manage the driver whether the router goes on.
    fn goes_on(&mut self) -> bool {
        let goes_on = self.engine.whole(Engine::goes_on);
        if !goes_on {
            self.engine.threads.end();
        }
        goes_on
    }

    /// Asks every device that a task waits for to wake the router; returns whether all are quiet,
    /// so that the router may sleep.
    pub fn arm(&mut self) -> bool {
        let Engine {
            scheduler,
            runtime,
            threads,
            ..
        } = self.engine.as_mut();
        scheduler.arm(&mut runtime.devices, threads.me()) && self.engine.prepare_sleep()
    }

    /// File descriptors that elements wait for.
    pub fn watches(&self) -> &[Watch] {
        self.engine.scheduler.watches()
    }

    /// Tells an element that a descriptor it watches is ready.
    pub fn selected(&mut self, element: ElementId, fd: i32, readable: bool, writable: bool) {
        let base = self.engine.walk.height();
        if let Some(link) = self.engine.link::<dyn Descriptors>(element) {
            self.engine.reach(link, |element, cx| {
                element.selected(cx, fd, readable, writable);
            });
        }
        self.engine.run_stack(base);
    }

    /// Passes an element the answer to its request to the control store.
    pub fn tell_store(&mut self, element: ElementId, handle: u64, answer: &StoreAnswer) {
        let base = self.engine.walk.height();
        self.engine.whole(|engine| {
            if let Some(link) = engine.link::<dyn StoreUser>(element) {
                engine.reach(link, |element, cx| element.answered(cx, handle, answer));
            }
        });
        self.engine.run_stack(base);
    }

    /// Makes an LLRPC of an element.
    pub fn llrpc(
        &mut self,
        element: ElementId,
        call: Llrpc,
        data: &mut [u8],
    ) -> Result<(), HandlerError> {
        let link = self.engine.link::<dyn Llrpcs>(element);
        let link = link.ok_or(HandlerError::Unknown)?;
        let made = self
            .engine
            .reach(link, |element, cx| element.llrpc(cx, call, data));
        made.unwrap_or(Err(HandlerError::Unknown))
    }

    /// The element called `name`.
    pub fn find(&self, name: &str) -> Option<ElementId> {
        self.engine.graph.find(name)
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.engine.graph
    }

    /// The handlers of an element, or with `None` of the router.
    pub fn handlers(&mut self, element: Option<ElementId>) -> Vec<HandlerSpec> {
        self.engine.whole(|engine| engine.handlers(element))
    }

    /// What a handler can do; `None` if there is none of the name.
    pub fn handler(&mut self, element: Option<ElementId>, name: &str) -> Option<HandlerFlags> {
        self.engine.whole(|engine| engine.handler(element, name))
    }

    /// Reads a handler of an element, or with `None` of the router.
    pub fn read(
        &mut self,
        element: Option<ElementId>,
        name: &str,
        parameter: &str,
    ) -> Result<String, HandlerError> {
        self.engine.read_handler(element, name, parameter)
    }

    /// Writes a handler of an element, or with `None` of the router.
    pub fn write(
        &mut self,
        element: Option<ElementId>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        self.engine.write_handler(element, name, value)
    }

    /// Works with one element from outside.
    pub fn with<R>(
        &mut self,
        id: ElementId,
        work: impl FnOnce(&mut dyn DynElement, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        self.engine.whole(|engine| engine.with_delivery(id, work))
    }

    /// The runtime.
    pub fn runtime(&mut self) -> &mut Runtime {
        &mut self.engine.runtime
    }

    /// The router runs while this is above 0.
    pub fn run_count(&self) -> i32 {
        self.engine.driver.run_count
    }

    /// Sets the run count: 0 stops the router.
    pub fn set_run_count(&mut self, count: i32) {
        self.engine.driver.change_all(|_| count);
    }

    /// The configurations that have stopped while others go on: a bit for each, in the order of
    /// [`FlatGraph::parts`].
    pub fn halted(&self) -> u64 {
        self.engine.driver.halted()
    }
}

impl Drop for Router {
    /// A part of a divided router leaves its elements to the others.
    fn drop(&mut self) {
        self.engine.leave();
    }
}

/// Places a graph as it is: nothing stays of another.
fn anew(graph: Graph) -> (Graph, Vec<(usize, usize)>) {
    (graph, Vec::new())
}

fn graph(
    flat: FlatGraph,
    classes: &[&'static ClassEntry],
    resolved: &Resolved,
    source: String,
) -> Graph {
    let elements = flat.elements.into_iter().zip(classes).enumerate();
    let elements = elements.map(|(i, (element, class))| ElementInfo {
        name: element.name,
        class,
        declared: element.class,
        config: element.config,
        location: element.location,
        inputs: PushPorts::from_slice(resolved.inputs.of(i)),
        outputs: PushPorts::from_slice(resolved.outputs.of(i)),
    });
    let elements = elements.collect();
    let requirements = flat.requirements;
    Graph::new(elements, flat.connections, requirements, flat.parts, source)
}

fn severity(severity: args::Severity) -> Severity {
    match severity {
        args::Severity::Error => Severity::Error,
        args::Severity::Warning => Severity::Warning,
        args::Severity::Info => Severity::Message,
    }
}
