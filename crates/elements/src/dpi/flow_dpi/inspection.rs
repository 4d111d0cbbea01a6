//! Looking at the first packets of a flow, until it is decided on.

use super::{FlowDPI, State};
use crate::dpi::guess::{Found, Guess};
use crate::dpi::protocol::Protocol;
use crate::dpi::recognize;
use crate::dpi::{hello, quic};
use crate::flow::stream::Streams;
use crate::prelude::*;
use crate::rewriter::headers;

/// Datagrams of a UDP flow that are looked at.
const DATAGRAMS: u8 = 8;
/// Segments with data of a connection that are waited for when one side's bytes tell nothing.
const SEGMENTS: u8 = 16;

impl FlowDPI {
    /// Looks at a packet of a flow that is not decided on.
    #[cold]
    pub(super) fn inspect(&mut self, flow: u32, packet: &Packet) {
        let Some((ip, rest)) = headers::parts(packet) else {
            return;
        };
        let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
        let length = total.saturating_sub(packet.network_header_len());
        let transport = rest.get(..length).unwrap_or(rest);
        let side = usize::from(packet.is_reply());
        let told = match headers::protocol(ip) {
            IpProtocol::TCP => self.see_segment(flow, side, transport, packet),
            IpProtocol::UDP => self.see_datagram(flow, side, transport),
            protocol => Some(Found::new(Protocol::of_ip(protocol))),
        };
        if let Some(found) = told {
            self.decide(flow, found);
        }
    }

    /// Looks at a segment; returns what is decided of its connection.
    fn see_segment(
        &mut self,
        flow: u32,
        side: usize,
        transport: &[u8],
        packet: &Packet,
    ) -> Option<Found> {
        let segment = TcpPacket::new_checked(transport).ok()?;
        let state = self.flows.of_number(flow)?;
        let own = &mut state.sides[side];
        let mut sequence = segment.sequence().0;
        if segment.flags().contains(TcpFlags::SYN) {
            sequence = sequence.wrapping_add(1);
            if own.stream == 0 {
                own.first = Some(sequence);
            }
        }
        let data = segment.payload();
        if data.is_empty() {
            return None;
        }
        state.seen = state.seen.saturating_add(1);
        if !own.is_done {
            let first = *own.first.get_or_insert(sequence);
            let (scratch, window) = (&mut self.scratch, self.window as usize);
            let mut look = |bytes: &[u8]| match side {
                0 => recognize::from_client(bytes, scratch),
                _ => recognize::from_server(bytes),
            };
            let (mut guess, mut is_full) = (Guess::More(None), false);
            if own.stream == 0 {
                if sequence == first && packet.parts() == 0 {
                    guess = look(&data[..data.len().min(window)]);
                }
                if matches!(guess, Guess::More(_)) {
                    match self.assembly.begin(first) {
                        Some(stream) => own.stream = stream + 1,
                        None => {
                            self.unassembled += 1;
                            is_full = true;
                        }
                    }
                }
            }
            if let Some(stream) = own.stream.checked_sub(1) {
                for part in core::iter::once(data).chain(packet.parts_data()) {
                    self.assembly
                        .add(stream, sequence, part, |bytes, position| {
                            let end = position + bytes.len() as u64;
                            is_full = end >= window as u64;
                            if !matches!(guess, Guess::Found(_)) {
                                guess = match position {
                                    0 => look(&bytes[..bytes.len().min(window)]),
                                    // A gap was left out.
                                    _ => Guess::None,
                                };
                            }
                        });
                    sequence = sequence.wrapping_add(part.len() as u32);
                }
            }
            match guess {
                Guess::Found(found) => return Some(found),
                Guess::More(Some(found)) if is_full => return Some(found),
                Guess::More(Some(found)) => state.found = found,
                Guess::More(None) if !is_full => {}
                Guess::More(None) | Guess::None => {
                    state.found = Found::default();
                    own.is_done = true;
                    if let Some(stream) = core::mem::take(&mut own.stream).checked_sub(1) {
                        self.assembly.end(stream);
                    }
                }
            }
        }
        let mut sides = state.sides.iter();
        let is_lost = sides.clone().all(|side| side.is_done)
            || sides.any(|side| side.is_done) && state.seen >= SEGMENTS;
        is_lost.then_some(state.found)
    }

    /// Looks at a datagram; returns what is decided of its flow.
    fn see_datagram(&mut self, flow: u32, side: usize, transport: &[u8]) -> Option<Found> {
        let data = transport.get(8..).filter(|data| !data.is_empty())?;
        let ports = packet::wire::ports(transport).unwrap_or_default();
        match quic::kind(data) {
            quic::Kind::Initial if side == 0 => return self.see_initial(flow, data),
            quic::Kind::Initial | quic::Kind::Opaque => return Some(Found::new(Protocol::Quic)),
            quic::Kind::Other => {}
        }
        if let Guess::Found(found) = recognize::datagram(data, ports) {
            return Some(found);
        }
        let state = self.flows.of_number(flow)?;
        let now = recognize::rtp(data);
        let before = core::mem::replace(&mut state.sides[side].rtp, now);
        if let (Some((stream, number)), Some((former, last))) = (now, before)
            && stream == former
            && (1..=DATAGRAMS.into()).contains(&number.wrapping_sub(last))
        {
            return Some(Found::new(Protocol::Rtp));
        }
        state.seen += 1;
        (state.seen >= DATAGRAMS).then_some(state.found)
    }

    /// Looks at a client's first datagrams of QUIC: its ClientHello may be in several.
    fn see_initial(&mut self, flow: u32, data: &[u8]) -> Option<Found> {
        let state = self.flows.of_number(flow)?;
        let own = &mut state.sides[0];
        if own.stream == 0 {
            match self.assembly.begin(0) {
                Some(stream) => own.stream = stream + 1,
                None => {
                    self.unassembled += 1;
                    return Some(Found::new(Protocol::Quic));
                }
            }
        }
        let (assembly, stream) = (&mut self.assembly, own.stream - 1);
        let mut guess = Guess::More(None);
        quic::crypto(data, &mut self.scratch, |offset, part| {
            assembly.add(stream, offset, part, |bytes, position| {
                guess = match position {
                    0 => hello::message(bytes, Protocol::Quic),
                    _ => Guess::None,
                };
            });
        });
        match guess {
            Guess::Found(found) => return Some(found),
            Guess::More(Some(found)) => state.found = found,
            _ => state.found.protocol = Protocol::Quic,
        }
        state.seen += 1;
        (state.seen >= DATAGRAMS).then_some(state.found)
    }

    fn decide(&mut self, flow: u32, found: Found) {
        let Some(state) = self.flows.of_number(flow) else {
            return;
        };
        (state.found, state.is_decided) = (found, true);
        state.application = self.applications.of(&found.name);
        state.action = self.policy.decide(&found, state.application);
        self.by_protocol[found.protocol as usize].add(1, state.packets, state.bytes);
        let application = state.application.map(usize::from);
        if let Some(count) = application.and_then(|it| self.by_application.get_mut(it)) {
            count.add(1, state.packets, state.bytes);
        }
        state.release(&mut self.assembly);
        if !found.name.is_empty() {
            self.names.count(found.name, 1);
        }
    }
}

impl State {
    /// Ends the streams that it has.
    pub(super) fn release(&mut self, assembly: &mut Streams) {
        for side in &mut self.sides {
            if let Some(stream) = core::mem::take(&mut side.stream).checked_sub(1) {
                assembly.end(stream);
            }
        }
    }
}
