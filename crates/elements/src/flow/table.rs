//! The table of flows: found by their keys, ended when no packet came for a while.

use crate::prelude::*;
use crate::rewriter::index::{Index, NoMemory};
use crate::rewriter::key::FlowKey;

/// The end of a list.
const NONE: u32 = u32::MAX;
/// Most slots of the wheel: a flow whose time is further off is looked at once a turn.
const SLOTS: u32 = 256;

/// What tells the packets of a flow from others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key {
    /// Addresses and ports.
    pub ends: FlowKey,
    /// The IP protocol.
    pub protocol: u8,
}

/// One flow. Flows that wait in a slot of the wheel, and those that are free, are linked by `next`.
#[derive(Clone, Copy, Default)]
struct Flow {
    key: Key,
    /// The tick of its last packet.
    last: u32,
    next: u32,
}

const _: () = assert!(size_of::<Flow>() <= 32);

/// Flows up to a capacity, all of whose memory is allocated at once.
///
/// Time is counted in ticks. A wheel of lists holds each flow until its time may be up; then its
/// last packet is looked at, and if that is too recent the flow waits again. So a packet writes a
/// tick, and no list.
#[derive(Default)]
pub struct Table {
    index: Index,
    flows: Vec<Flow>,
    free: u32,
    count: usize,
    /// Ticks that a flow lives after its last packet; 0: for ever.
    timeout: u32,
    wheel: Vec<u32>,
    now: u32,
}

impl Table {
    /// A table of so many flows that end `timeout` ticks after their last packet, or never if that
    /// is 0. `seeds` make hashes unpredictable.
    pub fn new(capacity: usize, timeout: u32, seeds: [u64; 2]) -> Result<Table, NoMemory> {
        let mut table = Table {
            timeout,
            ..Table::default()
        };
        table.index.seed(seeds);
        table.index.reserve(capacity, |_, _| 0)?;
        table
            .flows
            .try_reserve_exact(capacity)
            .map_err(|_| NoMemory)?;
        table.flows.extend((1..=capacity as u32).map(|next| Flow {
            next,
            ..Flow::default()
        }));
        match table.flows.last_mut() {
            Some(last) => last.next = NONE,
            None => table.free = NONE,
        }
        let slots = timeout.saturating_add(1).min(SLOTS);
        table.wheel = vec![NONE; slots as usize];
        Ok(table)
    }

    /// Flows.
    pub fn count(&self) -> usize {
        self.count
    }

    /// A key's hash.
    #[inline]
    pub fn hash(&self, key: &Key) -> u64 {
        self.index.hash(u16::from(key.protocol), key.ends)
    }

    /// Asks for what a search needs to be brought into the cache.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        self.index.lines().prefetch(hash);
    }

    /// The flow of a key, which gets a packet now: the one that is there, or a new one; `None` if
    /// there is no room.
    #[inline]
    pub fn find(&mut self, key: &Key, hash: u64) -> Option<u32> {
        let flows = &self.flows;
        let is_it = |entry: u32| {
            flows
                .get(entry as usize)
                .is_some_and(|flow| flow.key == *key)
        };
        match self.index.find(hash, is_it) {
            Some(number) => {
                if let Some(flow) = self.flows.get_mut(number as usize) {
                    flow.last = self.now;
                }
                Some(number)
            }
            None => self.add(key, hash),
        }
    }

    #[cold]
    fn add(&mut self, key: &Key, hash: u64) -> Option<u32> {
        let number = self.free;
        let flow = self.flows.get_mut(number as usize)?;
        self.free = flow.next;
        (flow.key, flow.last) = (*key, self.now);
        self.index.insert(hash, number);
        self.count += 1;
        self.wait(number);
        Some(number)
    }

    /// Lets a flow wait until its time is up if no packet comes.
    fn wait(&mut self, number: u32) {
        let slots = self.wheel.len() as u32;
        if let Some(flow) = self.flows.get_mut(number as usize)
            && self.timeout > 0
        {
            let slot = &mut self.wheel[(flow.last.wrapping_add(self.timeout) % slots) as usize];
            flow.next = core::mem::replace(slot, number);
        }
    }

    /// Sets the time, and ends the flows whose time is up.
    pub fn advance(&mut self, now: u32, mut ended: impl FnMut(u32)) {
        let slots = self.wheel.len() as u32;
        let ticks = now.wrapping_sub(self.now).min(slots);
        self.now = now;
        if self.timeout == 0 {
            return;
        }
        for back in (0..ticks).rev() {
            let slot = (now.wrapping_sub(back) % slots) as usize;
            let mut number = core::mem::replace(&mut self.wheel[slot], NONE);
            while let Some(flow) = self.flows.get(number as usize) {
                let next = flow.next;
                if now.wrapping_sub(flow.last) >= self.timeout {
                    self.end(number);
                    ended(number);
                } else {
                    self.wait(number);
                }
                number = next;
            }
        }
    }

    fn end(&mut self, number: u32) {
        let Some(flow) = self.flows.get_mut(number as usize) else {
            return;
        };
        let hash = self.index.hash(u16::from(flow.key.protocol), flow.key.ends);
        flow.next = core::mem::replace(&mut self.free, number);
        self.index.remove(hash, number);
        self.count -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn key(number: u16) -> Key {
        let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        Key {
            ends: FlowKey::new((a, number), (b, 53)),
            protocol: 17,
        }
    }

    proptest! {
        #[test]
        fn flows_live_as_long_as_they_get_packets(
            timeout in prop_oneof![0u32..6, 250u32..300],
            steps in prop::collection::vec((0u16..12, 0u32..4), 0..300),
            leap in 1u32..90,
        ) {
            let mut table = Table::new(8, timeout, [1, 2]).unwrap();
            let mut model: HashMap<u16, (u32, u32)> = HashMap::new();
            let mut now = 0;
            for (number, wait) in steps {
                now += wait * leap;
                let mut ended = Vec::new();
                table.advance(now, |flow| ended.push(flow));
                let mut expected = Vec::new();
                model.retain(|_, (flow, last)| {
                    let lives = timeout == 0 || now - *last < timeout;
                    if !lives {
                        expected.push(*flow);
                    }
                    lives
                });
                ended.sort_unstable();
                expected.sort_unstable();
                prop_assert_eq!(ended, expected);
                let hash = table.hash(&key(number));
                let found = table.find(&key(number), hash);
                let full = model.len() == 8;
                match model.get_mut(&number) {
                    Some((flow, last)) => {
                        prop_assert_eq!(found, Some(*flow));
                        *last = now;
                    }
                    None if full => prop_assert_eq!(found, None),
                    None => {
                        let flow = found.unwrap();
                        prop_assert!(flow < 8 && model.values().all(|(other, _)| *other != flow));
                        model.insert(number, (flow, now));
                    }
                }
                prop_assert_eq!(table.count(), model.len());
            }
        }
    }
}
