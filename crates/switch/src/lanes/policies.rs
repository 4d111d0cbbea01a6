//! Policies and flows: the control thread derives them from properties, for all lanes.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Instant;

use hashbrown::HashMap;

use super::{AttachError, Lanes};
use crate::ids::PortIndex;
use crate::mac::Mac;
use crate::properties::{FlowAttributes, FlowProperties, PortProperties, Settle, cpus_here};
use crate::protocol::{FlowDescription, FlowOn, PortId};
use crate::qos::classifier::{Classifier, MASKS_MAX, Overlap};
use crate::qos::flow::SharedFlow;
use crate::qos::policy::PortPolicy;
use crate::qos::token_bucket::clock;

/// Most flows of a domain.
pub const FLOWS_MAX: usize = 4096;
/// Longest name of a flow, in bytes (flowadm's).
pub const FLOW_NAME_MAX: usize = 127;

/// A flow, as the control thread keeps it.
struct FlowRecord {
    on: FlowOn,
    /// The number of its domain.
    domain: u32,
    /// Its number among the domain's flows.
    number: u32,
    attributes: FlowAttributes,
    properties: FlowProperties,
    shared: Arc<SharedFlow>,
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
pub(super) struct FlowRecords {
    by_name: BTreeMap<String, FlowRecord>,
    by_domain: HashMap<u32, DomainFlows>,
}

impl Lanes {
    /// The policy of a port with these properties.
    pub(super) fn policy(
        &self,
        domain: u32,
        mac: Option<Mac>,
        properties: &PortProperties,
    ) -> Result<Option<Arc<PortPolicy>>, AttachError> {
        let speed = self.asked.get(&domain).and_then(|asked| asked.speed);
        let policy = PortPolicy::new(properties, speed, mac, clock(Instant::now()));
        policy.map_err(|error| AttachError::Property(error.to_string()))
    }

    /// Whether properties are valid on a port whose link has this MTU.
    pub(super) fn check_properties(
        &self,
        properties: &PortProperties,
        mtu: u16,
    ) -> Result<(), AttachError> {
        let checked = properties.check(mtu, &self.cpus);
        checked.map_err(|error| AttachError::Property(error.to_string()))
    }

    /// Gives all lanes the policy that follows from a port's properties.
    pub(super) fn update_policy(&mut self, port: PortIndex) -> Result<(), AttachError> {
        let Some(member) = self.member(port) else {
            return Ok(());
        };
        let policy = self.policy(member.domain, member.mac, &member.properties)?;
        let mtu = member
            .properties
            .mtu
            .map_or(member.mtu, |mtu| mtu.min(member.mtu));
        let settles = member.properties.settle == Settle::On;
        self.on_all(move |worker| worker.set_policy(port, (policy.clone(), settles), mtu));
        Ok(())
    }

    /// Gives all ports of a domain policies with its speed, which is another now.
    pub(super) fn update_policies(&mut self, number: u32) {
        let ports: Vec<_> = self
            .members(0)
            .filter(|member| member.domain == number)
            .map(|member| member.id.slot)
            .collect();
        for port in ports {
            // The properties were valid before, and only the speed is another.
            let _ = self.update_policy(port);
        }
    }

    /// Adds a flow. Its name must be its own, and it must not share frames with another flow
    /// unless one of both is the more specific.
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
                "there is already a flow named ‘{name}’: choose another name"
            ));
        }
        let (domain, port) = match on {
            FlowOn::Domain(domain) => (domain, None),
            FlowOn::Port(port) => {
                let member = self.member(port.slot).filter(|member| member.id == port);
                let member = member.ok_or("the port is no longer attached")?;
                (member.domain, Some(port.slot))
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
        let shared = Arc::new(SharedFlow::new(&properties, clock(Instant::now())));
        let record = FlowRecord {
            on,
            domain,
            number,
            attributes,
            properties,
            shared,
        };
        self.tell_flow(&record);
        self.flows.by_name.insert(name.to_owned(), record);
        Ok(())
    }

    /// Tells all lanes of a flow, if its domain has ports.
    fn tell_flow(&self, record: &FlowRecord) {
        let Some(domain) = self.domains.get(&record.domain).map(|domain| domain.index) else {
            return;
        };
        let (attributes, number) = (record.attributes, record.number);
        let port = match record.on {
            FlowOn::Domain(_) => None,
            FlowOn::Port(port) => Some(port.slot),
        };
        let flow = Arc::clone(&record.shared);
        self.on_all(move |worker| {
            worker.add_flow(domain, number, &attributes, port, Arc::clone(&flow));
        });
    }

    /// Tells all lanes of the flows of a domain that gets its first port.
    pub(super) fn tell_flows(&self, domain: u32) {
        let records = self.flows.by_name.values();
        records
            .filter(|record| record.domain == domain)
            .for_each(|record| self.tell_flow(record));
    }

    /// Removes a flow. Frames that waited for its rate go on.
    pub fn remove_flow(&mut self, name: &str) -> Result<(), String> {
        let record = self.flows.by_name.remove(name);
        let record = record.ok_or_else(|| format!("no flow ‘{name}’"))?;
        if let Some(flows) = self.flows.by_domain.get_mut(&record.domain) {
            flows.classifier.remove(record.number);
            flows.names[record.number as usize] = None;
            if flows.names.iter().all(Option::is_none) {
                self.flows.by_domain.remove(&record.domain);
            }
        }
        if let Some(domain) = self.domains.get(&record.domain) {
            let (domain, number) = (domain.index, record.number);
            self.on_all(move |worker| worker.remove_flow(domain, number));
        }
        Ok(())
    }

    /// Removes the flows on a port.
    pub(super) fn remove_flows_on(&mut self, port: PortId) {
        let records = self.flows.by_name.iter();
        let names: Vec<_> = records
            .filter(|(_, record)| record.on == FlowOn::Port(port))
            .map(|(name, _)| name.clone())
            .collect();
        for name in names {
            let _ = self.remove_flow(&name);
        }
    }

    /// The flows behind the one with a name, in the order of their names.
    pub fn flows(&self, after: Option<&str>) -> impl Iterator<Item = FlowDescription> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let records = self.flows.by_name.range::<str, _>((from, Bound::Unbounded));
        records.map(|(name, record)| FlowDescription {
            name: name.clone(),
            on: record.on,
            attributes: record.attributes,
            properties: record.properties,
            stats: record.shared.counters.read(),
        })
    }
}

impl DomainFlows {
    /// Why a flow is refused, as a sentence.
    fn refusal(&self, overlap: Overlap) -> String {
        let name = |number: u32| {
            let name = self.names.get(number as usize).and_then(Option::as_deref);
            name.unwrap_or("?").to_owned()
        };
        match overlap {
            Overlap::Same(other) => {
                let other = name(other);
                format!(
                    "the flow ‘{other}’ has the same attributes: `weir flow remove {other}` first, or give this flow other attributes"
                )
            }
            Overlap::Partial(other) => format!(
                "some traffic belongs to the flow and to ‘{}’, and neither holds all of the other's: \
                 flows may nest, so give it all of the other's attributes and more, or fewer of them",
                name(other)
            ),
            Overlap::Masks => format!(
                "a link's flows have at most {MASKS_MAX} combinations of attributes: use one that \
                 another flow has"
            ),
        }
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let fits = (1..=FLOW_NAME_MAX).contains(&name.len());
    if !fits || !name.chars().all(|c| c.is_ascii_graphic()) {
        return Err(format!(
            "‘{}’ is not a flow name: a name has 1 to {FLOW_NAME_MAX} letters, digits and signs",
            name.escape_debug()
        ));
    }
    Ok(())
}

/// The CPUs that properties may name.
pub(super) fn cpus() -> Vec<u16> {
    cpus_here()
}
