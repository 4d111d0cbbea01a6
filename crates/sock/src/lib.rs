//! GuestLib: a library that is loaded before the C library (LD_PRELOAD) and takes a program's Internet
//! sockets to a network stack module (NSM), by queue elements to CoreEngine. The program is not changed
//! and notices nothing but the other stack.
//!
//! `WEIR_SOCK=<path>:<token>` in the environment names CoreEngine's Unix socket and the tenant. Without
//! it, and in a program that runs with another user's rights, every call goes to the C library.
//!
//! - A socket's descriptor is a real one: an unconnected Unix socket that stands for it ([`table`]), so
//!   numbers, duplicates, close-on-exec and inheritance are the kernel's.
//! - A socket's state is a [`cell`] in memory that all processes of the tenant share ([`private`]).
//! - Calls submit requests to and dispatch deliveries from the process's queue set ([`queues`]); a call
//!   whose socket is ready makes no system call.
//! - Readiness is found in this library ([`wait`], [`poll`], [`epoll`]), together with the kernel's of
//!   ordinary descriptors.
//! - Before a socket's descriptor gets into a second process, its life becomes that of a kernel object
//!   ([`process::share`]).
//!
//! The library makes system calls past the functions that it interposes, so it never calls itself.
//! Calls on an NSM's socket are no cancellation points, and may not be made by a signal handler that
//! interrupted a call on the same socket.

// Unit tests don't export the functions that the rest is there for: they would interpose themselves.
#![cfg_attr(test, allow(dead_code))]

mod address;
mod cell;
mod datagram;
mod epoll;
mod exports;
mod lock;
mod message;
mod options;
mod parts;
mod poll;
mod private;
mod process;
mod queues;
mod socket;
mod stack;
mod stream;
mod sys;
mod table;
mod wait;

/// Runs when the library is loaded, before the program.
#[cfg_attr(not(test), used)]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
static START: extern "C" fn() = {
    extern "C" fn start() {
        process::configure();
    }
    start
};
