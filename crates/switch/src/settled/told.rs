//! What guests are told of the packets of their flows that they do not see.

use std::sync::atomic::Ordering;

use abi::settle::Passed;

use super::SettledFlows;
use super::debts::{Count, now};
use super::layout::Key;
use crate::ids::PortIndex;
use crate::port::PassedFrame;

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
    ) -> Vec<(PassedFrame, Key)> {
        let mut tell = Vec::new();
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
            let frame = PassedFrame {
                frame,
                passed: Passed { packets, length },
                told: false,
            };
            tell.push((frame, key));
        }
        self.owed.store(state.debts.len(), Ordering::Relaxed);
        tell
    }

    /// Keeps for later what the guest of port `to` could not be told, since there was no room for the packet.
    pub(crate) fn keep_untold(&self, to: PortIndex, tell: &[PassedFrame], keys: &[Key]) {
        if tell.iter().all(|it| it.told) {
            return;
        }
        let mut state = self.locked();
        for (untold, key) in tell.iter().zip(keys).filter(|(it, _)| !it.told) {
            let Passed { packets, length } = untold.passed;
            let count = Count {
                frames: packets.into(),
                bytes: u64::from(packets) * u64::from(length),
            };
            state.debts.add(*key, to, count, now());
        }
        self.owed.store(state.debts.len(), Ordering::Relaxed);
    }
}
