//! Looking at the first packets of a flow, until it is decided on.

use super::{FlowDPI, State};
use crate::dpi::guess::{Found, Guess};
use crate::dpi::protocol::Protocol;
use crate::dpi::recognize;
use crate::dpi::{hello, quic};
use crate::flow::intact::is_intact;
use crate::flow::stream::Streams;
use crate::flow::upper::Upper;
use crate::flow::windows::{SegmentNumbers, TcpReceiver};
use crate::prelude::*;

/// Datagrams of a UDP flow that are looked at.
const DATAGRAMS: u8 = 8;
/// Segments with data of a connection that are waited for when one side's bytes tell nothing.
const SEGMENTS: u8 = 16;

impl FlowDPI {
    /// Looks at a packet of a flow that is not decided on; returns whether it may pass.
    #[cold]
    pub(super) fn inspect(&mut self, cx: &mut Cx<'_>, flow: u32, packet: &Packet) -> bool {
        let Some(Upper {
            protocol,
            bytes: transport,
            ..
        }) = Upper::of(packet)
        else {
            return true;
        };
        // No receiver takes what is damaged.
        if matches!(protocol, IpProtocol::TCP | IpProtocol::UDP) && !is_intact(packet) {
            return true;
        }
        let side = usize::from(packet.is_reply());
        let told = match protocol {
            IpProtocol::TCP => {
                let Some(segment) = SegmentNumbers::of(packet) else {
                    return true;
                };
                let receiver = self.tracker.and_then(|tracker| {
                    let reply = packet.is_reply();
                    cx.reach(tracker, |it, _| it.receiver(flow, reply, &segment))
                });
                let receiver = receiver.unwrap_or(TcpReceiver::UNKNOWN);
                if !receiver.takes {
                    return true;
                }
                if !self.agrees(flow, side, transport, packet, receiver) {
                    self.conflicts += packet.stands_for() as u64;
                    return false;
                }
                self.see_segment(flow, side, transport, packet, receiver)
            }
            IpProtocol::UDP => self.see_datagram(flow, side, transport),
            protocol => Some(Found::new(Protocol::of_ip(protocol))),
        };
        if let Some(found) = told {
            self.decide(flow, found);
        }
        true
    }

    /// Whether a segment's data are those that were there before, as far as any were, and can be kept.
    fn agrees(
        &mut self,
        flow: u32,
        side: usize,
        transport: &[u8],
        packet: &Packet,
        receiver: TcpReceiver,
    ) -> bool {
        let (Ok(segment), Some(state)) = (
            TcpPacket::new_checked(transport),
            self.flows.of_number(flow),
        ) else {
            return true;
        };
        let Some(stream) = state.sides[side].stream.checked_sub(1) else {
            return true;
        };
        let mut sequence = segment.sequence().0;
        sequence = sequence.wrapping_add(segment.flags().contains(TcpFlags::SYN).into());
        core::iter::once(segment.payload())
            .chain(packet.parts_data())
            .all(|part| {
                let from = sequence;
                sequence = sequence.wrapping_add(part.len() as u32);
                let (assembly, acknowledged) = (&self.assembly, receiver.acknowledged);
                part.is_empty()
                    || assembly.has_room(stream, from, part.len())
                        && !assembly.conflicts(stream, from, part, acknowledged)
            })
    }

    /// Looks at a segment; returns what is decided of its connection.
    fn see_segment(
        &mut self,
        flow: u32,
        side: usize,
        transport: &[u8],
        packet: &Packet,
        receiver: TcpReceiver,
    ) -> Option<Found> {
        let segment = TcpPacket::new_checked(transport).ok()?;
        let state = self.flows.of_number(flow)?;
        let own = &mut state.sides[side];
        let mut sequence = segment.sequence().0;
        if segment.flags().contains(TcpFlags::SYN) {
            sequence = sequence.wrapping_add(1);
            // Once it is answered, the numbers stay.
            if own.stream == 0 && (receiver.acknowledged.is_none() || own.first.is_none()) {
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
                // Only what the receiver has moves the stream.
                let acknowledged = receiver.acknowledged.or(Some(first));
                for part in core::iter::once(data).chain(packet.parts_data()) {
                    self.assembly
                        .add(stream, sequence, part, acknowledged, |bytes, position| {
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
            assembly.add(stream, offset, part, Some(0), |bytes, position| {
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
