//! Streams and listening sockets of a kernel NSM.

use std::net::SocketAddr;

use abi::nqe::{Nqe, operation};
use abi::tenant::CHUNK_BYTES;
use rustix::io::Errno;
use rustix::net::{Shutdown, SocketFlags, sockopt};

use super::KernelNsm;
use super::requests::{local_address, offered_max};
use super::socket::{Kind, Socket};
use crate::service::Chunk;
use crate::serving::Serving;
use crate::sys;

/// Chunks of one read after the first has been full.
const PARTS: usize = 8;
/// Chunks that a socket may receive, and bursts that it may send, before others have their turn.
const TURN: usize = 32;

impl KernelNsm {
    /// Looks at a stream.
    pub(super) fn work_stream(&mut self, number: u32) {
        let Some(socket) = self.sockets.get(number) else {
            return;
        };
        if let Kind::Stream {
            connecting: Some(set),
        } = socket.kind
        {
            if !socket.writable {
                return;
            }
            self.connected(number, set);
        }
        self.send_stream(number);
        self.receive_stream(number);
    }

    /// A connection stands, or has failed.
    fn connected(&mut self, number: u32, set: u8) {
        let Some(socket) = self.sockets.get(number) else {
            return;
        };
        let error = match socket.file().and_then(sockopt::socket_error) {
            Ok(Ok(())) => None,
            Ok(Err(error)) | Err(error) => Some(error),
        };
        socket.kind = Kind::Stream { connecting: None };
        let mut result = Nqe::new(operation::RESULT, number).with_flags(operation::CONNECT);
        socket.hung_up = false;
        if let Some(error) = error {
            // The socket can be used for another attempt.
            socket.readable = false;
            result = result.with_error(error.raw_os_error());
        } else if let Ok(address) = local_address(socket) {
            result = result.with_address(address);
        }
        self.tell(Nqe {
            queue_set: set,
            ..result
        });
    }

    fn send_stream(&mut self, number: u32) {
        let Some(socket) = self.sockets.get(number) else {
            return;
        };
        for _ in 0..TURN {
            if socket.sending.is_empty() || !socket.writable || socket.failed.is_some() {
                break;
            }
            let parts = socket.sending.iter().take(sys::PARTS_MAX).map(|sending| {
                let bytes = self
                    .service
                    .payload(socket.tenant, sending.offset, sending.len);
                bytes.map(|bytes| bytes.skip(sending.done as usize))
            });
            // They were looked at when they came.
            let parts: Vec<_> = parts.flatten().collect();
            let more = socket.sending.len() > parts.len()
                || socket
                    .sending
                    .get(parts.len() - 1)
                    .is_some_and(|last| last.more);
            match socket.file().and_then(|file| sys::send(file, &parts, more)) {
                Ok(n) => {
                    let whole: usize = parts.iter().map(|part| part.len()).sum();
                    socket.writable = n == whole;
                    let mut left = n;
                    while let Some(first) = socket.sending.front_mut() {
                        let missing = (first.len - first.done) as usize;
                        if left < missing {
                            first.done += left as u32;
                            break;
                        }
                        left -= missing;
                        let sent =
                            Nqe::new(operation::SENT, number).with_chunk(first.offset, first.len);
                        self.service.answer(Nqe {
                            queue_set: first.set,
                            ..sent
                        });
                        socket.sending.pop_front();
                        if left == 0 && n != 0 {
                            break;
                        }
                    }
                }
                Err(Errno::AGAIN) => socket.writable = false,
                Err(Errno::INTR) => {}
                Err(error) => return self.fail(number, error),
            }
        }
        if socket.shut && socket.sending.is_empty() && socket.failed.is_none() {
            // An error means that there is no connection to shut.
            let _ = socket
                .file()
                .map(|file| rustix::net::shutdown(file, Shutdown::Write));
        }
        if !socket.sending.is_empty() && socket.writable {
            self.mark(number);
        }
    }

    fn receive_stream(&mut self, number: u32) {
        let mut wanted = 1;
        let mut turn = 0;
        loop {
            let Some(socket) = self.sockets.get(number) else {
                return;
            };
            let stands = !socket.ended && socket.failed.is_none() && socket.closing.is_none();
            if !socket.readable || !stands || socket.listener.is_some() || socket.starved {
                return;
            }
            if turn >= TURN {
                return self.mark(number);
            }
            let window = self.service.receive_window(socket.tenant);
            let room = window.saturating_sub(socket.lent);
            if room == 0 {
                // The next chunk that is given back has it looked at again.
                return;
            }
            let mut chunks = [Chunk::default(); PARTS];
            let mut count = 0;
            while count < wanted.min(room) {
                let Some(chunk) = self.service.lend(socket.tenant, number) else {
                    break;
                };
                chunks[count] = chunk;
                count += 1;
            }
            if count == 0 {
                return self.starve(number);
            }
            let chunks = &chunks[..count];
            let parts: Vec<_> = chunks
                .iter()
                .filter_map(|chunk| {
                    self.service
                        .payload(socket.tenant, chunk.offset(), CHUNK_BYTES as u32)
                })
                .collect();
            let received = socket.file().and_then(|file| sys::receive(file, &parts));
            let n = received.unwrap_or(0);
            let used = n.div_ceil(CHUNK_BYTES);
            for (at, &chunk) in chunks.iter().enumerate() {
                if at < used {
                    let len = (n - at * CHUNK_BYTES).min(CHUNK_BYTES) as u32;
                    let data = Nqe::new(operation::DATA, number);
                    self.service.answer(data.with_chunk(chunk.offset(), len));
                    socket.lent += 1;
                } else {
                    self.service.unlend(socket.tenant, chunk);
                }
            }
            match received {
                Ok(0) => {
                    socket.ended = true;
                    return self.tell(Nqe::new(operation::END, number));
                }
                Ok(n) if n < count * CHUNK_BYTES => {
                    // All was read. What comes later is told again, but for an end that is there.
                    socket.readable = false;
                    if socket.hung_up {
                        socket.readable = true;
                        continue;
                    }
                    return;
                }
                Ok(_) => {
                    turn += count;
                    wanted = PARTS;
                }
                Err(Errno::AGAIN) => {
                    socket.readable = false;
                    return;
                }
                Err(Errno::INTR) => {}
                Err(Errno::NOTCONN) => {
                    // Not connected yet: the kernel says so of every new socket.
                    socket.readable = false;
                    socket.hung_up = false;
                    return;
                }
                Err(error) => return self.fail(number, error),
            }
        }
    }

    /// Offers a listening socket's connections.
    pub(super) fn take_connections(&mut self, number: u32) {
        loop {
            let Some(socket) = self.sockets.get(number) else {
                return;
            };
            let Kind::Listening { offered, backlog } = socket.kind else {
                return;
            };
            if !socket.readable || offered >= offered_max(backlog) || socket.closing.is_some() {
                return;
            }
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let accepted = socket
                .file()
                .and_then(|file| rustix::net::acceptfrom_with(file, flags));
            let (file, address) = match accepted {
                Ok(accepted) => accepted,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                // Also when there are no descriptors: the next event, or the next connection that is
                // accepted, has it tried again.
                Err(_) => {
                    socket.readable = false;
                    return;
                }
            };
            socket.kind = Kind::Listening {
                offered: offered + 1,
                backlog,
            };
            let (tenant, family) = (socket.tenant, socket.family);
            let address = address.and_then(|address| SocketAddr::try_from(address).ok());
            let (Some(address), Some(own)) = (address, self.sockets.choose()) else {
                self.offered_less(number);
                continue;
            };
            if self.watch(&file, own).is_err() {
                self.sockets.give_back(own);
                self.offered_less(number);
                continue;
            }
            let kind = Kind::Stream { connecting: None };
            let mut connection = Socket::new(Some(file), family, tenant, kind);
            connection.listener = Some(number);
            connection.readable = true;
            self.sockets.put_own(own, connection);
            let incoming = Nqe::new(operation::INCOMING, number).with_address(address);
            self.tell(Nqe {
                len: own,
                ..incoming
            });
        }
    }
}
