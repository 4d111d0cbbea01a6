use packet::Batch;
use router::args::Failed;
use router::{Cx, Element};

use crate::standard::prio_sched::PrioSched;

/// Pulls from the first of its inputs that has a packet; without notifiers.
///
/// As PrioSched, but inputs are asked even if they are known to be empty.
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
    sched: PrioSched,
}

impl Element for SimplePrioSched {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.sched.ask_always(cx);
        Ok(())
    }

    #[inline]
    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch, most: usize) {
        self.sched.pull(cx, port, batch, most);
    }
}
