//! How often rules matched about an address, for their thresholds, in constant memory.

use hashbrown::HashMap;

use crate::ids::rules::{Threshold, ThresholdKind};
use crate::prelude::*;

/// Most pairs of a rule and an address. Twice as many are as many as a map of 32768 slots has room for.
const PAIRS_MAX: usize = 14 << 10;

/// Counts of matches.
#[derive(Default)]
pub struct Thresholds {
    counts: HashMap<(u16, IpAddr), Count>,
    /// The second in which a full table was last looked through for counts that are over.
    swept: i64,
}

#[derive(Clone, Copy)]
struct Count {
    /// The second in which counting began.
    began: i64,
    seconds: u32,
    matches: u32,
}

impl Thresholds {
    /// Allocates memory; false if there is none.
    pub fn reserve(&mut self) -> bool {
        // With as much again, removed entries are cleaned up in place.
        self.counts.try_reserve(2 * PAIRS_MAX).is_ok()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.counts.clear();
    }

    /// Whether a rule's match is told, in a second of the clock. While there is no room for another pair, each match
    /// counts as the first one.
    pub fn tells(&mut self, rule: u16, threshold: Threshold, address: IpAddr, second: i64) -> bool {
        let new = Count {
            began: second,
            seconds: threshold.seconds,
            matches: 0,
        };
        if self.counts.len() >= PAIRS_MAX && self.swept != second {
            self.swept = second;
            self.counts
                .retain(|_, count| second - count.began < i64::from(count.seconds));
        }
        let mut beyond = new;
        let count = if self.counts.len() < PAIRS_MAX {
            self.counts.entry((rule, address)).or_insert(new)
        } else {
            self.counts.get_mut(&(rule, address)).unwrap_or(&mut beyond)
        };
        if second - count.began >= i64::from(threshold.seconds) {
            *count = new;
        }
        count.matches = count.matches.saturating_add(1);
        match threshold.kind {
            ThresholdKind::Limit => count.matches <= threshold.count,
            ThresholdKind::Both => count.matches == threshold.count,
            ThresholdKind::Threshold => count.matches.is_multiple_of(threshold.count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::A;

    fn told(kind: ThresholdKind, seconds: &[i64]) -> Vec<i64> {
        let threshold = Threshold {
            kind,
            by_source: true,
            count: 2,
            seconds: 10,
        };
        let mut thresholds = Thresholds::default();
        assert!(thresholds.reserve());
        let told = seconds.iter().copied();
        told.filter(|second| thresholds.tells(1, threshold, A.into(), *second))
            .collect()
    }

    #[test]
    fn matches_are_told_by_their_kind() {
        let seconds = [0, 1, 2, 3, 4, 10, 11, 12];
        assert_eq!(told(ThresholdKind::Limit, &seconds), [0, 1, 10, 11]);
        assert_eq!(told(ThresholdKind::Threshold, &seconds), [1, 3, 11]);
        assert_eq!(told(ThresholdKind::Both, &seconds), [1, 11]);
    }

    #[test]
    fn a_full_table_counts_none() {
        let threshold = Threshold {
            kind: ThresholdKind::Threshold,
            by_source: true,
            count: 2,
            seconds: 10,
        };
        let mut thresholds = Thresholds::default();
        assert!(thresholds.reserve());
        let before = thresholds.counts.capacity();
        for host in 0..3 * PAIRS_MAX as u32 {
            thresholds.tells(0, threshold, Ipv4Addr::from_bits(host).into(), 5);
        }
        assert_eq!(thresholds.counts.len(), PAIRS_MAX);
        assert!(thresholds.tells(0, threshold, Ipv4Addr::from_bits(1).into(), 6));
        thresholds.tells(0, threshold, Ipv4Addr::from_bits(u32::MAX).into(), 15);
        // Removed entries leave marks, which count as used until the table is full.
        assert_eq!(thresholds.counts.len(), 1);
        assert!(thresholds.counts.capacity() <= before);
    }
}
