use super::input_signals::upstream_signals;
use super::stride::Stride;
use crate::prelude::*;
use crate::pulls::gathered::Gathered;

/// Pulls from its inputs in proportion to their tickets.
///
/// The schedule is stride scheduling (Waldspurger and Weihl, 1995). An empty input loses its turn to the next
/// input that has a packet; inputs whose notifier says empty are skipped. A pull while all inputs are empty
/// changes no input's turn.
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
    inputs: Vec<Input>,
    gathered: Gathered,
    /// Inputs that were asked ahead of their turns, or need not be.
    ahead: usize,
    /// Inputs that were asked for the next packet, or need not be.
    asked: usize,
}

#[derive(Default)]
struct Input {
    signal: Signal,
    /// Packets to ask for ahead of the input's turns.
    turns: usize,
    /// Those that came, the next last.
    packets: Batch,
    /// Whether none came.
    is_empty: bool,
}

impl StrideSched {
    /// Asks each input for the packets of its turns, as far as they can be foreseen: if no input runs
    /// out of packets.
    fn plan(&mut self, cx: &Cx<'_>) {
        let turns = self.gathered.left();
        self.ahead = 0;
        for input in &mut self.inputs {
            (input.turns, input.is_empty) = (0, !cx.is_active(&input.signal));
        }
        if turns > 1 {
            let mut counts = [0usize; packet::BATCH];
            let inputs = &self.inputs;
            let open = |port: usize| inputs.get(port).is_some_and(|input| !input.is_empty);
            self.stride.foresee(turns, open, |port| {
                if let Some(count) = counts.get_mut(port) {
                    *count += 1;
                }
            });
            for (input, count) in self.inputs.iter_mut().zip(counts) {
                // A change of tickets during the last pull may have left some.
                input.turns = count.saturating_sub(input.packets.len());
            }
        }
    }

    /// Gives the inputs their turns, and asks the next one that may have a packet; gives what came if
    /// there is none, or no more is wanted.
    fn go_on(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        while let Some(input) = self.inputs.get(self.ahead) {
            if input.turns > 0 {
                return cx.pull_through(self.ahead, input.turns);
            }
            self.ahead += 1;
        }
        while self.gathered.left() > 0
            && let Some(&port) = self.stride.order.get(self.asked)
        {
            self.asked += 1;
            let input = &mut self.inputs[port];
            if let Some(packet) = input.packets.pop() {
                self.gathered.push(cx, packet);
                self.charge();
            } else if !input.is_empty {
                return cx.pull_through(port, 1);
            }
        }
        // If no input had a packet, none is charged. Strides differ: with each such pull, inputs with many
        // tickets would gain turns on those with few, for the time when both have packets.
        self.asked = 0;
        self.gathered.give(batch);
    }

    /// Charges the inputs that were asked: the last one for a packet, and those before it for the turn that they
    /// lost.
    fn charge(&mut self) {
        self.stride.charge(core::mem::take(&mut self.asked));
    }
}

impl Element for StrideSched {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.stride.configured(cx.inputs(), "input", args)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let signals = upstream_signals(cx).into_iter();
        self.inputs = signals
            .map(|signal| Input {
                signal,
                ..Input::default()
            })
            .collect();
        Ok(())
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        self.gathered.begin(most);
        if self.gathered.left() > 0 {
            self.plan(cx);
            self.go_on(cx, batch);
        }
    }

    fn pulled(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        if let Some(input) = self.inputs.get_mut(self.ahead) {
            // One that gave fewer may have more: an AQM before it drops some of those it takes.
            input.is_empty = batch.is_empty();
            batch.as_mut_slice().reverse();
            input.packets.append(batch, packet::BATCH);
            self.ahead += 1;
        } else if self.gathered.take(batch, 1) > 0 {
            self.charge();
        } else if let Some(port) = self
            .asked
            .checked_sub(1)
            .and_then(|last| self.stride.order.get(last))
        {
            self.inputs[*port].is_empty = true;
        }
        self.go_on(cx, batch);
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        for input in &mut self.inputs {
            input.packets.drain().for_each(|packet| cx.kill(packet));
        }
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

    /// A scheduler with these tickets behind a queue for each input: `i0`, `i1` and so on push into them, and each
    /// packet says where it came from.
    fn queues(tickets: &[u32]) -> Rig {
        let shares: Vec<_> = tickets.iter().map(|n| alloc::format!("{n}")).collect();
        let mut config = alloc::format!("s :: StrideSched({}) -> p :: Puller;", shares.join(", "));
        for input in 0..tickets.len() {
            config += &alloc::format!("i{input} :: Inject -> Queue(10000) -> [{input}] s;");
        }
        Rig::new(&config)
    }

    fn push(rig: &mut Rig, input: usize, count: usize) {
        let packets = alloc::vec![alloc::vec![input as u8]; count];
        packets
            .chunks(packet::BATCH)
            .for_each(|some| rig.push_all(&alloc::format!("i{input}"), some));
    }

    fn pull(rig: &mut Rig, count: usize, most: usize) -> Vec<usize> {
        let mut turns = Vec::new();
        while turns.len() < count {
            let pulled = rig.pull("p", most.min(count - turns.len()));
            if pulled.is_empty() {
                break;
            }
            turns.extend(pulled.iter().map(|packet| usize::from(packet.data()[0])));
        }
        turns
    }

    #[test]
    fn pulls_while_all_inputs_are_empty_give_no_input_an_advantage() {
        // So many that passes would come round, if each were charged.
        for pulls in [10, 1_000, 60_000] {
            let mut rig = queues(&[3, 1, 1]);
            push(&mut rig, 0, 1);
            for _ in 0..pulls {
                // The queue is never empty for so long that its notifier says so.
                if pull(&mut rig, 1, 1).is_empty() {
                    push(&mut rig, 0, 1);
                }
            }
            pull(&mut rig, 1, 1);
            push(&mut rig, 0, 100);
            push(&mut rig, 2, 100);
            let turns = pull(&mut rig, 40, 1);
            let first = turns.iter().filter(|input| **input == 0).count();
            assert!((29..=31).contains(&first), "{first} of 40 after {pulls}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        /// While two inputs have packets, they are served by their shares to within two turns of each, whatever was
        /// before. Packets leave in the same order one by one and in batches.
        #[test]
        fn inputs_that_run_empty_at_times_get_their_shares(
            tickets in prop::collection::vec(1u32..60, 2..5),
            steps in prop::collection::vec((0usize..5, 0usize..80, 0usize..120), 1..60),
        ) {
            let mut order: Option<Vec<usize>> = None;
            for most in [1, 7, 64] {
                let mut rig = queues(&tickets);
                let inputs = tickets.len();
                let mut lengths = alloc::vec![0usize; inputs];
                let mut all = Vec::new();
                // For each pair what each was served since one of them was empty.
                let mut served = alloc::vec![[0.0f64; 2]; inputs * inputs];
                for &(input, pushes, pulls) in &steps {
                    push(&mut rig, input % inputs, pushes);
                    lengths[input % inputs] += pushes;
                    let turns = pull(&mut rig, pulls, most);
                    prop_assert_eq!(turns.len(), pulls.min(lengths.iter().sum()));
                    for &turn in &turns {
                        for (a, b) in (0..inputs).flat_map(|a| (0..a).map(move |b| (a, b))) {
                            let served = &mut served[a * inputs + b];
                            if lengths[a] == 0 || lengths[b] == 0 {
                                *served = [0.0; 2];
                                continue;
                            }
                            served[0] += f64::from(u8::from(turn == a)) / f64::from(tickets[a]);
                            served[1] += f64::from(u8::from(turn == b)) / f64::from(tickets[b]);
                            let slack = 2.0 / f64::from(tickets[a]) + 2.0 / f64::from(tickets[b]);
                            // Strides are whole numbers: shares are that exact.
                            let slack = slack + served[0] / 100.0;
                            prop_assert!((served[0] - served[1]).abs() <= slack, "{:?}", served);
                        }
                        lengths[turn] -= 1;
                    }
                    all.extend(turns);
                }
                prop_assert_eq!(order.get_or_insert_with(|| all.clone()), &all, "{} at a time", most);
            }
        }

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
