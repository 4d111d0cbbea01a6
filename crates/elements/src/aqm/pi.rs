use super::managed::{Observed, Unmarked};
use crate::prelude::*;

/// Largest target length.
const TARGET_MAX: u32 = 0xffff;
/// Shortest interval between observations, in seconds.
const INTERVAL_MIN: f64 = 0.001;
/// Longest interval between observations, in seconds.
const INTERVAL_MAX: f64 = 3600.0;

fn show_real(value: &f64) -> String {
    unparse::real(*value)
}

/// Drops packets with a probability that a proportional-integral controller sets.
///
/// The controller (Hollot, Misra, Towsley and Gong, 2001) observes the length of the nearest queues
/// (after it if its output is push, before it if its input is pull) at regular intervals, and
/// changes the probability by A times the distance of the length from the target, less B times the
/// distance an interval before. Chosen packets are dropped, or leave by output 1.
///
/// # Example
/// ```click
/// RatedSource(RATE 1000, LIMIT 1000, STOP true)
///     -> PI(0.01, 0.0001, 0.00009, 20) -> Queue(200) -> RatedUnqueue(900) -> Discard;
/// ```
///
/// # See also
/// RED, CoDel, Queue
#[derive(Element)]
#[element(
    ports = "1/1-2",
    processing = "a/ah",
    segments,
    live,
    handlers,
    take_over
)]
#[outputs("packets not chosen", "packets chosen")]
pub struct PI {
    /// Seconds between observations, at least 0.001.
    #[arg(mandatory, read = show_real, write, config, then = check)]
    w: f64,
    /// Weight of the distance from the target now.
    #[arg(mandatory, read = show_real, write, config, then = check)]
    a: f64,
    /// Weight of the distance an interval ago, a little smaller than A.
    #[arg(mandatory, read = show_real, write, config, then = check)]
    b: f64,
    /// The target queue length. This or QREF must be given.
    #[arg(positional, read, write, config, then = check)]
    target: Option<u32>,
    /// The queues to observe, instead of the nearest.
    #[arg(positional, name = "QUEUES", with = args::Any, kind = "element names")]
    names: String,
    /// Another name of TARGET.
    #[arg]
    qref: Option<u32>,
    /// How slowly the average that is shown follows, 1 to 16.
    #[arg(default = 4)]
    stability: u32,
    /// The present probability, from 0 to 1.
    #[handler(read = show_real, name = "p")]
    #[state]
    probability: f64,
    #[flatten]
    seen: Observed,
    unmarked: Unmarked,
    /// Length an interval ago.
    #[state]
    before: u32,
}

#[handlers]
impl PI {
    /// The arguments as they are now.
    #[read]
    fn config(&self, cx: &mut Cx<'_>) -> String {
        let [w, a, b] = [self.w, self.a, self.b].map(unparse::real);
        let (target, stability) = (self.target(), self.stability);
        let queues = self.seen.queues.argument(cx);
        format!("{w}, {a}, {b}, {target}, {queues}, STABILITY {stability}")
    }
}

impl PI {
    fn target(&self) -> u32 {
        self.target.unwrap_or_default()
    }

    /// Says what is wrong with the arguments.
    fn check(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        if self.target() > TARGET_MAX {
            return Err(format!("‘target_q’ too large (max {TARGET_MAX})"));
        }
        if !(INTERVAL_MIN..=INTERVAL_MAX).contains(&self.w) {
            return Err(format!(
                "w must be between {INTERVAL_MIN} and {INTERVAL_MAX}"
            ));
        }
        for (name, value) in [("a", self.a), ("b", self.b)] {
            if !(0.0..=1e9).contains(&value) {
                return Err(format!("{name} must be positive"));
            }
        }
        match self.stability {
            1..=16 => Ok(()),
            _ => Err("STABILITY parameter must be between 1 and 16".into()),
        }
    }

    /// Nanoseconds between observations.
    fn interval(&self) -> u64 {
        (self.w * 1e9) as u64
    }

    fn take_over(&mut self, _cx: &mut Cx<'_>, old: &mut Self) {
        self.seen.average.take(&old.seen.average);
    }

    #[inline]
    fn filter(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        // Of 2³²; the probability is from 0 to 1.
        let threshold = (self.probability * 4_294_967_296.0) as u64;
        let state = &mut (self, cx);
        batch.filter(
            state,
            |(_, cx), _| (u64::from(cx.random().next_u32()) < threshold).then_some(()),
            |(pi, cx), packet, ()| pi.seen.mark(cx, packet),
        );
    }
}

impl Element for PI {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.target = self.qref.or(self.target);
        if self.target.is_none() {
            return Err(args.fail("TARGET: required argument missing"));
        }
        self.check(cx).map_err(|error| args.fail(error))?;
        self.seen.queues.configured(args, &self.names)?;
        self.seen.average.set_stability(self.stability);
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.seen.queues.initialize(cx)?;
        let timer = cx.timer();
        cx.schedule_after(timer, self.interval());
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        let length = self.seen.queues.length(cx) as u32;
        let distance = |length: u32| f64::from(length) - f64::from(self.target());
        let step = self.a * distance(length) - self.b * distance(self.before);
        self.probability = (self.probability + step).clamp(0.0, 1.0);
        self.before = length;
        self.seen.average.update(length.into());
        cx.schedule_after(timer, self.interval());
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        self.filter(cx, batch);
        0
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, _batch: &mut Batch, most: usize) {
        self.unmarked.pull(cx, most);
    }

    fn pulled(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let found = batch.len();
        self.filter(cx, batch);
        self.unmarked.pulled(cx, batch, found);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn the_queue_comes_to_its_target_under_overload() {
        let mut rig = Rig::new(
            "RatedSource(RATE 4000) -> p :: PI(0.01, 0.0002, 0.00018, 100)
             -> q :: Queue(1000) -> RatedUnqueue(3000) -> Discard;",
        );
        rig.advance(30 * SECOND);
        let mut sum = 0;
        for _ in 0..100 {
            rig.advance(SECOND / 10);
            sum += rig.read("q.length").parse::<u64>().unwrap();
        }
        let average = sum / 100;
        assert!((70..130).contains(&average), "{average}");
        // A quarter of what comes cannot leave.
        let p: f64 = rig.read("p.p").parse().unwrap();
        assert!((0.2..0.3).contains(&p), "{p}");
    }

    #[test]
    fn nothing_is_dropped_while_the_queue_is_short() {
        let mut rig = Rig::new(
            "RatedSource(RATE 1000) -> p :: PI(0.01, 0.0002, 0.00018, 100)
             -> q :: Queue(1000) -> RatedUnqueue(3000) -> Discard;",
        );
        rig.advance(5 * SECOND);
        rig.assert_handlers(&[("p.drops", "0"), ("p.p", "0")]);
    }

    #[test]
    fn it_works_behind_the_queue_too() {
        let mut rig = Rig::new(
            "i :: Inject -> q :: Queue -> p :: PI(0.001, 1, 0, 0) -> o :: Puller;
             p[1] -> c :: Collect;",
        );
        assert_eq!(rig.read("p.queues"), "q\n");
        for _ in 0..10 {
            rig.push("i", &[0]);
        }
        assert_eq!(rig.pull("o", 4).len(), 4);
        rig.advance(2_000_000);
        assert_eq!(rig.pull("o", 64).len(), 0);
        assert_eq!((rig.data("c").len(), rig.read("p.drops")), (6, "6".into()));
    }

    #[test]
    fn handlers_show_and_change_the_arguments() {
        let mut rig =
            Rig::new("Inject -> p :: PI(0.01, 0.5, 0.25, QREF 7) -> q :: Queue -> Puller;");
        assert_eq!(
            rig.read("p.config"),
            "0.01, 0.5, 0.25, 7, QUEUES q, STABILITY 4"
        );
        rig.write("p.target", "9");
        rig.write("p.a", "0.75");
        rig.assert_handlers(&[("p.target", "9"), ("p.a", "0.75")]);
        for wrong in ["-1", "nan", "1e300"] {
            assert!(rig.try_write("p.w", wrong).is_err());
        }
        assert_eq!(rig.read("p.w"), "0.01");
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for (args, error) in [
            ("0, 1, 1, 5", "w must be between 0.001 and 3600"),
            ("1, -1, 1, 5", "a must be positive"),
            ("1, 1, nan, 5", "b must be positive"),
            ("1, 1, 1, 70000", "'target_q' too large (max 65535)"),
            ("1, 1, 1", "TARGET: required argument missing"),
            (
                "1, 1, 1, 5, STABILITY 0",
                "STABILITY parameter must be between 1 and 16",
            ),
        ] {
            Rig::refuses(&format!("Inject -> PI({args}) -> Queue -> Puller;"), error);
        }
    }
}
