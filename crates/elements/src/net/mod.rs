//! A guest's network devices: the rings it shares with the switch.

use alloc::vec::Vec;

use router::{ClassEntry, Cx, ElementId};

mod guest;
mod receiver;
mod sender;

crate::elements! {
    from_netfront: FromNetfront;
    to_netfront: ToNetfront;
}

#[cfg(test)]
mod tests;

/// The elements of the router that receive from an interface, the one at work included. All are
/// configured.
fn receivers_of(cx: &mut Cx<'_>, interface: &str) -> Vec<ElementId> {
    let own = cx.id();
    let elements = (0..cx.graph().elements.len()).map(ElementId::new);
    let is_one = |id: &ElementId| {
        *id == own
            || cx.with::<from_netfront::FromNetfront, _>(*id, |e, _| e.is_of(interface))
                == Some(true)
            || cx.with::<guest::FromDevice, _>(*id, |e, _| e.is_of(interface)) == Some(true)
    };
    elements.filter(is_one).collect()
}

/// What a guest's library has in the place of the host's elements: the devices under Click's
/// names, and a reason for each class that needs a host.
pub static GUEST: &[ClassEntry] = guest::CLASSES;
