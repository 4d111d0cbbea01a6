//! What guests are told of the packets of their flows that they do not see.

use std::sync::atomic::Ordering;

use abi::settle::Passed;
use hashbrown::HashMap;

use super::SettledFlows;
use super::layout::Key;
use super::lease::{Count, now};
use crate::ids::PortIndex;

/// Most flows without a rule whose guests do not know all.
const DEBTS: usize = 8192;
/// How long such a flow is remembered, in nanoseconds.
const KEPT: u64 = 60_000_000_000;

/// A frame of a batch under way to a guest, and what the guest is told with it.
pub(crate) struct PassedFrame {
    /// Its number in the batch.
    pub frame: u16,
    pub passed: Passed,
    pub key: Key,
    /// Whether the guest was told.
    pub told: bool,
}

/// A flow that has no rule any more.
struct Debt {
    to: PortIndex,
    count: Count,
    since: u64,
}

/// What guests were not told of flows that have no rule any more.
#[derive(Default)]
pub(super) struct Debts(HashMap<Key, Debt>);

impl Debts {
    pub fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// Adds what the guest of port `to` was not told. With too many, it is lost.
    pub fn add(&mut self, key: Key, to: PortIndex, count: Count, since: u64) {
        if self.0.len() == DEBTS && !self.0.contains_key(&key) {
            return;
        }
        let debt = self.0.entry(key).or_insert(Debt {
            to,
            count: Count::default(),
            since,
        });
        debt.count.frames += count.frames;
        debt.count.bytes += count.bytes;
    }

    /// Takes what the guest of port `to` was not told.
    fn take(&mut self, key: &Key, to: PortIndex) -> Count {
        match self.0.get(key) {
            Some(debt) if debt.to == to => {
                self.0.remove(key).map_or(Count::default(), |it| it.count)
            }
            _ => Count::default(),
        }
    }

    pub fn forget_before(&mut self, now: u64) {
        self.0
            .retain(|_, debt| now.saturating_sub(debt.since) < KEPT);
    }
}

impl SettledFlows {
    /// Whether any guest does not know all that was passed on of its flows.
    pub(crate) fn owes(&self) -> bool {
        self.count() > 0 || self.owed.load(Ordering::Relaxed) > 0
    }

    /// What the guest of port `to` is to be told with a packet of each of these flows.
    pub(crate) fn to_tell(
        &self,
        to: PortIndex,
        frames: impl Iterator<Item = (u16, Key)>,
        tell: &mut Vec<PassedFrame>,
    ) {
        let mut state = self.locked();
        for (frame, key) in frames {
            let mut count = state.debts.take(&key, to);
            let index = state.by_key.get(&key).copied();
            let mut used = index.and_then(|index| state.uses[index as usize].as_mut());
            if let (Some(index), Some(used)) = (index, &mut used)
                && used.path.ports[1] == to
            {
                let is = self.counted(index);
                let new = is.since(used.told);
                used.told = is;
                count.frames += new.frames;
                count.bytes += new.bytes;
            }
            if count.frames == 0 {
                continue;
            }
            let packets = u32::try_from(count.frames).unwrap_or(u32::MAX);
            let length = u16::try_from(count.bytes / count.frames).unwrap_or(u16::MAX);
            // The rest is told with the next ones. Of a flow without a rule it is lost: less than a byte a packet.
            let rest = count
                .bytes
                .saturating_sub(u64::from(packets) * u64::from(length));
            if let Some(used) = used {
                used.told.bytes = used.told.bytes.saturating_sub(rest);
            }
            tell.push(PassedFrame {
                frame,
                passed: Passed { packets, length },
                key,
                told: false,
            });
        }
        self.owed.store(state.debts.len(), Ordering::Relaxed);
    }

    /// Keeps for later what the guest of port `to` could not be told, since there was no room for the packet.
    pub(crate) fn keep_untold(&self, to: PortIndex, tell: &[PassedFrame]) {
        if tell.iter().all(|it| it.told) {
            return;
        }
        let mut state = self.locked();
        for untold in tell.iter().filter(|it| !it.told) {
            let Passed { packets, length } = untold.passed;
            let count = Count {
                frames: packets.into(),
                bytes: u64::from(packets) * u64::from(length),
            };
            state.debts.add(untold.key, to, count, now());
        }
        self.owed.store(state.debts.len(), Ordering::Relaxed);
    }
}
