//! Packets to remotes: collected in one buffer, and sent many at a time. Packets of one size to one
//! address go as one.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::packet;
use super::remotes::To;
use crate::counters::{PortCounters, Reason};
use crate::port::whole::Whole;
use crate::port::{BATCH, HEAD};
use crate::sys::udp::{Address, Message, PACKETS_AS_ONE, SENT_AS_ONE, Sender};

/// Bytes of packets to be sent.
const BYTES: usize = 256 << 10;

/// Packets to be sent.
pub(super) struct Outbox {
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

/// One delivery to the remotes.
pub(super) struct VxlanDelivery<'a> {
    pub socket: BorrowedFd<'a>,
    pub header: [u8; packet::HEADER],
    /// Where the frame goes that is being delivered.
    pub to: To,
    pub outbox: &'a mut Outbox,
    pub counters: &'a PortCounters,
}

impl Whole for VxlanDelivery<'_> {
    #[inline]
    fn put(&mut self, len: usize, write: impl FnOnce(&mut [u8])) {
        let whole = packet::HEADER + len;
        if self.outbox.bytes.len() - self.outbox.filled < whole.max(packet::HEADER + HEAD) {
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
    /// Sends the packets in the outbox.
    pub fn flush(&mut self) {
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
    /// An empty outbox for packets to these addresses.
    pub fn new(addresses: Vec<Address>) -> Outbox {
        Outbox {
            sender: Sender::new(),
            addresses,
            bytes: vec![0; BYTES].into(),
            filled: 0,
            runs: Vec::with_capacity(BATCH),
            joins: true,
        }
    }

    /// Replaces the addresses; the outbox is empty between deliveries.
    pub fn set_addresses(&mut self, addresses: Vec<Address>) {
        self.addresses = addresses;
    }

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
