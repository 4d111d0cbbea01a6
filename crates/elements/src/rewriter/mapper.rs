//! Elements that decide how rewriters rewrite.

use router::{Cx, ElementId};

use super::key::FlowKey;

/// Asks the element `mapper` what the packets of `key` are to become, and by which outputs they
/// leave, forward and back.
pub fn map(
    _cx: &mut Cx<'_>,
    _mapper: ElementId,
    _key: FlowKey,
    _taken: &dyn Fn(FlowKey) -> bool,
) -> Option<(FlowKey, [u16; 2])> {
    None
}
