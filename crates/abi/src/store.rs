//! A guest's connection to the control store: two byte rings of the control region that carry the Xenstore
//! protocol ([`crate::xenstore`]). A message may be longer than a ring: it goes through in pieces, as through a
//! socket.
//!
//! **Connections.** The store begins a connection by storing an odd number, starting its cursors over and storing the
//! next number, which is even. The store reads and writes nothing until the guest has started its own cursors over and
//! stored the same number. Bytes that the guest writes before it sees a new number are lost. A guest that reads
//! impossible cursors blames the store only if the number is still its own: otherwise another connection begins. So a
//! store that was killed amid a message, and a copy of a guest whose region was copied amid one, begin with empty
//! rings. Number 0 is no connection.
//!
//! **Waking.** The guest rings its control doorbell when it has published a request, and when it has read replies
//! that the store waits to go on with. The store wakes the guest's first CPU as the host does
//! ([`Region::bump`](crate::control::Region::bump)).

use core::mem::{offset_of, size_of};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering, fence};

use crate::bytes::{ByteRing, Consumer, Corrupt, Cursors, Producer};

/// Bytes of each of the two rings.
pub const RING_BYTES: usize = 4096;

/// The shared words of the connection. All zero is no connection.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Words {
    // The store's.
    /// The connection's number; 0: none; odd: one begins.
    connection: AtomicU32,
    /// Whether it waits for room in the ring of replies.
    waits: AtomicU32,
    _store_line: [AtomicU32; 14],
    // The guest's.
    /// The connection that it has begun.
    accepted: AtomicU32,
    /// Whether it uses the store, and so is woken for a new connection.
    wants: AtomicU32,
    _guest_line: [AtomicU32; 14],
    requests: Cursors,
    replies: Cursors,
}

const _: () = {
    assert!(offset_of!(Words, accepted) == 64);
    assert!(offset_of!(Words, requests) == 128);
    assert!(offset_of!(Words, replies) == 256);
    assert!(size_of::<Words>() == 384);
};

/// The connection's part of a control region, from either side.
#[derive(Clone, Copy)]
pub struct Channel<'a> {
    words: &'a Words,
    requests: ByteRing<'a>,
    replies: ByteRing<'a>,
}

impl<'a> Channel<'a> {
    /// The connection with these words, and the two rings' buffers, requests first.
    ///
    /// # Safety
    /// As [`ByteRing::new`], for [`RING_BYTES`] bytes at each buffer.
    pub(crate) unsafe fn new(words: &'a Words, [requests, replies]: [NonNull<u8>; 2]) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            Self {
                words,
                requests: ByteRing::new(&words.requests, requests, RING_BYTES),
                replies: ByteRing::new(&words.replies, replies, RING_BYTES),
            }
        }
    }

    /// Begins a connection: for the store. Only one store may use the region. Wake the guest then if it
    /// [wants](StoreEnd::is_wanted) one.
    pub fn connect(self) -> StoreEnd<'a> {
        let begins = self.words.connection.load(Ordering::Relaxed) | 1;
        let number = begins.wrapping_add(1).max(2);
        self.words.connection.store(begins, Ordering::Relaxed);
        // A guest that sees a cursor that was started over sees this number as well.
        fence(Ordering::Release);
        let end = StoreEnd {
            words: self.words,
            number,
            accepted: false,
            requests: self.requests.restart_consumer(),
            replies: self.replies.restart_producer(),
        };
        self.words.waits.store(0, Ordering::Relaxed);
        self.words.connection.store(number, Ordering::Release);
        end
    }

    /// The guest's end, which has no connection until it [looks](GuestEnd::look) for one.
    pub fn guest(self) -> GuestEnd<'a> {
        GuestEnd {
            channel: self,
            number: 0,
            requests: self.requests.producer(),
            replies: self.replies.consumer(),
        }
    }
}

/// The store's end of a connection.
#[derive(Debug)]
pub struct StoreEnd<'a> {
    words: &'a Words,
    number: u32,
    /// Whether the guest has begun it.
    accepted: bool,
    requests: Consumer<'a>,
    replies: Producer<'a>,
}

impl StoreEnd<'_> {
    fn is_accepted(&mut self) -> bool {
        self.accepted = self.accepted || self.words.accepted.load(Ordering::Acquire) == self.number;
        self.accepted
    }

    /// Whether the guest uses the store. The fence orders the new connection before this look, so that at least one
    /// side sees the other.
    pub fn is_wanted(&self) -> bool {
        fence(Ordering::SeqCst);
        self.words.wants.load(Ordering::Relaxed) != 0
    }

    /// Whether there are bytes of requests to read, or the guest broke the ring.
    pub fn has_requests(&mut self) -> bool {
        self.is_accepted() && self.requests.available() != Ok(0)
    }

    /// Reads bytes of requests and returns how many.
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize, Corrupt> {
        match self.is_accepted() {
            true => self.requests.read(into),
            false => Ok(0),
        }
    }

    /// Writes as many bytes of replies as fit and returns how many. Wake the guest then.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, Corrupt> {
        match self.is_accepted() {
            true => self.replies.write(bytes),
            false => Ok(0),
        }
    }

    /// Sets whether the guest rings its doorbell when it has read replies. Write once more after setting it.
    pub fn set_waits(&self, waits: bool) {
        self.words.waits.store(waits.into(), Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
}

/// The guest's end of a connection.
pub struct GuestEnd<'a> {
    channel: Channel<'a>,
    /// The connection that it has begun; 0: none.
    number: u32,
    requests: Producer<'a>,
    replies: Consumer<'a>,
}

impl GuestEnd<'_> {
    /// Says that this guest uses the store. [Look](Self::look) then.
    pub fn want(&self) {
        self.channel.words.wants.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Checks whether the store has begun another connection. If it has, the rings are empty: requests of the last one
    /// may be lost. Ring the doorbell when requests are written.
    pub fn look(&mut self) -> bool {
        let words = self.channel.words;
        let number = words.connection.load(Ordering::Acquire);
        if !self.is_next(number) {
            return false;
        }
        self.number = number;
        self.requests = self.channel.requests.restart_producer();
        self.replies = self.channel.replies.restart_consumer();
        words.accepted.store(number, Ordering::Release);
        true
    }

    /// Whether there is a connection that the guest has not begun.
    pub fn is_new(&self) -> bool {
        self.is_next(self.channel.words.connection.load(Ordering::Acquire))
    }

    fn is_next(&self, number: u32) -> bool {
        number != self.number && number.is_multiple_of(2)
    }

    /// Whether there is a connection.
    pub fn is_connected(&self) -> bool {
        self.number != 0
    }

    /// Bytes of replies that can be read now.
    pub fn available(&self) -> Result<usize, Corrupt> {
        self.within(self.replies.available())
    }

    /// Bytes of requests that fit now.
    pub fn free(&self) -> Result<usize, Corrupt> {
        self.within(self.requests.free())
    }

    /// Reads bytes of replies and returns how many.
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize, Corrupt> {
        let read = self.replies.read(into);
        self.within(read)
    }

    /// Writes as many bytes of requests as fit and returns how many.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, Corrupt> {
        let written = self.requests.write(bytes);
        self.within(written)
    }

    /// The bytes moved in this connection: none, if the store begins another one.
    fn within(&self, moved: Result<usize, Corrupt>) -> Result<usize, Corrupt> {
        moved.or_else(|corrupt| {
            match self.channel.words.connection.load(Ordering::Acquire) == self.number {
                true => Err(corrupt),
                false => Ok(0),
            }
        })
    }

    /// Whether the store waits until replies are read. The fence orders the reading before this look, so that at
    /// least one side sees the other.
    pub fn store_waits(&self) -> bool {
        fence(Ordering::SeqCst);
        self.channel.words.waits.load(Ordering::Relaxed) != 0
    }
}

#[cfg(test)]
mod tests;
