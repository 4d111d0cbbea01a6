use crate::prelude::*;
use crate::pulls::gathered::Gathered;

/// Pulls from its inputs so that each gets an equal share of the bytes.
///
/// Deficit round robin (Shreedhar and Varghese, 1995): at its turn, an input's deficit grows by
/// QUANTUM bytes, and the input sends packets while the deficit suffices. The rest remains for its
/// next turn, unless the input is empty. Inputs whose notifier says empty are skipped. The packet
/// that an input may not send yet waits in the element. More may wait if packets get longer: a
/// turn's packets are pulled together, as many as would fit if all were as long as the last one.
///
/// A pull while no input has packets puts the puller's task to sleep.
///
/// # Example
/// ```click
/// d :: DRRSched(1500);
/// InfiniteSource(LENGTH 100, LIMIT 10) -> Queue -> [0]d;
/// InfiniteSource(LENGTH 1000, LIMIT 10) -> Queue -> [1]d;
/// d -> Discard;
/// ```
///
/// # See also
/// RoundRobinSched, StrideSched, PrioSched
#[derive(Element)]
#[element(ports = "-/1", processing = "l")]
pub struct DRRSched {
    /// Bytes added to an input's deficit at each turn. If it is at least the length of the longest
    /// packet, every pull finds a packet if there is one.
    #[arg(positional, default = 500)]
    quantum: i32,
    inputs: Vec<Input>,
    /// The input whose turn it is.
    next: usize,
    signal: Option<SignalId>,
    gathered: Gathered,
    /// Inputs that had their turn since the last packet.
    turns: usize,
    /// Whether any of them has, or may have, packets.
    any: bool,
}

#[derive(Default)]
struct Input {
    /// Packets that wait until their input may send them.
    waiting: Batch,
    /// Bytes that the input may send.
    deficit: u64,
    /// The length of the last packet that came.
    length: u64,
    signal: Signal,
}

impl Input {
    /// Packets to ask for, at most `left`: those that the deficit suffices for if they are as long
    /// as the last one, and the one that then waits.
    #[inline]
    fn share(&self, left: usize) -> usize {
        let fit = self.deficit.checked_div(self.length).unwrap_or(0);
        left.min(usize::try_from(fit).map_or(left, |fit| fit.saturating_add(1)))
    }

    /// Subtracts the packets that the deficit suffices for, at most `left`; returns how many.
    #[inline]
    fn charge(&mut self, left: usize) -> usize {
        let mut count = 0;
        for packet in self.waiting.iter().take(left) {
            let Some(rest) = self.deficit.checked_sub(packet.len() as u64) else {
                break;
            };
            self.deficit = rest;
            count += 1;
        }
        count
    }
}

impl DRRSched {
    fn begin_round(&mut self) {
        (self.turns, self.any) = (0, false);
    }

    /// Gives the inputs their turns, and asks the next one that may have a packet unless it was
    /// `asked` already; gives what came once no input may send one within a round, or no more is
    /// wanted.
    fn go_on(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, mut asked: bool) {
        while self.gathered.left() > 0 && self.turns < self.inputs.len() {
            let left = self.gathered.left();
            let input = &mut self.inputs[self.next];
            let ask = !asked && input.waiting.is_empty() && cx.is_active(&input.signal);
            self.any |= asked || ask || !input.waiting.is_empty();
            if ask {
                return cx.pull_through(self.next, input.share(left));
            }
            asked = false;
            if input.waiting.is_empty() {
                input.deficit = 0;
            }
            let count = input.charge(left);
            if count > 0 {
                self.gathered.take(&mut input.waiting, count);
                self.begin_round();
                continue;
            }
            self.next = (self.next + 1) % self.inputs.len();
            self.inputs[self.next].deficit += u64::from(self.quantum.unsigned_abs());
            self.turns += 1;
        }
        if let Some(signal) = self.signal {
            cx.set_signal(signal, self.any || !self.gathered.is_empty());
        }
        self.gathered.give(batch);
    }
}

impl Element for DRRSched {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if self.quantum < 1 {
            return Err(args.fail("bad QUANTUM"));
        }
        self.signal = Some(cx.relay_signal(Notice::Empty, true));
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let Some(signal) = self.signal else {
            return Ok(());
        };
        for i in 0..cx.inputs() {
            let signal = cx.lead_upstream(i, signal);
            self.inputs.push(Input {
                signal,
                ..Input::default()
            });
        }
        Ok(())
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        self.gathered.begin(most);
        self.begin_round();
        self.go_on(cx, batch, false);
    }

    fn pulled(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        if let Some(input) = self.inputs.get_mut(self.next) {
            if let Some(last) = batch.as_slice().last() {
                input.length = last.len() as u64;
            }
            input.waiting.append(batch, packet::BATCH);
        }
        self.go_on(cx, batch, true);
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        for input in &mut self.inputs {
            input.waiting.drain().for_each(|packet| cx.kill(packet));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    fn rig(quantum: u32, inputs: usize) -> Rig {
        let mut config = format!("d :: DRRSched({quantum}) -> p :: Puller;");
        for i in 0..inputs {
            config += &format!("i{i} :: Inject -> Queue -> [{i}] d;");
        }
        Rig::new(&config)
    }

    /// A packet of input `i`.
    fn packet(i: usize, length: usize) -> Vec<u8> {
        let mut data = vec![0; length];
        data[0] = i as u8;
        data
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        /// Inputs that always have packets are never more than a quantum and a packet apart.
        #[test]
        fn bytes_are_shared_equally(
            quantum in 20u32..3000,
            lengths in prop::collection::vec(
                prop::collection::vec(1usize..1500, 300), 2..5),
            most in prop::sample::select(&[1usize, 64][..]),
        ) {
            let mut rig = rig(quantum, lengths.len());
            for (i, lengths) in lengths.iter().enumerate() {
                let packets: Vec<_> = lengths.iter().map(|length| packet(i, *length)).collect();
                rig.push_all(&format!("i{i}"), &packets);
            }
            let longest = *lengths.iter().flatten().max().unwrap();
            let mut sent = vec![(0, 0); lengths.len()];
            // As long as no input runs dry.
            let mut idle = 0;
            while sent.iter().all(|(packets, _)| *packets < 230) && idle < 200 {
                let pulled = rig.pull("p", most);
                idle = if pulled.is_empty() { idle + 1 } else { 0 };
                for packet in pulled {
                    let (packets, bytes) = &mut sent[packet.data()[0] as usize];
                    *packets += 1;
                    *bytes += packet.len();
                }
                let least = sent.iter().map(|(_, bytes)| *bytes).min().unwrap();
                let most = sent.iter().map(|(_, bytes)| *bytes).max().unwrap();
                // Within a batch turns go on: what one input has more is a turn's worth.
                let slack = quantum as usize + 2 * longest;
                prop_assert!(most - least <= slack, "{sent:?}");
            }
            prop_assert!(idle < 200, "packets were found");
        }

        /// Nothing is lost, and the packets of an input stay in order.
        #[test]
        fn every_packet_leaves(
            quantum in 20u32..3000,
            counts in prop::collection::vec(0usize..30, 1..6),
        ) {
            let mut rig = rig(quantum, counts.len());
            for (i, count) in counts.iter().enumerate() {
                for n in 0..*count {
                    let mut data = packet(i, 2 + (n * 337) % 1400);
                    data[1] = n as u8;
                    rig.push(&format!("i{i}"), &data);
                }
            }
            let mut next = vec![0; counts.len()];
            for _ in 0..20_000 {
                for packet in rig.pull("p", 64) {
                    let [i, n, ..] = *packet.data() else { unreachable!() };
                    prop_assert_eq!(next[i as usize], n);
                    next[i as usize] += 1;
                }
                if rig.outstanding() == 0 {
                    break;
                }
            }
            let left: Vec<_> = next.into_iter().map(usize::from).collect();
            prop_assert_eq!(left, counts);
        }
    }

    #[test]
    fn turns_are_those_of_click() {
        // A pull goes once around: where nobody may send yet, it finds nothing.
        let mut rig = rig(500, 2);
        for _ in 0..2 {
            rig.push("i0", &packet(0, 600));
            for _ in 0..3 {
                rig.push("i1", &packet(1, 200));
            }
        }
        let mut turns = String::new();
        for _ in 0..20 {
            let pulled = rig.pull("p", 1);
            turns += pulled
                .first()
                .map_or("-", |p| if p.data()[0] == 0 { "0" } else { "1" });
        }
        assert_eq!(turns.trim_end_matches('-'), "11-111010");
    }

    #[test]
    fn the_puller_sleeps_while_all_inputs_are_empty() {
        let config =
            "i :: Inject -> Queue -> [0] d :: DRRSched(10) -> u :: Unqueue -> c :: Collect;
            Idle -> [1] d; j :: Inject -> Queue -> [2] d;";
        let mut rig = Rig::new(config);
        rig.run();
        assert_eq!(rig.read("u.scheduled"), "false");
        for length in [100, 1, 5000] {
            rig.push("j", &vec![0; length]);
            rig.run();
            assert_eq!(rig.collected("c").len(), 1, "{length} bytes");
            assert_eq!(rig.read("u.scheduled"), "false");
        }
        rig.push("i", &[1]);
        rig.run();
        assert_eq!(rig.data("c"), [[1]]);
    }

    #[test]
    fn the_waiting_packet_is_released_at_the_end() {
        let mut rig = Rig::new("i :: Inject -> Queue -> DRRSched(1) -> p :: Puller;");
        rig.push("i", &[0; 100]);
        assert!(rig.pull("p", 1).is_empty());
        assert_eq!(rig.outstanding(), 1);
        rig.end();
        for quantum in ["0", "-1"] {
            Rig::refuses(
                &format!("Idle -> DRRSched({quantum}) -> Discard;"),
                "bad QUANTUM",
            );
        }
    }
}
