use super::input_signals::{busy_signals, upstream_signals};
use crate::prelude::*;
use crate::pulls::gathered::Gathered;

/// Pulls from the first of its inputs that has a packet.
///
/// Input 0 precedes input 1, and so on. Inputs whose notifier says empty are skipped.
///
/// # Example
/// ```click
/// p :: PrioSched;
/// InfiniteSource(LIMIT 10) -> Queue -> [0]p;
/// InfiniteSource(LIMIT 10) -> Queue -> [1]p;
/// p -> Discard;
/// ```
///
/// # See also
/// RoundRobinSched, DRRSched, PullSwitch
#[derive(Element)]
#[element(ports = "-/1", processing = "l", segments)]
pub struct PrioSched {
    signals: Vec<Signal>,
    gathered: Gathered,
    /// The input that is asked, or was.
    next: usize,
}

impl PrioSched {
    /// Prepares to ask all inputs, whether they have something or not.
    pub(crate) fn ask_always(&mut self, cx: &Cx<'_>) {
        self.signals = busy_signals(cx);
    }

    /// Asks the next input that may have a packet; gives what came if there is none, or no more is
    /// wanted.
    #[inline]
    fn go_on(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let left = self.gathered.left();
        while left > 0
            && let Some(signal) = self.signals.get(self.next)
        {
            if cx.is_active(signal) {
                return cx.pull_through(self.next, left);
            }
            self.next += 1;
        }
        self.gathered.give(batch);
    }
}

impl Element for PrioSched {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.signals = upstream_signals(cx);
        Ok(())
    }

    #[inline]
    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        self.gathered.begin(most);
        self.next = 0;
        self.go_on(cx, batch);
    }

    #[inline]
    fn pulled(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        self.gathered.take(batch, packet::BATCH);
        self.next += 1;
        self.go_on(cx, batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn the_first_input_goes_first() {
        let config = "s :: PrioSched -> p :: Puller; i0 :: Inject -> Queue -> [0] s;
            i1 :: Inject -> Queue -> [1] s; i2 :: Inject -> Queue -> [2] s;";
        for most in [1, 3, 64] {
            let mut rig = Rig::new(config);
            for (input, data) in [("i2", 21), ("i1", 11), ("i1", 12), ("i0", 1), ("i2", 22)] {
                rig.push(input, &[data]);
            }
            let mut all = Vec::new();
            for _ in 0..5 {
                all.extend(rig.pull("p", most).iter().map(|packet| packet.data()[0]));
            }
            assert_eq!(all, [1, 11, 12, 21, 22], "{most} at a time");
        }
    }
}
