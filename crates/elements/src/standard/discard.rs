use router::Queues;

use super::burst::Burst;
use crate::prelude::*;

/// Drops every packet, and counts them.
///
/// On a pull input it pulls as fast as it can, BURST packets each time its task runs.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 1000, STOP true) -> Discard;
/// ```
///
/// # See also
/// Idle
#[derive(Element)]
#[element(ports = "1/0", processing = "a", segments, handlers, task(when = list.pulls))]
pub struct Discard {
    /// Whether it pulls.
    #[arg(default = true, read, write, checkbox, when = self.pull.is_some(),
        error = "syntax error", then = wake)]
    active: bool,
    /// Most packets pulled each time; 0: no limit.
    #[arg(default = 1, read, when = self.pull.is_some())]
    burst: u32,
    /// Packets dropped.
    #[handler(read)]
    count: u64,
    /// The task that pulls, if the input is pull, and the signal of packets upstream.
    pull: Option<(TaskId, Signal)>,
    pulling: Burst,
}

impl Discard {
    fn wake(&mut self, cx: &mut Cx<'_>) {
        if let (true, Some((task, _))) = (self.active, &self.pull) {
            cx.schedule(*task);
        }
    }
}

#[handlers]
impl Discard {
    /// The argument BURST.
    #[write(when = self.pull.is_some(), with = Bounded(1, u32::MAX.into()),
        error = "‘burst’ takes an integer of 1 or more")]
    fn set_burst(&mut self, burst: u32) {
        self.burst = burst;
    }

    /// Sets `count` to 0.
    #[write(button)]
    fn reset_counts(&mut self) {
        self.count = 0;
    }
}

impl Element for Discard {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if !self.active && cx.input_is_push(0) {
            return Err(args.fail("ACTIVE is meaningless in push context"));
        }
        if self.burst == 0 {
            self.burst = u32::MAX;
        }
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        if !cx.input_is_push(0) {
            let task = cx.task();
            self.pull = Some((task, cx.upstream_signal(0, Some(task))));
            self.wake(cx);
        }
        Ok(())
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        self.count += cx.pool().recycle(batch);
        0
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, task: TaskId) -> Ran {
        let Some(mut batch) = cx.pulled() else {
            let size = if self.active { self.burst.into() } else { 0 };
            let turns = cx.turns(size, &Queues::default());
            return self.pulling.pull(cx, size.saturating_mul(turns));
        };
        let pulled = batch.len();
        cx.charge_turns((pulled as u64).div_ceil(u64::from(self.burst).max(1)));
        self.count += cx.pool().recycle(&mut batch);
        cx.done(batch);
        match &self.pull {
            Some((_, signal)) => self.pulling.goes_on(cx, pulled, task, signal),
            None => Ran::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn packets_are_counted_and_dropped() {
        let mut rig = Rig::new("i :: Inject -> d :: Discard;");
        rig.push("i", &[1]);
        rig.push("i", &[2]);
        assert_eq!((rig.read("d.count"), rig.outstanding()), ("2".into(), 0));
        rig.write("d.reset_counts", "");
        assert_eq!(rig.read("d.count"), "0");
        assert!(rig.try_read("d.active").is_err(), "it does not pull");
    }

    #[test]
    fn a_packet_counts_as_its_segments() {
        let mut rig = Rig::new("i :: Inject -> d :: Discard;");
        rig.push_segments("i", 3, |_| {});
        assert_eq!(rig.read("d.count"), "3");
    }

    #[test]
    fn it_pulls_while_it_is_active() {
        let config = "i :: Inject -> Queue -> d :: Discard(BURST 2, ACTIVE false);";
        let mut rig = Rig::new(config);
        for n in 0..5 {
            rig.push("i", &[n]);
        }
        rig.run();
        rig.assert_handlers(&[("d.count", "0"), ("d.burst", "2")]);
        rig.write("d.active", "true");
        rig.step();
        assert_eq!(rig.read("d.count"), "2");
        rig.write("d.burst", "9");
        rig.run();
        assert_eq!((rig.read("d.count"), rig.outstanding()), ("5".into(), 0));
        let refused = rig.try_write("d.burst", "0");
        assert_eq!(refused, Err("‘burst’ takes an integer of 1 or more".into()));
        let mut rig = Rig::new("i :: Inject -> Queue -> d :: Discard(BURST 0);");
        (0..5).for_each(|n| rig.push("i", &[n]));
        rig.step();
        assert_eq!(rig.read("d.count"), "5");
        let error = "ACTIVE is meaningless in push context";
        Rig::refuses("Idle -> Discard(ACTIVE false);", error);
    }
}
