use super::delay::interval;
use crate::prelude::*;

/// Emulates a serial link: pulls packets, delays them, and pushes them one after the other.
///
/// A packet enters the link in its length divided by the bandwidth, after the packets before it,
/// and crosses it in the latency. Packets are pulled as soon as the link's entry is free; a Queue
/// before the element is the link's queue. The extra length annotation counts as part of the
/// length, and a packet that leaves has the time of that as its timestamp.
///
/// Packets on the link keep their buffers: it holds at most half of all buffers, and then pulls no
/// more until some packets have left.
///
/// # Example
/// ```click
/// RatedSource(RATE 100, LIMIT 10) -> Queue -> LinkUnqueue(20ms, 1Mbps) -> Discard;
/// ```
///
/// # See also
/// DelayUnqueue, DelayShaper, BandwidthRatedUnqueue, Unqueue
#[derive(Element)]
#[element(
    ports = "1/1",
    processing = "l/h",
    handlers,
    task,
    is_a("Storage"),
    provides(Storage)
)]
pub struct LinkUnqueue {
    /// How long a packet is on the link. All packets on the link are dropped when it is written.
    #[arg(mandatory, read = interval, write, calm, error = "latency must be a timestamp", then = reset)]
    latency: Timestamp,
    /// Bytes a second, 100 at least, or with a unit as in `10Mbps`. The handler shows it in bytes a
    /// second. All packets on the link are dropped when it is written.
    #[arg(mandatory, read = |bandwidth: &Bandwidth| bandwidth.0, calm)]
    bandwidth: Bandwidth,
    /// The packets on the link; their timestamps are when they leave it.
    packets: VecDeque<Packet>,
    /// Most packets on the link.
    limit: usize,
    /// The last packet came right behind the one before.
    back_to_back: bool,
    /// The moment whose packets are being sent, while there are more than a batch of them.
    sending: Option<i64>,
    /// The moment whose packets enter the link, and how many were on it before.
    entering: (i64, usize),
    task: Option<TaskId>,
    timer: Option<TimerId>,
    signal: Signal,
}

const SECOND: u128 = 1_000_000_000;

/// Checks a bandwidth.
fn enough(bandwidth: Bandwidth) -> Result<(), &'static str> {
    match bandwidth.0 {
        0..100 => Err("bandwidth too small, minimum 100Bps"),
        _ => Ok(()),
    }
}

impl LinkUnqueue {
    /// Nanoseconds that a packet takes to enter the link.
    fn time(&self, packet: &Packet) -> i64 {
        let length = packet.len() as u128 + u128::from(packet.anno(anno::EXTRA_LENGTH));
        let time = length * SECOND / u128::from(self.bandwidth.0.max(1));
        i64::try_from(time).unwrap_or(i64::MAX)
    }

    /// When a packet arrives whose first bit enters the link now.
    fn arrival(&self, now: i64) -> i64 {
        now.saturating_add(self.latency.0)
    }

    /// Whether the link's beginning is free, and there is room.
    fn is_free(&self, now: i64) -> bool {
        let arrival = self.arrival(now);
        let free = |last: &Packet| last.timestamp() <= arrival;
        self.packets.back().is_none_or(free) && self.packets.len() < self.limit
    }

    /// Takes in the packet that was pulled, if one was; false if the next one is to be pulled.
    fn take_in(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut is_dry = false;
        match cx.pulled_one() {
            None => self.entering = (cx.wall(), self.packets.len()),
            Some(Some(packet)) => self.enter(packet, self.entering.0),
            Some(None) => (self.back_to_back, is_dry) = (false, true),
        }
        is_dry || !self.is_free(self.entering.0)
    }

    /// Lets a packet enter the link.
    fn enter(&mut self, mut packet: Packet, now: i64) {
        let start = match self.packets.back() {
            Some(last) if self.back_to_back => last.timestamp(),
            _ => self.arrival(now),
        };
        packet.set_timestamp(start.saturating_add(self.time(&packet)));
        self.packets.push_back(packet);
        self.back_to_back = true;
    }

    /// Sends the packets that have arrived by `now`, as many as a batch holds; returns how many.
    fn send(&mut self, cx: &mut Cx<'_>, now: i64) -> usize {
        let mut batch = cx.batch();
        while batch.len() < cx.limit()
            && let Some(packet) = self
                .packets
                .pop_front_if(|packet| packet.timestamp() <= now)
        {
            // The batch is not full: no limit is above its capacity.
            let _ = batch.push(packet);
        }
        let sent = batch.len();
        cx.push(0, batch);
        sent
    }

    /// Schedules the task or the timer for the next event on the link.
    fn sleep(&self, cx: &mut Cx<'_>, now: i64) {
        let (Some(task), Some(timer)) = (self.task, self.timer) else {
            return;
        };
        let (Some(first), Some(last)) = (self.packets.front(), self.packets.back()) else {
            if cx.is_active(&self.signal) {
                cx.schedule(task);
            }
            return;
        };
        let mut next = first.timestamp();
        if cx.is_active(&self.signal) && self.packets.len() < self.limit {
            next = next.min(last.timestamp().saturating_sub(self.latency.0));
        }
        match u64::try_from(next.saturating_sub(now)) {
            Ok(wait @ 1..) => cx.schedule_after(timer, wait),
            _ => cx.schedule(task),
        }
    }
}

#[handlers]
impl LinkUnqueue {
    /// The argument BANDWIDTH.
    #[write(calm, error = "invalid bandwidth")]
    fn set_bandwidth(&mut self, cx: &mut Cx<'_>, bandwidth: Bandwidth) -> Result<(), &'static str> {
        enough(bandwidth)?;
        self.bandwidth = bandwidth;
        self.reset(cx);
        Ok(())
    }

    /// Packets on the link.
    #[read]
    fn size(&self) -> usize {
        self.packets.len()
    }

    /// Drops all packets on the link.
    #[write(button)]
    fn reset(&mut self, cx: &mut Cx<'_>) {
        self.packets.drain(..).for_each(|packet| cx.kill(packet));
        if let (Some(task), Some(timer)) = (self.task, self.timer) {
            cx.unschedule_timer(timer);
            cx.schedule(task);
        }
    }
}

impl Storage for LinkUnqueue {
    fn stored(&self) -> usize {
        self.packets.len()
    }

    fn room(&self) -> Option<usize> {
        None
    }
}

impl Element for LinkUnqueue {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        enough(self.bandwidth).map_err(|e| args.fail(e))
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let task = cx.task();
        cx.schedule(task);
        self.signal = cx.upstream_signal(0, Some(task));
        (self.task, self.timer) = (Some(task), Some(cx.timer()));
        self.limit = (cx.pool().own() / 2).max(1);
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, _task: TaskId) -> Ran {
        let (now, mut worked) = match self.sending.take() {
            Some(now) => (now, true),
            None => {
                if !self.take_in(cx) {
                    return Ran::Pull(Pull { port: 0, most: 1 });
                }
                let (now, before) = self.entering;
                (now, self.packets.len() > before)
            }
        };
        let sent = self.send(cx, now);
        worked |= sent > 0;
        if sent > 0 && sent == cx.limit() {
            self.sending = Some(now);
            return Ran::More;
        }
        self.sleep(cx, now);
        Ran::worked(worked)
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        if let Some(task) = self.task {
            cx.schedule(task);
        }
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        self.packets.drain(..).for_each(|packet| cx.kill(packet));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    fn rig(latency: u64, bandwidth: u64, batch: usize) -> Rig {
        let config = format!(
            "i :: Inject -> q :: Queue -> l :: LinkUnqueue({latency}ms, {bandwidth}) -> c :: Collect;"
        );
        Rig::with_batch(&config, batch)
    }

    proptest! {
        /// Packets that wait for the link leave one after the other at its bandwidth.
        #[test]
        fn packets_leave_at_the_bandwidth_after_the_latency(
            latency in 0u64..300,
            bandwidth in 1_000u64..10_000_000,
            lengths in prop::collection::vec(1usize..1500, 1..60),
            batch in prop::sample::select(&[1, 64][..]),
        ) {
            let mut rig = rig(latency, bandwidth, batch);
            let packets: Vec<_> = lengths.iter().map(|length| vec![0; *length]).collect();
            rig.push_all("i", &packets);
            let bytes: usize = lengths.iter().sum();
            rig.advance(latency * MS + bytes as u64 * 1_000_000_000 / bandwidth + MS);
            let left = rig.collected("c");
            prop_assert_eq!(left.len(), lengths.len());
            let mut expected = START as u64 + latency * MS;
            for packet in &left {
                expected += packet.len() as u64 * 1_000_000_000 / bandwidth;
                prop_assert_eq!(packet.timestamp() as u64, expected);
            }
        }
    }

    #[test]
    fn times_are_those_of_click() {
        for batch in [1, 64] {
            let mut rig = rig(5, 12_500, batch);
            for length in [20, 20, 1600, 20, 1600, 20] {
                rig.push("i", &vec![0; length]);
            }
            rig.advance(400 * MS);
            let left = rig.collected("c");
            let times = left
                .iter()
                .map(|packet| (packet.timestamp() - START) / 100_000);
            let expected = [66, 82, 1362, 1378, 2658, 2674];
            assert!(times.eq(expected), "batches of {batch}");
        }
    }

    #[test]
    fn only_what_is_on_the_link_is_pulled() {
        // A packet takes 100 ms to get onto the link, and 250 ms along.
        let mut rig = rig(250, 1000, 64);
        for _ in 0..10 {
            rig.push_with("i", &[0; 60], |packet| {
                packet.set_anno(anno::EXTRA_LENGTH, 40)
            });
        }
        rig.advance(MS);
        rig.assert_handlers(&[("l.size", "1"), ("q.length", "9")]);
        rig.advance(300 * MS);
        rig.assert_handlers(&[("l.size", "4"), ("q.length", "6")]);
        assert_eq!(rig.collected("c").len(), 0);
        rig.advance(50 * MS);
        assert_eq!(
            (rig.read("l.size"), rig.collected("c").len()),
            ("3".into(), 1)
        );
        rig.write("l.reset", "");
        assert_eq!(rig.read("l.size"), "0");
        rig.advance(2000 * MS);
        assert_eq!(rig.collected("c").len(), 6);
        assert_eq!(rig.read("l.scheduled"), "false");
        assert_eq!(rig.outstanding(), 0);
    }

    #[test]
    fn half_of_the_buffers_are_left_to_others() {
        // 20000 packets would fit the link, but there are 16384 buffers.
        let config = "InfiniteSource(LENGTH 64, BURST 64) -> q :: Queue(100)
            -> l :: LinkUnqueue(10s, 128kBps) -> c :: Counter -> Discard;";
        let mut rig = Rig::new(config);
        rig.advance(9_000 * MS);
        assert_eq!(rig.read("l.size"), "8192");
        assert_eq!(rig.read("l.scheduled"), "false");
        rig.advance(2_000 * MS);
        assert_ne!(rig.read("c.count"), "0");
        assert_eq!(rig.read("l.size"), "8192");
    }

    #[test]
    fn handlers_show_and_change_the_link() {
        let mut rig = rig(250, 1000, 64);
        rig.assert_handlers(&[("l.latency", "250ms"), ("l.bandwidth", "1000")]);
        rig.write("l.latency", "1ms");
        rig.write("l.bandwidth", "8Mbps");
        rig.assert_handlers(&[("l.latency", "1ms"), ("l.bandwidth", "1000000")]);
        for (handler, value, message) in [
            ("l.latency", "x", "latency must be a timestamp"),
            ("l.bandwidth", "x", "invalid bandwidth"),
            ("l.bandwidth", "99", "bandwidth too small, minimum 100Bps"),
        ] {
            assert_eq!(rig.try_write(handler, value), Err(message.into()));
        }
        Rig::refuses(
            "Idle -> LinkUnqueue(1ms, 700bps) -> Discard;",
            "bandwidth too small, minimum 100Bps",
        );
    }
}
