use router::Queues;

use super::burst::Burst;
use super::limit::Limit;
use crate::prelude::*;

/// Pulls packets and pushes them on, as fast as it can.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 1000) -> Queue -> Unqueue(BURST 8) -> Discard;
/// ```
///
/// # See also
/// RatedUnqueue, Queue
#[derive(Element)]
#[element(ports = "1/1", processing = "l/h", segments, handlers, task)]
pub struct Unqueue {
    /// Most packets each time it is scheduled; no limit if negative.
    #[arg(positional, default = 1, read = most, write, error = "syntax error", then = wake)]
    burst: i32,
    /// Whether it works.
    #[arg(default = true, read, write, checkbox, error = "syntax error", then = wake)]
    active: bool,
    /// Packets after which it stops; no limit if negative.
    #[arg(default_text = "-1", read, write, error = "syntax error", then = wake)]
    limit: Limit,
    /// Packets passed.
    #[handler(read)]
    count: u64,
    pulling: Burst,
    queues: Queues,
    task: Option<TaskId>,
    signal: Signal,
}

/// The packets that a BURST stands for.
fn most(burst: &i32) -> u64 {
    u64::try_from(*burst).unwrap_or(i32::MAX as u64)
}

impl Unqueue {
    /// Packets that the limit still allows.
    fn allowed(&self) -> u64 {
        self.limit.left(self.count)
    }

    /// Packets that the next burst may have.
    fn size(&self) -> u64 {
        match self.active {
            true => most(&self.burst).min(self.allowed()),
            false => 0,
        }
    }

    fn wake(&mut self, cx: &mut Cx<'_>) {
        if let (true, Some(task)) = (self.active && self.allowed() > 0, self.task) {
            cx.schedule(task);
        }
    }
}

#[handlers]
impl Unqueue {
    /// Sets `count` to 0.
    #[write(button)]
    fn reset(&mut self, cx: &mut Cx<'_>) {
        self.count = 0;
        self.wake(cx);
    }

    /// As `reset`.
    #[write(button, uncommon)]
    fn reset_counts(&mut self, cx: &mut Cx<'_>) {
        self.reset(cx);
    }
}

impl Element for Unqueue {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let task = cx.task();
        self.task = Some(task);
        if self.active {
            cx.schedule(task);
        }
        self.signal = cx.upstream_signal(0, Some(task));
        self.queues = cx.queues_behind(0);
        if self.burst == 0 {
            cx.warning("BURST size 0, no packets will be pulled");
        }
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, task: TaskId) -> Ran {
        let Some(batch) = cx.pulled() else {
            let size = self.size();
            let turns = cx.turns(size, &self.queues);
            let size = size.saturating_mul(turns).min(self.allowed());
            return self.pulling.pull(cx, size);
        };
        let pulled = batch.len();
        cx.charge_turns((pulled as u64).div_ceil(most(&self.burst).max(1)));
        self.count += pulled as u64;
        cx.push(0, batch);
        let size = self.size();
        match cx.most_turns(size, &self.queues) {
            1 => (self.pulling).repeats(cx, pulled, task, &self.signal, size),
            _ => (self.pulling).goes_on(cx, pulled, task, &self.signal),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn packets_pass_up_to_the_limit() {
        let config = "i :: Inject -> q :: Queue -> u :: Unqueue(BURST 2, LIMIT 3) -> c :: Collect;";
        let mut rig = Rig::new(config);
        for n in 0..5 {
            rig.push("i", &[n]);
        }
        rig.step();
        assert_eq!(rig.data("c"), [[0], [1]]);
        rig.run();
        assert_eq!((rig.data("c").len(), rig.read("u.count")), (1, "3".into()));
        rig.write("u.reset", "");
        rig.run();
        assert_eq!(rig.data("c"), [[3], [4]]);
    }

    #[test]
    fn what_is_written_holds_for_the_next_burst() {
        for batch in [1, 64] {
            let config = "i :: Inject -> Queue -> u :: Unqueue(BURST 2)
                -> s :: Script(TYPE PACKET, init n 0, set n $(add $n 1),
                    goto off $(eq $n 7), goto end $(ne $n 4), write u.burst 3, goto end,
                    label off, write u.active false, end) -> c :: Collect;";
            let mut rig = Rig::with_batch(config, batch);
            for n in 0..20 {
                rig.push("i", &[n]);
            }
            let mut left = Vec::new();
            for _ in 0..5 {
                rig.step();
                left.push(rig.data("c").len());
            }
            assert_eq!(left, [2, 2, 3, 0, 0], "{batch}");
            rig.write("u.active", "true");
            rig.step();
            assert_eq!(rig.data("c").len(), 3);
        }
    }

    #[test]
    fn its_handlers_can_be_called_where_packets_are_pulled() {
        for batch in [1, 64] {
            let config = "i :: Inject -> Queue
                -> Script(TYPE PACKET, print $(u.count), write u.limit 2, return 0)
                -> u :: Unqueue -> c :: Collect;";
            let mut rig = Rig::with_batch(config, batch);
            rig.push_all("i", &[vec![1], vec![2], vec![3]]);
            rig.run();
            assert_eq!(rig.printed(), ["0\n", "1\n"]);
            assert_eq!(rig.data("c"), [[1], [2]]);
        }
    }

    #[test]
    fn what_is_pushed_on_the_way_goes_first() {
        for batch in [1, 64] {
            let config = "i :: Inject -> Queue -> t :: PullTee -> u :: Unqueue
                -> Script(TYPE PACKET, print \"pulled\", return 0) -> Discard;
                t[1] -> Script(TYPE PACKET, print $(u.count), return 0) -> Discard;";
            let mut rig = Rig::with_batch(config, batch);
            rig.push("i", &[1]);
            rig.run();
            assert_eq!(rig.printed(), ["0\n", "pulled\n"]);
        }
    }

    #[test]
    fn turns_that_are_taken_as_one_fill_no_queue() {
        for (queue, ways) in [(1, 1), (10, 1), (100, 1), (1000, 1), (100, 3), (1000, 9)] {
            let tee: String = (0..ways).map(|port| format!("t[{port}] -> q; ")).collect();
            let config = format!(
                "q :: SimpleQueue({queue}) -> Unqueue(BURST {ways}) -> c :: Counter -> Discard;
                 InfiniteSource(LIMIT 5000) -> t :: Tee({ways}); {tee}"
            );
            let mut rig = Rig::with_batch(&config, 64);
            // The Unqueue has no rest.
            for _ in 0..200 {
                rig.router.run(128);
            }
            let all = (5000 * ways).to_string();
            rig.assert_handlers(&[("q.drops", "0"), ("c.count", &all)]);
        }
    }

    #[test]
    fn tasks_get_their_shares_whatever_turns_they_take_as_one() {
        let config = "a :: InfiniteSource(LIMIT 9000, STOP true) -> SimpleQueue -> Unqueue
                -> c :: Counter -> Discard;
            InfiniteSource -> d :: Counter -> Discard;
            InfiniteSource(BURST 3) -> e :: Counter -> Discard;
            InfiniteSource -> q :: SimpleQueue(100) -> f :: Unqueue -> Discard;
            g :: InfiniteSource -> q; ScheduleInfo(g 0.5)";
        for batch in [1, 64] {
            let mut rig = Rig::with_batch(config, batch);
            while rig.router.run(128) == router::Status::Busy {}
            let mut near = |handler: &str, expected: u64| {
                let count: u64 = rig.read(handler).parse().unwrap();
                assert!(count.abs_diff(expected) < 4, "{handler} {count} {batch}");
            };
            near("c.count", 9000);
            near("d.count", 9000);
            near("e.count", 27_000);
            near("f.count", 9000);
            near("q.drops", 4400);
        }
    }

    #[test]
    fn handlers_change_the_arguments() {
        let mut rig =
            Rig::new("i :: Inject -> Queue -> u :: Unqueue(-1, ACTIVE false) -> c :: Collect;");
        rig.assert_handlers(&[("u.burst", "2147483647"), ("u.limit", "-1")]);
        rig.push("i", &[1]);
        rig.run();
        assert!(rig.collected("c").is_empty());
        rig.write("u.active", "true");
        rig.run();
        assert_eq!(rig.collected("c").len(), 1);
        assert_eq!(rig.try_write("u.burst", "x"), Err("syntax error".into()));
    }
}
