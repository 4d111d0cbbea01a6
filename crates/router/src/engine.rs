//! The running state of a router, and the walk of packets through its graph.
//!
//! While an element works, it is out of its slot and everything else is reached through the
//! [`Core`]: so an element can pull from others and call their handlers without any sharing. What
//! elements emit goes on a stack, and the router takes it off depth first, in port order (with a
//! batch limit of 1: in the order in which it was emitted, as Click's recursion would).

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};

use click::Severity;
use packet::{Ahead, BATCH, Batch, Facts, Packet, Pool};

use crate::args::NameDatabase;
use crate::chatter::Listeners;
use crate::context::{Cx, ElementId};
use crate::element::Element;
use crate::embedding::{Device, Embedding, Side, Steady};
use crate::graph::Graph;
use crate::handler::HandlerSpec;
use crate::library::Library;
use crate::notifier::{SignalId, Signals};
use crate::random::Random;
use crate::router::{Settings, THREADS_MAX};
use crate::shortcut::Shortcuts;
use crate::task::{Ran, TaskId, Tasks};
use crate::team::Share;
use crate::timer::{TimerId, Timers};

/// No edge.
pub(crate) const NONE: u32 = u32::MAX;
/// In place of an edge's element: the edge is a crossing to another thread, and its port the
/// crossing's number.
pub(crate) const CROSSING: u32 = u32::MAX - 1;

/// Where an output or input leads.
#[derive(Clone, Copy)]
pub(crate) struct Edge {
    pub element: u32,
    pub port: u32,
    /// The shortcut that starts here, plus one; 0 if none does. With [`TREE`]: the number of the
    /// tree that does.
    pub shortcut: u32,
    /// Packets that passed.
    pub packets: u64,
    /// The first output edge of the element whose shortcut does the same; itself if there is none.
    pub alike: u32,
}

impl Edge {
    /// Where it leads, as a number: for a crossing, its own.
    #[inline]
    pub(crate) fn place(&self) -> u64 {
        u64::from(self.element) << 32 | u64::from(self.port)
    }

    pub(crate) fn target(&self) -> Option<(ElementId, usize)> {
        (self.element < CROSSING).then_some((ElementId(self.element), self.port as usize))
    }
}

/// Where an element's outputs are among all.
#[derive(Clone, Copy)]
pub(crate) struct Outputs {
    first: u32,
    pub count: u32,
    /// Whether the shortcuts of some do the same.
    pub alike: bool,
}

impl Outputs {
    /// The edge of an output; `None` if there is no such output.
    #[inline]
    pub fn edge(&self, port: usize) -> Option<u32> {
        (port < self.count as usize).then_some(self.first.wrapping_add(port as u32))
    }

    /// The edges of all outputs.
    pub fn edges(&self) -> core::ops::Range<u32> {
        self.first..self.first + self.count
    }
}

/// A batch on its way out by an edge.
pub(crate) struct Parcel {
    pub edge: u32,
    /// The output edge of the element that it left: parcels leave in the order of these.
    pub left_by: u32,
    pub batch: Box<Batch>,
}

impl Parcel {
    pub fn new(edge: u32, batch: Box<Batch>) -> Parcel {
        Parcel {
            edge,
            left_by: edge,
            batch,
        }
    }
}

/// In a shortcut's number: not a row of elements, but a [tree](crate::sorting).
pub(crate) const TREE: u32 = 1 << 31;

/// In an output's place: not an output, but an edge behind it, by which packets go on.
pub(crate) const BEHIND: usize = 1 << (usize::BITS - 1);

/// What outlives a router when another takes its place.
pub struct Runtime {
    /// The program around the router.
    pub embedding: Box<dyn Embedding>,
    /// Where packets come from.
    pub pool: Pool,
    /// Sides of devices that were opened.
    pub(crate) devices: Vec<Opened>,
}

/// A side of a device that was opened.
pub(crate) struct Opened {
    /// The device's name; empty if another thread has it.
    name: String,
    side: Side,
    pub device: Box<dyn Device>,
}

impl Opened {
    fn elsewhere() -> Opened {
        Opened {
            name: String::new(),
            side: Side::Receive,
            device: Box::new(Nothing),
        }
    }
}

impl Runtime {
    /// A runtime in `embedding`, with packets from `pool`.
    pub fn new(embedding: Box<dyn Embedding>, pool: Pool) -> Runtime {
        Runtime {
            embedding,
            pool,
            devices: Vec::new(),
        }
    }

    /// Hands a device over to the runtime of another thread.
    pub(crate) fn hand_over(&mut self, device: usize, to: &mut Runtime) {
        if self.devices.len() <= device {
            return;
        }
        while to.devices.len() <= device {
            to.devices.push(Opened::elsewhere());
        }
        // One that several elements opened goes with the first of them.
        if !self.devices[device].name.is_empty() {
            to.devices[device] = core::mem::replace(&mut self.devices[device], Opened::elsewhere());
        }
    }
}

/// What stands for a device that another thread has.
struct Nothing;

impl Device for Nothing {
    fn mac(&self) -> [u8; 6] {
        [0; 6]
    }

    fn mtu(&self) -> usize {
        0
    }

    fn receive(&mut self, _pool: &mut Pool, _batch: &mut Batch, _most: usize) {}

    fn transmit(&mut self, _pool: &mut Pool, _batch: &mut Batch) {}

    fn room(&mut self) -> usize {
        0
    }

    fn arm_receive(&mut self, _thread: u16) -> bool {
        true
    }

    fn arm_transmit(&mut self, _thread: u16) -> bool {
        true
    }

    fn has_received(&mut self) -> bool {
        false
    }
}

/// An element at work that hears what is written to its handlers meanwhile.
pub struct Hearing {
    pub element: ElementId,
    /// Its handlers: it cannot be asked.
    pub handlers: Vec<HandlerSpec>,
    /// Names of handlers, and what was written to them.
    pub heard: Vec<(String, String)>,
}

/// A file descriptor that an element waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// The descriptor.
    pub fd: i32,
    /// The element that waits.
    pub element: ElementId,
    /// It waits for something to read.
    pub read: bool,
    /// It waits for room to write.
    pub write: bool,
}

/// Everything of a router but the face it shows outside.
pub(crate) struct Core {
    pub elements: Vec<Option<Box<dyn Element>>>,
    pub graph: Arc<Graph>,
    /// Configurations that were changed while the router runs.
    pub configs: Vec<Option<String>>,
    outputs_of: Vec<Outputs>,
    first_input: Vec<u32>,
    pub outputs: Vec<Edge>,
    pub inputs: Vec<Edge>,
    /// For each output the parcel on the stack that is still open for packets, plus one.
    pub open: Vec<u32>,
    pub stack: Vec<Parcel>,
    #[expect(clippy::vec_box, reason = "a batch moves by its pointer")]
    pub spare: Vec<Box<Batch>>,
    pub shortcuts: Shortcuts,
    /// Packets that come next.
    pub ahead: Ahead,
    /// The time as it was a few turns ago, if anybody asked for it since then.
    pub recent: Option<Steady>,
    pub limit: usize,
    pub tasks: Tasks,
    pub timers: Timers,
    pub signals: Signals,
    pub armed: Vec<(usize, bool, TaskId)>,
    pub watches: Vec<Watch>,
    pub names: NameDatabase,
    /// The classes that configurations may use.
    pub library: Library,
    pub random: Random,
    pub runtime: Runtime,
    pub run_count: i32,
    pub driver_manager: Option<ElementId>,
    /// Elements that hear what others say.
    pub listeners: Listeners,
    /// What elements report while they are initialized.
    pub reports: Vec<(Severity, String)>,
    /// An element whose pull goes on at one of its inputs once it has returned, that input, and the
    /// most packets.
    pub through: Option<(ElementId, usize, usize)>,
    /// The element at work that hears what is written to its handlers meanwhile.
    pub hearing: Option<Hearing>,
    /// Outputs from which packets are being pulled through their elements.
    passing: Vec<(ElementId, usize)>,
    /// Threads that the router is to run on.
    pub threads: u16,
    /// The thread that each element is meant for, where that was said.
    pub preferences: Vec<Option<i32>>,
    /// Elements that refer to each other by their arguments.
    pub bound: Vec<(ElementId, ElementId)>,
    /// Devices, and the elements that opened them.
    pub openers: Vec<(usize, ElementId)>,
    /// Packets that were dropped between threads, where there is no crossing any more.
    pub former_drops: u64,
    /// Whether what tasks take is measured.
    pub measured: bool,
    /// What a router has that several threads share.
    pub share: Option<Box<Share>>,
    /// The element that works, plus one; 0 for none.
    pub current: u32,
    /// Where a crash report looks for it.
    observed: Option<&'static AtomicU32>,
}

impl Core {
    pub fn new(
        elements: Vec<Box<dyn Element>>,
        graph: Arc<Graph>,
        library: Library,
        mut runtime: Runtime,
        settings: Settings,
    ) -> Core {
        let names = runtime.embedding.names();
        let mut outputs_of = Vec::with_capacity(elements.len());
        let mut first_input = Vec::with_capacity(elements.len());
        let (mut outputs, mut inputs) = (0, 0);
        for element in &graph.elements {
            outputs_of.push(Outputs {
                first: outputs,
                count: element.outputs.len() as u32,
                alike: false,
            });
            first_input.push(inputs);
            outputs += element.outputs.len() as u32;
            inputs += element.inputs.len() as u32;
        }
        first_input.push(inputs);
        let observed = runtime.embedding.current_element();
        let nowhere = Edge {
            element: NONE,
            port: 0,
            shortcut: 0,
            packets: 0,
            alike: 0,
        };
        let mut core = Core {
            configs: alloc::vec![None; elements.len()],
            elements: elements.into_iter().map(Some).collect(),
            graph,
            outputs_of,
            first_input,
            outputs: alloc::vec![nowhere; outputs as usize],
            inputs: alloc::vec![nowhere; inputs as usize],
            open: alloc::vec![0; outputs as usize],
            stack: Vec::with_capacity(16),
            spare: Vec::new(),
            shortcuts: Shortcuts::default(),
            ahead: Ahead::default(),
            recent: None,
            limit: settings.batch.clamp(1, BATCH),
            tasks: Tasks::default(),
            timers: Timers::default(),
            signals: Signals::default(),
            armed: Vec::new(),
            watches: Vec::new(),
            names,
            library,
            random: Random::new(0),
            runtime,
            run_count: 1,
            driver_manager: None,
            listeners: Listeners::default(),
            reports: Vec::new(),
            through: None,
            hearing: None,
            passing: Vec::with_capacity(16),
            threads: settings.threads.clamp(1, THREADS_MAX),
            preferences: Vec::new(),
            bound: Vec::new(),
            openers: Vec::new(),
            former_drops: 0,
            measured: false,
            share: None,
            current: 0,
            observed,
        };
        core.preferences = alloc::vec![None; core.elements.len()];
        core.connect();
        core
    }

    /// Lets every edge lead where the graph says.
    pub fn connect(&mut self) {
        self.forget_shortcuts();
        let graph = self.graph.clone();
        for c in &graph.flat.connections {
            let (from, to) = (c.from, c.to);
            if graph.elements[from.0].outputs[from.1] {
                let edge = &mut self.outputs[self.outputs_of[from.0].first as usize + from.1];
                (edge.element, edge.port) = (to.0 as u32, to.1 as u32);
            } else {
                let edge = &mut self.inputs[self.first_input[to.0] as usize + to.1];
                (edge.element, edge.port) = (from.0 as u32, from.1 as u32);
            }
        }
    }

    /// The element whose output edge is `edge`.
    pub fn source(&self, edge: u32) -> ElementId {
        let after = self.outputs_of.partition_point(|of| of.first <= edge);
        ElementId(after.saturating_sub(1) as u32)
    }

    /// The edge by which packets leave an element; `None` if it has no such output.
    #[inline]
    pub fn output_edge(&self, id: ElementId, port: usize) -> Option<u32> {
        let behind = || (port & BEHIND != 0 && port as u32 != NONE).then_some(port as u32);
        self.outputs_of(id).edge(port).or_else(behind)
    }

    /// Where an element's outputs are.
    #[inline]
    pub fn outputs_of(&self, id: ElementId) -> Outputs {
        self.outputs_of[id.index()]
    }

    /// Takes note of which output edges have shortcuts that do the same, as `same` says.
    pub fn note_alike(&mut self, same: impl Fn(&Edge, &Edge) -> bool) {
        for of in &mut self.outputs_of {
            let edges = of.edges();
            of.alike = false;
            for edge in edges.clone() {
                let is = |other: u32| {
                    let [own, other] = [edge, other].map(|edge| &self.outputs[edge as usize]);
                    same(own, other)
                };
                let alike = (of.first..edge).find(|other| is(*other)).unwrap_or(edge);
                of.alike |= alike != edge;
                self.outputs[edge as usize].alike = alike;
            }
        }
    }

    pub fn input_edge(&self, id: ElementId, port: usize) -> Option<u32> {
        let first = self.first_input[id.index()] as usize;
        let end = self.first_input[id.index() + 1] as usize;
        (port < end - first).then(|| (first + port) as u32)
    }

    /// Takes note of the element that works from now on, plus one; returns the one before.
    #[inline]
    fn enter(&mut self, current: u32) -> u32 {
        if let Some(observed) = self.observed {
            observed.store(current, Ordering::Relaxed);
        }
        core::mem::replace(&mut self.current, current)
    }

    /// An empty batch.
    #[inline]
    pub fn batch(&mut self) -> Box<Batch> {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes a batch back; packets left in it are dropped.
    #[inline]
    pub fn put_back(&mut self, mut batch: Box<Batch>) {
        self.runtime.pool.recycle(&mut batch);
        self.spare.push(batch);
    }

    /// Adds a packet to what leaves by an output.
    #[inline]
    pub fn emit(&mut self, id: ElementId, port: usize, packet: Packet) {
        let Some(edge) = self.output_edge(id, port) else {
            self.runtime.pool.kill(packet);
            return;
        };
        let open = self.open[edge as usize] as usize;
        let mut packet = packet;
        if open > 0 {
            let batch = &mut self.stack[open - 1].batch;
            match batch.push(packet) {
                Ok(()) => {
                    if batch.len() >= self.limit {
                        self.open[edge as usize] = 0;
                    }
                    return;
                }
                Err(back) => packet = back,
            }
        }
        let mut batch = self.batch();
        if let Err(packet) = batch.push(packet) {
            self.runtime.pool.kill(packet);
        }
        self.stack.push(Parcel::new(edge, batch));
        self.open[edge as usize] = if self.limit > 1 {
            self.stack.len() as u32
        } else {
            0
        };
    }

    /// Sends a whole batch out by an output.
    pub fn send(&mut self, id: ElementId, port: usize, batch: Box<Batch>) {
        match self.output_edge(id, port) {
            Some(edge) if !batch.is_empty() => {
                // What comes after this batch may not overtake it.
                self.open[edge as usize] = 0;
                self.stack.push(Parcel::new(edge, batch));
            }
            _ => self.put_back(batch),
        }
    }

    /// Puts what was emitted since the stack stood at `base` in the order in which it is to be
    /// taken off.
    fn seal(&mut self, base: usize) {
        let emitted = &mut self.stack[base..];
        for parcel in emitted.iter() {
            self.open[parcel.left_by as usize] = 0;
        }
        if self.limit > 1 {
            emitted.sort_by_key(|parcel| parcel.left_by);
        }
        emitted.reverse();
    }

    /// Works off what is on the stack above `base`, and all that comes of it.
    pub fn run_stack(&mut self, base: usize) {
        self.seal(base);
        while self.stack.len() > base {
            if let Some(parcel) = self.stack.pop() {
                self.walk(parcel);
            }
        }
    }

    pub fn stack_height(&self) -> usize {
        self.stack.len()
    }

    /// Takes a batch along the graph until it is used up or has to wait for what an element
    /// emitted beside it.
    fn walk(&mut self, parcel: Parcel) {
        let outer = self.current;
        if let Some(batch) = self.walk_on(parcel) {
            self.put_back(batch);
        }
        self.enter(outer);
    }

    /// Does so, and returns the batch unless it waits.
    #[inline]
    fn walk_on(&mut self, parcel: Parcel) -> Option<Box<Batch>> {
        let Parcel {
            mut edge,
            mut batch,
            ..
        } = parcel;
        loop {
            while self.outputs[edge as usize].shortcut != 0
                && let Some(exit) = self.take_shortcut(edge, &mut batch)
            {
                edge = exit;
            }
            let output = &mut self.outputs[edge as usize];
            output.packets = output.packets.wrapping_add(batch.len() as u64);
            let tree = output.shortcut;
            let Some((id, port)) = output.target() else {
                if output.element == CROSSING {
                    let number = output.port as usize;
                    self.cross(number, &mut batch);
                }
                return Some(batch);
            };
            let base = self.stack.len();
            let sorted = match tree & TREE {
                0 => None,
                _ => self.sort((tree ^ TREE) as usize, &mut batch),
            };
            let next = sorted.or_else(|| self.push(id, port, &mut batch));
            let next = next.filter(|next| *next != NONE && !batch.is_empty());
            if self.stack.len() > base {
                self.seal(base);
                let Some(edge) = next else {
                    return Some(batch);
                };
                // Emitted packets go first, as Click's elements send copies before they
                // return the packet itself.
                self.stack.insert(base, Parcel::new(edge, batch));
                return None;
            }
            match next {
                Some(next) => edge = next,
                None => return Some(batch),
            }
        }
    }

    /// Pushes a batch into an element; returns by which edge what is left in it goes on.
    #[inline(always)]
    fn push(&mut self, id: ElementId, port: usize, batch: &mut Batch) -> Option<u32> {
        let mut element = self.elements[id.index()].take()?;
        self.enter(id.0 + 1);
        let out = element.push(&mut Cx { core: self, id }, port, batch);
        // Its slot was empty: nothing is there to be dropped.
        core::mem::forget(self.elements[id.index()].replace(element));
        self.output_edge(id, out)
    }

    /// Takes packets along a shortcut; returns the edge behind it. `None` if the batch, or what is
    /// left in it, has to go from element to element. What cannot come along follows on the stack.
    #[inline]
    fn take_shortcut(&mut self, edge: u32, batch: &mut Box<Batch>) -> Option<u32> {
        let number = self.outputs[edge as usize].shortcut as usize;
        let shortcut = self.shortcuts.list.get_mut(number.wrapping_sub(1))?;
        if shortcut.needs.without(batch.facts()) != Facts::NONE {
            return None;
        }
        let (keeps, learns) = (shortcut.keeps, shortcut.learns);
        let spare = &mut self.spare;
        let ahead = &mut self.ahead;
        let rest = batch.edit(&shortcut.plan, keeps, learns, ahead, || {
            spare.pop().unwrap_or_default()
        });
        if let Some(mut rest) = rest {
            if batch.is_empty() {
                core::mem::swap(batch, &mut rest);
                self.spare.push(rest);
                return None;
            }
            self.stack.push(Parcel::new(edge, rest));
        }
        shortcut.packets += batch.len() as u64;
        Some(shortcut.exit)
    }

    /// Fills `batch` by pulling from what an element's input is connected to.
    #[inline]
    pub fn pull(&mut self, id: ElementId, port: usize, batch: &mut Batch, most: usize) {
        let most = most.min(BATCH);
        let Some(edge) = self.input_edge(id, port) else {
            return;
        };
        let Some((from, out)) = self.inputs[edge as usize].target() else {
            return;
        };
        let Some(mut element) = self.elements[from.index()].take() else {
            return;
        };
        let outer = self.enter(from.0 + 1);
        element.pull(
            &mut Cx {
                core: self,
                id: from,
            },
            out,
            batch,
            most,
        );
        self.enter(outer);
        self.elements[from.index()] = Some(element);
        if let Some((_, input, most)) = self.through.take_if(|(id, ..)| *id == from) {
            self.pull_through(from, out, input, batch, most);
        }
        self.inputs[edge as usize].packets += batch.len() as u64;
    }

    /// Goes on with a pull from output `out` of an element that left it to the router. A path that
    /// leads in a circle gives nothing.
    #[inline(never)]
    fn pull_through(
        &mut self,
        id: ElementId,
        out: usize,
        input: usize,
        batch: &mut Batch,
        most: usize,
    ) {
        if self.passing.contains(&(id, out)) {
            return;
        }
        self.passing.push((id, out));
        self.pull(id, input, batch, most);
        self.passing.pop();
        if !batch.is_empty() {
            self.with(id, |element, cx| element.pulled(cx, out, batch));
        }
    }

    /// Lets an element work with everything around it. `None` if it is at work already.
    pub fn with<R>(
        &mut self,
        id: ElementId,
        work: impl FnOnce(&mut dyn Element, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        let mut element = self.elements.get_mut(id.index())?.take()?;
        let outer = self.enter(id.0 + 1);
        let result = work(element.as_mut(), &mut Cx { core: self, id });
        self.enter(outer);
        self.elements[id.index()] = Some(element);
        Some(result)
    }

    /// Runs the next task; `None` if none is scheduled, else whether it did something.
    pub fn run_task(&mut self) -> Option<bool> {
        if !self.shortcuts.known {
            self.find_shortcuts();
        }
        let task = self.tasks.start()?;
        let id = self.tasks.element(task);
        let base = self.stack.len();
        let mut worked = false;
        let began = self.begin_turn();
        loop {
            let ran = self.with(id, |element, cx| element.run_task(cx, task));
            self.run_stack(base);
            match ran {
                Some(Ran::More) => worked = true,
                Some(Ran::Worked) => {
                    worked = true;
                    break;
                }
                _ => break,
            }
            if self.run_count <= 0 {
                break;
            }
        }
        if let Some(began) = began {
            let taken = self.runtime.embedding.steady().since(began);
            self.tasks.took(task, taken);
        }
        self.tasks.finish(worked);
        Some(worked)
    }

    /// The time, if the turn of a task that starts now is to be measured.
    #[inline]
    fn begin_turn(&mut self) -> Option<Steady> {
        (self.measured && self.tasks.measures()).then(|| self.runtime.embedding.steady())
    }

    /// Runs a timer that expired.
    pub fn run_timer(&mut self, timer: TimerId) {
        let id = self.timers.element(timer);
        let base = self.stack.len();
        self.with(id, |element, cx| element.run_timer(cx, timer));
        self.run_stack(base);
    }

    #[inline]
    pub fn set_signal(&mut self, id: SignalId, active: bool) {
        if self.signals.set(id, active) {
            self.tell(id);
        }
    }

    /// Wakes whoever waits for a signal that became active. Signals in a circle stop where one is
    /// active already.
    fn tell(&mut self, id: SignalId) {
        let mut told = 0;
        for task in self.signals.told(id).0 {
            self.tasks.schedule(*task);
        }
        while let Some(&dependent) = self.signals.told(id).1.get(told) {
            self.set_signal(dependent, true);
            told += 1;
        }
    }

    /// Schedules the tasks whose device has something for them.
    pub fn check_devices(&mut self) {
        let mut i = 0;
        while let Some(&(device, receive, task)) = self.armed.get(i) {
            let device = &mut self.runtime.devices[device].device;
            let ready = if receive {
                device.has_received()
            } else {
                device.room() > 0
            };
            if ready {
                self.armed.swap_remove(i);
                self.tasks.schedule(task);
            } else {
                i += 1;
            }
        }
    }

    pub fn config(&self, id: ElementId) -> &str {
        match &self.configs[id.index()] {
            Some(config) => config,
            None => &self.graph.info(id).config,
        }
    }

    pub fn name(&self, id: ElementId) -> &str {
        &self.graph.info(id).name
    }

    pub fn device(&mut self, name: &str, side: Side) -> Option<usize> {
        let known = |opened: &Opened| opened.name == name && opened.side == side;
        if let Some(at) = self.runtime.devices.iter().position(known) {
            return Some(at);
        }
        let device = self.runtime.embedding.device(name, side)?;
        self.runtime.devices.push(Opened {
            name: name.to_string(),
            side,
            device,
        });
        Some(self.runtime.devices.len() - 1)
    }
}
