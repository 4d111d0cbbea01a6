//! What an element sees of the router around it.

mod messages;
mod notifiers;
mod others;
mod turns;

pub(crate) use messages::Report;
use packet::{Pool, Prefetcher};
pub use turns::Queues;

use super::graph::Graph;
use super::{Cx, Engine};
use crate::args;
use crate::embedding::{Device, Endpoint, Side, Steady};
use crate::prelude::*;
use crate::random::Random;
use crate::runtime::DeviceId;
use crate::schedule;
use crate::scheduler::Watch;
use crate::scheduler::task::{TICKETS_MAX, TaskId};
use crate::scheduler::timer::TimerId;
use crate::store::StoreHandle;
use crate::walk::PullThrough;

/// The element itself, and where it stands.
impl Cx<'_> {
    /// The element's own id.
    pub fn id(&self) -> ElementId {
        self.id
    }

    /// The element's full name.
    pub fn name(&self) -> &str {
        self.engine.name(self.id)
    }

    /// The element's name and class as messages show them: `name :: Class`.
    pub fn declaration(&self) -> String {
        let info = self.graph().info(self.id);
        alloc::format!("{} :: {}", info.name, info.class.name)
    }

    /// The configuration string of an element.
    pub fn config(&self, id: ElementId) -> &str {
        self.engine.config(id)
    }

    /// Replaces what the element's `config` handler shows.
    pub fn set_config(&mut self, config: String) {
        self.engine.elements.set_config(self.id, config);
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
        &self.engine.graph
    }

    /// Most packets of a batch: a task that sends more at a time says [`Ran::More`](crate::Ran).
    #[inline]
    pub fn limit(&self) -> usize {
        self.engine.walk.limit
    }

    /// Lowers the limit: for elements, to be called when they are initialized, whose sense depends
    /// on how many packets are under way at a time.
    pub fn limit_batches(&mut self, most: usize) {
        self.engine.walk.lower_limit(self.id, most);
    }
}

/// Packets.
impl Cx<'_> {
    /// Where packets come from.
    #[inline]
    pub fn pool(&mut self) -> &mut Pool {
        &mut self.engine.runtime.pool
    }

    /// Drops a packet.
    #[inline]
    pub fn kill(&mut self, packet: Packet) {
        self.engine.runtime.pool.kill(packet);
    }

    /// Sends a packet out by output `port`; drops it if there is none.
    #[inline]
    pub fn emit(&mut self, port: usize, packet: Packet) {
        self.engine.emit(self.id, port, packet);
    }

    /// An empty batch, to be given to [`push`](Cx::push) or [`done`](Cx::done).
    #[inline]
    pub fn batch(&mut self) -> Box<Batch> {
        self.engine.walk.batch()
    }

    /// Sends a batch out by output `port`; drops it if there is none.
    #[inline]
    pub fn push(&mut self, port: usize, batch: Box<Batch>) {
        self.engine.send(self.id, port, batch);
    }

    /// Dispatches a batch: `outputs` are outputs, with a bit for each packet that leaves there, the
    /// lowest for the first. Each packet has one, and is dropped if there is no such output. The
    /// packets that stay in the batch, in order, go on as the value says that is returned, for
    /// [`push`](crate::Element::push) to return; the others are emitted. Packets with the same destination
    /// stay together.
    #[inline]
    pub fn dispatch(&mut self, batch: &mut Batch, outputs: &[(u32, u64)]) -> usize {
        let Engine { walk, runtime, .. } = &mut *self.engine;
        let pushed = walk.dispatch(&mut runtime.pool, self.id, batch, outputs);
        pushed.raw()
    }

    /// Gives a batch back and drops what is in it.
    #[inline]
    pub fn done(&mut self, batch: Box<Batch>) {
        self.engine.put_back(batch);
    }

    /// Fills `batch`, which is empty, with at most `most` packets pulled from input `port`.
    #[inline]
    pub fn pull(&mut self, port: usize, batch: &mut Batch, most: usize) {
        self.engine.pull(self.id, port, batch, most);
    }

    /// The packets that the router pulled for the task that runs, which asked for them by
    /// [`Ran::Pull`](crate::Ran::Pull).
    #[inline]
    pub fn pulled(&mut self) -> Option<Box<Batch>> {
        self.engine.walk.pulled.take()
    }

    /// As [`pulled`](Self::pulled), of a task that asked for one packet: `Some(None)` if there was none.
    pub fn pulled_one(&mut self) -> Option<Option<Packet>> {
        let mut batch = self.pulled()?;
        let packet = batch.pop();
        self.done(batch);
        Some(packet)
    }

    /// Leaves the rest of a pull to the router: once [`pull`](crate::Element::pull) has returned, its
    /// batch is filled with at most `most` packets from input `port`, and given to
    /// [`pulled`](crate::Element::pulled). The last thing that a pull does.
    ///
    /// `pulled` can ask for more in the same way, once it has taken all out of its batch.
    ///
    /// Unlike with [`pull`](Self::pull), the element is not at work meanwhile: packets can be pulled
    /// from its other outputs, and elements on the packets' way can call its handlers.
    #[inline]
    pub fn pull_through(&mut self, port: usize, most: usize) {
        self.engine.walk.pull_through = Some(PullThrough::new(self.id, port, most));
    }

    /// Pulls one packet from input `port`.
    pub fn pull_one(&mut self, port: usize) -> Option<Packet> {
        let mut batch = self.engine.walk.batch();
        self.engine.pull(self.id, port, &mut batch, 1);
        let packet = batch.pop();
        self.engine.put_back(batch);
        packet
    }
}

/// Time and chance.
impl Cx<'_> {
    /// The steady clock.
    #[inline]
    pub fn steady(&self) -> Steady {
        self.engine.runtime.embedding.steady()
    }

    /// The steady clock as it was a few turns of tasks ago at the earliest: to read it takes a tenth
    /// of the time in which a batch goes through a short path.
    #[inline]
    pub fn recent(&mut self) -> Steady {
        let Engine {
            scheduler, runtime, ..
        } = &mut *self.engine;
        scheduler.recent(&*runtime.embedding)
    }

    /// The packets that come next: announces them, or prefetches them.
    #[inline]
    pub fn prefetcher(&mut self) -> &mut Prefetcher {
        &mut self.engine.walk.prefetcher
    }

    /// Wall-clock time in nanoseconds since 1970.
    #[inline]
    pub fn wall(&self) -> i64 {
        self.engine.runtime.embedding.wall()
    }

    /// Random numbers.
    #[inline]
    pub fn random(&mut self) -> &mut Random {
        &mut self.engine.random
    }

    /// Restarts the random numbers: from `seed`, so that they are the same each time, or from a random
    /// seed.
    pub fn seed_random(&mut self, seed: Option<u32>) {
        self.engine.random = match seed {
            Some(seed) => Random::repeating(seed),
            None => Random::new(self.engine.runtime.embedding.seed()),
        };
    }
}

/// Tasks and timers.
impl Cx<'_> {
    /// Makes a task; it is not scheduled yet. Its tickets are the element's tickets by
    /// ScheduleInfo.
    pub fn task(&mut self) -> TaskId {
        let thread = self.engine.threads.affinity[self.id.index()].unwrap_or(0);
        let task = self.engine.scheduler.tasks.add(self.id, thread);
        let tickets = schedule::tickets(&self.engine.names, self.name());
        if let Some(tickets) = tickets {
            if tickets > u64::from(TICKETS_MAX) {
                let most = args::unparse::real2(TICKETS_MAX.into(), schedule::FRACTION);
                self.warning(format_args!("ScheduleInfo too high; reduced to {most}"));
            }
            let tickets = tickets.min(TICKETS_MAX.into()) as u32;
            self.engine.scheduler.tasks.set_share(task, tickets);
        }
        task
    }

    /// Schedules a task.
    #[inline]
    pub fn schedule(&mut self, task: TaskId) {
        self.engine.scheduler.tasks.schedule(task);
    }

    /// Takes a task off the schedule.
    pub fn unschedule(&mut self, task: TaskId) {
        self.engine.scheduler.tasks.unschedule(task);
    }

    /// Gives a task its share: tickets from 1 to 32768, 1024 if none were given.
    pub fn set_tickets(&mut self, task: TaskId, tickets: u32) {
        self.engine.scheduler.tasks.set_tickets(task, tickets);
    }

    /// Makes a timer; it is not scheduled yet.
    pub fn timer(&mut self) -> TimerId {
        self.engine.scheduler.timers.add(self.id)
    }

    /// Lets a timer expire at `at`, and not when it was to before.
    pub fn schedule_at(&mut self, timer: TimerId, at: Steady) {
        self.engine.scheduler.timers.schedule(timer, at);
    }

    /// Lets a timer expire `nanoseconds` from now.
    pub fn schedule_after(&mut self, timer: TimerId, nanoseconds: u64) {
        let at = self.steady().after(nanoseconds);
        self.engine.scheduler.timers.schedule(timer, at);
    }

    /// Takes a timer off the schedule.
    pub fn unschedule_timer(&mut self, timer: TimerId) {
        self.engine.scheduler.timers.unschedule(timer);
    }

    /// When a timer expires; `None` if it is not scheduled.
    pub fn expires(&self, timer: TimerId) -> Option<Steady> {
        self.engine.scheduler.timers.expires(timer)
    }
}

/// The driver and the world.
impl Cx<'_> {
    /// Asks the router to stop: of several configurations, the element's own.
    pub fn stop(&mut self) {
        self.set_run_count(self.run_count().saturating_sub(1));
    }

    /// The router runs while this is above 0.
    pub fn run_count(&self) -> i32 {
        self.engine.driver.count_of(self.id)
    }

    /// Sets the run count.
    pub fn set_run_count(&mut self, count: i32) {
        self.engine.driver.set_count_of(self.id, count);
    }

    /// Makes this element the one that decides what happens when the router is asked to stop.
    /// False if another does already.
    pub fn manage_driver(&mut self) -> bool {
        self.engine.driver.manage(self.id)
    }

    /// Opens a side of the device called `name`, or says why not.
    pub fn device(&mut self, name: &str, side: Side) -> Result<DeviceId, String> {
        let device = self.engine.runtime.open(name, side)?;
        self.engine.threads.openers.push((device, self.id));
        Ok(device)
    }

    /// Opens this element's socket, or says why not.
    pub fn socket(&mut self, socket: &Endpoint) -> Result<DeviceId, String> {
        let name = self.name().to_string();
        let device = self.engine.runtime.open_socket(&name, socket)?;
        self.device_info(device).open();
        self.engine.threads.openers.push((device, self.id));
        Ok(device)
    }

    /// A way to the control store; `None` if there is no store.
    pub fn store(&self) -> Option<StoreHandle> {
        let store = self.engine.runtime.embedding.store();
        store.map(|store| store.open(self.id))
    }

    /// The name of network device number `index`; `None` if there are fewer.
    pub fn device_name(&self, index: usize) -> Option<String> {
        self.engine.runtime.embedding.device_name(index)
    }

    /// A device's face.
    pub fn device_info(&mut self, device: DeviceId) -> &mut dyn Device {
        self.engine.runtime.devices.get(device)
    }

    /// Adds at most `most` frames that a device received to `batch`.
    #[inline]
    pub fn receive(&mut self, device: DeviceId, batch: &mut Batch, most: usize) {
        let runtime = &mut self.engine.runtime;
        let device = runtime.devices.get(device);
        device.receive(&mut runtime.pool, batch, most);
    }

    /// Sends packets from the front of `batch` by a device, as far as there is room.
    #[inline]
    pub fn transmit(&mut self, device: DeviceId, batch: &mut Batch) {
        let runtime = &mut self.engine.runtime;
        let device = runtime.devices.get(device);
        device.transmit(&mut runtime.pool, batch);
    }

    /// Schedules `task` as soon as the device has a frame, and lets the router sleep until then.
    pub fn await_receive(&mut self, device: DeviceId, task: TaskId) {
        let scheduler = &mut self.engine.scheduler;
        scheduler.await_device(device, Side::Receive, task);
    }

    /// Schedules `task` as soon as the device has room to send.
    pub fn await_room(&mut self, device: DeviceId, task: TaskId) {
        let scheduler = &mut self.engine.scheduler;
        scheduler.await_device(device, Side::Transmit, task);
    }

    /// Calls [`selected`](crate::Descriptors::selected) whenever `fd` is ready to `read` or
    /// `write`; with neither, forgets it.
    pub fn watch(&mut self, fd: i32, read: bool, write: bool) {
        let element = self.id;
        self.engine.scheduler.watch(Watch {
            fd,
            element,
            read,
            write,
        });
    }
}
