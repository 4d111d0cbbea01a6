//! What an element sees of the router around it.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::any::Any;
use core::fmt::Display;

use click::Severity;
use packet::{Ahead, Batch, Packet, Pool};

use crate::args::{self, Failed, NameDatabase};
use crate::chatter::DEFAULT_CHANNEL;
use crate::element::{Element, Llrpcs};
use crate::embedding::{Device, Side, Steady};
use crate::engine::{Core, Watch};
use crate::graph::Graph;
use crate::handler::HandlerError;
use crate::llrpc::Llrpc;
use crate::notifier::{Notice, Search, Signal, SignalId};
use crate::ports::flow;
use crate::random::Random;
use crate::schedule;
use crate::task::{TICKETS_MAX, TaskId};
use crate::timer::TimerId;

/// An element of a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ElementId(pub(crate) u32);

impl ElementId {
    /// Its place among the router's elements.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The element at a place, as arguments refer to it.
    pub fn new(index: usize) -> ElementId {
        ElementId(index as u32)
    }
}

/// A device that an element opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceId(usize);

/// The router, as the element that works at the moment sees it.
pub struct Cx<'c> {
    pub(crate) core: &'c mut Core,
    pub(crate) id: ElementId,
}

/// Itself and its place.
impl Cx<'_> {
    /// The element's own id.
    pub fn id(&self) -> ElementId {
        self.id
    }

    /// The element's full name.
    pub fn name(&self) -> &str {
        self.core.name(self.id)
    }

    /// The element's name and class as messages show them: `name :: Class`.
    pub fn declaration(&self) -> String {
        let info = self.graph().info(self.id);
        alloc::format!("{} :: {}", info.name, info.class.name)
    }

    /// The configuration string of an element.
    pub fn config(&self, id: ElementId) -> &str {
        self.core.config(id)
    }

    /// Replaces what the element's `config` handler shows.
    pub fn set_config(&mut self, config: String) {
        self.core.configs[self.id.index()] = Some(config);
    }

    /// Number of inputs.
    pub fn inputs(&self) -> usize {
        self.graph().info(self.id).inputs.len()
    }

    /// Number of outputs.
    #[inline]
    pub fn outputs(&self) -> usize {
        self.graph().info(self.id).outputs.len()
    }

    /// Whether an input is push.
    pub fn input_is_push(&self, port: usize) -> bool {
        self.graph().info(self.id).inputs.get(port) == Some(&true)
    }

    /// Whether an output is push.
    pub fn output_is_push(&self, port: usize) -> bool {
        self.graph().info(self.id).outputs.get(port) == Some(&true)
    }

    /// The graph the element stands in.
    pub fn graph(&self) -> &Graph {
        &self.core.graph
    }

    /// Most packets of a batch: a task that sends more at a time says [`Ran::More`](crate::Ran).
    #[inline]
    pub fn limit(&self) -> usize {
        self.core.limit
    }

    /// Lowers the limit: for elements, to be called when they are initialized, whose sense depends
    /// on how many packets are under way at a time.
    pub fn limit_batches(&mut self, most: usize) {
        self.core.limit = self.core.limit.min(most.max(1));
    }
}

/// Packets.
impl Cx<'_> {
    /// Where packets come from.
    #[inline]
    pub fn pool(&mut self) -> &mut Pool {
        &mut self.core.runtime.pool
    }

    /// Drops a packet.
    #[inline]
    pub fn kill(&mut self, packet: Packet) {
        self.core.runtime.pool.kill(packet);
    }

    /// Sends a packet out by output `port`; drops it if there is none.
    #[inline]
    pub fn emit(&mut self, port: usize, packet: Packet) {
        self.core.emit(self.id, port, packet);
    }

    /// An empty batch, to be given to [`push`](Cx::push) or [`done`](Cx::done).
    #[inline]
    pub fn batch(&mut self) -> Box<Batch> {
        self.core.batch()
    }

    /// Sends a batch out by output `port`; drops it if there is none.
    #[inline]
    pub fn push(&mut self, port: usize, batch: Box<Batch>) {
        self.core.send(self.id, port, batch);
    }

    /// Parts a batch: `routes` are outputs, with a bit for each packet that leaves there, the lowest
    /// for the first; each packet has one, and is dropped if there is no such output. What stays in
    /// the batch, in order, goes on as is returned, for [`push`](Element::push) to return; the rest
    /// is emitted. Packets for the same place stay together.
    #[inline]
    pub fn part(&mut self, batch: &mut Batch, routes: &[(u32, u64)]) -> usize {
        self.core.part_batch(self.id, batch, routes)
    }

    /// Gives a batch back and drops what is in it.
    #[inline]
    pub fn done(&mut self, batch: Box<Batch>) {
        self.core.put_back(batch);
    }

    /// Fills `batch`, which is empty, with at most `most` packets pulled from input `port`.
    #[inline]
    pub fn pull(&mut self, port: usize, batch: &mut Batch, most: usize) {
        self.core.pull(self.id, port, batch, most);
    }

    /// Leaves the rest of a pull to the router: once [`pull`](Element::pull) has returned, its
    /// batch is filled with at most `most` packets from input `port`, and given to
    /// [`pulled`](Element::pulled) if there are any. The last thing that a pull does.
    ///
    /// For elements that a path may pass more than once: unlike with [`pull`](Self::pull), the
    /// element is not at work meanwhile, so that packets can be pulled from its other outputs, and
    /// its handlers be called.
    #[inline]
    pub fn pull_through(&mut self, port: usize, most: usize) {
        self.core.through = Some((self.id, port, most));
    }

    /// Pulls one packet from input `port`.
    pub fn pull_one(&mut self, port: usize) -> Option<Packet> {
        let mut batch = self.core.batch();
        self.core.pull(self.id, port, &mut batch, 1);
        let packet = batch.pop();
        self.core.put_back(batch);
        packet
    }
}

/// Time and chance.
impl Cx<'_> {
    /// The steady clock.
    #[inline]
    pub fn steady(&self) -> Steady {
        self.core.runtime.embedding.steady()
    }

    /// The steady clock as it was a few turns of tasks ago at the earliest: to read it takes a tenth
    /// of the time in which a batch goes through a short path.
    #[inline]
    pub fn recent(&mut self) -> Steady {
        if let Some(recent) = self.core.recent {
            return recent;
        }
        let now = self.steady();
        self.core.recent = Some(now);
        now
    }

    /// The packets that come next: to be told, or to be asked for.
    #[inline]
    pub fn ahead(&mut self) -> &mut Ahead {
        &mut self.core.ahead
    }

    /// Wall-clock time in nanoseconds since 1970.
    #[inline]
    pub fn wall(&self) -> i64 {
        self.core.runtime.embedding.wall()
    }

    /// Random numbers.
    #[inline]
    pub fn random(&mut self) -> &mut Random {
        &mut self.core.random
    }

    /// Starts random numbers anew: from `seed`, so that they are the same each time, or else from
    /// one that nobody knows.
    pub fn seed_random(&mut self, seed: Option<u32>) {
        self.core.random = match seed {
            Some(seed) => Random::repeating(seed),
            None => Random::new(self.core.runtime.embedding.seed()),
        };
    }
}

/// Words.
impl Cx<'_> {
    /// Prints a line to whoever watches the router.
    pub fn chatter(&mut self, line: impl Display) {
        self.chatter_on(DEFAULT_CHANNEL, line);
    }

    /// As [`chatter`](Self::chatter), on a channel: only who listens to that hears it.
    pub fn chatter_on(&mut self, channel: &str, line: impl Display) {
        let line = line.to_string();
        let share = self.core.share.as_ref();
        if share.is_some_and(|share| share.heard && !share.whole) {
            return self.whole(|cx| cx.chatter_on(channel, line));
        }
        if self.core.listeners.is_loud(channel) {
            self.core.runtime.embedding.chatter(&line);
        }
        let Core {
            listeners, tasks, ..
        } = &mut *self.core;
        listeners.hear(channel, &line, |task| tasks.schedule(task));
    }

    /// Lets this element hear what is said on a channel from now on. `quiet`: on a channel other
    /// than the default one, nothing is printed because of this listener.
    pub fn listen(&mut self, channel: &str, quiet: bool) {
        self.core.listeners.add(self.id, channel, quiet);
    }

    /// Lets `task` be scheduled whenever there is something to hear.
    pub fn wake_to_hear(&mut self, task: TaskId) {
        self.core.listeners.wake(self.id, task);
    }

    /// What was said since the last call, a line each.
    pub fn heard(&mut self) -> Vec<String> {
        self.core.listeners.take(self.id)
    }

    /// Writes text to standard output, or to whoever watches the router where there is none.
    pub fn print(&mut self, text: &[u8]) {
        self.core.runtime.embedding.print(text);
    }

    /// Says what is wrong, while the element is initialized: `return Err(cx.error("…"))`.
    pub fn error(&mut self, text: impl Display) -> Failed {
        self.core.reports.push((Severity::Error, text.to_string()));
        Failed
    }

    /// Tells something worth knowing, while the element is initialized.
    pub fn message(&mut self, text: impl Display) {
        self.core
            .reports
            .push((Severity::Message, text.to_string()));
    }

    /// Warns, while the element is initialized.
    pub fn warning(&mut self, text: impl Display) {
        self.core
            .reports
            .push((Severity::Warning, text.to_string()));
    }
}

/// Tasks and timers.
impl Cx<'_> {
    /// Makes a task; it is not scheduled yet. Its tickets are those that ScheduleInfo gives the
    /// element.
    pub fn task(&mut self) -> TaskId {
        let thread = self.core.preferences[self.id.index()].unwrap_or(0);
        let task = self.core.tasks.add(self.id, thread);
        let tickets = schedule::tickets(&self.core.names, self.name());
        if let Some(tickets) = tickets {
            if tickets > u64::from(TICKETS_MAX) {
                let most = args::unparse::real2(TICKETS_MAX.into(), schedule::FRACTION);
                self.warning(format_args!("ScheduleInfo too high; reduced to {most}"));
            }
            let tickets = tickets.min(TICKETS_MAX.into()) as u32;
            self.core.tasks.set_share(task, tickets);
        }
        task
    }

    /// Schedules a task.
    #[inline]
    pub fn schedule(&mut self, task: TaskId) {
        self.core.tasks.schedule(task);
    }

    /// Takes a task off the schedule.
    pub fn unschedule(&mut self, task: TaskId) {
        self.core.tasks.unschedule(task);
    }

    /// Whether a task is scheduled.
    pub fn is_scheduled(&self, task: TaskId) -> bool {
        self.core.tasks.scheduled(task)
    }

    /// Gives a task its share: tickets from 1 to 32768, 1024 if none were given.
    pub fn set_tickets(&mut self, task: TaskId, tickets: u32) {
        self.core.tasks.set_tickets(task, tickets);
    }

    /// Makes a timer; it is not scheduled yet.
    pub fn timer(&mut self) -> TimerId {
        self.core.timers.add(self.id)
    }

    /// Lets a timer expire at `at`, and not when it was to before.
    pub fn schedule_at(&mut self, timer: TimerId, at: Steady) {
        self.core.timers.schedule(timer, at);
    }

    /// Lets a timer expire `nanoseconds` from now.
    pub fn schedule_after(&mut self, timer: TimerId, nanoseconds: u64) {
        let at = self.steady().after(nanoseconds);
        self.core.timers.schedule(timer, at);
    }

    /// Takes a timer off the schedule.
    pub fn unschedule_timer(&mut self, timer: TimerId) {
        self.core.timers.unschedule(timer);
    }

    /// When a timer expires; `None` if it is not scheduled.
    pub fn expires(&self, timer: TimerId) -> Option<Steady> {
        self.core.timers.expires(timer)
    }
}

/// Notifiers.
impl Cx<'_> {
    /// Makes a signal that gives a notice. To be called from [`configure`](Element::configure), so that the element's
    /// [`notifier`](Element::notifier) is there when others are initialized.
    pub fn signal(&mut self, notice: Notice, active: bool) -> SignalId {
        self.core.signals.add(self.id, notice, active)
    }

    /// Sets a signal, and wakes its listeners if it becomes active.
    #[inline]
    pub fn set_signal(&mut self, signal: SignalId, active: bool) {
        self.core.set_signal(signal, active);
    }

    /// Whether a signal, or any of those found together, is active.
    #[inline]
    pub fn is_active(&self, signal: &Signal) -> bool {
        self.core.signals.any_active(signal)
    }

    /// A signal in Click's notation, for those who look into notifiers: each word of signals by its
    /// notice and number, with those in question and those of them that are active in hexadecimal,
    /// and a star if any is.
    pub fn describe_signal(&self, signal: &Signal) -> String {
        self.core.signals.describe(signal)
    }

    /// Whether one signal is active.
    #[inline]
    pub fn signal_is_active(&self, signal: SignalId) -> bool {
        self.core.signals.is_active(signal)
    }

    /// The signals that say whether input `port` has packets to pull. `task` is scheduled when
    /// one becomes active.
    pub fn upstream_signal(&mut self, port: usize, task: Option<TaskId>) -> Signal {
        self.search(Notice::Empty, port, task)
    }

    /// The signals that say whether output `port` has room downstream. `task` is scheduled when
    /// one becomes active.
    pub fn downstream_signal(&mut self, port: usize, task: Option<TaskId>) -> Signal {
        self.search(Notice::Full, port, task)
    }

    /// Lets `dependent`, a signal of this element, become active whenever a signal upstream of
    /// input `port` does.
    pub fn lead_upstream(&mut self, port: usize, dependent: SignalId) -> Signal {
        let (signal, found) = self.walk(Notice::Empty, port);
        for id in found {
            self.core.signals.lead(id, dependent);
        }
        signal
    }

    fn search(&mut self, notice: Notice, port: usize, task: Option<TaskId>) -> Signal {
        let (signal, found) = self.walk(notice, port);
        if let Some(task) = task {
            for id in found {
                self.core.signals.listen(id, task);
            }
        }
        signal
    }

    /// The signals found together, and all that can wake whoever looks for them.
    pub(crate) fn walk(&self, notice: Notice, port: usize) -> (Signal, Vec<SignalId>) {
        let (parts, always, deeper) = self.walk_to(notice, port, false);
        let signal = Signal {
            always,
            parts: parts.clone(),
        };
        // Behind a notifier that stands for all behind it, the others only wake.
        let found = match deeper && !always {
            true => self.walk_to(notice, port, true).0,
            false => parts,
        };
        (signal, found)
    }

    /// Goes along the graph until notifiers stop it, and also beyond those that say
    /// [`ContinueWake`](Search::ContinueWake) if `beyond`. Returns the signals, whether the way
    /// meets a place without notifier, and whether there is something beyond.
    fn walk_to(&self, notice: Notice, port: usize, beyond: bool) -> (Vec<SignalId>, bool, bool) {
        let graph = &self.core.graph;
        let step = |id: ElementId, port: usize| -> Vec<(ElementId, usize)> {
            match notice {
                Notice::Empty => graph.upstream(id, port).collect(),
                Notice::Full => graph.downstream(id, port).collect(),
            }
        };
        let (mut parts, mut always, mut deeper) = (Vec::new(), false, false);
        let mut seen: Vec<(ElementId, usize)> = Vec::new();
        let mut ahead = step(self.id, port);
        while let Some(place) = ahead.pop() {
            if seen.contains(&place) {
                continue;
            }
            seen.push(place);
            let (id, at) = place;
            let found = match &self.core.elements[id.index()] {
                Some(element) => element.notifier(notice, at),
                None => Search::Pass,
            };
            let (part, go_on) = match found {
                Search::Pass => (None, true),
                Search::Never => (None, false),
                Search::Stop(part) => (Some(part), false),
                Search::Continue(part) => (Some(part), true),
                Search::ContinueWake(part) => {
                    deeper = true;
                    (Some(part), beyond)
                }
            };
            parts.extend(part.filter(|part| !parts.contains(part)));
            if !go_on {
                continue;
            }
            let info = graph.info(id);
            // Behind the element, by the ports that its packets come from or go to. A push port
            // on the way up, a pull port on the way down, or no port at all ends the search
            // without an answer: the element has to poll.
            let (others, dead): (&[bool], bool) = match notice {
                Notice::Empty => (&info.inputs, true),
                Notice::Full => (&info.outputs, false),
            };
            let ways = flow(info.class.flow, at, others.len(), notice == Notice::Empty);
            let mut any = false;
            for (other, _) in ways.iter().enumerate().filter(|(_, way)| **way) {
                any = true;
                if others[other] == dead {
                    always |= part.is_none();
                    continue;
                }
                ahead.extend(step(id, other));
            }
            // A dead end that takes everything (Discard) is never full; one that gives nothing
            // by itself may give something later.
            always |= !any && part.is_none();
        }
        (parts, always, deeper)
    }
}

/// Other elements.
impl Cx<'_> {
    /// The element that `name` refers to from here: in its own compound first, then outwards.
    pub fn find(&self, name: &str) -> Option<ElementId> {
        let context = args::Context {
            names: &self.core.names,
            elements: &*self.core.graph,
            element: self.name(),
        };
        context
            .find_element(name)
            .map(|(index, _)| ElementId::new(index))
    }

    /// What names mean where this element stands.
    pub fn names(&self) -> args::Context<'_> {
        args::Context {
            names: &self.core.names,
            elements: &*self.core.graph,
            element: self.name(),
        }
    }

    /// The name database itself.
    pub fn name_database(&mut self) -> &mut NameDatabase {
        &mut self.core.names
    }

    /// Whether an element is of class `E`, and not at work itself.
    pub fn is<E: Element>(&self, id: ElementId) -> bool {
        let Some(Some(element)) = self.core.elements.get(id.index()) else {
            return false;
        };
        let any: &dyn Any = element.as_ref();
        any.is::<E>()
    }

    /// Works with another element of class `E`; `None` if it is of another class, or is the one
    /// at work.
    pub fn with<E: Element, R>(
        &mut self,
        id: ElementId,
        work: impl FnOnce(&mut E, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        self.with_element(id, |element, cx| {
            let any: &mut dyn Any = element;
            any.downcast_mut::<E>().map(|element| work(element, cx))
        })
        .flatten()
    }

    /// Works with another element; `None` if it is the one at work.
    pub(crate) fn with_element<R>(
        &mut self,
        id: ElementId,
        work: impl FnOnce(&mut dyn Element, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        if self.core.is_elsewhere(id) {
            return self.whole(|cx| cx.with_element(id, work));
        }
        self.core.with(id, work)
    }

    /// Reads a handler of an element, or with `None` of the router.
    pub fn read_handler(
        &mut self,
        element: Option<ElementId>,
        name: &str,
        parameter: &str,
    ) -> Result<String, HandlerError> {
        self.core.read_handler(element, name, parameter)
    }

    /// Writes a handler of an element, or with `None` of the router. The element's own handlers
    /// cannot be reached this way: it is at work.
    pub fn write_handler(
        &mut self,
        element: Option<ElementId>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        self.core.write_handler(element, name, value)
    }

    /// Makes an LLRPC of an element. The element's own cannot be made this way: it is at work.
    pub fn llrpc(
        &mut self,
        element: ElementId,
        call: Llrpc,
        data: &mut [u8],
    ) -> Result<(), HandlerError> {
        let link = self
            .link::<dyn Llrpcs>(element)
            .ok_or(HandlerError::Unknown)?;
        let made = self
            .core
            .reach(link, |element, cx| element.llrpc(cx, call, data));
        made.unwrap_or_else(|| Err("the element is at work".into()))
    }

    /// Whether an element, or with `None` the router, has a handler, and what it can do.
    pub fn handler(
        &self,
        element: Option<ElementId>,
        name: &str,
    ) -> Option<crate::handler::HandlerFlags> {
        self.core.handler(element, name)
    }
}

/// Threads.
impl Cx<'_> {
    /// Threads that the router runs on, or is to run on.
    pub fn threads(&self) -> u16 {
        self.core.threads
    }

    /// The thread this is.
    #[inline]
    pub fn thread(&self) -> u16 {
        self.core.share.as_ref().map_or(0, |share| share.me)
    }

    /// The thread that the packets at hand come from: this one, or another that pushes to an
    /// element of this one.
    #[inline]
    pub fn origin(&self) -> u16 {
        self.core.share.as_ref().map_or(0, |share| share.origin)
    }

    /// Works with the whole router: other threads stand still meanwhile, and other elements can be
    /// reached wherever they are. Handlers that are called one by one need no such thing.
    pub fn whole<R>(&mut self, work: impl FnOnce(&mut Cx<'_>) -> R) -> R {
        let id = self.id;
        self.core.whole(|core| work(&mut Cx { core, id }))
    }

    /// Means an element for a thread, or with [`NO_THREAD`](crate::NO_THREAD) its task for none.
    /// To be called from [`configure`](Element::configure): it concerns tasks made afterwards.
    pub fn prefer_thread(&mut self, id: ElementId, thread: i32) {
        if let Some(preference) = self.core.preferences.get_mut(id.index()) {
            *preference = Some(thread);
        }
    }

    /// Lets this element run on the thread of another that it works with for packets' sake. With
    /// those that its arguments name it does anyway.
    pub fn share_thread(&mut self, id: ElementId) {
        self.core.bound.push((self.id, id));
    }

    /// Lets the router measure what tasks take, where it runs on several threads.
    pub fn measure_tasks(&mut self) {
        self.core.measured = self.core.threads > 1;
    }

    /// Every task that is scheduled, with its home thread and the time that a turn of it takes on
    /// average, in nanoseconds. All of them are there [as a whole](Cx::whole) only.
    pub fn scheduled_tasks(&self) -> Vec<(TaskId, u16, u32)> {
        let tasks = &self.core.tasks;
        let scheduled = tasks.iter().filter(|task| tasks.scheduled(*task));
        scheduled
            .map(|task| (task, self.core.home(tasks.element(task)), tasks.cost(task)))
            .collect()
    }

    /// Means a task for another thread.
    pub fn move_task(&mut self, task: TaskId, thread: i32) {
        self.core.whole(|core| core.move_task(task, thread));
    }
}

/// The driver and the world.
impl Cx<'_> {
    /// Asks the router to stop.
    pub fn stop(&mut self) {
        self.core.run_count = self.core.run_count.saturating_sub(1);
    }

    /// The router runs while this is above 0.
    pub fn run_count(&self) -> i32 {
        self.core.run_count
    }

    /// Sets the run count.
    pub fn set_run_count(&mut self, count: i32) {
        self.core.run_count = count;
    }

    /// Makes this element the one that decides what happens when the router is asked to stop.
    /// False if another does already.
    pub fn manage_driver(&mut self) -> bool {
        let manager = *self.core.driver_manager.get_or_insert(self.id);
        manager == self.id
    }

    /// Opens a side of the device called `name`; `None` if there is none.
    pub fn device(&mut self, name: &str, side: Side) -> Option<DeviceId> {
        let device = self.core.device(name, side)?;
        self.core.openers.push((device, self.id));
        Some(DeviceId(device))
    }

    /// A device's face.
    pub fn device_info(&mut self, device: DeviceId) -> &mut dyn Device {
        self.core.runtime.devices[device.0].device.as_mut()
    }

    /// Adds at most `most` frames that a device received to `batch`.
    #[inline]
    pub fn receive(&mut self, device: DeviceId, batch: &mut Batch, most: usize) {
        let runtime = &mut self.core.runtime;
        runtime.devices[device.0]
            .device
            .receive(&mut runtime.pool, batch, most);
    }

    /// Sends packets from the front of `batch` by a device, as far as there is room.
    #[inline]
    pub fn transmit(&mut self, device: DeviceId, batch: &mut Batch) {
        let runtime = &mut self.core.runtime;
        runtime.devices[device.0]
            .device
            .transmit(&mut runtime.pool, batch);
    }

    /// Schedules `task` as soon as the device has a frame, and lets the router sleep until then.
    pub fn await_receive(&mut self, device: DeviceId, task: TaskId) {
        self.core.armed.push((device.0, true, task));
    }

    /// Schedules `task` as soon as the device has room to send.
    pub fn await_room(&mut self, device: DeviceId, task: TaskId) {
        self.core.armed.push((device.0, false, task));
    }

    /// Calls [`selected`](Element::selected) whenever `fd` is ready for what is asked; with
    /// neither, forgets it.
    pub fn watch(&mut self, fd: i32, read: bool, write: bool) {
        let element = self.id;
        let watches = &mut self.core.watches;
        watches.retain(|w| w.fd != fd || w.element != element);
        if read || write {
            watches.push(Watch {
                fd,
                element,
                read,
                write,
            });
        }
    }
}
