//! Datagram sockets. What comes is copied from the frame to the tenant's chunk; to send, each has a socket of smoltcp.

use std::net::{IpAddr, SocketAddr};

use abi::nqe::{DatagramHead, Nqe, PacketInfo, operation};
use abi::tenant::CHUNK_BYTES;
use rustix::io::Errno;
use smoltcp::iface::SocketSet;
use smoltcp::socket::udp;
use smoltcp::time::Instant;

use super::UserNsm;
use super::arrival::Received;
use super::network::Way;
use super::socket::{Datagram, HEAD, Kind, Socket};
use super::stream::NEIGHBOUR;
use crate::ports::Bound;
use crate::serving::Serving;
use crate::sockets::Sending;

/// The interface's number, as packet information has it: that of a host's first one after the loopback.
const INTERFACE: u32 = 2;
/// Bytes of IP and UDP headers.
const HEADERS4: usize = 28;
const HEADERS6: usize = 48;
/// How often a datagram that waits for a neighbour is tried again.
const RETRY: smoltcp::time::Duration = smoltcp::time::Duration::from_millis(100);

impl UserNsm {
    /// Gives a datagram to its sockets.
    pub(super) fn datagram(&mut self, way: Way, datagram: &Received) {
        let (local, remote) = (datagram.local, datagram.remote);
        let network = &self.interfaces.network;
        let many = local.ip().is_multicast() || network.is_broadcast(local.ip());
        let here = way == Way::Loopback || network.has(local.ip());
        if many {
            for number in self.datagrams.receivers(local, remote) {
                self.receive_datagram(way, number, datagram);
            }
        } else if !here {
            // A switch floods what it knows no port for.
        } else if let Some(number) = self.datagrams.receiver(local, remote) {
            self.receive_datagram(way, number, datagram);
        } else {
            self.interfaces.deliver(way, None);
        }
    }

    fn receive_datagram(&mut self, way: Way, number: u32, datagram: &Received) {
        let Some(socket) = self.sockets.get(number) else {
            return;
        };
        let len = datagram.payload.len();
        let fits = HEAD + len <= CHUNK_BYTES;
        // What nobody takes away in time is lost, as datagrams are.
        let window = self.service.receive_window(socket.tenant);
        if socket.lent >= window || socket.closing.is_some() || !fits {
            return;
        }
        let Some(chunk) = self.service.lend(socket.tenant, number) else {
            return;
        };
        let room = self
            .service
            .payload(socket.tenant, chunk.offset(), CHUNK_BYTES as u32);
        let Some(room) = room else { return };
        let frame = self.interfaces.packet(way);
        let options = &socket.options;
        let mut head = DatagramHead::new(Some(socket.told(datagram.remote)));
        head.hop_limit = options.tells_hop_limit.then_some(datagram.hop_limit);
        head.traffic_class = options.tells_class.then_some(datagram.traffic_class);
        if options.packet_info {
            head.packet = Some(match socket.told(datagram.local).ip() {
                IpAddr::V4(ip) => PacketInfo::V4 {
                    interface: INTERFACE,
                    local: ip,
                    destination: ip,
                },
                IpAddr::V6(address) => PacketInfo::V6 {
                    interface: INTERFACE,
                    address,
                },
            });
        }
        room.write(&head.to_bytes());
        room.skip(HEAD).write(&frame[datagram.payload.clone()]);
        socket.lent += 1;
        let nqe = Nqe::new(operation::DATAGRAM, number);
        self.tell(nqe.with_chunk(chunk.offset(), (HEAD + len) as u32));
    }

    /// A host reports an error of a datagram: the socket that is connected there is told.
    pub(super) fn datagram_failed(&mut self, local: SocketAddr, remote: SocketAddr, error: Errno) {
        let Some(number) = self.datagrams.receiver(local, remote) else {
            return;
        };
        let Some(socket) = self.sockets.get(number) else {
            return;
        };
        if matches!(&socket.kind, Kind::Datagram(datagram) if datagram.peer == Some(remote)) {
            let failed = Nqe::new(operation::FAILED, number);
            self.tell(failed.with_error(error.raw_os_error()));
        }
    }

    /// Sends what a socket has to send.
    pub(super) fn send_datagrams(&mut self, number: u32) {
        loop {
            match self.push_datagram(number) {
                None => {}
                // There is room when what is on its way has been taken.
                Some(Way::Loopback) => return self.mark(number),
                Some(Way::Vnic) if !self.interfaces.has_room(Way::Vnic) => {
                    return self.blocked.push(number);
                }
                Some(Way::Vnic) => return self.hold(number),
            }
            let Some(socket) = self.sockets.get(number) else {
                return;
            };
            let Some(&sending) = socket.sending.front() else {
                return;
            };
            // One of several chunks is longer than any MTU: nothing is fragmented.
            let is_long = match &mut socket.kind {
                Kind::Datagram(datagram) => {
                    let goes_on = std::mem::replace(&mut datagram.goes_on, sending.more);
                    goes_on || sending.more
                }
                _ => false,
            };
            let done = match is_long {
                // It is told once.
                true if sending.more => Ok(()),
                true => Err(Errno::MSGSIZE),
                false => self.take_datagram(number, sending),
            };
            let error = match done {
                Ok(()) => 0,
                Err(error) => error.raw_os_error(),
            };
            let sent = Nqe::new(operation::SENT, number)
                .with_chunk(sending.offset, sending.len)
                .with_error(error);
            self.tell(Nqe {
                queue_set: sending.set,
                ..sent
            });
            if let Some(socket) = self.sockets.get(number) {
                socket.sending.pop_front();
            }
        }
    }

    /// Has smoltcp's socket of a datagram socket send what it holds; returns on which way it waits, if it does.
    fn push_datagram(&mut self, number: u32) -> Option<Way> {
        let Kind::Datagram(datagram) = &mut self.sockets.get(number)?.kind else {
            return None;
        };
        let ((set, handle), way) = (datagram.out.as_mut()?, datagram.way?);
        // It has room for one: an empty one takes no bytes.
        if !set.get::<udp::Socket<'_>>(*handle).can_send() {
            self.interfaces.send(way, set);
        }
        if set.get::<udp::Socket<'_>>(*handle).can_send() {
            datagram.way = None;
        }
        datagram.way
    }

    /// Gives a datagram to smoltcp.
    fn take_datagram(&mut self, number: u32, sending: Sending) -> Result<(), Errno> {
        let socket = self.sockets.get(number).ok_or(Errno::BADF)?;
        let bytes = self
            .service
            .payload(socket.tenant, sending.offset, sending.len);
        let bytes = bytes.ok_or(Errno::FAULT)?;
        let head = bytes
            .read_array::<{ DatagramHead::LEN }>(0)
            .ok_or(Errno::FAULT)?;
        let (head, bytes) = (DatagramHead::from_bytes(&head), bytes.skip(HEAD));
        let Kind::Datagram(Datagram { peer, .. }) = &socket.kind else {
            return Err(Errno::OPNOTSUPP);
        };
        let to = match head.address {
            Some(address) => socket.heard(address)?,
            None => peer.ok_or(Errno::DESTADDRREQ)?,
        };
        let (way, source) = self.interfaces.route(to.ip())?;
        if self.interfaces.network.is_broadcast(to.ip()) && !socket.options.broadcast {
            return Err(Errno::ACCESS);
        }
        let headers = if to.is_ipv4() { HEADERS4 } else { HEADERS6 };
        if bytes.len() + headers > self.interfaces.mtu(way) {
            return Err(Errno::MSGSIZE);
        }
        self.bind_datagram(number)?;
        let socket = self.sockets.get(number).ok_or(Errno::BADF)?;
        let bound = socket.bound.ok_or(Errno::INVAL)?;
        let asked = match head.packet {
            Some(PacketInfo::V4 { local, .. }) => Some(IpAddr::V4(local)),
            Some(PacketInfo::V6 { address, .. }) => Some(IpAddr::V6(address).to_canonical()),
            None => None,
        };
        let asked = asked.filter(|ip| !ip.is_unspecified());
        let own = asked.unwrap_or(bound.ip());
        let source = if own.is_unspecified() { source } else { own };
        if source.is_ipv4() != to.is_ipv4() || !self.interfaces.network.is_local(source) {
            return Err(Errno::INVAL);
        }
        let hop_limit = head
            .hop_limit
            .filter(|limit| *limit > 0)
            .or(socket.options.hop_limit());
        let Kind::Datagram(datagram) = &mut socket.kind else {
            return Err(Errno::OPNOTSUPP);
        };
        let (set, handle) = datagram.out.get_or_insert_with(|| {
            let buffer =
                |bytes| udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; 1], vec![0; bytes]);
            let mut set = SocketSet::new(Vec::with_capacity(1));
            let handle = set.add(udp::Socket::new(buffer(0), buffer(CHUNK_BYTES)));
            (set, handle)
        });
        let out = set.get_mut::<udp::Socket<'_>>(*handle);
        if out.endpoint().port != bound.port() {
            out.close();
            out.bind(bound.port()).map_err(|_| Errno::INVAL)?;
        }
        out.set_hop_limit(hop_limit);
        let mut meta = udp::UdpMetadata::from(smoltcp::wire::IpEndpoint::from(to));
        meta.local_address = Some(source.into());
        let room = out.send(bytes.len(), meta).map_err(|_| Errno::INVAL)?;
        bytes.read(room);
        datagram.way = Some(way);
        Ok(())
    }

    /// Gives a datagram socket a port of its own, if it has none.
    pub(super) fn bind_datagram(&mut self, number: u32) -> Result<(), Errno> {
        match self.sockets.get(number) {
            Some(socket) if socket.bound.is_none() => {
                let any = socket.address();
                self.bind(number, any).map(drop)
            }
            Some(_) => Ok(()),
            None => Err(Errno::BADF),
        }
    }

    /// Sets the peer of a datagram socket, or none; returns the address that it has then.
    pub(super) fn connect_datagram(
        &mut self,
        number: u32,
        to: Option<SocketAddr>,
    ) -> Result<SocketAddr, Errno> {
        let socket = self.sockets.get(number).ok_or(Errno::BADF)?;
        let to = to.map(|to| socket.heard(to)).transpose()?;
        let source = to.map(|to| self.interfaces.route(to.ip())).transpose()?;
        self.bind_datagram(number)?;
        let socket = self.sockets.get(number).ok_or(Errno::BADF)?;
        let bound = socket.bound.ok_or(Errno::INVAL)?;
        if let Kind::Datagram(datagram) = &mut socket.kind {
            datagram.peer = to;
        }
        socket.remote = to;
        socket.local = source.map(|(_, source)| match bound.ip().is_unspecified() {
            true => SocketAddr::new(source, bound.port()),
            false => bound,
        });
        let told = socket.told(socket.address());
        let hears = |it: &mut Bound| it.peer = to;
        self.datagrams.change(number, bound.port(), hears)?;
        Ok(told)
    }

    /// A datagram socket waits for a neighbour.
    fn hold(&mut self, number: u32) {
        if !self.held.iter().any(|(held, _)| *held == number) {
            self.held.push((number, self.interfaces.now()));
        }
    }

    /// Tries again to send what waits; what has waited too long is dropped, as its neighbour is not there.
    pub(super) fn retry_held(&mut self) {
        let now = self.interfaces.now();
        for (number, since) in std::mem::take(&mut self.held) {
            if now < since + NEIGHBOUR {
                self.held.push((number, since));
            } else if let Some(Socket {
                kind: Kind::Datagram(datagram),
                ..
            }) = self.sockets.get(number)
            {
                datagram.out = None;
                datagram.way = None;
            }
            if now >= since + RETRY {
                self.mark(number);
            }
        }
        self.release_held();
    }

    /// A neighbour has answered.
    pub(super) fn answer_held(&mut self) {
        for at in 0..self.held.len() {
            let (number, _) = self.held[at];
            self.mark(number);
        }
    }

    /// Forgets datagrams that wait no more.
    fn release_held(&mut self) {
        let sockets = &mut self.sockets;
        self.held.retain(|(number, _)| {
            sockets
                .get(*number)
                .is_some_and(|socket| match &socket.kind {
                    Kind::Datagram(datagram) => datagram.way.is_some(),
                    _ => false,
                })
        });
    }

    /// When waiting datagrams are tried again.
    pub(super) fn next_held(&self) -> Option<Instant> {
        let now = self.interfaces.now();
        (!self.held.is_empty()).then(|| now + RETRY)
    }
}
