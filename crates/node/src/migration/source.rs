//! The source of a migration: the node that the guest leaves.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::lookup_host;
use tokio::time::timeout;

use super::message::{Peer, Tag, in_time, parsed, silent, there};
use super::target::PROTOCOL;
use crate::client::{Endpoint, ask, upgrade};
use crate::error::{Error, Kind, Result};
use crate::host::{Departure, Found};
use crate::model::{Destination, Guest, GuestState, Migrate, Migrated, Object};
use crate::node::{Node, Purpose};
use crate::service::{Handle, finish, pause};
use crate::tls::Files;

/// Most rounds of copying while the guest runs.
const ROUNDS_MAX: u32 = 10;
/// A round of so many bytes is the last one while the guest runs.
const SMALL: u64 = 128 << 10;
/// Bytes of records that are gathered for a message.
const MESSAGE: usize = 1 << 20;
/// Time that the switch has to take the frames that a suspended guest has sent. Frames that are
/// left then go with the guest.
const DRAIN: Duration = Duration::from_millis(2);
/// How long frames that still come here follow a guest that runs there, and the pause between two looks for them.
const LINGER: Duration = Duration::from_millis(20);
const LOOK: Duration = Duration::from_millis(1);
/// How long the target is asked whether it keeps a guest, if its word got lost.
const DOUBT: Duration = Duration::from_secs(5);
/// The pause between two questions.
const AGAIN: Duration = Duration::from_millis(100);

/// Migrates a guest to another node.
pub async fn migrate(handle: &Handle, name: String, migrate: Migrate) -> Result<Migrated> {
    let handle = handle.clone();
    // The client may disconnect; the migration goes on to its end.
    finish(async move {
        let start = Instant::now();
        let to = migrate.to.clone();
        check_address(&to)?;
        let files = handle.run(|node| node.identity()).await?;
        let target = endpoint(&to, &files)?;
        if let Some(own) = handle.run(|node| Ok(node.listens())).await?
            && leads_to(&target, own).await
        {
            return Err(Error::invalid(format_args!(
                "{to} is this node itself: name the node where guest ‘{name}’ is to go on, as HOST:PORT"
            ))
            .of_field("to"));
        }
        let begun = name.clone();
        let begun = handle.run(move |node| node.begin_departure(&begun, &migrate));
        let (arrival, departure) = begun.await?;
        let id = departure.guest;
        let moved = async {
            let named = format!("the node at {to}");
            let stream = in_time(upgrade(&target, "/v1/migration", PROTOCOL)).await;
            let stream = stream.ok_or_else(|| silent(&named))?;
            let stream = stream.map_err(|error| match error.kind {
                // This node is well: the one that was named is not there.
                Kind::Unavailable => Error::refused(error),
                _ => there(&named, error),
            })?;
            let mut peer = Peer::new(named, TokioIo::new(stream));
            peer.tell(Tag::Arrival, &arrival).await?;
            peer.expect(Tag::Ready).await?;
            let mut journey = Journey {
                handle: handle.clone(),
                name,
                to,
                target,
                departure,
                peer,
            };
            let (rounds, while_running) = journey.copy().await?;
            let mut migrated = journey.move_over().await?;
            migrated.rounds = rounds;
            migrated.bytes = journey.peer.sent;
            migrated.last_bytes = journey.peer.sent - while_running;
            migrated.total_ms = start.elapsed().as_secs_f64() * 1e3;
            Ok(migrated)
        };
        let moved = moved.await;
        let forgotten = handle.run(move |node| {
            node.forget_departure(id);
            Ok(())
        });
        forgotten.await?;
        moved
    })
    .await
}

/// A guest on its way.
struct Journey<S> {
    handle: Handle,
    name: String,
    /// The other node, as it was named.
    to: String,
    target: Endpoint,
    departure: Departure,
    peer: Peer<S>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Journey<S> {
    /// Copies the guest while it runs, as long as less and less is left: rounds, and bytes sent.
    async fn copy(&mut self) -> Result<(u32, u64)> {
        let mut last = u64::MAX;
        for round in 1.. {
            let before = self.peer.sent;
            let found = self.departure.look()?;
            self.send(&found, Vec::new()).await?;
            // The guest would otherwise be suspended while the target still writes.
            self.peer.send(Tag::Round, &[]).await?;
            self.peer.expect(Tag::Ready).await?;
            let bytes = self.peer.sent - before;
            if bytes <= SMALL || round == ROUNDS_MAX || bytes >= last {
                return Ok((round, self.peer.sent));
            }
            last = bytes;
        }
        Ok((ROUNDS_MAX, self.peer.sent))
    }

    /// Sends the found pages, behind some records.
    async fn send(&mut self, found: &[Found], mut records: Vec<u8>) -> Result<()> {
        for found in found {
            self.departure.read(found, &mut records)?;
            if records.len() >= MESSAGE {
                self.peer.send(Tag::Records, &records).await?;
                records.clear();
            }
        }
        if records.is_empty() {
            return Ok(());
        }
        self.peer.send(Tag::Records, &records).await
    }

    /// Suspends the guest, and resumes it at the target, or here after a failure.
    async fn move_over(&mut self) -> Result<Migrated> {
        let mut doubt = None;
        let moved = match self.start_there().await {
            Ok((migrated, id)) => match self.finish(id).await {
                Err(error) => match has(&self.target, &self.name, id).await {
                    // It may be that only the word of it got lost.
                    Some(true) => Ok(migrated),
                    Some(false) => Err(error),
                    None => {
                        doubt = Some(self.to.clone());
                        Err(error)
                    }
                },
                Ok(()) => Ok(migrated),
            },
            Err(error) => Err(error),
        };
        let name = self.name.clone();
        if let Err(error) = moved {
            let stay = move |node: &mut Node| node.stay(&name, doubt.as_deref());
            self.handle.run(stay).await?;
            return Err(error.within(|why| format!("guest ‘{}’ goes on here: {why}", self.name)));
        }
        let to = self.to.clone();
        let ended = self.handle.run(move |node| node.end_departure(&name, &to));
        ended.await.and(moved)
    }

    /// Suspends the guest, and waits until it runs at the target. Returns its number there.
    async fn start_there(&mut self) -> Result<(Migrated, u64)> {
        let begun = Instant::now();
        self.handle.suspend(&self.name, Purpose::Departure).await?;
        // All of it together: the guest does not wait for a target that is slow with each message.
        let moved = in_time(self.hand_over(begun)).await;
        moved.unwrap_or_else(|| Err(self.peer.silent()))
    }

    /// Sends the last of the guest, which stands still since a moment after `begun`, and waits until it runs there.
    async fn hand_over(&mut self, begun: Instant) -> Result<(Migrated, u64)> {
        let standing = Instant::now();
        let mut drained = self.departure.is_drained();
        for look in 0.. {
            if drained || standing.elapsed() > DRAIN {
                break;
            }
            pause(look).await;
            drained = self.departure.is_drained();
        }
        let name = self.name.clone();
        let last = self
            .handle
            .run(move |node| node.last_records(&name, drained));
        let records = last.await?;
        // Later frames are no part of the copy: they follow the guest.
        let received = drained.then(|| self.departure.received());
        let found = self.departure.look()?;
        self.send(&found, records).await?;
        self.peer.tell(Tag::Start, &received).await?;
        let number = parsed(&self.peer.expect(Tag::Started).await?)?;
        let mut migrated = Migrated {
            blackout_ms: begun.elapsed().as_secs_f64() * 1e3,
            ..Migrated::default()
        };
        if let Some(mut received) = received {
            // The network's switches learn the guest's new location gradually.
            let start = Instant::now();
            while start.elapsed() < LINGER {
                migrated.late_frames += self.follow(&mut received).await?;
                tokio::time::sleep(LOOK).await;
            }
            let name = self.name.clone();
            let left = self.handle.run(move |node| node.leave_switch(&name));
            left.await?;
            migrated.late_frames += self.follow(&mut received).await?;
        }
        Ok((migrated, number))
    }

    /// Sends the frames that came after the last call. Returns how many.
    async fn follow(&mut self, received: &mut Vec<u32>) -> Result<u64> {
        let (late, now) = self.departure.late_frames(received);
        *received = now;
        let mut count = 0;
        for (interface, frames) in (0u32..).zip(late) {
            if !frames.is_empty() {
                count += switch::late::count(&frames) as u64;
                let message = [&interface.to_le_bytes()[..], &frames].concat();
                self.peer.send(Tag::Frames, &message).await?;
            }
        }
        Ok(count)
    }

    /// Leaves the guest, which has this number there, to the target.
    async fn finish(&mut self, id: u64) -> Result<()> {
        let (name, to) = (self.name.clone(), self.to.clone());
        let noted = move |node: &mut Node| node.note_departure(&name, Destination { to, id });
        self.handle.run(noted).await?;
        self.peer.send(Tag::Finish, &[]).await?;
        self.peer.expect(Tag::Done).await.map(drop)
    }
}

/// Whether a node keeps a guest, which has this number there; none if it cannot be asked.
async fn has(node: &Endpoint, guest: &str, id: u64) -> Option<bool> {
    let asking = async {
        loop {
            match ask::<Object<Guest>>(node, &["guests", guest]).await {
                Ok(there) if there.status.id != id => return false,
                Ok(there) if there.status.state != GuestState::Arriving => return true,
                Err(error) if error.kind == Kind::NotFound => return false,
                Ok(_) | Err(_) => tokio::time::sleep(AGAIN).await,
            }
        }
    };
    timeout(DOUBT, asking).await.ok()
}

/// Finishes the migrations of an earlier node that was killed: asks the target of each departing
/// guest whether the guest is there.
pub async fn finish_departures(handle: Handle) -> Result<()> {
    for (name, Destination { to, id }) in handle.run(|node| node.departures()).await? {
        let target = handle.run(|node| node.identity()).await;
        let target = target.and_then(|files| endpoint(&to, &files));
        let gone = match target {
            Ok(target) => has(&target, &name, id).await,
            Err(error) => {
                tracing::error!("the node at {to} cannot be asked for guest ‘{name}’: {error}");
                None
            }
        };
        let done = handle.run(move |node| match gone {
            Some(true) => node.end_departure(&name, &to),
            Some(false) => node.stay(&name, None),
            None => node.stay(&name, Some(&to)),
        });
        done.await?;
    }
    Ok(())
}

/// A node by its address, `HOST:PORT`.
fn endpoint(to: &str, files: &Files) -> Result<Endpoint> {
    if to.starts_with("https://") {
        return Endpoint::remote(to, files);
    }
    Endpoint::remote(&format!("https://{to}"), files)
}

/// Refuses what is no node's address.
fn check_address(to: &str) -> Result<()> {
    if Endpoint::is_address(to.strip_prefix("https://").unwrap_or(to)) {
        return Ok(());
    }
    Err(Error::invalid(format_args!(
        "‘{to}’ is not a node: it is HOST:PORT, where the node there listens"
    ))
    .of_field("to"))
}

/// Whether a node of the network is the one of this host that listens at `own`.
async fn leads_to(target: &Endpoint, own: SocketAddr) -> bool {
    let Endpoint::Remote { host, port, .. } = target else {
        return false;
    };
    if *port != own.port() {
        return false;
    }
    // An unknown name is reported by the connection attempt.
    let found = timeout(DOUBT, lookup_host((host.as_str(), *port))).await;
    let Ok(Ok(mut found)) = found else {
        return false;
    };
    found.any(|to| {
        // Only an address of this host can be bound to.
        to.ip() == own.ip() || own.ip().is_unspecified() && UdpSocket::bind((to.ip(), 0)).is_ok()
    })
}
