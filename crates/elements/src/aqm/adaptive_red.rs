use super::red_core::{PROBABILITY, Parameters, Red};
use crate::prelude::*;

/// Nanoseconds between adaptations.
const INTERVAL: u64 = 500_000_000;
/// Least target length.
const TARGET_MIN: u32 = 10;
/// Above this, the probability may fall: one part in a hundred.
const ONE_HUNDREDTH: u32 = 655;
/// What it falls to: nine tenths.
const NINE_TENTHS: u32 = 58_982;
/// Below this, the probability may rise: one half.
const HALF: u32 = 0x8000;

/// Drops packets at random so that the queue has a given average length.
///
/// As RED, with thresholds at half and one and a half of the target. Twice a second the marking
/// probability is adapted: it falls by a tenth when the average is below the target's
/// neighbourhood, and rises by a quarter, at most by 0.01, when it is above (Floyd, Gummadi and
/// Shenker, 2001).
///
/// # Example
/// ```click
/// RatedSource(RATE 1000, LIMIT 1000, STOP true)
///     -> AdaptiveRED(20, 0.02) -> Queue(200) -> RatedUnqueue(900) -> Discard;
/// ```
///
/// # See also
/// RED, CoDel, PI, Queue
#[derive(Element)]
#[element(
    ports = "1/1-2",
    processing = "a/ah",
    is_a("RED"),
    segments,
    live,
    handlers,
    take_over
)]
#[outputs("packets that are not marked", "marked packets")]
pub struct AdaptiveRED {
    /// The target of the average length, at least 10.
    #[arg(mandatory)]
    target: u32,
    /// The marking probability to start from, 0 to 1, as RED's.
    #[arg(mandatory, with = PROBABILITY, kind = "probability")]
    max_p: u32,
    /// The queues to observe, instead of the nearest.
    #[arg(name = "QUEUES", with = args::Any, kind = "element names")]
    names: String,
    #[delegate(configured = complete, initialize = start, run_timer = adapt)]
    red: Red,
}

#[handlers]
impl AdaptiveRED {
    /// The lower threshold.
    #[read]
    fn min_thresh(&self) -> u32 {
        self.red.parameters.min_thresh
    }

    /// The upper threshold.
    #[read]
    fn max_thresh(&self) -> u32 {
        self.red.parameters.max_thresh
    }

    /// The present marking probability.
    #[read]
    fn max_p(&self) -> String {
        self.red.max_p()
    }

    /// The arguments as they are now.
    #[read]
    fn config(&self, cx: &mut Cx<'_>) -> String {
        let (target, max_p, queues) = (
            self.target(),
            self.max_p(),
            self.red.seen.queues.argument(cx),
        );
        let stability = self.red.parameters.stability;
        format!("{target}, {max_p}, {queues}, STABILITY {stability}")
    }
}

impl AdaptiveRED {
    fn target(&self) -> u32 {
        self.target.max(TARGET_MIN)
    }

    fn complete(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let target = self.target();
        let parameters = Parameters {
            min_thresh: target / 2,
            max_thresh: target.saturating_add(target / 2),
            max_p: self.max_p,
            ..Parameters::default()
        };
        self.red.configured(args, parameters, &self.names)
    }

    fn start(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.red.initialize(cx)?;
        let timer = cx.timer();
        cx.schedule_after(timer, INTERVAL);
        Ok(())
    }

    fn adapt(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        let mut parameters = self.red.parameters;
        parameters.max_p = adapted(&parameters, self.red.observed(cx));
        self.red.set(parameters);
        cx.schedule_after(timer, INTERVAL);
    }
}

/// The marking probability after an interval with this average length.
fn adapted(parameters: &Parameters, average: u64) -> u32 {
    let part = (parameters.max_thresh - parameters.min_thresh) / 2;
    let max_p = parameters.max_p;
    if average < u64::from(parameters.min_thresh + part) && max_p > ONE_HUNDREDTH {
        ((u64::from(max_p) * u64::from(NINE_TENTHS)) >> 16) as u32
    } else if average > u64::from(parameters.max_thresh - part) && max_p < HALF {
        max_p + ONE_HUNDREDTH.min(max_p / 4)
    } else {
        max_p
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn thresholds_follow_the_target() {
        let mut rig = Rig::new("Inject -> r :: AdaptiveRED(40, 0.02) -> q :: Queue -> Puller;");
        rig.assert_handlers(&[("r.min_thresh", "20"), ("r.max_thresh", "60")]);
        assert_eq!(rig.read("r.config"), "40, 0.02, QUEUES q, STABILITY 4");
        let mut rig = Rig::new("Inject -> r :: AdaptiveRED(1, 0.02) -> q :: Queue -> Puller;");
        rig.assert_handlers(&[("r.min_thresh", "5"), ("r.max_thresh", "15")]);
        let errors = Rig::errors("Inject -> AdaptiveRED(60000, 0.5) -> Queue -> Puller;");
        assert!(errors.contains("MAX_THRESH must be <= 65535"), "{errors}");
    }

    #[test]
    fn the_probability_falls_while_the_queue_is_short() {
        let mut rig = Rig::new("Inject -> r :: AdaptiveRED(40, 0.5) -> Queue -> Puller;");
        rig.advance(SECOND / 2 + 1);
        let once: f64 = rig.read("r.max_p").parse().unwrap();
        assert!((once - 0.45).abs() < 0.001, "{once}");
        rig.advance(100 * SECOND);
        let last: f64 = rig.read("r.max_p").parse().unwrap();
        assert!(last > 0.008 && last <= 0.01, "{last}");
    }

    #[test]
    fn the_queue_comes_to_its_target_under_overload() {
        // A third more than can leave: the probability has to rise from a fiftieth to a quarter.
        let mut rig = Rig::new(
            "RatedSource(RATE 4000) -> r :: AdaptiveRED(100, 0.02, STABILITY 6)
             -> q :: Queue(1000) -> RatedUnqueue(3000) -> Discard;",
        );
        rig.advance(40 * SECOND);
        let mut sum = 0;
        for _ in 0..100 {
            rig.advance(SECOND / 10);
            sum += rig.read("q.length").parse::<u64>().unwrap();
        }
        let average = sum / 100;
        assert!((60..140).contains(&average), "{average}");
    }
}
