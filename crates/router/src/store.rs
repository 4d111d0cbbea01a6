//! The elements' interface to the control store: they put requests into a box; the program around
//! the router carries them out and passes the results to the elements.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use spin::Mutex;

use crate::prelude::*;

/// Most requests that wait; another one is refused.
pub const REQUESTS_MAX: usize = 256;

/// What an element asks of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreRequest {
    /// The value of a node.
    Read(String),
    /// To set the value of a node, which is made if it is missing.
    Write(String, Vec<u8>),
    /// To be told when a node changes, and once at first; also by another store.
    Watch(String),
}

/// What an element is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreAnswer {
    /// The value of a node that was read.
    Value(Vec<u8>),
    /// A node was written.
    Written,
    /// A node that is watched may have changed.
    Changed,
    /// Another connection has begun: perhaps with another store, or as another guest.
    Reconnected,
    /// The store refuses a request, as its error has it: `ENOENT` for a node that is missing.
    Refused(String),
}

/// A message in a box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreMail {
    /// The element with a handle asks something.
    Ask(u64, ElementId, StoreRequest),
    /// A handle is gone: nothing of it matters any more.
    Gone(u64),
}

#[derive(Default)]
struct Inner {
    mail: Mutex<VecDeque<StoreMail>>,
    next: AtomicU64,
    /// Whether there is mail, so that the program can look without a lock.
    full: AtomicBool,
    wake: Option<Box<dyn Fn() + Send + Sync>>,
}

/// The box between elements and the program. Clones are the same one.
#[derive(Clone, Default)]
pub struct StoreBox(Arc<Inner>);

impl StoreBox {
    /// A box; `wake` wakes the program that reads it.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> StoreBox {
        StoreBox(Arc::new(Inner {
            wake: Some(Box::new(wake)),
            ..Inner::default()
        }))
    }

    /// A handle for an element.
    pub fn open(&self, element: ElementId) -> StoreHandle {
        StoreHandle {
            number: self.0.next.fetch_add(1, Ordering::Relaxed) + 1,
            element,
            store: self.clone(),
        }
    }

    /// Whether anything was ever asked of the store.
    pub fn is_used(&self) -> bool {
        self.0.next.load(Ordering::Relaxed) > 0
    }

    /// Whether there is mail.
    pub fn has_mail(&self) -> bool {
        self.0.full.load(Ordering::Acquire)
    }

    /// The next mail.
    pub fn take(&self) -> Option<StoreMail> {
        let mut mail = self.0.mail.lock();
        let next = mail.pop_front();
        self.0.full.store(!mail.is_empty(), Ordering::Release);
        next
    }

    /// Refuses a request if too many wait. What a handle leaves is never refused.
    fn put(&self, new: StoreMail) -> bool {
        let mut mail = self.0.mail.lock();
        let is_request = matches!(new, StoreMail::Ask(..));
        if is_request && mail.len() >= REQUESTS_MAX {
            return false;
        }
        mail.push_back(new);
        self.0.full.store(true, Ordering::Release);
        drop(mail);
        if let Some(wake) = &self.0.wake {
            wake();
        }
        true
    }
}

/// An element's way to the store. It leaves when it is dropped.
pub struct StoreHandle {
    number: u64,
    element: ElementId,
    store: StoreBox,
}

impl StoreHandle {
    /// By what its answers are known.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Asks something; an error if too much is asked already.
    pub fn ask(&self, request: StoreRequest) -> Result<(), &'static str> {
        let mail = StoreMail::Ask(self.number, self.element, request);
        match self.store.put(mail) {
            true => Ok(()),
            false => Err("too many requests wait for the control store"),
        }
    }
}

impl Drop for StoreHandle {
    fn drop(&mut self) {
        self.store.put(StoreMail::Gone(self.number));
    }
}
