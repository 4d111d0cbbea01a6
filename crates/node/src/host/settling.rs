//! Settled flows: the programs that the switch has no privilege to load, and taking back what a guest has settled.

use switch::netlink::Netlink;
use switch::port::PortKind;
use switch::settled::Programs;

use super::Host;
use crate::error::{Error, Result};

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

    /// How many flows are settled.
    pub fn settled(&self) -> u64 {
        let switch = self.switch.as_ref();
        switch.map_or(0, |switch| switch.client.settled().unwrap_or(0))
    }
}
