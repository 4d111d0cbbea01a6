//! Which guests' processes ended, without a descriptor for each ([`vmm::Ends`]).

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use vmm::{Control, Watch};

use super::Host;
use crate::error::Result;

/// Guests looked at in one call.
const AT_ONCE: usize = 64;
/// The pause between two looks at guests that are about to end.
const PAUSE: Duration = Duration::from_millis(1);

/// Reports of guests' ends.
pub(super) struct Ends {
    ends: vmm::Ends,
    guests: HashMap<Watch, u64>,
    /// Guests that may have ended, or are about to.
    suspects: VecDeque<u64>,
    /// When those are looked at that were about to end at the last look.
    next: Option<Instant>,
}

impl Ends {
    /// Of no guests.
    pub fn new() -> Result<Ends> {
        Ok(Ends {
            ends: vmm::Ends::new()?,
            guests: HashMap::new(),
            suspects: VecDeque::new(),
            next: None,
        })
    }

    /// Watches a guest by its control region.
    pub fn watch(&mut self, id: u64, control: &Control) -> Result<Watch> {
        let watch = self.ends.watch(control)?;
        self.guests.insert(watch, id);
        Ok(watch)
    }

    /// Adds a guest to check that may have ended before it was watched.
    pub fn suspect(&mut self, id: u64) {
        self.suspects.push_back(id);
        self.next = Some(Instant::now());
    }

    /// Watches a guest no more.
    pub fn forget(&mut self, watch: Watch) {
        self.guests.remove(&watch);
        self.ends.forget(watch);
    }

    /// Takes what the kernel has told. Without any suspects, so that they stay few.
    fn take(&mut self) {
        if !self.suspects.is_empty() {
            return;
        }
        match self.ends.take() {
            Ok(Some(told)) => {
                let guests = told.iter().filter_map(|watch| self.guests.get(watch));
                self.suspects.extend(guests);
            }
            // The kernel dropped some of its reports.
            Ok(None) | Err(_) => self.suspects.extend(self.guests.values()),
        }
    }
}

impl AsFd for Ends {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ends.as_fd()
    }
}

impl Host {
    /// Guests whose processes ended since the last call; some of them.
    pub(super) fn ended_guests(&mut self) -> Vec<u64> {
        self.ends.take();
        let mut ended = Vec::new();
        for _ in 0..self.ends.suspects.len().min(AT_ONCE) {
            let Some(id) = self.ends.suspects.pop_front() else {
                break;
            };
            let running = self.guests.get_mut(&id);
            let Some(running) = running.or_else(|| self.ending.guest(id)) else {
                continue;
            };
            match running.guest.try_wait(&running.control) {
                Ok(None) if running.guest.is_ending() => self.ends.suspects.push_back(id),
                // Another process closed the file.
                Ok(None) => {}
                // A process that cannot be waited for counts as ended.
                Ok(Some(_)) | Err(_) => ended.push(id),
            }
        }
        let left = !self.ends.suspects.is_empty();
        self.ends.next = left.then(|| Instant::now() + PAUSE);
        ended
    }

    /// When guests are looked at that are about to end, if there are any.
    pub fn next_end(&self) -> Option<Instant> {
        self.ends.next
    }
}
