use crate::prelude::*;

/// Drops packets that are pushed into it, and never has packets to be pulled; without a notifier.
///
/// As Idle, but an element that pulls from it has to poll.
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
#[derive(Element)]
#[element(ports = "-/-", flow = "x/y", segments)]
pub struct SimpleIdle;

impl Element for SimpleIdle {
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        cx.pool().recycle(batch);
        0
    }

    fn pull(&mut self, _cx: &mut Cx<'_>, _port: usize, _batch: &mut Batch, _most: usize) {}
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn a_puller_polls() {
        for (class, scheduled) in [("SimpleIdle", "true"), ("Idle", "false")] {
            let config =
                alloc::format!("i :: Inject -> n :: {class} -> u :: Unqueue -> c :: Collect;");
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
