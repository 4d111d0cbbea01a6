//! Guests' doorbells: eventfds by which guests wake the lanes that serve their queues.
//!
//! Guests may share a doorbell, so a switch can have more guests than descriptors. A shared doorbell wakes the queues
//! that have frames; it costs a look at each of the other queues.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};

use hashbrown::HashMap;

/// A doorbell.
pub(crate) struct Doorbell {
    /// Its number among the doorbells of the switch.
    pub number: u32,
    file: OwnedFd,
}

impl Doorbell {
    /// A doorbell with a number of its own.
    pub fn new(number: u32, file: OwnedFd) -> Doorbell {
        Doorbell { number, file }
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The doorbells of a switch, each as long as it has a queue.
#[derive(Default)]
pub(crate) struct Doorbells {
    next: u32,
    /// The shared ones, by what their guests' host calls them.
    shared: HashMap<u64, Weak<Doorbell>>,
}

impl Doorbells {
    /// A guest's doorbell. If it is `shared`, that is the one of the first guest that came with this name, and the
    /// file, which is another descriptor of the same eventfd, is closed.
    pub fn doorbell(&mut self, file: OwnedFd, shared: Option<u64>) -> Arc<Doorbell> {
        let found = shared.and_then(|name| self.shared.get(&name)?.upgrade());
        if let Some(doorbell) = found {
            return doorbell;
        }
        let doorbell = Arc::new(Doorbell::new(self.next, file));
        self.next = self.next.wrapping_add(1);
        if let Some(name) = shared {
            if self.shared.len() == self.shared.capacity() {
                self.shared
                    .retain(|_, doorbell| doorbell.strong_count() > 0);
            }
            self.shared.insert(name, Arc::downgrade(&doorbell));
        }
        doorbell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> OwnedFd {
        let flags = rustix::event::EventfdFlags::CLOEXEC;
        rustix::event::eventfd(0, flags).unwrap()
    }

    #[test]
    fn a_shared_doorbell_is_one_as_long_as_it_is_used() {
        let mut doorbells = Doorbells::default();
        let one = doorbells.doorbell(file(), Some(7));
        let same = doorbells.doorbell(file(), Some(7));
        assert!(Arc::ptr_eq(&one, &same));
        let numbers = [Some(8), None, None].map(|name| doorbells.doorbell(file(), name).number);
        assert_eq!(numbers, [1, 2, 3]);
        drop((one, same));
        assert_eq!(doorbells.doorbell(file(), Some(7)).number, 4);
        // Names of doorbells that are gone are forgotten.
        for name in 0..10_000 {
            doorbells.doorbell(file(), Some(name));
        }
        assert!(doorbells.shared.len() < 100, "{}", doorbells.shared.len());
    }
}
