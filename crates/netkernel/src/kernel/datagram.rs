//! Datagram sockets of a kernel NSM.

use abi::nqe::{DatagramHead, MORE, Nqe, operation};
use abi::tenant::{CHUNK_BYTES, RECEIVE_WINDOW};
use rustix::io::Errno;

use super::KernelNsm;
use crate::service::Chunk;
use crate::serving::Serving;
use crate::sys;

/// Datagrams of one turn.
const TURN: usize = 64;
/// Most bytes of a datagram: UDP's over IPv6.
pub(super) const DATAGRAM_MAX: usize = 65_527;
/// Most chunks of one.
const CHUNKS_MAX: usize = (DatagramHead::LEN + DATAGRAM_MAX).div_ceil(CHUNK_BYTES);

impl KernelNsm {
    /// Looks at a datagram socket.
    pub(super) fn work_datagram(&mut self, number: u32) {
        self.send_datagrams(number);
        self.receive_datagrams(number);
    }

    fn send_datagrams(&mut self, number: u32) {
        let Some(socket) = self.sockets.get(number) else {
            return;
        };
        while socket.writable {
            let mut all = socket.sending.iter();
            let Some(last) = all.position(|it| !it.more) else {
                // The rest comes soon, unless it never ends.
                if socket.sending.len() < CHUNKS_MAX {
                    return;
                }
                let sending = std::mem::take(&mut socket.sending);
                return self.unsend(number, sending, Errno::MSGSIZE.raw_os_error());
            };
            let of = socket.sending.iter().take(last + 1);
            let parts = of.map(|it| self.service.payload(socket.tenant, it.offset, it.len));
            let mut parts: Vec<_> = parts.flatten().collect();
            let head = parts
                .first()
                .and_then(|part| part.read_array::<{ DatagramHead::LEN }>(0));
            let done = match head {
                Some(head) if parts.len() <= CHUNKS_MAX => {
                    parts[0] = parts[0].skip(DatagramHead::LEN);
                    let head = DatagramHead::from_bytes(&head);
                    let file = socket.file();
                    file.and_then(|file| sys::send_datagram(file, &parts, &head))
                }
                Some(_) => Err(Errno::MSGSIZE),
                None => Err(Errno::FAULT),
            };
            let error = match done {
                Ok(()) => 0,
                Err(Errno::AGAIN) => {
                    socket.writable = false;
                    return;
                }
                Err(Errno::INTR) => continue,
                Err(error) => error.raw_os_error(),
            };
            for sending in socket.sending.drain(..=last) {
                // The error is the datagram's, and told once.
                let error = if sending.more { 0 } else { error };
                let sent = Nqe::new(operation::SENT, number)
                    .with_chunk(sending.offset, sending.len)
                    .with_error(error);
                self.service.answer(Nqe {
                    queue_set: sending.set,
                    ..sent
                });
            }
        }
    }

    fn receive_datagrams(&mut self, number: u32) {
        for _ in 0..TURN {
            let Some(socket) = self.sockets.get(number) else {
                return;
            };
            let idle = !socket.readable || socket.closing.is_some() || socket.starved;
            let window = self.service.receive_window(socket.tenant);
            let full = socket.lent >= window || socket.lent + CHUNKS_MAX > RECEIVE_WINDOW;
            if idle || full {
                return;
            }
            let Some(chunk) = self.service.lend(socket.tenant, number) else {
                return self.starve(number);
            };
            let Some(bytes) =
                self.service
                    .payload(socket.tenant, chunk.offset(), CHUNK_BYTES as u32)
            else {
                return;
            };
            let room = bytes.skip(DatagramHead::LEN);
            let received = socket
                .file()
                .and_then(|file| sys::receive_datagram(file, room, &mut self.rest));
            match received {
                Ok((n, head)) => {
                    bytes.write(&head.to_bytes());
                    self.deliver_datagram(number, chunk, n);
                }
                Err(error) => {
                    self.service.unlend(socket.tenant, chunk);
                    match error {
                        Errno::INTR => {}
                        Errno::AGAIN => {
                            socket.readable = false;
                            return;
                        }
                        error => {
                            let failed = Nqe::new(operation::FAILED, number);
                            self.tell(failed.with_error(error.raw_os_error()));
                        }
                    }
                }
            }
        }
        self.mark(number);
    }

    /// Delivers a datagram of `n` bytes: what its first chunk does not hold is in the rest.
    fn deliver_datagram(&mut self, number: u32, first: Chunk, n: usize) {
        let Some(socket) = self.sockets.get(number) else {
            return;
        };
        let tenant = socket.tenant;
        let rest = n.saturating_sub(CHUNK_BYTES - DatagramHead::LEN);
        let mut chunks = vec![first];
        for _ in 0..rest.div_ceil(CHUNK_BYTES) {
            match self.service.lend(tenant, number) {
                Some(chunk) => chunks.push(chunk),
                None => {
                    // There is no room for it: it is lost, as datagrams may be.
                    for chunk in chunks {
                        self.service.unlend(tenant, chunk);
                    }
                    return self.starve(number);
                }
            }
        }
        socket.lent += chunks.len();
        let mut left = DatagramHead::LEN + n;
        for (at, chunk) in chunks.iter().enumerate() {
            let len = left.min(CHUNK_BYTES);
            left -= len;
            if at > 0 {
                let from = (at - 1) * CHUNK_BYTES;
                let bytes = self.service.payload(tenant, chunk.offset(), len as u32);
                bytes.map(|bytes| bytes.write(&self.rest[from..from + len]));
            }
            let more = if left > 0 { MORE } else { 0 };
            let datagram = Nqe::new(operation::DATAGRAM, number).with_flags(more);
            self.tell(datagram.with_chunk(chunk.offset(), len as u32));
        }
    }
}
