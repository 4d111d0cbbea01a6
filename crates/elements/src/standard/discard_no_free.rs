use crate::prelude::*;
use crate::pulls::puller::Puller;

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
#[element(ports = "1/0")]
pub struct DiscardNoFree {
    #[flatten]
    puller: Puller,
}

fn lose(batch: &mut Batch) {
    batch.drain().for_each(core::mem::forget);
}

impl Element for DiscardNoFree {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.puller.initialize(cx);
        Ok(())
    }

    #[inline]
    fn push(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        lose(batch);
        0
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, _task: TaskId) -> Ran {
        let Some(mut batch) = cx.pulled() else {
            return self.puller.pull(cx);
        };
        let pulled = batch.len();
        lose(&mut batch);
        cx.done(batch);
        self.puller.pulled(cx, pulled)
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
