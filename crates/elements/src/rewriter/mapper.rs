//! Elements that decide how rewriters rewrite.

use alloc::string::String;

use router::{Cx, ElementId};

use super::key::FlowKey;
use crate::ip::round_robin_ip_mapper::RoundRobinIPMapper;

/// Asks the element `mapper` what the packets of `key` are to become, and by which outputs they
/// leave, forward and back. `taken` says whether replies to what they would become go to another
/// flow.
pub fn map(
    cx: &mut Cx<'_>,
    mapper: ElementId,
    key: FlowKey,
    taken: &dyn Fn(FlowKey) -> bool,
) -> Option<(FlowKey, [u16; 2])> {
    cx.with(mapper, |mapper: &mut RoundRobinIPMapper, cx| {
        mapper.map(cx, key, taken)
    })
    .flatten()
}

/// Checks that a rewriter with this many outputs can use the element `mapper`.
pub fn check(cx: &mut Cx<'_>, mapper: ElementId, outputs: usize) -> Result<(), String> {
    let checked = cx.with(mapper, |mapper: &mut RoundRobinIPMapper, cx| {
        mapper.check(cx, outputs)
    });
    checked.unwrap_or(Ok(()))
}
