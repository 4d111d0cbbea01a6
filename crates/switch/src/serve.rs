//! The switch's process from the inside: the control thread, which answers requests. Frames are
//! moved by the [lanes](crate::lanes).

mod attach;

use std::io::Write;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::SocketFlags;

use crate::confine;
use crate::lanes::{Attach, Lanes, Member, Options};
use crate::late;
use crate::lookup::PortIndex;
use crate::port::waiting::{self, Caller};
use crate::port::{Attachment, exactly};
use crate::protocol::{
    self, ADDRESSES_PER_REPLY, AddressEntry, ExchangeError, FLOWS_PER_REPLY, PORTS_OVER_MAX,
    PORTS_PER_REPLY, PortDescription, PortId, PortState, Reply, Request,
};
use crate::worker::Passage;

/// Where a switch gets its requests.
pub enum ControlSocket {
    /// On one socket, until that is closed or the process behind the pidfd ends.
    Pair {
        /// The socket.
        control: OwnedFd,
        /// The pidfd.
        parent: OwnedFd,
    },
    /// From the clients that connect to this, one after the other.
    Listener(OwnedFd),
}

/// What a switch calls before anything else.
pub static BEGIN: OnceLock<fn()> = OnceLock::new();

/// Serves a switch until it is told to stop or its one client is gone. Returns the process's exit
/// status.
pub fn serve(control: ControlSocket, options: &Options) -> i32 {
    match run(control, options) {
        Ok(()) => 0,
        Err(error) => {
            // The process's last message; a failure to write it cannot be reported.
            let _ = writeln!(std::io::stderr(), "switch: {error}");
            1
        }
    }
}

fn run(control: ControlSocket, options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    rustix::thread::set_name(c"weir-switch")?;
    if let Some(begin) = BEGIN.get() {
        begin();
    }
    // A Ctrl-C at the parent's terminal is the parent's to deal with.
    rustix::process::setsid()?;
    confine::take_priority();
    let waiting = WaitSet::new()?;
    confine::drop_privileges()?;
    let (lanes, counters_file) = Lanes::start(options)?;
    let (calls, caller) = waiting::pipe()?;
    confine::filter_system_calls(confine::SWITCH, confine::SWITCH_CONDITIONAL)?;
    let mut server = Server {
        waiting,
        lanes,
        counters_file,
        calls,
        caller,
        table: Vec::new(),
    };
    match control {
        ControlSocket::Pair { control, parent } => {
            server.waiting.add(parent.as_fd(), PARENT)?;
            server.serve_client(&control).map(drop)
        }
        ControlSocket::Listener(listener) => loop {
            server.waiting.add(listener.as_fd(), LISTENER)?;
            server.waiting.wait()?;
            server.waiting.remove(listener.as_fd());
            let Ok(client) = rustix::net::accept_with(&listener, SocketFlags::CLOEXEC) else {
                continue;
            };
            // After an error of one client, the next is served.
            if let Ok(After::Stop) = server.serve_client(&client) {
                return Ok(());
            }
        },
    }
}

/// The client's number in the epoll set.
const CLIENT: u64 = 0;
/// The parent's number.
const PARENT: u64 = 1;
/// The listening socket's number.
const LISTENER: u64 = 2;

/// The descriptors that the control thread waits for.
struct WaitSet(OwnedFd);

impl WaitSet {
    fn new() -> Result<WaitSet, Errno> {
        epoll::create(epoll::CreateFlags::CLOEXEC).map(WaitSet)
    }

    fn add(&self, fd: BorrowedFd<'_>, number: u64) -> Result<(), Errno> {
        let data = epoll::EventData::new_u64(number);
        epoll::add(&self.0, fd, data, epoll::EventFlags::IN)
    }

    fn remove(&self, fd: BorrowedFd<'_>) {
        let _ = epoll::delete(&self.0, fd);
    }

    /// The number of a readable descriptor.
    fn wait(&self) -> Result<u64, Errno> {
        loop {
            let mut room = [MaybeUninit::<epoll::Event>::uninit()];
            match epoll::wait(&self.0, &mut room, None) {
                Ok(([event, ..], _)) => return Ok(event.data.u64()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Why a client is no longer served.
enum After {
    /// It is gone.
    Gone,
    /// The client asked the switch to stop, or was its only one.
    Stop,
}

struct Server {
    waiting: WaitSet,
    lanes: Lanes,
    counters_file: OwnedFd,
    /// Where the client reads which guests are called for.
    calls: OwnedFd,
    caller: Caller,
    /// The addresses that are being told, a reply at a time.
    table: Vec<AddressEntry>,
}

impl Server {
    /// Answers one client's requests until it is gone or says that the switch is to stop.
    fn serve_client(&mut self, client: &OwnedFd) -> Result<After, Box<dyn std::error::Error>> {
        self.waiting.add(client.as_fd(), CLIENT)?;
        let after = loop {
            match self.waiting.wait()? {
                CLIENT => match self.answer(client) {
                    Ok(true) => {}
                    Ok(false) => break Ok(After::Stop),
                    Err(ExchangeError::Ended) => break Ok(After::Gone),
                    Err(error) => break Err(error.into()),
                },
                // The parent's end.
                _ => break Ok(After::Stop),
            }
        };
        self.waiting.remove(client.as_fd());
        after
    }

    /// Answers one request. Returns whether to go on.
    fn answer(&mut self, client: &OwnedFd) -> Result<bool, ExchangeError> {
        let (reply, files, go_on) = match protocol::receive::<Request>(client.as_fd()) {
            Ok((Request::Stop, _)) => (Ok(Reply::Done), Vec::new(), false),
            Ok((Request::Hello, _)) => {
                let lanes = self.lanes.count() as u16;
                let welcome = Reply::Welcome { lanes };
                let files = [self.counters_file.as_fd(), self.calls.as_fd()];
                protocol::send(client.as_fd(), welcome, &files)?;
                return Ok(true);
            }
            Ok((Request::Files { port }, _)) => match self.slot_of(port) {
                Ok(slot) => (Ok(Reply::Files), self.lanes.files(slot), true),
                Err(why) => (Err(why), Vec::new(), true),
            },
            Ok((request, descriptors)) => {
                let reply = self.carry_out(request, descriptors);
                (reply, Vec::new(), true)
            }
            Err(error @ (ExchangeError::Malformed(_) | ExchangeError::Version(_))) => {
                (Err(error.to_string()), Vec::new(), true)
            }
            Err(error) => return Err(error),
        };
        let reply = reply.unwrap_or_else(|why| Reply::Refused { why });
        let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        match protocol::send(client.as_fd(), reply, &files) {
            // Too long for a message, as a handler's text or a router's diagnostics may be.
            Err(ExchangeError::Malformed(why)) => {
                let why = format!("the answer cannot be sent: {why}");
                protocol::send(client.as_fd(), Reply::Refused { why }, &[])?;
            }
            sent => sent?,
        }
        Ok(go_on)
    }

    fn carry_out(&mut self, request: Request, files: Vec<OwnedFd>) -> Result<Reply, String> {
        match request {
            Request::AttachGuest {
                slots,
                interfaces,
                shared,
                waits,
            } => self.attach_guest(slots, interfaces, (shared, waits), files),
            Request::AttachLink {
                record,
                name,
                domain,
                mtu,
                mac,
                properties,
            } => {
                let kind = record.kind();
                let links = record.attach(Attachment {
                    name: &name,
                    mtu,
                    files,
                })?;
                self.attach_link(Attach {
                    links,
                    kind,
                    name,
                    domain,
                    mac,
                    properties,
                    replaces: None,
                    behind: None,
                })
            }
            Request::AttachPatch { ends } => self.attach_patch(ends),
            Request::SetProperties { port, properties } => {
                let slot = self.slot_of(port)?;
                let set = self.lanes.set_properties(slot, properties);
                set.map(|()| Reply::Done).map_err(|e| e.to_string())
            }
            Request::SetLink { port, record } => {
                self.lanes.set_link(self.slot_of(port)?, record)?;
                Ok(Reply::Done)
            }
            Request::SetDomain { domain, properties } => {
                self.lanes.set_domain(domain, properties)?;
                Ok(Reply::Done)
            }
            Request::AddFlow {
                name,
                on,
                attributes,
                properties,
            } => {
                self.lanes.add_flow(&name, on, attributes, properties)?;
                Ok(Reply::Done)
            }
            Request::RemoveFlow { name } => {
                self.lanes.remove_flow(&name)?;
                Ok(Reply::Done)
            }
            Request::Flows { after } => {
                let mut flows = self.lanes.flows(after.as_deref());
                Ok(Reply::Flows {
                    flows: flows.by_ref().take(FLOWS_PER_REPLY).collect(),
                    more: flows.next().is_some(),
                })
            }
            Request::Table { domain, from } => Ok(self.table(domain, from)),
            Request::Lookup { domain, command } => {
                let command = command.map(|port| self.slot_of(port))?;
                let answer = self.lanes.command(domain, command)?;
                let answer = answer.map(|slot| self.lanes.member(slot).map(|member| member.id));
                Ok(Reply::Lookup { answer })
            }
            Request::BeginSettling => {
                self.lanes.begin_settling(exactly(files)?)?;
                Ok(Reply::Done)
            }
            Request::AddPassage {
                port,
                interface,
                mtu,
            } => {
                let slot = self.slot_of(port)?;
                let [program] = exactly(files)?;
                let passage = Passage { interface, mtu };
                self.lanes.add_passage(slot, passage, program)?;
                Ok(Reply::Done)
            }
            Request::TakeBack { ports } => {
                for port in ports {
                    self.lanes.take_back_of_guest(self.slot_of(port)?);
                }
                Ok(Reply::Done)
            }
            Request::Settled => Ok(Reply::Settled {
                flows: self.lanes.settled(),
            }),
            Request::SettledFlows { from } => {
                let (flows, next) = self.lanes.settled_flows(from);
                Ok(Reply::SettledFlows { flows, next })
            }
            Request::Detach { ports } => {
                for port in ports {
                    let slot = self.slot_of(port)?;
                    self.lanes.detach(slot);
                }
                Ok(Reply::Done)
            }
            Request::Announce { ports } => {
                for port in ports {
                    self.lanes.announce(self.slot_of(port)?);
                }
                Ok(Reply::Done)
            }
            Request::Deliver { port } => {
                let slot = self.slot_of(port)?;
                let [file] = exactly(files)?;
                let frames = late::read(&file).map_err(|error| error.to_string())?;
                self.lanes.deliver(slot, frames);
                Ok(Reply::Done)
            }
            Request::Over { front, grace, idle } => {
                let [grace, idle] = [grace, idle].map(|it| Duration::from_millis(it.into()));
                let over = self.lanes.over(self.slot_of(front)?, grace, idle);
                let ports = over.into_iter().filter_map(|slot| self.lanes.member(slot));
                let ports = ports.take(PORTS_OVER_MAX).map(|member| member.id).collect();
                Ok(Reply::Over { ports })
            }
            Request::Flush { domain } => {
                self.lanes.flush(domain);
                Ok(Reply::Done)
            }
            Request::Ports { from } => Ok(self.ports(from)),
            Request::ClosedPorts { from } => Ok(self.closed_ports(from)),
            Request::CatchUp { port } => {
                self.lanes.catch_up(self.slot_of(port)?);
                Ok(Reply::Done)
            }
            Request::Lanes => Ok(Reply::Lanes {
                lanes: self.lanes.stats(),
            }),
            Request::Hello | Request::Stop | Request::Files { .. } => Ok(Reply::Done),
        }
    }

    /// The addresses of a domain from the `from`-th on.
    fn table(&mut self, domain: u32, from: u32) -> Reply {
        if from == 0 {
            let table = self.lanes.table(domain);
            let known = table.into_iter().filter_map(|entry| {
                Some(AddressEntry {
                    mac: entry.mac,
                    vlan: entry.vlan,
                    port: self.lanes.member(entry.port)?.id,
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
        Reply::Table { addresses, next }
    }

    fn ports(&self, from: u16) -> Reply {
        let mut members = self.lanes.members(from);
        let told = members.by_ref().take(PORTS_PER_REPLY);
        let ports = told.map(|member| self.describe(member)).collect();
        Reply::Ports {
            ports,
            next: members.next().map(|member| member.id.slot),
        }
    }

    fn closed_ports(&self, from: u16) -> Reply {
        let members = self.lanes.members(from);
        let mut closed = members.filter(|member| self.lanes.is_closed(member.id.slot));
        let told = closed.by_ref().take(PORTS_PER_REPLY);
        let names = told.map(|member| member.name.clone()).collect();
        Reply::ClosedPorts {
            names,
            next: closed.next().map(|member| member.id.slot),
        }
    }

    fn describe(&self, member: &Member) -> PortDescription {
        PortDescription {
            id: member.id,
            name: member.name.clone(),
            domain: member.domain,
            kind: member.kind,
            state: match self.lanes.is_closed(member.id.slot) {
                true => PortState::Closed,
                false => PortState::Open,
            },
            properties: member.properties.clone(),
            lanes: member.lanes.clone(),
        }
    }

    fn slot_of(&self, port: PortId) -> Result<PortIndex, String> {
        match self.lanes.member(port.slot) {
            Some(member) if member.id == port => Ok(port.slot),
            _ => Err("the port is no longer attached".into()),
        }
    }
}
