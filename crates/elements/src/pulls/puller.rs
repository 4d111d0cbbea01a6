//! The task of an element that pulls by itself.

use crate::prelude::*;

/// Pulls from input 0 as long as there are packets.
#[derive(Component)]
#[component(task(when = self.task.is_some()))]
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

    /// Pulls a batch. To be called from the task, and then [`pulled`](Self::pulled).
    pub fn pull(&self, cx: &mut Cx<'_>) -> Box<Batch> {
        let mut batch = cx.batch();
        let most = cx.limit();
        cx.pull(0, &mut batch, most);
        batch
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
