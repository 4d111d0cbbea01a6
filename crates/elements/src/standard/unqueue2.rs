use super::burst::Burst;
use crate::prelude::*;

/// Pulls packets and pushes them on, while there is room in the queues downstream.
///
/// Unqueue is to be preferred.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 100) -> Queue -> Unqueue2(QUIET true) -> Queue(10) -> Discard;
/// ```
///
/// # See also
/// Unqueue, RatedUnqueue
#[derive(Element)]
#[element(ports = "1/1", processing = "l/h", segments, task)]
pub struct Unqueue2 {
    /// Most packets each time it is scheduled; no limit if 0.
    #[arg(positional, default = 1)]
    burst: i32,
    /// Names of the queues to check for room; default: the queues downstream.
    #[arg(name = "QUEUES", with = Any, kind = "elements")]
    names: String,
    /// Whether it does without a warning that there is something better.
    #[arg]
    quiet: bool,
    /// Packets passed.
    #[handler(read = |count: &u64| alloc::format!("{count} packets\n"))]
    packets: u64,
    queues: Vec<ElementId>,
    links: Vec<Link<dyn Storage>>,
    pulling: Burst,
    upstream: Signal,
    downstream: Signal,
}

impl Unqueue2 {
    /// Most packets at a time.
    fn most(&self) -> usize {
        match self.burst {
            0 => i32::MAX as usize,
            burst => burst.unsigned_abs() as usize,
        }
    }

    /// Packets that the queue with the least room takes.
    fn room(&self, cx: &Cx<'_>) -> usize {
        let queues = self.links.iter().filter_map(|link| cx.view(*link));
        let rooms = queues.filter_map(Storage::room);
        rooms.min().unwrap_or(usize::MAX)
    }
}

impl Element for Unqueue2 {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if self.burst < 0 {
            return Err(args.fail("BURST must not be negative"));
        }
        self.queues.clear();
        for name in click::config::split_space(&self.names) {
            let queue = args.context().parse_with(ElementOf("Storage"), &name);
            let queue = queue.map_err(|_| args.fail("bad QUEUES"))?;
            self.queues.push(ElementId::new(queue.index));
        }
        if !self.quiet {
            args.warning("Unqueue2 is deprecated, you should probably use Unqueue");
        }
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        if self.queues.is_empty() {
            self.queues = cx.graph().nearest_downstream(cx.id(), 0, "Storage");
        }
        for queue in &self.queues {
            self.links.extend(cx.link(*queue));
            cx.share_thread(*queue);
        }
        let task = cx.task();
        cx.schedule(task);
        self.upstream = cx.upstream_signal(0, Some(task));
        self.downstream = cx.downstream_signal(0, Some(task));
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, task: TaskId) -> Ran {
        let Some(batch) = cx.pulled() else {
            let size = self.most().min(self.room(cx));
            // A queue that has room again wakes it, if there is a notifier.
            if size == 0 && cx.is_active(&self.downstream) {
                cx.schedule(task);
            }
            return self.pulling.pull(cx, size as u64);
        };
        let pulled = batch.len();
        self.packets += pulled as u64;
        cx.push(0, batch);
        self.pulling.goes_on(cx, pulled, task, &self.upstream)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn queues_behind_it_never_overflow() {
        for batch in [1, 64] {
            for burst in [0, 1, 7, 1000] {
                let config = format!(
                    "InfiniteSource(LIMIT 500, BURST 64) -> Queue(500) -> u :: Unqueue2({burst})
                        -> t :: Tee -> a :: Queue(30) -> p :: Puller; t[1] -> b :: Queue(100) -> Idle;"
                );
                let mut rig = Rig::with_batch(&config, batch);
                rig.run();
                rig.assert_handlers(&[("a.length", "30"), ("b.length", "30")]);
                rig.pull("p", 10);
                rig.run();
                rig.assert_handlers(&[("a.drops", "0"), ("b.length", "40")]);
                assert_eq!(rig.read("u.packets"), "40 packets\n");
            }
        }
    }

    #[test]
    fn queues_can_be_named() {
        let config = "InfiniteSource(LIMIT 50) -> Queue -> Unqueue2(QUEUES b c, QUIET true)
            -> a :: Queue(5) -> Idle; Idle -> b :: Queue(100) -> Idle; Idle -> c :: Queue(9) -> Idle;";
        let mut rig = Rig::new(config);
        rig.run();
        rig.assert_handlers(&[("a.length", "5"), ("a.drops", "45")]);
        Rig::refuses("Idle -> u :: Unqueue2(QUEUES u) -> Discard;", "bad QUEUES");
    }

    #[test]
    fn it_sleeps_while_there_is_nothing_to_pull() {
        let mut rig = Rig::new("i :: Inject -> Queue -> u :: Unqueue2 -> c :: Collect;");
        assert_contains(&rig.printed().concat(), "you should probably use Unqueue");
        rig.run();
        assert_eq!(rig.read("u.scheduled"), "false");
        rig.push("i", &[1]);
        rig.run();
        assert_eq!(rig.data("c"), [[1]]);
    }
}
