use crate::prelude::*;
use crate::standard::prio_sched::PrioSched;

/// Pulls from the first of its inputs that has a packet; without notifiers.
///
/// As PrioSched, but without notifiers: empty inputs are pulled too.
///
/// # Example
/// ```click
/// p :: SimplePrioSched;
/// InfiniteSource(LIMIT 10) -> SimpleQueue -> [0]p;
/// InfiniteSource(LIMIT 10) -> SimpleQueue -> [1]p;
/// p -> Discard;
/// ```
///
/// # See also
/// PrioSched, SimpleRoundRobinSched, SimplePullSwitch
#[derive(Element)]
#[element(ports = "-/1", processing = "l", segments)]
pub struct SimplePrioSched {
    #[delegate(initialize = ask_always)]
    sched: PrioSched,
}

impl SimplePrioSched {
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
        let config = "i :: Inject -> SimpleQueue -> [0] s :: SimplePrioSched -> u :: Unqueue
                -> c :: Collect;
            j :: Inject -> SimpleQueue -> [1] s;";
        let mut rig = Rig::with_batch(config, 1);
        for (input, data) in [("i", 1), ("i", 2), ("j", 3)] {
            rig.push(input, &[data]);
        }
        for _ in 0..50 {
            rig.step();
        }
        assert!(rig.data("c").into_iter().eq([1, 2, 3].map(|n| [n])));
        assert_eq!(rig.read("u.scheduled"), "true");
    }
}
