//! Guests' wakers: the eventfds by which they wake the control store.
//!
//! [`SHARING`] guests share one, so that neither the store nor the node has a descriptor for each guest. When a guest
//! rings, the store looks at the rings of all guests that share the eventfd. A guest that fills the eventfd does not
//! silence the others: the store empties it, and looks at all of their rings.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use super::doorbells::{eventfd, number};
use crate::error::Result;

/// Guests that share a waker.
pub const SHARING: usize = 64;

/// A guest's waker.
#[derive(Clone)]
pub(super) struct Waker {
    file: Rc<OwnedFd>,
    /// The number that the kernel gives it.
    pub(super) number: u64,
}

impl Waker {
    /// The waker of a running guest.
    pub(super) fn of_a_guest(file: OwnedFd) -> Option<Waker> {
        let (number, file) = (number(&file)?, Rc::new(file));
        Some(Waker { file, number })
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Assigns wakers to guests.
#[derive(Default)]
pub(super) struct Wakers {
    /// The one that the next guests get, and how many of them.
    next: Option<(Waker, usize)>,
}

impl Wakers {
    /// A waker for a guest; none on a kernel that does not number eventfds.
    pub(super) fn next(&mut self) -> Result<Option<Waker>> {
        if let Some((waker, left)) = &mut self.next
            && *left > 0
        {
            *left -= 1;
            return Ok(Some(waker.clone()));
        }
        let waker = Waker::of_a_guest(eventfd()?);
        self.next = waker.clone().map(|waker| (waker, SHARING - 1));
        Ok(waker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_share_wakers() {
        let mut wakers = Wakers::default();
        let mut next = || wakers.next().unwrap().unwrap().number;
        let numbers: Vec<u64> = (0..2 * SHARING).map(|_| next()).collect();
        assert!(numbers[..SHARING].iter().all(|it| *it == numbers[0]));
        assert!(numbers[SHARING..].iter().all(|it| *it == numbers[SHARING]));
        assert_ne!(numbers[0], numbers[SHARING]);
    }
}
