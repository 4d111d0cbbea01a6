//! Sockets of an NSM for programs that make system calls without the C library: static ones, and Go's.
//! GuestLib cannot be loaded into these, so the kernel tells of their calls.
//!
//! ```text
//! program ── a pair of Unix sockets ── supervisor + GuestLib ── queue set ── CoreEngine ── NSM
//!    └─ set-up calls, by the kernel ───────┘
//! ```
//!
//! The program is started with a [filter] of system calls (seccomp_unotify(2)), which its
//! children inherit. The calls that set sockets up notify the *supervisor*, a process beside the
//! program: it is an ordinary program whose sockets are an NSM's, as GuestLib is preloaded into it, so
//! there is one tenant side of the queues, not two. Each socket of the program is one end of a pair of
//! Unix sockets; the supervisor has the other end and a socket of the NSM, and [relays](relay) between
//! them. So read, write, sendfile, epoll, dup, fork, exec and passing a descriptor to another process
//! are the kernel's, and cost no notification. The supervisor is not the program's parent: the process
//! that is to become the program starts it ([start]), so pid, signals, job control and exit status are
//! the program's own.
//!
//! - A descriptor is known by the inode of its socket, which is the same in all processes and for all
//!   duplicates. When the last is closed, the supervisor's end hangs up.
//! - A listening socket has one byte in the program's end while there are connections.
//! - A socket that is being connected without waiting has its buffer full of padding, so that it is
//!   writable when the connection stands, and not before.
//! - Datagrams are packets of a pair, one at a time in the program's end, so that the supervisor knows
//!   whose address belongs to the one that the program receives. Calls with an address are notified.
//! - A call that waits is done again when its socket has news ([calls]). A thread that a signal calls
//!   away meanwhile makes the call anew; what had been done by then is not done twice.
//! - What is at an address of the program's is read through a file of its memory, which is opened
//!   before the kernel is asked whether the thread still waits (seccomp_unotify(2), "Caveats").
//!
//! # Differences from the kernel's sockets
//! - A reset of the peer's is ECONNRESET, but the end of the stream if the program has shut down
//!   writing, or if the thread that made the socket has ended and no call was made on it since.
//! - A socket that is not connected is writable, and reading waits. A non-blocking connect that has
//!   failed makes it readable and writable, with the reason in SO_ERROR; the socket cannot be
//!   connected again.
//! - write and send on datagram sockets do not tell of errors; the next call with an address does, and
//!   a read is woken by an empty datagram.
//! - MSG_OOB, SIOCATMARK and the ioctls of interfaces are those of a Unix socket.
//! - Programs of 32 bits keep the kernel's sockets.

mod caller;
mod calls;
mod filter;
mod guest;
mod listener;
mod memory;
mod relay;
mod socket;
mod start;
mod supervisor;

pub use start::{InterceptError, enter, serve};
