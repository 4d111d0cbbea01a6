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
//! - When CoreEngine ends, the process returns to the next one with its sockets, all but connections
//!   ([`restart`]).
//! - Before a socket's descriptor gets into a second process, its life becomes that of a kernel object
//!   ([`share`]).
//!
//! The library makes system calls past the functions that it interposes, so it never calls itself.
//!
//! # Differences from the kernel's sockets
//! - Out-of-band data is refused: EOPNOTSUPP to send, EINVAL to receive.
//! - Of control messages, datagrams have hop limit, traffic class and packet information ([`ancillary`]);
//!   a datagram that arrived before IPV6_RECVHOPLIMIT or its kind was set has none. A datagram has at
//!   most [`datagram::MESSAGE_MAX`] bytes.
//! - Buffers are windows of chunks: SO_SNDBUF and SO_RCVBUF reach the NSM's stack, and do not make the
//!   windows smaller. SO_RCVLOWAT is not looked at.
//! - SO_LINGER with a time does not make close wait. With time 0 the connection is reset.
//! - Calls on an NSM's socket are no cancellation points, and may not be made by a signal handler that
//!   interrupted a call on the same socket, nor left by longjmp out of one.
//! - An epoll descriptor may be polled, but its sockets of an NSM are not seen by an epoll that it is
//!   added to.
//! - What goes past the C library's functions is not redirected: io_uring and other direct system calls
//!   (a socket's descriptor is an unconnected Unix socket for them: ENOTCONN, EINVAL), the C library's own
//!   sockets (getaddrinfo's), static programs, and C++ streams on a socket that a program was
//!   started with. execl and its kind share sockets on x86-64 only; elsewhere a program that they
//!   start does not inherit sockets.
//! - vfork is fork. A process that blocks on a socket which another process has taken over looks
//!   at it every millisecond.
//! - The processes of a tenant are to be in one PID namespace: locks name their holders by thread.

// Unit tests don't export the functions that the rest is there for: they would interpose themselves.
#![cfg_attr(test, allow(dead_code))]

mod address;
mod ancillary;
mod cell;
mod connection;
mod datagram;
mod dispatch;
mod epoll;
mod exports;
mod hangup;
mod lock;
mod message;
mod options;
mod parts;
mod poll;
mod private;
mod process;
mod queues;
mod restart;
mod share;
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
