//! Guests that migrate to other nodes.

use std::net::SocketAddr;

use super::Node;
use super::copies::check_without_sockets;
use crate::error::{Error, Fault, Result};
use crate::host::Departure;
use crate::model::{
    Arrival, ArrivalPort, Destination, Event, GuestRecord, Happened, Migrate, Topic, VnicRecord,
};
use crate::tls::Files;

impl Node {
    /// Sets by which certificates other nodes are asked.
    pub fn set_identity(&mut self, files: Option<Files>) {
        self.identity = files;
    }

    /// Sets where clients of the network are served.
    pub fn set_listens(&mut self, address: SocketAddr) {
        self.listens = Some(address);
    }

    /// Where clients of the network are served, if they are.
    pub fn listens(&self) -> Option<SocketAddr> {
        self.listens
    }

    /// By which certificates other nodes are asked.
    pub fn identity(&self) -> Result<Files> {
        let missing = || {
            Error::refused(
                "this node has no certificate to show the other one: start it with `--listen`, `--tls-cert`, `--tls-key` and `--tls-client-ca`",
            )
        };
        self.identity.clone().ok_or_else(missing)
    }

    /// Begins to read a guest that is to go on at another node, with the message that announces it there. Until
    /// [`forget_departure`](Self::forget_departure), nothing else can be done with it: two readers would take from
    /// each other the pages that the guest wrote.
    pub fn begin_departure(
        &mut self,
        name: &str,
        migrate: &Migrate,
    ) -> Result<(Arrival, Departure)> {
        let guest = self.find_guest(name)?;
        self.check_settled(&guest)?;
        check_without_sockets(&guest)?;
        if !self.host.runs(guest.id) {
            return Err(Fault::NotRunning { guest: guest.name }.into());
        }
        if guest.template || guest.paused {
            return Err(Fault::StandsStill { guest: guest.name }.into());
        }
        self.check_no_wire(name)?;
        let guest = guest.as_booted();
        if let Some(interface) = migrate
            .links
            .keys()
            .find(|it| !guest.interfaces.contains_key(*it))
        {
            let interfaces: Vec<_> = guest.interfaces.keys().map(String::as_str).collect();
            return Err(Error::invalid(format_args!(
                "guest ‘{name}’ has no interface ‘{interface}’: it has {}",
                interfaces.join(", ")
            ))
            .of_field("links"));
        }
        let mut ports = std::collections::BTreeMap::new();
        for port in &guest.ports {
            let vnic = self.find_vnic(&port.vnic)?;
            self.check_no_flows(&vnic.name)?;
            self.check_no_default(&vnic)?;
            let link = migrate.links.get(&port.name);
            ports.insert(port.name.clone(), ArrivalPort::of(&vnic, link));
        }
        let departure = self.host.depart(guest.id)?;
        self.guests.departing.insert(guest.id);
        let arrival = Arrival {
            version: Arrival::VERSION,
            name: name.into(),
            guest: guest.spec,
            ports,
            description: departure.description.clone(),
        };
        Ok((arrival, departure))
    }

    /// A guest does not migrate any more, whether it is here or not.
    pub fn forget_departure(&mut self, id: u64) {
        self.guests.departing.remove(&id);
    }

    /// Records of the control region of a guest that stands still; it loses its ports unless its rings are `drained`.
    pub fn last_records(&mut self, name: &str, drained: bool) -> Result<Vec<u8>> {
        let id = self.find_guest(name)?.id;
        if !drained {
            self.host.leave_switch(id);
        }
        Ok(self.host.control_records(id))
    }

    /// Detaches the ports of a guest that runs at another node.
    pub fn leave_switch(&mut self, name: &str) -> Result<()> {
        let id = self.find_guest(name)?.id;
        self.host.leave_switch(id);
        Ok(())
    }

    /// Notes where a guest is that is about to be left to another node: should this one be killed meanwhile, the next
    /// one asks there.
    pub fn note_departure(&mut self, name: &str, to: Destination) -> Result<()> {
        let guest = self.find_guest(name)?;
        let departure = Some(to);
        Ok(self.store.put(&GuestRecord { departure, ..guest })?)
    }

    /// The guests of which an earlier node did not live to know whether they go on elsewhere.
    pub fn departures(&self) -> Result<Vec<(String, Destination)>> {
        let guests = self.store.all::<GuestRecord>()?.into_iter();
        Ok(guests
            .filter_map(|guest| Some((guest.name, guest.departure?)))
            .collect())
    }

    /// Resumes a suspended guest here. It may run at the node `elsewhere` as well, which does not answer.
    pub fn stay(&mut self, name: &str, elsewhere: Option<&str>) -> Result<()> {
        let mut guest = self.find_guest(name)?;
        if let Some(to) = elsewhere {
            let event = Event::of(Topic::Guest, name, Happened::InDoubt);
            self.tell(event.note(format_args!(
                "it goes on here, and the node at {to} cannot be asked whether it goes on there as well: destroy one of the two"
            )));
        }
        if guest.departure.take().is_some() {
            self.store.put(&guest)?;
        }
        let attached = self.host.reattach_guest(guest.id);
        self.guests.suspending.remove(&guest.id);
        if self.host.is_suspended(guest.id) {
            self.host.go_on(guest.id)?;
        }
        attached?;
        // The network may have heard that its addresses are there.
        self.host.announce(guest.id)
    }

    /// Removes a guest that goes on at another node, with its VNICs.
    pub fn end_departure(&mut self, name: &str, to: &str) -> Result<()> {
        let guest = self.find_guest(name)?;
        let (made, kept) = self.vnics_to_leave(&guest)?;
        let event = Event::of(Topic::Guest, name, Happened::Left);
        self.tell(event.note(format_args!("it goes on at {to}")));
        self.remove_guests(&[(guest, made)])?;
        for vnic in kept {
            self.remove_vnic(&vnic.name)?;
        }
        Ok(())
    }

    fn vnics_to_leave(&self, guest: &GuestRecord) -> Result<(Vec<VnicRecord>, Vec<VnicRecord>)> {
        let vnics = guest.ports.iter().map(|port| self.find_vnic(&port.vnic));
        let vnics = vnics.collect::<Result<Vec<_>>>()?;
        Ok(vnics.into_iter().partition(|vnic| vnic.implicit))
    }
}
