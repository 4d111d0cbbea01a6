use crate::prelude::*;

/// Drops every packet without releasing its buffer.
///
/// Use it only to measure the cost of making packets: when all buffers are used up, no packet can
/// be made or received. On a pull input it pulls as fast as it can.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 1000, STOP true) -> DiscardNoFree;
/// ```
///
/// # See also
/// Discard
#[derive(Element)]
#[element(ports = "1/0", task(when = self.pull.is_some()))]
pub struct DiscardNoFree {
    /// The task that pulls, if the input is pull, and the signal of packets upstream.
    pull: Option<(TaskId, Signal)>,
}

fn lose(batch: &mut Batch) {
    batch.drain().for_each(core::mem::forget);
}

impl Element for DiscardNoFree {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        if !cx.input_is_push(0) {
            let task = cx.task();
            cx.schedule(task);
            self.pull = Some((task, cx.upstream_signal(0, Some(task))));
        }
        Ok(())
    }

    #[inline]
    fn push(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        lose(batch);
        0
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, task: TaskId) -> Ran {
        let Some(mut batch) = cx.pulled() else {
            return Ran::Pull {
                port: 0,
                most: cx.limit() as u16,
            };
        };
        let worked = !batch.is_empty();
        lose(&mut batch);
        cx.done(batch);
        let more = self
            .pull
            .as_ref()
            .is_some_and(|(_, signal)| cx.is_active(signal));
        if worked || more {
            cx.schedule(task);
        }
        Ran::worked(worked)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn buffers_do_not_come_back() {
        let config = "i :: Inject -> DiscardNoFree; j :: Inject -> Queue -> d :: DiscardNoFree;";
        let mut rig = Rig::new(config);
        for n in 1..=3 {
            rig.push("i", &[1]);
            rig.push("j", &[1]);
            rig.run();
            assert_eq!(rig.outstanding(), 2 * n);
        }
        assert_eq!(rig.read("d.scheduled"), "false");
    }

    #[test]
    fn when_they_are_gone_nothing_is_made() {
        let config = "s :: InfiniteSource(BURST 64, LIMIT 20000) -> DiscardNoFree;";
        let mut rig = Rig::new(config);
        rig.run();
        assert_eq!(rig.read("s.count"), "16384");
    }
}
