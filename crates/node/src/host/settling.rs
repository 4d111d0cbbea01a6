//! Settled flows: the programs that the switch has no privilege to load, and taking back what a guest has settled.

use std::collections::HashMap;

use abi::settle::TCP;
use switch::netlink::Netlink;
use switch::port::PortKind;
use switch::settled::Programs;

use super::Host;
use crate::error::{Error, Result};
use crate::model::SettledFlow;

impl Host {
    /// Lets guests settle flows between these links, as far as they are interfaces attached by packet sockets. What is
    /// done already is not done again.
    pub fn provide_settling(&mut self, links: &[String]) -> Result<()> {
        let ports = links.iter().filter_map(|name| {
            let port = self.ports.get(name)?;
            (port.kind == PortKind::Packet).then(|| (name.clone(), port.id))
        });
        let ports: Vec<_> = ports.collect();
        let Some(switch) = &mut self.switch else {
            return Ok(());
        };
        if switch.programs.is_none() {
            let programs = Programs::load().map_err(Error::refused)?;
            switch.client.begin_settling(&programs)?;
            switch.programs = Some(programs);
            switch.passages.clear();
        }
        let Some(programs) = &switch.programs else {
            return Ok(());
        };
        for (name, id) in ports {
            if switch.passages.get(&name) == Some(&id) {
                continue;
            }
            let found = Netlink::new().and_then(|mut netlink| netlink.interface(&name));
            // Its port is down, and is brought up when the interface is there again.
            let Ok(interface) = found else {
                continue;
            };
            let mtu = u16::try_from(interface.mtu).unwrap_or(u16::MAX);
            let passage = (interface.index, mtu);
            switch.client.add_passage(id, programs, passage)?;
            switch.passages.insert(name, id);
        }
        Ok(())
    }

    /// Takes back what a guest has settled: something about it is another now.
    pub fn take_back(&self, id: u64) {
        let (Some(guest), Some(switch)) = (self.guests.get(&id), &self.switch) else {
            return;
        };
        if switch.programs.is_none() {
            return;
        }
        let ports = guest.launch.ports.iter();
        let ports = ports.filter_map(|port| self.ports.get(&port.name).map(|port| port.id));
        // A switch that does not answer has other ways to end.
        let _ = switch.client.take_back(ports.collect());
    }

    /// The flows of which guests said that they are settled.
    pub fn settled_flows(&self) -> Result<Vec<SettledFlow>> {
        let Some(switch) = &self.switch else {
            return Ok(Vec::new());
        };
        let flows = switch.client.settled_flows()?;
        let names: HashMap<_, _> = self
            .ports
            .iter()
            .map(|(name, port)| (port.id, name))
            .collect();
        let named = |flow: switch::settled::SettledFlow<_>| {
            let flow = flow.map(|id| names.get(&id).map(|name| (*name).clone()));
            let [vnic, to_vnic] = flow.guest.map(Option::unwrap_or_default);
            let [source, destination] = flow.before.map(|end| end.to_string());
            let [to_source, to_destination] = flow.after.map(|end| end.to_string());
            let transport = if flow.protocol == TCP { "tcp" } else { "udp" };
            SettledFlow {
                vnic,
                to_vnic,
                link: flow.from,
                to_link: flow.to,
                transport: transport.into(),
                source,
                destination,
                to_source,
                to_destination,
                packets: flow.packets,
                bytes: flow.bytes,
                idle_ms: flow.idle,
                reason: flow.why.map(|why| why.to_string()),
            }
        };
        let mut flows: Vec<_> = flows.into_iter().map(named).collect();
        flows.sort_by(|a, b| {
            let key =
                |it: &SettledFlow| (it.vnic.clone(), it.source.clone(), it.destination.clone());
            key(a).cmp(&key(b))
        });
        Ok(flows)
    }

    /// How many flows are settled.
    pub fn settled(&self) -> u64 {
        let switch = self.switch.as_ref();
        switch.map_or(0, |switch| switch.client.settled().unwrap_or(0))
    }
}
