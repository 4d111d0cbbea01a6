use super::timed_pull::TimedPull;
use crate::prelude::*;

/// Pulls packets at every interval, BURST at most, and pushes them on.
///
/// As TimedUnqueue, with another default of BURST.
///
/// # Example
/// ```click
/// RatedSource(RATE 100, LIMIT 10) -> Queue -> Burster(50ms) -> Discard;
/// ```
///
/// # See also
/// TimedUnqueue, RatedUnqueue, Unqueue
#[derive(Element)]
#[element(ports = "1/1", processing = "l/h", is_a("TimedUnqueue"))]
pub struct Burster {
    #[delegate(configured = set_burst)]
    timed: TimedPull,
    /// Most packets at a time.
    #[arg(positional, default = 8)]
    burst: i32,
}

impl Burster {
    fn set_burst(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.timed.set_burst(args, self.burst)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn eight_packets_leave_at_once() {
        let mut rig = Rig::new("i :: Inject -> Queue -> Burster(20ms) -> c :: Collect;");
        for _ in 0..10 {
            rig.push("i", &[1]);
        }
        rig.run();
        assert_eq!(rig.collected("c").len(), 8);
        rig.advance(20_000_000);
        assert_eq!(rig.collected("c").len(), 2);
        Rig::refuses("Idle -> Burster(1s, 0) -> Discard;", "bad BURST");
    }
}
