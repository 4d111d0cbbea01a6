//! How connections begin: a cookie for each SYN, a SYN to the server for each cookie that comes back, and the client
//! may send when the server has answered.

use super::cookie::Abilities;
use super::segment::{Change, Made, Options, Segment, scaled};
use super::{CLIENTS_OUT, Fate, Flow, Phase, Proxied, SERVERS_OUT, SYNProxy};
use crate::flow::state::{ACK, RST, SYN, State};
use crate::flow::windows::{SegmentNumbers, TcpWindows};
use crate::prelude::*;
use crate::rewriter::flow::Direction;

/// The segment sizes of a client that does not say, over IPv4 and IPv6 (RFC 9293, section 3.7.1).
const SIZES_DEFAULT: [u16; 2] = [536, 1220];
/// By how much the header of IPv6 is longer.
const LONGER: u16 = 20;

fn is_group(address: IpAddr) -> bool {
    address.is_multicast() || address.is_unspecified() || address == IpAddr::V4(Ipv4Addr::BROADCAST)
}

impl SYNProxy {
    /// Milliseconds, as timestamps count.
    fn clock(cx: &Cx<'_>) -> u32 {
        (cx.steady().0 / 1_000_000) as u32
    }

    /// Answers a SYN.
    pub(super) fn answer(&mut self, cx: &mut Cx<'_>, flow: &Flow, packet: &mut Packet) -> Fate {
        let key = flow.key();
        let ends = [key.source(), key.reverse().source()];
        let asked = Segment::of(packet).filter(|_| !ends.into_iter().any(is_group));
        let Some(asked) = asked else {
            return Fate::Invalid;
        };
        let is_ip6 = flow.pair.is_some();
        let largest = self.mss - if is_ip6 { LONGER } else { 0 };
        let abilities = asked.stamps.filter(|_| self.timestamps).map(|_| Abilities {
            scale: asked.scale,
            sack: asked.sack && self.sack,
        });
        let size = asked.size.unwrap_or(SIZES_DEFAULT[usize::from(is_ip6)]);
        let size = size.min(largest);
        let cookie = self.keys.make(key, asked.sequence, size, abilities);
        let can = abilities.unwrap_or(Abilities::NONE);
        let stamps = abilities.zip(asked.stamps);
        let stamps = stamps.map(|(can, (value, _))| (can.timestamp(Self::clock(cx)), value));
        let made = Made {
            back: true,
            sequence: cookie,
            acknowledgment: asked.sequence.wrapping_add(1),
            flags: TcpFlags::SYN | TcpFlags::ACK,
            // The client waits for the server.
            window: 0,
            options: Options::new()
                .size(largest)
                .sack(can.sack)
                .stamps(stamps)
                .scale(can.scale.map(|_| self.scale)),
        };
        if made.replace(packet).is_none() {
            return Fate::Invalid;
        }
        self.cookies += 1;
        CLIENTS_OUT
    }

    /// The connection whose client answers with a valid cookie.
    pub(super) fn cookie(&self, flow: &Flow, packet: &Packet) -> Option<Proxied> {
        let key = flow.key();
        let answer = Segment::of(packet)?;
        let stamps = answer.stamps.filter(|_| self.timestamps);
        let abilities = stamps.map(|(_, echo)| Abilities::of_timestamp(echo));
        let cookie = answer.acknowledgment.wrapping_sub(1);
        // A probe of the window has the number before.
        let (client, size) = [answer.sequence.wrapping_sub(1), answer.sequence]
            .into_iter()
            .find_map(|client| {
                let size = self.keys.check(key, client, cookie, abilities);
                size.map(|size| (client, size))
            })?;
        let can = abilities.unwrap_or(Abilities::NONE);
        Some(Proxied {
            phase: Phase::Opening,
            client,
            cookie,
            size,
            window: answer.window,
            scale: can.scale,
            sack: can.sack,
            stamps,
            ..Proxied::default()
        })
    }

    /// Begins a connection if a segment has a valid cookie.
    #[cold]
    pub(super) fn open(&mut self, flags: u8, flow: &Flow, packet: &mut Packet) -> Fate {
        if flags & (SYN | RST | ACK) != ACK {
            return Fate::Invalid;
        }
        match self.cookie(flow, packet) {
            Some(new) => self.begin(flow, new, packet),
            None => Fate::Invalid,
        }
    }

    /// Gives a connection a place in the table; returns its number.
    fn add(&mut self, flow: &Flow, new: Proxied) -> Option<u32> {
        let timeout = self.timeouts.of(State::SynSent);
        let evicted = &mut self.evicted;
        let (protocol, key, hash) = (flow.probe.protocol, flow.probe.key, flow.probe.hash);
        let evicts = |_| *evicted += 1;
        let number = match flow.pair {
            None => self.table.add(protocol, key, hash, timeout, evicts),
            Some(pair) => self.table.add6(protocol, key, hash, pair, timeout, evicts),
        }?;
        self.table.set_state(number, State::SynSent, timeout);
        self.waiting.remove(number);
        if let Some(known) = self.proxied.get_mut(number as usize) {
            *known = new;
        }
        Some(number)
    }

    /// Begins a connection, and asks its server.
    pub(super) fn begin(&mut self, flow: &Flow, new: Proxied, packet: &mut Packet) -> Fate {
        let Some(number) = self.add(flow, new) else {
            return Fate::Full;
        };
        self.opened += 1;
        self.wait(number, packet);
        self.ask(&new, packet).unwrap_or(Fate::Invalid)
    }

    /// Makes a client's segment the SYN to its server.
    fn ask(&self, known: &Proxied, packet: &mut Packet) -> Option<Fate> {
        self.syn(known).replace(packet)?;
        Some(SERVERS_OUT)
    }

    /// The SYN to a client's server.
    pub(super) fn syn(&self, known: &Proxied) -> Made {
        Made {
            back: false,
            sequence: known.client,
            acknowledgment: 0,
            flags: TcpFlags::SYN,
            window: scaled(known.window, known.scale.unwrap_or(0) as i8),
            options: Options::new()
                .size(known.size)
                .sack(known.sack)
                .stamps(known.stamps.map(|(value, _)| (value, 0)))
                .scale(known.scale),
        }
    }

    /// Notes a connection that a server opens.
    #[cold]
    pub(super) fn pass(&mut self, flow: &Flow, packet: &Packet) -> Fate {
        let Some(number) = self.add(flow, Proxied::default()) else {
            return Fate::Full;
        };
        if let Some(syn) = SegmentNumbers::of(packet) {
            self.table.note(number, Direction::Forward, &syn);
        }
        self.passed += 1;
        CLIENTS_OUT
    }

    /// A segment of a connection whose server is asked.
    pub(super) fn opening(
        &mut self,
        cx: &mut Cx<'_>,
        number: u32,
        known: &Proxied,
        direction: Direction,
        flags: u8,
        packet: &mut Packet,
    ) -> Option<Fate> {
        let segment = Segment::of(packet)?;
        let resets = flags & RST != 0;
        match (direction, resets) {
            (Direction::Forward, true) => {
                // A forged one does not know its number.
                if segment.sequence.wrapping_sub(known.client) > 1 {
                    return Some(Fate::Invalid);
                }
                self.set_state(number, State::Reset);
                Some(SERVERS_OUT)
            }
            // The client waits.
            (Direction::Forward, false) => {
                let (window, stamps) = (segment.window, segment.stamps);
                let known = self.proxied.get_mut(number as usize)?;
                known.window = window;
                if let (Some(had), Some((value, _))) = (&mut known.stamps, stamps) {
                    had.0 = value;
                }
                let known = *known;
                self.ask(&known, packet)
            }
            (Direction::Reply, true) => {
                // Only an answer to the SYN refuses it.
                if segment.acknowledgment != known.client.wrapping_add(1) {
                    return Some(Fate::Invalid);
                }
                self.refused += 1;
                self.refuse(number, known, packet)
            }
            (Direction::Reply, false) if flags & (SYN | ACK) != SYN | ACK => {
                // It has a former connection: it ends that, and answers the next SYN (RFC 9293, section 3.5.1).
                let made = Made {
                    back: true,
                    sequence: segment.acknowledgment,
                    acknowledgment: 0,
                    flags: TcpFlags::RST,
                    window: 0,
                    options: Options::new(),
                };
                made.replace(packet)?;
                Some(SERVERS_OUT)
            }
            (Direction::Reply, false) => self.accept(cx, number, known, &segment, packet),
        }
    }

    /// Tells a client that its connection ends.
    fn refuse(&mut self, number: u32, known: &Proxied, packet: &mut Packet) -> Option<Fate> {
        self.set_state(number, State::Reset);
        Self::refusal(known).replace(packet)?;
        Some(CLIENTS_OUT)
    }

    /// The reset of a client, in place of a packet of its server.
    pub(super) fn refusal(known: &Proxied) -> Made {
        Made {
            back: false,
            sequence: known.cookie.wrapping_add(1),
            acknowledgment: known.client.wrapping_add(1),
            flags: TcpFlags::RST | TcpFlags::ACK,
            window: 0,
            options: Options::new(),
        }
    }

    /// Takes a server's answer: it is acknowledged, and the client may send.
    #[cold]
    fn accept(
        &mut self,
        cx: &mut Cx<'_>,
        number: u32,
        known: &Proxied,
        answer: &Segment,
        packet: &mut Packet,
    ) -> Option<Fate> {
        let next = known.client.wrapping_add(1);
        if answer.acknowledgment != next {
            return None;
        }
        let mut confirmation = cx.pool().clone(packet)?;
        let told = match (known.stamps, answer.stamps) {
            (Some(stamps), Some((value, _))) => Some((stamps, value)),
            (None, _) => None,
            (Some(_), None) => {
                self.mismatches += 1;
                let end = Made {
                    back: true,
                    sequence: next,
                    acknowledgment: 0,
                    flags: TcpFlags::RST,
                    window: 0,
                    options: Options::new(),
                };
                self.emit(cx, 0, confirmation, &end);
                return self.refuse(number, known, packet);
            }
        };
        let offset = known.cookie.wrapping_sub(answer.sequence);
        let stamp_offset = told.map_or(0, |((_, echo), value)| echo.wrapping_sub(value));
        let announced = known.scale.map_or(0, |_| self.scale) as i8;
        let from_client = Change {
            sequence: 0,
            acknowledgment: offset.wrapping_neg(),
            stamps: [0, stamp_offset.wrapping_neg()],
            // A server that does not scale reads windows as they stand.
            window: match answer.scale {
                None => known.scale.unwrap_or(0) as i8,
                Some(_) => 0,
            },
        };
        let to_client = Change {
            sequence: offset,
            acknowledgment: 0,
            stamps: [stamp_offset, 0],
            window: answer.scale.unwrap_or(0) as i8 - announced,
        };
        let made = Made {
            back: true,
            sequence: next,
            acknowledgment: answer.sequence.wrapping_add(1),
            flags: TcpFlags::ACK,
            window: scaled(known.window, from_client.window),
            options: Options::new().stamps(told.map(|((own, _), value)| (own, value))),
        };
        confirmation.clear_annotations();
        self.emit(cx, 0, confirmation, &made);
        let update = Made {
            back: false,
            sequence: known.cookie.wrapping_add(1),
            acknowledgment: next,
            flags: TcpFlags::ACK,
            // The window of a SYN is not scaled (RFC 7323, section 2.2).
            window: scaled(answer.window, -announced).max(1),
            options: Options::new().stamps(told.map(|((own, echo), _)| (echo, own))),
        };
        update.replace(packet)?;
        let known = self.proxied.get_mut(number as usize)?;
        known.phase = Phase::Open;
        known.changes = [from_client, to_client];
        let (window, scales) = (known.window, [known.scale, answer.scale]);
        let [there, back] = scales.map(|scale| scale.unwrap_or(0));
        self.table.set_windows(
            number,
            TcpWindows::opened([
                (next, answer.window >> back, Some(there)),
                (answer.sequence.wrapping_add(1), window, Some(back)),
            ]),
        );
        self.set_state(number, State::Established);
        Some(CLIENTS_OUT)
    }

    /// Sends a segment in another packet by an output.
    pub(super) fn emit(&self, cx: &mut Cx<'_>, output: usize, mut packet: Packet, made: &Made) {
        match made.replace(&mut packet) {
            Some(()) => cx.emit(output, packet),
            None => cx.kill(packet),
        }
    }

    /// Acknowledges a server's answer that came again.
    #[cold]
    pub(super) fn confirm(&mut self, known: &Proxied, packet: &mut Packet) -> Option<Fate> {
        let answer = Segment::of(packet)?;
        let offset = known.changes[Direction::Reply as usize].sequence;
        if answer.sequence.wrapping_add(offset) != known.cookie {
            return None;
        }
        let stamps = known.stamps.zip(answer.stamps);
        let made = Made {
            back: true,
            sequence: known.client.wrapping_add(1),
            acknowledgment: answer.sequence.wrapping_add(1),
            flags: TcpFlags::ACK,
            window: scaled(known.window, known.changes[0].window),
            options: Options::new().stamps(stamps.map(|((own, _), (value, _))| (own, value))),
        };
        made.replace(packet)?;
        Some(SERVERS_OUT)
    }
}
