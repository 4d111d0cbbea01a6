use alloc::string::{String, ToString};

use packet::Batch;
use router::args::unparse;
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList};

const PER_SECOND: f64 = 1e9;

/// Adds up how long ago the timestamps of passing packets are.
///
/// # Arguments
/// None.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// - `count` (read): packets that passed.
/// - `time` (read): the sum, in seconds.
/// - `average_time` (read): the sum divided by the packets.
/// - `reset_counts` (write): sets both to 0.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 1000, STOP true) -> SetTimestamp -> Queue(2000) -> Unqueue
///     -> a :: TimestampAccum -> Discard;
/// DriverManager(pause, print a.average_time);
/// ```
///
/// # See also
/// SetTimestamp, SetTimestampDelta
#[derive(Default)]
pub struct TimestampAccum {
    count: u64,
    /// In nanoseconds.
    sum: i128,
}

impl Class for TimestampAccum {
    const NAME: &'static str = "TimestampAccum";
    const PORTS: &'static str = "1/1";
}

impl TimestampAccum {
    #[inline]
    fn add(&mut self, cx: &Cx<'_>, batch: &Batch) {
        if batch.is_empty() {
            return;
        }
        let now = i128::from(cx.wall());
        let times = batch.iter().map(|packet| i128::from(packet.timestamp()));
        self.sum += now * batch.len() as i128 - times.sum::<i128>();
        self.count += batch.len() as u64;
    }
}

impl Declared for TimestampAccum {
    fn handlers(&self, list: &mut HandlerList) {
        list.read("count").read("time").read("average_time");
        list.button("reset_counts");
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        let seconds = self.sum as f64 / PER_SECOND;
        Ok(match name {
            "count" => self.count.to_string(),
            "time" => unparse::real(seconds),
            "average_time" => unparse::real(seconds / self.count as f64),
            _ => return Err(HandlerError::Unknown),
        })
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<(), HandlerError> {
        match name {
            "reset_counts" => (self.count, self.sum) = (0, 0),
            _ => return Err(HandlerError::Unknown),
        }
        Ok(())
    }
}

impl Element for TimestampAccum {
    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        self.add(cx, batch);
        0
    }

    #[inline]
    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        cx.pull(0, batch, most);
        self.add(cx, batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Rig, START};

    #[test]
    fn ages_are_added_up() {
        let mut rig = Rig::new("i :: Inject -> a :: TimestampAccum -> Discard;");
        for age in [500_000_000, 1_000_000_000] {
            rig.push_with("i", &[0], |packet| packet.set_timestamp(START - age));
        }
        assert_eq!((rig.read("a.count"), rig.read("a.time")), ("2".into(), "1.5".into()));
        assert_eq!(rig.read("a.average_time"), "0.75");
        rig.write("a.reset_counts", "");
        assert_eq!((rig.read("a.count"), rig.read("a.time")), ("0".into(), "0".into()));
    }
}
