use alloc::format;
use alloc::string::String;
use core::any::Any;

use packet::Batch;
use router::args::{self, Args, Failed, FixedPoint, unparse};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList, TimerId};

use super::red_core::{Parameters, Red};

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

/// Drops packets at random such that the queue is of a given length on average.
///
/// As RED, with thresholds at half and one and a half of the target. Twice a second the marking
/// probability is adapted: it falls by a tenth when the average is below the target's
/// neighbourhood, and rises by a quarter, at most by 0.01, when it is above (Floyd, Gummadi and
/// Shenker, 2001).
///
/// # Arguments
/// - `TARGET` (integer): the average length aimed at, at least 10.
/// - `MAX_P` (real from 0 to 1): the marking probability to start from, as RED's.
/// - `QUEUES` (element names): the queues whose lengths count, instead of the nearest.
/// - `STABILITY` (integer from 0 to 16, 4): how slowly the average follows.
///
/// # Ports
/// One input, agnostic. Output 0 is as the input; output 1, optional, is push: marked packets.
///
/// # Handlers
/// - `min_thresh`, `max_thresh`, `max_p` (read): RED's parameters as they are at the moment.
/// - `drops` (read): packets marked.
/// - `queues` (read): the queues that count, one a line.
/// - `avg_queue_size` (read): their average length.
/// - `stats` (read): length, average length and packets marked, in words.
///
/// # Example
/// ```click
/// RatedSource(RATE 1000, LIMIT 1000, STOP true)
///     -> AdaptiveRED(20, 0.02) -> Queue(200) -> RatedUnqueue(900) -> Discard;
/// ```
///
/// # See also
/// RED, CoDel, PI, Queue
#[derive(Default)]
pub struct AdaptiveRED {
    red: Red,
    target: u32,
    timer: Option<TimerId>,
}

impl Class for AdaptiveRED {
    const NAME: &'static str = "AdaptiveRED";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const IS_A: &'static [&'static str] = &["RED"];
    const SEGMENTS: bool = true;
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

impl Declared for AdaptiveRED {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let (mut target, mut queues) = (0u32, String::new());
        let mut parameters = Parameters::default();
        args.mandatory_positional("TARGET", &mut target)
            .mandatory_positional_with("MAX_P", FixedPoint { bits: 16 }, &mut parameters.max_p)
            .keyword_with("QUEUES", args::Any, &mut queues)
            .keyword("STABILITY", &mut parameters.stability)
            .complete()?;
        let target = target.max(TARGET_MIN);
        parameters.min_thresh = target / 2;
        parameters.max_thresh = target.saturating_add(target / 2);
        self.red.configure(args, parameters, &queues)?;
        self.target = target;
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    fn handlers(&self, list: &mut HandlerList) {
        self.red.handlers(list);
    }

    fn read(&mut self, cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        if name != "config" {
            return self.red.read(cx, name);
        }
        let max_p = unparse::real2(self.red.parameters.max_p.into(), 16);
        let (target, queues) = (self.target, self.red.queues.argument(cx));
        let stability = self.red.parameters.stability;
        Ok(format!("{target}, {max_p}, {queues}, STABILITY {stability}"))
    }

    fn take_state(&mut self, _cx: &mut Cx<'_>, old: &mut dyn Element) {
        let old: &mut dyn Any = old;
        if let Some(old) = old.downcast_mut::<AdaptiveRED>() {
            self.red.average.take(&old.red.average);
        }
    }
}

impl Element for AdaptiveRED {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.red.initialize(cx)?;
        let timer = cx.timer();
        cx.schedule_after(timer, INTERVAL);
        self.timer = Some(timer);
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        let mut parameters = self.red.parameters;
        parameters.max_p = adapted(&parameters, self.red.observed(cx));
        self.red.set(parameters);
        cx.schedule_after(timer, INTERVAL);
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        self.red.push(cx, batch);
        0
    }

    #[inline]
    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        self.red.pull(cx, batch, most);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn thresholds_follow_the_target() {
        let mut rig = Rig::new("Inject -> r :: AdaptiveRED(40, 0.02) -> q :: Queue -> Puller;");
        assert_eq!((rig.read("r.min_thresh"), rig.read("r.max_thresh")), ("20".into(), "60".into()));
        assert_eq!(rig.read("r.config"), "40, 0.02, QUEUES q, STABILITY 4");
        let mut rig = Rig::new("Inject -> r :: AdaptiveRED(1, 0.02) -> q :: Queue -> Puller;");
        assert_eq!((rig.read("r.min_thresh"), rig.read("r.max_thresh")), ("5".into(), "15".into()));
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
