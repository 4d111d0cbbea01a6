//! Elements that are told when there will be no more packets of an aggregate.

use alloc::vec::Vec;

use router::args::{Args, ElementRef, Failed};
use router::{Cx, ElementId, TaskId};

use super::aggregate_first::AggregateFirst;
use super::aggregate_ip_addr_pair::AggregateIPAddrPair;
use super::aggregate_ip_flows::AggregateIPFlows;
use super::aggregate_last::AggregateLast;
#[cfg(feature = "host")]
use super::dumps::to_ip_flow_dumps::ToIPFlowDumps;
#[cfg(feature = "host")]
use crate::userlevel::ip_flow_raw_sockets::IPFlowRawSockets;

/// What elements that tell of aggregates say they are.
pub const NOTIFIER: &str = "AggregateNotifier";

/// The element that an argument NOTIFIER names.
pub fn notifier(args: &Args<'_>, element: Option<ElementRef>) -> Result<Option<ElementId>, Failed> {
    let Some(element) = element else {
        return Ok(None);
    };
    if !args.context().elements.is_a(element.index, NOTIFIER) {
        let name = element.name;
        return Err(args.fail(format_args!("{name} is not an AggregateNotifier")));
    }
    Ok(Some(ElementId::new(element.index)))
}

/// Lets the element at work be told by `notifier`.
pub fn listen(cx: &mut Cx<'_>, notifier: ElementId) {
    let own = cx.id();
    let told = cx.with(notifier, |notifier: &mut AggregateIPFlows, _| {
        notifier.listeners().add(own);
    });
    if told.is_none() {
        cx.with(notifier, |notifier: &mut AggregateIPAddrPair, _| {
            notifier.listeners().add(own);
        });
    }
}

/// Who is told.
#[derive(Default)]
pub struct Listeners {
    elements: Vec<ElementId>,
    /// Aggregates that they are yet to be told of: packets of theirs may be on the way.
    ended: Vec<u32>,
    task: Option<TaskId>,
}

impl Listeners {
    fn add(&mut self, element: ElementId) {
        if !self.elements.contains(&element) {
            self.elements.push(element);
        }
    }

    /// Makes the task that tells them. To be called when the element is initialized.
    pub fn initialize(&mut self, cx: &mut Cx<'_>) {
        self.task = Some(cx.task());
    }

    /// An aggregate has ended. They are told at once if no packets before are on the way, else when
    /// those have been delivered: [`tell`](Self::tell) is to be called from the element's task.
    pub fn ended(&mut self, cx: &mut Cx<'_>, aggregate: u32, at_once: bool) {
        if self.elements.is_empty() {
            return;
        }
        self.ended.push(aggregate);
        match self.task {
            Some(task) if !at_once => cx.schedule(task),
            _ => self.tell(cx),
        }
    }

    /// Tells them of all that ended.
    pub fn tell(&mut self, cx: &mut Cx<'_>) {
        for aggregate in self.ended.drain(..) {
            for &id in &self.elements {
                tell_one(cx, id, aggregate);
            }
        }
    }
}

fn tell_one(cx: &mut Cx<'_>, id: ElementId, aggregate: u32) {
    if cx.is::<AggregateFirst>(id) {
        cx.with(id, |element: &mut AggregateFirst, _| {
            element.aggregate_ended(aggregate);
        });
    } else if cx.is::<AggregateLast>(id) {
        cx.with(id, |element: &mut AggregateLast, cx| {
            element.aggregate_ended(cx, aggregate);
        });
    }
    #[cfg(feature = "host")]
    if cx.is::<ToIPFlowDumps>(id) {
        cx.with(id, |element: &mut ToIPFlowDumps, cx| {
            element.aggregate_ended(cx, aggregate);
        });
    } else if cx.is::<IPFlowRawSockets>(id) {
        cx.with(id, |element: &mut IPFlowRawSockets, cx| {
            element.aggregate_ended(cx, aggregate);
        });
    }
}
