//! The host's description of a guest to run.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use ::switch::lookup::Mac;
use ::switch::properties::PortProperties;
use ::switch::protocol::GuestInterface;
use abi::region::{Geometry, Interface};
use vmm::{Control, DataFile, GuestSpec, Isolation};

use super::copy::Copy;
use crate::error::{Error, Result};
use crate::model::Limits;

/// One interface of a guest that is to run.
#[derive(Clone, Debug)]
pub struct LaunchPort {
    /// Its name in the configuration.
    pub interface: String,
    /// Its port's name.
    pub name: String,
    /// Number of its domain.
    pub domain: u32,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// Its address.
    pub mac: Mac,
    /// What its port may do.
    pub properties: PortProperties,
    /// The port that it is behind, if it is: it gets one connection of that at a time.
    pub behind: Option<String>,
}

impl LaunchPort {
    /// The port as the switch is told, but for the ports that it replaces and that it is behind.
    pub(super) fn for_switch(&self) -> GuestInterface {
        GuestInterface {
            name: self.name.clone(),
            domain: self.domain,
            mtu: self.mtu,
            mac: Some(self.mac),
            properties: self.properties.clone(),
            replaces: None,
            behind: None,
        }
    }
}

/// A router of a guest, as the control store has it: a configuration that the guest runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Router {
    /// Its number; that of the guest's own configuration is 0.
    pub number: u8,
    /// What its configuration is called.
    pub name: String,
    /// Its configuration; empty for the guest's own.
    pub config: String,
}

/// A guest that is to run.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Its number.
    pub id: u64,
    /// Its number in the control store.
    pub domain_id: u16,
    /// Its name.
    pub name: String,
    /// Its configuration.
    pub config: Vec<u8>,
    /// Its routers in the control store, its own first.
    pub routers: Vec<Router>,
    /// Its interfaces.
    pub ports: Vec<LaunchPort>,
    /// Whether an NSM serves sockets of its.
    pub sockets: bool,
    /// Which wall it gets.
    pub isolation: Isolation,
    /// Bytes of private memory.
    pub memory: u64,
    /// Slots of each of its rings.
    pub ring_slots: u32,
    /// How many CPUs it has.
    pub cpus: usize,
    /// CPUs of the host that they are tied to; none: any.
    pub pins: Vec<usize>,
    /// What its process may use.
    pub limits: Limits,
    /// Where it goes on; none: it boots.
    pub copy: Option<Arc<Copy>>,
}

impl Launch {
    pub(super) fn geometry(&self) -> Result<Geometry> {
        Ok(Geometry::new(self.ring_slots, self.ports.len())?)
    }

    /// The guest as its process is told, but for descriptors.
    pub(super) fn spec<'a>(
        &'a self,
        control: &'a Control,
        data: DataFile<'a>,
        doorbell: Option<BorrowedFd<'a>>,
    ) -> GuestSpec<'a> {
        GuestSpec {
            isolation: self.isolation,
            memory: self.memory,
            config: &self.config,
            data: Some(data),
            switch_doorbell: doorbell,
            cpus: self.cpus,
            pins: &self.pins,
            snapshot: self.copy.as_deref().map(|copy| &copy.snapshot),
            end_with_parent: false,
            ..GuestSpec::new(&self.name, self.id, control)
        }
    }
}

/// How a guest fares.
#[derive(Clone, Debug)]
pub struct Launched {
    /// Whether it came to run.
    pub running: bool,
    /// Its process.
    pub pid: u32,
    /// Its wall.
    pub wall: vmm::Wall,
    /// Time from the start order to its main loop, once it is known.
    pub boot: Option<Duration>,
    /// Time since the order to start it; none if this node adopted it.
    pub age: Option<Duration>,
    /// Whether it let a request go without an answer, and sent none since.
    pub silent: bool,
}

/// An interface, as the guest's boot area describes it.
pub(super) fn interface(port: &LaunchPort) -> Result<Interface> {
    let unfit = || {
        Error::invalid(format_args!(
            "‘{}’ is not a valid name for a guest's interface: use 1 to {} bytes",
            port.interface,
            abi::region::NAME_MAX
        ))
        .of_field("interfaces")
    };
    Interface::new(&port.interface, port.mac.0, port.mtu).ok_or_else(unfit)
}
