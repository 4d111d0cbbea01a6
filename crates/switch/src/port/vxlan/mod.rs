//! An uplink's port by VXLAN (RFC 7348): frames to and from other hosts in UDP packets.
//!
//! The link is one network (a VNI) between this host and its remotes. Only they are listened to.
//! What is for an address that was seen behind one of them goes there, everything else to each;
//! nothing that came from one goes to another, so a full mesh of hosts has no loop.
//!
//! Packets are never cut below VXLAN: the link's MTU is 1500, or that of the way to the remotes less
//! what is wrapped around a frame if that is less, and a packet that turns out too long for the
//! way is dropped and counted. The kernel is handed many packets of one size as one, and hands many as one, so that
//! a TCP stream costs few calls.

mod open;
pub mod packet;
mod remotes;

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use self::remotes::{Remotes, To};
use super::backend::{Backend, HostBackend, Kind, Opened, Outcome};
use super::offload::{self, ETHERNET, VnetHeader};
use super::whole::{self, Whole};
use super::{BATCH, Batch, Frame};
use crate::counters::{PortCounters, Reason};
use crate::sys::udp::{self, Address, Message, PACKETS_AS_ONE, Receiver, SENT_AS_ONE, Sender};

pub use open::{Vxlan, VxlanError};

/// Bytes of a packet on the way around an IP packet inside: outer IP and UDP, VXLAN, and the
/// frame's Ethernet header. A VLAN tag inside is not counted, as the kernel's VXLAN does not: a
/// tagged frame of full length is too long.
const AROUND_V4: u32 = 20 + AROUND;
const AROUND_V6: u32 = 40 + AROUND;
const AROUND: u32 = 8 + packet::HEADER as u32 + ETHERNET as u32;
/// Most remotes of a link.
pub const REMOTES_MAX: usize = 256;
/// Room for packets to be sent.
const OUTBOX: usize = 256 << 10;

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
    /// The other hosts, one at least.
    pub remotes: Vec<SocketAddr>,
}

/// A UDP socket to other hosts (see [`Vxlan`]).
pub struct VxlanLink {
    socket: OwnedFd,
    vni: u32,
    mtu: u16,
    remotes: Remotes,
    inbox: Inbox,
    outbox: Outbox,
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

/// Packets to be sent.
struct Outbox {
    sender: Sender,
    addresses: Vec<Address>,
    bytes: Box<[u8]>,
    filled: usize,
    runs: Vec<Run>,
    /// The kernel can send many packets as one.
    joins: bool,
}

/// Packets of one size, but perhaps the last, for the same remotes.
#[derive(Clone, Copy)]
struct Run {
    start: usize,
    len: usize,
    size: usize,
    to: To,
}

impl Run {
    /// Whether a packet of `len` bytes for `to` can be sent with these.
    fn takes(&self, len: usize, to: To) -> bool {
        self.to == to
            && len <= self.size
            && self.len.is_multiple_of(self.size)
            && self.len / self.size < PACKETS_AS_ONE
            && self.len + len <= SENT_AS_ONE
    }
}

impl VxlanLink {
    /// A port on a bound UDP socket that does not wait; `mtu` is that of the frames inside. There
    /// is at least one remote.
    pub fn new(socket: OwnedFd, vni: u32, remotes: Vec<SocketAddr>, mtu: u16) -> VxlanLink {
        let addresses = remotes.iter().copied().map(Address::from).collect();
        VxlanLink {
            lost: udp::drops(socket.as_fd()),
            socket,
            vni,
            mtu,
            remotes: Remotes::new(remotes),
            inbox: Inbox {
                receiver: Receiver::new(),
                messages: 0,
                next: 0,
                at: 0,
            },
            outbox: Outbox {
                sender: Sender::new(),
                addresses,
                bytes: vec![0; OUTBOX].into(),
                filled: 0,
                runs: Vec::with_capacity(BATCH),
                joins: true,
            },
        }
    }
}

impl HostBackend for VxlanLink {
    type Record = Tunnel;

    /// With its UDP socket.
    fn attach(tunnel: Tunnel, opened: Opened<'_>) -> Result<Vec<VxlanLink>, String> {
        let Tunnel { vni, remotes } = tunnel;
        if remotes.is_empty() || remotes.len() > REMOTES_MAX {
            return Err(format!("a VXLAN link has 1 to {REMOTES_MAX} remotes"));
        }
        let mtu = opened.mtu;
        let [socket] = opened.exactly()?;
        Ok(vec![VxlanLink::new(socket, vni, remotes, mtu)])
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
            delivery.to = self.remotes.destination(&batch.frames[usize::from(i)].head);
            let longest = SENT_AS_ONE - packet::HEADER;
            whole::deliver(batch, i, self.mtu, longest, &mut delivery);
        }
        delivery.flush();
        Outcome::NOTHING
    }

    fn catch_up(&mut self, counters: &PortCounters) {
        let lost = udp::drops(self.socket.as_fd());
        counters.dropped(Reason::SocketFull, lost.wrapping_sub(self.lost).into());
        self.lost = lost;
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.socket.as_fd()]
    }
}

/// What is left to do on the frame in a packet.
///
/// A kernel on the same machine leaves the checksum inside to hardware that never sees it, and TCP
/// streams in packets of up to 64 KB, to be cut by whoever needs them cut. It does not tell how
/// long the pieces were to be; those of one L2 segment share an MTU, so it is the link's.
fn left_undone(frame: &[u8], mtu: u16) -> VnetHeader {
    let limit = usize::from(mtu) + ETHERNET + offload::tags_len(frame);
    let joined = (frame.len() > limit).then(|| offload::joined(frame, mtu));
    joined
        .flatten()
        .unwrap_or_else(|| offload::unfinished(frame))
}

/// Takes the frame in a packet into the batch's next cell.
fn take(packet: &[u8], vni: u32, mtu: u16, batch: &mut Batch) -> Result<Frame, Reason> {
    let frame = packet::inner(packet, vni).map_err(|_| Reason::BadTunnel)?;
    if frame.len() < ETHERNET {
        return Err(Reason::Runt);
    }
    let i = batch.len;
    batch.stage.room_for_frame(i)[..frame.len()].copy_from_slice(frame);
    batch
        .stage
        .take_whole(i, frame.len(), left_undone(frame, mtu))
}

/// One delivery to the remotes.
struct VxlanDelivery<'a> {
    socket: BorrowedFd<'a>,
    header: [u8; packet::HEADER],
    /// Where the frame goes that is being delivered.
    to: To,
    outbox: &'a mut Outbox,
    counters: &'a PortCounters,
}

impl Whole for VxlanDelivery<'_> {
    #[inline]
    fn put(&mut self, len: usize, write: impl FnOnce(&mut [u8])) {
        let whole = packet::HEADER + len;
        if self.outbox.bytes.len() - self.outbox.filled < whole.max(packet::HEADER + super::HEAD) {
            self.flush();
        }
        let outbox = &mut *self.outbox;
        let start = outbox.filled;
        let (header, room) = outbox.bytes[start..].split_at_mut(packet::HEADER);
        header.copy_from_slice(&self.header);
        write(room);
        outbox.filled += whole;
        match outbox.runs.last_mut() {
            Some(run) if outbox.joins && run.takes(whole, self.to) => run.len += whole,
            _ => outbox.runs.push(Run {
                start,
                len: whole,
                size: whole,
                to: self.to,
            }),
        }
        if outbox.runs.len() == outbox.runs.capacity() {
            self.flush();
        }
    }

    fn counters(&self) -> &PortCounters {
        self.counters
    }
}

impl VxlanDelivery<'_> {
    /// Sends what is in the outbox.
    fn flush(&mut self) {
        let remotes = self.outbox.addresses.len() as u16;
        let mut plan = Plan::EMPTY;
        let mut runs = std::mem::take(&mut self.outbox.runs);
        for run in &runs {
            let to = match run.to {
                To::One(remote) => remote..remote + 1,
                To::All => 0..remotes,
            };
            for (copy, to) in to.enumerate() {
                if plan.filled == BATCH {
                    self.send(&plan);
                    plan = Plan::EMPTY;
                }
                plan.messages[plan.filled] = Message {
                    start: run.start,
                    len: run.len,
                    size: run.size,
                    to,
                };
                // A frame for each remote is one frame.
                plan.counts[plan.filled] = copy == 0;
                plan.filled += 1;
            }
        }
        self.send(&plan);
        runs.clear();
        self.outbox.runs = runs;
        self.outbox.filled = 0;
    }

    /// Sends messages, and counts what the kernel takes and what it refuses.
    fn send(&mut self, plan: &Plan) {
        let (mut at, mut frames, mut bytes) = (0, 0, 0);
        let messages = &plan.messages[..plan.filled];
        while at < messages.len() {
            match self.outbox.send(self.socket, &messages[at..]) {
                Ok(n) => {
                    let sent = messages[at..].iter().zip(&plan.counts[at..]).take(n);
                    for (message, _) in sent.filter(|(_, counts)| **counts) {
                        frames += message.packets();
                        bytes += message.len as u64 - message.packets() * packet::HEADER as u64;
                    }
                    at += n.max(1);
                }
                Err(Errno::INTR) => {}
                Err(Errno::IO) if messages[at].packets() > 1 => {
                    // The way's interface computes no checksums: from now on, one by one.
                    self.outbox.joins = false;
                    self.send_singly(&messages[at]);
                    at += 1;
                }
                Err(error) => {
                    self.counters
                        .dropped(refusal(error), messages[at].packets());
                    at += 1;
                }
            }
        }
        self.counters.went_out(frames, bytes);
    }

    /// Sends the packets of a message as that many messages.
    fn send_singly(&mut self, message: &Message) {
        for from in (0..message.len).step_by(message.size) {
            let len = message.size.min(message.len - from);
            let single = Message {
                start: message.start + from,
                len,
                ..*message
            };
            match self.outbox.send(self.socket, &[single]) {
                Ok(_) => self.counters.went_out(1, (len - packet::HEADER) as u64),
                Err(error) => self.counters.dropped(refusal(error), 1),
            }
        }
    }
}

impl Outbox {
    fn send(&mut self, socket: BorrowedFd<'_>, messages: &[Message]) -> Result<usize, Errno> {
        self.sender
            .send(socket, &self.bytes, messages, &self.addresses)
    }
}

/// Messages for one call, and which of them are counted.
struct Plan {
    messages: [Message; BATCH],
    counts: [bool; BATCH],
    filled: usize,
}

impl Plan {
    const EMPTY: Plan = Plan {
        messages: [Message {
            start: 0,
            len: 0,
            size: 1,
            to: 0,
        }; BATCH],
        counts: [true; BATCH],
        filled: 0,
    };
}

/// Why the kernel would not take a packet.
fn refusal(error: Errno) -> Reason {
    match error {
        Errno::MSGSIZE | Errno::INVAL => Reason::TooLong,
        Errno::NETDOWN | Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::PERM => Reason::LinkDown,
        _ => Reason::NoBuffer,
    }
}
