use alloc::format;
use alloc::string::{String, ToString};

use packet::Packet;
use router::args::{Args, Failed, FixedPoint, Parser, unparse};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerFlags, HandlerList, Verdict};

use crate::values;

/// Binary digits of a probability.
const BITS: u32 = 28;
const ONE: u32 = 1 << BITS;

/// Lets packets pass with a probability.
///
/// The others leave by output 1, or are dropped if that is not connected.
///
/// # Arguments
/// - `P` (0 to 1): the probability. This, SAMPLE or DROP must be given.
/// - `SAMPLE` (0 to 1): the same.
/// - `DROP` (0 to 1): the probability with which a packet does not pass; not together with SAMPLE.
/// - `ACTIVE` (boolean, true): whether it keeps anything back.
///
/// # Ports
/// One input; output 0 of the same kind; output 1, optional, is push.
///
/// # Handlers
/// - `sampling_prob`, `drop_prob` (read, write): the probabilities with which a packet passes, and
///   does not.
/// - `active` (read, write): the argument.
/// - `drops` (read): packets that did not pass.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 1000) -> RandomSample(0.1) -> Print(sample) -> Discard;
/// ```
///
/// # See also
/// RandomSwitch, RandomBitErrors, RatedSplitter
#[derive(Default)]
pub struct RandomSample {
    /// Parts of 2²⁸.
    probability: u32,
    active: bool,
    drops: u64,
}

impl Class for RandomSample {
    const NAME: &'static str = "RandomSample";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const SEGMENTS: bool = true;
}

impl Declared for RandomSample {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let parser = FixedPoint { bits: BITS };
        let (mut p, mut sample, mut drop, mut active) = (u32::MAX, u32::MAX, u32::MAX, true);
        let (mut has_sample, mut has_drop) = (false, false);
        args.positional_with("P", parser, &mut p)
            .keyword_with("SAMPLE", parser, &mut sample)
            .given(&mut has_sample)
            .keyword_with("DROP", parser, &mut drop)
            .given(&mut has_drop)
            .keyword("ACTIVE", &mut active)
            .complete()?;
        if has_sample && has_drop {
            return Err(args.fail("give at most one of SAMPLE and DROP"));
        }
        let sample = match (has_sample, has_drop) {
            (true, _) => sample,
            (_, true) => ONE.wrapping_sub(drop),
            _ => p,
        };
        if sample > ONE {
            return Err(args.fail("sampling probability must be between 0 and 1"));
        }
        (self.probability, self.active) = (sample, active);
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read_write("sampling_prob").checkbox("active");
        list.read("drops").read_write("drop_prob");
        list.add("config", HandlerFlags::CALM);
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        let shown = |probability: u32| unparse::real2(probability.into(), BITS);
        match name {
            "sampling_prob" => Ok(shown(self.probability)),
            "drop_prob" => Ok(shown(ONE - self.probability)),
            "active" => Ok(self.active.to_string()),
            "drops" => Ok(self.drops.to_string()),
            "config" => Ok(format!(
                "SAMPLE {}, ACTIVE {}",
                shown(self.probability),
                self.active
            )),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        if name == "active" {
            self.active = values::boolean(cx, value)?;
            return Ok(());
        }
        let value = click::config::uncomment(value);
        let parsed = (FixedPoint { bits: BITS }).parse(&value, &cx.names());
        let probability = parsed.ok().filter(|probability| *probability <= ONE);
        let probability = probability.ok_or("Must be given a number between 0.0 and 1.0")?;
        self.probability = match name {
            "sampling_prob" => probability,
            "drop_prob" => ONE - probability,
            _ => return Err(HandlerError::Unknown),
        };
        Ok(())
    }
}

impl Element for RandomSample {
    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, _packet: &mut Packet) -> Verdict {
        if !self.active || cx.random().next_u32() >> (u32::BITS - BITS) < self.probability {
            return Verdict::Forward;
        }
        self.drops += 1;
        Verdict::To(1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::testing::Rig;

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
            let sample = match drop {
                true => alloc::format!("DROP {}", f64::from(100 - percent) / 100.0),
                false => alloc::format!("{}", f64::from(percent) / 100.0),
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
        assert_eq!((rig.read("r.sampling_prob"), rig.read("r.drop_prob")), ("0.25".into(), "0.75".into()));
        rig.write("r.drop_prob", "1");
        assert_eq!(rig.read("r.config"), "SAMPLE 0, ACTIVE true");
        rig.push("i", &[1]);
        assert_eq!((rig.data("c").len(), rig.read("r.drops"), rig.outstanding()), (0, "1".into(), 0));
        rig.write("r.active", "false");
        rig.push("i", &[1]);
        assert_eq!(rig.data("c").len(), 1);
        for value in ["1.1", "-1", "x"] {
            let refused = rig.try_write("r.sampling_prob", value);
            assert_eq!(refused, Err("Must be given a number between 0.0 and 1.0".into()));
        }
    }

    #[test]
    fn wrong_probabilities_are_refused() {
        for (arguments, message) in [
            ("", "sampling probability must be between 0 and 1"),
            ("1.1", "sampling probability must be between 0 and 1"),
            ("DROP 1.1", "sampling probability must be between 0 and 1"),
            ("DROP 0.5, SAMPLE 0.5", "give at most one of SAMPLE and DROP"),
        ] {
            let errors = Rig::errors(&alloc::format!("Idle -> RandomSample({arguments}) -> Discard;"));
            assert!(errors.contains(message), "{errors}");
        }
    }
}
