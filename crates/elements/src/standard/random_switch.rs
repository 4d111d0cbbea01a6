use crate::filters::dispatch::send;
use crate::prelude::*;

/// Sends each packet to a random output.
///
/// # Example
/// ```click
/// r :: RandomSwitch;
/// InfiniteSource(LIMIT 100) -> r;
/// r[0] -> Discard;
/// r[1] -> Discard;
/// ```
///
/// # See also
/// RoundRobinSwitch, HashSwitch, StrideSwitch, RandomSample
#[derive(Element)]
#[element(ports = "1/1-", processing = "h", segments)]
pub struct RandomSwitch;

impl Element for RandomSwitch {
    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        let outputs = cx.outputs() as u32;
        let random = cx.random();
        if let [_] = batch.as_mut_slice() {
            return random.below(outputs) as usize;
        }
        let mut chosen = [0; BATCH];
        for output in chosen.iter_mut().take(batch.len()) {
            *output = random.below(outputs);
        }
        send(cx, batch, &chosen)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn every_output_is_as_likely() {
        for batch in [1, 64] {
            let config = "InfiniteSource(LIMIT 9000, BURST 64) -> r :: RandomSwitch;
                r[0] -> a :: Counter -> Discard; r[1] -> b :: Counter -> Discard;
                r[2] -> c :: Counter -> Discard;";
            let mut rig = Rig::with_batch(config, batch);
            rig.run();
            let mut count = |name: &str| rig.read(name).parse::<u32>().unwrap();
            let counts = [count("a.count"), count("b.count"), count("c.count")];
            assert_eq!(counts.iter().sum::<u32>(), 9000);
            assert!(counts.iter().all(|n| n.abs_diff(3000) < 300), "{counts:?}");
        }
    }
}
