//! The task of an element that pulls by itself.

use crate::prelude::*;

/// Pulls from input 0 as long as there are packets.
#[derive(Component)]
#[component(task(when = list.pulls))]
pub struct Puller {
    task: Option<TaskId>,
    signal: Signal,
}

impl Puller {
    /// Makes the task, if input 0 is pull.
    pub fn initialize(&mut self, cx: &mut Cx<'_>) {
        if cx.input_is_push(0) {
            return;
        }
        let task = cx.task();
        cx.schedule(task);
        self.task = Some(task);
        self.signal = cx.upstream_signal(0, Some(task));
    }

    /// Asks for a batch: the task's answer when it has none.
    pub fn pull(&self, cx: &Cx<'_>) -> Ran {
        Ran::Pull(Pull {
            port: 0,
            most: cx.limit() as u16,
        })
    }

    /// Runs the task again if there may be more after `count` packets.
    pub fn pulled(&self, cx: &mut Cx<'_>, count: usize) -> Ran {
        if let Some(task) = self.task
            && (count > 0 || cx.is_active(&self.signal))
        {
            cx.schedule(task);
        }
        Ran::worked(count > 0)
    }
}
