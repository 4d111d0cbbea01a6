use hashbrown::HashMap;

use crate::aggregates::{AggregateListener, NotifierArgument};
use crate::prelude::*;

/// Most packets that are kept.
const AGGREGATES_MAX: usize = 1 << 20;
/// Which part of the packet buffers may be kept; of more packets there are copies.
const BUFFERS_PART: usize = 4;

/// Lets the last packet of each aggregate pass, with the aggregate's totals.
///
/// The last packet of each aggregate seen so far is kept: it leaves when the aggregate has ended,
/// or when `clear` is written. Its annotations then say of the aggregate: the extra packets and
/// extra length, all packets and bytes but its own; the first timestamp, the first packet's time.
/// Packets are kept of up to 1048576 aggregates; when there are more, those of new ones leave by
/// output 0 at once.
///
/// # Example
/// ```click
/// FromDump(in.pcap, STOP true, FORCE_IP true)
///     -> AggregateIPFlows -> l :: AggregateLast(STOP_AFTER_CLEAR true)
///     -> ToIPSummaryDump(-, FIELDS aggregate count first_timestamp timestamp);
/// DriverManager(pause, write l.clear, pause);
/// ```
///
/// # See also
/// AggregateFirst, AggregateIP, AggregateIPFlows, AggregateFilter
#[derive(Element)]
#[element(
    ports = "1/1-2",
    processing = "h",
    handlers,
    provides(AggregateListener)
)]
#[outputs("the last packet of each aggregate", "all other packets")]
pub struct AggregateLast {
    #[flatten]
    notifier: NotifierArgument,
    /// Whether to stop the driver after `clear`.
    #[arg]
    stop_after_clear: bool,
    kept: HashMap<u32, Packet>,
    /// On their way out, the last first.
    leaving: Vec<Packet>,
    clearing: bool,
    task: Option<TaskId>,
}

impl AggregateLast {
    /// Sends at most `most` of the packets that are to leave; returns whether there are more.
    fn send_leaving(&mut self, cx: &mut Cx<'_>, most: usize) -> bool {
        if self.leaving.is_empty() {
            let mut all: Vec<(u32, Packet)> = self.kept.drain().collect();
            all.sort_by_key(|(aggregate, _)| core::cmp::Reverse(*aggregate));
            self.leaving
                .extend(all.into_iter().map(|(_, packet)| packet));
        }
        for _ in 0..most {
            let Some(packet) = self.leaving.pop() else {
                break;
            };
            cx.emit(0, packet);
        }
        if !self.leaving.is_empty() {
            return true;
        }
        self.clearing = false;
        if self.stop_after_clear {
            cx.stop();
        }
        false
    }

    /// Puts a packet in the place of its aggregate's last one, which it becomes. False if there was none.
    #[inline]
    fn take_over(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> bool {
        let count = self.kept.len();
        let Some(before) = self.kept.get_mut(&packet.anno(AGGREGATE)) else {
            return false;
        };
        add_up(packet, before);
        match outside(cx, count, packet) {
            None => core::mem::swap(packet, before),
            Some(copy) => {
                let before = core::mem::replace(before, copy);
                cx.kill(core::mem::replace(packet, before));
            }
        }
        true
    }

    /// Keeps the first packet of an aggregate.
    fn begin(&mut self, cx: &mut Cx<'_>, mut packet: Packet) {
        packet.set_anno_u64(FIRST_TIMESTAMP, packet.timestamp() as u64);
        if self.kept.len() >= AGGREGATES_MAX || self.kept.try_reserve(1).is_err() {
            cx.emit(0, packet);
            return;
        }
        let aggregate = packet.anno(AGGREGATE);
        let packet = match outside(cx, self.kept.len(), &packet) {
            Some(copy) => {
                cx.kill(packet);
                copy
            }
            None => packet,
        };
        self.kept.insert(aggregate, packet);
    }
}

/// Adds what `before` stands for to `packet`.
fn add_up(packet: &mut Packet, before: &Packet) {
    let packets = packet.anno(EXTRA_PACKETS).saturating_add(1);
    let length = packet
        .anno(EXTRA_LENGTH)
        .saturating_add(before.len() as u32);
    packet.set_anno(
        EXTRA_PACKETS,
        packets.saturating_add(before.anno(EXTRA_PACKETS)),
    );
    packet.set_anno(
        EXTRA_LENGTH,
        length.saturating_add(before.anno(EXTRA_LENGTH)),
    );
    packet.set_anno_u64(FIRST_TIMESTAMP, before.anno_u64(FIRST_TIMESTAMP));
}

/// A copy of a packet outside of the pool, to be kept if too many buffers are already.
#[inline]
fn outside(cx: &mut Cx<'_>, kept: usize, packet: &Packet) -> Option<Packet> {
    if kept < cx.pool().own() / BUFFERS_PART {
        return None;
    }
    let mut copy = Packet::large(HEADROOM, packet.len(), 0)?;
    copy.data_mut().copy_from_slice(packet.data());
    copy.copy_meta(packet);
    Some(copy)
}

impl AggregateListener for AggregateLast {
    /// Sends the packet of the aggregate.
    fn aggregate_ended(&mut self, cx: &mut Cx<'_>, aggregate: u32) {
        if let Some(packet) = self.kept.remove(&aggregate) {
            cx.emit(0, packet);
        }
    }
}

#[handlers]
impl AggregateLast {
    /// Sends all packets that are kept, in the order of their aggregates.
    #[write]
    fn clear(&mut self, cx: &mut Cx<'_>) {
        self.clearing = true;
        if let Some(task) = self.task {
            cx.schedule(task);
        }
    }
}

impl Element for AggregateLast {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.notifier.check(cx, args)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.notifier.listen(cx);
        self.task = Some(cx.task());
        Ok(())
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        for (_, packet) in self.kept.drain() {
            cx.kill(packet);
        }
        for packet in self.leaving.drain(..) {
            cx.kill(packet);
        }
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        if self.clearing {
            while self.send_leaving(cx, usize::MAX) {}
        }
        batch.filter(
            &mut (self, cx),
            |(last, cx), packet| (!last.take_over(cx, packet)).then_some(()),
            |(last, cx), packet, ()| last.begin(cx, packet),
        );
        1
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, _task: TaskId) -> Ran {
        if !self.clearing {
            return Ran::Nothing;
        }
        let most = cx.limit();
        if self.send_leaving(cx, most) {
            Ran::More
        } else {
            Ran::Worked
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    fn push(rig: &mut Rig, number: u8, aggregate: u32) {
        rig.push_with("i", &[number; 10], |packet| {
            packet.set_anno(AGGREGATE, aggregate);
            packet.set_timestamp(i64::from(number));
        });
    }

    #[test]
    fn last_packets_leave_with_the_totals() {
        let config = "i :: Inject -> l :: AggregateLast(STOP_AFTER_CLEAR true) -> c :: Collect; l[1] -> d :: Collect;";
        let mut rig = Rig::new(config);
        for (number, aggregate) in [(1, 7), (2, 5), (3, 7), (4, 7)] {
            push(&mut rig, number, aggregate);
        }
        assert_eq!(rig.data("c").len(), 0);
        assert_eq!(
            rig.data("d").iter().map(|d| d[0]).collect::<Vec<_>>(),
            [1, 3]
        );
        rig.write("l.clear", "");
        assert_eq!(rig.run(), router::Status::Stopped);
        let packets = rig.collected("c");
        let totals: Vec<_> = packets
            .iter()
            .map(|p| {
                let first = p.anno_u64(FIRST_TIMESTAMP);
                (
                    p.data()[0],
                    p.anno(EXTRA_PACKETS),
                    p.anno(EXTRA_LENGTH),
                    first,
                )
            })
            .collect();
        assert_eq!(totals, [(2, 0, 0, 2), (4, 2, 20, 1)]);
    }

    #[test]
    fn many_packets_leave_in_bursts_and_leave_buffers_for_others() {
        let mut rig = Rig::new("i :: Inject -> l :: AggregateLast -> c :: Collect;");
        for aggregate in 0..5000 {
            push(&mut rig, 1, aggregate);
        }
        assert!(rig.outstanding() <= (1 << 14) / 4);
        rig.write("l.clear", "");
        rig.run();
        let packets = rig.collected("c");
        let aggregates: Vec<_> = packets.iter().map(|p| p.anno(AGGREGATE)).collect();
        assert_eq!(aggregates, (0..5000).collect::<Vec<_>>());
    }

    #[test]
    fn a_packet_leaves_when_its_aggregate_has_ended() {
        let config = "i :: Inject -> MarkIPHeader -> a :: AggregateIPAddrPair
            -> AggregateLast(NOTIFIER a) -> c :: Collect;";
        let mut rig = Rig::new(config);
        let packet = crate::testing::udp(([1, 0, 0, 1].into(), 1), ([2, 0, 0, 2].into(), 2), b"");
        rig.push("i", &packet);
        rig.push("i", &packet);
        rig.write("a.clear", "");
        rig.run();
        let packets = rig.collected("c");
        assert_eq!(packets.len(), 1);
        assert_eq!(packets[0].anno(EXTRA_PACKETS), 1);
    }
}
