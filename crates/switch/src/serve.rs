//! The switch's process from the inside: it answers requests and moves frames.

use std::collections::HashMap;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use abi::region::Geometry;
use rustix::io::Errno;
use rustix::net::SocketFlags;
use rustix::thread::CpuSet;

use crate::confine;
use crate::lookup::PortIndex;
use crate::memory::{CounterFile, SharedRegion};
use crate::port::Link;
use crate::port::guest::{GuestLink, MTU_MAX};
use crate::port::packet::PacketLink;
use crate::port::tap::TapLink;
use crate::port::vhost::VhostLink;
use crate::port::xdp::XdpLink;
use crate::process::Options;
use crate::properties::{DomainProperties, PortProperties};
use crate::protocol::{
    self, ADDRESSES_PER_REPLY, AddressEntry, ExchangeError, GuestInterface, LinkKind, NAME_MAX,
    PORTS_PER_REPLY, PortDescription, PortId, PortKind, PortState, Reply, Request,
};
use crate::worker::{Attach, PORTS_MAX, Worker};

/// The control socket's number in the worker's set.
const CONTROL: u32 = 0;
/// The parent's number there.
const PARENT: u32 = 1;
/// The listening socket's number there.
const LISTENER: u32 = 2;

/// Where a switch gets its requests.
pub enum Control {
    /// On one socket, until that is closed or the process behind the pidfd ends.
    Pair {
        /// The socket.
        control: OwnedFd,
        /// The pidfd.
        parent: OwnedFd,
    },
    /// From whoever connects to this, one after the other.
    Listener(OwnedFd),
}

/// Serves a switch until it is told to stop or its one client is gone. Returns the process's exit
/// status.
pub fn serve(control: Control, options: &Options) -> i32 {
    match run(control, options) {
        Ok(()) => 0,
        Err(error) => {
            // The process's last words; there is nobody to tell if they cannot be written.
            let _ = writeln!(std::io::stderr(), "switch: {error}");
            1
        }
    }
}

fn run(control: Control, options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    rustix::thread::set_name(c"weir-switch")?;
    // A Ctrl-C at the parent's terminal is the parent's to deal with.
    rustix::process::setsid()?;
    let (counters, counters_file) = CounterFile::create(PORTS_MAX)?;
    let worker = Worker::new(counters)?;
    if let Some(&cpu) = options.cpus.first() {
        let mut cpus = CpuSet::new();
        cpus.set(cpu);
        rustix::thread::sched_setaffinity(None, &cpus)?;
    }
    confine::drop_privileges()?;
    confine::filter_system_calls()?;
    let mut server = Server {
        worker,
        counters_file,
        members: HashMap::new(),
        next_turn: 0,
        domains: HashMap::new(),
        table: Vec::new(),
    };
    match control {
        Control::Pair { control, parent } => {
            server.worker.watch(parent.as_fd(), PARENT)?;
            server.serve_client(&control).map(drop)
        }
        Control::Listener(listener) => loop {
            server.worker.watch(listener.as_fd(), LISTENER)?;
            server.worker.run()?;
            server.worker.unwatch(listener.as_fd());
            let Ok(client) = rustix::net::accept_with(&listener, SocketFlags::CLOEXEC) else {
                continue;
            };
            // What is wrong with one client is no reason not to serve the next.
            if let Ok(After::Stop) = server.serve_client(&client) {
                return Ok(());
            }
        },
    }
}

/// Why a client is served no more.
enum After {
    /// It is gone.
    Gone,
    /// It said that the switch is to stop.
    Stop,
}

struct Server {
    worker: Worker,
    counters_file: OwnedFd,
    /// What there is to tell of the port at a place.
    members: HashMap<PortIndex, Member>,
    next_turn: u32,
    /// What was asked of domains.
    domains: HashMap<u32, DomainProperties>,
    /// The addresses that are being told, a reply at a time.
    table: Vec<AddressEntry>,
}

/// An attached port, as clients know it.
struct Member {
    turn: u32,
    kind: PortKind,
    properties: PortProperties,
}

impl Server {
    /// Answers one client's requests until it is gone or says that the switch is to stop.
    fn serve_client(&mut self, client: &OwnedFd) -> Result<After, Box<dyn std::error::Error>> {
        self.worker.watch(client.as_fd(), CONTROL)?;
        let after = loop {
            match self.worker.run()? {
                CONTROL => match self.answer(client) {
                    Ok(true) => {}
                    Ok(false) => break Ok(After::Stop),
                    Err(ExchangeError::Ended) => break Ok(After::Gone),
                    Err(error) => break Err(error.into()),
                },
                // The parent's end.
                _ => break Ok(After::Stop),
            }
        };
        self.worker.unwatch(client.as_fd());
        after
    }

    /// Answers one request. Returns whether to go on.
    fn answer(&mut self, control: &OwnedFd) -> Result<bool, ExchangeError> {
        let received = protocol::receive::<Request>(control.as_fd());
        let (reply, go_on) = match received {
            Ok((Request::Stop, _)) => (Reply::Done, false),
            Ok((Request::Hello, _)) => {
                let files = [self.counters_file.as_fd()];
                protocol::send(control.as_fd(), Reply::Welcome, &files)?;
                return Ok(true);
            }
            Ok((Request::Files { port }, _)) => {
                let files = self.place(port).map(|place| self.worker.files(place));
                let (reply, files) = match files {
                    Ok(files) => (Reply::Files, files),
                    Err(why) => (Reply::Refused { why }, Vec::new()),
                };
                let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
                protocol::send(control.as_fd(), reply, &files)?;
                return Ok(true);
            }
            Ok((request, descriptors)) => {
                let reply = self.carry_out(request, descriptors);
                (reply.unwrap_or_else(|why| Reply::Refused { why }), true)
            }
            Err(error @ (ExchangeError::Malformed(_) | ExchangeError::Version(_))) => {
                let why = error.to_string();
                (Reply::Refused { why }, true)
            }
            Err(ExchangeError::Socket(Errno::AGAIN)) => return Ok(true),
            Err(error) => return Err(error),
        };
        protocol::send(control.as_fd(), reply, &[])?;
        Ok(go_on)
    }

    fn carry_out(&mut self, request: Request, files: Vec<OwnedFd>) -> Result<Reply, String> {
        match request {
            Request::AttachGuest { slots, interfaces } => {
                let [region, doorbell] = descriptors(files)?;
                self.attach_guest(slots, interfaces, region, doorbell)
            }
            Request::AttachLink {
                kind,
                name,
                domain,
                mtu,
                properties,
            } => {
                check_name(&name)?;
                let link = host_link(kind, &name, mtu, files)?;
                let attach = Attach {
                    link,
                    name,
                    domain,
                    mac: None,
                };
                let place = self.worker.attach_link(attach).map_err(|e| e.to_string())?;
                Ok(Reply::Attached {
                    ports: vec![self.issue(place, kind.into(), properties)],
                })
            }
            Request::SetProperties { port, properties } => {
                let place = self.place(port)?;
                if let Some(member) = self.members.get_mut(&place) {
                    member.properties = properties;
                }
                Ok(Reply::Done)
            }
            Request::SetDomain { domain, properties } => {
                self.domains.insert(domain, properties);
                Ok(Reply::Done)
            }
            Request::Table { domain, from } => self.table(domain, from),
            Request::Detach { ports } => {
                for port in ports {
                    let place = self.place(port)?;
                    self.worker.detach(place);
                    self.members.remove(&place);
                }
                Ok(Reply::Done)
            }
            Request::Flush { domain } => match self.worker.flush(domain) {
                true => Ok(Reply::Done),
                false => Err(format!("no domain {domain}")),
            },
            Request::Ports { from } => Ok(self.ports(from)),
            Request::CatchUp { port } => {
                let place = self.place(port)?;
                self.worker.catch_up(place);
                Ok(Reply::Done)
            }
            Request::Hello | Request::Stop | Request::Files { .. } => Ok(Reply::Done),
        }
    }

    fn attach_guest(
        &mut self,
        slots: u32,
        interfaces: Vec<GuestInterface>,
        region: OwnedFd,
        doorbell: OwnedFd,
    ) -> Result<Reply, String> {
        let geometry = Geometry::new(slots, interfaces.len()).map_err(|e| e.to_string())?;
        for interface in &interfaces {
            check_name(&interface.name)?;
            if interface.mtu > MTU_MAX {
                return Err(format!(
                    "an MTU of {} for ‘{}’: {MTU_MAX} is the most that a guest's buffers allow",
                    interface.mtu, interface.name
                ));
            }
        }
        let region = SharedRegion::map(region.as_fd(), geometry).map_err(|e| e.to_string())?;
        let region = Arc::new(region);
        let mut ports = Vec::new();
        let mut properties = Vec::new();
        for (i, interface) in interfaces.into_iter().enumerate() {
            let Some(side) = region.switch_side(i) else {
                continue;
            };
            properties.push(interface.properties);
            ports.push(Attach {
                link: Link::Guest(GuestLink::new(side, interface.mtu)),
                name: interface.name,
                domain: interface.domain,
                mac: interface.mac,
            });
        }
        let attached = self.worker.attach_guest(ports, doorbell);
        let places = attached.map_err(|e| e.to_string())?;
        let ports = places.into_iter().zip(properties);
        let ports = ports.map(|(place, asked)| self.issue(place, PortKind::Guest, asked));
        Ok(Reply::Attached {
            ports: ports.collect(),
        })
    }

    /// The addresses of a domain from the `from`-th on.
    fn table(&mut self, domain: u32, from: u32) -> Result<Reply, String> {
        if from == 0 {
            let table = self.worker.table(domain);
            let table = table.ok_or_else(|| format!("no domain {domain}"))?;
            let known = table.into_iter().filter_map(|entry| {
                let turn = self.members.get(&entry.port)?.turn;
                Some(AddressEntry {
                    mac: entry.mac,
                    vlan: entry.vlan,
                    port: PortId {
                        place: entry.port,
                        turn,
                    },
                    age: entry.age,
                })
            });
            self.table = known.collect();
        }
        let from = (from as usize).min(self.table.len());
        let to = (from + ADDRESSES_PER_REPLY).min(self.table.len());
        let addresses = self.table[from..to].to_vec();
        let next = (to < self.table.len()).then_some(to as u32);
        if next.is_none() {
            self.table = Vec::new();
        }
        Ok(Reply::Table { addresses, next })
    }

    fn ports(&self, from: u16) -> Reply {
        let mut ports = Vec::new();
        for place in usize::from(from)..self.worker.places() {
            let place = place as PortIndex;
            if ports.len() == PORTS_PER_REPLY {
                return Reply::Ports {
                    ports,
                    next: Some(place),
                };
            }
            if let (Some(info), Some(member)) = (self.worker.port(place), self.members.get(&place))
            {
                ports.push(PortDescription {
                    id: PortId {
                        place,
                        turn: member.turn,
                    },
                    name: info.name.to_owned(),
                    domain: info.domain,
                    kind: member.kind,
                    state: match info.closed {
                        true => PortState::Closed,
                        false => PortState::Open,
                    },
                    properties: member.properties.clone(),
                });
            }
        }
        Reply::Ports { ports, next: None }
    }

    /// Gives the port at `place` its name for the client.
    fn issue(&mut self, place: PortIndex, kind: PortKind, properties: PortProperties) -> PortId {
        let turn = self.next_turn;
        self.next_turn = self.next_turn.wrapping_add(1);
        let member = Member {
            turn,
            kind,
            properties,
        };
        self.members.insert(place, member);
        PortId { place, turn }
    }

    fn place(&self, port: PortId) -> Result<PortIndex, String> {
        match self.members.get(&port.place) {
            Some(member) if member.turn == port.turn => Ok(port.place),
            _ => Err("the port is not attached any more".into()),
        }
    }
}

/// A vhost-user port, if the kernel lets it watch its socket.
fn vhost(link: Result<VhostLink, Errno>) -> Result<Link, String> {
    let link = link.map_err(|error| format!("cannot watch the vhost-user socket: {error}"))?;
    Ok(Link::Vhost(Box::new(link)))
}

/// The link that these descriptors make.
fn host_link(kind: LinkKind, name: &str, mtu: u16, files: Vec<OwnedFd>) -> Result<Link, String> {
    match kind {
        LinkKind::Tap => {
            let [file] = descriptors(files)?;
            Ok(Link::Tap(TapLink::new(file, mtu)))
        }
        LinkKind::Packet => {
            let [socket] = descriptors(files)?;
            Ok(Link::Packet(PacketLink::new(socket, mtu)))
        }
        LinkKind::VhostUser => {
            let [socket] = descriptors(files)?;
            vhost(VhostLink::listen(socket, mtu))
        }
        LinkKind::VhostUserConnected => {
            let [socket] = descriptors(files)?;
            vhost(VhostLink::connected(socket, mtu))
        }
        LinkKind::Xdp => {
            let mut files = files.into_iter();
            let [Some(umem), Some(watch), Some(program)] =
                [files.next(), files.next(), files.next()]
            else {
                return Err("an XDP link came without its descriptors".into());
            };
            let sockets = files.collect();
            let link = XdpLink::new(sockets, &umem, watch, program, mtu).map_err(|error| {
                format!(
                    "cannot map the rings of ‘{name}’: {error}; that takes Linux 6.4 or later, and sockets that nobody has used: attach packet:{name}"
                )
            });
            Ok(Link::Xdp(link?))
        }
    }
}

/// The descriptors that a request must come with.
fn descriptors<const N: usize>(files: Vec<OwnedFd>) -> Result<[OwnedFd; N], String> {
    let found = files.len();
    let wrong = move |_| format!("{found} descriptors came with a request that needs {N}");
    files.try_into().map_err(wrong)
}

fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > NAME_MAX {
        return Err(format!(
            "a port's name has 1 to {NAME_MAX} bytes, ‘{name}’ has {}",
            name.len()
        ));
    }
    // They would also make a name several times as long in a message.
    if name.chars().any(char::is_control) {
        return Err(format!(
            "a port's name has no control characters, ‘{}’ has",
            name.escape_debug()
        ));
    }
    Ok(())
}
