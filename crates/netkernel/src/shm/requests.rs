//! What tenants ask of an shm NSM.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use abi::nqe::{Nqe, RESTORED, STREAM, operation};
use rustix::io::Errno;

use super::socket::{Kind, Socket};
use super::{Others, REQUESTS, ShmNsm};
use crate::pairs::Pairs;
use crate::ports::{Bound, Ports};
use crate::serving::Serving;
use crate::sockets::{backlog, heard};

impl ShmNsm {
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
            operation::CONNECT => {
                let connected = self.connect(nqe);
                self.answer(nqe, connected.map(Some));
            }
            operation::ACCEPT => self.accepted(number),
            operation::SEND | operation::SEND_TO => self.enqueue(nqe, |socket| match socket.kind {
                Kind::Pair { .. } => Ok(()),
                _ => Err(Errno::NOTCONN),
            }),
            operation::CONSUMED => self.consumed(nqe),
            operation::SHUTDOWN => self.shut_down(nqe),
            operation::SET_OPTION => self.option(nqe, |socket, level, name, value| {
                socket.options.set(level, name, value).map(|()| 0)
            }),
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
                    let remote = remote.map(|remote| socket.told(remote));
                    remote.ok_or(Errno::NOTCONN)
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

    fn consumed(&mut self, nqe: Nqe) {
        if self.take_back(nqe) {
            self.consumed_by(nqe.socket);
            self.feed(nqe.tenant);
        }
    }

    fn open(&mut self, nqe: Nqe) -> Result<(), Errno> {
        let ipv6 = match nqe.family() {
            4 => false,
            6 => true,
            _ => return Err(Errno::AFNOSUPPORT),
        };
        if nqe.data != STREAM {
            return Err(Errno::PROTONOSUPPORT);
        }
        let mut socket = Socket::new(nqe.tenant, ipv6, Kind::Open);
        // One that is restored may share its port, as it may have before: its options are not told.
        socket.options.reuse_address = nqe.flags & RESTORED != 0;
        socket.options.reuse_port = nqe.flags & RESTORED != 0;
        self.sockets.put(nqe.socket, socket);
        Ok(())
    }

    fn asked_bind(&mut self, nqe: Nqe) -> Result<SocketAddr, Errno> {
        let socket = self.sockets.get(nqe.socket).ok_or(Errno::BADF)?;
        let asked = nqe.address().ok_or(Errno::AFNOSUPPORT)?;
        let address = match asked.ip().is_unspecified() && asked.is_ipv6() == socket.ipv6 {
            // All addresses, of both versions if the socket has both.
            true => SocketAddr::new(asked.ip(), asked.port()),
            false => heard(socket.ipv6, socket.options.v6_only, asked)?,
        };
        self.bind(nqe.socket, address)
    }

    /// Gives a socket an address, and a port of its own if that is 0; returns it as the tenant is told.
    fn bind(&mut self, number: u32, address: SocketAddr) -> Result<SocketAddr, Errno> {
        let local = self.is_local(address.ip());
        let socket = self.sockets.get(number).ok_or(Errno::BADF)?;
        if socket.bound.is_some() || socket.local.is_some() {
            return Err(Errno::INVAL);
        }
        if !local {
            return Err(Errno::ADDRNOTAVAIL);
        }
        let bound = Bound {
            number,
            tenant: socket.tenant,
            ip: address.ip(),
            both: address.ip().is_unspecified() && socket.ipv6 && !socket.options.v6_only,
            shares_address: socket.options.reuse_address,
            shares_port: socket.options.reuse_port,
            listens: false,
            peer: None,
        };
        let bound = SocketAddr::new(address.ip(), self.ports.bind(bound, address.port())?);
        socket.bound = Some(bound);
        Ok(socket.told(bound))
    }

    fn listen(&mut self, nqe: Nqe) -> Result<SocketAddr, Errno> {
        let number = nqe.socket;
        let socket = self.sockets.get(number).ok_or(Errno::BADF)?;
        let most = backlog(nqe);
        match &mut socket.kind {
            Kind::Listening { backlog, .. } => *backlog = most,
            Kind::Open => {
                let any = socket.address();
                if socket.bound.is_none() {
                    self.bind(number, any)?;
                }
                let socket = self.sockets.get(number).ok_or(Errno::BADF)?;
                let port = socket.bound.ok_or(Errno::INVAL)?.port();
                self.ports.change(number, port, |it| it.listens = true)?;
                socket.kind = Kind::Listening {
                    offered: 0,
                    backlog: most,
                };
            }
            Kind::Pair { .. } => return Err(Errno::INVAL),
        }
        let socket = self.sockets.get(number).ok_or(Errno::BADF)?;
        Ok(socket.told(socket.address()))
    }

    /// Connects a socket to one that listens.
    fn connect(&mut self, nqe: Nqe) -> Result<SocketAddr, Errno> {
        let client = self.sockets.get(nqe.socket).ok_or(Errno::BADF)?;
        match client.kind {
            Kind::Open if client.remote.is_none() => {}
            _ => return Err(Errno::ISCONN),
        }
        let asked = nqe.address().ok_or(Errno::AFNOSUPPORT)?;
        let mut to = heard(client.ipv6, client.options.v6_only, asked)?;
        if to.ip().is_unspecified() {
            // As Linux has it: this host.
            to.set_ip(loopback(to.ip()));
        }
        let bound = client.bound;
        if !self.is_local(to.ip()) {
            return Err(match self.others {
                Others::Unreachable => Errno::NETUNREACH,
                Others::Refused => Errno::CONNREFUSED,
            });
        }
        let from = match bound {
            Some(bound) if bound.ip().is_unspecified() => SocketAddr::new(to.ip(), bound.port()),
            Some(bound) => bound,
            None => {
                let free = self.ports.free(Ports::is_free);
                SocketAddr::new(to.ip(), free.ok_or(Errno::ADDRNOTAVAIL)?)
            }
        };
        let listener = self.ports.listener(to, from).ok_or(Errno::CONNREFUSED)?;
        let at = self.sockets.get(listener).ok_or(Errno::CONNREFUSED)?;
        let (tenant, ipv6) = (at.tenant, at.ipv6);
        match &mut at.kind {
            Kind::Listening { offered, backlog } if *offered <= *backlog => *offered += 1,
            // There is nobody who would try again later.
            _ => return Err(Errno::CONNREFUSED),
        }
        let Some(own) = self.sockets.choose() else {
            self.offered_less(listener);
            return Err(Errno::NOBUFS);
        };
        let peer = Some(nqe.socket);
        let mut server = Socket::new(tenant, ipv6, Kind::Pair { peer });
        (server.local, server.remote) = (Some(to), Some(from));
        server.listener = Some(listener);
        let told = server.told(from);
        self.sockets.put_own(own, server);
        let incoming = Nqe::new(operation::INCOMING, listener).with_address(told);
        self.tell(Nqe {
            len: own,
            ..incoming
        });
        let client = self.sockets.get(nqe.socket).ok_or(Errno::BADF)?;
        client.kind = Kind::Pair { peer: Some(own) };
        (client.local, client.remote) = (Some(from), Some(to));
        Ok(client.told(from))
    }

    /// An offered connection has its socket at the tenant.
    fn accepted(&mut self, number: u32) {
        let Some(socket) = self.sockets.get(number) else {
            return;
        };
        let (listener, failed, ended) = (socket.listener.take(), socket.failed, socket.ended);
        if let Some(error) = failed {
            let failed = Nqe::new(operation::FAILED, number);
            self.tell(failed.with_error(error.raw_os_error()));
        } else if ended {
            self.tell(Nqe::new(operation::END, number));
        }
        // What its peer has sent waits.
        self.consumed_by(number);
        if let Some(listener) = listener {
            self.offered_less(listener);
        }
    }

    /// A listening socket has one offered connection less.
    fn offered_less(&mut self, listener: u32) {
        if let Some(socket) = self.sockets.get(listener)
            && let Kind::Listening { offered, .. } = &mut socket.kind
        {
            *offered = offered.saturating_sub(1);
        }
    }

    fn shut_down(&mut self, nqe: Nqe) {
        let Some(socket) = self.sockets.get(nqe.socket) else {
            return;
        };
        socket.shut |= nqe.data != 0;
        if nqe.data != 1 && !std::mem::replace(&mut socket.deaf, true) {
            self.end_at(nqe.socket);
        }
    }

    /// Releases what a socket that is gone had.
    pub(super) fn release(&mut self, number: u32, gone: &Socket) {
        if let Some(bound) = gone.bound {
            self.ports.release(number, bound.port());
        }
        self.leave_pair(gone);
        if let Kind::Listening { .. } = gone.kind {
            let offered = |other: &Socket| other.listener == Some(number);
            for other in self.sockets.numbers_that(offered) {
                if let Some(gone) = self.sockets.remove(other) {
                    self.leave_pair(&gone);
                }
                self.tell(Nqe::new(operation::CLOSED, other));
            }
        }
    }

    /// Ends a socket that is being closed and has sent all.
    pub(super) fn finish(&mut self, number: u32) {
        let Some(socket) = self.sockets.get(number) else {
            return;
        };
        let Some(set) = socket.closing else { return };
        let resets = socket.options.resets || socket.listener.is_some();
        if !socket.sending.is_empty() && socket.failed.is_none() && !resets {
            return;
        }
        let Some(mut socket) = self.sockets.remove(number) else {
            return;
        };
        self.unsend(number, std::mem::take(&mut socket.sending), 0);
        self.release(number, &socket);
        self.reclaim(number, &socket);
        if let Some(listener) = socket.listener {
            self.offered_less(listener);
        }
        self.tell(Nqe {
            queue_set: set,
            ..Nqe::new(operation::CLOSED, number)
        });
    }
}

fn loopback(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    }
}
