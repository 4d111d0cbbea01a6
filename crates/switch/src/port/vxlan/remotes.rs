//! Selects the remotes of a frame: the remote behind which its destination was last seen, or all of
//! them, with a copy for each ("head-end replication").

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use hashbrown::HashMap;

use crate::port::HEAD;

/// Most addresses that are remembered; a frame for an unknown address goes to each remote.
const ADDRESSES_MAX: usize = 16_384;
/// How long an address is remembered that is not seen again.
const AGING: Duration = Duration::from_secs(300);
/// How often a full table is swept for aged entries.
const SWEEP: Duration = Duration::from_secs(1);

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    /// To one remote, by its number.
    One(u16),
    /// To each.
    All,
}

struct LastSeen {
    remote: u16,
    at: Instant,
}

/// The remotes, and the addresses behind each.
pub(super) struct Remotes {
    addresses: Vec<SocketAddr>,
    known: HashMap<[u8; 6], LastSeen>,
    swept: Instant,
    now: Instant,
}

impl Remotes {
    pub(super) fn new(addresses: Vec<SocketAddr>) -> Remotes {
        // One remote needs no table. Else there is room from the start: learning never allocates.
        let room = if addresses.len() > 1 {
            ADDRESSES_MAX
        } else {
            0
        };
        let now = Instant::now();
        Remotes {
            addresses,
            known: HashMap::with_capacity(room),
            swept: now,
            now,
        }
    }

    /// Reads the clock for the operations that follow.
    pub(super) fn tick(&mut self) {
        if self.addresses.len() > 1 {
            self.now = Instant::now();
        }
    }

    /// The remote that a packet came from. Its port may be any: senders spread flows by it
    /// (RFC 7348, section 5).
    pub(super) fn number(&self, from: IpAddr) -> Option<u16> {
        let index = self.addresses.iter().position(|remote| remote.ip() == from);
        index.map(|index| index as u16)
    }

    /// Notes that a frame came from a remote.
    pub(super) fn learn(&mut self, head: &[u8; HEAD], remote: u16) {
        if self.addresses.len() < 2 {
            return;
        }
        let source: [u8; 6] = std::array::from_fn(|i| head[6 + i]);
        let multicast = source[0] & 1 != 0;
        let at = self.now;
        if let Some(seen) = self.known.get_mut(&source) {
            *seen = LastSeen { remote, at };
        } else if !multicast && self.has_room() {
            self.known.insert(source, LastSeen { remote, at });
        }
    }

    fn has_room(&mut self) -> bool {
        if self.known.len() >= ADDRESSES_MAX && self.now - self.swept >= SWEEP {
            self.swept = self.now;
            let now = self.now;
            self.known.retain(|_, seen| now - seen.at < AGING);
        }
        self.known.len() < ADDRESSES_MAX
    }

    /// Where a frame goes.
    pub(super) fn destination(&self, head: &[u8; HEAD]) -> To {
        if self.addresses.len() == 1 {
            return To::One(0);
        }
        let destination: [u8; 6] = std::array::from_fn(|i| head[i]);
        match self.known.get(&destination) {
            Some(seen) if self.now - seen.at < AGING => To::One(seen.remote),
            _ => To::All,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(to: u8, from: u8) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        head[..12].copy_from_slice(&[2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from]);
        head
    }

    fn remotes(n: u8) -> Remotes {
        let addresses = (0..n).map(|i| SocketAddr::from(([10, 0, 0, i], 4789)));
        Remotes::new(addresses.collect())
    }

    #[test]
    fn frames_follow_their_destination_to_where_it_was_last_seen() {
        let mut remotes = remotes(3);
        assert_eq!(remotes.number(IpAddr::from([10, 0, 0, 2])), Some(2));
        assert_eq!(remotes.number(IpAddr::from([10, 0, 0, 9])), None);
        assert_eq!(remotes.destination(&head(7, 1)), To::All);
        remotes.learn(&head(1, 7), 2);
        assert_eq!(remotes.destination(&head(7, 1)), To::One(2));
        remotes.learn(&head(1, 7), 0);
        assert_eq!(remotes.destination(&head(7, 1)), To::One(0));
        remotes.now += AGING;
        assert_eq!(remotes.destination(&head(7, 1)), To::All);
        // Multicast sources are never learned.
        let mut odd = head(1, 7);
        odd[6] = 3;
        remotes.learn(&odd, 1);
        assert_eq!(remotes.known.len(), 1);
    }

    #[test]
    fn a_full_table_learns_again_when_something_has_aged() {
        let mut remotes = remotes(2);
        let numbered = |i: u32| {
            let mut head = head(1, 0);
            head[8..12].copy_from_slice(&i.to_be_bytes());
            head
        };
        for i in 0..=ADDRESSES_MAX as u32 {
            remotes.learn(&numbered(i), 1);
        }
        assert_eq!(remotes.known.len(), ADDRESSES_MAX);
        remotes.now += AGING;
        remotes.learn(&numbered(u32::MAX), 1);
        assert_eq!(remotes.known.len(), 1);
    }

    #[test]
    fn one_remote_gets_everything() {
        let mut remotes = remotes(1);
        remotes.learn(&head(1, 7), 0);
        assert_eq!(remotes.destination(&head(9, 1)), To::One(0));
        assert!(remotes.known.is_empty());
    }
}
