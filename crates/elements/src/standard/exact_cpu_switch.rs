use crate::prelude::*;

/// Sends packets to an output of their thread, and has no outputs for threads without packets.
///
/// Works as CPUSwitch, but counts only the threads whose packets come to it: those of the first such
/// thread leave by output 0, those of the next by output 1, and so on. With fewer outputs than
/// threads, the outputs repeat. A thread that shares its output with one before it waits while that is
/// behind.
///
/// # Example
/// ```click
/// a :: InfiniteSource(LIMIT 1000) -> s :: ExactCPUSwitch;
/// b :: InfiniteSource(LIMIT 1000) -> s;
/// StaticThreadSched(a 0, b 2);
/// s[0] -> Counter -> Discard;
/// s[1] -> Counter -> Discard;
/// ```
///
/// # See also
/// CPUSwitch, StaticThreadSched
#[derive(Element)]
#[element(ports = "1/1-", processing = "h", per_thread_in_order)]
#[outputs("one for each thread that packets come from")]
pub struct ExactCPUSwitch;

impl Element for ExactCPUSwitch {
    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, _batch: &mut Batch) -> usize {
        cx.thread_rank() % cx.outputs().max(1)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn one_thread_uses_output_0() {
        let config =
            "i :: Inject -> s :: ExactCPUSwitch; s[0] -> a :: Collect; s[1] -> b :: Collect;";
        let mut rig = Rig::new(config);
        rig.push("i", &[1]);
        assert_eq!(rig.data("a"), [[1]]);
        assert!(rig.collected("b").is_empty());
    }
}
