//! The loop over a batch around an element that decides on one packet.

use packet::BATCH;

use super::{Element, Verdict};
use crate::engine::Cx;
use crate::prelude::*;

/// Applies [`action`](Element::action) to each packet of a batch: what `batch` does unless an
/// element says otherwise. For elements that have something to do once a batch besides.
#[inline(always)]
pub fn filter<E: Element + ?Sized>(element: &mut E, cx: &mut Cx<'_>, batch: &mut Batch) {
    let effects = element.effects();
    if batch.facts().include(effects.no_op) {
        return;
    }
    // All are asked, as that is quicker than to ask whether to go on.
    let concerned = batch
        .iter()
        .fold(false, |any, packet| any | element.affects(packet));
    if !concerned {
        return;
    }
    let mut leaving = Leaving::NONE;
    for (at, packet) in batch.iter_mut_keeping(effects.preserves).enumerate() {
        match element.action(cx, packet) {
            Verdict::Forward => {}
            Verdict::To(port) => leaving.add(at, port),
            Verdict::Drop => leaving.add(at, NO_PORT),
        }
    }
    if leaving.packets != 0 {
        leaving.send(cx, batch);
    }
}

/// No element has so many outputs: packets for it are dropped.
const NO_PORT: usize = u16::MAX as usize;

/// Packets of a batch that do not go on with it.
struct Leaving {
    /// A bit for each.
    packets: u64,
    /// Their outputs.
    ports: [u16; BATCH],
}

impl Leaving {
    const NONE: Leaving = Leaving {
        packets: 0,
        ports: [0; BATCH],
    };

    #[inline(always)]
    fn add(&mut self, at: usize, port: usize) {
        self.packets |= 1 << (at % BATCH);
        self.ports[at % BATCH] = port.min(NO_PORT) as u16;
    }

    /// Sends them to their outputs, those with the same output together. The others stay in the batch.
    #[inline(never)]
    fn send(&self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let mut dispatch = batch.dispatch();
        let mut left = self.packets;
        while left != 0 {
            let port = self.ports[left.trailing_zeros() as usize % BATCH];
            let same = self.ports.iter().enumerate();
            let set = same.fold(0, |set, (at, its)| set | u64::from(*its == port) << at) & left;
            left ^= set;
            let mut some = cx.batch();
            dispatch.send(set, &mut some);
            if some.len() > 1 {
                cx.push(port.into(), some);
                continue;
            }
            // It may follow others that were emitted before.
            if let Some(packet) = some.pop() {
                cx.emit(port.into(), packet);
            }
            cx.done(some);
        }
    }
}
