//! The target of a migration: the node that the guest moves to.

use tokio::io::{AsyncRead, AsyncWrite};

use super::message::{Peer, Tag, parsed};
use crate::error::{Error, Kind, Result};
use crate::service::{Handle, pause};

/// The name of the protocol, to which a connection is upgraded.
pub const PROTOCOL: &str = "weir-migration";

/// Receives a guest that comes `from` another node.
pub async fn receive(
    handle: Handle,
    from: &str,
    stream: impl AsyncRead + AsyncWrite + Unpin,
) -> Result<()> {
    let mut peer = Peer::new(format!("the node of ‘{from}’"), stream);
    let received = arrive(&handle, from, &mut peer).await;
    if let Err(error) = &received {
        // It may be gone.
        let _ = peer.tell(Tag::Refused, error).await;
    }
    received
}

async fn arrive<S>(handle: &Handle, from: &str, peer: &mut Peer<S>) -> Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let arrival = parsed(&peer.expect(Tag::Arrival).await?)?;
    let (id, copy) = handle.run(|node| node.expect_guest(arrival)).await?;
    let arrived = async {
        peer.send(Tag::Ready, &[]).await?;
        loop {
            match peer.next().await? {
                (Tag::Records, records) => {
                    copy.apply(&records).map_err(|_| peer.unexpected())?;
                }
                (Tag::Round, _) => peer.send(Tag::Ready, &[]).await?,
                (Tag::Start, received) => {
                    if let Some(received) = parsed(&received)? {
                        copy.set_received(received);
                    }
                    break;
                }
                _ => return Err(peer.unexpected()),
            }
        }
        drop(copy);
        start(handle, id).await?;
        peer.tell(Tag::Started, &id).await?;
        loop {
            match peer.next().await? {
                (Tag::Frames, frames) => {
                    let (interface, _) = frames
                        .split_first_chunk::<4>()
                        .ok_or_else(|| peer.unexpected())?;
                    let interface = u32::from_le_bytes(*interface) as usize;
                    handle
                        .run(move |node| node.deliver_late(id, interface, &frames[4..]))
                        .await?;
                }
                (Tag::Finish, _) => break,
                _ => return Err(peer.unexpected()),
            }
        }
        let from = from.to_string();
        handle.run(move |node| node.keep_arrived(id, &from)).await
    };
    if let Err(error) = arrived.await {
        // One that was removed by command is gone.
        let _ = handle.run(move |node| node.turn_away(id)).await;
        return Err(error);
    }
    // The guest is this node's, whether that is heard or not.
    let _ = peer.send(Tag::Done, &[]).await;
    Ok(())
}

/// Starts a guest whose copy is filled, and waits until it runs.
async fn start(handle: &Handle, id: u64) -> Result<()> {
    /// Looks at most, with a pause of a millisecond between most of them.
    const LOOKS: u32 = 2000;
    handle.run(move |node| node.start_arrived(id)).await?;
    for look in 0..LOOKS {
        if handle.run(move |node| node.has_arrived(id)).await? {
            return Ok(());
        }
        pause(look).await;
    }
    let sentence = "the guest does not come to run";
    Err(Error::new(Kind::Unavailable, sentence))
}
