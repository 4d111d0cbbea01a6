use crate::prelude::*;

/// Pulls packets from its inputs in turn, and pushes each by the output of the same number.
///
/// Each run of its task serves one input. The task sleeps while all inputs are empty.
///
/// # Example
/// ```click
/// u :: RoundRobinUnqueue(4);
/// InfiniteSource(LIMIT 100) -> Queue -> [0] u [0] -> Discard;
/// InfiniteSource(LIMIT 100) -> Queue -> [1] u [1] -> Discard;
/// ```
///
/// # See also
/// Unqueue, RoundRobinSched, RatedUnqueue
#[derive(Element)]
#[element(ports = "-/-", processing = "l/h", task)]
pub struct RoundRobinUnqueue {
    /// Most packets each time; 0: until the input has none.
    #[arg(positional, default = 1)]
    burst: i32,
    /// Packets passed, and the word `packets`.
    #[handler(read = |packets: &u64| format!("{packets} packets\n"))]
    packets: u64,
    next: usize,
    /// Packets left of the burst under way.
    left: u64,
    signals: Vec<Signal>,
}

impl Element for RoundRobinUnqueue {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        if cx.inputs() != cx.outputs() {
            return Err(cx.error("number of outputs must equal to number of inputs"));
        }
        let task = cx.task();
        cx.schedule(task);
        let inputs = 0..cx.inputs();
        self.signals = inputs
            .map(|port| cx.upstream_signal(port, Some(task)))
            .collect();
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, task: TaskId) -> Ran {
        if self.left == 0 {
            self.left = match self.burst {
                0 => u64::MAX,
                burst => burst.max(1) as u64,
            };
        }
        let most = self.left.min(cx.limit() as u64);
        let Some(batch) = cx.pulled() else {
            return Ran::Pull(Pull {
                port: self.next as u16,
                most: most as u16,
            });
        };
        let pulled = batch.len() as u64;
        self.packets += pulled;
        self.left -= pulled;
        cx.push(self.next, batch);
        if pulled == most && self.left > 0 {
            return Ran::More;
        }
        self.left = 0;
        self.next = if self.next + 1 < cx.inputs() {
            self.next + 1
        } else {
            0
        };
        if self.signals.iter().any(|signal| cx.is_active(signal)) {
            cx.schedule(task);
        }
        Ran::worked(pulled > 0)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    const CONFIG: &str = "i :: Inject -> Queue -> [0] u [0] -> a :: Collect;
        j :: Inject -> Queue -> [1] u [1] -> b :: Collect;";

    #[test]
    fn inputs_take_turns_and_keep_their_outputs() {
        for limit in [1, 64] {
            let config = std::format!("u :: RoundRobinUnqueue(2); {CONFIG}");
            let mut rig = Rig::with_batch(&config, limit);
            rig.push_all("i", &std::vec![std::vec![1]; 3]);
            rig.push_all("j", &std::vec![std::vec![2]; 3]);
            while rig.data("a").len() < 2 {
                rig.step();
            }
            rig.run();
            assert_eq!(rig.data("a").len(), 1);
            assert_eq!(rig.data("b"), [[2]; 3]);
            assert_eq!(rig.read("u.packets"), "6 packets\n");
            assert_eq!(rig.read("u.scheduled"), "false");
        }
    }

    #[test]
    fn a_burst_of_0_empties_an_input() {
        let mut rig = Rig::with_batch(&std::format!("u :: RoundRobinUnqueue(0); {CONFIG}"), 1);
        rig.push_all("i", &std::vec![std::vec![1]; 30]);
        rig.run();
        assert_eq!(rig.data("a").len(), 30);
    }

    #[test]
    fn inputs_and_outputs_have_to_match() {
        Rig::refuses(
            "Idle -> RoundRobinUnqueue; ",
            "number of outputs must equal to number of inputs",
        );
    }
}
