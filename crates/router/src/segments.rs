//! Where packets may go that stand for several.

use alloc::vec::Vec;

use packet::Packet;

use crate::context::{Cx, ElementId};

/// Packets that stand for several, or whose checksum is partial.
impl Cx<'_> {
    /// Whether all elements that packets leaving `id` may come to take packets that stand for
    /// several ([`Element::takes_segments`](crate::Element::takes_segments)). To be called when all
    /// elements are configured. Every output of every element counts, wherever its packets are from:
    /// what an element keeps may leave it by any.
    pub fn segments_go_on(&self, id: ElementId) -> bool {
        let graph = &self.core.graph;
        let mut seen: Vec<ElementId> = Vec::new();
        let mut ahead = alloc::vec![id];
        while let Some(from) = ahead.pop() {
            for port in 0..graph.info(from).outputs.len() {
                for (to, _) in graph.downstream(from, port) {
                    if seen.contains(&to) {
                        continue;
                    }
                    seen.push(to);
                    // The element at work asks for the sake of what it sends itself.
                    let takes = match &self.core.elements[to.index()] {
                        Some(element) => element.takes_segments(),
                        None => to == self.id,
                    };
                    if !takes {
                        return false;
                    }
                    ahead.push(to);
                }
            }
        }
        true
    }

    /// A packet that was kept for another router than this one, made fit for what is behind this
    /// element here: where not all elements take packets that stand for several, it is dropped if it
    /// does, and its checksum is completed if that is all that is left to do.
    pub fn admit(&mut self, mut packet: Packet) -> Option<Packet> {
        if !packet.is_extended() || self.segments_go_on(self.id) {
            return Some(packet);
        }
        if packet.parts() == 0 && packet.complete_checksum() {
            return Some(packet);
        }
        self.kill(packet);
        None
    }
}
