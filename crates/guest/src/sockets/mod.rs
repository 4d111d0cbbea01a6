//! The guest as a tenant of a network stack: its sockets, as devices of its router.
//!
//! The guest has one queue set of its tenant and the tenant's payload ([`abi::tenant`]), which its CPUs share
//! behind a lock: the lock is taken for a batch. What is received is copied from a chunk to packets, what is sent from
//! packets to a chunk. CoreEngine and the NSM are trusted as a program trusts its kernel; still nothing that they
//! write makes the guest leave its memory.

mod device;
mod queues;
mod tenant;

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt::{self, Write};

use abi::tenant::{PayloadFile, QueueFile};
use router::{Device, Endpoint};
use spin::Mutex;

use crate::Platform;
use device::SocketDevice;
use tenant::Tenant;

/// What a tenant needs of the guest around it.
pub(crate) trait Surroundings: Send {
    /// Wakes CoreEngine, which sleeps on a ring that changed.
    fn ring(&self);

    /// The steady clock, in nanoseconds.
    fn now(&self) -> u64;

    /// Prints a line for the user.
    fn report(&self, line: fmt::Arguments<'_>);
}

impl Surroundings for &'static Platform {
    fn ring(&self) {
        self.ring_sockets();
    }

    fn now(&self) -> u64 {
        self.clock().now()
    }

    fn report(&self, line: fmt::Arguments<'_>) {
        let _ = writeln!(self.console(), "{line}");
    }
}

/// The guest's sockets.
#[derive(Clone)]
pub(crate) struct Sockets(Arc<Mutex<Tenant>>);

impl Sockets {
    /// Those of a guest that was given memory for them.
    ///
    /// # Safety
    /// They are opened once.
    pub(crate) unsafe fn of(platform: &'static Platform) -> Option<Sockets> {
        let (queues, payload) = platform.sockets()?;
        // SAFETY: the caller's promise.
        unsafe { Sockets::open(queues, payload, Box::new(platform)) }
    }

    /// # Safety
    /// Nothing else in the guest uses the process's sides of queue set 0.
    unsafe fn open(
        queues: QueueFile,
        payload: PayloadFile,
        surroundings: Box<dyn Surroundings>,
    ) -> Option<Sockets> {
        // SAFETY: the caller's promise.
        let tenant = queues
            .valid()
            .then(|| unsafe { Tenant::open(queues, payload, surroundings) });
        Some(Sockets(Arc::new(Mutex::new(tenant?))))
    }

    /// A device for a socket.
    pub(crate) fn device(&self, endpoint: &Endpoint) -> Box<dyn Device> {
        let port = self.0.lock().add_port(*endpoint);
        Box::new(SocketDevice::new(Arc::clone(&self.0), port))
    }
}

#[cfg(test)]
mod tests;
