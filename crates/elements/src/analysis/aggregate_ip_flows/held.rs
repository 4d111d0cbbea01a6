//! Fragments that AggregateIPFlows holds until their flow is known, and what came behind them.

use super::flows::{Header, Hosts, Key};
use super::{AggregateIPFlows, seconds};
use crate::prelude::*;

/// A packet that waits to be known.
pub(super) struct Held {
    pub(super) packet: Packet,
    pub(super) header: Header,
    /// Its flow, once that is known.
    pub(super) key: Option<Key>,
}

impl AggregateIPFlows {
    /// Sends what two hosts' packets no longer wait for.
    pub(super) fn release(&mut self, cx: &mut Cx<'_>, hosts: &Hosts) {
        let oldest = self.now.saturating_sub(self.timeouts.fragment);
        let Some(mut held) = self.held.remove(hosts) else {
            return;
        };
        while let Some(head) = held.front()
            && (seconds(head.packet.timestamp()) < oldest || !head.header.is_fragment)
        {
            self.send_first(cx, &mut held);
        }
        if !held.is_empty() {
            self.held.insert(*hosts, held);
        }
    }

    /// Sends the first of two hosts' held packets, or drops it if its flow is not known; what it
    /// tells of its other fragments' flow is noted, and theirs tell of it.
    fn send_first(&mut self, cx: &mut Cx<'_>, held: &mut VecDeque<Held>) {
        let Some(mut first) = held.pop_front() else {
            return;
        };
        self.held_packets = self.held_packets.saturating_sub(1);
        let id = first.header.id;
        let mark = |to: &mut Held, from: &Packet, key: Key| {
            to.key = Some(key);
            to.packet.set_anno(AGGREGATE, from.anno(AGGREGATE));
            to.packet.set_paint(from.paint());
        };
        let others = held.iter_mut().filter(|other| other.header.id == id);
        match first.key {
            Some(key) => {
                others.for_each(|other| mark(other, &first.packet, key));
            }
            None => {
                let known = others
                    .filter_map(|other| other.key.map(|key| (other, key)))
                    .next();
                if let Some((other, key)) = known {
                    mark(&mut first, &other.packet, key);
                }
            }
        }
        match first.key {
            Some(key) => {
                self.account(key, &first.header, &first.packet);
                cx.emit(0, first.packet);
            }
            None => cx.kill(first.packet),
        }
    }
}
