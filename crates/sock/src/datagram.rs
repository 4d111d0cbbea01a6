//! The messages of a datagram socket: chunks, with the address and the ancillary data in front.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use abi::nqe::{DatagramHead, MORE, Nqe, operation};
use abi::tenant::{CHUNK_BYTES, SEND_WINDOW};

use crate::address::Address;
use crate::cell::{event, flag, state};
use crate::parts::Parts;
use crate::queues::{self, Urgency};
use crate::restart;
use crate::socket::Socket;
use crate::sys::{Errno, Result};

/// Most bytes of a message: UDP's over IPv4.
pub const MESSAGE_MAX: usize = 65_507;
/// Most chunks of one.
const CHUNKS_MAX: usize = (DatagramHead::LEN + MESSAGE_MAX).div_ceil(CHUNK_BYTES);

/// A message received.
pub struct Received {
    /// Bytes copied.
    pub copied: usize,
    /// Bytes of the message.
    pub len: usize,
    /// Its source and its ancillary data.
    pub head: DatagramHead,
}

impl Socket {
    /// Receives one message.
    pub fn receive_datagram(&self, parts: &mut Parts<'_>, flags: c_int) -> Result<Received> {
        if flags & libc::MSG_OOB != 0 {
            return Err(Errno(libc::EINVAL));
        }
        let mut deadline = None;
        loop {
            if let Some(received) = self.take_message(parts, flags)? {
                return Ok(received);
            }
            if self.drain() {
                continue;
            }
            if self.nonblocking(flags) {
                return Err(Errno(libc::EAGAIN));
            }
            let timeout = self.cell.receive_timeout.load(Ordering::Relaxed);
            self.wait(event::IN, timeout, &mut deadline)?;
        }
    }

    fn take_message(&self, parts: &mut Parts<'_>, flags: c_int) -> Result<Option<Received>> {
        let cell = self.cell;
        let _guard = cell.lock.lock();
        match cell.failure() {
            0 => {}
            error => return Err(Errno(error as c_int)),
        }
        let Some(count) = cell.datagram_chunks() else {
            if cell.is(state::CLOSING) {
                return Err(Errno(libc::EBADF));
            }
            let ended = cell.has(flag::SHUT_READ);
            return Ok(ended.then_some(Received {
                copied: 0,
                len: 0,
                head: DatagramHead::default(),
            }));
        };
        let head = cell.head.load(Ordering::Relaxed);
        let mut received = Received {
            copied: 0,
            len: 0,
            head: DatagramHead::default(),
        };
        let mut whole = 0;
        for at in 0..count {
            let chunk = cell.chunk(head.wrapping_add(at));
            whole += chunk.len;
            let payload = &self.shared.payload;
            let Some(mut bytes) = payload.bytes(u64::from(chunk.offset), chunk.len) else {
                continue;
            };
            if at == 0
                && let Some(front) = bytes.read_array::<{ DatagramHead::LEN }>(0)
            {
                received.head = DatagramHead::from_bytes(&front);
                received.head.address = received.head.address.map(|from| cell.seen(from));
                bytes = bytes.skip(DatagramHead::LEN);
            }
            received.copied += parts.copy_from(bytes);
            received.len += bytes.len();
        }
        if flags & libc::MSG_PEEK == 0 {
            let next = head.wrapping_add(count);
            cell.head.store(next, Ordering::Release);
            cell.received_bytes.fetch_sub(whole, Ordering::Relaxed);
            self.give_back();
        }
        Ok(Some(received))
    }

    /// Sends one message, to an address or to the peer, with ancillary data.
    pub fn send_datagram(
        &self,
        parts: &mut Parts<'_>,
        to: Option<Address>,
        ancillary: DatagramHead,
        flags: c_int,
    ) -> Result<usize> {
        if flags & libc::MSG_OOB != 0 {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let to = match to {
            Some(Address::Inet(to)) => Some(to),
            Some(Address::None) => return Err(Errno(libc::EAFNOSUPPORT)),
            None if self.cell.is(state::CONNECTED) => None,
            None => return Err(Errno(libc::EDESTADDRREQ)),
        };
        let head = DatagramHead {
            address: to,
            ..ancillary
        };
        let len = parts.left();
        if len > MESSAGE_MAX {
            return Err(Errno(libc::EMSGSIZE));
        }
        let mut deadline = None;
        self.drain();
        loop {
            if self.nonblocking(flags) {
                restart::ready_now()?;
            } else {
                restart::ready()?;
            }
            if self.put_message(parts, head)? {
                return Ok(len);
            }
            if self.drain() {
                continue;
            }
            if self.nonblocking(flags) {
                return Err(Errno(libc::EAGAIN));
            }
            let timeout = self.cell.send_timeout.load(Ordering::Relaxed);
            self.wait(event::OUT, timeout, &mut deadline)?;
        }
    }

    /// Whether a message to this address, or to the peer, goes out by IPv4.
    pub fn sends_ipv4(&self, to: Option<Address>) -> bool {
        let to = match to {
            Some(Address::Inet(to)) => Some(to),
            _ => self.cell.peer.get(),
        };
        to.is_some_and(|to| to.ip().to_canonical().is_ipv4())
    }

    /// False: there is no room now.
    fn put_message(&self, parts: &mut Parts<'_>, head: DatagramHead) -> Result<bool> {
        let cell = self.cell;
        let _guard = cell.lock.lock();
        match cell.failure() {
            0 => {}
            error => return Err(Errno(error as c_int)),
        }
        if cell.has(flag::SHUT_WRITE) {
            return Err(Errno(libc::EPIPE));
        }
        if cell.in_flight.load(Ordering::Relaxed) as usize >= SEND_WINDOW {
            return Ok(false);
        }
        let private = self.shared.private;
        let whole = DatagramHead::LEN + parts.left();
        let count = whole.div_ceil(CHUNK_BYTES);
        let mut nqes = [Nqe::new(operation::SEND_TO, self.number); CHUNKS_MAX];
        let mut taken = 0;
        while taken < count
            && let Some(offset) = private.take_chunk(self.number)
        {
            let len = (whole - taken * CHUNK_BYTES).min(CHUNK_BYTES) as u32;
            nqes[taken] = nqes[taken].with_chunk(offset, len);
            taken += 1;
            if taken < count {
                nqes[taken - 1] = nqes[taken - 1].with_flags(MORE);
            }
        }
        let nqes = &nqes[..taken];
        if taken == count && self.submit_message(nqes, *parts, head) {
            if cell.has(flag::STARVED) {
                cell.unset(flag::STARVED);
            }
            return Ok(true);
        }
        for nqe in nqes {
            private.free_chunk(self.number, nqe.offset);
        }
        self.starved();
        Ok(false)
    }

    /// Fills a message's chunks and submits them. False: there is no room now.
    fn submit_message(&self, nqes: &[Nqe], mut parts: Parts<'_>, head: DatagramHead) -> bool {
        let cell = self.cell;
        for (at, nqe) in nqes.iter().enumerate() {
            let Some(mut bytes) = self.shared.payload.bytes(nqe.offset, nqe.len) else {
                return false;
            };
            if at == 0 {
                bytes.write_array(0, &head.to_bytes());
                bytes = bytes.skip(DatagramHead::LEN);
            }
            parts.copy_to(bytes);
        }
        let count = nqes.len() as u32;
        cell.in_flight.fetch_add(count, Ordering::AcqRel);
        let submitted = queues::submit(&self.shared, self.set, nqes, Urgency::Send);
        if !submitted {
            cell.in_flight.fetch_sub(count, Ordering::AcqRel);
        }
        submitted
    }
}
