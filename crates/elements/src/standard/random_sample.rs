use crate::prelude::*;

/// Binary digits of a probability.
const BITS: u32 = 28;
const ONE: u32 = 1 << BITS;
const PROBABILITY: FixedPoint = FixedPoint { bits: BITS };

/// What handlers refuse a value with.
const OUT_OF_RANGE: &str = "Must be given a number between 0.0 and 1.0";

/// Lets packets pass with a probability.
///
/// One of P, SAMPLE and DROP is mandatory.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 1000) -> RandomSample(0.1) -> Print(sample) -> Discard;
/// ```
///
/// # See also
/// RandomSwitch, RandomBitErrors, RatedSplitter
#[derive(Element)]
#[element(ports = "1/1-2", processing = "a/ah", segments, live, handlers)]
#[outputs("packets that pass", "the others")]
pub struct RandomSample {
    /// The probability, 0 to 1.
    #[arg(positional, default = u32::MAX, with = PROBABILITY, kind = "probability")]
    p: u32,
    /// The same.
    #[arg(with = optional, kind = "probability")]
    sample: Option<u32>,
    /// The probability with which a packet does not pass; not together with SAMPLE.
    #[arg(with = optional, kind = "probability")]
    drop: Option<u32>,
    /// Whether it drops packets.
    #[arg(default = true, read, write, checkbox, error = "expected boolean")]
    active: bool,
    /// Packets that did not pass.
    #[handler(read)]
    drops: u64,
    /// Parts of 2²⁸.
    probability: u32,
}

fn optional(text: &str, context: &Context<'_>) -> Result<Option<u32>, Invalid> {
    PROBABILITY.parse(text, context).map(Some)
}

fn shown(probability: u32) -> String {
    unparse::real2(probability.into(), BITS)
}

#[handlers]
impl RandomSample {
    /// The arguments that stand for the present state.
    #[read]
    fn config(&self) -> String {
        format!("SAMPLE {}, ACTIVE {}", shown(self.probability), self.active)
    }

    /// The probability with which a packet passes.
    #[read]
    fn read_sampling_prob(&self) -> String {
        shown(self.probability)
    }

    /// The probability with which a packet passes.
    #[write(with = PROBABILITY, error = "Must be given a number between 0.0 and 1.0")]
    fn write_sampling_prob(&mut self, probability: u32) -> Result<(), &'static str> {
        if probability > ONE {
            return Err(OUT_OF_RANGE);
        }
        self.probability = probability;
        Ok(())
    }

    /// The probability with which a packet does not pass.
    #[read]
    fn read_drop_prob(&self) -> String {
        shown(ONE - self.probability)
    }

    /// The probability with which a packet does not pass.
    #[write(with = PROBABILITY, error = "Must be given a number between 0.0 and 1.0")]
    fn write_drop_prob(&mut self, probability: u32) -> Result<(), &'static str> {
        self.probability = ONE.checked_sub(probability).ok_or(OUT_OF_RANGE)?;
        Ok(())
    }
}

impl Element for RandomSample {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let sample = match (self.sample, self.drop) {
            (Some(_), Some(_)) => return Err(args.fail("give at most one of SAMPLE and DROP")),
            (Some(sample), None) => sample,
            (None, Some(drop)) => ONE.wrapping_sub(drop),
            (None, None) => self.p,
        };
        if sample > ONE {
            return Err(args.fail("sampling probability must be between 0 and 1"));
        }
        self.probability = sample;
        Ok(())
    }

    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if !self.active || cx.random().bits(BITS) < self.probability {
            return Verdict::Forward;
        }
        self.drops += packet.stands_for() as u64;
        Verdict::To(1)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    /// Packets that pass and do not, of 10000, pulled or pushed.
    fn sampled(sample: &str, pull: bool) -> (u32, u32) {
        let way = if pull { "-> Queue(10000) ->" } else { "->" };
        let end = if pull { "-> Unqueue ->" } else { "->" };
        let mut rig = Rig::new(&alloc::format!(
            "InfiniteSource(LIMIT 10000, BURST 64) {way} r :: RandomSample({sample}) {end}
             a :: Counter -> Discard; r[1] -> b :: Counter -> Discard;"
        ));
        for _ in 0..4 {
            rig.run();
        }
        assert_eq!(rig.read("r.drops"), rig.read("b.count"));
        let mut count = |name: &str| rig.read(name).parse().unwrap();
        (count("a.count"), count("b.count"))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn packets_pass_with_the_probability(percent in 0u32..=100, pull: bool, drop: bool) {
            let sample = if drop {
                alloc::format!("DROP {}", f64::from(100 - percent) / 100.0)
            } else {
                alloc::format!("{}", f64::from(percent) / 100.0)
            };
            let (passed, others) = sampled(&sample, pull);
            prop_assert_eq!(passed + others, 10_000);
            prop_assert!(passed.abs_diff(percent * 100) <= 300, "{passed} for {percent} %");
            if percent % 100 == 0 {
                prop_assert_eq!(passed, percent * 100);
            }
        }
    }

    #[test]
    fn handlers_show_and_change_it() {
        let mut rig = Rig::new("i :: Inject -> r :: RandomSample(SAMPLE 0.25) -> c :: Collect;");
        rig.assert_handlers(&[("r.sampling_prob", "0.25"), ("r.drop_prob", "0.75")]);
        rig.write("r.drop_prob", "1");
        assert_eq!(rig.read("r.config"), "SAMPLE 0, ACTIVE true");
        rig.push("i", &[1]);
        assert_eq!(
            (rig.data("c").len(), rig.read("r.drops"), rig.outstanding()),
            (0, "1".into(), 0)
        );
        rig.write("r.active", "false");
        rig.push("i", &[1]);
        assert_eq!(rig.data("c").len(), 1);
        for value in ["1.1", "-1", "x"] {
            let refused = rig.try_write("r.sampling_prob", value);
            assert_eq!(
                refused,
                Err("Must be given a number between 0.0 and 1.0".into())
            );
        }
    }

    #[test]
    fn wrong_probabilities_are_refused() {
        for (arguments, message) in [
            ("", "sampling probability must be between 0 and 1"),
            ("1.1", "sampling probability must be between 0 and 1"),
            ("DROP 1.1", "sampling probability must be between 0 and 1"),
            (
                "DROP 0.5, SAMPLE 0.5",
                "give at most one of SAMPLE and DROP",
            ),
        ] {
            let errors = Rig::errors(&alloc::format!(
                "Idle -> RandomSample({arguments}) -> Discard;"
            ));
            assert!(errors.contains(message), "{errors}");
        }
    }

    /// As Click's after the same seed.
    #[test]
    fn a_seed_repeats_the_sample() {
        let mut rig = Rig::new(
            "RandomSeed(4); InfiniteSource(LIMIT 20) -> RandomSample(0.5) -> c :: Counter -> Discard;",
        );
        rig.advance(MS);
        assert_eq!(rig.read("c.count"), "12");
    }
}
