use crate::prelude::*;
use crate::standard::round_robin_sched::RoundRobinSched;

/// Pulls from its inputs in turn; without notifiers.
///
/// As RoundRobinSched, but without notifiers: empty inputs are pulled too. `SimpleRRSched` is
/// another name of the class.
///
/// # Example
/// ```click
/// r :: SimpleRoundRobinSched;
/// InfiniteSource(LIMIT 10) -> SimpleQueue -> [0]r;
/// InfiniteSource(LIMIT 10) -> SimpleQueue -> [1]r;
/// r -> Discard;
/// ```
///
/// # See also
/// RoundRobinSched, SimplePrioSched, SimplePullSwitch
#[derive(Element)]
#[element(ports = "-/1", processing = "l", segments, alias("SimpleRRSched"))]
pub struct SimpleRoundRobinSched {
    #[delegate(initialize = ask_always)]
    sched: RoundRobinSched,
}

impl SimpleRoundRobinSched {
    fn ask_always(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.sched.ask_always(cx);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn inputs_are_asked_in_order_and_always() {
        let config = "i :: Inject -> SimpleQueue -> [0] s :: SimpleRRSched -> u :: Unqueue
                -> c :: Collect;
            j :: Inject -> SimpleQueue -> [1] s;";
        let mut rig = Rig::with_batch(config, 1);
        for (input, data) in [("i", 1), ("i", 2), ("j", 3)] {
            rig.push(input, &[data]);
        }
        for _ in 0..50 {
            rig.step();
        }
        assert!(rig.data("c").into_iter().eq([1, 3, 2].map(|n| [n])));
        assert_eq!(rig.read("u.scheduled"), "true");
    }
}
