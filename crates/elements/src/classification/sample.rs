//! Sample packets: one that a term admits.
//!
//! An output that a sample packet reaches is reachable. That check is far
//! faster than simplifying a decision graph, and for sound configurations it
//! settles all outputs.

use super::fields::Fields;
use super::headers::Headers;
use super::terms::Term;
use crate::prelude::*;

/// Offset of the transport header of sample packets: behind the longest IP
/// header.
const TRANSPORT: usize = 60;

/// A packet with all fields.
pub(super) struct SamplePacket {
    areas: [Vec<u8>; 3],
    network: Vec<u8>,
}

impl SamplePacket {
    pub(super) fn new(fields: &Fields) -> SamplePacket {
        let mut lengths = [0; 3];
        for field in fields.as_slice() {
            let length = &mut lengths[field.area as usize];
            *length = field.end().max(*length);
        }
        SamplePacket {
            areas: lengths.map(|length| vec![0; length]),
            network: Vec::new(),
        }
    }

    /// The packet with the lowest (or highest) values that `term` admits, zero
    /// where it admits anything; `None` when it requires a missing field.
    pub(super) fn packet(
        &mut self,
        term: &Term,
        fields: &Fields,
        highest: bool,
    ) -> Option<Headers<'_>> {
        for area in &mut self.areas {
            area.fill(0);
        }
        for (number, set) in term.sets() {
            let field = &fields.as_slice()[usize::from(*number)];
            let value = if highest {
                set.ranges().last()?.1
            } else {
                set.ranges().first()?.0
            };
            let bytes = value.to_be_bytes();
            let used = &bytes[4 - field.bytes as usize..];
            let at = usize::from(field.offset);
            self.areas[field.area as usize][at..at + used.len()].copy_from_slice(used);
        }
        let [front, network, transport] = &self.areas;
        self.network.clear();
        self.network.extend_from_slice(network);
        self.network.resize(TRANSPORT.max(network.len()), 0);
        let start = self.network.len();
        self.network.extend_from_slice(transport);
        Some(Headers::ip(&self.network, start).with_mac(front))
    }
}
