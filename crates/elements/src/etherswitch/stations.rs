//! The port of a switch at which each station was last seen.

use core::fmt::Write;

use hashbrown::HashMap;

use crate::prelude::*;

/// Between two searches of a full table for stations to drop, in nanoseconds.
const SWEEP: u64 = 1_000_000_000;

/// A station's port.
#[derive(Clone, Copy)]
struct Station {
    port: u32,
    /// When it last sent, in nanoseconds of the steady clock.
    seen: u64,
}

/// A table of stations by address. When it is full, other stations stay unknown until some are
/// dropped.
pub struct Stations {
    known: HashMap<u64, Station>,
    /// Most stations.
    capacity: usize,
    /// When a full table is searched again.
    next_sweep: u64,
}

impl Stations {
    /// An empty table for `capacity` stations.
    pub fn new(capacity: usize) -> Stations {
        Stations {
            known: HashMap::new(),
            capacity,
            next_sweep: 0,
        }
    }

    /// Notes that a station sent by `port` now. Stations that were silent for `timeout` make room.
    #[inline(always)]
    pub fn learn(&mut self, address: EtherAddress, port: u32, now: u64, timeout: u64) {
        match self.known.get_mut(&address.to_bits()) {
            Some(station) => *station = Station { port, seen: now },
            None => self.add(address, port, now, timeout),
        }
    }

    #[cold]
    fn add(&mut self, address: EtherAddress, port: u32, now: u64, timeout: u64) {
        if self.known.len() >= self.capacity {
            if now < self.next_sweep {
                return;
            }
            self.next_sweep = now.saturating_add(SWEEP);
            let fresh = |station: &Station| now.saturating_sub(station.seen) < timeout;
            self.known.retain(|_, station| fresh(station));
            if self.known.len() >= self.capacity {
                return;
            }
        }
        let station = Station { port, seen: now };
        self.known.insert(address.to_bits(), station);
    }

    /// The port of a station; `None` if it is unknown, or was silent for `timeout` and is dropped.
    #[inline(always)]
    pub fn find(&mut self, address: EtherAddress, now: u64, timeout: u64) -> Option<u32> {
        let station = self.known.get(&address.to_bits())?;
        if now.saturating_sub(station.seen) < timeout {
            return Some(station.port);
        }
        self.known.remove(&address.to_bits());
        None
    }

    /// The table, a line for each station, by address.
    pub fn table(&self) -> String {
        let mut stations: Vec<_> = self.known.iter().collect();
        stations.sort_unstable_by_key(|(address, _)| **address);
        let mut text = String::new();
        for (address, station) in stations {
            let address = EtherAddress::from_bits(*address);
            let _ = writeln!(text, "{address} {}", station.port);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn address(n: u64) -> EtherAddress {
        EtherAddress::from_bits(n)
    }

    #[test]
    fn silent_stations_are_dropped() {
        let mut stations = Stations::new(10);
        stations.learn(address(1), 7, 0, SECOND);
        assert_eq!(stations.find(address(1), SECOND - 1, SECOND), Some(7));
        assert_eq!(stations.find(address(1), SECOND, SECOND), None);
        assert_eq!(stations.table(), "");
    }

    #[test]
    fn stations_move() {
        let mut stations = Stations::new(10);
        stations.learn(address(1), 7, 0, SECOND);
        stations.learn(address(1), 8, 5, SECOND);
        assert_eq!(stations.find(address(1), SECOND + 4, SECOND), Some(8));
        assert_eq!(stations.table(), "00-00-00-00-00-01 8\n");
    }

    #[test]
    fn a_full_table_learns_no_more() {
        let mut stations = Stations::new(3);
        for n in 0..100 {
            stations.learn(address(n), 1, n, 2 * SECOND);
        }
        assert_eq!(stations.table().lines().count(), 3);
        assert_eq!(stations.find(address(50), 100, 2 * SECOND), None);
        // Known stations still move, and silent ones make room.
        stations.learn(address(1), 9, SECOND, 2 * SECOND);
        stations.learn(address(50), 5, 2 * SECOND + 10, 2 * SECOND);
        assert_eq!(
            stations.find(address(50), 2 * SECOND + 10, 2 * SECOND),
            Some(5)
        );
        assert_eq!(
            stations.find(address(1), 2 * SECOND + 10, 2 * SECOND),
            Some(9)
        );
        assert_eq!(stations.table().lines().count(), 2);
    }
}
