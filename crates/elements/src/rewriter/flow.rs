//! A flow: both its keys, what to change in its packets, and when it was last seen.

use super::key::FlowKey;
use crate::prelude::*;

/// Which way a packet of a flow goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// As the flow's first packet.
    Forward = 0,
    /// The other way.
    Reply = 1,
}

impl Direction {
    /// The other direction.
    #[inline(always)]
    pub fn opposite(self) -> Direction {
        match self {
            Direction::Forward => Direction::Reply,
            Direction::Reply => Direction::Forward,
        }
    }
}

/// A flow and a direction, as the index of flows holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(pub u32);

impl Entry {
    /// No flow has this number: they are [`MOST`](super::set::MOST) at most.
    pub const NONE: Entry = Entry(u32::MAX);

    /// The flow with this number, in this direction.
    #[inline(always)]
    pub fn new(flow: u32, direction: Direction) -> Entry {
        Entry(flow << 1 | direction as u32)
    }

    /// The flow's number.
    #[inline(always)]
    pub fn flow(self) -> u32 {
        self.0 >> 1
    }

    /// The direction.
    #[inline(always)]
    pub fn direction(self) -> Direction {
        if self.0 & 1 == 0 {
            Direction::Forward
        } else {
            Direction::Reply
        }
    }
}

/// Which queue of deadlines a flow waits in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Queue {
    /// Flows that may be given up for others.
    BestEffort = 0,
    /// Flows that may not, for now.
    Guaranteed = 1,
}

/// The table of a flow that is no more.
pub const NO_TABLE: u16 = u16::MAX;

/// One flow, in one cache line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Flow {
    addresses: [u64; 2],
    ports: [u32; 2],
    ip: [Delta; 2],
    transport: [Delta; 2],
    /// When its last packet passed, in nanoseconds of the steady clock.
    pub last: u64,
    /// The deadline under which it waits in its queue: never later than the true one.
    pub queued: u64,
    /// Outputs of packets in each direction.
    pub outputs: [u16; 2],
    /// The input that made it, among the set's.
    pub input: u16,
    /// The table it is in, or [`NO_TABLE`].
    pub table: u16,
    /// IP protocol; 0 if any.
    pub protocol: u8,
    /// What its packets have shown so far: see [`Kind`](super::table::Kind).
    pub state: u8,
    /// The annotation its first packet had, for replies.
    pub reply_annotation: u8,
    /// Where it waits.
    pub queue: Queue,
    /// Its changes of sequence numbers, plus one; 0: none. In a free place, the next free one.
    pub extra: u32,
}

const _: () = assert!(size_of::<Flow>() == 64);

impl Default for Flow {
    fn default() -> Flow {
        Flow {
            addresses: [0; 2],
            ports: [0; 2],
            ip: [Delta::NONE; 2],
            transport: [Delta::NONE; 2],
            last: 0,
            queued: 0,
            outputs: [0; 2],
            input: 0,
            table: NO_TABLE,
            protocol: 0,
            state: 0,
            reply_annotation: 0,
            queue: Queue::BestEffort,
            extra: 0,
        }
    }
}

impl Flow {
    /// A flow whose packets of `key` become packets of `rewritten`, in no table yet.
    pub fn between(key: FlowKey, rewritten: FlowKey) -> Flow {
        let reply = rewritten.reverse();
        let ip = both(halves(key.addresses), halves(rewritten.addresses));
        let ports = both([key.ports], [rewritten.ports]);
        Flow {
            addresses: [key.addresses, reply.addresses],
            ports: [key.ports, reply.ports],
            ip,
            transport: [ip[0] + ports[0], ip[1] + ports[1]],
            ..Flow::default()
        }
    }

    /// Takes another change of the transport checksum than that of addresses and ports: the word
    /// `old` becomes `new`.
    pub fn set_transport_change(&mut self, old: u16, new: u16) {
        self.transport = both([u32::from(old)], [u32::from(new)]);
    }

    /// The key of packets in a direction, as they come.
    #[inline(always)]
    pub fn key(&self, direction: Direction) -> FlowKey {
        let d = direction as usize;
        FlowKey {
            addresses: self.addresses[d],
            ports: self.ports[d],
        }
    }

    /// What the key of packets in a direction becomes.
    #[inline(always)]
    pub fn rewritten(&self, direction: Direction) -> FlowKey {
        self.key(direction.opposite()).reverse()
    }

    /// The change of the IP checksum.
    #[inline(always)]
    pub fn ip_delta(&self, direction: Direction) -> Delta {
        self.ip[direction as usize]
    }

    /// The change of the transport checksum.
    #[inline(always)]
    pub fn transport_delta(&self, direction: Direction) -> Delta {
        self.transport[direction as usize]
    }

    /// The output of packets in a direction.
    #[inline(always)]
    pub fn output(&self, direction: Direction) -> u32 {
        self.outputs[direction as usize].into()
    }
}

fn halves(addresses: u64) -> [u32; 2] {
    [(addresses >> 32) as u32, addresses as u32]
}

/// What `old` words becoming `new`, and the reverse, does to a checksum. Nothing at all if they
/// are the same: then packets stay as they are to the last bit.
fn both<const N: usize>(old: [u32; N], new: [u32; N]) -> [Delta; 2] {
    let mut deltas = [Delta::NONE; 2];
    for (old, new) in old.into_iter().zip(new).filter(|(old, new)| old != new) {
        deltas[0] = deltas[0] + Delta::of_u32(old, new);
        deltas[1] = deltas[1] + Delta::of_u32(new, old);
    }
    deltas
}

/// The annotations that a rewriter sets.
#[derive(Clone, Copy, Debug)]
pub struct Annotations {
    /// The destination address, on packets whose destination address may have changed.
    pub destination: bool,
    /// The byte of replies that is to be what it was in the flow's first packet.
    pub reply: Option<u8>,
    /// The aggregate annotation: the flow's number among all that were made.
    pub aggregate: bool,
}

impl Default for Annotations {
    fn default() -> Annotations {
        Annotations {
            destination: true,
            reply: None,
            aggregate: false,
        }
    }
}

impl Annotations {
    /// Annotates a packet that was rewritten.
    #[inline(always)]
    pub fn set(self, flow: &Flow, direction: Direction, packet: &mut Packet) {
        if self.destination {
            packet.set_dst_ip(flow.rewritten(direction).destination());
        }
        self.set_reply(flow, direction, packet);
    }

    /// Annotates a reply as the first packet was.
    #[inline(always)]
    pub fn set_reply(self, flow: &Flow, direction: Direction, packet: &mut Packet) {
        if let (Some(at), Direction::Reply) = (self.reply, direction)
            && let Some(byte) = packet.annotations_mut().get_mut(usize::from(at))
        {
            *byte = flow.reply_annotation;
        }
    }

    /// Keeps the annotation of a flow's first packet for its replies.
    pub fn keep(self, flow: &mut Flow, packet: &Packet) {
        let byte = self
            .reply
            .map(|at| packet.annotations().get(usize::from(at)));
        if let Some(Some(byte)) = byte {
            flow.reply_annotation = *byte;
        }
    }
}
