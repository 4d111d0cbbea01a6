//! An uplink's port by VXLAN (RFC 7348): frames to and from other hosts in UDP packets.
//!
//! The link is one network (a VNI) between this host and its remotes. Packets from other hosts are
//! ignored. A frame for an address that was seen behind a remote, or is told to be there, goes to
//! that remote; all other frames go to each. An ARP request for an IP address that is told with an
//! address is answered here, as if by its owner. No frame from one remote goes to another, so a full mesh of hosts has no loop.
//!
//! Remotes and addresses may change while the link is attached.
//!
//! Packets are never fragmented below VXLAN. The link's MTU is 1500, or the MTU of the path to the
//! remotes less the encapsulation, if that is less. A packet too long for the path is dropped and
//! counted. The kernel takes many packets of one size in one call, and delivers many in one, so
//! that a TCP stream costs few calls.

mod open;
mod outbox;
pub mod packet;
mod remotes;

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use self::outbox::{Outbox, VxlanDelivery};
use self::remotes::{ARP_FRAME, Remotes, To};
use super::backend::{Attachment, Backend, HostBackend, Kind, Outcome};
use super::offload::{self, ETHERNET, VnetHeader};
use super::{BATCH, Batch, Frame};
use super::{LinkRecord, whole};
use crate::counters::{PortCounters, Reason};
use crate::mac::Mac;
use crate::sys::udp::{self, Address, Receiver, SENT_AS_ONE};

pub use open::{Vxlan, VxlanError};

/// Bytes of a packet on the way around an IP packet inside: outer IP and UDP, VXLAN, and the
/// frame's Ethernet header. A VLAN tag inside is not counted, as the kernel's VXLAN does not: a
/// tagged frame of full length is too long.
const AROUND_V4: u32 = 20 + AROUND;
const AROUND_V6: u32 = 40 + AROUND;
const AROUND: u32 = 8 + packet::HEADER as u32 + ETHERNET as u32;
/// Most remotes of a link.
pub const REMOTES_MAX: usize = 256;
/// Most addresses that are told of the remotes of a link.
pub const NEIGHBORS_MAX: usize = 2048;

/// Largest IP packet inside where the way takes packets of `path` bytes to `remote`.
pub fn inner_mtu(path: u32, remote: SocketAddr) -> u16 {
    let around = if remote.is_ipv4() {
        AROUND_V4
    } else {
        AROUND_V6
    };
    u16::try_from(path.saturating_sub(around)).unwrap_or(u16::MAX)
}

/// What a VXLAN link's socket does not say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tunnel {
    /// The network's number.
    pub vni: u32,
    /// The other hosts.
    pub remotes: Vec<SocketAddr>,
    /// Addresses that are behind them.
    #[serde(default)]
    pub neighbors: Vec<Neighbor>,
}

/// An address that is behind a remote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbor {
    /// The address.
    pub mac: Mac,
    /// The number of the remote.
    pub remote: u16,
    /// Its IP addresses.
    #[serde(default)]
    pub ips: Vec<Ipv4Addr>,
}

impl Tunnel {
    fn check(&self) -> Result<(), String> {
        let (remotes, neighbors) = (self.remotes.len(), self.neighbors.len());
        match (remotes <= REMOTES_MAX, neighbors <= NEIGHBORS_MAX) {
            (true, true) => Ok(()),
            (false, _) => Err(format!(
                "a VXLAN link has {REMOTES_MAX} remotes at most, not {remotes}"
            )),
            (_, false) => Err(format!(
                "a VXLAN link has {NEIGHBORS_MAX} neighbors at most, not {neighbors}"
            )),
        }
    }
}

/// A UDP socket to other hosts (see [`Vxlan`]).
pub struct VxlanLink {
    socket: OwnedFd,
    vni: u32,
    mtu: u16,
    remotes: Remotes,
    inbox: Inbox,
    outbox: Outbox,
    /// Answers to ARP requests, which come in as if from the remotes.
    answers: Vec<[u8; ARP_FRAME]>,
    /// Packets that the socket's full queue had dropped when it was last asked.
    lost: u32,
}

/// Messages received, and how far they are dealt with.
struct Inbox {
    receiver: Receiver,
    /// Messages there.
    messages: usize,
    /// The message to go on with, and where in it.
    next: usize,
    at: usize,
}

impl VxlanLink {
    /// A port on a bound UDP socket that does not wait; `mtu` is that of the frames inside.
    fn new(socket: OwnedFd, tunnel: Tunnel, mtu: u16) -> VxlanLink {
        let Tunnel {
            vni,
            remotes,
            neighbors,
        } = tunnel;
        let addresses = outer(&remotes);
        VxlanLink {
            lost: udp::drops(socket.as_fd()),
            socket,
            vni,
            mtu,
            remotes: Remotes::new(remotes, neighbors),
            inbox: Inbox {
                receiver: Receiver::new(),
                messages: 0,
                next: 0,
                at: 0,
            },
            outbox: Outbox::new(addresses),
            answers: Vec::with_capacity(BATCH),
        }
    }
}

/// Where packets to remotes go.
fn outer(remotes: &[SocketAddr]) -> Vec<Address> {
    remotes.iter().copied().map(Address::from).collect()
}

impl HostBackend for VxlanLink {
    type Record = Tunnel;

    /// With its UDP socket.
    fn attach(tunnel: Tunnel, link: Attachment<'_>) -> Result<Vec<VxlanLink>, String> {
        tunnel.check()?;
        let mtu = link.mtu;
        let [socket] = link.exactly()?;
        Ok(vec![VxlanLink::new(socket, tunnel, mtu)])
    }
}

impl Kind for VxlanLink {
    const UPLINK: bool = true;
}

impl Backend for VxlanLink {
    fn mtu(&self) -> u16 {
        self.mtu
    }

    fn set_mtu(&mut self, mtu: u16) {
        self.mtu = mtu;
    }

    fn receive(&mut self, batch: &mut Batch, counters: &PortCounters) -> Outcome {
        let mut outcome = Outcome::NOTHING;
        self.remotes.tick();
        while batch.len < BATCH
            && let Some(answer) = self.answers.pop()
        {
            outcome.busy = true;
            match take_frame(&answer, self.mtu, batch) {
                Ok(frame) => batch.push(frame),
                Err(reason) => counters.dropped(reason, 1),
            }
        }
        if self.inbox.next == self.inbox.messages {
            self.inbox.next = 0;
            self.inbox.messages = match self.inbox.receiver.receive(self.socket.as_fd()) {
                Ok(messages) => messages,
                Err(Errno::AGAIN) => 0,
                // What the network has to say of an earlier packet.
                Err(_) => return Outcome::BUSY,
            };
        }
        while batch.len < BATCH && !batch.is_enough() && self.inbox.next < self.inbox.messages {
            outcome.busy = true;
            let message = self.inbox.receiver.message(self.inbox.next);
            let rest = message.bytes.get(self.inbox.at..).unwrap_or_default();
            let packet = &rest[..rest.len().min(message.size)];
            let from = message.from.and_then(|from| self.remotes.number(from));
            match from {
                Some(remote) => match take(packet, self.vni, self.mtu, batch) {
                    Ok(frame) => {
                        self.remotes.learn(&frame.head, remote);
                        batch.push(frame);
                    }
                    Err(reason) => counters.dropped(reason, 1),
                },
                None => counters.dropped(Reason::UnknownRemote, 1),
            }
            self.inbox.at += packet.len();
            if packet.len() == rest.len() {
                self.inbox.at = 0;
                self.inbox.next += 1;
            }
        }
        outcome
    }

    fn send(&mut self, batch: &mut Batch, which: &[u16], counters: &PortCounters) -> Outcome {
        self.remotes.tick();
        let mut delivery = VxlanDelivery {
            socket: self.socket.as_fd(),
            header: packet::header(self.vni),
            to: To::All,
            outbox: &mut self.outbox,
            counters,
        };
        for &i in which {
            let head = &batch.frames[usize::from(i)].head;
            if self.answers.len() < BATCH
                && let Some(answer) = self.remotes.answer(head)
            {
                self.answers.push(answer);
                continue;
            }
            delivery.to = self.remotes.destination(head);
            let longest = SENT_AS_ONE - packet::HEADER;
            whole::deliver(batch, i, self.mtu, longest, &mut delivery);
        }
        delivery.flush();
        Outcome {
            busy: !self.answers.is_empty(),
            ..Outcome::NOTHING
        }
    }

    fn catch_up(&mut self, counters: &PortCounters) {
        let lost = udp::drops(self.socket.as_fd());
        counters.dropped(Reason::SocketFull, lost.wrapping_sub(self.lost).into());
        self.lost = lost;
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.socket.as_fd()]
    }

    /// The number of the network and the socket stay.
    fn set_record(&mut self, record: &LinkRecord) -> Result<(), String> {
        let LinkRecord::Vxlan(tunnel) = record else {
            return Err("it is a VXLAN link".into());
        };
        tunnel.check()?;
        self.outbox.set_addresses(outer(&tunnel.remotes));
        self.remotes
            .set(tunnel.remotes.clone(), tunnel.neighbors.clone());
        Ok(())
    }
}

/// The offload header of the frame in a packet.
///
/// A kernel on the same machine leaves the checksum inside to hardware that never sees it, and TCP
/// streams in packets of up to 64 KB, to be cut by the first hop that needs them cut. The segment
/// size is not told; hosts of one L2 segment share an MTU, so it is the link's.
fn offloads(frame: &[u8], mtu: u16) -> VnetHeader {
    let limit = usize::from(mtu) + ETHERNET + offload::tags_len(frame);
    let joined = (frame.len() > limit).then(|| offload::joined(frame, mtu));
    joined
        .flatten()
        .unwrap_or_else(|| offload::unfinished(frame))
}

/// Takes the frame in a packet into the batch's next cell.
fn take(packet: &[u8], vni: u32, mtu: u16, batch: &mut Batch) -> Result<Frame, Reason> {
    let frame = packet::inner(packet, vni).map_err(|_| Reason::BadTunnel)?;
    take_frame(frame, mtu, batch)
}

/// Takes a frame into the batch's next cell.
fn take_frame(frame: &[u8], mtu: u16, batch: &mut Batch) -> Result<Frame, Reason> {
    if frame.len() < ETHERNET {
        return Err(Reason::Runt);
    }
    let i = batch.len;
    batch.stage.room_for_frame(i)[..frame.len()].copy_from_slice(frame);
    batch.stage.take_whole(i, frame.len(), offloads(frame, mtu))
}
