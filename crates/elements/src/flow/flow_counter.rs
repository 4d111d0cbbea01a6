use super::{FlowStates, FlowUser};
use crate::prelude::*;

/// Packets up to which the lengths of flows are told apart.
const LONGEST: usize = 32768;

/// Counts flows, and the packets of each.
///
/// A flow manager upstream says which flow a packet belongs to, and when flows end. Packets of no
/// flow pass uncounted.
///
/// # Example
/// ```click
/// FromDump(in.pcap, STOP true) -> MarkIPHeader(14) -> FlowIPManager -> c :: FlowCounter -> Discard;
/// DriverManager(wait, print "$(c.count) flows, $(c.open) of them open");
/// ```
///
/// # See also
/// FlowIPManager, AggregateCounter
#[derive(Element)]
#[element(
    ports = "1/1",
    processing = "h/h",
    segments,
    handlers,
    provides(FlowUser)
)]
pub struct FlowCounter {
    /// Flows seen.
    #[handler(read)]
    count: u64,
    /// Flows that did not end yet.
    #[handler(read)]
    open: u64,
    packets: FlowStates<u32>,
    /// How many flows ended with so many packets, less one.
    lengths: Vec<u32>,
}

#[handlers]
impl FlowCounter {
    /// The average number of packets of a flow that ended.
    #[read(expensive)]
    fn average(&self) -> f64 {
        let (flows, packets) = self
            .ended()
            .fold((0, 0), |(flows, packets), (length, count)| {
                (flows + count, packets + length * count)
            });
        if flows == 0 {
            0.0
        } else {
            packets as f64 / flows as f64
        }
    }

    /// The median number of packets of a flow that ended.
    #[read(expensive)]
    fn median(&self) -> u64 {
        let half = self.ended().map(|(_, count)| count).sum::<u64>() / 2;
        let mut below = 0;
        let mut ended = self.ended();
        let median = ended.find(|(_, count)| {
            below += count;
            below > half
        });
        median.map_or(0, |(length, _)| length)
    }

    /// A line for each number of packets with which flows ended: the number, and how many flows.
    #[read(expensive)]
    fn dump(&self) -> String {
        self.ended()
            .map(|(length, count)| format!("{length}: {count}\n"))
            .collect()
    }
}

impl FlowCounter {
    /// Numbers of packets with which flows ended, each with how many did.
    fn ended(&self) -> impl Iterator<Item = (u64, u64)> {
        let lengths = (1..).zip(self.lengths.iter().map(|count| u64::from(*count)));
        lengths.filter(|(_, count)| *count > 0)
    }
}

impl Element for FlowCounter {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.packets.reserve(cx)?;
        if self.lengths.try_reserve_exact(LONGEST).is_err() {
            return Err(cx.error("out of memory"));
        }
        self.lengths.resize(LONGEST, 0);
        Ok(())
    }

    #[inline]
    fn effects(&self) -> Effects {
        Effects::of_observer()
    }

    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let stands_for = packet.stands_for() as u32;
        if let Some(packets) = self.packets.of(packet) {
            let new = u64::from(*packets == 0);
            self.count += new;
            self.open += new;
            *packets = packets.saturating_add(stands_for);
        }
        Verdict::Forward
    }
}

impl FlowUser for FlowCounter {
    fn flow_ended(&mut self, _cx: &mut Cx<'_>, flow: u32) {
        let packets = self.packets.take(flow) as usize;
        // Its packets may all have been dropped or sent elsewhere on the way here.
        let Some(at) = packets.checked_sub(1) else {
            return;
        };
        self.open -= 1;
        if let Some(count) = self.lengths.get_mut(at.min(LONGEST - 1)) {
            *count += 1;
        }
    }
}
