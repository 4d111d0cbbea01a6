//! TCP: smoltcp between the element's packets and its connections.

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr, IpEndpoint};

use crate::prelude::*;

/// Largest packet, in bytes.
const MTU: usize = 1500;
/// Packets that are made before the router sends them on.
const PACKETS_MAX: usize = BATCH;
/// Time after which a peer that does not acknowledge is given up, and after which one that is silent is asked.
const TIMEOUT: Duration = Duration::from_secs(30);
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Ports of connections that are opened here.
const PORTS: core::ops::Range<u16> = 32_768..61_000;

/// The packets of smoltcp.
#[derive(Default)]
struct Wire {
    /// The packet that arrived, and whether it is yet to be taken.
    arrived: Vec<u8>,
    is_pending: bool,
    made: Made,
}

#[derive(Default)]
struct Made {
    packets: VecDeque<Vec<u8>>,
    /// Buffers of packets that were sent.
    spare: Vec<Vec<u8>>,
}

struct Taken<'w>(&'w [u8]);

impl RxToken for Taken<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

struct Making<'w>(&'w mut Made);

impl TxToken for Making<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = self.0.spare.pop().unwrap_or_default();
        packet.resize(len, 0);
        let result = f(&mut packet);
        self.0.packets.push_back(packet);
        result
    }
}

impl Device for Wire {
    type RxToken<'w> = Taken<'w>;
    type TxToken<'w> = Making<'w>;

    fn receive(&mut self, _: Instant) -> Option<(Taken<'_>, Making<'_>)> {
        // An answer to it has room: more packets are made only while there are few.
        let is_pending = core::mem::take(&mut self.is_pending);
        is_pending.then_some((Taken(&self.arrived), Making(&mut self.made)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Making<'_>> {
        let has_room = self.made.packets.len() < PACKETS_MAX;
        has_room.then_some(Making(&mut self.made))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = MTU;
        capabilities
    }
}

/// A stack with its connections.
pub struct Stack {
    wire: Wire,
    interface: Interface,
    sockets: SocketSet<'static>,
    next_port: u16,
}

impl Stack {
    /// A stack with some addresses. `seed` makes its sequence numbers and ports unpredictable.
    pub fn new(addresses: &[Ipv4Addr], seed: u64, now: Steady) -> Stack {
        let mut wire = Wire::default();
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut wire, instant(now));
        interface.update_ip_addrs(|own| {
            for address in addresses {
                // There is room for two.
                let _ = own.push(IpCidr::new(IpAddress::Ipv4(*address), 32));
            }
        });
        if let Some(address) = addresses.first() {
            // Every packet leaves by the only way there is.
            let _ = interface.routes_mut().add_default_ipv4_route(*address);
        }
        let ports = u64::from(PORTS.end - PORTS.start);
        Stack {
            wire,
            interface,
            sockets: SocketSet::new(Vec::new()),
            next_port: PORTS.start + (seed % ports) as u16,
        }
    }

    fn add(&mut self, receive: usize, send: usize) -> SocketHandle {
        let buffer = |size: usize| SocketBuffer::new(vec![0; size]);
        let mut socket = Socket::new(buffer(receive), buffer(send));
        socket.set_timeout(Some(TIMEOUT));
        socket.set_keep_alive(Some(KEEP_ALIVE));
        socket.set_nagle_enabled(false);
        socket.set_congestion_control(CongestionControl::Reno);
        self.sockets.add(socket)
    }

    /// A socket that waits for a connection to an address and port, with buffers of some sizes.
    pub fn listen(&mut self, at: (Ipv4Addr, u16), receive: usize, send: usize) -> SocketHandle {
        let handle = self.add(receive, send);
        let at = IpEndpoint::new(IpAddress::Ipv4(at.0), at.1);
        // It is not open yet, and the port is not 0.
        let _ = self.socket(handle).listen(at);
        handle
    }

    /// A socket that opens a connection.
    pub fn connect(
        &mut self,
        from: Ipv4Addr,
        to: (Ipv4Addr, u16),
        receive: usize,
        send: usize,
    ) -> SocketHandle {
        let handle = self.add(receive, send);
        self.next_port = match self.next_port + 1 {
            port if port >= PORTS.end => PORTS.start,
            port => port,
        };
        let from = IpEndpoint::new(IpAddress::Ipv4(from), self.next_port);
        let to = IpEndpoint::new(IpAddress::Ipv4(to.0), to.1);
        let socket = self.sockets.get_mut::<Socket<'_>>(handle);
        // The port is another than 0; if it fails all the same, the socket is closed, as after a refusal.
        let _ = socket.connect(self.interface.context(), to, from);
        handle
    }

    /// A socket.
    pub fn socket(&mut self, handle: SocketHandle) -> &mut Socket<'static> {
        self.sockets.get_mut(handle)
    }

    /// Removes a socket. A connection that is open is not ended by it.
    pub fn remove(&mut self, handle: SocketHandle) {
        self.sockets.remove(handle);
    }

    /// Takes a packet.
    pub fn arrive(&mut self, packet: &[u8], now: Steady) {
        self.wire.arrived.clear();
        self.wire.arrived.extend_from_slice(packet);
        self.wire.is_pending = true;
        let (wire, sockets) = (&mut self.wire, &mut self.sockets);
        self.interface
            .poll_ingress_single(instant(now), wire, sockets);
        self.wire.is_pending = false;
    }

    /// Makes the packets that are to be sent now, at most so many that there may be more.
    pub fn make(&mut self, now: Steady) {
        let now = instant(now);
        self.interface.poll_maintenance(now);
        let (wire, sockets) = (&mut self.wire, &mut self.sockets);
        self.interface.poll_egress(now, wire, sockets);
    }

    /// Whether there may be packets to be made beside those that were.
    pub fn is_busy(&self) -> bool {
        self.wire.made.packets.len() >= PACKETS_MAX
    }

    /// The next packet that was made, for `send`; false if there is none.
    pub fn next(&mut self, send: impl FnOnce(&[u8])) -> bool {
        let Some(packet) = self.wire.made.packets.pop_front() else {
            return false;
        };
        send(&packet);
        if self.wire.made.spare.len() < PACKETS_MAX {
            self.wire.made.spare.push(packet);
        }
        true
    }

    /// Nanoseconds until something is to be sent, if nothing comes.
    pub fn wait(&mut self, now: Steady) -> Option<u64> {
        let delay = self.interface.poll_delay(instant(now), &self.sockets)?;
        Some(delay.total_micros() * 1000)
    }
}

fn instant(time: Steady) -> Instant {
    Instant::from_micros((time.0 / 1000) as i64)
}
