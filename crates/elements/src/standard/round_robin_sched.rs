use super::input_signals::{busy_signals, upstream_signals};
use crate::prelude::*;
use crate::pulls::gathered::Gathered;

/// Pulls from its inputs in turn.
///
/// Each packet comes from the next input that has one. Inputs whose notifier says empty are
/// skipped. `RRSched` is another name of the class.
///
/// # Example
/// ```click
/// r :: RoundRobinSched;
/// InfiniteSource(LIMIT 10) -> Queue -> [0]r;
/// InfiniteSource(LIMIT 10) -> Queue -> [1]r;
/// r -> Discard;
/// ```
///
/// # See also
/// DRRSched, StrideSched, PrioSched, PullSwitch, RoundRobinSwitch
#[derive(Element)]
#[element(ports = "-/1", processing = "l", segments, alias("RRSched"))]
pub struct RoundRobinSched {
    next: usize,
    signals: Vec<Signal>,
    gathered: Gathered,
    round: Round,
}

/// A round of the inputs: each is asked for the same number of packets, which then are taken in turn.
#[derive(Default)]
struct Round {
    /// Inputs that were asked, or need not be.
    asked: usize,
    /// Packets that are still wanted in this round, and from each input.
    left: usize,
    share: usize,
    /// For each input what was pulled from it, the next packet last.
    pulled: Vec<Batch>,
}

impl RoundRobinSched {
    /// Prepares to ask all inputs, whether they have something or not.
    pub(crate) fn ask_always(&mut self, cx: &Cx<'_>) {
        self.set_signals(busy_signals(cx));
    }

    fn set_signals(&mut self, signals: Vec<Signal>) {
        self.round.pulled = signals.iter().map(|_| Batch::new()).collect();
        self.signals = signals;
    }

    /// The input that is asked as number `asked` of a round.
    #[inline]
    fn input(&self, asked: usize) -> usize {
        let input = self.next + asked;
        input.checked_sub(self.signals.len()).unwrap_or(input)
    }

    /// Begins a round for the packets that are still wanted.
    #[inline]
    fn begin_round(&mut self) {
        let left = self.gathered.left();
        let share = left.checked_div(self.signals.len()).unwrap_or(0).max(1);
        (self.round.asked, self.round.left, self.round.share) = (0, left, share);
    }

    /// Takes what the inputs gave in turn; returns whether that is anything.
    #[inline]
    fn take_turns(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut untaken = self.gathered.left() - self.round.left;
        let any = untaken > 0;
        let mut asked = 0;
        while untaken > 0 && asked < self.signals.len() {
            let input = self.input(asked);
            if let Some(packet) = self.round.pulled[input].pop() {
                self.gathered.push(cx, packet);
                untaken -= 1;
                self.next = self.input(asked + 1);
                asked = 0;
            } else {
                asked += 1;
            }
        }
        any
    }

    /// Asks the next input that may have a packet; gives what came once no input has more, or no
    /// more is wanted.
    #[inline]
    fn go_on(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        loop {
            while self.round.left > 0 && self.round.asked < self.signals.len() {
                let input = self.input(self.round.asked);
                if cx.is_active(&self.signals[input]) {
                    return cx.pull_through(input, self.round.share.min(self.round.left));
                }
                self.round.asked += 1;
            }
            if !self.take_turns(cx) || self.gathered.left() == 0 {
                return self.gathered.give(batch);
            }
            self.begin_round();
        }
    }
}

impl Element for RoundRobinSched {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.set_signals(upstream_signals(cx));
        Ok(())
    }

    #[inline]
    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        self.gathered.begin(most);
        self.begin_round();
        self.go_on(cx, batch);
    }

    #[inline]
    fn pulled(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let input = self.input(self.round.asked);
        batch.as_mut_slice().reverse();
        self.round.left -= self.round.pulled[input].append(batch, self.round.left);
        self.round.asked += 1;
        self.go_on(cx, batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    fn rig(class: &str, inputs: usize) -> Rig {
        let mut config = format!("s :: {class} -> p :: Puller;");
        for i in 0..inputs {
            config += &format!("i{i} :: Inject -> Queue -> [{i}] s;");
        }
        Rig::new(&config)
    }

    fn pulled(rig: &mut Rig, most: usize) -> Vec<u8> {
        let packets = rig.pull("p", most);
        packets.iter().map(|packet| packet.data()[0]).collect()
    }

    #[test]
    fn inputs_take_turns() {
        for (most, class) in [
            (1, "RoundRobinSched"),
            (3, "RRSched"),
            (64, "RoundRobinSched"),
        ] {
            let mut rig = rig(class, 3);
            for (input, data) in [("i0", 1), ("i0", 2), ("i0", 3), ("i1", 11), ("i2", 21)] {
                rig.push(input, &[data]);
            }
            let mut all = Vec::new();
            loop {
                let more = pulled(&mut rig, most);
                if more.is_empty() {
                    break;
                }
                all.extend(more);
            }
            assert_eq!(all, [1, 11, 21, 2, 3], "{most} at a time");
        }
    }

    proptest! {
        /// Whatever the batches, packets leave in the order in which they would one by one.
        #[test]
        fn batches_do_not_change_turns(
            lengths in prop::collection::vec(0usize..40, 1..6),
            sizes in prop::collection::vec(1usize..64, 1..8),
        ) {
            let run = |sizes: &[usize]| {
                let mut rig = rig("RoundRobinSched", lengths.len());
                for (i, length) in lengths.iter().enumerate() {
                    for n in 0..*length {
                        rig.push(&format!("i{i}"), &[(i * 40 + n) as u8]);
                    }
                }
                let mut all = Vec::new();
                for size in sizes.iter().cycle() {
                    let more = pulled(&mut rig, *size);
                    if more.is_empty() {
                        break;
                    }
                    all.extend(more);
                }
                all
            };
            prop_assert_eq!(run(&sizes), run(&[1]));
        }
    }

    /// What happens to a scheduler: packets come by an input, or are pulled.
    #[derive(Clone, Debug)]
    enum Event {
        Come(usize, usize),
        Pull(usize),
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let event = prop_oneof![
            (0usize..4, 1usize..20).prop_map(|(input, n)| Event::Come(input, n)),
            (1usize..64).prop_map(Event::Pull),
        ];
        prop::collection::vec(event, 1..60)
    }

    /// Lets `events` happen to a scheduler of four inputs. `check` gets the numbers of packets that
    /// the inputs have before each packet that leaves, its input, and the one before it.
    fn play(class: &str, events: &[Event], check: impl Fn(&[usize], usize, Option<usize>)) {
        let mut rig = rig(class, 4);
        let (mut waiting, mut last) = ([0; 4], None);
        for event in events {
            match *event {
                Event::Come(input, n) => {
                    (0..n).for_each(|_| rig.push(&format!("i{input}"), &[input as u8]));
                    waiting[input] += n;
                }
                Event::Pull(most) => {
                    let inputs = pulled(&mut rig, most);
                    assert_eq!(inputs.len(), most.min(waiting.iter().sum()));
                    for input in inputs.into_iter().map(usize::from) {
                        check(&waiting, input, last);
                        waiting[input] -= 1;
                        last = Some(input);
                    }
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        /// No packet leaves while an input of a lower number has one.
        #[test]
        fn priority_is_strict(events in events()) {
            for class in ["PrioSched", "SimplePrioSched"] {
                play(class, &events, |waiting, input, _| {
                    assert!(waiting[..input].iter().all(|n| *n == 0), "{class} {waiting:?}");
                });
            }
        }

        /// Each packet comes from the next input, after that of the packet before, which has one.
        #[test]
        fn turns_go_around(events in events()) {
            for class in ["RRSched", "SimpleRRSched"] {
                play(class, &events, |waiting, input, last| {
                    let first = last.map_or(0, |last| last + 1);
                    let next = (first..first + 4).map(|i| i % 4).find(|i| waiting[*i] > 0);
                    assert_eq!(next, Some(input), "{class} {waiting:?}");
                });
            }
        }
    }

    #[test]
    fn simple_schedulers_are_asked_for_ever() {
        for class in ["SimpleRRSched", "SimplePrioSched"] {
            let config = format!(
                "i :: Inject -> SimpleQueue -> [0] s :: {class} -> u :: Unqueue -> c :: Collect;
                 SimpleIdle -> [1] s;"
            );
            let mut rig = Rig::new(&config);
            for _ in 0..20 {
                rig.step();
            }
            assert_eq!(rig.read("u.scheduled"), "true", "{class}");
            rig.push("i", &[1]);
            rig.step();
            assert_eq!(rig.data("c"), [[1]]);
        }
    }

    #[test]
    fn the_puller_sleeps_while_all_inputs_are_empty() {
        for class in ["RoundRobinSched", "PrioSched"] {
            let config = format!(
                "i :: Inject -> Queue -> [0] s :: {class} -> u :: Unqueue -> c :: Collect;
                 Idle -> [1] s; j :: Inject -> Queue -> [2] s;"
            );
            let mut rig = Rig::new(&config);
            rig.run();
            assert_eq!(rig.read("u.scheduled"), "false");
            rig.push("j", &[1]);
            assert_eq!(rig.read("u.scheduled"), "true");
            rig.run();
            assert_eq!(rig.data("c"), [[1]]);
            assert_eq!(rig.read("u.scheduled"), "false");
        }
    }
}
