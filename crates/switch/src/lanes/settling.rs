//! Settled flows: the control thread's part.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::Lanes;
use crate::ids::PortIndex;
use crate::protocol::PortId;
use crate::settled::{PortSlot, SettledFlow, SettledFlows};
use crate::worker::Passage;

impl Lanes {
    /// From now on, flows can be settled, over maps that are empty.
    pub fn begin_settling(&mut self, files: [OwnedFd; 4]) -> Result<(), String> {
        let settled = SettledFlows::new(files)
            .map_err(|error| format!("cannot map the rules of settled flows: {error}"))?;
        let settled = Arc::new(settled);
        self.end_settling();
        self.sweeper.sweep(&settled);
        let shared = Arc::clone(&settled);
        self.on_all(move |worker| worker.set_settled(Arc::clone(&shared)));
        self.settled = Some(settled);
        Ok(())
    }

    /// The kernel may pass frames on that come by a port's interface. `program` is on it as long as it is open.
    pub(crate) fn add_passage(
        &mut self,
        port: PortIndex,
        passage: Passage,
        program: OwnedFd,
    ) -> Result<(), String> {
        let set = self.on_all(move |worker| worker.set_passage(port, passage));
        let set: Result<Vec<()>, _> = set.into_iter().collect();
        set.map_err(|error| format!("cannot filter settled flows out: {error}"))?;
        self.passages.insert(port, program);
        Ok(())
    }

    /// Says which ports are a guest's, in the order of its interfaces.
    pub fn set_siblings(&self, ports: &[PortId]) {
        let siblings = ports.iter().map(|port| (port.slot, port.generation));
        let siblings: Arc<[_]> = siblings.collect();
        self.on_all(move |worker| worker.set_siblings(&siblings));
    }

    /// Takes back what the guest of a port has settled.
    pub fn take_back_of_guest(&self, port: PortIndex) {
        if self.settled.is_some()
            && let Some(lane) = self.lanes.first()
        {
            lane.call(move |worker| worker.take_back_of_guest(port));
        }
    }

    /// How many flows are settled.
    pub fn settled(&self) -> u64 {
        self.settled.as_ref().map_or(0, |settled| settled.count())
    }

    /// The flows of which guests said that they are settled, from a place of the list on, and the place of the next ones.
    pub fn settled_flows(&self, from: u32) -> (Vec<SettledFlow<PortId>>, Option<u32>) {
        let Some(settled) = &self.settled else {
            return (Vec::new(), None);
        };
        let (flows, next) = settled.list(from);
        let name = |(slot, generation): PortSlot| {
            let id = self.member(slot)?.id;
            generation
                .is_none_or(|it| it == id.generation)
                .then_some(id)
        };
        let flows = flows.into_iter().map(|flow| flow.map(name));
        // A flow whose ports are gone is of no guest.
        let flows = flows.filter(|flow| flow.guest.iter().all(Option::is_some));
        (flows.collect(), next)
    }

    fn end_settling(&mut self) {
        if let Some(settled) = self.settled.take() {
            settled.end();
        }
        self.passages.clear();
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.end_settling();
    }
}
