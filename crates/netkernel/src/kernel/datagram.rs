//! Datagram sockets of a kernel NSM.

use abi::nqe::{DatagramHead, Nqe, operation};
use abi::tenant::{CHUNK_BYTES, RECEIVE_WINDOW};
use rustix::io::Errno;

use super::KernelNsm;
use crate::sys;

/// Datagrams of one turn.
const TURN: usize = 64;

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
        while socket.writable
            && let Some(&sending) = socket.sending.front()
        {
            let bytes = self
                .service
                .payload(socket.tenant, sending.offset, sending.len);
            let head = bytes.and_then(|bytes| bytes.read_array::<{ DatagramHead::LEN }>(0));
            let done = match (bytes, head) {
                (Some(bytes), Some(head)) => {
                    let (head, bytes) = (
                        DatagramHead::from_bytes(&head),
                        bytes.skip(DatagramHead::LEN),
                    );
                    let file = socket.file();
                    file.and_then(|file| sys::send_datagram(file, bytes, &head))
                }
                _ => Err(Errno::FAULT),
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
            let sent = Nqe::new(operation::SENT, number)
                .with_chunk(sending.offset, sending.len)
                .with_error(error);
            self.service.answer(Nqe {
                queue_set: sending.set,
                ..sent
            });
            socket.sending.pop_front();
        }
    }

    fn receive_datagrams(&mut self, number: u32) {
        for _ in 0..TURN {
            let Some(socket) = self.sockets.get(number) else {
                return;
            };
            let idle = !socket.readable || socket.closing.is_some() || socket.starved;
            if idle || socket.lent >= RECEIVE_WINDOW {
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
            let received = socket
                .file()
                .and_then(|file| sys::receive_datagram(file, bytes.skip(DatagramHead::LEN)));
            match received {
                Ok((n, head)) => {
                    bytes.write(&head.to_bytes());
                    socket.lent += 1;
                    let datagram = Nqe::new(operation::DATAGRAM, number);
                    let len = (DatagramHead::LEN + n) as u32;
                    self.tell(datagram.with_chunk(chunk.offset(), len));
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
}
