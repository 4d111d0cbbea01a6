//! The list of settled flows, and of those that are not though their guests say so.

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};

use super::debts::now;
use super::layout::HOPS;
use super::{SettledFlows, Unsettled};
use crate::ids::{Generation, PortIndex};

/// Most flows of one part of the list.
const PART: usize = 256;

/// A flow of which a guest said that it is settled, in one direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettledFlow<P> {
    /// The interface of the host by which its packets come, if it is settled.
    pub from: Option<P>,
    /// The guest's port by which they come, and the one by which the guest sends them on.
    pub guest: [Option<P>; 2],
    /// The interface of the host by which they leave, if it is settled.
    pub to: Option<P>,
    /// The IP protocol: TCP's or UDP's number.
    pub protocol: u8,
    /// Source and destination when they come.
    pub before: [SocketAddr; 2],
    /// The same when they leave.
    pub after: [SocketAddr; 2],
    /// Whether their time to live is one less then.
    pub hop: bool,
    /// Packets passed on.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Milliseconds since the last one.
    pub idle: u64,
    /// Why it is not settled; none if it is.
    pub why: Option<Unsettled>,
}

impl<P> SettledFlow<P> {
    /// The same with other names of the ports.
    pub fn map<Q>(self, name: impl Fn(P) -> Option<Q>) -> SettledFlow<Q> {
        SettledFlow {
            from: self.from.and_then(&name),
            guest: self.guest.map(|port| port.and_then(&name)),
            to: self.to.and_then(&name),
            protocol: self.protocol,
            before: self.before,
            after: self.after,
            hop: self.hop,
            packets: self.packets,
            bytes: self.bytes,
            idle: self.idle,
            why: self.why,
        }
    }
}

/// A port: its slot, and its generation if another one may have the slot now.
pub(crate) type PortSlot = (PortIndex, Option<Generation>);

/// Source and destination.
fn ends(addresses: [[u8; 16]; 2], ports: [[u8; 2]; 2]) -> [SocketAddr; 2] {
    let end = |i: usize| {
        let address = Ipv6Addr::from(addresses[i]).to_canonical();
        SocketAddr::new(address, u16::from_be_bytes(ports[i]))
    };
    [end(0), end(1)]
}

impl SettledFlows {
    /// A part of the list, from place `from` on, and the place where the next one begins.
    ///
    /// A port is named by its slot, and one of a flow that is not settled by its generation, too.
    pub(crate) fn list(&self, from: u32) -> (Vec<SettledFlow<PortSlot>>, Option<u32>) {
        let state = self.locked();
        let now = now();
        let mut flows = Vec::new();
        for (index, used) in state.uses.iter().enumerate().skip(from as usize) {
            let index = index as u32;
            let Some(used) = used.as_ref().filter(|_| self.holds(index, now)) else {
                continue;
            };
            if flows.len() == PART {
                return (flows, Some(index));
            }
            let counted = self.counted(index);
            let last = self.rule(index).last.load(Ordering::Relaxed);
            let [a, to, from, b] = used.path.ports.map(|port| (port, None));
            flows.push(SettledFlow {
                from: Some(a),
                guest: [Some(to), Some(from)],
                to: Some(b),
                protocol: used.key.protocol as u8,
                before: ends(used.key.addresses, used.key.ports),
                after: ends(used.hop.addresses, used.hop.ports),
                hop: used.hop.flags & HOPS != 0,
                packets: counted.frames,
                bytes: counted.bytes,
                idle: now.saturating_sub(last) / 1_000_000,
                why: None,
            });
        }
        // Those behind have the places behind all rules.
        let refused = (from as usize).saturating_sub(state.uses.len());
        for (i, (asked, why)) in state.refusals.iter().enumerate().skip(refused) {
            if flows.len() == PART {
                return (flows, Some((state.uses.len() + i) as u32));
            }
            flows.push(asked.listed(why));
        }
        (flows, None)
    }
}

impl super::Asked {
    fn listed(&self, why: Unsettled) -> SettledFlow<PortSlot> {
        let side = |side: &abi::settle::Side| {
            let [i, j, k, l] = side.ports;
            ends(side.addresses, [[i, j], [k, l]])
        };
        SettledFlow {
            from: None,
            guest: self
                .ports
                .map(|(port, generation)| Some((port, Some(generation)))),
            to: None,
            protocol: self.said.protocol,
            before: side(&self.said.before),
            after: side(&self.said.after),
            hop: self.said.hops == 1,
            packets: 0,
            bytes: 0,
            idle: 0,
            why: Some(why),
        }
    }
}
