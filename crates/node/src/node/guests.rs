//! Guests: created, looked after, asked, destroyed.

use std::time::Instant;

use abi::message::kind;
use switch::properties::PortProperties;
use vmm::{Exit, Trace, Wall};

use super::vnics::mtu;
use super::{Node, guest_fault};
use crate::error::{Error, Kind, Result};
use crate::host::{Launch, LaunchPort};
use crate::model::{
    Guest, GuestState, GuestView, Interface, Link, NewGuest, Restart, Run, Serves, Vnic, check_name,
};

/// Slots of each ring, unless others are asked for.
const RING_SLOTS: u32 = 256;
/// What an interface may stand on, in messages.
const STAND: &str = "LINK";

/// A request to a guest that is to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Asked {
    /// The guest's number.
    pub guest: u64,
    /// The request's.
    pub request: u32,
}

impl Node {
    /// All guests.
    pub fn guests(&mut self) -> Result<Vec<GuestView>> {
        let guests = self.store.all::<Guest>()?;
        Ok(guests.iter().map(|guest| self.view_guest(guest)).collect())
    }

    /// One guest.
    pub fn guest(&mut self, name: &str) -> Result<GuestView> {
        let guest = self.find_guest(name)?;
        Ok(self.view_guest(&guest))
    }

    fn find_guest(&self, name: &str) -> Result<Guest> {
        let found = self.store.get::<Guest>(name)?;
        found.ok_or_else(|| {
            Error::not_found(format_args!(
                "no guest ‘{name}’: `weir ls` lists those there are"
            ))
        })
    }

    fn view_guest(&mut self, guest: &Guest) -> GuestView {
        let launched = self.host.launched(guest.id);
        let fault = self.host.fault(&guest_fault(&guest.name));
        let (state, reason) = match (&launched, &guest.run) {
            (Some(launched), _) if launched.running => (GuestState::Running, fault),
            (Some(_), _) => (GuestState::Starting, fault),
            (None, Run::Ended { halted, reason }) => match halted {
                true => (GuestState::Halted, Some(reason.as_str())),
                false => (GuestState::Crashed, Some(reason.as_str())),
            },
            (None, _) if self.restarts.is_waiting(guest.id) => (GuestState::Starting, fault),
            (None, _) => (GuestState::Crashed, fault),
        };
        GuestView {
            name: guest.name.clone(),
            id: guest.id,
            state,
            reason: reason.map(str::to_string),
            pid: launched.as_ref().map(|launched| launched.pid),
            wall: launched.as_ref().map(|launched| launched.wall.to_string()),
            boot_ms: launched
                .and_then(|launched| launched.boot)
                .map(|boot| boot.as_secs_f64() * 1e3),
            memory: guest.memory,
            restart: guest.restart,
            restarts: self.restarts.count(guest.id),
            interfaces: guest.interfaces.clone(),
            messages: None,
        }
    }

    /// Creates a guest and starts it. Whether it comes to run shows in its state.
    pub fn create_guest(&mut self, new: NewGuest) -> Result<GuestView> {
        check_name("guest", &new.name)?;
        if self.store.get::<Guest>(&new.name)?.is_some() {
            return Err(Error::new(
                Kind::Exists,
                format_args!(
                    "there is a guest called ‘{0}’ already: choose another name, or `weir destroy {0}` first",
                    new.name
                ),
            ));
        }
        let cpus = new.cpus.unwrap_or(1);
        if !(1..=abi::CPUS_MAX).contains(&cpus) {
            return Err(Error::invalid(format_args!(
                "{cpus} CPUs cannot be: a guest has 1 to {}",
                abi::CPUS_MAX
            )));
        }
        check_pins(&new.pins)?;
        let (vnics, made) = self.interfaces(&new)?;
        let interfaces: Vec<_> = new
            .interfaces
            .iter()
            .zip(&vnics)
            .map(|(interface, vnic)| (interface.name.clone(), vnic.mac.0))
            .collect();
        let file = new.file.as_deref().unwrap_or("config");
        let diagnostics =
            crate::check::check(new.config.as_bytes(), file, &interfaces, cpus, STAND);
        if diagnostics.errors() > 0 {
            return Err(Error::invalid(diagnostics.to_string().trim_end()));
        }
        self.need_switch()?;
        let mut guest = Guest {
            id: 0,
            interfaces: new
                .interfaces
                .iter()
                .zip(&vnics)
                .map(|(interface, vnic)| Interface {
                    name: interface.name.clone(),
                    vnic: vnic.name.clone(),
                })
                .collect(),
            isolation: new.isolation,
            memory: new.memory.unwrap_or(vmm::DEFAULT_MEMORY),
            booted_config: new.config.len(),
            ring_slots: new.ring_slots.unwrap_or(RING_SLOTS),
            cpus,
            pins: new.pins,
            restart: new.restart,
            run: Run::Wanted,
            name: new.name,
            config: new.config,
        };
        let change = self.store.change()?;
        guest.id = change.next("guest")?;
        let launch = self.launch_of(&guest, &vnics)?;
        let record = &mut guest;
        let mut kept = false;
        let launched = self.host.launch(launch, |trace| {
            record.run = started(trace);
            for vnic in &made {
                change.put(vnic)?;
            }
            change.put(record)?;
            change.commit()?;
            kept = true;
            Ok(())
        });
        if let Err(error) = launched {
            if kept {
                self.forget_guest(&guest, &made)?;
            }
            return Err(error);
        }
        for vnic in &made {
            self.index.add_vnic(vnic);
        }
        self.index.add_guest(&guest);
        for interface in &guest.interfaces {
            self.bring_flows(&interface.vnic);
        }
        let mut view = self.view_guest(&guest);
        let messages = diagnostics.to_string();
        view.messages = (!messages.is_empty()).then_some(messages);
        Ok(view)
    }

    /// The VNICs that a new guest's interfaces are, in their order, and those among them that are
    /// made for it.
    fn interfaces(&self, new: &NewGuest) -> Result<(Vec<Vnic>, Vec<Vnic>)> {
        let (mut all, mut made): (Vec<Vnic>, Vec<Vnic>) = (Vec::new(), Vec::new());
        for (i, interface) in new.interfaces.iter().enumerate() {
            let twice = |other: &crate::model::NewInterface| other.name == interface.name;
            if new.interfaces[..i].iter().any(twice) {
                return Err(Error::invalid(format_args!(
                    "two links are called ‘{}’: give each interface one --link",
                    interface.name
                )));
            }
            let vnic = match self.store.get::<Vnic>(&interface.on)? {
                Some(vnic) => self.free_vnic(vnic, &all)?,
                None => {
                    let vnic = self.implicit_vnic(&new.name, interface)?;
                    made.push(vnic.clone());
                    vnic
                }
            };
            all.push(vnic);
        }
        Ok((all, made))
    }

    /// A VNIC that a guest may take, if it may.
    fn free_vnic(&self, vnic: Vnic, taken: &[Vnic]) -> Result<Vnic> {
        let name = &vnic.name;
        if vnic.serves != Serves::Guest {
            return Err(Error::new(
                Kind::InUse,
                format_args!(
                    "VNIC ‘{name}’ does not serve guests: make one without --netns, --host and --vhost-user"
                ),
            ));
        }
        let own = taken.iter().any(|other| other.name == *name);
        match (self.index.guest_of(name), own) {
            (Some(guest), _) => Err(Error::new(
                Kind::InUse,
                format_args!("VNIC ‘{name}’ is an interface of guest ‘{guest}’ already"),
            )),
            (None, true) => Err(Error::invalid(format_args!(
                "VNIC ‘{name}’ cannot be two interfaces of one guest"
            ))),
            (None, false) => Ok(vnic),
        }
    }

    /// A VNIC made for one interface of a guest, on a link.
    fn implicit_vnic(&self, guest: &str, interface: &crate::model::NewInterface) -> Result<Vnic> {
        let Some(link) = self.store.get::<Link>(&interface.on)? else {
            return Err(Error::not_found(format_args!(
                "interface ‘{}’ of guest ‘{guest}’: no VNIC or link ‘{}’: `weir vnic show` and `weir link show` list those there are",
                interface.name, interface.on
            )));
        };
        let name = format!("{guest}.{}", interface.name);
        self.check_free(&name)?;
        Ok(Vnic {
            name,
            mac: self.address(&link.name, None)?,
            link: link.name,
            serves: Serves::Guest,
            interface: None,
            addresses: Vec::new(),
            implicit: true,
            properties: PortProperties::default(),
        })
    }

    /// What the host needs to know to run a guest.
    fn launch_of(&self, guest: &Guest, vnics: &[Vnic]) -> Result<Launch> {
        let mut ports = Vec::new();
        for (interface, vnic) in guest.interfaces.iter().zip(vnics) {
            let link = self.find_link(&vnic.link)?;
            ports.push(LaunchPort {
                interface: interface.name.clone(),
                name: vnic.name.clone(),
                domain: link.domain,
                mtu: mtu(vnic, &link).min(switch::port::guest::MTU_MAX),
                mac: vnic.mac,
                properties: vnic.properties.clone(),
            });
        }
        Ok(Launch {
            id: guest.id,
            name: guest.name.clone(),
            config: guest.config.clone().into_bytes(),
            ports,
            isolation: guest.isolation.into(),
            memory: guest.memory,
            ring_slots: guest.ring_slots,
            cpus: guest.cpus,
            pins: guest.pins.clone(),
        })
    }

    fn vnics_of(&self, guest: &Guest) -> Result<Vec<Vnic>> {
        let vnics = guest.interfaces.iter();
        vnics.map(|i| self.find_vnic(&i.vnic)).collect()
    }

    /// Starts a guest that is wanted and does not run.
    pub(super) fn start_again(&mut self, guest: &Guest) -> Result<()> {
        let vnics = self.vnics_of(guest)?;
        let launch = self.launch_of(guest, &vnics)?;
        let store = &self.store;
        let mut record = guest.clone();
        self.host.launch(launch, |trace| {
            record.booted_config = record.config.len();
            record.run = started(trace);
            Ok(store.put(&record)?)
        })
    }

    /// Takes over guests that an earlier node started. One that cannot be does not keep the others
    /// from it.
    pub(super) fn adopt_guests(&mut self) -> Result<()> {
        for guest in self.store.all::<Guest>()? {
            let fault = guest_fault(&guest.name);
            let adopted = self.adopt_guest(guest);
            self.host.note(&fault, adopted);
        }
        Ok(())
    }

    fn adopt_guest(&mut self, mut guest: Guest) -> Result<()> {
        let Some(trace) = trace(&guest.run) else {
            if let Run::Started { .. } = guest.run {
                // The machine was booted anew.
                guest.run = Run::Wanted;
                self.store.put(&guest)?;
            }
            return Ok(());
        };
        let vnics = self.vnics_of(&guest)?;
        let mut launch = self.launch_of(&guest, &vnics)?;
        // Only its length matters, by which what lies behind it is found.
        launch.config = vec![b' '; guest.booted_config];
        match self.host.adopt_guest(launch, trace)? {
            true => Ok(()),
            false => self.keep_end(guest, false, "it ended while no node was running".into()),
        }
    }

    /// Deals with the end of a guest's process.
    pub(super) fn guest_ended(&mut self, id: u64) {
        let Some((exit, printed)) = self.host.guest_ended(id) else {
            return;
        };
        let name = self.index.guest_numbered(id).map(str::to_string);
        let guest = name.and_then(|name| self.store.get::<Guest>(&name).ok().flatten());
        if let Some(guest) = guest {
            let halted = matches!(exit, Exit::Halted);
            let name = guest.name.clone();
            let lines = printed.iter().map(|line| format!("\n  {line}"));
            let reason = exit.to_string() + &lines.collect::<String>();
            let kept = self.keep_end(guest, halted, reason);
            self.host.note(&guest_fault(&name), kept);
        }
    }

    /// Keeps how a guest ended, or sees to it that it is started anew; then how it ended is the
    /// error.
    fn keep_end(&mut self, mut guest: Guest, halted: bool, reason: String) -> Result<()> {
        let again = match guest.restart {
            Restart::Always => true,
            Restart::OnFailure => !halted,
            Restart::Never => false,
        };
        if again {
            self.restarts.schedule(guest.id, Instant::now());
            return Err(Error::new(Kind::Unavailable, reason));
        }
        guest.run = Run::Ended { halted, reason };
        Ok(self.store.put(&guest)?)
    }

    /// Starts guests anew whose time has come.
    pub fn restart_due(&mut self) {
        for id in self.restarts.take_due(Instant::now()) {
            let name = self.index.guest_numbered(id).map(str::to_string);
            let guest = name.and_then(|name| self.store.get::<Guest>(&name).ok().flatten());
            if let Some(guest) = guest {
                self.bring_guest(&guest);
            }
        }
    }

    /// Ends a guest and removes it, with the VNICs that were made for it.
    pub fn destroy_guest(&mut self, name: &str) -> Result<()> {
        let guest = self.find_guest(name)?;
        let vnics = self.vnics_of(&guest)?;
        let made: Vec<_> = vnics.into_iter().filter(|vnic| vnic.implicit).collect();
        for vnic in &made {
            self.check_no_flows(&vnic.name)?;
        }
        self.forget_guest(&guest, &made)
    }

    fn forget_guest(&mut self, guest: &Guest, made: &[Vnic]) -> Result<()> {
        let change = self.store.change()?;
        change.remove::<Guest>(&guest.name)?;
        for vnic in made {
            change.remove::<Vnic>(&vnic.name)?;
        }
        change.commit()?;
        self.index.remove_guest(guest);
        for vnic in made {
            self.index.remove_vnic(vnic);
        }
        self.restarts.forget(guest.id);
        self.host.end_guest(guest.id);
        self.host.clear_fault(&guest_fault(&guest.name));
        Ok(())
    }

    /// Asks a guest to read a handler.
    pub fn ask_read(&mut self, name: &str, handler: &str) -> Result<Asked> {
        self.ask(name, kind::READ, handler)
    }

    /// Asks a guest to write a handler.
    pub fn ask_write(&mut self, name: &str, handler: &str, value: &str) -> Result<Asked> {
        self.ask(name, kind::WRITE, &format!("{handler} {value}"))
    }

    fn ask(&mut self, name: &str, kind: u32, contents: &str) -> Result<Asked> {
        let guest = self.find_guest(name)?.id;
        let request = self
            .host
            .ask(guest, kind, contents)
            .map_err(|error| Error::new(error.kind, format_args!("guest ‘{name}’: {error}")))?;
        let asked = Asked { guest, request };
        self.asked.insert(asked, None);
        Ok(asked)
    }

    /// Takes a guest's answer to a request, if it is there. When it is not to be expected any
    /// more, the request is forgotten.
    pub fn answer(&mut self, asked: Asked) -> Result<Option<vmm::Answer>> {
        let guest = asked.guest;
        loop {
            match self.host.answer(guest) {
                Ok(Some(answer)) => {
                    let request = answer.request;
                    // One that nobody waits for any more is dropped.
                    if let Some(place) = self.asked.get_mut(&Asked { guest, request }) {
                        *place = Some(answer);
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    self.forget(asked);
                    return Err(error);
                }
            }
        }
        let answer = self.asked.get_mut(&asked).and_then(Option::take);
        if answer.is_some() {
            self.forget(asked);
        }
        Ok(answer)
    }

    /// Forgets a request whose answer nobody waits for.
    pub fn forget(&mut self, asked: Asked) {
        self.asked.remove(&asked);
    }

    /// Keeps the configuration that took the place of a guest's, so that it is the one that it is
    /// started with anew.
    pub fn keep_config(&mut self, name: &str, config: &str) -> Result<()> {
        let mut guest = self.find_guest(name)?;
        guest.config = config.into();
        Ok(self.store.put(&guest)?)
    }
}

/// What is kept of a guest that was started.
fn started(trace: Trace) -> Run {
    Run::Started {
        pid: trace.pid,
        started: trace.started,
        boot: crate::host::boot(),
        vm: trace.wall == Wall::Vm,
        doorbell: trace.switch_doorbell,
    }
}

/// By what a guest is found again that was started on this boot of the machine.
fn trace(run: &Run) -> Option<Trace> {
    let Run::Started {
        pid,
        started,
        boot,
        vm,
        doorbell,
    } = run
    else {
        return None;
    };
    (*boot == crate::host::boot()).then_some(Trace {
        pid: *pid,
        started: *started,
        wall: if *vm { Wall::Vm } else { Wall::Process },
        switch_doorbell: *doorbell,
    })
}

fn check_pins(pins: &[usize]) -> Result<()> {
    let here = switch::properties::cpus_here();
    let missing = |cpu: &&usize| !here.iter().any(|here| usize::from(*here) == **cpu);
    match pins.iter().find(missing) {
        None => Ok(()),
        Some(cpu) => Err(Error::invalid(format_args!(
            "there is no CPU {cpu} that the node may use: it has {}",
            here.iter()
                .map(u16::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        ))),
    }
}
