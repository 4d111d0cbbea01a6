//! The driver: whether the router goes on. Each configuration of a router has a run count of its own,
//! and an element that is asked before it stops.

use click::configurations::Part;

use super::Engine;
use super::element::DriverHook;
use crate::prelude::*;

/// What decides whether one configuration goes on.
#[derive(Clone, Copy)]
struct Run {
    /// It runs while this is above 0.
    count: i32,
    /// The element that is asked before it stops.
    manager: Option<ElementId>,
    /// It has stopped: its tasks and timers run no more.
    halted: bool,
}

/// What decides whether the router goes on.
pub(crate) struct Driver {
    /// The least run count of the configurations that have not stopped. At 0 or below, one of them is
    /// to stop.
    pub run_count: i32,
    /// By configuration.
    runs: Vec<Run>,
    /// The first element of each configuration that has any, in order, and its number.
    first: Vec<(usize, usize)>,
}

impl Driver {
    /// The driver of a graph of these parts.
    pub fn new(parts: &[Part]) -> Driver {
        let run = Run {
            count: 1,
            manager: None,
            halted: false,
        };
        let elements = parts.iter().map(|part| &part.elements).enumerate();
        let elements = elements.filter(|(_, elements)| !elements.is_empty());
        let mut first: Vec<_> = elements.map(|(at, it)| (it.start, at)).collect();
        first.sort_unstable();
        Driver {
            run_count: 1,
            runs: alloc::vec![run; parts.len()],
            first,
        }
    }

    /// Takes over the run counts of another driver's configurations; `same` has the number of each here, and there.
    pub fn go_on_as(&mut self, old: &Driver, same: &[(usize, usize)]) {
        for (here, there) in same {
            self.runs[*here] = old.runs[*there];
        }
        self.settle();
    }

    /// The driver of another thread of the same router.
    pub fn of_thread(&self) -> Driver {
        let run = |run: &Run| Run { count: 1, ..*run };
        let mut driver = Driver {
            run_count: 1,
            runs: self.runs.iter().map(run).collect(),
            first: self.first.clone(),
        };
        driver.settle();
        driver
    }

    /// The configuration of an element.
    fn part_of(&self, id: ElementId) -> usize {
        let behind = (self.first).partition_point(|(first, _)| *first <= id.index());
        let part = behind.checked_sub(1).and_then(|at| self.first.get(at));
        part.map_or(0, |(_, part)| *part)
    }

    fn settle(&mut self) {
        let going = self.runs.iter().filter(|run| !run.halted);
        self.run_count = going.map(|run| run.count).min().unwrap_or(0);
    }

    /// The run count of an element's configuration.
    pub fn count_of(&self, id: ElementId) -> i32 {
        self.runs[self.part_of(id)].count
    }

    /// Sets the run count of an element's configuration.
    pub fn set_count_of(&mut self, id: ElementId, count: i32) {
        let part = self.part_of(id);
        self.runs[part].count = count;
        self.settle();
    }

    /// Changes the run counts of all configurations.
    pub fn change_all(&mut self, change: impl Fn(i32) -> i32) {
        for run in &mut self.runs {
            run.count = change(run.count);
        }
        self.settle();
    }

    /// Makes an element the manager of its configuration. False if another is.
    pub fn manage(&mut self, id: ElementId) -> bool {
        let part = self.part_of(id);
        *self.runs[part].manager.get_or_insert(id) == id
    }

    /// Whether an element's configuration has stopped.
    pub fn is_halted(&self, id: ElementId) -> bool {
        self.runs[self.part_of(id)].halted
    }

    /// The configurations that have stopped: a bit for each, from the first on.
    pub fn halted(&self) -> u64 {
        let bits = self.runs.iter().enumerate();
        bits.fold(0, |bits, (i, run)| bits | u64::from(run.halted) << i)
    }

    /// The configurations that are to stop.
    fn stopping(&self) -> Vec<usize> {
        let runs = self.runs.iter().enumerate();
        let stopping = runs.filter(|(_, run)| !run.halted && run.count <= 0);
        stopping.map(|(part, _)| part).collect()
    }

    /// Notes that configurations, a bit for each, have stopped.
    fn note_halted(&mut self, halted: u64) {
        for (i, run) in self.runs.iter_mut().enumerate() {
            run.halted |= halted >> i & 1 != 0;
        }
        self.settle();
    }
}

impl Engine {
    /// Asks the elements that manage the configurations that are to stop whether they go on. One that
    /// does not is halted; if all are, the router is to stop. The router is whole.
    pub fn goes_on(&mut self) -> bool {
        for part in self.driver.stopping() {
            if let Some(manager) = self.driver.runs[part].manager {
                let base = self.walk.height();
                if let Some(link) = self.link::<dyn DriverHook>(manager) {
                    self.reach(link, |element, cx| element.driver_stopped(cx));
                }
                self.run_stack(base);
            }
            // One alone may be asked to go on later.
            if self.driver.runs[part].count <= 0 && self.driver.runs.len() > 1 {
                self.halt(1 << part);
            }
        }
        self.driver.run_count > 0
    }

    /// Halts configurations, a bit for each: their tasks and timers do not run, but their handlers can be called. The
    /// router is whole.
    pub fn halt(&mut self, parts: u64) {
        self.driver.note_halted(parts);
        let own = self.threads.partition.as_mut();
        for other in own.into_iter().flat_map(|own| &mut own.others) {
            other.driver.note_halted(parts);
        }
        let driver = &self.driver;
        let tasks = &mut self.scheduler.tasks;
        for task in tasks.list() {
            if driver.is_halted(tasks.element(task)) {
                tasks.unschedule(task);
                tasks.set_share(task, 0);
            }
        }
        for (timer, element) in self.scheduler.timers.list() {
            if driver.is_halted(element) {
                self.scheduler.timers.unschedule(timer);
            }
        }
    }

    /// Halts the configurations that are halted in an earlier router and are the same here.
    pub fn halt_as(&mut self, old: &Engine) {
        let parts = self.graph.parts.iter().enumerate();
        let same = parts.filter(|(at, part)| {
            let was = old.graph.parts.iter().position(|was| was.name == part.name);
            was.is_some_and(|was| {
                old.driver.runs[was].halted && self.graph.same_part(*at, &old.graph, was)
            })
        });
        let halted = same.fold(0, |bits, (at, _)| bits | 1 << at);
        if halted != 0 {
            self.halt(halted);
        }
    }
}
