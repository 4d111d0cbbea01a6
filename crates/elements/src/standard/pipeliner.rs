use super::switch::NOWHERE;
use crate::prelude::*;

/// Passes packets on to its own thread: thread 0, or the one that StaticThreadSched gives it.
///
/// The elements behind it run on that thread too. Packets from other threads wait for it in rings,
/// one for each path that leads from a thread to the element. If a ring is full, sources that heed
/// notifiers stop. Packets of other sources are dropped, and count in the router's `thread_drops`; with
/// BLOCKING, the thread that sends them waits instead, unless threads would wait for each other.
///
/// # Example
/// ```click
/// a :: InfiniteSource(LIMIT 10, STOP true) -> p :: Pipeliner -> Discard;
/// StaticThreadSched(a 0, p 1);
/// DriverManager(pause, print p.count);
/// ```
///
/// # See also
/// ThreadSafeQueue, Unqueue, StaticThreadSched
#[derive(Element)]
#[element(ports = "1-/1", processing = "h", segments, phase = phase::DEFAULT + 1)]
pub struct Pipeliner {
    /// Accepted and ignored: rings have room for 512 packets.
    #[arg(positional)]
    capacity: i32,
    /// Accepted and ignored.
    #[arg(positional)]
    burst: i32,
    /// Whether a thread that sends packets waits while its ring is full.
    #[arg(positional)]
    blocking: bool,
    /// Whether packets pass. Otherwise they are dropped.
    #[arg(default = true, read, write, checkbox, error = "type mismatch")]
    active: bool,
    /// Accepted and ignored.
    #[arg]
    always_up: bool,
    /// Accepted and ignored.
    #[arg]
    direct_traversal: bool,
    /// Accepted and ignored.
    #[arg]
    nouseless: bool,
    /// Accepted and ignored.
    #[arg]
    verbose: bool,
    /// Accepted and ignored.
    #[arg]
    prefetch: bool,
    /// Packets passed.
    #[handler(read)]
    count: u64,
    /// Packets dropped because it was inactive.
    #[handler(read)]
    dropped: u64,
    /// Most packets stored: none.
    #[handler(read)]
    highwater: u32,
}

impl Element for Pipeliner {
    /// Is a notifier that always has room, unless there are notifiers behind it: without one, sources would not
    /// stop while a ring is full. Those behind are configured before.
    fn configured(&mut self, cx: &mut Cx<'_>, _args: &mut Args<'_>) -> Result<(), Failed> {
        if cx.downstream_signal(0, None).is_busy() {
            cx.signal(Notice::Full, true);
        }
        if self.blocking {
            cx.block_senders();
        }
        Ok(())
    }

    /// Makes a task that never runs: where it is assigned, the element works.
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        cx.task();
        Ok(())
    }

    #[inline]
    fn push(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        let (packets, _) = batch.tally();
        if self.active {
            self.count += packets;
            0
        } else {
            self.dropped += packets;
            NOWHERE
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn packets_pass_unless_it_is_inactive() {
        let config = "i :: Inject -> p :: Pipeliner(CAPACITY 8, BLOCKING false, ALWAYS_UP true)
            -> c :: Collect; j :: Inject -> p;";
        let mut rig = Rig::new(config);
        rig.push_all("i", &[vec![1], vec![2]]);
        rig.push("j", &[3]);
        assert_eq!(rig.data("c"), [[1], [2], [3]]);
        rig.assert_handlers(&[("p.count", "3"), ("p.dropped", "0")]);
        rig.write("p.active", "false");
        rig.push("i", &[4]);
        assert!(rig.data("c").is_empty());
        rig.assert_handlers(&[("p.count", "3"), ("p.dropped", "1")]);
    }
}
