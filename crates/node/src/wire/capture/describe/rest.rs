//! Namespaces with their routes, and notes on things without a counterpart in a wire.

use super::super::seen::{InterfaceKind, SeenInterface};
use super::{Describing, beyond};
use crate::model::{Namespace, Route};

impl Describing<'_> {
    pub(super) fn namespaces(&mut self) {
        for (at, namespace) in self.seen.iter().enumerate() {
            let mut routes = Vec::new();
            for route in &namespace.routes {
                let vnic = route
                    .device
                    .and_then(|device| self.vnics.get(&(at, device)));
                match (vnic, &namespace.name) {
                    (Some(vnic), Some(_)) => routes.push(Route {
                        to: route.to,
                        via: route.via,
                        // The gateway's subnet tells the interface already.
                        vnic: route.via.is_none().then(|| vnic.clone()),
                        metric: route.metric,
                    }),
                    (Some(vnic), None) => self.notes.push(format!(
                        "the host has a route to {} by ‘{vnic}’, which the wire does not set: add it with ‘ip route’",
                        route.to
                    )),
                    (None, Some(name)) => self.notes.push(format!(
                        "namespace ‘{name}’ has a route to {} by an interface outside the wire: the route is omitted",
                        route.to
                    )),
                    (None, None) => {}
                }
            }
            let Some(name) = &namespace.name else {
                continue;
            };
            let name = format!("{}{name}", self.prefix);
            if self
                .wire
                .vnics
                .values()
                .any(|vnic| vnic.namespace.as_ref() == Some(&name))
            {
                let described = Namespace {
                    forwarding: namespace.forwards,
                    routes,
                    ..Namespace::default()
                };
                self.wire.namespaces.insert(name, described);
            }
        }
    }

    /// Tells of interfaces that nothing was made of, and of queueing and routing that a wire does
    /// not have. Of the host's own interfaces and routing, only where the wire has VNICs of the host.
    pub(super) fn left_out(&mut self) {
        let seen = self.seen;
        for (at, namespace) in seen.iter().enumerate() {
            for link in &namespace.interfaces {
                let other = self.peer(link).map(|(at, peer)| (at, peer.index));
                let mut ends = [Some((at, link.index)), other].into_iter().flatten();
                let known = ends.any(|end| self.vnics.contains_key(&end));
                if known || self.bridge_of(at, link).is_some() {
                    for queueing in &link.queueing {
                        self.note(
                            at,
                            link,
                            &format!("{queueing} has no counterpart and is omitted"),
                        );
                    }
                }
            }
        }
        for (at, namespace) in seen.iter().enumerate() {
            let is_in = self.vnics.keys().any(|(namespace, _)| *namespace == at);
            if namespace.name.is_none() && !is_in {
                continue;
            }
            for policy in &namespace.policies {
                let called = namespace.called();
                self.notes.push(format!(
                    "{policy} of {called} has no counterpart and is omitted"
                ));
            }
            for link in &namespace.interfaces {
                if namespace.name.is_some() {
                    self.end_left_out(at, link);
                }
                let kind = match &link.kind {
                    InterfaceKind::Tap => "TUN or TAP",
                    InterfaceKind::Other(kind) => kind,
                    InterfaceKind::Device if namespace.name.is_some() => "NIC",
                    _ => continue,
                };
                // Ports were described with their bridges; interfaces that are down need no note.
                let known = link.master.is_some() || self.vnics.contains_key(&(at, link.index));
                if !known && (link.up || !link.addresses.is_empty()) {
                    let text = format!("a {kind} interface has no counterpart and is omitted");
                    self.note(at, link, &text);
                }
            }
        }
    }

    /// Tells of addresses of a loopback, and of one end of a pair whose other end is not known.
    fn end_left_out(&mut self, at: usize, link: &SeenInterface) {
        match link.kind {
            InterfaceKind::Loopback => {
                for address in &link.addresses {
                    let text = format!("its address {address} has no counterpart and is omitted");
                    self.note(at, link, &text);
                }
            }
            // Of a bridge's port, that was told.
            InterfaceKind::Veth { .. }
                if link.up && link.master.is_none() && self.peer(link).is_none() =>
            {
                self.note(at, link, &beyond(link));
            }
            _ => {}
        }
    }
}
