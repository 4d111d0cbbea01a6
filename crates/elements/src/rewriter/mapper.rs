//! Elements that decide how rewriters rewrite.

use alloc::format;
use alloc::string::String;

use router::{Cx, ElementId};

use super::input::Input;
use super::key::FlowKey;
use crate::ip::round_robin_ip_mapper::RoundRobinIPMapper;
use crate::ip::source_ip_hash_mapper::SourceIPHashMapper;

/// Asks the element `mapper` what the packets of `key` are to become, and by which outputs they
/// leave, forward and back. `taken` says whether replies to what they would become go to another
/// flow.
pub fn map(
    cx: &mut Cx<'_>,
    mapper: ElementId,
    key: FlowKey,
    taken: &dyn Fn(FlowKey) -> bool,
) -> Option<(FlowKey, [u16; 2])> {
    let mapped = cx.with(mapper, |mapper: &mut RoundRobinIPMapper, cx| {
        mapper.map(cx, key, taken)
    });
    let mapped = mapped.or_else(|| {
        cx.with(mapper, |mapper: &mut SourceIPHashMapper, cx| {
            mapper.map(cx, key, taken)
        })
    });
    mapped.flatten()
}

/// Checks that a rewriter with this many outputs can use the element `mapper`.
pub fn check(cx: &mut Cx<'_>, mapper: ElementId, outputs: usize) -> Result<(), String> {
    let checked = cx.with(mapper, |mapper: &mut RoundRobinIPMapper, cx| {
        mapper.check(cx, outputs)
    });
    let checked = checked.or_else(|| {
        cx.with(mapper, |mapper: &mut SourceIPHashMapper, cx| {
            mapper.check(cx, outputs)
        })
    });
    checked.unwrap_or(Ok(()))
}

/// Checks that a rewriter with this many outputs has those that the patterns of the mapper at work
/// name.
pub fn check_patterns(cx: &Cx<'_>, patterns: &[Input], outputs: usize) -> Result<(), String> {
    let most = |input: &Input| input.outputs.iter().copied().max();
    let missing = |input: &Input| most(input).map(usize::from) >= Some(outputs);
    match patterns.iter().position(missing) {
        Some(number) => {
            let name = cx.declaration();
            Err(format!(
                "output port out of range in {name} pattern {number}"
            ))
        }
        None => Ok(()),
    }
}
