//! The bytes of a connection, both ways between the program's socket pair and the NSM's socket.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};

use super::guest;

/// Bytes that are moved at once.
pub(super) const BATCH: usize = 1 << 16;
/// Batches of one direction before other sockets have their turn.
const TURN: u32 = 8;

/// Where a direction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    /// Nothing moves before the next event.
    Waits,
    /// There may be more.
    More,
    /// All was moved, and the end was told.
    Ended,
}

/// Which end failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    From(Errno),
    To(Errno),
}

/// One direction.
#[derive(Debug, Default)]
struct Way {
    /// Read and not written.
    kept: Vec<u8>,
    /// No more is read.
    ended: bool,
    /// The end was told.
    told: bool,
    /// What is read goes nowhere: the receiver has shut down reading.
    void: bool,
}

impl Way {
    fn pass(
        &mut self,
        scratch: &mut [u8],
        mut read: impl FnMut(&mut [u8]) -> Result<usize, Errno>,
        mut write: impl FnMut(&[u8]) -> Result<usize, Errno>,
        tell: impl FnOnce(),
    ) -> Result<Moved, Broken> {
        for _ in 0..TURN {
            while !self.kept.is_empty() && !self.void {
                match write(&self.kept) {
                    Ok(n) => {
                        self.kept.drain(..n);
                    }
                    Err(Errno::AGAIN | Errno::NOBUFS) => return Ok(Moved::Waits),
                    Err(error) => return Err(Broken::To(error)),
                }
            }
            self.kept = Vec::new();
            if self.ended {
                if !self.told {
                    self.told = true;
                    tell();
                }
                return Ok(Moved::Ended);
            }
            match read(scratch) {
                Ok(0) => self.ended = true,
                Ok(_) if self.void => {}
                Ok(n) => {
                    let sent = match write(&scratch[..n]) {
                        Ok(sent) => sent,
                        Err(Errno::AGAIN | Errno::NOBUFS) => 0,
                        Err(error) => return Err(Broken::To(error)),
                    };
                    self.kept.extend_from_slice(&scratch[sent..n]);
                }
                Err(Errno::AGAIN) => return Ok(Moved::Waits),
                Err(error) => return Err(Broken::From(error)),
            }
        }
        Ok(Moved::More)
    }
}

/// Whether the program has no descriptor left of the other end of a pair.
pub(super) fn is_closed(end: &OwnedFd) -> bool {
    has(end, PollFlags::HUP)
}

/// Whether one of these events stands.
pub(super) fn has(end: &OwnedFd, events: PollFlags) -> bool {
    let mut polled = [PollFd::new(end, events)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    rustix::event::poll(&mut polled, Some(&now)).is_ok() && polled[0].revents().intersects(events)
}

/// A connection.
#[derive(Debug, Default)]
pub(super) struct Relay {
    up: Way,
    down: Way,
}

/// What became of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It goes on at the next event.
    Goes,
    /// It has more to move now.
    More,
    /// Both directions have ended.
    Ended,
    /// The program has closed its side with bytes unread: the peer is to be told.
    Refused,
    /// The NSM's side is broken: the program is to be told.
    Reset(Errno),
}

impl Relay {
    /// Moves what there is. `end` is the supervisor's end of the pair, `closed` that the program has no
    /// descriptor of the other.
    pub fn pass(
        &mut self,
        end: &OwnedFd,
        nsm: &OwnedFd,
        closed: bool,
        scratch: &mut [u8],
    ) -> Outcome {
        let (quiet, now) = (
            SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
            RecvFlags::DONTWAIT,
        );
        let receive = |into: &mut [u8]| Ok(rustix::net::recv(end, into, now)?.1);
        // Without a receiver, what the NSM has is left there: it resets the connection when closed.
        let down = if closed {
            Ok(Moved::Ended)
        } else {
            self.down.pass(
                scratch,
                |into| guest::receive(nsm, into),
                |bytes| rustix::net::send(end, bytes, quiet),
                // A receiver that is gone needs no end.
                || {
                    let _ = rustix::net::shutdown(end, Shutdown::Write);
                },
            )
        };
        let down = match down {
            Ok(down) => down,
            Err(Broken::From(error)) => return Outcome::Reset(error),
            Err(Broken::To(_)) => {
                // Closed, of which an event will tell, or shut down for reading.
                self.down.void = true;
                Moved::More
            }
        };
        let up = self.up.pass(
            scratch,
            receive,
            |bytes| guest::send(nsm, bytes),
            || {
                // One that is closed ends as its options say (SO_LINGER).
                if !is_closed(end) {
                    // A connection that is broken tells so when it is read.
                    let _ = guest::shutdown(nsm, libc::SHUT_WR);
                }
            },
        );
        match (up, down) {
            (Err(Broken::From(_)), _) => Outcome::Refused,
            (Err(Broken::To(error)), _) => match guest::error(nsm) {
                Err(error) => Outcome::Reset(error),
                Ok(()) => Outcome::Reset(error),
            },
            (Ok(Moved::Ended), Moved::Ended) => Outcome::Ended,
            (Ok(Moved::More), _) | (_, Moved::More) => Outcome::More,
            _ => Outcome::Goes,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever a reader gives and a writer takes, the bytes arrive whole and in order, and the end
        /// after them.
        #[test]
        fn bytes_arrive_in_order(
            sizes in proptest::collection::vec(0usize..50, 0..30),
            takes in proptest::collection::vec(0usize..60, 1..40),
        ) {
            let mut way = Way::default();
            let mut parts: Vec<Vec<u8>> = Vec::new();
            let mut next = 0u8;
            for size in sizes {
                parts.push((0..size).map(|_| { next = next.wrapping_add(1); next }).collect());
            }
            let whole = parts.concat();
            let mut parts = parts.into_iter();
            let mut takes = takes.into_iter().cycle();
            let (got, told) = (RefCell::new(Vec::new()), RefCell::new(false));
            for _ in 0..2000 {
                let moved = way.pass(
                    &mut [0; 64],
                    |into| match parts.next() {
                        None => Ok(0),
                        Some(part) if part.is_empty() => Err(Errno::AGAIN),
                        Some(part) => { into[..part.len()].copy_from_slice(&part); Ok(part.len()) }
                    },
                    |bytes| match takes.next() {
                        Some(0) | None => Err(Errno::AGAIN),
                        Some(n) => {
                            let n = n.min(bytes.len());
                            got.borrow_mut().extend_from_slice(&bytes[..n]);
                            Ok(n)
                        }
                    },
                    || *told.borrow_mut() = true,
                );
                if moved == Ok(Moved::Ended) {
                    break;
                }
                prop_assert!(!*told.borrow());
            }
            let all_zero = got.borrow().is_empty() && !whole.is_empty();
            prop_assert!(all_zero || (*got.borrow() == whole && *told.borrow()));
        }
    }
}
