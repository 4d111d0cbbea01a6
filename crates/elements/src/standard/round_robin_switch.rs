use crate::filters::dispatch::dispatch;
use crate::prelude::*;

/// Sends packets to its outputs in turn.
///
/// # Example
/// ```click
/// r :: RoundRobinSwitch;
/// InfiniteSource(LIMIT 100) -> r;
/// r[0] -> Discard;
/// r[1] -> Discard;
/// ```
///
/// # See also
/// Switch, RoundRobinSched
#[derive(Element)]
#[element(ports = "1/1-", processing = "h", segments)]
pub struct RoundRobinSwitch {
    /// Number of outputs that take turns: all if negative. Packets for an output that is not there
    /// are dropped.
    #[arg(positional, default = -1)]
    max: i32,
    next: usize,
}

impl Element for RoundRobinSwitch {
    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        let outputs = usize::try_from(self.max).unwrap_or(cx.outputs());
        dispatch(cx, batch, |_| {
            let port = self.next;
            self.next = if port + 1 < outputs { port + 1 } else { 0 };
            port as u32
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn outputs_take_turns_packet_by_packet() {
        for batch in [1, 64] {
            let config = "i :: Inject -> s :: RoundRobinSwitch;
                s[0] -> a :: Collect; s[1] -> b :: Collect;";
            let mut rig = Rig::with_batch(config, batch);
            rig.push_all("i", &[vec![1], vec![2], vec![3]]);
            rig.push("i", &[4]);
            assert_eq!(rig.data("a"), [[1], [3]]);
            assert_eq!(rig.data("b"), [[2], [4]]);
        }
    }

    #[test]
    fn max_limits_the_outputs_that_take_turns() {
        for (max, a, b) in [(1, 6, 0), (2, 3, 3), (3, 2, 2), (-1, 3, 3), (0, 6, 0)] {
            let config = format!(
                "i :: Inject -> s :: RoundRobinSwitch({max});
                 s[0] -> a :: Collect; s[1] -> b :: Collect;"
            );
            for batch in [1, 64] {
                let mut rig = Rig::with_batch(&config, batch);
                rig.push_all("i", &[vec![1], vec![2], vec![3], vec![4], vec![5], vec![6]]);
                assert_eq!(
                    (rig.data("a").len(), rig.data("b").len()),
                    (a, b),
                    "MAX {max}"
                );
            }
        }
    }
}
