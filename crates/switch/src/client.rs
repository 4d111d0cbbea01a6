//! The client's half of a switch's control socket.

use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::counters::PortStats;
use crate::lane::LaneStats;
use crate::lookup::{Answer, Command};
use crate::memory::{CounterFile, MemoryError};
use crate::port::links::HostLink;
use crate::port::{LinkRecord, exactly};
use crate::properties::{DomainProperties, FlowAttributes, FlowProperties, PortProperties};
use crate::protocol::{
    self, AddressEntry, ExchangeError, FlowDescription, FlowOn, GuestInterface, PatchEnd,
    PortDescription, PortId, Reply, Request,
};
use crate::settled::{Programs, SettledFlow};

/// Why a request to the switch failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no switch at this socket.
    #[error("cannot reach a switch at ‘{}’: {source}", path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// Why not.
        source: Errno,
    },
    /// It could not be asked.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// It said no.
    #[error("the switch refused: {0}")]
    Refused(String),
    /// It answered something else than it was asked.
    #[error("the switch's answer does not match the request")]
    Confused,
    /// Its counters could not be mapped.
    #[error("cannot read the switch's counters: {0}")]
    Counters(#[from] MemoryError),
}

/// A guest to be attached: all its interfaces at once.
pub struct Guest<'a> {
    /// The data region's file (see [`crate::memory::SharedRegion::create`]).
    pub region: BorrowedFd<'a>,
    /// The eventfd that the guest's VMM rings when the switch sleeps.
    pub doorbell: BorrowedFd<'a>,
    /// What guests with the same doorbell call it, if several have it.
    pub shared: Option<u64>,
    /// The number by which the switch calls for it at its first frame ([`SwitchClient::calls`]), if it does not run yet.
    pub waits: Option<u64>,
    /// Slots of each of its rings.
    pub slots: u32,
    /// Its interfaces, in the order of the region.
    pub interfaces: Vec<GuestInterface>,
}

/// A connection to a switch. When the switch ends, the socket ([`AsFd`]) becomes readable and
/// every request fails with [`ExchangeError::Ended`].
pub struct SwitchClient {
    socket: OwnedFd,
    counters: CounterFile,
    calls: OwnedFd,
    lanes: usize,
    /// A request was not answered in time.
    silent: Cell<bool>,
}

impl SwitchClient {
    /// Connects to a switch that listens at `path`, and waits for its greeting: a switch has one
    /// client at a time. It is waited for as long as `timeout`, for this and for each answer.
    pub fn connect(path: &Path, timeout: Duration) -> Result<SwitchClient, ClientError> {
        let connect = || {
            let flags = SocketFlags::CLOEXEC;
            let kind = SocketType::SEQPACKET;
            let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?;
            for side in [Timeout::Recv, Timeout::Send] {
                set_socket_timeout(&socket, side, Some(timeout))?;
            }
            rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
            Ok(socket)
        };
        let socket = connect().map_err(|source| ClientError::Connect {
            path: path.into(),
            source,
        })?;
        SwitchClient::new(socket)
    }

    /// Greets the switch at the other end of a control socket.
    pub fn new(socket: OwnedFd) -> Result<SwitchClient, ClientError> {
        protocol::send(socket.as_fd(), Request::Hello, &[])?;
        let (reply, files) = protocol::receive::<Reply>(socket.as_fd())?;
        match (reply, exactly::<2>(files)) {
            (Reply::Welcome { lanes }, Ok([counters, calls])) => {
                let counters = CounterFile::open(counters.as_fd())?;
                Ok(SwitchClient {
                    socket,
                    counters,
                    calls,
                    lanes: lanes.into(),
                    silent: Cell::new(false),
                })
            }
            (Reply::Refused { why }, _) => Err(ClientError::Refused(why)),
            _ => Err(ClientError::Confused),
        }
    }

    /// The pipe of calls: numbers of guests that do not run and have got a frame ([`Guest::waits`]), as 8 bytes each, the
    /// lowest first. Reading it does not block.
    pub fn calls(&self) -> BorrowedFd<'_> {
        self.calls.as_fd()
    }

    /// Whether it has not answered in time, and is not asked any more.
    pub fn is_silent(&self) -> bool {
        self.silent.get()
    }

    fn ask(&self, request: Request, files: &[BorrowedFd<'_>]) -> Result<Reply, ClientError> {
        match self.exchange(request, files)? {
            (Reply::Refused { why }, _) => Err(ClientError::Refused(why)),
            (reply, _) => Ok(reply),
        }
    }

    fn exchange(
        &self,
        request: Request,
        files: &[BorrowedFd<'_>],
    ) -> Result<(Reply, Vec<OwnedFd>), ExchangeError> {
        if self.silent.get() {
            return Err(ExchangeError::Silent);
        }
        let socket = self.socket.as_fd();
        let exchanged = protocol::send(socket, request, files)
            .and_then(|()| protocol::receive::<Reply>(socket));
        self.silent
            .set(matches!(exchanged, Err(ExchangeError::Silent)));
        exchanged
    }

    /// Asks for something that is answered with nothing more than that it is done.
    fn order(&self, request: Request) -> Result<(), ClientError> {
        match self.ask(request, &[])? {
            Reply::Done => Ok(()),
            _ => Err(ClientError::Confused),
        }
    }

    /// Attaches a guest's interfaces, all or none. Returns their ports in the same order.
    pub fn attach_guest(&self, guest: Guest<'_>) -> Result<Vec<PortId>, ClientError> {
        let count = guest.interfaces.len();
        let request = Request::AttachGuest {
            slots: guest.slots,
            interfaces: guest.interfaces,
            shared: guest.shared,
            waits: guest.waits,
        };
        match self.ask(request, &[guest.region, guest.doorbell])? {
            Reply::Attached { ports, .. } if ports.len() == count => Ok(ports),
            _ => Err(ClientError::Confused),
        }
    }

    /// Attaches a host link to a domain. The switch has the link from now on: ours is closed.
    pub fn attach_link(
        &self,
        link: HostLink,
        domain: u32,
        properties: PortProperties,
    ) -> Result<PortId, ClientError> {
        let mac = link.behind();
        let request = Request::AttachLink {
            record: link.record,
            name: link.name,
            domain,
            mtu: link.mtu,
            mac,
            properties,
        };
        let files: Vec<_> = link.files.iter().map(AsFd::as_fd).collect();
        match self.ask(request, &files)? {
            Reply::Attached { ports, .. } => match ports.as_slice() {
                [port] => Ok(*port),
                _ => Err(ClientError::Confused),
            },
            _ => Err(ClientError::Confused),
        }
    }

    /// Joins two domains by a patch: frames that reach one end come out of the other. Returns both
    /// ends, and what the user should know: that the patch makes a cycle, if it does. Detaching
    /// one end detaches both.
    pub fn attach_patch(
        &self,
        ends: [PatchEnd; 2],
    ) -> Result<([PortId; 2], Option<String>), ClientError> {
        match self.ask(Request::AttachPatch { ends }, &[])? {
            Reply::Attached { ports, warning } => match *ports.as_slice() {
                [a, b] => Ok(([a, b], warning)),
                _ => Err(ClientError::Confused),
            },
            _ => Err(ClientError::Confused),
        }
    }

    /// Number of lanes: a link with more queues than these gains nothing.
    pub fn lanes(&self) -> usize {
        self.lanes
    }

    /// What each lane has done.
    pub fn lane_stats(&self) -> Result<Vec<LaneStats>, ClientError> {
        match self.ask(Request::Lanes, &[])? {
            Reply::Lanes { lanes } => Ok(lanes),
            _ => Err(ClientError::Confused),
        }
    }

    /// Gives a port other properties, all of them; they hold from the next frame on.
    pub fn set_properties(
        &self,
        port: PortId,
        properties: PortProperties,
    ) -> Result<(), ClientError> {
        self.order(Request::SetProperties { port, properties })
    }

    /// Changes what the record of a host link says, which stays attached: of one to other
    /// hosts, its remotes and the addresses behind them.
    pub fn set_link(&self, port: PortId, record: LinkRecord) -> Result<(), ClientError> {
        self.order(Request::SetLink { port, record })
    }

    /// Lets guests settle flows.
    pub fn begin_settling(&self, programs: &Programs) -> Result<(), ClientError> {
        let files = programs.files();
        let files = files.map_err(|error| ClientError::Refused(error.to_string()))?;
        let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        match self.ask(Request::BeginSettling, &files)? {
            Reply::Done => Ok(()),
            _ => Err(ClientError::Confused),
        }
    }

    /// Lets the kernel pass settled flows on that come by the interface of a host link, in this thread's namespace: its
    /// index, and MTU in bytes.
    pub fn add_passage(
        &self,
        port: PortId,
        programs: &Programs,
        (interface, mtu): (u32, u16),
    ) -> Result<(), ClientError> {
        let program = programs.attach(interface);
        let program = program.map_err(|error| ClientError::Refused(error.to_string()))?;
        let request = Request::AddPassage {
            port,
            interface,
            mtu,
        };
        match self.ask(request, &[program.as_fd()])? {
            Reply::Done => Ok(()),
            _ => Err(ClientError::Confused),
        }
    }

    /// Takes back what the guests of these ports have settled.
    pub fn take_back(&self, ports: Vec<PortId>) -> Result<(), ClientError> {
        self.order(Request::TakeBack { ports })
    }

    /// How many flows are settled.
    pub fn settled(&self) -> Result<u64, ClientError> {
        match self.ask(Request::Settled, &[])? {
            Reply::Settled { flows } => Ok(flows),
            _ => Err(ClientError::Confused),
        }
    }

    /// The flows of which guests said that they are settled.
    pub fn settled_flows(&self) -> Result<Vec<SettledFlow<PortId>>, ClientError> {
        let (mut all, mut from) = (Vec::new(), 0);
        loop {
            match self.ask(Request::SettledFlows { from }, &[])? {
                Reply::SettledFlows { flows, next } => {
                    all.extend(flows);
                    match next {
                        Some(next) => from = next,
                        None => return Ok(all),
                    }
                }
                _ => return Err(ClientError::Confused),
            }
        }
    }

    /// Gives a domain other properties, all of them. It need have no port yet, and keeps them when
    /// its last one leaves.
    pub fn set_domain(&self, domain: u32, properties: DomainProperties) -> Result<(), ClientError> {
        self.order(Request::SetDomain { domain, properties })
    }

    /// The descriptors of a host link's queues. A process that holds them keeps the link alive: a
    /// TAP device exists as long as one of them is open. There are none of links that are opened
    /// again for another switch.
    pub fn files(&self, port: PortId) -> Result<Vec<OwnedFd>, ClientError> {
        match self.exchange(Request::Files { port }, &[])? {
            (Reply::Files, files) => Ok(files),
            (Reply::Refused { why }, _) => Err(ClientError::Refused(why)),
            _ => Err(ClientError::Confused),
        }
    }

    /// The addresses that a domain knows.
    pub fn table(&self, domain: u32) -> Result<Vec<AddressEntry>, ClientError> {
        let mut all = Vec::new();
        let mut next = Some(0);
        while let Some(from) = next {
            match self.ask(Request::Table { domain, from }, &[])? {
                Reply::Table {
                    addresses,
                    next: on,
                } => {
                    all.extend(addresses);
                    next = on;
                }
                _ => return Err(ClientError::Confused),
            }
        }
        Ok(all)
    }

    /// Adds a flow: frames of a domain or a port that have these attributes. Its name is its own,
    /// and it shares no frames with another flow unless one is the more special.
    pub fn add_flow(
        &self,
        name: &str,
        on: FlowOn,
        attributes: FlowAttributes,
        properties: FlowProperties,
    ) -> Result<(), ClientError> {
        self.order(Request::AddFlow {
            name: name.to_owned(),
            on,
            attributes,
            properties,
        })
    }

    /// Removes a flow.
    pub fn remove_flow(&self, name: &str) -> Result<(), ClientError> {
        let name = name.to_owned();
        self.order(Request::RemoveFlow { name })
    }

    /// All flows, in the order of their names, with what they have counted.
    pub fn flows(&self) -> Result<Vec<FlowDescription>, ClientError> {
        let mut all: Vec<FlowDescription> = Vec::new();
        loop {
            let after = all.last().map(|flow| flow.name.clone());
            match self.ask(Request::Flows { after }, &[])? {
                Reply::Flows { flows, more } => {
                    all.extend(flows);
                    if !more {
                        return Ok(all);
                    }
                }
                _ => return Err(ClientError::Confused),
            }
        }
    }

    /// The ports behind a port whose connections are over for `grace`, or had no segment for `idle`; if they are many,
    /// some of them.
    pub fn over(
        &self,
        front: PortId,
        grace: Duration,
        idle: Duration,
    ) -> Result<Vec<PortId>, ClientError> {
        let [grace, idle] = [grace, idle].map(|it| it.as_millis() as u32);
        match self.ask(Request::Over { front, grace, idle }, &[])? {
            Reply::Over { ports } => Ok(ports),
            _ => Err(ClientError::Confused),
        }
    }

    /// Detaches ports. A TAP device is gone with its port; a host interface is as it was before.
    pub fn detach(&self, ports: &[PortId]) -> Result<(), ClientError> {
        self.order(Request::Detach {
            ports: ports.to_vec(),
        })
    }

    /// Tells the other ports of their domains that the addresses behind these ports are here, as a host does that
    /// came to another place: by a RARP request of its own (RFC 903).
    pub fn announce(&self, ports: &[PortId]) -> Result<(), ClientError> {
        self.order(Request::Announce {
            ports: ports.to_vec(),
        })
    }

    /// Delivers frames by a port, past its limits: a file of them ([`late`](crate::late)), from where it stands.
    pub fn deliver(&self, port: PortId, frames: BorrowedFd<'_>) -> Result<(), ClientError> {
        match self.ask(Request::Deliver { port }, &[frames])? {
            Reply::Done => Ok(()),
            _ => Err(ClientError::Confused),
        }
    }

    /// Asks something of a domain's lookup function.
    pub fn lookup(
        &self,
        domain: u32,
        command: Command<PortId>,
    ) -> Result<Answer<PortId>, ClientError> {
        match self.ask(Request::Lookup { domain, command }, &[])? {
            Reply::Lookup { answer } => Ok(answer),
            _ => Err(ClientError::Confused),
        }
    }

    /// Forgets the learned entries of a domain.
    pub fn flush(&self, domain: u32) -> Result<(), ClientError> {
        self.order(Request::Flush { domain })
    }

    /// All ports.
    pub fn ports(&self) -> Result<Vec<PortDescription>, ClientError> {
        let mut all = Vec::new();
        let mut from = Some(0);
        while let Some(slot) = from {
            match self.ask(Request::Ports { from: slot }, &[])? {
                Reply::Ports { ports, next } => {
                    all.extend(ports);
                    from = next;
                }
                _ => return Err(ClientError::Confused),
            }
        }
        Ok(all)
    }

    /// The names of the ports that are closed: their interface is gone, or their guest broke the ring's rules too
    /// often. Costs nothing for ports that are open.
    pub fn closed_ports(&self) -> Result<Vec<String>, ClientError> {
        let mut all = Vec::new();
        let mut from = Some(0);
        while let Some(slot) = from {
            match self.ask(Request::ClosedPorts { from: slot }, &[])? {
                Reply::ClosedPorts { names, next } => {
                    all.extend(names);
                    from = next;
                }
                _ => return Err(ClientError::Confused),
            }
        }
        Ok(all)
    }

    /// A port's counters, read from shared memory. Frames that the kernel dropped before a packet
    /// socket are in it as of the last time the port slept; [`catch_up`](Self::catch_up) first
    /// for those until now.
    pub fn stats(&self, port: PortId) -> PortStats {
        self.counters.sum(port.slot)
    }

    /// As [`stats`](Self::stats), for each lane: what it took from the port, and what it gave to
    /// it.
    pub fn stats_by_lane(&self, port: PortId) -> Vec<PortStats> {
        self.counters.by_lane(port.slot).collect()
    }

    /// Makes the switch read from the kernel how many frames it dropped before a port's socket.
    pub fn catch_up(&self, port: PortId) -> Result<(), ClientError> {
        self.order(Request::CatchUp { port })
    }

    /// Ends the switch. All its ports are gone with it.
    pub fn stop(self) -> Result<(), ClientError> {
        self.order(Request::Stop)
    }
}

impl AsFd for SwitchClient {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
