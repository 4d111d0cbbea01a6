//! Messages between two nodes: a tag (u8), a length (u32, little-endian), and that many bytes.

use std::io;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::error::{Error, Result};

/// Longest message, in bytes: the late frames of an interface, or what describes a guest.
const LENGTH_MAX: usize = switch::late::BYTES_MAX + 4;
/// How long the other node may be silent.
const SILENCE: Duration = Duration::from_secs(5);

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Tag {
    /// The guest's description (JSON).
    Arrival = 1,
    /// Parts of its memory.
    Records = 2,
    /// A round is at its end: the target is ready for the next one when it has done with this.
    Round = 6,
    /// How many slots of each receive ring are its own (JSON).
    Start = 3,
    /// The number of an interface (u32, little-endian), and late frames.
    Frames = 4,
    /// The guest is the target's.
    Finish = 5,
    /// The target expects the guest.
    Ready = 16,
    /// The guest runs at the target: its number there (JSON).
    Started = 17,
    /// The target keeps it.
    Done = 18,
    /// Why it does not (JSON).
    Refused = 19,
}

impl Tag {
    const ALL: [Tag; 10] = [
        Tag::Round,
        Tag::Arrival,
        Tag::Records,
        Tag::Start,
        Tag::Frames,
        Tag::Finish,
        Tag::Ready,
        Tag::Started,
        Tag::Done,
        Tag::Refused,
    ];
}

/// A connection to the other node.
pub(super) struct Peer<S> {
    stream: S,
    /// The other node, as errors name it.
    node: String,
    /// Bytes sent so far.
    pub(super) sent: u64,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Peer<S> {
    pub(super) fn new(node: impl Into<String>, stream: S) -> Peer<S> {
        Peer {
            stream,
            node: node.into(),
            sent: 0,
        }
    }

    /// Sends a message.
    pub(super) async fn send(&mut self, tag: Tag, bytes: &[u8]) -> Result<()> {
        let mut head = [tag as u8, 0, 0, 0, 0];
        head[1..].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        let send = async {
            self.stream.write_all(&head).await?;
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        };
        let sent = timeout(SILENCE, send).await;
        let sent = sent.map_err(|_| silent(&self.node))?;
        sent.map_err(|error: io::Error| lost(&self.node, &error))?;
        self.sent += (head.len() + bytes.len()) as u64;
        Ok(())
    }

    /// Sends a message of JSON.
    pub(super) async fn tell(&mut self, tag: Tag, what: &impl Serialize) -> Result<()> {
        let bytes = serde_json::to_vec(what).map_err(Error::failed)?;
        self.send(tag, &bytes).await
    }

    /// The next message; a refusal is an error.
    pub(super) async fn next(&mut self) -> Result<(Tag, Vec<u8>)> {
        let next = timeout(SILENCE, self.receive()).await;
        next.map_err(|_| silent(&self.node))?
    }

    async fn receive(&mut self) -> Result<(Tag, Vec<u8>)> {
        let mut head = [0; 5];
        let read = self.stream.read_exact(&mut head).await;
        read.map_err(|error| lost(&self.node, &error))?;
        let [tag, length @ ..] = head;
        let length = u32::from_le_bytes(length) as usize;
        let tag = Tag::ALL.into_iter().find(|known| *known as u8 == tag);
        let Some(tag) = tag.filter(|_| length <= LENGTH_MAX) else {
            return Err(self.unexpected());
        };
        let mut bytes = Vec::new();
        // The length may be a lie: memory is taken as it comes.
        let mut stream = (&mut self.stream).take(length as u64);
        let read = stream.read_to_end(&mut bytes).await;
        read.map_err(|error| lost(&self.node, &error))?;
        if bytes.len() < length {
            return Err(lost(&self.node, &"it ended within a message"));
        }
        match tag {
            Tag::Refused => Err(there(&self.node, parsed(&bytes)?)),
            _ => Ok((tag, bytes)),
        }
    }

    /// The next message, which must have this tag.
    pub(super) async fn expect(&mut self, wanted: Tag) -> Result<Vec<u8>> {
        match self.next().await? {
            (tag, bytes) if tag == wanted => Ok(bytes),
            _ => Err(self.unexpected()),
        }
    }

    /// The other node sent what does not belong here.
    pub(super) fn unexpected(&self) -> Error {
        Error::refused(format_args!(
            "{} sent something unexpected: is it of the same version?",
            self.node
        ))
    }

    /// The other node let the time of [`in_time`] pass.
    pub(super) fn silent(&self) -> Error {
        silent(&self.node)
    }
}

/// An error of the other node, which is not to be taken for one of this node.
pub(super) fn there(node: &str, error: Error) -> Error {
    error.within(|why| format!("{node} refused: {why}"))
}

/// Parses a message of JSON.
pub(super) fn parsed<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes)
        .map_err(|error| Error::invalid(format_args!("a message of the other node: {error}")))
}

/// Waits for work of the other node, for as long as it may be silent; `None` after that time.
pub(super) async fn in_time<T>(work: impl Future<Output = T>) -> Option<T> {
    timeout(SILENCE, work).await.ok()
}

/// The error for a node that does not answer, or does not read.
pub(super) fn silent(node: &str) -> Error {
    Error::refused(format_args!(
        "{node} was silent for {} s: look whether it runs (`weir node --status` there), and whether the network between the two nodes loses packets",
        SILENCE.as_secs()
    ))
}

fn lost(node: &str, why: &dyn std::fmt::Display) -> Error {
    Error::refused(format_args!(
        "the connection to {node} broke ({why}): look whether it runs (`weir node --status` there)"
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8]) -> Result<(Tag, Vec<u8>)> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        let (reading, mut writing) = tokio::io::duplex(1 << 20);
        runtime.unwrap().block_on(async {
            writing.write_all(bytes).await.unwrap();
            drop(writing);
            Peer::new("the node", reading).next().await
        })
    }

    #[test]
    fn a_message_is_read_as_it_was_sent() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        let (a, b) = tokio::io::duplex(1 << 20);
        let (mut a, mut b) = (Peer::new("the node at a", a), Peer::new("the node at b", b));
        runtime.unwrap().block_on(async {
            a.send(Tag::Records, &[7; 1000]).await.unwrap();
            a.tell(Tag::Refused, &Error::refused("no")).await.unwrap();
            a.send(Tag::Done, &[]).await.unwrap();
            assert_eq!(b.expect(Tag::Records).await.unwrap(), [7; 1000]);
            assert_eq!(
                b.next().await.unwrap_err().error,
                "the node at b refused: no"
            );
            assert!(b.expect(Tag::Ready).await.is_err());
        });
        assert_eq!(
            a.sent,
            3 * 5 + 1000 + serde_json::to_vec(&Error::refused("no")).unwrap().len() as u64
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Ok((_, read)) = read(&bytes) {
                prop_assert_eq!(&read, &bytes[5..5 + read.len()]);
            }
        }
    }
}
