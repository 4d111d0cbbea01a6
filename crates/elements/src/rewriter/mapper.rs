//! Elements that decide how rewriters rewrite.

use super::key::FlowKey;
use crate::prelude::*;

/// An element that an input of a rewriter may name instead of a pattern.
pub trait Mapper {
    /// The outputs, forward and back, of each pattern that it chooses from.
    fn outputs(&self) -> Vec<[u16; 2]>;

    /// Whether what it says depends on the thread that packets come from: a rewriter that asks it has
    /// mappings of its own for each thread.
    fn is_per_thread(&self) -> bool {
        false
    }

    /// What the packets of `key` become, and the outputs by which they leave, forward and back.
    /// `taken` says whether replies to what they would become go to another flow.
    fn map(
        &mut self,
        cx: &mut Cx<'_>,
        key: FlowKey,
        taken: &dyn Fn(FlowKey) -> bool,
    ) -> Option<(FlowKey, [u16; 2])>;
}

impl Interface for dyn Mapper {
    const NAME: &'static str = "IPMapper";
}

/// Whether the mappings of a rewriter's flows are for the thread that their packets come from.
pub fn is_per_thread(cx: &mut Cx<'_>, mapper: Link<dyn Mapper>) -> bool {
    cx.reach(mapper, |mapper, _| mapper.is_per_thread()) == Some(true)
}

/// Checks that a rewriter with this many outputs has the outputs that the patterns of `mapper` name.
pub fn check(cx: &mut Cx<'_>, mapper: Link<dyn Mapper>, outputs: usize) -> Result<(), String> {
    let missing = |used: [u16; 2]| used.iter().any(|output| usize::from(*output) >= outputs);
    let wrong = cx.reach(mapper, |mapper, cx| {
        let number = mapper.outputs().into_iter().position(missing)?;
        let name = cx.declaration();
        Some(format!(
            "output port out of range in {name} pattern {number}"
        ))
    });
    wrong.flatten().map_or(Ok(()), Err)
}
