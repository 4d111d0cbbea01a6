//! The loop of the walk: batches pushed into elements and pulled from them, tasks and timers.

use packet::BATCH;

use super::{Cx, Engine};
use crate::embedding::Steady;
use crate::prelude::*;
use crate::scheduler::task::{Pull, Ran, TaskId};
use crate::scheduler::timer::TimerId;
use crate::walk::edges::InputEdgeId;
use crate::walk::numbers::{EdgeId, Pushed};
use crate::walk::{Pending, PullThrough};

/// Turns of tasks after which the clock is read again for elements that accept a recent time.
const RECENT: usize = 16;
/// Most timers that run in one round: one that is due again at once waits for the next round.
const TIMERS: usize = 64;

/// Push.
impl Engine {
    /// Delivers the batches on the stack above `base`, and all that follow from them.
    pub fn run_stack(&mut self, base: usize) {
        self.walk.seal(base);
        while let Some(pending) = self.walk.pop(base) {
            self.walk(pending);
        }
    }

    /// Walks a batch along the graph until it is used up, or has to wait for packets that an
    /// element emitted beside it.
    fn walk(&mut self, pending: Pending) {
        let outer = self.elements.current();
        if let Some(batch) = self.walk_on(pending) {
            self.put_back(batch);
        }
        self.elements.set_current(outer);
    }

    /// As [`walk`](Self::walk); returns the batch unless it waits.
    #[inline]
    fn walk_on(&mut self, pending: Pending) -> Option<Box<Batch>> {
        let Pending {
            mut edge,
            mut batch,
            ..
        } = pending;
        loop {
            while self.walk.edges[edge].optimization.is_some()
                && let Some(exit) = self.walk.take_path(edge, &mut batch)
            {
                edge = exit;
            }
            let output = &mut self.walk.edges[edge];
            output.packets = output.packets.wrapping_add(batch.len() as u64);
            let optimization = output.optimization;
            let Some((id, port)) = output.target.as_port() else {
                if let Some(ring) = output.target.as_ring() {
                    self.hand_off(ring, &mut batch);
                }
                return Some(batch);
            };
            let base = self.walk.height();
            let classified = match optimization.as_tree() {
                None => None,
                Some(tree) => self.walk.classify(&mut self.runtime.pool, tree, &mut batch),
            };
            let next = classified.or_else(|| self.push(id, port, &mut batch));
            let next = next.filter(|next| !next.is_none() && !batch.is_empty());
            if self.walk.height() > base {
                self.walk.seal(base);
                let Some(edge) = next else {
                    return Some(batch);
                };
                // Emitted packets go first, as Click's elements send copies before they
                // return the packet itself.
                self.walk.insert(base, Pending::new(edge, batch));
                return None;
            }
            match next {
                Some(next) => edge = next,
                None => return Some(batch),
            }
        }
    }

    /// Pushes a batch into an element; returns the edge by which the rest of it goes on.
    #[inline(always)]
    fn push(&mut self, id: ElementId, port: usize, batch: &mut Batch) -> Option<EdgeId> {
        let (mut element, _) = self.elements.lend(id)?;
        let pushed = element.push(&mut Cx { engine: self, id }, port, batch);
        self.elements.restore(id, element);
        self.walk.edge_of(id, Pushed::from_raw(pushed))
    }
}

/// Pull.
impl Engine {
    /// Fills `batch` by pulling from the output that an element's input is connected to.
    #[inline]
    pub fn pull(&mut self, id: ElementId, port: usize, batch: &mut Batch, most: usize) {
        let Some(edge) = self.walk.edges.input(id, port) else {
            return;
        };
        match self.pull_by(edge, batch, most.min(BATCH)) {
            Some(through) => self.pull_beyond(edge, through, batch),
            None => self.walk.edges[edge].packets += batch.len() as u64,
        }
    }

    /// Continues a pull by an edge whose element left it to the router. Most often the next element up gives
    /// packets itself.
    #[inline]
    fn pull_beyond(&mut self, edge: InputEdgeId, through: PullThrough, batch: &mut Batch) {
        if let Some(up) = self.walk.edges.input(through.element(), through.input()) {
            if let Some(through) = self.pull_by(up, batch, through.most()) {
                return self.pull_through(Some(edge), up, through, batch);
            }
            self.walk.edges[up].packets += batch.len() as u64;
        }
        if let Some((edge, through)) = self.give_pulled(edge, batch) {
            self.pull_through(None, edge, through, batch);
        }
    }

    /// Pulls from the element that an input edge leads to; returns the rest of the pull if the
    /// element left it to the router.
    #[inline]
    fn pull_by(
        &mut self,
        edge: InputEdgeId,
        batch: &mut Batch,
        most: usize,
    ) -> Option<PullThrough> {
        let (from, port) = self.walk.edges[edge].target.as_port()?;
        let (mut element, outer) = self.elements.lend(from)?;
        let cx = &mut Cx {
            engine: self,
            id: from,
        };
        element.pull(cx, port, batch, most);
        self.elements.give_back(from, element, outer);
        let through = &mut self.walk.pull_through;
        through.take_if(|through| through.element() == from)
    }

    /// Continues a pull by an edge whose element left it to the router: goes up the path to the first
    /// element that gives packets itself, and back with them, and up again where an element asks for
    /// more. A path that leads in a circle gives nothing. `outer`: the edge by which packets were being pulled
    /// already.
    #[inline(never)]
    fn pull_through(
        &mut self,
        outer: Option<InputEdgeId>,
        edge: InputEdgeId,
        through: PullThrough,
        batch: &mut Batch,
    ) {
        let base = self.walk.pulling.len();
        if let Some(outer) = outer {
            self.walk.edges.set_pulling(outer, true);
            self.walk.pulling.push(outer);
        }
        let mut next = Some((edge, through));
        loop {
            while let Some((edge, through)) = next.take() {
                if self.walk.edges.set_pulling(edge, true) {
                    break;
                }
                self.walk.pulling.push(edge);
                let Some(edge) = self.walk.edges.input(through.element(), through.input()) else {
                    break;
                };
                let most = through.most();
                match self.pull_by(edge, batch, most) {
                    Some(through) => next = Some((edge, through)),
                    None => self.walk.edges[edge].packets += batch.len() as u64,
                }
            }
            if self.walk.pulling.len() == base {
                break;
            }
            let Some(edge) = self.walk.pulling.pop() else {
                break;
            };
            self.walk.edges.set_pulling(edge, false);
            next = self.give_pulled(edge, batch);
        }
    }

    /// Gives packets that were pulled for it to the element that left a pull by an edge to the router; returns how
    /// it goes on, if it asks for more.
    #[inline]
    fn give_pulled(
        &mut self,
        edge: InputEdgeId,
        batch: &mut Batch,
    ) -> Option<(InputEdgeId, PullThrough)> {
        if let Some((from, port)) = self.walk.edges[edge].target.as_port() {
            let height = self.walk.height();
            self.with(from, |element, cx| element.pulled(cx, port, batch));
            let through = &mut self.walk.pull_through;
            let again = through.take_if(|through| through.element() == from);
            // What an element pushes goes before what it pulled, unless the puller is at work.
            if self.walk.height() > height && self.elements.is_idle() {
                self.run_stack(height);
            }
            if let Some(again) = again {
                debug_assert!(batch.is_empty(), "an element keeps what it asks more to");
                return Some((edge, again));
            }
        }
        self.walk.edges[edge].packets += batch.len() as u64;
        None
    }
}

/// Tasks and timers.
impl Engine {
    /// Runs at most `most` tasks, then the timers that expired if `timers` says so.
    pub fn run(&mut self, most: usize, timers: impl FnOnce(&mut Engine) -> bool) {
        self.scheduler.check_devices(&mut self.runtime.devices);
        self.scheduler.turns = most;
        for run in 0.. {
            let Some(left) = self.scheduler.turns.checked_sub(1) else {
                break;
            };
            if self.threads.is_blocked() {
                break;
            }
            self.scheduler.turns = left;
            if run % RECENT == 0 {
                self.scheduler.forget_recent();
            }
            match self.run_task() {
                Some(true) => {}
                Some(false) if self.scheduler.tasks.len() > 1 => {}
                _ => break,
            }
            if self.driver.run_count <= 0 {
                break;
            }
        }
        if self.driver.run_count > 0 && timers(self) {
            self.run_timers();
        }
    }

    /// Nanoseconds since the first timer expired; `None` if none has.
    pub fn lateness(&mut self) -> Option<u64> {
        let next = self.scheduler.timers.next()?;
        let now = self.runtime.embedding.steady();
        (next <= now).then(|| now.since(next))
    }

    /// Runs the next task; `None` if none is scheduled, else whether it did something.
    fn run_task(&mut self) -> Option<bool> {
        if !self.optimizer.is_valid() {
            self.optimize();
        }
        let task = self.scheduler.tasks.start()?;
        let id = self.scheduler.tasks.element(task);
        let base = self.walk.height();
        let mut worked = false;
        let began = self.scheduler.begin_turn(&*self.runtime.embedding);
        let mut ran = match self.scheduler.tasks.take_first_pull(task) {
            Some(pull) => Some(Ran::Pull(pull)),
            None => self.with(id, |element, cx| element.run_task(cx, task)),
        };
        loop {
            while let Some(Ran::Pull(pull)) = ran {
                ran = self.pull_for(id, task, pull, base);
            }
            // First, since the code below may change it.
            if let Some(Ran::Again(pull)) = ran {
                self.scheduler.tasks.begin_with_pull(task, pull);
            }
            self.run_stack(base);
            match ran {
                Some(Ran::More) => worked = true,
                Some(Ran::Worked | Ran::Again(_)) => {
                    worked = true;
                    break;
                }
                _ => break,
            }
            if self.threads.is_blocked() {
                self.scheduler.tasks.schedule(task);
                break;
            }
            if self.driver.run_count <= 0 {
                break;
            }
            ran = self.with(id, |element, cx| element.run_task(cx, task));
        }
        if let Some(began) = began {
            let taken = self.runtime.embedding.steady().since(began);
            self.scheduler.tasks.took(task, taken);
        }
        self.scheduler.tasks.finish(worked);
        Some(worked)
    }

    /// Pulls for a task, and runs it with the packets that came.
    #[inline]
    fn pull_for(&mut self, id: ElementId, task: TaskId, pull: Pull, base: usize) -> Option<Ran> {
        let mut batch = self.walk.batch();
        self.pull(id, pull.port.into(), &mut batch, pull.most.into());
        // Packets pushed during the pull go first.
        if self.walk.height() > base {
            self.run_stack(base);
        }
        self.walk.pulled = Some(batch);
        let ran = self.with(id, |element, cx| element.run_task(cx, task));
        if let Some(left) = self.walk.pulled.take() {
            self.put_back(left);
        }
        ran
    }

    fn run_timers(&mut self) {
        if self.scheduler.timers.next().is_none() {
            return;
        }
        let now: Steady = self.runtime.embedding.steady();
        for _ in 0..TIMERS {
            if self.threads.is_blocked() {
                return;
            }
            match self.scheduler.timers.expired(now) {
                Some(timer) => self.run_timer(timer),
                None => return,
            }
        }
        // There are very many, or some expire again at once: then each of the others has its turn.
        let mut expired = self.scheduler.timers.all_expired(now);
        while !self.threads.is_blocked()
            && self.driver.run_count > 0
            && let Some(one) = expired.next()
        {
            if let Some(timer) = self.scheduler.timers.claim(&one) {
                self.run_timer(timer);
            }
        }
        self.scheduler.timers.put_back(expired);
    }

    fn run_timer(&mut self, timer: TimerId) {
        let id = self.scheduler.timers.element(timer);
        if self.driver.is_halted(id) {
            return;
        }
        self.with_delivery(id, |element, cx| element.run_timer(cx, timer));
    }
}
