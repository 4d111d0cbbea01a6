use crate::prelude::*;

const PER_SECOND: f64 = 1e9;

/// Sums the age of passing packets, by their timestamps.
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
#[derive(Element)]
#[element(ports = "1/1", handlers)]
pub struct TimestampAccum {
    /// Packets that passed.
    #[handler(read)]
    count: u64,
    /// The sum of their ages, in nanoseconds.
    sum: i128,
}

#[handlers]
impl TimestampAccum {
    /// The sum, in seconds.
    #[read]
    fn time(&self) -> String {
        unparse::real(self.sum as f64 / PER_SECOND)
    }

    /// The sum divided by the packets, in seconds.
    #[read]
    fn average_time(&self) -> String {
        unparse::real(self.sum as f64 / PER_SECOND / self.count as f64)
    }

    /// Sets both to 0.
    #[write(button)]
    fn reset_counts(&mut self) {
        (self.count, self.sum) = (0, 0);
    }
}

impl Element for TimestampAccum {
    #[inline]
    fn batch(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        if batch.is_empty() {
            return;
        }
        let now = i128::from(cx.wall());
        let times = batch.iter().map(|packet| i128::from(packet.timestamp()));
        self.sum += now * batch.len() as i128 - times.sum::<i128>();
        self.count += batch.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn ages_are_added_up() {
        let mut rig = Rig::new("i :: Inject -> a :: TimestampAccum -> Discard;");
        for age in [500_000_000, 1_000_000_000] {
            rig.push_with("i", &[0], |packet| packet.set_timestamp(START - age));
        }
        rig.assert_handlers(&[("a.count", "2"), ("a.time", "1.5")]);
        assert_eq!(rig.read("a.average_time"), "0.75");
        rig.write("a.reset_counts", "");
        rig.assert_handlers(&[("a.count", "0"), ("a.time", "0")]);
    }
}
