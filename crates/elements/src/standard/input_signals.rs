//! The signals of a scheduler's inputs.

use crate::prelude::*;

/// For each input the signal that says whether it has something.
pub(super) fn upstream_signals(cx: &mut Cx<'_>) -> Vec<Signal> {
    let inputs = 0..cx.inputs();
    inputs.map(|i| cx.upstream_signal(i, None)).collect()
}

/// For each input a signal that says so always.
pub(super) fn busy_signals(cx: &Cx<'_>) -> Vec<Signal> {
    (0..cx.inputs()).map(|_| Signal::busy()).collect()
}
