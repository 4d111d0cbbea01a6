//! Packets that stand for several segments: which elements they may come to.

use super::Cx;
use crate::prelude::*;

/// Packets that stand for several, or whose checksum is partial.
impl Cx<'_> {
    /// Whether all elements that packets leaving `id` may come to take packets that stand for
    /// several ([`Class::SEGMENTS`](crate::Class::SEGMENTS)). Every output of every element counts:
    /// what an element keeps may leave it by any.
    pub fn segments_go_on(&self, id: ElementId) -> bool {
        let graph = self.graph();
        let mut seen: Vec<ElementId> = Vec::new();
        let mut pending = alloc::vec![id];
        while let Some(from) = pending.pop() {
            for port in 0..graph.info(from).outputs.len() {
                for (to, _) in graph.downstream(from, port) {
                    if seen.contains(&to) {
                        continue;
                    }
                    if !graph.info(to).class.segments {
                        return false;
                    }
                    seen.push(to);
                    pending.push(to);
                }
            }
        }
        true
    }

    /// Adapts a packet that was stored in another router to the elements behind this one. If not all
    /// of these accept packets that stand for several, such a packet is dropped, and a partial
    /// checksum is completed.
    pub fn admit(&mut self, mut packet: Packet) -> Option<Packet> {
        if !packet.is_extended() || self.segments_go_on(self.id) {
            return Some(packet);
        }
        if packet.make_whole() {
            return Some(packet);
        }
        self.kill(packet);
        None
    }

    /// As [`admit`](Self::admit), for all packets of a batch.
    pub fn admit_batch(&mut self, batch: &mut Batch) {
        if batch.iter().any(Packet::is_extended) && !self.segments_go_on(self.id) {
            batch.filter(
                self,
                |_, packet| (!packet.make_whole()).then_some(()),
                |cx, packet, ()| cx.kill(packet),
            );
        }
    }
}
