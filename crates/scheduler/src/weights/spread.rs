//! Even distribution and power saving.

use super::Weight;
use crate::inventory::{HostSet, Inventory};
use crate::unit::{Answer, Request};

/// Shares of capacity that are used with the guest there; negative where fuller hosts come first.
fn shares(scores: &mut [f64], used: &[u64], capacity: &[u64], more: u64, fullest: bool) {
    let sign = if fullest { -1.0 } else { 1.0 };
    for (score, (used, capacity)) in scores.iter_mut().zip(used.iter().zip(capacity)) {
        *score = sign * (used + more) as f64 / capacity.max(&1).to_owned() as f64;
    }
}

pub(super) struct Processor;

impl Weight for Processor {
    fn score(
        &self,
        inventory: &Inventory,
        request: &Request<'_>,
        _: &HostSet,
        scores: &mut [f64],
    ) -> Answer {
        let hosts = &inventory.hosts;
        let (capacity, more) = (&hosts.processors.capacity, request.guest.used().0);
        shares(scores, &hosts.load, capacity, more, false);
        Ok(())
    }
}

pub(super) struct FullestProcessor {
    pub(super) high: u64,
}

impl Weight for FullestProcessor {
    fn score(
        &self,
        inventory: &Inventory,
        request: &Request<'_>,
        _: &HostSet,
        scores: &mut [f64],
    ) -> Answer {
        let hosts = &inventory.hosts;
        let (capacity, more) = (&hosts.processors.capacity, request.guest.used().0);
        shares(scores, &hosts.load, capacity, more, true);
        let high = self.high as f64 / 100.0;
        for score in scores.iter_mut().filter(|score| -**score > high) {
            *score = -*score;
        }
        Ok(())
    }
}

pub(super) struct Memory {
    pub(super) fullest: bool,
}

impl Weight for Memory {
    fn score(
        &self,
        inventory: &Inventory,
        request: &Request<'_>,
        _: &HostSet,
        scores: &mut [f64],
    ) -> Answer {
        let (memory, more) = (&inventory.hosts.memory, request.guest.memory.0);
        shares(scores, &memory.booked, &memory.capacity, more, self.fullest);
        Ok(())
    }
}

pub(super) struct Guests;

impl Weight for Guests {
    fn score(
        &self,
        inventory: &Inventory,
        _: &Request<'_>,
        _: &HostSet,
        scores: &mut [f64],
    ) -> Answer {
        let hosts = &inventory.hosts;
        let counts = hosts.count.iter().zip(&hosts.leaving);
        for (score, (count, leaving)) in scores.iter_mut().zip(counts) {
            *score = f64::from(count - leaving);
        }
        Ok(())
    }
}
