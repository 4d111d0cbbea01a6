use core::net::SocketAddrV4;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::net::{
    RecvFlags, SendFlags, Shutdown, SocketAddrAny, SocketFlags, acceptfrom_with, recvfrom, send,
    sendto, shutdown,
};

use super::transport::{Inlet, Outlet, Sent, wait_writable};
use crate::prelude::*;
use router::args::path;

mod open;

use open::Place;

/// What a socket element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Stream,
    Datagram,
}

/// Sends and receives packets over a TCP, UDP or Unix socket.
///
/// Input packets go to the peer; packets from the peer leave by the output. The bytes of a stream
/// become packets as they arrive; Reframe restores packet boundaries.
///
/// A stream is either a server, which has one connection at a time, or a client, which connects
/// when the router is initialized. A datagram server sends to the last sender, a datagram
/// client to the address given, or, if that is 0.0.0.0, to each packet's destination annotation.
/// It is a client if CLIENT says so, or without outputs; else a server.
///
/// A pushed packet blocks the router until the socket has room; a pulled one waits without
/// blocking.
///
/// # Arguments
/// With `TCP` and `UDP`, these follow TYPE:
/// - `ADDR` (IP address), `PORT` (port): the server's address: a server listens there, and a client
///   sends there.
/// - `LOCAL_ADDR` (IP address), `LOCAL_PORT` (port), optional: the client's address.
///
/// With `UNIX` and `UNIX_DGRAM`:
/// - `FILENAME`, and optionally `LOCAL_FILENAME` (file names): the same.
///
/// # Example
/// ```click
/// allow :: RadixIPLookup(127.0.0.1 0);
/// deny :: RadixIPLookup(0.0.0.0/0 0);
/// Idle -> allow -> Discard;
/// Idle -> deny -> Discard;
/// Socket(TCP, 0.0.0.0, 12345, ALLOW allow, DENY deny) -> Print -> Discard;
/// ```
///
/// # See also
/// RawSocket, McastSocket, Reframe
#[derive(Element)]
#[element(
    ports = "0-1/0-1",
    processing = "a/h",
    flow = "x/y",
    raw,
    provides(Descriptors)
)]
#[inputs("packets to send")]
#[outputs("packets received")]
pub struct Socket {
    /// The kind of socket: `TCP`, `UDP`, `UNIX` or `UNIX_DGRAM`.
    #[arg(mandatory, name = "TYPE")]
    type_name: String,
    /// Whether it is a client; the default is true without outputs, else false.
    #[arg(name = "CLIENT")]
    is_client: Option<bool>,
    /// With `TCP`, whether small segments are sent at once.
    #[arg(name = "NODELAY", default = true)]
    no_delay: bool,
    /// Whether to print when connections come and go.
    #[arg]
    verbose: bool,
    /// Bytes of the queue of packets to send.
    #[arg(name = "SNDBUF", default = -1, default_text = "")]
    send_buffer: i32,
    /// Bytes of the queue of packets received.
    #[arg(name = "RCVBUF", default = -1, default_text = "")]
    receive_buffer: i32,
    /// A server takes connections and datagrams from addresses that this table has a route for.
    #[arg(with = RouteTable, kind = "IP routing table")]
    allow: Option<ElementRef>,
    /// A server takes connections and datagrams from addresses that this table has no route for.
    #[arg(with = RouteTable, kind = "IP routing table")]
    deny: Option<ElementRef>,
    /// Whether packets carry the time at which they were received.
    #[arg(default = true)]
    timestamp: bool,
    /// Accepted, without effect.
    #[arg]
    proper: bool,
    #[flatten]
    inlet: Inlet,
    #[flatten]
    #[init(Outlet::with_task())]
    outlet: Outlet,
    kind: Option<Kind>,
    client: bool,
    /// What a server binds to and a client sends to.
    remote: Option<Place>,
    local: Option<Place>,
    socket: Option<OwnedFd>,
    /// A stream server's connection.
    connection: Option<OwnedFd>,
    /// Where datagrams go.
    peer: Option<SocketAddrAny>,
    /// A file name that was bound, to be removed.
    bound: Option<String>,
}

/// The notation of ALLOW and DENY.
struct RouteTable;

impl Parser<Option<ElementRef>> for RouteTable {
    fn parse(&self, text: &str, context: &Context<'_>) -> Result<Option<ElementRef>, Invalid> {
        ElementOf("IPRouteTable").parse(text, context).map(Some)
    }
}

impl Socket {
    fn is_stream(&self) -> bool {
        self.kind == Some(Kind::Stream)
    }

    /// The descriptor that bytes are sent and received by.
    fn active(&self) -> Option<&OwnedFd> {
        if self.is_stream() && !self.client {
            self.connection.as_ref()
        } else {
            self.socket.as_ref()
        }
    }

    /// Whether a server takes what comes from an address.
    fn is_allowed(&self, cx: &mut Cx<'_>, from: &SocketAddrAny) -> bool {
        let Ok(from) = SocketAddrV4::try_from(from.clone()) else {
            return true;
        };
        let address = from.ip().to_string();
        let mut has_route = |table: &ElementRef| {
            let route = cx.read_handler(Some(ElementId::new(table.index)), "lookup", &address);
            route.is_ok_and(|route| !route.trim().starts_with('-'))
        };
        if self.allow.as_ref().is_some_and(&mut has_route) {
            return true;
        }
        !self.deny.as_ref().is_some_and(has_route)
    }

    /// Asks to be told of what there is to do.
    fn watch(&self, cx: &mut Cx<'_>) {
        let wants_room = self.outlet.waits();
        if let Some(connection) = &self.connection {
            cx.watch(connection.as_raw_fd(), true, wants_room);
        }
        if let Some(socket) = &self.socket {
            let (fd, serves) = (socket.as_raw_fd(), self.is_stream() && !self.client);
            match serves {
                // One connection at a time: others wait.
                true => cx.watch(fd, self.connection.is_none(), false),
                false => cx.watch(fd, self.is_stream() || cx.outputs() > 0, wants_room),
            }
        }
    }

    fn accept(&mut self, cx: &mut Cx<'_>) {
        let Some(socket) = &self.socket else {
            return;
        };
        let declaration = cx.declaration();
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (connection, from) = match acceptfrom_with(socket, flags) {
            Ok(accepted) => accepted,
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return,
            Err(errno) => {
                let reason = super::os_error(&errno.into());
                cx.chatter(format_args!("{declaration}: accept: {reason}"));
                return;
            }
        };
        let allowed = from.as_ref().is_none_or(|from| self.is_allowed(cx, from));
        if self.verbose {
            let (fd, from) = (connection.as_raw_fd(), from.as_ref().map(Place::colon));
            let word = if allowed { "opened" } else { "denied" };
            let from = from.unwrap_or_default();
            cx.chatter(format_args!(
                "{declaration}: {word} connection {fd} from {from}"
            ));
        }
        if allowed {
            self.connection = Some(connection);
            self.watch(cx);
            self.outlet.wake(cx);
        }
    }

    /// Ends the connection, or a client's socket.
    fn close(&mut self, cx: &mut Cx<'_>, why: Option<Errno>) {
        let served = self.is_stream() && !self.client;
        let closed = if served {
            self.connection.take()
        } else {
            self.socket.take()
        };
        let Some(closed) = closed else {
            return;
        };
        let (declaration, fd) = (cx.declaration(), closed.as_raw_fd());
        cx.watch(fd, false, false);
        if self.verbose {
            if let Some(errno) = why {
                let reason = super::os_error(&errno.into());
                cx.chatter(format_args!("{declaration}: {reason}"));
            }
            cx.chatter(format_args!("{declaration}: closed connection {fd}"));
        }
        drop(closed);
        self.watch(cx);
    }

    /// Receives one packet; false if none is there.
    fn receive(&mut self, cx: &mut Cx<'_>) -> bool {
        let (stream, served) = (self.is_stream(), !self.client);
        let active = if stream && served {
            self.connection.as_ref()
        } else {
            self.socket.as_ref()
        };
        let Some(socket) = active else {
            return false;
        };
        let flags = if stream {
            RecvFlags::DONTWAIT
        } else {
            RecvFlags::DONTWAIT | RecvFlags::TRUNC
        };
        let received = self.inlet.receive(cx, |room| recvfrom(socket, room, flags));
        match received {
            Ok(Some((packet, _))) if stream && packet.is_empty() => {
                cx.kill(packet);
                self.close(cx, None);
                false
            }
            Ok(Some((packet, from))) => {
                if !stream && served {
                    self.take_datagram(cx, packet, from);
                } else {
                    cx.emit(0, packet);
                }
                true
            }
            Ok(None) | Err(Errno::AGAIN | Errno::INTR) => false,
            // What a datagram sent earlier met on its way.
            Err(errno) if !stream && errno != Errno::BADF => {
                if self.verbose {
                    let declaration = cx.declaration();
                    let reason = super::os_error(&errno.into());
                    cx.chatter(format_args!("{declaration}: {reason}"));
                }
                false
            }
            Err(errno) => {
                self.close(cx, Some(errno));
                false
            }
        }
    }

    /// A server takes a datagram if its sender may send, and answers to it from now on.
    fn take_datagram(&mut self, cx: &mut Cx<'_>, packet: Packet, from: Option<SocketAddrAny>) {
        if let Some(from) = from {
            if !self.is_allowed(cx, &from) {
                if self.verbose {
                    let (declaration, from) = (cx.declaration(), Place::colon(&from));
                    cx.chatter(format_args!("{declaration}: dropped datagram from {from}"));
                }
                cx.kill(packet);
                return;
            }
            let first = self.peer.is_none();
            self.peer = Some(from);
            if first {
                self.outlet.wake(cx);
            }
        }
        cx.emit(0, packet);
    }

    /// Whether there is an address to send to.
    fn can_send(&self) -> bool {
        self.active().is_some() && (self.is_stream() || self.peer.is_some())
    }

    /// Sends a packet; of a stream's, what was sent is taken off.
    fn send(&self, packet: &mut Packet) -> Result<Sent, Errno> {
        let Some(socket) = self.active() else {
            return Ok(Sent::Done);
        };
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        while !packet.is_empty() {
            let sent = if self.is_stream() {
                send(socket, packet.data(), flags)
            } else if let Some(to) = self.by_annotation(packet) {
                sendto(socket, packet.data(), flags, &to)
            } else if let Some(peer) = &self.peer {
                sendto(socket, packet.data(), flags, peer)
            } else {
                return Ok(Sent::Done);
            };
            match sent {
                Ok(count) => packet.pull(count),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::NOBUFS) => return Ok(Sent::Later),
                Err(errno) => return Err(errno),
            }
        }
        Ok(Sent::Done)
    }

    /// Where a packet goes by its destination annotation, if a client is to go by that.
    fn by_annotation(&self, packet: &Packet) -> Option<SocketAddrV4> {
        match self.remote {
            Some(Place::Internet(to)) if self.client && to.ip().is_unspecified() => {
                Some(SocketAddrV4::new(packet.dst_ip(), to.port()))
            }
            _ => None,
        }
    }

    /// What follows from a packet that could not be sent: the end of a stream, but not of a
    /// datagram socket, whose other packets may go elsewhere.
    fn send_failed(&mut self, cx: &mut Cx<'_>, errno: Errno) {
        if self.is_stream() {
            self.close(cx, Some(errno));
        } else if self.verbose {
            let declaration = cx.declaration();
            let reason = super::os_error(&errno.into());
            cx.chatter(format_args!("{declaration}: {reason}, dropping packet"));
        }
    }
}

impl Descriptors for Socket {
    fn selected(&mut self, cx: &mut Cx<'_>, fd: RawFd, readable: bool, writable: bool) {
        let listens = self.is_stream() && !self.client;
        if listens && self.socket.as_ref().map(|socket| socket.as_raw_fd()) == Some(fd) {
            self.accept(cx);
            return;
        }
        if readable {
            for _ in 0..cx.limit() {
                if !self.receive(cx) {
                    break;
                }
            }
        }
        if writable {
            self.outlet.wake(cx);
        }
    }
}

impl Element for Socket {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.client = self.is_client.unwrap_or(cx.outputs() == 0);
        self.inlet.timestamp = self.timestamp;
        let kind = self.type_name.to_ascii_uppercase();
        self.kind = Some(match kind.as_str() {
            "TCP" | "UNIX" => Kind::Stream,
            "UDP" | "UNIX_DGRAM" => Kind::Datagram,
            _ => {
                let text = "is not TCP, UDP, UNIX or UNIX_DGRAM";
                return Err(args.fail(format_args!("unknown socket type ‘{kind}’: it {text}")));
            }
        });
        self.configure_places(args, &kind)?;
        self.inlet.check(args)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.open(cx).map_err(|error| cx.error(error))?;
        self.outlet.initialize(cx);
        self.watch(cx);
        Ok(())
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        self.outlet.clear(cx);
        for socket in [self.connection.take(), self.socket.take()]
            .into_iter()
            .flatten()
        {
            cx.watch(socket.as_raw_fd(), false, false);
            // A child of this process may have the descriptor too.
            let _ = shutdown(&socket, Shutdown::Both);
        }
        if let Some(name) = self.bound.take() {
            let _ = std::fs::remove_file(path(&name));
        }
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        for mut packet in batch.drain() {
            loop {
                match self.send(&mut packet) {
                    Ok(Sent::Done) => break,
                    Ok(Sent::Later) => {
                        let waited = self.active().map(|fd| wait_writable(fd.as_fd()));
                        if let None | Some(Err(_)) = waited {
                            break;
                        }
                    }
                    Err(errno) => {
                        self.send_failed(cx, errno);
                        break;
                    }
                }
            }
            cx.kill(packet);
        }
        0
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, _task: TaskId) -> Ran {
        if !self.can_send() {
            return Ran::Nothing;
        }
        let mut outlet = core::mem::take(&mut self.outlet);
        let waited = outlet.waits();
        let mut failed = None;
        let ran = outlet.run(cx, |_, packet| {
            self.send(packet).unwrap_or_else(|errno| {
                failed = Some(errno);
                Sent::Done
            })
        });
        self.outlet = outlet;
        if let Some(errno) = failed {
            self.send_failed(cx, errno);
        }
        if waited || self.outlet.waits() {
            self.watch(cx);
        }
        ran
    }
}

#[cfg(test)]
mod tests;
