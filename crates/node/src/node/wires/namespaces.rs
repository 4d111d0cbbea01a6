//! The namespaces of wires, and their routes.

use super::Node;
use crate::error::{Fault, Result, Subject};
use crate::host::network;
use crate::model::{Forwarding, Namespace, Route, VnicRecord, WireRecord};

impl Node {
    /// Makes a namespace of a wire, or takes it as it is there.
    pub(super) fn make_namespace(&mut self, wire: &str, name: &str, it: &Namespace) -> Result<()> {
        if !it.existing {
            network::create(name)?;
        } else if !network::exists(name) {
            return Err(Fault::NoNamespace { name: name.into() }.into());
        }
        self.set_forwarding(wire, name, it)
    }

    /// Removes a namespace of a wire, or leaves it as it was before.
    pub(super) fn leave_namespace(&mut self, wire: &str, name: &str, it: &Namespace) -> Result<()> {
        if it.existing {
            self.put_forwarding_back(wire, name)
        } else {
            network::delete(name)
        }
    }

    /// Sets whether a namespace forwards IP packets. In an existing namespace, forwarding is
    /// switched on if the wire says so, else left or restored.
    pub(super) fn set_forwarding(&mut self, wire: &str, name: &str, it: &Namespace) -> Result<()> {
        let wanted = Forwarding::all(it.forwarding);
        match (it.existing, it.forwarding) {
            (false, _) => return network::set_forwarding(name, wanted),
            (true, false) => return self.put_forwarding_back(wire, name),
            (true, true) => {}
        }
        let is = network::forwarding(name)?;
        if is == wanted {
            return Ok(());
        }
        // Recorded first, so that the undo step knows the former value.
        let mut record = self.applied(wire)?;
        record.forwarding.entry(name.into()).or_insert(is);
        self.store.put(&record)?;
        network::set_forwarding(name, wanted)
    }

    /// Restores a namespace's forwarding to the value before a wire changed it. If another wire
    /// needs it as well, that wire takes over the value to restore.
    fn put_forwarding_back(&mut self, wire: &str, name: &str) -> Result<()> {
        let mut record = self.applied(wire)?;
        let Some(was) = record.forwarding.remove(name) else {
            return Ok(());
        };
        let wants = |other: &WireRecord| {
            let namespace = other.wanted().namespaces.get(name);
            other.name != wire && namespace.is_some_and(|it| it.existing && it.forwarding)
        };
        let heir = self.store.all::<WireRecord>()?.into_iter().find(wants);
        if heir.is_none() && network::exists(name) {
            network::set_forwarding(name, was)?;
        }
        let change = self.store.change()?;
        change.put(&record)?;
        if let Some(mut heir) = heir {
            heir.forwarding.insert(name.into(), was);
            change.put(&heir)?;
        }
        Ok(change.commit()?)
    }

    /// Creates what is missing of wires' namespaces: after a reboot of the machine there are none.
    pub(in crate::node) fn bring_namespaces(&mut self) -> Result<()> {
        for record in self.settled_wires()? {
            for (name, namespace) in &record.applied.namespaces {
                if !namespace.existing && !network::exists(name) {
                    let made = network::create(name);
                    let made = made.and_then(|()| {
                        network::set_forwarding(name, Forwarding::all(namespace.forwarding))
                    });
                    self.host.note(Subject::Namespace(name.clone()), made);
                }
            }
        }
        Ok(())
    }

    /// Removes the namespaces that wires made, and has others forward as they did before.
    pub(in crate::node) fn remove_namespaces(&self) -> Result<()> {
        for record in self.store.all::<WireRecord>()? {
            for (name, was) in record.forwarding {
                if network::exists(&name) {
                    network::set_forwarding(&name, was)?;
                }
            }
            let wires = [Some(record.applied), record.pending];
            for (name, namespace) in wires.into_iter().flatten().flat_map(|w| w.namespaces) {
                if !namespace.existing {
                    network::delete(&name)?;
                }
            }
        }
        Ok(())
    }

    /// Routes with the names of their interfaces in the namespace.
    pub(super) fn routes(&self, routes: &[Route]) -> Result<Vec<network::InterfaceRoute>> {
        let route = |route: &Route| {
            let vnic = route
                .vnic
                .as_ref()
                .map(|vnic| self.find_vnic(vnic))
                .transpose()?;
            Ok(network::InterfaceRoute {
                to: route.to,
                via: route.via,
                interface: vnic.map(|vnic| vnic.interface().to_string()),
                metric: route.metric,
            })
        };
        routes.iter().map(route).collect()
    }

    /// The routes among those set that may still exist: a route by a removed VNIC went with its
    /// interface.
    pub(super) fn routes_left(&self, routes: &[Route]) -> Result<Vec<network::InterfaceRoute>> {
        let mut left = Vec::new();
        for route in routes {
            let gone = match &route.vnic {
                Some(vnic) => self.store.get::<VnicRecord>(vnic)?.is_none(),
                None => false,
            };
            if !gone {
                left.push(route.clone());
            }
        }
        self.routes(&left)
    }

    /// Sets the routes of a namespace that had an interface recreated.
    pub(in crate::node) fn bring_routes(&mut self, namespace: &str) -> Result<()> {
        for record in self.settled_wires()? {
            if let Some(described) = record.applied.namespaces.get(namespace) {
                network::set_routes(namespace, &[], &self.routes(&described.routes)?)?;
            }
        }
        Ok(())
    }
}
