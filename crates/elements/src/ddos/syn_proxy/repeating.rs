//! A SYN that its server does not answer is sent again, each time after twice as long (RFC 6298, section 5), and
//! in the end its client is reset.

use super::segment::{Made, TTL};
use super::{Phase, Proxied, SYNProxy};
use crate::flow::ip6::{AnyKey, HEADER as HEADER6};
use crate::flow::state::State;
use crate::lists::Lists;
use crate::prelude::*;
use crate::rewriter::flow::Direction;
use crate::rewriter::index::NoMemory;

/// How often a SYN is sent again: after 1, 3, 7, 15 and 31 s. The client is reset after 63 s.
const REPEATS: u8 = 5;
/// Most connections that are looked at in a second.
const TURN: usize = 4096;
/// Most bytes before the IP header that are kept: an Ethernet header with a VLAN tag.
const FRONT_MAX: usize = 18;
const TCP: usize = 20;

/// What is kept of a connection to ask its server again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    /// The tick of the next time.
    due: u32,
    /// How often it was asked again.
    repeats: u8,
    /// What stands before the IP header.
    length: u8,
    front: [u8; FRONT_MAX],
}

impl Asked {
    /// Keeps what a client's packet has before its IP header; `None` if that is too long.
    fn of(packet: &Packet) -> Option<Asked> {
        let length = usize::try_from(packet.network_offset()?).ok()?;
        let mut asked = Asked {
            length: length as u8,
            ..Asked::default()
        };
        let front = asked.front.get_mut(..length)?;
        front.copy_from_slice(packet.data().get(..length)?);
        Some(asked)
    }
}

/// Connections that wait for their servers' answers: a list for each number of repeats, in the order of time.
#[derive(Default)]
pub struct Waiting {
    lists: Lists,
    capacity: u32,
}

impl Waiting {
    pub fn new(capacity: usize) -> Result<Waiting, NoMemory> {
        let lists = Lists::new(capacity + usize::from(REPEATS) + 1).map_err(|_| NoMemory)?;
        Ok(Waiting {
            lists,
            capacity: capacity as u32,
        })
    }

    /// The first connection that was asked again so often.
    fn first(&self, repeats: u8) -> Option<u32> {
        let number = self.lists.next(self.capacity + u32::from(repeats));
        (number < self.capacity).then_some(number)
    }

    /// Has a connection wait for no answer.
    pub fn remove(&mut self, number: u32) {
        self.lists.unlink(number);
    }

    fn append(&mut self, repeats: u8, number: u32) {
        self.lists
            .append(self.capacity + u32::from(repeats), number);
    }
}

impl SYNProxy {
    /// Lets a connection wait for its server's answer, whose client's packet this is.
    pub(super) fn wait(&mut self, number: u32, packet: &Packet) {
        if let Some(asked) = Asked::of(packet) {
            self.wait_again(number, asked);
        }
    }

    fn wait_again(&mut self, number: u32, mut asked: Asked) {
        asked.due = self.table.now().wrapping_add(1 << asked.repeats);
        if let Some(known) = self.proxied.get_mut(number as usize) {
            known.asked = asked;
            self.waiting.append(asked.repeats, number);
        }
    }

    /// Asks the servers again whose time is up, or gives up.
    pub(super) fn ask_again(&mut self, cx: &mut Cx<'_>) {
        for repeats in 0..=REPEATS {
            for _ in 0..TURN {
                let Some((number, known)) = self.first_due(repeats) else {
                    break;
                };
                self.waiting.remove(number);
                let state = self.table.get(number).map(|it| it.state);
                if known.phase == Phase::Opening && state == Some(State::SynSent) {
                    self.repeat(cx, number, &known);
                }
            }
        }
    }

    fn first_due(&self, repeats: u8) -> Option<(u32, Proxied)> {
        let number = self.waiting.first(repeats)?;
        let known = self.proxied.get(number as usize)?;
        let late = self.table.now().wrapping_sub(known.asked.due) as i32;
        (late >= 0).then_some((number, *known))
    }

    fn repeat(&mut self, cx: &mut Cx<'_>, number: u32, known: &Proxied) {
        let mut asked = known.asked;
        let packet = self.blank(cx, number, &asked);
        if asked.repeats < REPEATS {
            // Without memory for a packet, this one is lost.
            if let Some(packet) = packet {
                self.emit(cx, 0, packet, &self.syn(known));
            }
            asked.repeats += 1;
            return self.wait_again(number, asked);
        }
        self.unanswered += 1;
        self.table.touch(number);
        self.set_state(number, State::Reset);
        let reset = Made {
            back: true,
            ..Self::refusal(known)
        };
        if let Some(packet) = packet {
            self.emit(cx, 1, packet, &reset);
        }
    }

    /// A packet from a connection's client to its server, whose TCP header is yet to be made.
    fn blank(&self, cx: &mut Cx<'_>, number: u32, asked: &Asked) -> Option<Packet> {
        let key = self.table.key(number, Direction::Forward)?;
        let front = asked.front.get(..asked.length.into())?;
        let header_len = match key {
            AnyKey::V4(_) => 20,
            AnyKey::V6(_) => HEADER6,
        };
        let mut packet = cx.pool().packet(HEADROOM, front.len() + header_len + TCP)?;
        let (before, rest) = packet.data_mut().split_at_mut_checked(front.len())?;
        before.copy_from_slice(front);
        rest.fill(0);
        let (header, tcp) = rest.split_at_mut_checked(header_len)?;
        match key {
            AnyKey::V4(key) => {
                (header[0], header[3]) = (0x45, (20 + TCP) as u8);
                (header[8], header[9]) = (TTL, IpProtocol::TCP.0);
                header[12..20].copy_from_slice(&key.addresses.to_be_bytes());
            }
            AnyKey::V6(key) => {
                let [source, destination] = key.addresses;
                let ip = Ipv6Header {
                    traffic_class: 0,
                    flow_label: 0,
                    payload_len: TCP as u16,
                    next_header: IpProtocol::TCP,
                    hop_limit: TTL,
                    source,
                    destination,
                };
                *header.first_chunk_mut()? = ip.to_bytes();
            }
        }
        *tcp.first_chunk_mut()? = key.ports().to_be_bytes();
        packet.set_network_header(front.len(), header_len);
        Some(packet)
    }
}
