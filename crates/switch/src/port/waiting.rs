//! The port of a guest that does not run yet.
//!
//! Its frames wait in rings that nobody reads. At the first one, the switch calls for the guest: it writes the number
//! that the port came with into a pipe, which the switch's client reads. The client starts the guest, whose rings then
//! replace these, and get their frames ([`replaces`](crate::protocol::GuestInterface::replaces)).
//!
//! A port with `allowed-ips` waits for frames to its own Ethernet address, and for ARP requests and neighbor
//! solicitations for these addresses. Otherwise each broadcast in its domain would start the guest.

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use super::backend::{Backend, Kind, Outcome};
use super::guest::GuestLink;
use super::{Batch, HEAD};
use crate::counters::{PortCounters, Reason};
use crate::mac::Mac;
use crate::properties::IpPrefix;

const TYPE_ARP: [u8; 2] = [0x08, 0x06];
const TYPE_VLAN: [u8; 2] = [0x81, 0x00];

/// The pipe of calls: where the client reads, and the switch's side.
pub(crate) fn pipe() -> Result<(OwnedFd, Caller), Errno> {
    let (calls, caller) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    Ok((calls, Caller(Arc::new(caller))))
}

/// The switch's side of the pipe of calls.
#[derive(Clone)]
pub(crate) struct Caller(Arc<OwnedFd>);

impl Caller {
    /// The call for a guest.
    pub fn call(&self, number: u64) -> Call {
        Call {
            caller: self.clone(),
            number,
            done: false,
        }
    }
}

/// A call for a guest, which is made once.
pub(crate) struct Call {
    caller: Caller,
    number: u64,
    done: bool,
}

impl Call {
    /// Makes it, unless it was made. If the pipe is full, the next frame tries again.
    fn make(&mut self) {
        if !self.done {
            let written = rustix::io::write(&self.caller.0, &self.number.to_le_bytes());
            self.done = written.is_ok();
        }
    }
}

/// The rings of a guest that does not run yet.
pub struct WaitingLink {
    rings: GuestLink,
    call: Call,
    mac: Option<Mac>,
    /// The guest's IP addresses; none: it is started by any frame.
    own: Vec<IpPrefix>,
}

impl WaitingLink {
    /// A port on `rings`, which calls for the guest with this Ethernet address and these IP addresses.
    pub(crate) fn new(
        rings: GuestLink,
        call: Call,
        mac: Option<Mac>,
        own: &[IpPrefix],
    ) -> WaitingLink {
        WaitingLink {
            rings,
            call,
            mac,
            own: own.to_vec(),
        }
    }

    /// Whether a frame that begins like this is for the guest.
    fn awaits(&self, head: &[u8; HEAD]) -> bool {
        if self.own.is_empty() || self.mac.is_some_and(|mac| mac.0[..] == head[..6]) {
            return true;
        }
        let tags = if head[12..14] == TYPE_VLAN { 4 } else { 0 };
        if head[12 + tags..14 + tags] == TYPE_ARP {
            let target = &head[38 + tags..42 + tags];
            let target = Ipv4Addr::new(target[0], target[1], target[2], target[3]);
            return self.own.iter().any(|own| own.contains(target.into()));
        }
        self.own.iter().any(|own| solicits(head, *own))
    }
}

/// Whether a frame goes to the solicited-node multicast address of an address (RFC 4291, 2.7.1; RFC 2464, 7), or may if
/// that is one of many.
fn solicits(head: &[u8; HEAD], own: IpPrefix) -> bool {
    let IpAddr::V6(address) = own.address() else {
        return false;
    };
    let ends_alike = || head[3..6] == address.octets()[13..];
    head[..3] == [0x33, 0x33, 0xff] && (own.len() < 128 || ends_alike())
}

impl Kind for WaitingLink {
    const IN_MEMORY: bool = true;
}

impl Backend for WaitingLink {
    fn receive(&mut self, _: &mut Batch, _: &PortCounters) -> Outcome {
        Outcome::NOTHING
    }

    fn send(&mut self, batch: &mut Batch, which: &[u16], counters: &PortCounters) -> Outcome {
        let mut outcome = Outcome::NOTHING;
        for i in which.chunks(1) {
            let frame = i.first().and_then(|&i| batch.frames().get(usize::from(i)));
            if frame.is_some_and(|frame| self.awaits(frame.head())) {
                outcome.notify |= self.rings.send(batch, i, counters).notify;
            } else {
                counters.dropped(Reason::NotAwaited, 1);
            }
        }
        outcome
    }

    fn notify(&mut self, _: &PortCounters) -> Outcome {
        self.call.make();
        Outcome::NOTHING
    }

    fn mtu(&self) -> u16 {
        self.rings.mtu()
    }

    fn set_mtu(&mut self, mtu: u16) {
        self.rings.set_mtu(mtu);
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    fn unread(&self) -> Vec<u8> {
        self.rings.unread()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use abi::region::{Geometry, Interface};

    use super::*;
    use crate::memory::SharedRegion;

    const OWN: [u8; 6] = [2, 0, 0, 0, 0, 9];

    fn link(own: &str) -> (WaitingLink, OwnedFd) {
        let geometry = Geometry::new(64, 1).unwrap();
        let interface = Interface::new("eth0", OWN, 1500).unwrap();
        let (region, _) = SharedRegion::create(geometry, &[interface]).unwrap();
        let side = Arc::new(region).switch_side(0).unwrap();
        let (calls, caller) = pipe().unwrap();
        let own: Vec<IpPrefix> = own
            .split_whitespace()
            .map(|it| it.parse().unwrap())
            .collect();
        let rings = GuestLink::new(side, 1500);
        let link = WaitingLink::new(rings, caller.call(7), Some(Mac(OWN)), &own);
        (link, calls)
    }

    fn head(to: [u8; 6], rest: &[u8]) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        head[..6].copy_from_slice(&to);
        head[12..12 + rest.len()].copy_from_slice(rest);
        head
    }

    /// An ARP request, with a tag or without.
    fn question(tag: &[u8], target: [u8; 4]) -> [u8; HEAD] {
        let arp = [
            8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0,
        ];
        head([0xff; 6], &[tag, &arp, &target].concat())
    }

    #[test]
    fn a_port_that_waits_takes_what_is_for_its_guest() {
        let (any, _) = link("");
        assert!(any.awaits(&question(&[], [10, 0, 0, 8])));
        let (own, _) = link("10.0.0.7 10.1.0.0/16 fd00::1:203 fd01::/64");
        let tag = [0x81, 0, 0, 5];
        for (tag, target, awaits) in [
            (&[][..], [10, 0, 0, 7], true),
            (&[], [10, 1, 2, 3], true),
            (&[], [10, 0, 0, 8], false),
            (&tag, [10, 0, 0, 7], true),
            (&tag, [10, 0, 0, 8], false),
        ] {
            assert_eq!(own.awaits(&question(tag, target)), awaits, "{target:?}");
        }
        let ip = [8, 0, 0x45];
        assert!(own.awaits(&head(OWN, &ip)));
        assert!(!own.awaits(&head([2, 0, 0, 0, 0, 8], &ip)));
        assert!(!own.awaits(&head([0xff; 6], &ip)));
        // It has a whole network, so any solicitation may be for it.
        let ip6 = [0x86, 0xdd];
        assert!(own.awaits(&head([0x33, 0x33, 0xff, 9, 9, 9], &ip6)));
        assert!(!own.awaits(&head([0x33, 0x33, 0, 0, 0, 1], &ip6)));
        let (one, _) = link("fd00::1:203");
        assert!(one.awaits(&head([0x33, 0x33, 0xff, 1, 2, 3], &ip6)));
        assert!(!one.awaits(&head([0x33, 0x33, 0xff, 1, 2, 4], &ip6)));
    }

    #[test]
    fn a_call_that_the_pipe_has_no_room_for_is_made_later() {
        let (calls, caller) = pipe().unwrap();
        while rustix::io::write(&caller.0, &[0; 8]).is_ok() {}
        let mut call = caller.call(7);
        call.make();
        let mut all = vec![0; 1 << 20];
        assert!(rustix::io::read(&calls, &mut all).unwrap() > 0);
        call.make();
        call.make();
        assert_eq!(rustix::io::read(&calls, &mut all), Ok(8));
        assert_eq!(all[..8], 7u64.to_le_bytes());
    }
}
