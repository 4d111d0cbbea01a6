//! What the control thread makes of properties: the limits that all lanes keep to, and flows.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Instant;

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

use super::{AttachError, Lanes};
use crate::lookup::{Mac, PortIndex};
use crate::properties::{FlowAttributes, FlowProperties, PortProperties, cpus_here};
use crate::protocol::PortId;
use crate::qos::bucket::clock;
use crate::qos::classifier::{Classifier, KINDS_MAX, Overlap};
use crate::qos::shape::{Flow, FlowStats, Shape};

/// Most flows of a domain.
pub const FLOWS_MAX: usize = 4096;
/// Longest name of a flow, in bytes (flowadm's).
pub const FLOW_NAME_MAX: usize = 127;

/// What a flow is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowOn {
    /// All frames of the domain with this number.
    Domain(u32),
    /// The frames from and to a port.
    Port(PortId),
}

/// What a switch tells of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowDescription {
    /// Its name.
    pub name: String,
    /// What it is on.
    pub on: FlowOn,
    /// Which frames are its own.
    pub attributes: FlowAttributes,
    /// What it may do.
    pub properties: FlowProperties,
    /// What it has counted.
    pub stats: FlowStats,
}

/// A flow, as the control thread keeps it.
struct Entry {
    on: FlowOn,
    /// The number of its domain.
    domain: u32,
    /// Its number among those of the domain.
    number: u32,
    attributes: FlowAttributes,
    properties: FlowProperties,
    flow: Arc<Flow>,
}

/// The flows of one domain.
#[derive(Default)]
struct DomainFlows {
    classifier: Classifier,
    /// Their names by their numbers.
    names: Vec<Option<String>>,
}

/// All flows of a switch.
#[derive(Default)]
pub(super) struct FlowBook {
    by_name: BTreeMap<String, Entry>,
    by_domain: HashMap<u32, DomainFlows>,
}

impl Lanes {
    /// What lanes are told of a port with these properties.
    pub(super) fn shape(
        &self,
        domain: u32,
        mac: Option<Mac>,
        properties: &PortProperties,
    ) -> Result<Option<Arc<Shape>>, AttachError> {
        let speed = self.asked.get(&domain).and_then(|asked| asked.speed);
        let shape = Shape::new(properties, speed, mac, clock(Instant::now()));
        shape.map_err(|error| AttachError::Property(error.to_string()))
    }

    /// Whether properties can be, on a port whose link has this MTU.
    pub(super) fn check_properties(
        &self,
        properties: &PortProperties,
        mtu: u16,
    ) -> Result<(), AttachError> {
        let checked = properties.check(mtu, &self.cpus);
        checked.map_err(|error| AttachError::Property(error.to_string()))
    }

    /// Has all lanes keep to a port's properties as they are now.
    pub(super) fn reshape(&mut self, place: PortIndex) -> Result<(), AttachError> {
        let Some(member) = self.member(place) else {
            return Ok(());
        };
        let shape = self.shape(member.domain, member.mac, &member.properties)?;
        let mtu = member
            .properties
            .mtu
            .map_or(member.mtu, |mtu| mtu.min(member.mtu));
        self.on_all(move |worker| worker.set_shape(place, shape.clone(), mtu));
        Ok(())
    }

    /// Has all ports of a domain keep to its speed, which is another now.
    pub(super) fn reshape_domain(&mut self, number: u32) {
        let places: Vec<_> = self
            .members(0)
            .filter(|member| member.domain == number)
            .map(|member| member.id.place)
            .collect();
        for place in places {
            // What could be before can be now: only the speed is another.
            let _ = self.reshape(place);
        }
    }

    /// Adds a flow. Its name must be its own, and it must not share frames with another flow
    /// unless one of both is the more special.
    pub fn add_flow(
        &mut self,
        name: &str,
        on: FlowOn,
        attributes: FlowAttributes,
        properties: FlowProperties,
    ) -> Result<(), String> {
        check_name(name)?;
        attributes.check().map_err(|error| error.to_string())?;
        if self.flows.by_name.contains_key(name) {
            return Err(format!(
                "there is a flow ‘{name}’ already: choose another name"
            ));
        }
        let (domain, port) = match on {
            FlowOn::Domain(domain) => (domain, None),
            FlowOn::Port(port) => {
                let member = self.member(port.place).filter(|member| member.id == port);
                let member = member.ok_or("the port is not attached any more")?;
                (member.domain, Some(port.place))
            }
        };
        let flows = self.flows.by_domain.entry(domain).or_default();
        let number = flows.names.iter().position(Option::is_none);
        let number = number.unwrap_or(flows.names.len());
        if number == FLOWS_MAX {
            return Err(format!(
                "a link has at most {FLOWS_MAX} flows: remove one first"
            ));
        }
        let number = number as u32;
        flows
            .classifier
            .add(&attributes, port, number)
            .map_err(|overlap| flows.refusal(overlap))?;
        if flows.names.len() == number as usize {
            flows.names.push(None);
        }
        flows.names[number as usize] = Some(name.to_owned());
        let flow = Arc::new(Flow::new(&properties, clock(Instant::now())));
        let entry = Entry {
            on,
            domain,
            number,
            attributes,
            properties,
            flow,
        };
        self.tell_flow(&entry);
        self.flows.by_name.insert(name.to_owned(), entry);
        Ok(())
    }

    /// Tells all lanes of a flow, if its domain has ports.
    fn tell_flow(&self, entry: &Entry) {
        let Some(place) = self.domains.get(&entry.domain).map(|domain| domain.place) else {
            return;
        };
        let (attributes, number) = (entry.attributes, entry.number);
        let port = match entry.on {
            FlowOn::Domain(_) => None,
            FlowOn::Port(port) => Some(port.place),
        };
        let flow = Arc::clone(&entry.flow);
        self.on_all(move |worker| {
            worker.add_flow(place, number, &attributes, port, Arc::clone(&flow));
        });
    }

    /// Tells all lanes of the flows of a domain that has its first port.
    pub(super) fn tell_flows(&self, domain: u32) {
        let entries = self.flows.by_name.values();
        entries
            .filter(|entry| entry.domain == domain)
            .for_each(|entry| self.tell_flow(entry));
    }

    /// Removes a flow. What waited for its limit is dropped.
    pub fn remove_flow(&mut self, name: &str) -> Result<(), String> {
        let entry = self.flows.by_name.remove(name);
        let entry = entry.ok_or_else(|| format!("no flow ‘{name}’"))?;
        if let Some(flows) = self.flows.by_domain.get_mut(&entry.domain) {
            flows.classifier.remove(entry.number);
            flows.names[entry.number as usize] = None;
            if flows.names.iter().all(Option::is_none) {
                self.flows.by_domain.remove(&entry.domain);
            }
        }
        if let Some(domain) = self.domains.get(&entry.domain) {
            let (place, number) = (domain.place, entry.number);
            self.on_all(move |worker| worker.remove_flow(place, number));
        }
        Ok(())
    }

    /// Removes the flows on a port.
    pub(super) fn remove_flows_on(&mut self, port: PortId) {
        let entries = self.flows.by_name.iter();
        let names: Vec<_> = entries
            .filter(|(_, entry)| entry.on == FlowOn::Port(port))
            .map(|(name, _)| name.clone())
            .collect();
        for name in names {
            let _ = self.remove_flow(&name);
        }
    }

    /// The flows behind the one with a name, in the order of their names.
    pub fn flows(&self, after: Option<&str>) -> impl Iterator<Item = FlowDescription> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let entries = self.flows.by_name.range::<str, _>((from, Bound::Unbounded));
        entries.map(|(name, entry)| FlowDescription {
            name: name.clone(),
            on: entry.on,
            attributes: entry.attributes,
            properties: entry.properties,
            stats: entry.flow.counters.read(),
        })
    }
}

impl DomainFlows {
    /// Why a flow cannot be, as a sentence.
    fn refusal(&self, overlap: Overlap) -> String {
        let name = |number: u32| {
            let name = self.names.get(number as usize).and_then(Option::as_deref);
            name.unwrap_or("?").to_owned()
        };
        match overlap {
            Overlap::Same(other) => {
                let other = name(other);
                format!(
                    "the flow ‘{other}’ has the same attributes: `weir flow remove {other}` first, or give this one others"
                )
            }
            Overlap::Partial(other) => format!(
                "the flow overlaps with ‘{}’, and neither is a part of the other: give it \
                 attributes that are",
                name(other)
            ),
            Overlap::Kinds => format!(
                "a link's flows have at most {KINDS_MAX} combinations of attributes: use one that \
                 another flow has"
            ),
        }
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let fits = (1..=FLOW_NAME_MAX).contains(&name.len());
    if !fits || !name.chars().all(|c| c.is_ascii_graphic()) {
        return Err(format!(
            "‘{}’ is no name of a flow: it has 1 to {FLOW_NAME_MAX} letters, digits and signs",
            name.escape_debug()
        ));
    }
    Ok(())
}

/// The CPUs that properties may name.
pub(super) fn cpus() -> Vec<u16> {
    cpus_here()
}
