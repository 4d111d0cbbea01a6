use alloc::string::String;

use router::args::{Args, Failed, Timestamp, unparse};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerFlags, HandlerList, Steady, TimerId};

/// Pulls a packet at every interval, and drops it.
///
/// # Arguments
/// - `INTERVAL` (time, 0.5s): time between pulls.
///
/// # Ports
/// One pull input; no output.
///
/// # Handlers
/// - `interval` (read, write): the argument.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 10) -> Queue -> TimedSink(10ms);
/// ```
///
/// # See also
/// TimedSource, Discard, Shaper
pub struct TimedSink {
    interval: Timestamp,
    timer: Option<TimerId>,
    /// When the next packet is due.
    due: Steady,
}

impl Default for TimedSink {
    fn default() -> Self {
        TimedSink {
            interval: Timestamp(500_000_000),
            timer: None,
            due: Steady::default(),
        }
    }
}

impl Class for TimedSink {
    const NAME: &'static str = "TimedSink";
    const PORTS: &'static str = "1/0";
    const PROCESSING: &'static str = "l";
}

impl TimedSink {
    fn schedule(&mut self, cx: &mut Cx<'_>) {
        self.due = self.due.after(self.interval.0.unsigned_abs());
        if let Some(timer) = self.timer {
            cx.schedule_at(timer, self.due);
        }
    }
}

impl Declared for TimedSink {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        args.positional("INTERVAL", &mut self.interval).complete()
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read_write("interval")
            .add("interval", HandlerFlags::CALM);
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "interval" => Ok(unparse::interval(self.interval)),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        if name != "interval" {
            return Err(HandlerError::Unknown);
        }
        let interval = cx.names().parse::<Timestamp>(value).ok();
        let interval = interval.filter(|interval| interval.0 > 0);
        self.interval = interval.ok_or("bad interval")?;
        Ok(())
    }
}

impl Element for TimedSink {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.timer = Some(cx.timer());
        self.due = cx.steady();
        self.schedule(cx);
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        if let Some(packet) = cx.pull_one(0) {
            cx.kill(packet);
        }
        self.schedule(cx);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    const MS: u64 = 1_000_000;

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
