//! Who is on a worker: attaching and detaching ports, and the domains that they make up.

use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::event::epoll;
use rustix::io::Errno;

use super::{Domain, PORTS_MAX, Port, State, Token, Worker, counters_of};
use crate::lookup::{Learning, Limits, Mac, PortIndex};
use crate::pace::Pace;
use crate::port::{BATCH, Link};

/// What is to be attached.
pub struct Attach {
    /// Where the port leads.
    pub link: Link,
    /// How users call it.
    pub name: String,
    /// The domain that it joins; made if it is the first port there.
    pub domain: u32,
    /// The Ethernet address known to be behind it.
    pub mac: Option<Mac>,
}

/// No port can be attached: [`PORTS_MAX`] are.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the switch has {PORTS_MAX} ports already: detach one first")]
pub struct Full;

/// Why a port could not be attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// There are too many.
    #[error(transparent)]
    Full(#[from] Full),
    /// The kernel would not watch its descriptor.
    #[error("cannot watch the port's descriptor: {0}")]
    Watch(#[from] Errno),
}

impl Worker {
    /// Attaches a guest's ports, which `doorbell` wakes. All or none.
    pub fn attach_guest(
        &mut self,
        ports: Vec<Attach>,
        doorbell: OwnedFd,
    ) -> Result<Vec<PortIndex>, AttachError> {
        if self.room() < ports.len() {
            return Err(Full.into());
        }
        let guest = self.next_guest;
        let token = Token::Guest(guest).to_event();
        // Edge-triggered, so that the eventfd need not be read.
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&self.epoll, &doorbell, token, flags)?;
        self.next_guest = self.next_guest.wrapping_add(1);
        let places: Vec<_> = ports
            .into_iter()
            .filter_map(|port| self.insert(port, Some(guest)))
            .collect();
        self.guests.insert(guest, (doorbell, places.clone()));
        Ok(places)
    }

    /// Attaches a host link's port.
    pub fn attach_link(&mut self, port: Attach) -> Result<PortIndex, AttachError> {
        let place = self.insert(port, None).ok_or(Full)?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        let token = || Token::Port(place).to_event();
        let link = self.ports[usize::from(place)].as_ref();
        let descriptors = link.map_or(Vec::new(), |port| port.link.descriptors());
        let mut descriptors = descriptors.into_iter();
        let added = descriptors.try_for_each(|fd| epoll::add(&self.epoll, fd, token(), flags));
        if let Err(error) = added {
            self.detach(place);
            return Err(error.into());
        }
        Ok(place)
    }

    /// How many more ports can be attached.
    fn room(&self) -> usize {
        PORTS_MAX - self.ports.len() + self.free.len()
    }

    fn insert(&mut self, attach: Attach, guest: Option<u32>) -> Option<PortIndex> {
        let place = match self.free.pop() {
            Some(place) => place,
            None if self.ports.len() < PORTS_MAX => {
                self.ports.push(None);
                (self.ports.len() - 1) as PortIndex
            }
            None => return None,
        };
        let now = Instant::now();
        let domain = self.domain(attach.domain);
        if let Some(joined) = &mut self.domains[domain] {
            joined.members.push(place);
            joined.lookup.attach(place, attach.mac);
        }
        counters_of(&self.counters, place).reset();
        self.ports[usize::from(place)] = Some(Port {
            link: attach.link,
            name: attach.name,
            domain,
            guest,
            pace: Pace::new(now),
            state: State::Polled { woken: false },
            violations: 0,
            queue: Vec::with_capacity(BATCH),
        });
        self.active.push(place);
        // Each port is touched at most once a batch: delivering never allocates.
        self.touched.reserve(self.ports.len());
        Some(place)
    }

    /// The place of the domain with this number, which is made if need be.
    fn domain(&mut self, number: u32) -> usize {
        if let Some(&place) = self.numbers.get(&number) {
            return place;
        }
        let domain = Some(Domain {
            number,
            members: Vec::new(),
            lookup: Box::new(Learning::new(Limits::default())),
        });
        let place = match self.free_domains.pop() {
            Some(place) => {
                self.domains[place] = domain;
                place
            }
            None => {
                self.domains.push(domain);
                self.domains.len() - 1
            }
        };
        self.numbers.insert(number, place);
        place
    }

    /// Detaches a port; its link is closed. Returns whether there was one.
    pub fn detach(&mut self, place: PortIndex) -> bool {
        let Some(port) = self
            .ports
            .get_mut(usize::from(place))
            .and_then(Option::take)
        else {
            return false;
        };
        self.free.push(place);
        self.active.retain(|&active| active != place);
        self.down.retain(|&down| down != place);
        if let Some(domain) = &mut self.domains[port.domain] {
            domain.members.retain(|&member| member != place);
            domain.lookup.detach(place);
            if domain.members.is_empty() {
                self.numbers.remove(&domain.number);
                self.domains[port.domain] = None;
                self.free_domains.push(port.domain);
            }
        }
        if let Some(guest) = port.guest
            && let Some((_, ports)) = self.guests.get_mut(&guest)
        {
            ports.retain(|&other| other != place);
            if ports.is_empty() {
                // Closing the doorbell here does not take it out of the epoll set: the guest's
                // VMM holds it, too.
                if let Some((doorbell, _)) = self.guests.remove(&guest) {
                    let _ = epoll::delete(&self.epoll, &doorbell);
                }
            }
        }
        for descriptor in port.link.descriptors() {
            let _ = epoll::delete(&self.epoll, descriptor);
        }
        true
    }

    /// Forgets what was learned in a domain. Returns whether there is such a domain.
    pub fn flush(&mut self, number: u32) -> bool {
        let place = self.numbers.get(&number);
        let domain = place.and_then(|&place| self.domains[place].as_mut());
        domain.map(|domain| domain.lookup.flush()).is_some()
    }
}
