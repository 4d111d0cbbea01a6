use packet::Batch;
use router::{Class, Cx, Declared, Element};

/// Drops what is pushed into it and has nothing to be pulled; without a notifier.
///
/// As Idle, but whoever pulls from it has to poll.
///
/// # Arguments
/// None.
///
/// # Ports
/// Any number of inputs and outputs, agnostic.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// s :: SimplePrioSched -> Discard;
/// InfiniteSource(LIMIT 10) -> Queue -> [0] s;
/// SimpleIdle -> [1] s;
/// ```
///
/// # See also
/// Idle, Discard
#[derive(Default)]
pub struct SimpleIdle;

impl Class for SimpleIdle {
    const NAME: &'static str = "SimpleIdle";
    const PORTS: &'static str = "-/-";
    const FLOW: &'static str = "x/y";
    const SEGMENTS: bool = true;
}

impl Declared for SimpleIdle {}

impl Element for SimpleIdle {
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        cx.pool().recycle(batch);
        0
    }

    fn pull(&mut self, _cx: &mut Cx<'_>, _port: usize, _batch: &mut Batch, _most: usize) {}
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn whoever_pulls_from_it_polls() {
        for (class, scheduled) in [("SimpleIdle", "true"), ("Idle", "false")] {
            let config = alloc::format!(
                "i :: Inject -> n :: {class} -> u :: Unqueue -> c :: Collect;"
            );
            let mut rig = Rig::new(&config);
            rig.push("i", &[1]);
            for _ in 0..20 {
                rig.step();
            }
            assert_eq!(rig.read("u.scheduled"), scheduled, "{class}");
            assert!(rig.collected("c").is_empty());
            assert_eq!(rig.outstanding(), 0);
        }
    }
}
