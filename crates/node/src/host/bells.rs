//! Guests' bells: the eventfds by which they wake the control store.
//!
//! [`SHARING`] guests share one, so that neither the store nor the node has a descriptor for each guest. When a guest
//! rings, the store looks at the rings of all guests that share the eventfd. A guest that fills the eventfd does not
//! silence the others: the store empties it, and looks at all of their rings.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use super::doorbells::{eventfd, number};
use crate::error::Result;

/// Guests that share a bell.
pub const SHARING: usize = 64;

/// A guest's bell.
#[derive(Clone)]
pub(super) struct Bell {
    file: Rc<OwnedFd>,
    /// The number that the kernel gives it.
    pub(super) number: u64,
}

impl Bell {
    /// The bell that a guest has which runs.
    pub(super) fn of_a_guest(file: OwnedFd) -> Option<Bell> {
        let (number, file) = (number(&file)?, Rc::new(file));
        Some(Bell { file, number })
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Gives guests their bells.
#[derive(Default)]
pub(super) struct Bells {
    /// The one that the next guests get, and how many of them.
    next: Option<(Bell, usize)>,
}

impl Bells {
    /// A bell for a guest; none on a kernel that does not number eventfds.
    pub(super) fn next(&mut self) -> Result<Option<Bell>> {
        if let Some((bell, left)) = &mut self.next
            && *left > 0
        {
            *left -= 1;
            return Ok(Some(bell.clone()));
        }
        let bell = Bell::of_a_guest(eventfd()?);
        self.next = bell.clone().map(|bell| (bell, SHARING - 1));
        Ok(bell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_share_bells() {
        let mut bells = Bells::default();
        let mut next = || bells.next().unwrap().unwrap().number;
        let numbers: Vec<u64> = (0..2 * SHARING).map(|_| next()).collect();
        assert!(numbers[..SHARING].iter().all(|it| *it == numbers[0]));
        assert!(numbers[SHARING..].iter().all(|it| *it == numbers[SHARING]));
        assert_ne!(numbers[0], numbers[SHARING]);
    }
}
