//! Flows: one element finds the flow of a packet, and elements behind it keep state for each flow.
//!
//! A [`FlowManager`] numbers flows below its capacity, and writes the number into each packet
//! ([`Packet::flow`]). An element that keeps something for each flow has a [`FlowStates`]: an array
//! of the manager's capacity, allocated when the router is initialized and indexed by that number.
//! When a flow ends, the manager tells the elements that registered ([`FlowUser`]), so that the
//! number can be used again.
//!
//! A [`Tracker`] is a manager whose flows are connections: a packet that answers has the number of the
//! packets that it answers ([`Packet::is_reply`]), and so has an ICMP error about one of them
//! ([`Packet::is_related`]).
//!
//! A packet that waits in a queue for longer than the manager's timeout may meet a later flow of
//! the same number.

use crate::prelude::*;

use ip6::AnyKey;
use windows::{SegmentNumbers, TcpReceiver};

pub(crate) mod connections;
mod ftp;
pub(crate) mod intact;
pub(crate) mod ip6;
mod mappings;
#[cfg(test)]
mod nat_tests;
pub(crate) mod probe;
pub mod rules;
pub(crate) mod state;
pub(crate) mod stream;
mod table;
#[cfg(test)]
mod tests;
pub(crate) mod top;
#[cfg(test)]
mod tracking6_tests;
#[cfg(test)]
mod tracking_tests;
pub(crate) mod translation;
pub(crate) mod translation6;
pub(crate) mod upper;
pub(crate) mod windows;

crate::elements! {
    connection_tracker: ConnectionTracker;
    ctx_dispatcher: CtxDispatcher, FlowContextDispatcher;
    ctx_manager: CtxManager;
    flow_counter: FlowCounter;
    flow_exporter: FlowExporter;
    flow_firewall: FlowFirewall;
    flow_ip_manager: FlowIPManager;
    flow_ip_nat: FlowIPNAT;
    flow_monitor: FlowMonitor;
}

/// The kind of the classes that are flow managers, for searches in the graph.
const MANAGER: &str = "VirtualFlowManager";

/// An element that finds the flow of each packet.
pub trait FlowManager {
    /// Most flows at a time; their numbers are below it.
    fn capacity(&self) -> usize;

    /// Has the manager tell an element when flows end.
    fn register(&mut self, user: Link<dyn FlowUser>);
}

impl Interface for dyn FlowManager {
    const NAME: &'static str = "FlowManager";
}

/// A flow manager whose flows are connections: packets of both directions.
pub trait Tracker {
    /// Ends a connection, at the latest before the next batch of packets; until then its state stays.
    fn refuse(&mut self, flow: u32);

    /// The protocol of a connection, and the key of the packets of the side that opened it.
    fn opener(&self, flow: u32) -> Option<(IpProtocol, AnyKey)>;

    /// Has another key tell the packets of a connection that answer; false if that is another
    /// connection's.
    fn set_reply(&mut self, flow: u32, key: AnyKey) -> bool;

    /// What is known of the receiver of a TCP segment of a connection.
    fn receiver(&self, flow: u32, reply: bool, segment: &SegmentNumbers) -> TcpReceiver;

    /// Says that replies take another path: connections are known by one side's packets alone.
    fn expect_no_replies(&mut self);
}

impl Interface for dyn Tracker {
    const NAME: &'static str = "Tracker";
}

/// An element that keeps state for each flow.
pub trait FlowUser {
    /// The flow ended; the number will be that of another.
    fn flow_ended(&mut self, cx: &mut Cx<'_>, flow: u32);
}

impl Interface for dyn FlowUser {
    const NAME: &'static str = "FlowUser";
}

/// The [`push`](Element::push) of an element that looks at packets, and changes none.
#[inline]
pub(crate) fn watch(
    cx: &mut Cx<'_>,
    port: usize,
    batch: &Batch,
    mut see: impl FnMut(&mut Cx<'_>, &Packet, i64),
) -> usize {
    let now = cx.wall();
    for packet in batch.iter() {
        see(cx, packet, now);
    }
    port
}

/// What an element keeps of each flow: a `T`, its default for a new flow.
#[derive(Default)]
pub struct FlowStates<T>(Vec<T>);

impl<T: Default> FlowStates<T> {
    /// Finds the manager upstream of the element at work, registers with it, and allocates memory
    /// for its flows; returns the manager. For [`Element::initialize`].
    pub fn reserve(&mut self, cx: &mut Cx<'_>) -> Result<ElementId, Failed> {
        self.reserve_behind(cx, "FlowIPManager")
    }

    /// The same; an element of class `wanted` is what an error says to put before this one.
    fn reserve_behind(&mut self, cx: &mut Cx<'_>, wanted: &str) -> Result<ElementId, Failed> {
        let mut found: Vec<ElementId> = Vec::new();
        for port in 0..cx.inputs() {
            for manager in cx.graph().nearest_upstream(cx.id(), port, MANAGER) {
                if !found.contains(&manager) {
                    found.push(manager);
                }
            }
        }
        let manager = match found[..] {
            [manager] => manager,
            [] => {
                return Err(cx.error(format_args!(
                    "no flow manager upstream; put a {wanted} before it"
                )));
            }
            [..] => {
                let names = found.iter().map(|id| cx.graph().info(*id).name.as_str());
                let names = names.collect::<Vec<_>>().join(", ");
                return Err(cx.error(format_args!(
                    "several flow managers upstream ({names}); let packets come from one"
                )));
            }
        };
        let link = cx.link::<dyn FlowManager>(manager);
        let user = cx.link::<dyn FlowUser>(cx.id());
        let capacity = link.zip(user).and_then(|(link, user)| {
            cx.share_thread(link.id());
            cx.reach(link, |manager, _| {
                manager.register(user);
                manager.capacity()
            })
        });
        let capacity = capacity.unwrap_or(0);
        self.0.clear();
        if self.0.try_reserve_exact(capacity).is_err() {
            return Err(cx.error(format_args!(
                "out of memory for the state of {capacity} flows"
            )));
        }
        self.0.resize_with(capacity, T::default);
        Ok(manager)
    }

    /// The same, of a manager that tracks connections.
    pub fn reserve_tracked(&mut self, cx: &mut Cx<'_>) -> Result<Link<dyn Tracker>, Failed> {
        let manager = self.reserve_behind(cx, "ConnectionTracker")?;
        cx.link::<dyn Tracker>(manager).ok_or_else(|| {
            let name = &cx.graph().info(manager).name;
            let text =
                format!("‘{name}’ tracks no connections; put a ConnectionTracker in its place");
            cx.error(text)
        })
    }

    /// Takes over, in a hotswap, the states of the flows that the tracker took over, and has `keep` see
    /// each; the states of other flows go to `lose`.
    pub fn take_over(
        &mut self,
        cx: &mut Cx<'_>,
        tracker: Link<dyn Tracker>,
        old: &mut FlowStates<T>,
        mut keep: impl FnMut(&mut T),
        mut lose: impl FnMut(T),
    ) {
        for (number, former) in (0..).zip(&mut old.0) {
            let former = core::mem::take(former);
            let opener = cx.reach(tracker, |tracker, _| tracker.opener(number));
            let known = opener.flatten().is_some();
            match self.0.get_mut(number as usize).filter(|_| known) {
                Some(state) => {
                    *state = former;
                    keep(state);
                }
                None => lose(former),
            }
        }
    }

    /// Asks for the states of the packets' flows: their first lines, and the next ones.
    #[inline]
    pub fn prefetch(&self, batch: &Batch) {
        for packet in batch.iter() {
            let state = packet.flow().and_then(|flow| self.0.get(flow as usize));
            if let Some(state) = state {
                packet::prefetch(state);
                if size_of::<T>() > 16 {
                    packet::prefetch_next(state);
                }
            }
        }
    }

    /// The state of a packet's flow; `None` if the packet is of no flow.
    #[inline]
    pub fn of(&mut self, packet: &Packet) -> Option<&mut T> {
        self.0.get_mut(packet.flow()? as usize)
    }

    /// The state of a flow by its number.
    #[inline]
    pub fn of_number(&mut self, flow: u32) -> Option<&mut T> {
        self.0.get_mut(flow as usize)
    }

    /// The states of all flows, by their numbers.
    pub fn iter(&self) -> core::slice::Iter<'_, T> {
        self.0.iter()
    }

    /// The same, to be changed.
    pub fn iter_mut(&mut self) -> core::slice::IterMut<'_, T> {
        self.0.iter_mut()
    }

    /// How many flows there is room for.
    pub fn capacity(&self) -> usize {
        self.0.len()
    }

    /// Takes the state of a flow that ended.
    pub fn take(&mut self, flow: u32) -> T {
        self.0
            .get_mut(flow as usize)
            .map(core::mem::take)
            .unwrap_or_default()
    }
}
