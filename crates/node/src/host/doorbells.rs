//! Guests' doorbells: the eventfds by which they wake the switch.
//!
//! The switch has a descriptor for each doorbell. As long as it has descriptors to spare, each guest has a doorbell of
//! its own. Beyond that, [`SHARING`] guests share one: a frame of a guest whose queue sleeps then costs the switch a look
//! at the others' queues. Guests behind the process wall share none: they write to the eventfd by themselves, and one
//! could fill it, so that the others' writes fail.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use rustix::event::{self, EventfdFlags};
use rustix::process::{Resource, getrlimit};
use vmm::Wall;

use crate::error::{Error, Result};

/// Guests that share a doorbell.
pub const SHARING: usize = 4;

/// A guest's doorbell.
#[derive(Clone)]
pub(super) struct Doorbell {
    file: Rc<OwnedFd>,
    /// The switch's number for it, if other guests share it.
    pub(super) shared: Option<u64>,
}

impl Doorbell {
    fn new() -> Result<Doorbell> {
        let (file, shared) = (Rc::new(eventfd()?), None);
        Ok(Doorbell { file, shared })
    }

    /// The doorbell of a guest that runs, of whose others it is not known whether they have the same.
    pub(super) fn of_a_guest(file: OwnedFd) -> Doorbell {
        let (shared, file) = (number(&file), Rc::new(file));
        Doorbell { file, shared }
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Gives guests their doorbells.
#[derive(Default)]
pub(super) struct Doorbells {
    /// The one that the next guests get, and how many of them.
    shared: Option<(Doorbell, usize)>,
}

impl Doorbells {
    /// A doorbell for a guest, beside which there are so many others.
    pub(super) fn next(&mut self, wall: Wall, others: usize) -> Result<Doorbell> {
        // The switch has as many descriptors, and needs some for links.
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        if wall == Wall::Process || (others as u64) < descriptors / 4 {
            return Doorbell::new();
        }
        if let Some((doorbell, left)) = &mut self.shared
            && *left > 0
        {
            *left -= 1;
            return Ok(doorbell.clone());
        }
        let mut doorbell = Doorbell::new()?;
        doorbell.shared = number(&doorbell.file);
        let kept = doorbell.shared.map(|_| (doorbell.clone(), SHARING - 1));
        self.shared = kept;
        Ok(doorbell)
    }
}

/// An eventfd, which wakes a thread or a process.
pub(super) fn eventfd() -> Result<OwnedFd> {
    let file = event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
    file.map_err(|error| Error::failed(format_args!("cannot make a doorbell: {error}")))
}

/// The number that the kernel gives an eventfd as long as it is open (proc_pid_fdinfo(5)).
pub(super) fn number(file: &OwnedFd) -> Option<u64> {
    let told = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
    let number = told
        .lines()
        .find_map(|line| line.strip_prefix("eventfd-id:"));
    number?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_guests_share_doorbells_and_few_do_not() {
        let mut doorbells = Doorbells::default();
        let mut shared = |wall, others| doorbells.next(wall, others).unwrap().shared;
        assert_eq!(shared(Wall::Vm, 10), None);
        let many = 1 << 30;
        assert_eq!(shared(Wall::Process, many), None);
        let names: Vec<_> = (0..2 * SHARING)
            .map(|_| shared(Wall::Vm, many).unwrap())
            .collect();
        assert!(names[..SHARING].iter().all(|name| *name == names[0]));
        assert!(names[SHARING..].iter().all(|name| *name == names[SHARING]));
        assert_ne!(names[0], names[SHARING]);
    }

    #[test]
    fn a_doorbell_is_known_again_by_another_descriptor() {
        let own = Doorbell::new().unwrap();
        let again = own.file.try_clone().unwrap();
        let name = number(&own.file).unwrap();
        assert_eq!(Doorbell::of_a_guest(again).shared, Some(name));
        assert_ne!(number(&Doorbell::new().unwrap().file), Some(name));
    }
}
