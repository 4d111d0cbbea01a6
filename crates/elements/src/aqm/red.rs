use super::red_core::{PROBABILITY, Parameters, Red};
use crate::prelude::*;

/// Drops packets at random, with a probability that grows with the average queue length.
///
/// Random early detection (Floyd and Jacobson, 1993) keeps queues short and avoids synchronized
/// senders: the average length of the nearest queues (after it if its output is push, before it if
/// its input is pull) determines the probability that a packet is marked. Marked packets are
/// dropped, or leave by output 1.
///
/// # Example
/// ```click
/// RatedSource(RATE 1000, LIMIT 1000, STOP true)
///     -> RED(5, 50, 0.02) -> Queue(200) -> RatedUnqueue(900) -> Discard;
/// ```
///
/// # See also
/// AdaptiveRED, CoDel, PI, Queue
#[derive(Element)]
#[element(
    ports = "1/1-2",
    processing = "a/ah",
    segments,
    live,
    handlers,
    take_over
)]
#[outputs("packets that are not marked", "marked packets")]
pub struct RED {
    /// Up to this average length no packet is marked.
    #[arg(mandatory, read, write, config, then = apply)]
    min_thresh: u32,
    /// At this average length, packets are marked with probability `MAX_P`; between the two
    /// lengths, with one in proportion.
    #[arg(mandatory, read, write, config, then = apply)]
    max_thresh: u32,
    /// The probability at `MAX_THRESH`, 0 to 1.
    #[arg(mandatory, with = PROBABILITY, kind = "probability", write, config, then = apply,
        read = |p: &u32| unparse::real2((*p).into(), 16))]
    max_p: u32,
    /// The queues to observe, instead of the nearest.
    #[arg(name = "QUEUES", with = args::Any, kind = "element names")]
    names: String,
    #[delegate(configured = complete)]
    red: Red,
    /// Whether the probability rises from `MAX_P` to 1 between `MAX_THRESH` and twice that.
    /// Otherwise each packet above `MAX_THRESH` is marked.
    #[arg(default = true)]
    gentle: bool,
}

#[handlers]
impl RED {
    /// The arguments as they are now.
    #[read]
    fn config(&self, cx: &mut Cx<'_>) -> String {
        let (min_thresh, max_thresh, max_p) = (self.min_thresh, self.max_thresh, self.red.max_p());
        let queues = self.red.seen.queues.argument(cx);
        let stability = self.red.parameters.stability;
        let gentle = if self.gentle { "" } else { ", GENTLE false" };
        format!("{min_thresh}, {max_thresh}, {max_p}, {queues}, STABILITY {stability}{gentle}")
    }
}

impl RED {
    fn parameters(&self) -> Parameters {
        Parameters {
            min_thresh: self.min_thresh,
            max_thresh: self.max_thresh,
            max_p: self.max_p,
            gentle: self.gentle,
            ..self.red.parameters
        }
    }

    /// Takes arguments that handlers changed.
    fn apply(&mut self, _cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        let parameters = self.parameters();
        let wrong = |error| HandlerError::failed(FailureKind::Failed, error);
        parameters.check().map_err(wrong)?;
        self.red.set(parameters);
        Ok(())
    }

    fn complete(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.red.configured(args, self.parameters(), &self.names)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    const MILLISECOND: u64 = 1_000_000;

    /// Packets marked of 10000 that come while the queue holds `length`, its average settled.
    fn marked(args: &str, length: usize) -> u64 {
        let mut rig = Rig::new(&format!(
            "q :: Queue(1000) -> Puller; i :: Inject -> q;
             j :: Inject -> r :: RED({args}, QUEUES q, STABILITY 1) -> c :: Collect;"
        ));
        for _ in 0..length {
            rig.push("i", &[0]);
        }
        for _ in 0..30 {
            rig.push("j", &[0]);
        }
        let before: u64 = rig.read("r.drops").parse().unwrap();
        for _ in 0..10_000 {
            rig.push("j", &[0]);
            rig.collected("c");
        }
        rig.read("r.drops").parse::<u64>().unwrap() - before
    }

    #[test]
    fn marks_grow_with_the_average_length() {
        assert_eq!(marked("10, 50, 0.1", 10), 0);
        // With even spacing between marks, 1/(2p) packets lie between two on average (Floyd and
        // Jacobson 1993, section 7): at p = 0.05 one in 10.5 is marked.
        let half = marked("10, 50, 0.1", 30);
        assert!((800..1200).contains(&half), "{half}");
        let full = marked("10, 50, 0.1", 50);
        assert!((1600..2300).contains(&full), "{full}");
        let gentle = marked("10, 50, 0.1", 75);
        assert!((full + 1000..9_900).contains(&gentle), "{gentle}");
        assert_eq!(marked("10, 50, 0.1", 101), 10_000);
        assert_eq!(marked("10, 50, 0.1, GENTLE false", 51), 10_000);
        assert_eq!(marked("10, 50, 1", 51), 10_000);
    }

    #[test]
    fn the_nearest_queues_count() {
        let mut rig = Rig::new(
            "i :: Inject -> r :: RED(0, 1, 1, STABILITY 0) -> Counter -> s :: PaintSwitch;
             s[0] -> a :: Queue -> Puller; s[1] -> b :: Queue -> Unqueue -> Queue -> Puller;
             r[1] -> c :: Collect;",
        );
        assert_eq!(rig.read("r.queues"), "a\nb\n");
        rig.push("i", &[0]);
        rig.push_with("i", &[0], |packet| packet.set_paint(1));
        rig.push("i", &[0]);
        assert_eq!(rig.data("c").len(), 1);
        let mut rig = Rig::new(
            "i :: Inject -> a :: Queue -> p :: Puller;
             j :: Inject -> b :: Queue -> r :: RED(1, 2, 1, STABILITY 0) -> PullNull -> o :: Puller;",
        );
        assert_eq!(rig.read("r.queues"), "b\n");
        for _ in 0..5 {
            rig.push("j", &[0]);
        }
        // Two are left once the last marked one is gone.
        assert_eq!(rig.pull("o", 1).len(), 1);
        assert!(rig.read("r.drops").parse::<u32>().unwrap() >= 2);
        Rig::refuses("Inject -> RED(1, 2, 0.5) -> Collect;", "no nearby Queues");
        let errors = Rig::errors("Inject -> RED(1, 2, 0.5, QUEUES c) -> c :: Collect;");
        assert!(errors.contains("'c' is not a Storage element"), "{errors}");
    }

    #[test]
    fn within_a_batch_the_packets_before_count() {
        let mut rig =
            Rig::new("i :: Inject -> r :: RED(3, 3, 1, STABILITY 0) -> q :: Queue(100) -> Puller;");
        let batch: alloc::vec::Vec<_> = (0..50).map(|n| alloc::vec![n]).collect();
        rig.push_all("i", &batch);
        // Up to an average of 3 all pass: the fourth is the last that finds 3 or fewer.
        rig.assert_handlers(&[("q.length", "4"), ("r.drops", "46")]);
    }

    #[test]
    fn the_average_decays_while_the_queue_is_empty() {
        let mut rig =
            Rig::new("i :: Inject -> r :: RED(100, 200, 0.5) -> q :: Queue -> p :: Puller;");
        for _ in 0..100 {
            rig.push("i", &[0]);
        }
        let high: f64 = rig.read("r.avg_queue_size").parse().unwrap();
        assert!(high > 20.0, "{high}");
        rig.pull("p", 64);
        rig.pull("p", 64);
        rig.push("i", &[0]);
        rig.pull("p", 1);
        rig.advance(200 * MILLISECOND);
        rig.push("i", &[0]);
        let lower: f64 = rig.read("r.avg_queue_size").parse().unwrap();
        assert!(lower < high * 0.6 && lower > high * 0.3, "{lower}");
        rig.pull("p", 1);
        rig.advance(3000 * MILLISECOND);
        rig.push("i", &[0]);
        assert_eq!(rig.read("r.avg_queue_size"), "0");
        let stats = rig.read("r.stats");
        assert_eq!(stats, "1 current queue\n0 avg queue\n0 drops\n");
    }

    #[test]
    fn handlers_show_and_change_the_arguments() {
        let mut rig =
            Rig::new("Inject -> r :: RED(5, 50, 0.02, GENTLE false) -> q :: Queue -> Puller;");
        assert_eq!(
            rig.read("r.config"),
            "5, 50, 0.02, QUEUES q, STABILITY 4, GENTLE false"
        );
        rig.write("r.min_thresh", "7");
        rig.write("r.max_p", "0.25");
        rig.assert_handlers(&[("r.min_thresh", "7"), ("r.max_p", "0.25")]);
        assert!(rig.try_write("r.max_thresh", "6").is_err());
        assert_eq!(rig.read("r.max_thresh"), "50");
        rig.write("r.config", "1, 2, 0.5");
        assert_eq!(rig.read("r.config"), "1, 2, 0.5, QUEUES q, STABILITY 4");
    }

    #[test]
    fn the_average_survives_a_hotswap() {
        let config = "i :: Inject -> r :: RED(50, 100, 0.5) -> q :: Queue -> p :: Puller;";
        let mut rig = Rig::new(config);
        for _ in 0..50 {
            rig.push("i", &[0]);
        }
        let average = rig.read("r.avg_queue_size");
        rig.swap(config);
        assert_eq!(rig.read("r.avg_queue_size"), average);
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for (args, error) in [
            ("1, 70000, 0.5", "MAX_THRESH must be <= 65535"),
            ("3, 2, 0.5", "MIN_THRESH must be <= MAX_THRESH"),
            ("1, 2, 1.5", "MAX_P must be between 0 and 1"),
            (
                "1, 2, 0.5, STABILITY 17",
                "STABILITY must be between 0 and 16",
            ),
            ("1, 2, 0.5, QUEUES zork", "no element named 'zork'"),
        ] {
            Rig::refuses(&format!("Inject -> RED({args}) -> Queue -> Puller;"), error);
        }
    }
}
