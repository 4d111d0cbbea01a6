//! Tasks: work that elements start by themselves, scheduled by tickets.
//!
//! The scheduler is a stride scheduler, as Click's: each task advances a pass by a stride that is
//! inverse to its tickets, and the task with the lowest pass runs next. Few tasks are scheduled
//! at a time, so the run queue is a deque that is kept in order.

use alloc::collections::VecDeque;

use crate::prelude::*;

/// A task of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskId(pub(crate) u32);

/// What a task did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// There was nothing to do.
    Nothing,
    /// It did something.
    Worked,
    /// It did something, and runs again as soon as the packets that it sent are delivered: its
    /// burst is not finished.
    More,
    /// It wants packets. It runs again at once, and finds them by [`Cx::pulled`](crate::Cx::pulled).
    ///
    /// Unlike with [`Cx::pull`](crate::Cx::pull), the element is not at work meanwhile: what calls
    /// handlers on the packets' way can read and write its own.
    Pull(Pull),
    /// It did something, and is scheduled again. Its next run begins with the packets that it asks for here, unless
    /// a handler of it is written before: then it begins with nothing, as any run.
    Again(Pull),
}

/// A task's request for packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pull {
    /// The input.
    pub port: u16,
    /// Most packets.
    pub most: u16,
}

impl Ran {
    /// [`Ran::Worked`] if `worked`.
    pub fn worked(worked: bool) -> Ran {
        if worked { Ran::Worked } else { Ran::Nothing }
    }
}

/// Tickets of a task that was given none.
pub const TICKETS: u32 = 1024;
/// Most tickets.
pub const TICKETS_MAX: u32 = 32768;
const STRIDE_ONE: u32 = 1 << 16;

#[derive(Clone, Copy)]
struct Task {
    element: ElementId,
    tickets: u32,
    /// What a run adds to the pass.
    stride: u32,
    pass: u32,
    scheduled: bool,
    /// It is on another thread, or on none: it may be scheduled, but is not queued.
    away: bool,
    /// The thread that it is assigned to; with [`NO_THREAD`] it never runs.
    thread: i32,
    /// Nanoseconds that a run takes, on average; 0 if that is not measured.
    cost: u32,
    /// What the next run begins with, if no handler was written since: see [`Tasks::changes`].
    first_pull: Option<(Pull, u32)>,
}

/// The thread of a task that is not to run.
pub const NO_THREAD: i32 = -1;

/// One run in this many is measured.
const MEASURED: u32 = 32;

/// Every task of a router, and the run queue.
#[derive(Default)]
pub(crate) struct Tasks {
    tasks: Vec<Task>,
    queue: VecDeque<TaskId>,
    /// The task that runs: off the queue, even if it schedules itself.
    running: Option<TaskId>,
    runs: u32,
    /// Times that an element was changed from outside.
    changes: u32,
    /// The pass of new tasks.
    first_pass: u32,
    /// Free numbers, the next to use at the end.
    reused: Vec<TaskId>,
}

fn stride(tickets: u32) -> u32 {
    // One of a configuration that was halted has no tickets any more.
    STRIDE_ONE / tickets.max(1)
}

fn after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

impl Tasks {
    pub fn add(&mut self, element: ElementId, thread: i32) -> TaskId {
        let task = Task {
            element,
            tickets: TICKETS,
            stride: stride(TICKETS),
            pass: self.first_pass,
            scheduled: false,
            away: thread == NO_THREAD,
            thread,
            cost: 0,
            first_pull: None,
        };
        if let Some(id) = self.reused.pop() {
            *self.task_mut(id) = task;
            return id;
        }
        self.tasks.push(task);
        TaskId(self.tasks.len() as u32 - 1)
    }

    /// Tasks for a router that replaces this one. The tasks of elements that stay keep their
    /// numbers, and are absent until they are [transferred](Self::transfer). The other numbers are
    /// free, until [`settle`](Self::settle).
    pub fn reserve(&self, stays: impl Fn(ElementId) -> bool) -> Tasks {
        let reserve = |task: &Task| Task {
            element: match stays(task.element) {
                true => task.element,
                false => ElementId::NONE,
            },
            scheduled: false,
            away: true,
            first_pull: None,
            ..*task
        };
        let tasks: Vec<Task> = self.tasks.iter().map(reserve).collect();
        let numbers = (0..tasks.len() as u32).rev();
        let is_free = |at: &u32| tasks[*at as usize].element == ElementId::NONE;
        let front = self.queue.front();
        Tasks {
            first_pass: front.map_or(0, |id| self.task(*id).pass),
            reused: numbers.filter(is_free).map(TaskId).collect(),
            tasks,
            ..Tasks::default()
        }
    }

    /// Uses no number again from now on: the router is complete, and may be divided among threads.
    pub fn settle(&mut self) {
        self.reused = Vec::new();
    }

    fn task(&self, id: TaskId) -> &Task {
        &self.tasks[id.0 as usize]
    }

    fn task_mut(&mut self, id: TaskId) -> &mut Task {
        &mut self.tasks[id.0 as usize]
    }

    pub fn element(&self, id: TaskId) -> ElementId {
        self.task(id).element
    }

    pub fn of(&self, element: ElementId) -> Option<TaskId> {
        let at = self.tasks.iter().position(|task| task.element == element)?;
        Some(TaskId(at as u32))
    }

    pub fn scheduled(&self, id: TaskId) -> bool {
        self.task(id).scheduled
    }

    pub fn tickets(&self, id: TaskId) -> u32 {
        self.task(id).tickets
    }

    pub fn set_tickets(&mut self, id: TaskId, tickets: u32) {
        self.set_share(id, tickets.clamp(1, TICKETS_MAX));
    }

    /// Gives a task its first share: with none, it is never scheduled.
    pub fn set_share(&mut self, id: TaskId, tickets: u32) {
        let task = self.task_mut(id);
        (task.tickets, task.stride) = (tickets, stride(tickets));
    }

    pub fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    pub fn len(&self) -> usize {
        self.queue.len()
    }

    #[inline]
    pub fn schedule(&mut self, id: TaskId) {
        let running = self.running;
        let task = self.task_mut(id);
        if task.tickets == 0 {
            return;
        }
        let queued = core::mem::replace(&mut task.scheduled, true) || task.away;
        if queued || running == Some(id) {
            return;
        }
        // A task that runs is the front, though it is off the queue.
        if let Some(front) = self.running.or_else(|| self.queue.front().copied()) {
            self.task_mut(id).pass = self.task(front).pass;
        }
        self.insert(id);
    }

    pub fn unschedule(&mut self, id: TaskId) {
        if core::mem::take(&mut self.task_mut(id).scheduled) && self.running != Some(id) {
            self.queue.retain(|queued| *queued != id);
        }
    }

    /// Puts a task behind all whose pass is not after its own.
    #[inline]
    fn insert(&mut self, id: TaskId) {
        let pass = self.task(id).pass;
        let is_behind = |queued: TaskId| !after(self.task(queued).pass, pass);
        match self.queue.back() {
            Some(&last) if !is_behind(last) => {
                let behind = self.queue.iter().rposition(|&queued| is_behind(queued));
                self.queue.insert(behind.map_or(0, |at| at + 1), id);
            }
            // Most often it is the last, or the only one.
            _ => self.queue.push_back(id),
        }
    }

    /// Schedules a task that runs, whose next run begins with a pull.
    #[inline]
    pub fn begin_with_pull(&mut self, id: TaskId, pull: Pull) {
        self.schedule(id);
        self.task_mut(id).first_pull = Some((pull, self.changes));
    }

    /// The pull with which a run that starts now begins, if any.
    #[inline]
    pub fn take_first_pull(&mut self, id: TaskId) -> Option<Pull> {
        let (pull, changes) = self.task_mut(id).first_pull.take()?;
        (changes == self.changes).then_some(pull)
    }

    /// Discards the pulls with which tasks' next runs would begin: an element was changed.
    #[inline]
    pub fn forget_first_pulls(&mut self) {
        self.changes = self.changes.wrapping_add(1);
    }

    /// Takes the next task off the queue, to be run until [`finish`](Self::finish). It counts as
    /// unscheduled unless it is scheduled meanwhile.
    pub fn start(&mut self) -> Option<TaskId> {
        let id = self.queue.pop_front()?;
        self.task_mut(id).scheduled = false;
        self.running = Some(id);
        Some(id)
    }

    /// Charges the task that ran for its run, and puts it back if it is scheduled. One that had
    /// nothing to do is not run next, if there is another.
    #[inline]
    pub fn finish(&mut self, worked: bool) {
        let Some(id) = self.running.take() else {
            return;
        };
        let task = self.task_mut(id);
        let mut pass = task.pass.wrapping_add(task.stride);
        let scheduled = task.scheduled && !task.away && task.tickets > 0;
        let Some(&front) = self.queue.front() else {
            self.task_mut(id).pass = pass;
            if scheduled {
                self.queue.push_back(id);
            }
            return;
        };
        if !worked && after(self.task(front).pass, pass) {
            pass = self.task(front).pass;
        }
        self.task_mut(id).pass = pass;
        if scheduled {
            self.insert(id);
        }
    }

    /// Charges the task that runs for so many turns besides this one.
    #[inline]
    pub fn charge(&mut self, turns: u32) {
        if let Some(id) = self.running {
            let task = self.task_mut(id);
            task.pass = task.pass.wrapping_add(task.stride.wrapping_mul(turns));
        }
    }

    /// Every task, in the order of numbers.
    pub fn list(&self) -> alloc::vec::IntoIter<TaskId> {
        let all = (0..self.tasks.len() as u32).map(TaskId);
        let there = all.filter(|id| self.element(*id) != ElementId::NONE);
        there.collect::<Vec<_>>().into_iter()
    }

    /// The thread that a task is assigned to.
    pub fn thread(&self, id: TaskId) -> i32 {
        self.task(id).thread
    }

    /// Assigns a task to another thread; with [`NO_THREAD`] it does not run any more.
    pub fn set_thread(&mut self, id: TaskId, thread: i32) {
        self.task_mut(id).thread = thread;
        let away = thread == NO_THREAD;
        if away != self.task(id).away {
            self.task_mut(id).away = away;
            if self.task(id).scheduled && self.running != Some(id) {
                if away {
                    self.queue.retain(|queued| *queued != id);
                } else {
                    self.insert(id);
                }
            }
        }
    }

    /// Whether the run that starts now is measured.
    pub fn measures(&mut self) -> bool {
        self.runs = self.runs.wrapping_add(1);
        self.runs.is_multiple_of(MEASURED)
    }

    /// Records that a run of a task took `nanoseconds`.
    pub fn took(&mut self, id: TaskId, nanoseconds: u64) {
        let cost = &mut self.task_mut(id).cost;
        let taken = nanoseconds.min(u32::MAX.into());
        *cost = ((u64::from(*cost) * 7 + taken) / 8).max(1) as u32;
    }

    /// Nanoseconds that a run of a task takes, on average.
    pub fn cost(&self, id: TaskId) -> u32 {
        self.task(id).cost
    }

    /// Adds the tasks that only `other` knows, as tasks of another thread.
    pub fn add_missing(&mut self, other: &Tasks) {
        let tasks = other.tasks.iter().skip(self.tasks.len());
        let tasks = tasks.map(|task| Task {
            away: true,
            scheduled: false,
            first_pull: None,
            ..*task
        });
        self.tasks.extend(tasks);
    }

    /// Moves a task to the table of the thread that it is to run on.
    pub fn transfer(&mut self, id: TaskId, to: &mut Tasks) {
        let task = self.task_mut(id);
        let away = core::mem::replace(&mut task.away, true);
        let other = to.task_mut(id);
        *other = Task { away, ..*task };
        let scheduled = core::mem::take(&mut task.scheduled) && !away;
        if scheduled && self.running != Some(id) {
            self.queue.retain(|queued| *queued != id);
        }
        // One that runs at this moment is queued again when it has finished.
        if scheduled && to.running != Some(id) {
            to.insert(id);
        }
    }
}
