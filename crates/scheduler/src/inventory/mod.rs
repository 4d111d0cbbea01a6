//! Hosts, guests, and what is booked on each host.
//!
//! A fact that filters and weights compare is a column: an array with a value for each host. A label, an image or a
//! feature is a set of hosts. Both are changed when a host or a guest changes, so a decision reads columns and never
//! looks at guests.
//!
//! A guest that moves is booked on both hosts until it has moved. Its load counts where it goes.

mod groups;
mod hosts;
mod index;
mod set;

use std::sync::Arc;

use hashbrown::HashMap;

use crate::error::{Error, Result};
use crate::facts::{Guest, Host, HostState};

pub use groups::Groups;
pub use hosts::{Column, Hosts, Thresholds, Totals};
pub use index::Index;
pub use set::HostSet;

/// A time in milliseconds, from any beginning. The caller tells it; this crate has no clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Millis(pub u64);

/// A guest on a host.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Its name.
    pub name: String,
    /// Its facts.
    pub guest: Arc<Guest>,
    /// The slot of the host that it runs on.
    pub host: usize,
    /// The slot of the host that it moves to.
    pub target: Option<usize>,
    /// The host that it left for maintenance, and returns to.
    pub home: Option<String>,
    /// Whether it stays where it is, for now.
    pub held: bool,
    /// Its index in the host's list of guests.
    position: usize,
}

impl Placed {
    /// The host where its load counts.
    pub fn destination(&self) -> usize {
        self.target.unwrap_or(self.host)
    }
}

/// Hosts and guests.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    /// The hosts.
    pub hosts: Hosts,
    /// Members of affinity groups.
    pub groups: Groups,
    guests: Vec<Option<Placed>>,
    free: Vec<usize>,
    by_name: HashMap<String, usize>,
    /// Guests that move.
    moving: Vec<usize>,
    /// Guests that left a host for maintenance.
    away: Vec<usize>,
}

impl Inventory {
    /// Adds a host, or changes its facts.
    pub fn set_host(&mut self, name: &str, facts: Host) -> Result {
        facts.check(name)?;
        self.hosts.set(name, facts);
        Ok(())
    }

    /// Removes a host and the guests that ran there; returns these.
    pub fn remove_host(&mut self, name: &str) -> Result<Vec<(String, Arc<Guest>)>> {
        let slot = self.hosts.slot(name)?;
        let arriving: Vec<_> = self
            .moving
            .iter()
            .filter_map(|guest| self.guests[*guest].as_ref())
            .filter(|placed| placed.target == Some(slot))
            .map(|placed| placed.name.clone())
            .collect();
        for guest in arriving {
            self.cancel_move(&guest)?;
        }
        let mut lost = Vec::new();
        while let Some(guest) = self.hosts.guests(slot).last().copied() {
            let placed = self.take(guest);
            lost.push((placed.name, placed.guest));
        }
        self.hosts.remove(slot);
        Ok(lost)
    }

    /// How many guests there are.
    pub fn guest_count(&self) -> usize {
        self.by_name.len()
    }

    /// All guests.
    pub fn guests(&self) -> impl Iterator<Item = &Placed> {
        self.guests.iter().flatten()
    }

    /// A guest, by its name.
    pub fn guest(&self, name: &str) -> Option<&Placed> {
        let slot = *self.by_name.get(name)?;
        self.guests[slot].as_ref()
    }

    /// The guests that run on the host in this slot, leaving guests included.
    pub fn guests_on(&self, slot: usize) -> impl Iterator<Item = &Placed> {
        let guests = self.hosts.guests(slot).iter();
        guests.filter_map(|guest| self.guests[*guest].as_ref())
    }

    /// The guests that move.
    pub fn moving(&self) -> impl ExactSizeIterator<Item = &Placed> {
        let placed = |guest: &usize| self.guests[*guest].as_ref();
        self.moving
            .iter()
            .map(move |guest| placed(guest).expect("a guest that moves is there"))
    }

    /// The guests that left a host for maintenance.
    pub fn away(&self) -> impl Iterator<Item = &Placed> {
        let away = self.away.iter();
        away.filter_map(|guest| self.guests[*guest].as_ref())
    }

    /// Books a guest on a host, whether or not it fits.
    pub fn book(&mut self, name: &str, guest: Arc<Guest>, host: usize) -> Result {
        if self.by_name.contains_key(name) {
            return Err(Error::Taken(name.into()));
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.guests.push(None);
            self.guests.len() - 1
        });
        self.hosts.add(host, &guest, 1);
        self.hosts.add_load(host, guest.used().0);
        for member in &guest.affinity {
            self.groups.add(&member.group, host);
        }
        let position = self.hosts.seat(host, slot);
        self.by_name.insert(name.into(), slot);
        self.guests[slot] = Some(Placed {
            name: name.into(),
            guest,
            host,
            target: None,
            home: None,
            held: false,
            position,
        });
        Ok(())
    }

    /// Removes a guest.
    pub fn release(&mut self, name: &str) -> Result<Arc<Guest>> {
        let slot = self.named(name)?;
        Ok(self.take(slot).guest)
    }

    /// Changes the processor time that a guest uses.
    pub fn set_load(&mut self, name: &str, load: crate::facts::Processors) -> Result {
        let slot = self.named(name)?;
        let placed = self.guests[slot].as_mut().expect("a named guest is there");
        let before = placed.guest.used().0;
        Arc::make_mut(&mut placed.guest).load = Some(load);
        let host = placed.destination();
        self.hosts.subtract_load(host, before);
        self.hosts.add_load(host, load.0);
        Ok(())
    }

    /// Keeps a guest where it is, as after a move that failed, or no longer.
    pub fn hold(&mut self, name: &str, held: bool) -> Result {
        let slot = self.named(name)?;
        let placed = self.guests[slot].as_mut();
        placed.expect("a named guest is there").held = held;
        Ok(())
    }

    /// Notes the host that a guest left for maintenance, and returns to.
    pub fn set_home(&mut self, name: &str, home: Option<String>) -> Result {
        let slot = self.named(name)?;
        self.away.retain(|guest| *guest != slot);
        if home.is_some() {
            self.away.push(slot);
        }
        let placed = self.guests[slot].as_mut().expect("a named guest is there");
        placed.home = home;
        Ok(())
    }

    /// Books a guest on the host that it moves to, beside the host that it runs on.
    pub fn begin_move(&mut self, name: &str, target: usize) -> Result {
        let slot = self.named(name)?;
        let placed = self.guests[slot].as_mut().expect("a named guest is there");
        let refused = |why| {
            Err(Error::Move {
                guest: name.into(),
                why,
            })
        };
        if placed.target.is_some() {
            return refused("moves already; wait until it has moved");
        }
        if placed.host == target {
            return refused("runs on that host; choose another");
        }
        placed.target = Some(target);
        let (host, guest) = (placed.host, placed.guest.clone());
        self.moving.push(slot);
        self.hosts.add(target, &guest, 1);
        self.hosts.subtract_load(host, guest.used().0);
        self.hosts.add_load(target, guest.used().0);
        self.hosts.leaving(host, 1);
        for member in &guest.affinity {
            self.groups.add(&member.group, target);
        }
        Ok(())
    }

    /// Ends a move: the guest runs on the host that it moved to.
    pub fn finish_move(&mut self, name: &str) -> Result {
        let (slot, from, to) = self.end_move(name)?;
        let placed = self.guests[slot].as_mut().expect("a named guest is there");
        let (guest, position) = (placed.guest.clone(), placed.position);
        placed.host = to;
        let was_away = placed.home.is_some();
        if self.hosts.state(from) == HostState::Maintenance && !was_away {
            placed.home = Some(self.hosts.name(from).into());
        }
        if placed.home.as_deref() == Some(self.hosts.name(to)) {
            placed.home = None;
        }
        let is_away = placed.home.is_some();
        match (was_away, is_away) {
            (false, true) => self.away.push(slot),
            (true, false) => self.away.retain(|guest| *guest != slot),
            _ => {}
        }
        self.unseat(from, position);
        let position = self.hosts.seat(to, slot);
        if let Some(placed) = self.guests[slot].as_mut() {
            placed.position = position;
        }
        self.forget(from, &guest);
        Ok(())
    }

    /// Ends a move that failed: the guest runs where it ran.
    pub fn cancel_move(&mut self, name: &str) -> Result {
        let (slot, from, to) = self.end_move(name)?;
        let placed = self.guests[slot].as_ref().expect("a named guest is there");
        let guest = placed.guest.clone();
        self.forget(to, &guest);
        self.hosts.subtract_load(to, guest.used().0);
        self.hosts.add_load(from, guest.used().0);
        Ok(())
    }

    fn end_move(&mut self, name: &str) -> Result<(usize, usize, usize)> {
        let slot = self.named(name)?;
        let placed = self.guests[slot].as_mut().expect("a named guest is there");
        let Some(target) = placed.target.take() else {
            let why = "does not move";
            return Err(Error::Move {
                guest: name.into(),
                why,
            });
        };
        let host = placed.host;
        self.moving.retain(|guest| *guest != slot);
        self.hosts.leaving(host, -1);
        Ok((slot, host, target))
    }

    /// Removes what a guest has booked on a host, except its load.
    fn forget(&mut self, host: usize, guest: &Guest) {
        self.hosts.add(host, guest, -1);
        for member in &guest.affinity {
            self.groups.remove(&member.group, host);
        }
    }

    /// Removes the guest in this position of a host's list; the last one takes the position.
    fn unseat(&mut self, host: usize, position: usize) {
        if let Some(moved) = self.hosts.unseat(host, position) {
            let placed = self.guests[moved].as_mut();
            placed.expect("a seated guest is there").position = position;
        }
    }

    fn take(&mut self, slot: usize) -> Placed {
        let name = &self.guests[slot].as_ref().expect("a guest is there").name;
        if self.guests[slot]
            .as_ref()
            .is_some_and(|placed| placed.target.is_some())
        {
            let name = name.clone();
            self.cancel_move(&name).expect("the guest moves");
        }
        let placed = self.guests[slot].take().expect("a guest is there");
        self.by_name.remove(&placed.name);
        if placed.home.is_some() {
            self.away.retain(|guest| *guest != slot);
        }
        self.unseat(placed.host, placed.position);
        self.forget(placed.host, &placed.guest);
        self.hosts.subtract_load(placed.host, placed.guest.used().0);
        self.free.push(slot);
        placed
    }

    fn named(&self, name: &str) -> Result<usize> {
        self.by_name
            .get(name)
            .copied()
            .ok_or_else(|| Error::Unknown {
                kind: "guest",
                name: name.into(),
                known: Vec::new(),
            })
    }
}

#[cfg(test)]
mod tests;
