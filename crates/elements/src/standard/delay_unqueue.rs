use super::delay::{Head, Next, interval};
use crate::prelude::*;

/// Pulls packets, delays them, and pushes them.
///
/// A packet leaves when the delay after its timestamp has passed, and then carries that time. A
/// packet without a timestamp is delayed from when it was pulled. One packet waits at a time; later
/// packets wait upstream.
///
/// # Example
/// ```click
/// RatedSource(RATE 100, LIMIT 10) -> Queue -> DelayUnqueue(50ms) -> Discard;
/// ```
///
/// # See also
/// DelayShaper, LinkUnqueue, Unqueue, RatedUnqueue, SetTimestamp
#[derive(Element)]
#[element(ports = "1/1", processing = "l/h", segments, task)]
pub struct DelayUnqueue {
    /// The delay. A packet that waits keeps its own when the delay changes.
    #[arg(mandatory, read = interval, write, error = "expected time in seconds")]
    delay: Timestamp,
    head: Head,
    /// The packets that are due, while the next one is pulled.
    due: Option<Box<Batch>>,
    /// The time of the run.
    now: i64,
    task: Option<TaskId>,
    timer: Option<TimerId>,
    signal: Signal,
}

impl Element for DelayUnqueue {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let task = cx.task();
        cx.schedule(task);
        self.signal = cx.upstream_signal(0, Some(task));
        (self.task, self.timer) = (Some(task), Some(cx.timer()));
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, task: TaskId) -> Ran {
        let mut is_dry = false;
        match cx.pulled_one() {
            None => self.now = cx.wall(),
            Some(Some(packet)) => self.head.put(packet, self.now, self.delay),
            Some(None) => is_dry = true,
        }
        let mut batch = self.due.take().unwrap_or_else(|| cx.batch());
        let early = loop {
            match self.head.next(self.now) {
                Next::Due(packet) => {
                    // The batch is not full: a batch of the limit's length was pushed.
                    let _ = batch.push(packet);
                    if batch.len() >= cx.limit() {
                        cx.push(0, batch);
                        return Ran::More;
                    }
                }
                Next::Early(early) => break Some(early),
                Next::None if is_dry => break None,
                Next::None => {
                    self.due = Some(batch);
                    return Ran::Pull(Pull { port: 0, most: 1 });
                }
            }
        };
        let worked = !batch.is_empty();
        cx.push(0, batch);
        match (early, self.timer) {
            (Some(early), Some(timer)) => cx.schedule_after(timer, early),
            _ if cx.is_active(&self.signal) => cx.schedule(task),
            _ => {}
        }
        Ran::worked(worked)
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        if let Some(task) = self.task {
            cx.schedule(task);
        }
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        self.head.cleanup(cx);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    const CONFIG: &str = "i :: Inject -> Queue -> d :: DelayUnqueue(50ms) -> c :: Collect;";

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        /// Whenever packets come, each leaves when the delay is over.
        #[test]
        fn packets_leave_after_the_delay(
            gaps in prop::collection::vec(0u64..80, 1..20),
            batch in prop::sample::select(&[1, 64][..]),
        ) {
            let mut rig = Rig::with_batch(CONFIG, batch);
            let mut came = Vec::new();
            let mut left = Vec::new();
            let end = gaps.iter().sum::<u64>() + 50;
            for gap in gaps {
                came.push(came.last().unwrap_or(&0) + gap);
            }
            for now in 0..=end {
                let count = came.iter().filter(|came| **came == now).count();
                for _ in 0..count {
                    let time = START + (now * MS) as i64;
                    rig.push_with("i", &[1], |packet| packet.set_timestamp(time));
                }
                rig.run();
                left.extend(rig.collected("c").iter().map(|_| now));
                rig.advance(MS);
            }
            prop_assert!(left.iter().copied().eq(came.iter().map(|came| came + 50)), "{left:?}");
        }
    }

    #[test]
    fn a_time_in_the_first_second_of_1970_is_none() {
        let mut rig = Rig::new(CONFIG);
        rig.push_with("i", &[1], |packet| packet.set_timestamp(999_999_999));
        rig.push_with("i", &[2], |packet| packet.set_timestamp(1_000_000_000));
        rig.run();
        assert!(rig.collected("c").is_empty());
        rig.advance(50 * MS);
        assert_eq!(rig.data("c"), [[1], [2]]);
    }

    #[test]
    fn a_timestamp_says_when_a_packet_came() {
        let mut rig = Rig::new(CONFIG);
        rig.push_with("i", &[1], |packet| {
            packet.set_timestamp(START - 20 * MS as i64)
        });
        rig.push_with("i", &[2], |packet| packet.set_timestamp(START));
        rig.advance(30 * MS - 1);
        assert!(rig.collected("c").is_empty());
        rig.advance(1);
        assert_eq!(rig.data("c"), [[1]]);
        assert_eq!(rig.read("d.scheduled"), "false");
        rig.advance(20 * MS);
        assert_eq!(rig.collected("c")[0].timestamp(), START + 50 * MS as i64);
        assert_eq!(rig.outstanding(), 0);
    }

    #[test]
    fn packets_that_are_late_all_leave_at_once() {
        for batch in [1, 64] {
            let mut rig = Rig::with_batch(CONFIG, batch);
            for n in 0..100 {
                rig.push_with("i", &[n], |packet| {
                    packet.set_timestamp(START - 60 * MS as i64)
                });
            }
            rig.run();
            assert!(rig.data("c").into_iter().eq((0..100).map(|n| [n])));
        }
    }

    #[test]
    fn the_delay_can_be_changed() {
        let mut rig = Rig::new(CONFIG);
        rig.write("d.delay", "1ms");
        assert_eq!(rig.read("d.delay"), "1ms");
        rig.push("i", &[1]);
        rig.advance(MS);
        assert_eq!(rig.data("c").len(), 1);
        assert!(rig.try_write("d.delay", "soon").is_err());
        Rig::refuses(
            "Idle -> DelayUnqueue -> Discard;",
            "DELAY: required argument missing",
        );
    }
}
