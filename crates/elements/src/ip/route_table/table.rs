//! A table of routes.

use hashbrown::HashMap;
use simd::{BLOCK, Kernel, Level, Simd};

use router::memory::RESERVE;

use super::Route;
use super::hops::{Hop, HopId, Hops};
use super::ranges::{Prefix, Prefixes, Ranges};
use super::slots::{Order, Slots};
use crate::prelude::*;

/// Most bytes that the map of prefixes takes for each of them.
const NODE: usize = 48;

/// Why a table did not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The prefix has this route.
    Exists(Route),
    /// There is no such route.
    Missing,
    /// There is no memory for the route.
    NoMemory,
}

/// Routes, found by the longest prefix that an address is in.
///
/// Masks that are no prefixes are taken too: while there are any, look-ups go through all routes
/// in order, as Click's LinearIPLookup does.
pub struct RouteTable {
    order: Order,
    slots: Slots<Route>,
    /// Where each route is.
    index: HashMap<(u32, u32), u32>,
    prefixes: Prefixes,
    /// Routes whose masks are no prefixes.
    odd: usize,
    hops: Hops,
    ranges: Ranges,
}

fn key(route: &Route) -> (u32, u32) {
    let prefix = route.prefix;
    (prefix.address.to_bits(), prefix.mask.to_bits())
}

fn hop(route: &Route) -> Hop {
    Hop {
        gateway: route.gateway,
        port: route.port.unwrap_or(Hop::NOWHERE.port),
    }
}

/// Where the packets of a batch go.
pub struct Found {
    /// Outputs.
    pub ports: [u32; BATCH],
    /// Gateways, as they are in memory; 0 where there is none.
    pub gateways: [u32; BATCH],
    /// Whether there is one.
    pub any_gateway: bool,
}

impl Found {
    /// Nothing yet.
    pub const NOTHING: Found = Found {
        ports: [Hop::NOWHERE.port; BATCH],
        gateways: [0; BATCH],
        any_gateway: false,
    };
}

/// Finds out where the packets with the first `count` addresses go.
struct FindAll<'t> {
    table: &'t RouteTable,
    addresses: &'t [u32; BATCH],
    count: usize,
    found: &'t mut Found,
}

impl Kernel for FindAll<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let FindAll { table, count, .. } = self;
        let Found {
            ports, gateways, ..
        } = self.found;
        let mut hops = [0; BATCH];
        table
            .ranges
            .find_all(simd, self.addresses, count, &mut hops);
        table
            .hops
            .get_all(simd, &hops, count.div_ceil(BLOCK), ports, gateways);
        let gateways = gateways.iter().take(count);
        self.found.any_gateway = gateways.fold(0, |all, gateway| all | gateway) != 0;
    }
}

impl RouteTable {
    /// A table without routes, which shows them in `order`.
    pub fn new(order: Order) -> RouteTable {
        RouteTable {
            order,
            slots: Slots::new(order),
            index: HashMap::new(),
            prefixes: Prefixes::new(),
            odd: 0,
            hops: Hops::new(),
            ranges: Ranges::default(),
        }
    }

    /// Removes all routes.
    pub fn clear(&mut self) {
        *self = RouteTable::new(self.order);
    }

    /// Number of routes.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there are no routes.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// The routes, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Route> {
        self.slots.iter()
    }

    /// Adds a route. If its prefix has one already, that is replaced and returned with `set`,
    /// and in the way without.
    pub fn add(&mut self, route: Route, set: bool) -> Result<Option<Route>, Refused> {
        let old = self.index.get(&key(&route)).copied();
        if let Some(slot) = old {
            let old = self.slots.get(slot).copied();
            if let (Some(old), false) = (old, set) {
                return Err(Refused::Exists(old));
            }
            if !self.reserve(1) {
                return Err(Refused::NoMemory);
            }
            self.point(&route)?;
            let slot = self.slots.replace(slot, route);
            self.index.insert(key(&route), slot);
            return Ok(old);
        }
        if !self.reserve(1) {
            return Err(Refused::NoMemory);
        }
        self.point(&route)?;
        self.keep(route);
        Ok(None)
    }

    /// Makes sure that there is memory for so many more routes; the maps' nodes come from the reserve.
    fn reserve(&mut self, count: usize) -> bool {
        self.slots.reserve(count)
            && self.hops.reserve()
            && self.index.try_reserve(count).is_ok()
            && spare(RESERVE)
    }

    /// Takes in a route for a prefix that has none.
    fn keep(&mut self, route: Route) {
        self.odd += route.prefix.length().is_none() as usize;
        let slot = self.slots.insert(route);
        self.index.insert(key(&route), slot);
    }

    /// Fills an empty table with routes, as [`add`](Self::add) does one by one, in a fraction of the
    /// time. `refused` learns of routes that were not added.
    pub fn fill(&mut self, routes: Vec<Route>, mut refused: impl FnMut(Refused, &Route)) {
        let mut prefixes = Vec::new();
        let (Some(last), count) = (routes.last(), routes.len()) else {
            return;
        };
        if !self.reserve(count) || prefixes.try_reserve(count).is_err() {
            return refused(Refused::NoMemory, last);
        }
        for route in &routes {
            if let Some(old) = self.index.get(&key(route)) {
                if let Some(old) = self.slots.get(*old) {
                    refused(Refused::Exists(*old), route);
                }
                continue;
            }
            if !self.hops.reserve() {
                refused(Refused::NoMemory, route);
                continue;
            }
            match route.prefix.length() {
                None => {}
                Some(0) => self.hops.set_default(hop(route)),
                Some(length) => {
                    let prefix = (route.prefix.address.to_bits(), length);
                    prefixes.push((prefix, self.hops.acquire(hop(route))));
                }
            }
            self.keep(*route);
        }
        let nodes = NODE * prefixes.len();
        let has_room = spare(nodes + RESERVE);
        if has_room {
            self.prefixes = prefixes.into_iter().collect();
        }
        if !has_room || !self.ranges.rebuild(&self.prefixes) {
            self.clear();
            refused(Refused::NoMemory, last);
        }
    }

    /// Removes the route that `route` means; returns it.
    pub fn remove(&mut self, route: &Route) -> Result<Route, Refused> {
        let slot = *self.index.get(&key(route)).ok_or(Refused::Missing)?;
        let old = self.slots.get(slot).copied();
        let old = old.filter(|old| route.means(old)).ok_or(Refused::Missing)?;
        self.index.remove(&key(route));
        self.slots.remove(slot);
        match old.prefix.length() {
            None => self.odd -= 1,
            Some(0) => self.hops.set_default(Hop::NOWHERE),
            Some(length) => {
                let prefix = (old.prefix.address.to_bits(), length);
                if let Some(hop) = self.prefixes.remove(&prefix) {
                    self.hops.release(hop);
                }
                // Should memory be short, addresses of the bucket have no route, rather than a
                // wrong one.
                let _ = self.ranges.update(&self.prefixes, prefix);
            }
        }
        Ok(old)
    }

    /// Lets look-ups find the hop of `route`.
    fn point(&mut self, route: &Route) -> Result<(), Refused> {
        match route.prefix.length() {
            None => {}
            Some(0) => self.hops.set_default(hop(route)),
            Some(length) => {
                let prefix = (route.prefix.address.to_bits(), length);
                let new = self.hops.acquire(hop(route));
                let old = self.prefixes.insert(prefix, new);
                if !self.ranges.update(&self.prefixes, prefix) {
                    self.take_back(prefix, old, new);
                    return Err(Refused::NoMemory);
                }
                if let Some(old) = old {
                    self.hops.release(old);
                }
            }
        }
        Ok(())
    }

    /// Undoes what [`point`](Self::point) did before memory ran short. There is room for what
    /// was there before.
    fn take_back(&mut self, prefix: Prefix, old: Option<HopId>, new: HopId) {
        match old {
            Some(old) => self.prefixes.insert(prefix, old),
            None => self.prefixes.remove(&prefix),
        };
        self.hops.release(new);
        let _ = self.ranges.update(&self.prefixes, prefix);
    }

    /// Where packets for `address` go.
    #[inline]
    pub fn find(&self, address: u32) -> Hop {
        if self.odd > 0 {
            return self.scan(address);
        }
        self.hops.get(self.ranges.find(address))
    }

    /// Finds out where packets for the first `count` of some addresses go. What is found for the
    /// others is not said.
    #[inline]
    pub fn find_all(&self, addresses: &[u32; BATCH], count: usize, found: &mut Found) {
        if self.odd > 0 {
            for (i, address) in addresses.iter().enumerate().take(count) {
                let hop = self.scan(*address);
                found.ports[i] = hop.port;
                found.gateways[i] = u32::from_ne_bytes(hop.gateway.octets());
                found.any_gateway |= !hop.gateway.is_unspecified();
            }
            return;
        }
        let kernel = FindAll {
            table: self,
            addresses,
            count: count.min(BATCH),
            found,
        };
        simd::run(Level::detected(), kernel);
    }

    /// The first route that the address is in, unless a later one is more specific.
    #[cold]
    fn scan(&self, address: u32) -> Hop {
        let mut found: Option<&Route> = None;
        for route in self.slots.iter() {
            let (_, mask) = key(route);
            let more_specific = found.is_none_or(|found| {
                let (_, other) = key(found);
                mask & other == other
            });
            if more_specific && route.prefix.contains(address.into()) {
                found = Some(route);
            }
        }
        found.map_or(Hop::NOWHERE, hop)
    }

    /// Bytes that look-ups may touch.
    pub fn memory(&self) -> usize {
        self.ranges.memory() + self.hops.memory()
    }
}
