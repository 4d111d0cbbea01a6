//! Connections between two sockets of one NSM: no TCP, payload is copied from the sender's chunks to the receiver's.

use abi::nqe::{Nqe, operation};
use abi::tenant::CHUNK_BYTES;
use rustix::io::Errno;

use crate::serving::{Parts, Serving};
use crate::sockets::Common;

/// Chunks that a socket may send before others have their turn.
const TURN: usize = 64;

/// An NSM whose sockets may be connected in pairs.
pub(crate) trait Pairs: Serving {
    /// The other side of a socket's connection, if it is one of a pair and the other is not closed.
    fn peer(socket: &Self::Socket) -> Option<u32>;

    /// The other side is closed.
    fn unpair(socket: &mut Self::Socket);

    /// Moves what a socket of a pair has to send to its peer.
    fn work_pair(&mut self, number: u32) {
        for _ in 0..TURN {
            let Parts {
                service, sockets, ..
            } = self.parts();
            let Some(socket) = sockets.get(number) else {
                return;
            };
            let Some(peer) = Self::peer(socket) else {
                if !socket.sending.is_empty() {
                    self.fail(number, Errno::PIPE);
                }
                return;
            };
            if socket.sending.is_empty() {
                if socket.shut || socket.closing.is_some() {
                    self.end_at(peer);
                }
                return;
            }
            let Some(other) = sockets.get(peer) else {
                return;
            };
            if other.listener.is_some() || other.lent >= service.receive_window(other.tenant) {
                // Its tenant accepts it, or gives a chunk back.
                return;
            }
            if other.closing.is_some() {
                return self.fail(number, Errno::PIPE);
            }
            let to = other.tenant;
            if !self.move_chunk(number, peer) {
                return self.starve_for(number, to);
            }
        }
        self.mark(number);
    }

    /// Copies what a socket has to send into a chunk for its peer, until it is full; `false`: there is no chunk now.
    fn move_chunk(&mut self, number: u32, peer: u32) -> bool {
        let Parts {
            service, sockets, ..
        } = self.parts();
        let Some(other) = sockets.get(peer) else {
            return true;
        };
        let to = other.tenant;
        let Some(chunk) = service.lend(to, peer) else {
            return false;
        };
        other.lent += 1;
        let whole = service.payload(to, chunk.offset(), CHUNK_BYTES as u32);
        let (Some(whole), Some(socket)) = (whole, sockets.get(number)) else {
            return true;
        };
        let tenant = socket.tenant;
        let mut len = 0;
        while let Some(first) = socket.sending.front_mut() {
            let from = service.payload(tenant, first.offset, first.len);
            let copied = from.map_or(0, |from| {
                from.skip(first.done as usize).copy_to(&whole.skip(len))
            });
            len += copied;
            first.done += copied as u32;
            if first.done < first.len {
                break;
            }
            let sent = Nqe::new(operation::SENT, number).with_chunk(first.offset, first.len);
            service.answer(Nqe {
                queue_set: first.set,
                ..sent
            });
            socket.sending.pop_front();
        }
        let data = Nqe::new(operation::DATA, peer);
        service.answer(data.with_chunk(chunk.offset(), len as u32));
        true
    }

    /// A socket has given a chunk back: its peer may send more.
    fn consumed_by(&mut self, number: u32) {
        let socket = self.parts().sockets.get(number);
        if let Some(peer) = socket.and_then(|socket| Self::peer(socket)) {
            self.mark(peer);
        }
    }

    /// Tells a socket that its peer sends no more.
    fn end_at(&mut self, number: u32) {
        if let Some(socket) = self.parts().sockets.get(number)
            && !socket.ended
        {
            socket.ended = true;
            if socket.listener.is_none() {
                self.tell(Nqe::new(operation::END, number));
            }
        }
    }

    /// A socket is gone. If it was one of a pair, and what it had received was not read, or it was not accepted, its
    /// peer's connection is reset.
    fn leave_pair(&mut self, gone: &Self::Socket) {
        let Some(peer) = Self::peer(gone) else {
            return;
        };
        let common: &Common = gone;
        let reset = common.lent > 0 || common.listener.is_some();
        let Some(socket) = self.parts().sockets.get(peer) else {
            return;
        };
        Self::unpair(socket);
        if reset {
            self.fail(peer, Errno::CONNRESET);
        } else {
            self.end_at(peer);
        }
        self.mark(peer);
    }
}
