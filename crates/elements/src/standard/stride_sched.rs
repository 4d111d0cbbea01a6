use super::input_signals::upstream_signals;
use super::stride::Stride;
use crate::prelude::*;
use crate::pulls::gathered::Gathered;

/// Pulls from its inputs in proportion to their tickets.
///
/// The schedule is stride scheduling (Waldspurger and Weihl, 1995). An empty input loses its turn;
/// inputs whose notifier says empty are skipped.
///
/// # Handlers
/// - `tickets0`, `tickets1`, ... (read, write): the tickets of each input.
///
/// # Example
/// ```click
/// s :: StrideSched(2, 1);
/// InfiniteSource(LIMIT 10) -> Queue -> [0]s;
/// InfiniteSource(LIMIT 10) -> Queue -> [1]s;
/// s -> Discard;
/// ```
///
/// # See also
/// StrideSwitch, RoundRobinSched, PrioSched
#[derive(Element)]
#[element(ports = "1-/1", processing = "l", segments, live)]
pub struct StrideSched {
    #[flatten]
    stride: Stride,
    signals: Vec<Signal>,
    gathered: Gathered,
    /// Inputs that were asked for the next packet, or need not be.
    asked: usize,
}

impl StrideSched {
    /// Asks the next input that may have a packet; gives what came if there is none.
    fn go_on(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        while let Some(port) = self.stride.order.get(self.asked) {
            self.asked += 1;
            if self.signals.get(*port).is_none_or(|s| cx.is_active(s)) {
                return cx.pull_through(*port, 1);
            }
        }
        self.charge();
        self.gathered.give(batch);
    }

    /// Charges the inputs that were asked.
    fn charge(&mut self) {
        self.stride.charge(core::mem::take(&mut self.asked));
    }
}

impl Element for StrideSched {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.stride.configured(cx.inputs(), "input", args)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.signals = upstream_signals(cx);
        Ok(())
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        self.gathered.begin(most);
        if self.gathered.left() > 0 {
            self.go_on(cx, batch);
        }
    }

    fn pulled(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        if self.gathered.take(batch, 1) > 0 {
            self.charge();
            if self.gathered.left() == 0 {
                return self.gathered.give(batch);
            }
        }
        self.go_on(cx, batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn turns_are_those_of_click() {
        for most in [1, 64] {
            let config = "i1 :: InfiniteSource(\\<01>, LIMIT 10) -> [0] s :: StrideSched(4, 2, 1)
                    -> p :: Puller;
                i2 :: InfiniteSource(\\<02>, LIMIT 10) -> [1] s;
                i3 :: InfiniteSource(\\<03>, LIMIT 10) -> [2] s;";
            let mut rig = Rig::new(config);
            let mut turns = Vec::new();
            loop {
                let pulled = rig.pull("p", most);
                if pulled.is_empty() {
                    break;
                }
                turns.extend(pulled.iter().map(|packet| packet.data()[0]));
            }
            let expected = [
                1, 1, 2, 1, 1, 2, 3, 1, 1, 2, 1, 1, 2, 3, 1, 1, 2, 2, 3, 2, 2, 3, 2, 2, 3, 3, 3, 3,
                3, 3,
            ];
            assert_eq!(turns, expected, "{most} at a time");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        /// Inputs that always have packets get what their tickets say, at any time to within three
        /// packets.
        #[test]
        fn inputs_get_their_shares(
            tickets in prop::collection::vec(0u32..200, 2..5),
            most in prop::sample::select(&[1usize, 64][..]),
        ) {
            let all: u32 = tickets.iter().sum();
            prop_assume!(all > 0);
            let shares: Vec<_> = tickets.iter().map(|n| alloc::format!("{n}")).collect();
            let mut config = alloc::format!("s :: StrideSched({}) -> p :: Puller;", shares.join(", "));
            for input in 0..tickets.len() {
                let source = alloc::format!("InfiniteSource(\\<{input:02}>)");
                config += &alloc::format!("{source} -> [{input}] s;");
            }
            let mut rig = Rig::new(&config);
            let (mut counts, mut total) = (alloc::vec![0; tickets.len()], 0);
            for _ in 0..1000 / most {
                for packet in rig.pull("p", most) {
                    counts[packet.data()[0] as usize] += 1;
                    total += 1;
                }
                for (count, tickets) in counts.iter().zip(&tickets) {
                    // Strides are whole numbers: shares are that exact.
                    let share = f64::from(total) * f64::from(*tickets) / f64::from(all);
                    let slack = 3.0 + share / 100.0;
                    prop_assert!((f64::from(*count) - share).abs() <= slack, "{counts:?}");
                }
            }
            prop_assert_eq!(total as usize, 1000 / most * most);
        }
    }
}
