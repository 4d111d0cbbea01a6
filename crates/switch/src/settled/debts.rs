//! What guests were not told yet of flows that have no rule any more.

use hashbrown::HashMap;
use rustix::time::{ClockId, clock_gettime};

use super::layout::Key;
use crate::ids::PortIndex;

/// Frames and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub frames: u64,
    pub bytes: u64,
}

impl Count {
    /// What is more in this than in an earlier one.
    pub fn since(self, earlier: Count) -> Count {
        Count {
            frames: self.frames.saturating_sub(earlier.frames),
            bytes: self.bytes.saturating_sub(earlier.bytes),
        }
    }
}

/// Most flows without a rule whose guests do not know all.
const DEBTS: usize = 8192;
/// How long such a flow is remembered, in nanoseconds.
const KEPT: u64 = 60_000_000_000;

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
    pub fn take(&mut self, key: &Key, to: PortIndex) -> Count {
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

/// The time on the clock of the programs, in nanoseconds.
pub(super) fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
