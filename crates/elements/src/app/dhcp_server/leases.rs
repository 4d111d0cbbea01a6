//! Leases: each address of the pools has a slot, and a slot has at most one client.
//!
//! A slot is in one list at a time, oldest first: those that are free, offered, leased or declined. All
//! leases last as long, so the first of a list is the first to end. A free slot remembers its last client, which
//! gets it again if no one else did; the slot that has been free for longest is given away first.

use hashbrown::HashMap;

use super::message::Identity;
use super::subnet::{Reservation, Subnet};
use crate::lists::Lists;
use crate::prelude::*;
use crate::rewriter::index::NoMemory;

/// Most addresses.
pub const ADDRESSES_MAX: usize = 1 << 16;

/// What an address is used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Nothing.
    #[default]
    Free,
    /// It is offered to a client.
    Offered,
    /// A client has it.
    Leased,
    /// Another host has it, as a client found.
    Declined,
}

impl State {
    const TIMED: [State; 3] = [State::Offered, State::Leased, State::Declined];
}

impl core::fmt::Display for State {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            State::Free => "free",
            State::Offered => "offered",
            State::Leased => "leased",
            State::Declined => "declined",
        })
    }
}

/// A client, and the subnet that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    pub identity: Identity,
    pub hardware: EtherAddress,
    pub subnet: u16,
}

/// An address.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    pub address: Ipv4Addr,
    pub state: State,
    /// The client that it has, or had last.
    pub client: Option<Client>,
    /// The second at which its state ends.
    pub until: u64,
    subnet: u16,
    /// Whether it is kept for one hardware address.
    is_reserved: bool,
}

/// The slots of all pools.
#[derive(Default)]
pub struct Leases {
    slots: Vec<Slot>,
    /// The first slot of each subnet's pool, and its first address.
    pools: Vec<(u32, u32, u32)>,
    reserved: HashMap<([u8; 6], u16), u32>,
    /// The slots of addresses that are in no pool.
    others: HashMap<Ipv4Addr, u32>,
    clients: HashMap<(Identity, u16), u32>,
    lists: Lists,
}

impl Leases {
    /// Slots for the pools of some subnets, and for reservations. All memory is allocated.
    pub fn new(subnets: &[Subnet], reservations: &[Reservation]) -> Result<Leases, NoMemory> {
        let pooled: usize = subnets.iter().map(Subnet::addresses).sum();
        let all = pooled + reservations.len();
        let mut leases = Leases::default();
        leases.slots.try_reserve_exact(all).map_err(|_| NoMemory)?;
        for (number, subnet) in (0..).zip(subnets) {
            let first = leases.slots.len() as u32;
            leases.pools.push((first, subnet.first, subnet.last));
            leases
                .slots
                .extend((subnet.first..=subnet.last).map(|address| Slot {
                    address: Ipv4Addr::from_bits(address),
                    state: State::Free,
                    client: None,
                    until: 0,
                    subnet: number,
                    is_reserved: false,
                }));
        }
        for reservation in reservations {
            let number = match leases.slot_of(reservation.address) {
                Some(number) => number,
                None => {
                    let number = leases.slots.len() as u32;
                    leases.others.insert(reservation.address, number);
                    leases.slots.push(Slot {
                        address: reservation.address,
                        state: State::Free,
                        client: None,
                        until: 0,
                        subnet: reservation.subnet,
                        is_reserved: true,
                    });
                    number
                }
            };
            leases.slots[number as usize].is_reserved = true;
            let key = (reservation.hardware.0, reservation.subnet);
            leases.reserved.insert(key, number);
        }
        // Twice as many, so that entries that were removed never make it grow.
        let room = 2 * leases.slots.len();
        leases.clients.try_reserve(room).map_err(|_| NoMemory)?;
        let nodes = leases.slots.len() + State::TIMED.len() + subnets.len();
        leases.lists = Lists::new(nodes).map_err(|_| NoMemory)?;
        for number in 0..leases.slots.len() as u32 {
            leases.put(number, State::Free);
        }
        Ok(leases)
    }

    /// The list of the slots in a state.
    fn list(&self, subnet: u16, state: State) -> u32 {
        let timed = State::TIMED.iter().position(|it| *it == state);
        let number = timed.unwrap_or(State::TIMED.len() + usize::from(subnet));
        (self.slots.len() + number) as u32
    }

    /// Puts a slot behind the others of a state.
    fn put(&mut self, number: u32, state: State) {
        self.lists.unlink(number);
        let Some(slot) = self.slots.get_mut(number as usize) else {
            return;
        };
        slot.state = state;
        // A free address that is reserved is not given away.
        if state != State::Free || !slot.is_reserved {
            let subnet = slot.subnet;
            self.lists.append(self.list(subnet, state), number);
        }
    }

    /// All slots.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    pub fn get(&self, number: u32) -> Option<&Slot> {
        self.slots.get(number as usize)
    }

    /// The slot of an address.
    pub fn slot_of(&self, address: Ipv4Addr) -> Option<u32> {
        let bits = address.to_bits();
        let mut pools = self.pools.iter();
        let pool = pools.find(|(_, first, last)| (*first..=*last).contains(&bits));
        pool.map(|(slot, first, _)| slot + (bits - first))
            .or_else(|| self.others.get(&address).copied())
    }

    /// The slot that a client has, or had last.
    pub fn of_client(&self, client: &Client) -> Option<u32> {
        let reserved = self.reserved.get(&(client.hardware.0, client.subnet));
        let known = || self.clients.get(&(client.identity, client.subnet));
        reserved.or_else(known).copied()
    }

    /// Whether a client may get a slot.
    pub fn may_have(&self, client: &Client, number: u32) -> bool {
        let Some(slot) = self.slots.get(number as usize) else {
            return false;
        };
        let reserved = self.reserved.get(&(client.hardware.0, client.subnet));
        let is_own = slot
            .client
            .as_ref()
            .is_some_and(|it| it.identity == client.identity);
        let is_vacant = slot.state == State::Free || slot.state != State::Declined && is_own;
        match reserved {
            // Its device may have told another identifier before.
            Some(own) => *own == number && slot.state != State::Declined,
            None => slot.subnet == client.subnet && !slot.is_reserved && is_vacant,
        }
    }

    /// A slot for a client: that which it has or had, the one that it asks for, or else the one that has been
    /// free for longest.
    pub fn choose(&self, client: &Client, requested: Option<Ipv4Addr>) -> Option<u32> {
        let free = self.list(client.subnet, State::Free);
        let oldest = Some(self.lists.next(free)).filter(|number| *number != free);
        let wished = requested.and_then(|address| self.slot_of(address));
        [self.of_client(client), wished, oldest]
            .into_iter()
            .flatten()
            .find(|number| self.may_have(client, *number))
    }

    /// Gives a slot to a client.
    pub fn give(&mut self, number: u32, client: Client, state: State, until: u64) {
        let key = (client.identity, client.subnet);
        // It has one address in a subnet.
        if let Some(before) = self.clients.get(&key).copied().filter(|it| *it != number) {
            self.forget(before);
            self.put(before, State::Free);
        }
        self.forget(number);
        if let Some(slot) = self.slots.get_mut(number as usize) {
            (slot.client, slot.until) = (Some(client), until);
            self.clients.insert(key, number);
            self.put(number, state);
        }
    }

    /// Forgets the client of a slot.
    fn forget(&mut self, number: u32) {
        let slot = self.slots.get_mut(number as usize);
        if let Some(client) = slot.and_then(|slot| slot.client.take()) {
            self.clients.remove(&(client.identity, client.subnet));
        }
    }

    /// Frees a slot; it remembers its client.
    pub fn free(&mut self, number: u32) {
        self.put(number, State::Free);
    }

    /// Frees a slot, and forgets its client.
    pub fn revoke(&mut self, number: u32) {
        self.forget(number);
        self.put(number, State::Free);
    }

    /// Leaves a slot unused until then.
    pub fn decline(&mut self, number: u32, until: u64) {
        self.forget(number);
        if let Some(slot) = self.slots.get_mut(number as usize) {
            slot.until = until;
        }
        self.put(number, State::Declined);
    }

    /// Frees the slots whose time is up.
    pub fn advance(&mut self, now: u64) {
        for state in State::TIMED {
            let list = self.list(0, state);
            loop {
                let number = self.lists.next(list);
                let slot = self.slots.get(number as usize);
                if number == list || slot.is_none_or(|slot| slot.until > now) {
                    break;
                }
                self.put(number, State::Free);
            }
        }
    }

    /// Takes over the leases of others, as far as their addresses are still there, for as long as they last.
    pub fn take_over(&mut self, old: &Leases) {
        for state in State::TIMED {
            let list = old.list(0, state);
            let mut at = old.lists.next(list);
            while at != list
                && let Some(slot) = old.slots.get(at as usize)
            {
                at = old.lists.next(at);
                let Some(number) = self.slot_of(slot.address) else {
                    continue;
                };
                let subnet = self
                    .slots
                    .get(number as usize)
                    .map_or(0, |slot| slot.subnet);
                match slot.client {
                    Some(client) => {
                        let client = Client { subnet, ..client };
                        if self.may_have(&client, number) {
                            self.give(number, client, slot.state, slot.until);
                        }
                    }
                    None => self.decline(number, slot.until),
                }
            }
        }
    }
}
