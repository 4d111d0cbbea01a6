use super::limit::Limit;
use super::source::{DATA, HALF_A_SECOND, show_interval};
use crate::prelude::*;

/// Most nanoseconds of arrears that are made up for; longer ones are dropped.
const ARREARS_MAX: u64 = 1_000_000_000;
/// Free bytes in front of a packet that is made without a HEADROOM, as Click counts them: there are more.
const HEADROOM: u32 = 28;

/// Makes a packet at every interval.
///
/// After a pause of more than a second in which the router did not run, what was missed is not
/// made up for.
///
/// # Example
/// ```click
/// TimedSource(20ms, LIMIT 5, STOP true) -> Print(tick) -> Discard;
/// ```
///
/// # See also
/// RatedSource, InfiniteSource
#[derive(Element)]
#[element(ports = "0/1", processing = "h", handlers)]
pub struct TimedSource {
    /// Time between packets.
    #[arg(positional, default = HALF_A_SECOND, default_text = "0.5s", read = show_interval, write, calm,
        error = "bad interval", then = check_interval)]
    interval: Timestamp,
    /// The data of each packet; 64 bytes or more if not given.
    #[arg(positional, default = DATA.to_vec(), kind = "bytes", read = click::text::decode, calm)]
    data: Vec<u8>,
    /// Packets after which it stops; no limit if negative.
    #[arg(default_text = "-1", read, write, calm, error = "expected integer")]
    limit: Limit,
    /// Whether it makes packets.
    #[arg(default = true, read, write, calm, checkbox, error = "bad active", then = wake)]
    active: bool,
    /// Stop the driver after LIMIT packets.
    #[arg]
    stop: bool,
    /// Free bytes in front of each packet's data, at least.
    #[arg(default = HEADROOM, read, write, calm, error = "bad headroom")]
    headroom: u32,
    /// Packets made.
    #[handler(read)]
    count: u64,
    timer: Option<TimerId>,
    /// When the next packet is due.
    due: Steady,
}

impl TimedSource {
    fn schedule(&mut self, cx: &mut Cx<'_>, due: Steady) {
        self.due = due;
        if let Some(timer) = self.timer {
            cx.schedule_at(timer, due);
        }
    }

    fn interval(&self) -> u64 {
        self.interval.0.unsigned_abs()
    }

    fn make(&self, cx: &mut Cx<'_>) {
        let length = self.data.len();
        let Some(mut packet) = cx.pool().packet(self.headroom as usize, length) else {
            return;
        };
        packet.data_mut().copy_from_slice(&self.data);
        packet.set_timestamp(cx.wall());
        cx.emit(0, packet);
    }

    /// Continues at once if it had stopped.
    fn wake(&mut self, cx: &mut Cx<'_>) {
        let asleep = self.timer.is_some_and(|timer| cx.expires(timer).is_none());
        if asleep && self.active {
            let now = cx.steady();
            self.schedule(cx, now);
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

#[handlers]
impl TimedSource {
    /// The argument DATA.
    #[write(raw)]
    fn write_data(&mut self, value: &str) {
        self.data = click::text::encode(value).into_owned();
    }

    /// Sets `count` to 0.
    #[write(button)]
    fn reset(&mut self, cx: &mut Cx<'_>) {
        self.count = 0;
        self.wake(cx);
    }
}

impl Element for TimedSource {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.timer = Some(cx.timer());
        if self.active {
            let due = cx.steady().after(self.interval());
            self.schedule(cx, due);
        }
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        if !self.active {
            return;
        }
        if self.limit.left(self.count) > 0 {
            self.make(cx);
            self.count += 1;
            // From when it was due, so that delays do not add up, unless that is long past.
            let (due, now) = (self.due.after(self.interval()), cx.steady());
            let late = due.after(ARREARS_MAX) < now;
            let due = if late {
                now.after(self.interval())
            } else {
                due
            };
            self.schedule(cx, due);
        } else if self.stop {
            cx.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn packets_come_at_every_interval() {
        let mut rig = Rig::new("s :: TimedSource(20ms, DATA ab) -> c :: Collect;");
        rig.advance(70 * MS);
        let packets = rig.collected("c");
        let times: Vec<i64> = packets.iter().map(|p| p.timestamp() - START).collect();
        assert_eq!(times, [20, 40, 60].map(|ms| ms * MS as i64));
        assert_eq!(packets[0].data(), b"ab");
    }

    #[test]
    fn it_stops_at_the_limit_and_starts_again() {
        let mut rig = Rig::new("s :: TimedSource(0.01, LIMIT 2) -> c :: Collect;");
        rig.advance(100 * MS);
        assert_eq!(rig.collected("c").len(), 2);
        rig.write("s.reset", "");
        rig.advance(100 * MS);
        assert_eq!(rig.collected("c").len(), 2);
        rig.write("s.active", "false");
        rig.write("s.interval", "5ms");
        rig.write("s.reset", "");
        rig.advance(100 * MS);
        assert!(rig.collected("c").is_empty());
        assert_eq!(rig.read("s.interval"), "5ms");
        assert!(rig.try_write("s.interval", "0").is_err());
    }

    #[test]
    fn arrears_after_a_pause_are_dropped() {
        let mut rig = Rig::new("s :: TimedSource(20ms) -> c :: Collect;");
        rig.pause(60_000 * MS);
        rig.run();
        assert_eq!(rig.collected("c").len(), 1);
        rig.advance(70 * MS);
        assert_eq!(rig.collected("c").len(), 3);
        rig.pause(500 * MS);
        rig.run();
        assert!((20..30).contains(&rig.collected("c").len()));
    }

    #[test]
    fn an_interval_is_not_negative() {
        Rig::refuses("TimedSource(-1) -> Discard;", "INTERVAL: parse error");
        let mut rig = Rig::new("TimedSource(0, LIMIT 3) -> c :: Counter -> Discard;");
        rig.advance(MS);
        assert_eq!(rig.read("c.count"), "3");
    }

    #[test]
    fn it_can_stop_the_driver_and_leave_headroom() {
        let config = "s :: TimedSource(1ms, LIMIT 1, STOP true, HEADROOM 500) -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.advance(10 * MS);
        assert_eq!(rig.router.run_count(), 0);
        assert!(rig.collected("c")[0].headroom() >= 500);
        let mut rig = Rig::new("s :: TimedSource -> Discard;");
        assert_eq!(rig.read("s.headroom"), "28");
    }
}
