use super::delay::{Head, Next, interval};
use crate::prelude::*;
use crate::pulls::gathered::Gathered;

/// Delays packets that are pulled.
///
/// A packet leaves when the delay after its timestamp has passed, and then carries the time at
/// which it left. A packet without a timestamp is delayed from when it was pulled. The shaper holds
/// one packet at a time; later packets wait upstream.
///
/// # Example
/// ```click
/// RatedSource(RATE 100, LIMIT 10) -> Queue -> DelayShaper(50ms) -> Discard;
/// ```
///
/// # See also
/// DelayUnqueue, LinkUnqueue, Shaper, BandwidthShaper, SetTimestamp
#[derive(Element)]
#[element(ports = "1/1", processing = "l", segments)]
pub struct DelayShaper {
    /// The delay. A packet that waits keeps its own when the delay changes.
    #[arg(mandatory, read = interval, write, calm, error = "delay must be a timestamp")]
    delay: Timestamp,
    head: Head,
    gathered: Gathered,
    /// The time of the pull.
    now: i64,
    timer: Option<TimerId>,
    signal: Option<SignalId>,
    upstream: Signal,
}

impl DelayShaper {
    fn set_active(&self, cx: &mut Cx<'_>, active: bool) {
        if let Some(signal) = self.signal {
            cx.set_signal(signal, active);
        }
    }

    /// Gathers the packets that are due, and asks for the next one unless there is none. Gives what
    /// came once no packet is due, or no more is wanted.
    fn go_on(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, is_dry: bool) {
        while self.gathered.left() > 0 {
            match self.head.next(self.now) {
                Next::Due(mut packet) => {
                    packet.set_timestamp(self.now);
                    self.gathered.push(cx, packet);
                }
                Next::Early(early) => {
                    if let Some(timer) = self.timer {
                        cx.schedule_after(timer, early);
                    }
                    self.set_active(cx, false);
                    break;
                }
                Next::None if is_dry => {
                    if self.gathered.is_empty() && !cx.is_active(&self.upstream) {
                        self.set_active(cx, false);
                    }
                    break;
                }
                Next::None => return cx.pull_through(0, 1),
            }
        }
        self.gathered.give(batch);
    }
}

impl Element for DelayShaper {
    fn configured(&mut self, cx: &mut Cx<'_>, _args: &mut Args<'_>) -> Result<(), Failed> {
        self.signal = Some(cx.signal(Notice::Empty, true));
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.timer = Some(cx.timer());
        if let Some(signal) = self.signal {
            self.upstream = cx.lead_upstream(0, signal);
        }
        Ok(())
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        self.gathered.begin(most);
        self.now = cx.wall();
        self.go_on(cx, batch, false);
    }

    fn pulled(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let packet = batch.pop();
        let is_dry = packet.is_none();
        if let Some(packet) = packet {
            self.head.put(packet, self.now, self.delay);
        }
        self.go_on(cx, batch, is_dry);
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        self.set_active(cx, true);
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        self.head.cleanup(cx);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    const CONFIG: &str =
        "i :: Inject -> Queue -> d :: DelayShaper(50ms) -> u :: Unqueue -> c :: Collect;";

    #[test]
    fn packets_leave_after_the_delay() {
        let mut rig = Rig::new(CONFIG);
        rig.push_with("i", &[1], |packet| packet.set_timestamp(START));
        rig.push_with("i", &[2], |packet| {
            packet.set_timestamp(START - 20 * MS as i64)
        });
        rig.advance(49 * MS);
        assert!(rig.collected("c").is_empty());
        rig.advance(MS);
        let packets = rig.collected("c");
        assert_eq!(packets.len(), 2, "the second waits behind the first");
        assert_eq!(packets[0].timestamp(), START + 50 * MS as i64);
        drop(packets);
        rig.push("i", &[3]);
        rig.advance(49 * MS);
        assert!(rig.collected("c").is_empty());
        rig.advance(MS);
        assert_eq!(rig.data("c"), [[3]]);
        assert_eq!(rig.outstanding(), 0);
    }

    #[test]
    fn the_puller_sleeps_meanwhile() {
        let mut rig = Rig::new(CONFIG);
        rig.run();
        assert_eq!(rig.read("u.scheduled"), "false");
        rig.push("i", &[1]);
        rig.run();
        assert_eq!(rig.read("u.scheduled"), "false");
        rig.advance(50 * MS);
        assert_eq!(rig.data("c"), [[1]]);
        // What comes later wakes it again, though the queue itself never notified the puller.
        rig.push("i", &[2]);
        rig.advance(50 * MS);
        assert_eq!(rig.data("c"), [[2]]);
    }

    #[test]
    fn the_delay_can_be_changed() {
        let mut rig = Rig::new(CONFIG);
        assert_eq!(rig.read("d.delay"), "50ms");
        rig.write("d.delay", "1.5");
        assert_eq!(rig.read("d.delay"), "1.500000s");
        assert!(rig.try_write("d.delay", "soon").is_err());
    }
}
