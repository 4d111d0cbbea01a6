//! Counters of ports, flows and lanes.

use super::Node;
use super::resource::Resource;
use crate::error::{Error, Fault, Result, Subject};
use crate::model::{
    Application, Class, Guest, LaneStats, LinkRecord, Nsm, PortStats, Scrape, VnicRecord,
};

impl Node {
    /// Counters of all interfaces of links, VNICs and ends of patches.
    pub fn all_stats(&self) -> Result<Vec<PortStats>> {
        let mut all = Vec::new();
        for link in self.store.all::<LinkRecord>()? {
            if link.class == Class::Nic {
                all.push(self.stats_of(&link.name, &link.name, true));
            }
        }
        for vnic in self.store.all::<VnicRecord>()? {
            all.push(self.stats_of(&vnic.name, &vnic.link, false));
        }
        for (end, link) in self.patch_ends()? {
            all.push(self.stats_of(&end, &link, false));
        }
        Ok(all)
    }

    /// Counters of a link's interface, a VNIC or an end of a patch. Nothing else is looked at.
    pub fn stats(&self, name: &str) -> Result<PortStats> {
        let (link, outside) = self.port(name)?;
        Ok(self.stats_of(name, &link, outside))
    }

    pub(super) fn stats_of(&self, name: &str, link: &str, outside: bool) -> PortStats {
        PortStats::new(name, link, &self.host.stats(name), outside)
    }

    /// The link of a port, and whether the port is its interface.
    pub(super) fn port(&self, name: &str) -> Result<(String, bool)> {
        if let Some(link) = self.store.get::<LinkRecord>(name)? {
            return match link.class {
                Class::Nic => Ok((link.name, true)),
                Class::Stub => Err(self.no_port(name)),
            };
        }
        if let Some(vnic) = self.store.get::<VnicRecord>(name)? {
            return Ok((vnic.spec.link, false));
        }
        match self.patch_end(name)? {
            Some(link) => Ok((link, false)),
            None => Err(self.no_port(name)),
        }
    }

    /// The subject under which a port that is down is noted.
    pub(super) fn subject_of_port(&self, name: &str) -> Subject {
        let is_vnic = matches!(self.store.get::<VnicRecord>(name), Ok(Some(_)));
        let is_link = || matches!(self.store.get::<LinkRecord>(name), Ok(Some(_)));
        let name = name.to_string();
        if is_vnic {
            Subject::Vnic(name)
        } else if is_link() {
            Subject::Link(name)
        } else {
            Subject::Patch(name)
        }
    }

    /// Counters of a link's interface or a VNIC, of each lane apart; none while it is down.
    pub fn stats_by_lane(&self, name: &str) -> Result<Vec<PortStats>> {
        let (link, outside) = self.port(name)?;
        let lanes = self.host.stats_by_lane(name)?;
        let stats = lanes.iter().zip(0..).map(|(stats, lane)| PortStats {
            lane: Some(lane),
            ..PortStats::new(name, &link, stats, outside)
        });
        Ok(stats.collect())
    }

    /// All counters.
    pub fn scrape(&mut self) -> Result<Scrape> {
        // Without a switch there are none of it.
        let lanes = self.lanes().unwrap_or_default();
        let ports = self.all_stats()?;
        let mut port_lanes = Vec::new();
        if lanes.len() > 1 {
            for port in &ports {
                port_lanes.extend(self.stats_by_lane(&port.name)?);
            }
        }
        let guest = |port: PortStats| {
            let guest = self.index.guest_of(&port.name).map(str::to_string);
            (port, guest)
        };
        Ok(Scrape {
            node: self.status()?,
            ports: ports.into_iter().map(guest).collect(),
            port_lanes,
            lanes,
            flows: self.flow_stats().unwrap_or_default(),
            guests: Guest::all(self)?,
            nsms: Nsm::all(self)?,
            applications: Application::all(self)?,
        })
    }

    /// The counters of the switch's lanes.
    pub fn lanes(&self) -> Result<Vec<LaneStats>> {
        let lanes = self.host.lanes()?;
        Ok(lanes.into_iter().map(LaneStats::from).collect())
    }

    fn no_port(&self, name: &str) -> Error {
        Fault::NoPort { name: name.into() }.into()
    }
}
