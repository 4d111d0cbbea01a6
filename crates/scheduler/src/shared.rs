//! One inventory, and threads that place guests at once.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::error::{Error, Result};
use crate::facts::Guest;
use crate::inventory::Inventory;
use crate::policy::Concurrency;
use crate::scheduler::{Decision, Scheduler};
use crate::unit::Occasion;

/// How often a decision is made again because the host changed, before it is made with all others waiting.
const TRIES: usize = 8;

/// An inventory that threads share, and the scheduler that decides on it.
pub struct Shared {
    inventory: RwLock<Inventory>,
    scheduler: Scheduler,
    waiting: AtomicU32,
}

impl Shared {
    /// Shares an inventory.
    pub fn new(mut inventory: Inventory, scheduler: Scheduler) -> Shared {
        scheduler.watch(&mut inventory);
        Shared {
            inventory: RwLock::new(inventory),
            scheduler,
            waiting: AtomicU32::new(0),
        }
    }

    /// The scheduler.
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// The inventory, to read.
    pub fn read(&self) -> RwLockReadGuard<'_, Inventory> {
        self.inventory
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The inventory, to change.
    pub fn write(&self) -> RwLockWriteGuard<'_, Inventory> {
        self.inventory
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Places a guest, as the policy's concurrency says.
    pub fn place(&self, name: &str, guest: &Arc<Guest>, occasion: Occasion) -> Result<Decision> {
        let policy = self.scheduler.policy();
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let weigh = policy.skip_weights.weighs(before);
        let placed = match policy.concurrency {
            Concurrency::OneAtATime => self.place_alone(name, guest, occasion, weigh),
            Concurrency::Parallel => self.place_beside(name, guest, occasion, weigh),
        };
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        placed
    }

    fn place_alone(
        &self,
        name: &str,
        guest: &Arc<Guest>,
        occasion: Occasion,
        weigh: bool,
    ) -> Result<Decision> {
        let mut inventory = self.write();
        let decision = self
            .scheduler
            .decide(&inventory, name, guest, occasion, weigh)?;
        self.scheduler.commit(&mut inventory, &decision.placement)?;
        Ok(decision)
    }

    fn place_beside(
        &self,
        name: &str,
        guest: &Arc<Guest>,
        occasion: Occasion,
        weigh: bool,
    ) -> Result<Decision> {
        for _ in 0..TRIES {
            let decision = self
                .scheduler
                .decide(&self.read(), name, guest, occasion, weigh)?;
            match self
                .scheduler
                .commit(&mut self.write(), &decision.placement)
            {
                Ok(()) => return Ok(decision),
                Err(Error::Stale { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.place_alone(name, guest, occasion, weigh)
    }
}
