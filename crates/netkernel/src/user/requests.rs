//! What tenants ask of a user NSM.

use std::io;
use std::net::SocketAddr;

use abi::nqe::{DATAGRAM_TYPE, Nqe, RESTORED, STREAM, operation};
use rustix::io::Errno;

use super::flow::{Ends, Owner};
use super::network::Way;
use super::socket::{Datagram, Kind, Socket};
use super::{REQUESTS, UserNsm};
use crate::ports::{Bound, Ports};
use crate::serving::Serving;
use crate::sockets::backlog;

impl UserNsm {
    /// Takes a round's requests; returns how many.
    pub(super) fn take_requests(&mut self) -> io::Result<usize> {
        for taken in 0..REQUESTS {
            let Some(nqe) = self.service.request()? else {
                return Ok(taken);
            };
            self.request(nqe)?;
        }
        Ok(REQUESTS)
    }

    fn request(&mut self, nqe: Nqe) -> io::Result<()> {
        let number = nqe.socket;
        match nqe.operation {
            operation::SOCKET => {
                if !self.service.knows(nqe.tenant) {
                    self.hear()?;
                }
                if let Err(error) = self.open(nqe) {
                    self.answer(nqe, Err(error));
                }
            }
            operation::BIND => {
                let bound = self.asked_bind(nqe);
                self.answer(nqe, bound.map(Some));
            }
            operation::LISTEN => {
                let listens = self.listen(nqe);
                self.answer(nqe, listens.map(Some));
            }
            operation::CONNECT => self.connect(nqe),
            operation::ACCEPT => self.accepted(number),
            operation::SEND | operation::SEND_TO => self.enqueue(nqe, Socket::may_send),
            operation::CONSUMED => self.consumed(nqe),
            operation::SHUTDOWN => {
                if let Some(socket) = self.sockets.get(number) {
                    socket.shut |= nqe.data != 0;
                    if nqe.data != 1 && !std::mem::replace(&mut socket.deaf, true) && !socket.ended
                    {
                        socket.ended = true;
                        self.tell(Nqe::new(operation::END, number));
                    }
                }
            }
            operation::SET_OPTION => self.set_option(nqe),
            operation::GET_OPTION => self.option(nqe, |socket, level, name, value| {
                socket.options.get(level, name, value)
            }),
            operation::LOCAL_ADDRESS => {
                let socket = self.sockets.get(number).ok_or(Errno::BADF);
                let address = socket.map(|socket| Some(socket.told(socket.address())));
                self.answer(nqe, address);
            }
            operation::PEER_ADDRESS => {
                let socket = self.sockets.get(number).ok_or(Errno::BADF);
                let peer = socket.and_then(|socket| {
                    let remote = socket.remote.filter(|_| socket.failed.is_none());
                    remote
                        .map(|remote| socket.told(remote))
                        .ok_or(Errno::NOTCONN)
                });
                self.answer(nqe, peer.map(Some));
            }
            operation::CLOSE => match self.sockets.get(number) {
                Some(socket) => socket.closing = Some(nqe.queue_set),
                None => self.tell(Nqe {
                    queue_set: nqe.queue_set,
                    ..Nqe::new(operation::CLOSED, number)
                }),
            },
            _ => {}
        }
        self.mark(number);
        Ok(())
    }

    fn open(&mut self, nqe: Nqe) -> Result<(), Errno> {
        let ipv6 = match nqe.family() {
            4 => false,
            6 => true,
            _ => return Err(Errno::AFNOSUPPORT),
        };
        let kind = match nqe.data {
            STREAM => Kind::Stream {
                flow: None,
                connecting: None,
            },
            DATAGRAM_TYPE => Kind::Datagram(Datagram::default()),
            _ => return Err(Errno::PROTONOSUPPORT),
        };
        let mut socket = Socket::new(nqe.tenant, ipv6, kind);
        // One that is restored may share its port, as it may have before: its options are not told.
        socket.options.reuse_address = nqe.flags & RESTORED != 0;
        socket.options.reuse_port = nqe.flags & RESTORED != 0;
        self.sockets.put(nqe.socket, socket);
        Ok(())
    }

    /// The ports of a socket's protocol.
    fn ports(&mut self, socket_is_stream: bool) -> &mut Ports {
        match socket_is_stream {
            true => &mut self.streams,
            false => &mut self.datagrams,
        }
    }

    /// Gives a socket an address, and a port of its own if that is 0; returns it as the tenant is told.
    pub(super) fn bind(&mut self, number: u32, address: SocketAddr) -> Result<SocketAddr, Errno> {
        let socket = self.sockets.get(number).ok_or(Errno::BADF)?;
        if socket.bound.is_some() || socket.local.is_some() {
            return Err(Errno::INVAL);
        }
        if !self.interfaces.network.is_local(address.ip()) {
            return Err(Errno::ADDRNOTAVAIL);
        }
        let is_stream = !matches!(socket.kind, Kind::Datagram(_));
        let bound = Bound {
            number,
            tenant: socket.tenant,
            ip: address.ip(),
            both: address.ip().is_unspecified() && socket.is_dual(),
            shares_address: socket.options.reuse_address,
            shares_port: socket.options.reuse_port,
            listens: false,
            peer: None,
        };
        let port = self.ports(is_stream).bind(bound, address.port())?;
        let bound = SocketAddr::new(address.ip(), port);
        let socket = self.sockets.get(number).ok_or(Errno::BADF)?;
        socket.bound = Some(bound);
        Ok(socket.told(bound))
    }

    fn asked_bind(&mut self, nqe: Nqe) -> Result<SocketAddr, Errno> {
        let socket = self.sockets.get(nqe.socket).ok_or(Errno::BADF)?;
        let asked = nqe.address().ok_or(Errno::AFNOSUPPORT)?;
        let address = match asked.ip().is_unspecified() && asked.is_ipv6() == socket.ipv6 {
            // All addresses, of both versions if the socket has both.
            true => SocketAddr::new(asked.ip(), asked.port()),
            false => socket.heard(asked)?,
        };
        self.bind(nqe.socket, address)
    }

    fn listen(&mut self, nqe: Nqe) -> Result<SocketAddr, Errno> {
        let number = nqe.socket;
        let socket = self.sockets.get(number).ok_or(Errno::BADF)?;
        let most = backlog(nqe);
        match &mut socket.kind {
            Kind::Datagram(_) => return Err(Errno::OPNOTSUPP),
            Kind::Listening { backlog, .. } => *backlog = most,
            Kind::Stream { flow: None, .. } if socket.remote.is_none() => {
                let any = socket.address();
                if socket.bound.is_none() {
                    self.bind(number, any)?;
                }
                let socket = self.sockets.get(number).ok_or(Errno::BADF)?;
                let port = socket.bound.ok_or(Errno::INVAL)?.port();
                self.streams.change(number, port, |it| it.listens = true)?;
                socket.kind = Kind::Listening {
                    offered: 0,
                    opening: 0,
                    backlog: most,
                };
            }
            Kind::Stream { .. } => return Err(Errno::INVAL),
        }
        let socket = self.sockets.get(number).ok_or(Errno::BADF)?;
        Ok(socket.told(socket.address()))
    }

    fn connect(&mut self, nqe: Nqe) {
        let done = match self.sockets.get(nqe.socket).map(|socket| &socket.kind) {
            Some(Kind::Datagram(_)) => self.connect_datagram(nqe.socket, nqe.address()).map(Some),
            Some(_) => self.connect_stream(nqe).map(|()| None),
            None => Err(Errno::BADF),
        };
        // A connection is answered when it stands, or has failed.
        if !matches!(done, Ok(None)) {
            self.answer(nqe, done);
        }
    }

    fn connect_stream(&mut self, nqe: Nqe) -> Result<(), Errno> {
        let socket = self.sockets.get(nqe.socket).ok_or(Errno::BADF)?;
        match socket.kind {
            Kind::Stream {
                connecting: Some(_),
                ..
            } => return Err(Errno::ALREADY),
            Kind::Stream { flow: None, .. } if socket.remote.is_none() => {}
            _ => return Err(Errno::ISCONN),
        }
        let mut to = socket.heard(nqe.address().ok_or(Errno::AFNOSUPPORT)?)?;
        if to.ip().is_unspecified() {
            // As Linux has it: this host.
            to.set_ip(match to.is_ipv4() {
                true => std::net::Ipv4Addr::LOCALHOST.into(),
                false => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        if to.ip().is_multicast() || self.interfaces.network.is_broadcast(to.ip()) {
            return Err(Errno::NETUNREACH);
        }
        if to.port() == 0 {
            return Err(Errno::CONNREFUSED);
        }
        let (way, source) = self.interfaces.route(to.ip())?;
        let bound = socket.bound;
        let own = bound
            .map(|bound| bound.ip())
            .filter(|ip| !ip.is_unspecified());
        let source = own.unwrap_or(source);
        if source.is_ipv4() != to.is_ipv4() || (way == Way::Vnic && source.is_loopback()) {
            return Err(Errno::INVAL);
        }
        let ends = |port| Ends {
            way,
            local: SocketAddr::new(source, port),
            remote: to,
        };
        let flows = &self.flows;
        let port = match bound {
            Some(bound) if flows.has(&ends(bound.port())) => return Err(Errno::ADDRINUSE),
            Some(bound) => bound.port(),
            None => {
                let free = |ports: &Ports, port| ports.is_free(port) && !flows.has(&ends(port));
                self.streams.free(free).ok_or(Errno::ADDRNOTAVAIL)?
            }
        };
        let ends = ends(port);
        let id = self
            .flows
            .add(ends, Owner::Socket(nqe.socket))
            .ok_or(Errno::NOBUFS)?;
        let socket = self.sockets.get(nqe.socket).ok_or(Errno::BADF)?;
        socket.kind = Kind::Stream {
            flow: Some(id),
            connecting: Some(nqe.queue_set),
        };
        (socket.local, socket.remote) = (Some(ends.local), Some(to));
        (socket.failed, socket.ended) = (None, false);
        if let Some(flow) = self.flows.get(id) {
            let context = self.interfaces.interface(way).context();
            let begun = flow.tcp().connect(context, to, ends.local);
            debug_assert_eq!(begun, Ok(()));
            socket.options.apply(flow.tcp());
            self.flows.mark(id);
        }
        Ok(())
    }

    /// An offered connection has its socket at the tenant.
    fn accepted(&mut self, number: u32) {
        let Some(socket) = self.sockets.get(number) else {
            return;
        };
        let (listener, failed) = (socket.listener.take(), socket.failed);
        if let Some(error) = failed {
            let failed = Nqe::new(operation::FAILED, number);
            self.tell(failed.with_error(error.raw_os_error()));
        } else if socket.flow().is_none() && !std::mem::replace(&mut socket.ended, true) {
            self.tell(Nqe::new(operation::END, number));
        }
        listener
            .into_iter()
            .for_each(|listener| self.offered_less(listener));
    }

    /// A listening socket has one offered connection less.
    fn offered_less(&mut self, listener: u32) {
        if let Some(socket) = self.sockets.get(listener)
            && let Kind::Listening { offered, .. } = &mut socket.kind
        {
            *offered = offered.saturating_sub(1);
        }
    }

    fn consumed(&mut self, nqe: Nqe) {
        if self.take_back(nqe) {
            self.feed(nqe.tenant);
        }
    }

    fn set_option(&mut self, nqe: Nqe) {
        self.option(nqe, |socket, level, name, value| {
            socket.options.set(level, name, value).map(|()| 0)
        });
        if let Some(socket) = self.sockets.get(nqe.socket)
            && let Some(flow) = socket.flow()
            && let Some(flow) = self.flows.get(flow)
        {
            socket.options.apply(flow.tcp());
        }
    }

    /// Releases the port that a socket has of its own.
    pub(super) fn release_port(&mut self, number: u32, socket: &Socket) {
        if let Some(bound) = socket.bound {
            let is_stream = !matches!(socket.kind, Kind::Datagram(_));
            self.ports(is_stream).release(number, bound.port());
        }
    }

    /// Ends a socket that is being closed and has sent all. Its connection goes on until that has ended.
    pub(super) fn finish(&mut self, number: u32) {
        let Some(socket) = self.sockets.get(number) else {
            return;
        };
        let Some(set) = socket.closing else { return };
        let sends = match &socket.kind {
            Kind::Stream { flow: None, .. } | Kind::Listening { .. } => false,
            Kind::Stream { .. } => !socket.sending.is_empty() && socket.failed.is_none(),
            Kind::Datagram(datagram) => !socket.sending.is_empty() || datagram.way.is_some(),
        };
        let resets = socket.options.resets || socket.listener.is_some();
        if sends && !resets {
            return;
        }
        let Some(mut socket) = self.sockets.remove(number) else {
            return;
        };
        self.unsend(number, std::mem::take(&mut socket.sending), 0);
        self.release_port(number, &socket);
        if let Some(id) = socket.flow() {
            match self.flows.get(id) {
                Some(flow) if !resets => {
                    flow.owner = Owner::Nobody;
                    flow.tcp().close();
                    self.flows.mark(id);
                }
                _ => self.reset(id),
            }
        }
        self.reclaim(number, &socket);
        if let Some(listener) = socket.listener {
            self.offered_less(listener);
        }
        if let Kind::Listening { .. } = socket.kind {
            self.end_listener(number);
        }
        self.tell(Nqe {
            queue_set: set,
            ..Nqe::new(operation::CLOSED, number)
        });
    }

    /// Resets the connections that nobody accepts any more.
    fn end_listener(&mut self, number: u32) {
        for id in self.flows.of(Owner::Listener(number)) {
            self.reset(id);
        }
        let offered = self
            .sockets
            .numbers_that(|other| other.listener == Some(number));
        for other in offered {
            if let Some(gone) = self.sockets.remove(other)
                && let Some(id) = gone.flow()
            {
                self.reset(id);
            }
            self.tell(Nqe::new(operation::CLOSED, other));
        }
    }
}
