//! TCP connections: smoltcp's sockets, each in a set of its own, found by their ends.
//!
//! What a packet or a request concerns is looked up, and no other socket is looked at; timers are in order. So a
//! connection that does nothing costs nothing.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;

use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;

use super::network::Way;

/// Most connections, ending ones included.
pub const FLOWS_MAX: usize = 16_384;
/// Above so many, connections in TIME-WAIT are forgotten.
const TIME_WAIT_ABOVE: usize = FLOWS_MAX / 2;
/// Bytes of a connection's buffers, each. A page that was never used takes no memory.
const BUFFER: usize = 256 << 10;
/// Sockets that are kept with their buffers for later connections.
const SPARE_MAX: usize = 128;

/// Names a connection; never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FlowId {
    slot: u32,
    generation: u32,
}

/// The ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ends {
    pub way: Way,
    pub local: SocketAddr,
    pub remote: SocketAddr,
}

/// Whose a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A tenant's socket.
    Socket(u32),
    /// A listening socket: it is not established.
    Listener(u32),
    /// It has been closed, and ends when all is sent.
    Nobody,
}

/// A connection.
pub(super) struct Flow {
    pub ends: Ends,
    pub owner: Owner,
    pub sockets: SocketSet<'static>,
    handle: SocketHandle,
    /// When it is looked at next, if nothing happens.
    timer: Option<Instant>,
    marked: bool,
    /// Since when it waits for the answer of a neighbour.
    pub waits: Option<Instant>,
    /// The last segment that came was a reset.
    pub reset: bool,
    /// When it is reset if it has not ended, being nobody's.
    pub deadline: Option<Instant>,
}

impl Flow {
    /// smoltcp's socket.
    #[inline]
    pub fn tcp(&mut self) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(self.handle)
    }

    /// Whether nothing is left of it but what it has received.
    pub fn is_over(&mut self) -> bool {
        let tcp = self.tcp();
        tcp.state() == tcp::State::Closed && tcp.remote_endpoint().is_none()
    }
}

struct Slot {
    generation: u32,
    flow: Option<Box<Flow>>,
}

/// The connections.
#[derive(Default)]
pub(super) struct Flows {
    slots: Vec<Slot>,
    free: Vec<u32>,
    count: usize,
    by_ends: HashMap<Ends, FlowId>,
    spare: Vec<(SocketSet<'static>, SocketHandle)>,
    ready: Vec<FlowId>,
    /// One of each that has one.
    timers: BTreeSet<(Instant, FlowId)>,
    /// Connections that wait for a neighbour's answer.
    waiting: Vec<FlowId>,
    /// Connections that wait for room on the VNIC.
    blocked: Vec<FlowId>,
}

impl Flows {
    /// A connection.
    #[inline]
    pub fn get(&mut self, id: FlowId) -> Option<&mut Flow> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        slot.flow
            .as_deref_mut()
            .filter(|_| slot.generation == id.generation)
    }

    /// The connection with these ends.
    #[inline]
    pub fn find(&self, ends: &Ends) -> Option<FlowId> {
        self.by_ends.get(ends).copied()
    }

    /// Whether there is a connection with these ends.
    pub fn has(&self, ends: &Ends) -> bool {
        self.by_ends.contains_key(ends)
    }

    /// Whether there are so many that those in TIME-WAIT are to go.
    pub fn are_many(&self) -> bool {
        self.count > TIME_WAIT_ABOVE
    }

    /// Makes a connection, with a socket that is closed; `None`: there are too many, or there is one.
    pub fn add(&mut self, ends: Ends, owner: Owner) -> Option<FlowId> {
        if self.count >= FLOWS_MAX || self.has(&ends) {
            return None;
        }
        let (mut sockets, handle) = self.spare.pop().unwrap_or_else(|| {
            let buffer = || tcp::SocketBuffer::new(vec![0; BUFFER]);
            let mut sockets = SocketSet::new(Vec::with_capacity(1));
            let handle = sockets.add(tcp::Socket::new(buffer(), buffer()));
            (sockets, handle)
        });
        let tcp = sockets.get_mut::<tcp::Socket<'_>>(handle);
        tcp.set_congestion_control(tcp::CongestionControl::Cubic);
        tcp.set_timeout(None);
        tcp.set_keep_alive(None);
        tcp.set_hop_limit(None);
        tcp.set_nagle_enabled(true);
        let flow = Box::new(Flow {
            ends,
            owner,
            sockets,
            handle,
            timer: None,
            marked: false,
            waits: None,
            reset: false,
            deadline: None,
        });
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                flow: None,
            });
            self.slots.len() as u32 - 1
        });
        let at = &mut self.slots[slot as usize];
        at.generation = at.generation.wrapping_add(1);
        at.flow = Some(flow);
        let id = FlowId {
            slot,
            generation: at.generation,
        };
        self.by_ends.insert(ends, id);
        self.count += 1;
        Some(id)
    }

    /// Forgets a connection; nothing is sent for it.
    pub fn remove(&mut self, id: FlowId) -> Option<Owner> {
        self.get(id)?;
        let mut flow = self.slots[id.slot as usize].flow.take()?;
        self.free.push(id.slot);
        self.count -= 1;
        self.by_ends.remove(&flow.ends);
        if let Some(timer) = flow.timer {
            self.timers.remove(&(timer, id));
        }
        // A set remembers that it waits for a neighbour.
        if self.spare.len() < SPARE_MAX && flow.waits.is_none() {
            // Its buffers are those of a new one then.
            flow.tcp().abort();
            self.spare.push((flow.sockets, flow.handle));
        }
        Some(flow.owner)
    }

    /// The connections of an owner.
    pub fn of(&self, owner: Owner) -> Vec<FlowId> {
        let slots = self.slots.iter().enumerate();
        let its =
            slots.filter(|(_, slot)| slot.flow.as_ref().is_some_and(|flow| flow.owner == owner));
        its.map(|(at, slot)| FlowId {
            slot: at as u32,
            generation: slot.generation,
        })
        .collect()
    }

    /// Has a connection looked at before the NSM sleeps.
    pub fn mark(&mut self, id: FlowId) {
        if let Some(flow) = self.get(id)
            && !std::mem::replace(&mut flow.marked, true)
        {
            self.ready.push(id);
        }
    }

    /// Those to be looked at now.
    pub fn take_ready(&mut self) -> Vec<FlowId> {
        let ready = std::mem::take(&mut self.ready);
        for id in &ready {
            if let Some(flow) = self.get(*id) {
                flow.marked = false;
            }
        }
        ready
    }

    /// Whether there are any to be looked at.
    pub fn are_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Has a connection looked at at a time, unless it is earlier anyway.
    pub fn schedule(&mut self, id: FlowId, at: Instant) {
        if let Some(flow) = self.get(id)
            && flow.timer.is_none_or(|timer| at < timer)
        {
            if let Some(later) = flow.timer.replace(at) {
                self.timers.remove(&(later, id));
            }
            self.timers.insert((at, id));
        }
    }

    /// Marks those whose time has come.
    pub fn expire(&mut self, now: Instant) {
        while let Some(&(at, id)) = self.timers.first()
            && at <= now
        {
            self.timers.pop_first();
            if let Some(flow) = self.get(id) {
                flow.timer = None;
            }
            self.mark(id);
        }
    }

    /// When the next one's time comes.
    pub fn next(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// A connection waits for a neighbour's answer.
    pub fn wait(&mut self, id: FlowId) {
        self.waiting.push(id);
    }

    /// A neighbour has answered.
    pub fn answered(&mut self) {
        for id in std::mem::take(&mut self.waiting) {
            self.mark(id);
        }
    }

    /// A connection waits for room on the VNIC.
    pub fn block(&mut self, id: FlowId) {
        self.blocked.push(id);
    }

    /// Whether there are any that wait for room.
    pub fn are_blocked(&self) -> bool {
        !self.blocked.is_empty()
    }

    /// There is room.
    pub fn unblock(&mut self) {
        for id in std::mem::take(&mut self.blocked) {
            self.mark(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of memory that this process has in use.
    fn resident() -> usize {
        let text = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = text.lines().find(|line| line.starts_with("VmRSS:"));
        let kilobytes: usize = line
            .unwrap()
            .split_whitespace()
            .nth(1)
            .unwrap()
            .parse()
            .unwrap();
        kilobytes << 10
    }

    #[test]
    fn buffers_that_were_never_used_take_no_memory() {
        const MANY: u16 = 1000;
        crate::sys::map_large_pieces();
        let before = resident();
        let mut flows = Flows::default();
        for round in 0..3 {
            let ids: Vec<FlowId> = (0..MANY)
                .map(|port| {
                    let ends = Ends {
                        way: Way::Vnic,
                        local: ([10, 0, 0, 1], 80).into(),
                        remote: ([10, 0, 0, 2], port).into(),
                    };
                    flows.add(ends, Owner::Nobody).unwrap()
                })
                .collect();
            let grown = resident().saturating_sub(before);
            let all = usize::from(MANY) * 2 * BUFFER;
            assert!(grown < all / 4, "round {round}: {grown} of {all} bytes");
            for id in ids {
                flows.remove(id);
            }
        }
    }
}
