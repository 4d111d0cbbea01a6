//! Interfaces that are down. A VNIC is always up, so a VNIC in their place would carry frames that they do not.

use super::super::seen::{InterfaceKind, SeenInterface, SeenNamespace};

/// The interfaces seen, except interfaces that are down or carry nothing because another is down. Returns also a sentence
/// for each that a wire would have had.
pub(super) fn without(seen: &[SeenNamespace]) -> (Vec<SeenNamespace>, Vec<String>) {
    let mut notes = Vec::new();
    let mut left = seen.to_vec();
    for (at, namespace) in seen.iter().enumerate() {
        for link in &namespace.interfaces {
            if let Some(why) = idle(seen, at, link) {
                left[at].interfaces.retain(|it| it.index != link.index);
                if why == Why::Own && would_be_there(seen, at, link) {
                    notes.push(format!(
                        "‘{}’ of {}: it is down, and a VNIC would be up: it is omitted",
                        link.name,
                        namespace.called()
                    ));
                }
            }
        }
    }
    (left, notes)
}

/// Why an interface carries nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    /// It is down itself.
    Own,
    /// The interface below it, or at its other end, is down.
    Others,
}

fn idle(seen: &[SeenNamespace], at: usize, link: &SeenInterface) -> Option<Why> {
    let is_down = |index: u32| {
        let other = seen[at].interface(index);
        other.is_some_and(|other| !other.up)
    };
    let is_made = match link.kind {
        InterfaceKind::Loopback | InterfaceKind::Other(_) => false,
        InterfaceKind::Device | InterfaceKind::Tap => link.master.is_some(),
        _ => true,
    };
    if !is_made {
        return None;
    }
    if !link.up {
        return Some(Why::Own);
    }
    let below = match link.kind {
        InterfaceKind::Vlan { below, .. } => is_down(below),
        _ => false,
    };
    let idle = below
        || link.master.is_some_and(is_down)
        || peer(seen, link).is_some_and(|it| {
            let (there, peer) = it;
            !peer.up
                || peer.master.is_some_and(|master| {
                    let bridge = seen[there].interface(master);
                    bridge.is_some_and(|bridge| !bridge.up)
                })
        });
    idle.then_some(Why::Others)
}

/// The other end of a pair.
fn peer<'a>(seen: &'a [SeenNamespace], link: &SeenInterface) -> Option<(usize, &'a SeenInterface)> {
    let InterfaceKind::Veth { index, namespace } = link.kind else {
        return None;
    };
    let at = namespace?;
    Some((at, seen.get(at)?.interface(index)?))
}

/// Whether a wire would have an interface, if it were up.
fn would_be_there(seen: &[SeenNamespace], at: usize, link: &SeenInterface) -> bool {
    let has_ports = || {
        let mut others = seen[at].interfaces.iter();
        others.any(|other| other.master == Some(link.index))
    };
    match link.kind {
        InterfaceKind::Bridge { .. } => has_ports() || !link.addresses.is_empty(),
        InterfaceKind::Veth { .. } => peer(seen, link).is_some(),
        _ => true,
    }
}
