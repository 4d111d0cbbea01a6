//! Selects the remotes of a frame: the remote behind which its destination is known to be, or all of
//! them, with a copy for each ("head-end replication").

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use hashbrown::HashMap;

use super::Neighbor;
use crate::mac::Mac;
use crate::port::HEAD;

/// Most addresses that are remembered; a frame for an unknown address goes to each remote.
const ADDRESSES_MAX: usize = 16_384;
/// How long an address is remembered that is not seen again.
const AGING: Duration = Duration::from_secs(300);
/// How often a full table is swept for aged entries.
const SWEEP: Duration = Duration::from_secs(1);

/// Bytes of an ARP frame: the least that Ethernet has.
pub(super) const ARP_FRAME: usize = 60;

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    /// To one remote, by its number.
    One(u16),
    /// To each.
    All,
}

/// Where an address was last seen.
struct Station {
    remote: u16,
    at: Instant,
    /// It was told, and does not age.
    told: bool,
}

impl Station {
    fn is_aged(&self, now: Instant) -> bool {
        !self.told && now - self.at >= AGING
    }
}

/// The remotes, and the addresses behind each.
pub(super) struct Remotes {
    addresses: Vec<SocketAddr>,
    known: HashMap<[u8; 6], Station>,
    /// The Ethernet addresses that were told with IP addresses.
    owners: HashMap<Ipv4Addr, [u8; 6]>,
    told: Vec<Neighbor>,
    swept: Instant,
    now: Instant,
}

impl Remotes {
    pub(super) fn new(addresses: Vec<SocketAddr>, neighbors: Vec<Neighbor>) -> Remotes {
        let now = Instant::now();
        let mut remotes = Remotes {
            addresses: Vec::new(),
            known: HashMap::new(),
            owners: HashMap::new(),
            told: Vec::new(),
            swept: now,
            now,
        };
        remotes.set(addresses, neighbors);
        remotes
    }

    /// Replaces the remotes and what is told of addresses behind them. An address that is told as
    /// before stays where it was seen since.
    pub(super) fn set(&mut self, addresses: Vec<SocketAddr>, neighbors: Vec<Neighbor>) {
        self.now = Instant::now();
        let before = std::mem::replace(&mut self.addresses, addresses);
        let number = |address: &SocketAddr| self.addresses.iter().position(|it| it == address);
        let moved: Vec<_> = before.iter().map(number).collect();
        // One remote needs no table of what is seen. Else there is room from the start: learning
        // never allocates.
        if self.addresses.len() > 1 {
            self.known.reserve(ADDRESSES_MAX - self.known.len());
        }
        self.known.retain(|_, station| {
            station.told = false;
            let now = moved.get(usize::from(station.remote)).copied().flatten();
            station.remote = now.unwrap_or_default() as u16;
            now.is_some()
        });
        self.owners.clear();
        let told = std::mem::take(&mut self.told);
        let told: HashMap<Mac, Option<&SocketAddr>> = told
            .iter()
            .map(|it| (it.mac, before.get(usize::from(it.remote))))
            .collect();
        for neighbor in &neighbors {
            let address = self.addresses.get(usize::from(neighbor.remote));
            if address.is_none() {
                continue;
            }
            let mac = neighbor.mac.0;
            let ips = neighbor.ips.iter();
            self.owners.extend(ips.map(|ip| (*ip, mac)));
            let as_before = told.get(&neighbor.mac) == Some(&address);
            match self.known.get_mut(&mac) {
                Some(station) if as_before => station.told = true,
                _ => {
                    let station = Station {
                        remote: neighbor.remote,
                        at: self.now,
                        told: true,
                    };
                    self.known.insert(mac, station);
                }
            }
        }
        self.told = neighbors;
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
        if let Some(station) = self.known.get_mut(&source) {
            (station.remote, station.at) = (remote, at);
        } else if !multicast && self.has_room() {
            let told = false;
            self.known.insert(source, Station { remote, at, told });
        }
    }

    fn has_room(&mut self) -> bool {
        if self.known.len() >= ADDRESSES_MAX && self.now - self.swept >= SWEEP {
            self.swept = self.now;
            let now = self.now;
            self.known.retain(|_, station| !station.is_aged(now));
        }
        self.known.len() < ADDRESSES_MAX
    }

    /// The answer to a frame, if it is an ARP request for an address that was told.
    pub(super) fn answer(&self, head: &[u8; HEAD]) -> Option<[u8; ARP_FRAME]> {
        let owner = self.owners.get(&asked(head)?)?;
        let is_ethernet = head[14..20] == [0, 1, 8, 0, 6, 4];
        is_ethernet.then(|| {
            let mut answer = [0; ARP_FRAME];
            answer[..6].copy_from_slice(&head[6..12]);
            answer[6..12].copy_from_slice(owner);
            answer[12..22].copy_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
            answer[22..28].copy_from_slice(owner);
            answer[28..32].copy_from_slice(&head[38..42]);
            answer[32..42].copy_from_slice(&head[22..32]);
            answer
        })
    }

    /// Where a frame goes. An ARP request goes to the owner of the address that it asks for.
    pub(super) fn destination(&self, head: &[u8; HEAD]) -> To {
        if self.addresses.len() == 1 {
            return To::One(0);
        }
        let destination: [u8; 6] = std::array::from_fn(|i| head[i]);
        let destination = match asked(head) {
            Some(address) => self.owners.get(&address).copied().unwrap_or(destination),
            None => destination,
        };
        match self.known.get(&destination) {
            Some(station) if !station.is_aged(self.now) => To::One(station.remote),
            _ => To::All,
        }
    }
}

/// The address that a broadcast ARP request asks for; none of one that tells of its own (RFC 5227).
fn asked(head: &[u8; HEAD]) -> Option<Ipv4Addr> {
    let is_request = head[..6] == [0xff; 6] && head[12..14] == [8, 6] && head[20..22] == [0, 1];
    let address = |at: usize| Ipv4Addr::new(head[at], head[at + 1], head[at + 2], head[at + 3]);
    let (sender, target) = (address(28), address(38));
    (is_request && sender != target && !sender.is_unspecified()).then_some(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(to: u8, from: u8) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        head[..12].copy_from_slice(&[2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from]);
        head
    }

    fn addresses(numbers: impl IntoIterator<Item = u8>) -> Vec<SocketAddr> {
        let numbers = numbers.into_iter();
        numbers
            .map(|i| SocketAddr::from(([10, 0, 0, i], 4789)))
            .collect()
    }

    fn remotes(n: u8) -> Remotes {
        Remotes::new(addresses(0..n), Vec::new())
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

    fn neighbor(number: u8, remote: u16) -> Neighbor {
        Neighbor {
            mac: Mac([2, 0, 0, 0, 0, number]),
            remote,
            ips: vec![Ipv4Addr::new(192, 0, 2, number)],
        }
    }

    /// An ARP request for the address of a neighbor.
    fn request(target: u8, sender: u8) -> [u8; HEAD] {
        let mut head = head(0, sender);
        head[..6].fill(0xff);
        head[12..22].copy_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        head[28..32].copy_from_slice(&[192, 0, 2, sender]);
        head[38..42].copy_from_slice(&[192, 0, 2, target]);
        head
    }

    #[test]
    fn requests_for_told_addresses_are_answered() {
        let mut remotes = Remotes::new(addresses(0..3), vec![neighbor(7, 1)]);
        let answer = remotes.answer(&request(7, 1)).unwrap();
        let (owner, asker) = ([2, 0, 0, 0, 0, 7], [2, 0, 0, 0, 0, 1]);
        assert_eq!((&answer[..6], &answer[6..12]), (&asker[..], &owner[..]));
        assert_eq!(answer[12..22], [8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
        assert_eq!(answer[22..32], [2, 0, 0, 0, 0, 7, 192, 0, 2, 7]);
        assert_eq!(answer[32..42], request(7, 1)[22..32]);
        // Nobody is answered who asks for another address, tells of its own, or speaks of other hardware.
        let mut other = request(7, 1);
        other[15] = 6;
        for no in [request(8, 1), request(7, 7), head(7, 1), other] {
            assert_eq!(remotes.answer(&no), None);
        }
        // Wherever the owner is seen, its address is the same; one that is not told of any more is asked itself.
        remotes.learn(&head(1, 7), 2);
        assert_eq!(remotes.answer(&request(7, 1)), Some(answer));
        remotes.set(addresses(0..3), vec![]);
        assert_eq!(remotes.answer(&request(7, 1)), None);
    }

    #[test]
    fn told_addresses_are_known_until_they_are_seen_elsewhere() {
        let mut remotes = Remotes::new(addresses(0..3), vec![neighbor(7, 1), neighbor(8, 9)]);
        assert_eq!(remotes.destination(&head(7, 1)), To::One(1));
        assert_eq!(remotes.destination(&request(7, 1)), To::One(1));
        // An address without a remote is not known, nor are others; an announcement goes to all.
        for all in [head(8, 1), request(8, 1), request(9, 1), request(7, 7)] {
            assert_eq!(remotes.destination(&all), To::All);
        }
        // It does not age.
        remotes.now += AGING;
        assert_eq!(remotes.destination(&head(7, 1)), To::One(1));
        // What is seen is newer, also than the same told again.
        remotes.learn(&head(1, 7), 2);
        remotes.set(addresses(0..3), vec![neighbor(7, 1)]);
        assert_eq!(remotes.destination(&request(7, 1)), To::One(2));
        // News is newer than what was seen.
        remotes.set(addresses(0..3), vec![neighbor(7, 0)]);
        assert_eq!(remotes.destination(&head(7, 1)), To::One(0));
        remotes.set(addresses(0..3), vec![]);
        assert_eq!(remotes.destination(&request(7, 1)), To::All);
    }

    #[test]
    fn addresses_stay_with_their_remote_under_another_number() {
        let mut remotes = Remotes::new(addresses([1, 2, 3]), vec![neighbor(7, 2)]);
        remotes.learn(&head(1, 5), 0);
        remotes.learn(&head(1, 6), 1);
        remotes.set(addresses([3, 2]), vec![neighbor(7, 0)]);
        assert_eq!(remotes.destination(&head(7, 1)), To::One(0));
        assert_eq!(remotes.destination(&head(6, 1)), To::One(1));
        assert_eq!(remotes.destination(&head(5, 1)), To::All);
        // Without remotes, nothing goes anywhere.
        remotes.set(vec![], vec![neighbor(7, 0)]);
        assert_eq!(remotes.destination(&head(7, 1)), To::All);
        assert!(remotes.known.is_empty());
    }
}
