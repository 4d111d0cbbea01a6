//! Spreading frames over ports by their flows.
//!
//! For a set of equal members behind one or several uplinks: the instances of a firewall, servers
//! with one address between them.
//!
//! - A frame from an uplink goes to the member that a hash of the addresses, the protocol and the
//!   ports selects. A flow stays with its member as long as the member exists. When a member comes
//!   or goes, only the flows that it gets or had move (rendezvous hashing: Thaler, Ravishankar
//!   1998).
//! - A frame from a member to another member's address goes there; all other frames go to an
//!   uplink, which the flow selects if there are several.
//! - Broadcasts and multicasts go everywhere. Frames other than IP go by their address as in a
//!   learning bridge, so that ARP works. Members that share an address should answer for it alike.

use super::{
    Destination, Known, LearnedEntry, Learning, Limits, Lookup, Mac, PortIndex, Seconds, is_group,
};
use crate::counters::Reason;
use crate::port::{Frame, HEAD};
use crate::properties::DomainProperties;

/// Number of classes that flows are hashed to. Each class belongs to one member.
const CLASSES: usize = 16_384;
/// Marks a class without a member.
const UNOWNED: PortIndex = PortIndex::MAX;

/// A hash-steered function of a domain with these properties.
pub(super) fn build(
    properties: &DomainProperties,
    replicated: bool,
) -> Result<Box<dyn Lookup>, String> {
    let mut function = HashSteered::new(Limits::default());
    function.configure(properties);
    function.set_replicated(replicated);
    Ok(Box::new(function))
}

/// The hash-steered lookup function.
pub struct HashSteered {
    /// The table of addresses, for frames that are not spread.
    learning: Learning,
    uplinks: Vec<PortIndex>,
    members: Vec<PortIndex>,
    /// The member of each class.
    classes: Box<[PortIndex]>,
    /// Ports that become uplinks when they are attached.
    announced: Vec<PortIndex>,
}

impl HashSteered {
    /// One without ports.
    pub fn new(limits: Limits) -> HashSteered {
        HashSteered {
            learning: Learning::new(limits),
            uplinks: Vec::new(),
            members: Vec::new(),
            classes: vec![UNOWNED; CLASSES].into(),
            announced: Vec::new(),
        }
    }

    /// Sets whether it keeps [`news`](Lookup::news) for its replicas.
    pub fn set_replicated(&mut self, replicated: bool) {
        self.learning.set_replicated(replicated);
    }

    /// The member to which a frame's flow belongs.
    #[inline]
    fn member(&self, hash: u32) -> Destination {
        match self.classes[hash as usize % CLASSES] {
            UNOWNED => Destination::Drop(Reason::NoDestination),
            member => Destination::Port(member),
        }
    }

    /// The uplink by which a member's frame leaves.
    #[inline]
    fn uplink(&self, hash: u32) -> Option<PortIndex> {
        match self.uplinks.as_slice() {
            [] => None,
            [one] => Some(*one),
            // By other bits than the choice of a member.
            many => Some(many[(hash.rotate_left(16) as usize) % many.len()]),
        }
    }

    fn join(&mut self, port: PortIndex) {
        self.members.push(port);
        for (class, owner) in (0..).zip(&mut *self.classes) {
            if *owner == UNOWNED || weight(port, class) > weight(*owner, class) {
                *owner = port;
            }
        }
    }

    fn leave(&mut self, port: PortIndex) {
        self.members.retain(|&member| member != port);
        for (class, owner) in (0..).zip(&mut *self.classes) {
            if *owner == port {
                let heaviest = self.members.iter().max_by_key(|&&m| weight(m, class));
                *owner = heaviest.copied().unwrap_or(UNOWNED);
            }
        }
    }
}

/// How much a port is wanted for a class: any two ports' weights for it are different.
fn weight(port: PortIndex, class: u32) -> (u32, PortIndex) {
    let mixed = u64::from(port) << 32 | u64::from(class);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed >> 32) as u32, port)
}

/// Whether a frame is IP, behind any VLAN tags.
#[inline]
fn is_ip(head: &[u8; HEAD]) -> bool {
    let kind = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let mut at = 12;
    while at < 20 && matches!(kind(at), 0x8100 | 0x88a8) {
        at += 4;
    }
    matches!(kind(at), 0x0800 | 0x86dd)
}

impl Lookup for HashSteered {
    fn steer(&mut self, from: PortIndex, frames: &[Frame], to: &mut [Destination], now: Seconds) {
        self.learning.steer(from, frames, to, now);
        let from_uplink = self.uplinks.contains(&from);
        for (frame, to) in frames.iter().zip(to) {
            let head = frame.head();
            if matches!(to, Destination::Drop(_)) || is_group(head) || !is_ip(head) {
                continue;
            }
            let hash = crate::port::flow_hash::flow_hash(head);
            if from_uplink {
                *to = self.member(hash);
                continue;
            }
            let known = matches!(*to, Destination::Port(port) if !self.uplinks.contains(&port));
            if let Some(uplink) = self.uplink(hash).filter(|_| !known) {
                *to = Destination::Port(uplink);
            }
        }
    }

    fn introduce(&mut self, port: PortIndex, _name: &str, uplink: bool) {
        self.announced.retain(|&other| other != port);
        if uplink {
            self.announced.push(port);
        }
    }

    fn attach(&mut self, port: PortIndex, mac: Option<Mac>, vlan: u16) {
        self.learning.attach(port, mac, vlan);
        if self.announced.contains(&port) {
            self.uplinks.push(port);
        } else {
            self.join(port);
        }
    }

    fn detach(&mut self, port: PortIndex) {
        self.learning.detach(port);
        match self.uplinks.iter().position(|&uplink| uplink == port) {
            Some(i) => drop(self.uplinks.remove(i)),
            None => self.leave(port),
        }
    }

    fn configure(&mut self, properties: &DomainProperties) {
        self.learning.configure(properties);
    }

    fn news(&mut self) -> Option<LearnedEntry> {
        self.learning.news()
    }

    fn hear(&mut self, news: LearnedEntry, now: Seconds) {
        self.learning.hear(news, now);
    }

    fn flush(&mut self) {
        self.learning.flush();
    }

    fn entries(&self) -> usize {
        self.learning.entries()
    }

    fn table(&self, now: Seconds) -> Vec<Known> {
        self.learning.table(now)
    }
}

#[cfg(test)]
mod tests;
