use packet::Batch;
use router::args::Failed;
use router::{Class, Cx, Declared, Element};

use crate::standard::sched::{PrioSched, RoundRobinSched};

macro_rules! simple {
    ($(#[$doc:meta])* $name:ident, $sched:ident) => {
        $(#[$doc])*
        #[derive(Default)]
        pub struct $name($sched);

        impl Class for $name {
            const NAME: &'static str = stringify!($name);
            const PORTS: &'static str = $sched::PORTS;
            const PROCESSING: &'static str = $sched::PROCESSING;
            const SEGMENTS: bool = true;
        }

        impl Declared for $name {}

        impl Element for $name {
            fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
                self.0.ask_always(cx);
                Ok(())
            }

            #[inline]
            fn pull(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch, most: usize) {
                self.0.pull(cx, port, batch, most);
            }
        }
    };
}

simple! {
    /// Pulls from the first of its inputs that has a packet; without notifiers.
    ///
    /// As PrioSched, but inputs are asked even if they are known to be empty.
    ///
    /// # Arguments
    /// None.
    ///
    /// # Ports
    /// Any number of pull inputs, one pull output.
    ///
    /// # Handlers
    /// None of its own.
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
    SimplePrioSched, PrioSched
}

simple! {
    /// Pulls from its inputs in turn; without notifiers.
    ///
    /// As RoundRobinSched, but inputs are asked even if they are known to be empty. `SimpleRRSched`
    /// is another name of the class.
    ///
    /// # Arguments
    /// None.
    ///
    /// # Ports
    /// Any number of pull inputs, one pull output.
    ///
    /// # Handlers
    /// None of its own.
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
    SimpleRoundRobinSched, RoundRobinSched
}
