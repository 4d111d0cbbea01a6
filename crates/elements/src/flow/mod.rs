//! Flows: one element finds the flow of a packet, and elements behind it keep state for each flow.
//!
//! A [`FlowManager`] numbers flows below its capacity, and writes the number into each packet
//! ([`Packet::flow`]). An element that keeps something for each flow has a [`FlowStates`]: an array
//! of the manager's capacity, allocated when the router is initialized and indexed by that number.
//! When a flow ends, the manager tells the elements that registered ([`FlowUser`]), so that the
//! number can be used again.
//!
//! A packet that waits in a queue for longer than the manager's timeout may meet a later flow of
//! the same number.

use crate::prelude::*;

mod table;
#[cfg(test)]
mod tests;

crate::elements! {
    ctx_dispatcher: CtxDispatcher, FlowContextDispatcher;
    ctx_manager: CtxManager;
    flow_counter: FlowCounter;
    flow_ip_manager: FlowIPManager;
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

/// An element that keeps state for each flow.
pub trait FlowUser {
    /// The flow ended; the number will be that of another.
    fn flow_ended(&mut self, cx: &mut Cx<'_>, flow: u32);
}

impl Interface for dyn FlowUser {
    const NAME: &'static str = "FlowUser";
}

/// What an element keeps of each flow: a `T`, its default for a new flow.
#[derive(Default)]
pub struct FlowStates<T>(Vec<T>);

impl<T: Default> FlowStates<T> {
    /// Finds the manager upstream of the element at work, registers with it, and allocates memory
    /// for its flows. For [`Element::initialize`].
    pub fn reserve(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let mut found: Vec<ElementId> = Vec::new();
        for port in 0..cx.inputs() {
            for manager in cx.graph().nearest_upstream(cx.id(), port, MANAGER) {
                if !found.contains(&manager) {
                    found.push(manager);
                }
            }
        }
        let link = match found[..] {
            [manager] => cx.link::<dyn FlowManager>(manager),
            [] => {
                return Err(cx.error("no flow manager upstream; put a FlowIPManager before it"));
            }
            [..] => {
                let names = found.iter().map(|id| cx.graph().info(*id).name.as_str());
                let names = names.collect::<Vec<_>>().join(", ");
                return Err(cx.error(format_args!(
                    "several flow managers upstream ({names}); let packets come from one"
                )));
            }
        };
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
        Ok(())
    }

    /// The state of a packet's flow; `None` if the packet is of no flow.
    #[inline]
    pub fn of(&mut self, packet: &Packet) -> Option<&mut T> {
        self.0.get_mut(packet.flow()? as usize)
    }

    /// Takes the state of a flow that ended.
    pub fn take(&mut self, flow: u32) -> T {
        self.0
            .get_mut(flow as usize)
            .map(core::mem::take)
            .unwrap_or_default()
    }
}
