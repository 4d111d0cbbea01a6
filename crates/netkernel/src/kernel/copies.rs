//! Listening sockets of a kernel NSM that has several workers.
//!
//! For each socket of a tenant's that listens, the kernel has one more for each other worker, at the same address
//! (SO_REUSEPORT), and gives each connection to one of them. The worker whose socket it is makes the others, and does to
//! them what the tenant does to its socket. SO_REUSEPORT is set after the socket is bound: another socket of the address
//! is refused as ever.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, sockopt};

use super::requests::local_address;
use super::socket::Socket;

/// A worker, and its number of a socket.
pub(super) type Of = (u8, u32);

/// The copies of listening sockets.
pub(super) struct Copies {
    workers: u8,
    all: Mutex<HashMap<Of, Vec<OwnedFd>>>,
}

impl Copies {
    /// In an NSM of so many workers.
    pub fn of(workers: u8) -> Copies {
        Copies {
            workers,
            all: Mutex::default(),
        }
    }

    /// Whether listening sockets have copies.
    pub fn are_made(&self) -> bool {
        self.workers > 1
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Of, Vec<OwnedFd>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the copies of a socket that listens, unless they are there. What cannot be made is done without.
    pub fn make(&self, of: Of, socket: &Socket, backlog: i32) {
        if self.are_made() && !self.all().contains_key(&of) {
            let copies = (1..self.workers).map_while(|_| copy(socket, backlog).ok());
            let copies = copies.collect();
            self.all().insert(of, copies);
        }
    }

    /// Does something with each copy of a socket. What fails is not told: it was done with the socket itself.
    pub fn each(&self, of: Of, mut done: impl FnMut(&OwnedFd) -> Result<(), Errno>) {
        if self.are_made()
            && let Some(copies) = self.all().get(&of)
        {
            for copy in copies {
                let _ = done(copy);
            }
        }
    }

    /// A worker's copy of a socket.
    pub fn copy_for(&self, worker: u8, of: Of) -> Option<OwnedFd> {
        let at = worker - u8::from(worker > of.0);
        let all = self.all();
        let copy = all.get(&of)?.get(usize::from(at))?;
        let own = copy.try_clone();
        if own.is_err() {
            // The others take its connections.
            let _ = rustix::net::shutdown(copy, Shutdown::Read);
        }
        own.ok()
    }

    /// Closes the copies of a socket.
    pub fn remove(&self, of: Of) {
        if self.are_made() {
            self.all().remove(&of);
        }
    }
}

/// A socket that listens where `socket` does, with the same options.
fn copy(socket: &Socket, backlog: i32) -> Result<OwnedFd, Errno> {
    let file = socket.file()?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let copy = rustix::net::socket_with(socket.family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&copy, sockopt::socket_reuseaddr(file)?)?;
    sockopt::set_socket_reuseport(&copy, true)?;
    if socket.family == AddressFamily::INET6 {
        sockopt::set_ipv6_v6only(&copy, sockopt::ipv6_v6only(file)?)?;
    }
    for option in &socket.options {
        // The socket itself has it.
        let _ = option.set(&copy);
    }
    rustix::net::bind(&copy, &local_address(socket)?)?;
    rustix::net::listen(&copy, backlog)?;
    Ok(copy)
}
