use crate::prelude::*;

/// Sends packets to the output of the thread they are on.
///
/// Packets on thread 0 leave by output 0, and so on; with fewer outputs than threads, the outputs
/// repeat. Elements after an output run on the thread that uses it, or on the first that does; the
/// others wait while it is behind.
///
/// # Example
/// ```click
/// a :: InfiniteSource(LIMIT 1000) -> s :: CPUSwitch;
/// b :: InfiniteSource(LIMIT 1000) -> s;
/// StaticThreadSched(a 0, b 1);
/// s[0] -> Counter -> Discard;
/// s[1] -> Counter -> Discard;
/// ```
///
/// # See also
/// StaticThreadSched, CPUQueue, RoundRobinSwitch
#[derive(Element)]
#[element(ports = "1/1-", processing = "h", per_thread)]
#[outputs("one for each thread")]
pub struct CPUSwitch;

impl Element for CPUSwitch {
    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, _batch: &mut Batch) -> usize {
        usize::from(cx.thread()) % cx.outputs().max(1)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn one_thread_uses_output_0() {
        let config = "i :: Inject -> s :: CPUSwitch; s[0] -> a :: Collect; s[1] -> b :: Collect;";
        let mut rig = Rig::new(config);
        rig.push("i", &[1]);
        assert_eq!(rig.data("a"), [[1]]);
        assert!(rig.collected("b").is_empty());
    }
}
