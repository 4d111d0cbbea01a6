//! Memory, processors, guests.

use super::Filter;
use crate::facts;
use crate::inventory::{HostSet, Inventory, Millis};
use crate::unit::{Answer, Request};

/// What of a capacity may be booked.
fn limit(capacity: u64, percent: u64) -> u64 {
    // Exact, and no multiplication of large numbers: capacities are below 2^50, percents below 2^17.
    match percent {
        100 => capacity,
        _ => capacity / 100 * percent + capacity % 100 * percent / 100,
    }
}

pub(super) struct Memory {
    pub(super) percent: u64,
}

impl Filter for Memory {
    fn filter(&self, inventory: &Inventory, request: &Request<'_>, may: &mut HostSet) -> Answer {
        let (memory, needed) = (&inventory.hosts.memory, request.guest.memory.0);
        match self.percent {
            100 => may.retain(&memory.capacity, &memory.booked, |capacity, booked| {
                booked + needed <= capacity
            }),
            percent => may.retain(&memory.capacity, &memory.booked, |capacity, booked| {
                booked + needed <= limit(capacity, percent)
            }),
        }
        Ok(())
    }

    fn reason(&self, inventory: &Inventory, request: &Request<'_>, slot: usize) -> String {
        let memory = &inventory.hosts.memory;
        let left = limit(memory.capacity[slot], self.percent).saturating_sub(memory.booked[slot]);
        format!(
            "has {} of memory left of {}; the guest needs {}",
            facts::Memory(left),
            facts::Memory(memory.capacity[slot]),
            request.guest.memory
        )
    }
}

pub(super) struct Processor {
    pub(super) percent: u64,
}

impl Filter for Processor {
    fn filter(&self, inventory: &Inventory, request: &Request<'_>, may: &mut HostSet) -> Answer {
        let (processors, needed) = (&inventory.hosts.processors, request.guest.processors.0);
        let (vcpus, percent) = (u64::from(request.guest.vcpus) * 1000, self.percent);
        match percent {
            100 => may.retain(
                &processors.capacity,
                &processors.booked,
                |capacity, booked| (booked + needed <= capacity) & (vcpus <= capacity),
            ),
            percent => may.retain(
                &processors.capacity,
                &processors.booked,
                |capacity, booked| {
                    (booked + needed <= limit(capacity, percent)) & (vcpus <= capacity)
                },
            ),
        }
        Ok(())
    }

    fn reason(&self, inventory: &Inventory, request: &Request<'_>, slot: usize) -> String {
        let processors = &inventory.hosts.processors;
        let capacity = processors.capacity[slot];
        let vcpus = request.guest.vcpus;
        if u64::from(vcpus) * 1000 > capacity {
            let has = facts::Processors(capacity);
            return format!("has {has} processors; the guest has {vcpus}");
        }
        let left = limit(capacity, self.percent).saturating_sub(processors.booked[slot]);
        format!(
            "has {} processors left of {}; {} are to be reserved for the guest",
            facts::Processors(left),
            facts::Processors(capacity),
            request.guest.processors
        )
    }
}

pub(super) struct Overload {
    pub(super) high: u64,
    pub(super) minutes: u64,
}

impl Filter for Overload {
    fn filter(&self, inventory: &Inventory, _: &Request<'_>, may: &mut HostSet) -> Answer {
        let hosts = &inventory.hosts;
        let longest = Millis(self.minutes * 60_000);
        let long: HostSet = may
            .iter()
            .filter(|slot| hosts.over_for(*slot).is_some_and(|time| time >= longest))
            .collect();
        may.subtract(&long);
        Ok(())
    }

    fn reason(&self, inventory: &Inventory, _: &Request<'_>, slot: usize) -> String {
        let hosts = &inventory.hosts;
        format!(
            "has {} % of its processors used, above {} % for {} minutes or more",
            hosts.use_of(slot) / 10,
            self.high,
            self.minutes
        )
    }
}

pub(super) struct MaximumGuests {
    pub(super) most: u32,
}

impl Filter for MaximumGuests {
    fn filter(&self, inventory: &Inventory, _: &Request<'_>, may: &mut HostSet) -> Answer {
        let (hosts, most) = (&inventory.hosts, self.most);
        may.retain(&hosts.count, &hosts.max_guests, |count, own| {
            count < most.min(own)
        });
        Ok(())
    }

    fn reason(&self, inventory: &Inventory, _: &Request<'_>, slot: usize) -> String {
        let hosts = &inventory.hosts;
        let most = self.most.min(hosts.max_guests[slot]);
        format!("has {} guests, and may have {most}", hosts.count[slot])
    }
}
