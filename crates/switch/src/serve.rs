//! The switch's process from the inside: it answers requests and moves frames, on one thread.

use std::collections::HashMap;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use abi::region::Geometry;
use rustix::io::Errno;

use crate::confine;
use crate::lookup::PortIndex;
use crate::memory::{CounterFile, SharedRegion};
use crate::port::Link;
use crate::port::guest::{GuestLink, MTU_MAX};
use crate::port::packet::PacketLink;
use crate::port::tap::TapLink;
use crate::protocol::{
    self, ExchangeError, GuestInterface, LinkKind, NAME_MAX, PORTS_PER_REPLY, PortDescription,
    PortId, Reply, Request,
};
use crate::worker::{Attach, PORTS_MAX, Worker};

/// The control socket's number in the worker's set.
const CONTROL: u32 = 0;
/// The parent's number there.
const PARENT: u32 = 1;

/// Serves a switch on `control` until it is told to stop, the socket's other end is closed, or
/// the process behind the pidfd `parent` ends. Returns the process's exit status.
pub fn serve(control: OwnedFd, parent: OwnedFd) -> i32 {
    match run(control, parent) {
        Ok(()) => 0,
        Err(error) => {
            // The process's last words; there is nobody to tell if they cannot be written.
            let _ = writeln!(std::io::stderr(), "switch: {error}");
            1
        }
    }
}

fn run(control: OwnedFd, parent: OwnedFd) -> Result<(), Box<dyn std::error::Error>> {
    rustix::thread::set_name(c"weir-switch")?;
    // A Ctrl-C at the parent's terminal is the parent's to deal with.
    rustix::process::setsid()?;
    let (counters, counters_file) = CounterFile::create(PORTS_MAX)?;
    let worker = Worker::new(counters)?;
    worker.watch(control.as_fd(), CONTROL)?;
    worker.watch(parent.as_fd(), PARENT)?;
    confine::drop_privileges()?;
    confine::filter_system_calls()?;
    let mut server = Server {
        worker,
        counters_file,
        turns: HashMap::new(),
        next_turn: 0,
    };
    loop {
        match server.worker.run()? {
            CONTROL => match server.answer(&control) {
                Ok(true) => {}
                Ok(false) | Err(ExchangeError::Ended) => return Ok(()),
                Err(error) => return Err(error.into()),
            },
            _ => return Ok(()),
        }
    }
}

struct Server {
    worker: Worker,
    counters_file: OwnedFd,
    /// Which turn the port at a place is.
    turns: HashMap<PortIndex, u32>,
    next_turn: u32,
}

impl Server {
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
            } => {
                let [file] = descriptors(files)?;
                check_name(&name)?;
                let link = match kind {
                    LinkKind::Tap => Link::Tap(TapLink::new(file, mtu)),
                    LinkKind::Packet => Link::Packet(PacketLink::new(file, mtu)),
                };
                let attach = Attach {
                    link,
                    name,
                    domain,
                    mac: None,
                };
                let place = self.worker.attach_link(attach).map_err(|e| e.to_string())?;
                Ok(Reply::Attached {
                    ports: vec![self.issue(place)],
                })
            }
            Request::Detach { ports } => {
                for port in ports {
                    let place = self.place(port)?;
                    self.worker.detach(place);
                    self.turns.remove(&place);
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
            Request::Hello | Request::Stop => Ok(Reply::Done),
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
        let ports = interfaces
            .into_iter()
            .enumerate()
            .filter_map(|(i, interface)| {
                let side = region.switch_side(i)?;
                Some(Attach {
                    link: Link::Guest(GuestLink::new(side, interface.mtu)),
                    name: interface.name,
                    domain: interface.domain,
                    mac: interface.mac,
                })
            });
        let attached = self.worker.attach_guest(ports.collect(), doorbell);
        let places = attached.map_err(|e| e.to_string())?;
        let ports = places.into_iter().map(|place| self.issue(place)).collect();
        Ok(Reply::Attached { ports })
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
            if let (Some(info), Some(&turn)) = (self.worker.port(place), self.turns.get(&place)) {
                ports.push(PortDescription {
                    id: PortId { place, turn },
                    name: info.name.to_owned(),
                    domain: info.domain,
                    closed: info.closed,
                });
            }
        }
        Reply::Ports { ports, next: None }
    }

    /// Gives the port at `place` its name for the client.
    fn issue(&mut self, place: PortIndex) -> PortId {
        let turn = self.next_turn;
        self.next_turn = self.next_turn.wrapping_add(1);
        self.turns.insert(place, turn);
        PortId { place, turn }
    }

    fn place(&self, port: PortId) -> Result<PortIndex, String> {
        match self.turns.get(&port.place) {
            Some(&turn) if turn == port.turn => Ok(port.place),
            _ => Err("the port is not attached any more".into()),
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
