//! A client's session, over any [`Stream`]: requests that came and are not answered, and replies
//! that are not yet sent.

use std::io;

use crate::connection::ConnectionId;
use crate::store::Store;
use crate::wire::{Header, Kind, PAYLOAD_MAX, append};

/// Bytes that may wait for a client before its requests have to wait, too.
const UNSENT_MAX: usize = 16 * (Header::LEN + PAYLOAD_MAX);
/// Most requests of a client that are served before another client's.
const TURN: usize = 64;
/// Bytes read at a time.
pub const READ: usize = 16 << 10;
/// Most bytes of buffer that an idle session keeps.
const KEPT: usize = 256;

/// What carries a client's bytes. Neither method waits: a call that cannot proceed fails with
/// [`WouldBlock`](io::ErrorKind::WouldBlock).
pub trait Stream {
    /// Reads bytes that came, as many as there are and `into` takes; 0 at the end of the stream.
    /// The server is notified of bytes that come after a read that did not fill `into`.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize>;

    /// Sends bytes, as many as there is room for.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Sets whether the server is notified when there is room to send.
    fn await_room(&mut self, awaits: bool) -> io::Result<()>;
}

/// What the server does with a client after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// It has a turn when something comes from it or for it.
    Wait,
    /// It has more requests: another turn, after the other clients' turns.
    Again,
    /// Its connection is over.
    End,
}

/// A session.
pub struct Session {
    id: ConnectionId,
    received: Vec<u8>,
    unsent: Vec<u8>,
    /// Whether the server is told when there is room to send.
    awaits_room: bool,
}

/// The client left, or broke the protocol.
struct Over;

impl From<io::Error> for Over {
    fn from(_: io::Error) -> Over {
        Over
    }
}

impl Session {
    /// The session of a connection.
    pub fn new(id: ConnectionId) -> Session {
        Session {
            id,
            received: Vec::new(),
            unsent: Vec::new(),
            awaits_room: false,
        }
    }

    /// Reads, answers and sends what there is, within a turn.
    pub fn turn(
        &mut self,
        store: &mut Store,
        stream: &mut dyn Stream,
        buffer: &mut [u8; READ],
    ) -> After {
        self.serve(store, stream, buffer).unwrap_or(After::End)
    }

    fn serve(
        &mut self,
        store: &mut Store,
        stream: &mut dyn Stream,
        buffer: &mut [u8; READ],
    ) -> Result<After, Over> {
        let mut answered = 0;
        // Whether all bytes were read: the server is notified of the next ones.
        let mut drained = false;
        loop {
            self.answer(store, &mut answered)?;
            self.add_events(store);
            let full = self.unsent.len() >= UNSENT_MAX;
            self.send(stream)?;
            if self.unsent.len() >= UNSENT_MAX {
                // It goes on when the client has read.
                return Ok(After::Wait);
            }
            if full {
                // There may be more that waited for room.
                continue;
            }
            if answered >= TURN {
                return Ok(After::Again);
            }
            if drained {
                break;
            }
            match stream.read(buffer) {
                Ok(0) => return Err(Over),
                Ok(count) => {
                    self.received
                        .extend_from_slice(buffer.get(..count).ok_or(Over)?);
                    drained = count < READ;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return Err(Over),
            }
        }
        for bytes in [&mut self.received, &mut self.unsent] {
            if bytes.is_empty() && bytes.capacity() > KEPT {
                *bytes = Vec::new();
            }
        }
        Ok(After::Wait)
    }

    /// Answers complete requests until the turn is over or too much is unsent.
    fn answer(&mut self, store: &mut Store, answered: &mut usize) -> Result<(), Over> {
        let mut rest = &self.received[..];
        while *answered < TURN && self.unsent.len() < UNSENT_MAX {
            let Some((header, behind)) = rest.split_first_chunk::<{ Header::LEN }>() else {
                break;
            };
            let header = Header::parse(header);
            let len = header.len as usize;
            if len > PAYLOAD_MAX {
                return Err(Over);
            }
            let Some((payload, behind)) = behind.split_at_checked(len) else {
                break;
            };
            let (kind, reply) = store.request(self.id, header, payload);
            let header = Header {
                kind: kind as u32,
                ..header
            };
            append(&mut self.unsent, header, &reply);
            (rest, *answered) = (behind, *answered + 1);
        }
        let done = self.received.len() - rest.len();
        self.received.drain(..done);
        Ok(())
    }

    /// Adds the events that wait, until too much is unsent.
    fn add_events(&mut self, store: &mut Store) {
        while self.unsent.len() < UNSENT_MAX
            && let Some(event) = store.next_event(self.id)
        {
            let header = Header {
                kind: Kind::WatchEvent as u32,
                ..Header::default()
            };
            let payload = [event.path.as_bytes(), &[0], &event.token, &[0]].concat();
            append(&mut self.unsent, header, &payload);
        }
    }

    fn send(&mut self, stream: &mut dyn Stream) -> Result<(), Over> {
        self.write(stream)?;
        let unsent = !self.unsent.is_empty();
        if unsent != self.awaits_room {
            stream.await_room(unsent)?;
            self.awaits_room = unsent;
            // There may be room since.
            self.write(stream)?;
        }
        Ok(())
    }

    fn write(&mut self, stream: &mut dyn Stream) -> Result<(), Over> {
        let mut sent = 0;
        while let Some(rest) = self.unsent.get(sent..)
            && !rest.is_empty()
        {
            match stream.write(rest) {
                Ok(0) => return Err(Over),
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return Err(Over),
            }
        }
        self.unsent.drain(..sent);
        Ok(())
    }
}
