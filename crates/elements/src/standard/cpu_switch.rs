use packet::Batch;
use router::{Class, Cx, Declared, Element};

/// Sends packets to the output of the thread they are on.
///
/// What is on thread 0 leaves by output 0, and so on; with fewer outputs than threads they start
/// over. Each thread passes through it on its own, so what follows an output belongs to the thread
/// that uses it.
///
/// # Arguments
/// None.
///
/// # Ports
/// One push input, one or more push outputs.
///
/// # Handlers
/// None of its own.
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
#[derive(Default)]
pub struct CPUSwitch;

impl Class for CPUSwitch {
    const NAME: &'static str = "CPUSwitch";
    const PORTS: &'static str = "1/1-";
    const PROCESSING: &'static str = "h";
    const PER_THREAD: bool = true;
}

impl Declared for CPUSwitch {}

impl Element for CPUSwitch {
    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, _batch: &mut Batch) -> usize {
        usize::from(cx.thread()) % cx.outputs().max(1)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn one_thread_uses_output_0() {
        let config = "i :: Inject -> s :: CPUSwitch; s[0] -> a :: Collect; s[1] -> b :: Collect;";
        let mut rig = Rig::new(config);
        rig.push("i", &[1]);
        assert_eq!(rig.data("a"), [[1]]);
        assert!(rig.collected("b").is_empty());
    }
}
