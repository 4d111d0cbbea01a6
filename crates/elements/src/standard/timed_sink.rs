use super::source::{HALF_A_SECOND, show_interval};
use crate::prelude::*;

/// Pulls a packet at every interval, and drops it.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 10) -> Queue -> TimedSink(10ms);
/// ```
///
/// # See also
/// TimedSource, Discard, Shaper
#[derive(Element)]
#[element(ports = "1/0", processing = "l")]
pub struct TimedSink {
    /// Time between pulls.
    #[arg(positional, default = HALF_A_SECOND, default_text = "0.5s", read = show_interval, write, calm,
        error = "bad interval", then = check_interval)]
    interval: Timestamp,
    task: Option<TaskId>,
    timer: Option<TimerId>,
    /// When the next packet is due.
    due: Steady,
}

impl TimedSink {
    fn schedule(&mut self, cx: &mut Cx<'_>) {
        self.due = self.due.after(self.interval.0.unsigned_abs());
        if let Some(timer) = self.timer {
            cx.schedule_at(timer, self.due);
        }
    }

    /// Refuses an interval that a handler was written, if it is none.
    fn check_interval(&mut self, _cx: &mut Cx<'_>) -> Result<(), &'static str> {
        if self.interval.0 > 0 {
            Ok(())
        } else {
            Err("bad interval")
        }
    }
}

impl Element for TimedSink {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        (self.task, self.timer) = (Some(cx.task()), Some(cx.timer()));
        self.due = cx.steady();
        self.schedule(cx);
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        if let Some(task) = self.task {
            cx.schedule(task);
        }
        self.schedule(cx);
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, _task: TaskId) -> Ran {
        let Some(batch) = cx.pulled() else {
            return Ran::Pull(Pull { port: 0, most: 1 });
        };
        let worked = !batch.is_empty();
        cx.done(batch);
        Ran::worked(worked)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn timers_that_expire_at_once_leave_others_their_turn() {
        let config = "Idle -> TimedSink(0);
            Script(print \"a\", wait 0.1, print \"b\"); RatedSource(RATE 100) -> c :: Counter -> Discard;";
        let mut rig = Rig::new(config);
        for _ in 0..200 {
            rig.step();
            rig.pause(MS);
        }
        assert_eq!(rig.printed(), ["a\n", "b\n"]);
        assert!(rig.read("c.count").parse::<u32>().unwrap() > 15);
    }

    #[test]
    fn a_packet_goes_at_every_interval() {
        let config = "s :: InfiniteSource -> c :: Counter -> t :: TimedSink(10ms);";
        let mut rig = Rig::new(config);
        rig.advance(95 * MS);
        assert_eq!(rig.read("c.count"), "9");
        rig.write("t.interval", "1ms");
        assert_eq!(rig.read("t.interval"), "1ms");
        rig.advance(10 * MS);
        assert_eq!(rig.read("c.count"), "15");
        assert!(rig.try_write("t.interval", "0").is_err());
        assert_eq!(rig.outstanding(), 0);
    }
}
