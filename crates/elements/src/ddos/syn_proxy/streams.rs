//! The proxy between two stacks of TCP (smoltcp), whose packets it may get and send over IPv6, on links that lose, double and delay packets: both sides get the other's
//! bytes.

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};

use crate::testing::*;

const CONFIG: &str = "p :: SYNProxy(4, TIMESTAMPS true);
    c :: Inject -> MarkIPHeader -> [0] p [0] -> servers :: Collect;
    s :: Inject -> MarkIPHeader -> [1] p [1] -> clients :: Collect;";

/// Milliseconds of a step.
const STEP: i64 = 5;
const STEPS: i64 = 400_000;

/// What a stack receives, and what it sent.
#[derive(Default)]
struct Queue {
    arrived: VecDeque<Vec<u8>>,
    sent: Vec<Vec<u8>>,
}

struct Received(Vec<u8>);

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, work: F) -> R {
        work(&self.0)
    }
}

struct Sending<'q>(&'q mut Vec<Vec<u8>>);

impl TxToken for Sending<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, work: F) -> R {
        let mut bytes = vec![0; length];
        let result = work(&mut bytes);
        self.0.push(bytes);
        result
    }
}

impl Device for Queue {
    type RxToken<'q> = Received;
    type TxToken<'q> = Sending<'q>;

    fn receive(&mut self, _: Instant) -> Option<(Received, Sending<'_>)> {
        let packet = self.arrived.pop_front()?;
        Some((Received(packet), Sending(&mut self.sent)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sending<'_>> {
        Some(Sending(&mut self.sent))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = 1500;
        capabilities
    }
}

/// A stack with one socket, which sends some bytes and receives others. The client asks, then the server answers: of two
/// stacks of smoltcp that both repeat what was lost, neither takes the other's acknowledgments, whose sequence numbers
/// are those of the repeated segments.
struct Host {
    address: Ipv4Addr,
    queue: Queue,
    interface: Interface,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
    to_send: Vec<u8>,
    sent: usize,
    expected: Vec<u8>,
    got: Vec<u8>,
}

impl Host {
    fn new(
        address: Ipv4Addr,
        (window, stamps): (usize, bool),
        to_send: Vec<u8>,
        expected: Vec<u8>,
    ) -> Host {
        let mut queue = Queue::default();
        let config = Config::new(HardwareAddress::Ip);
        let mut interface = Interface::new(config, &mut queue, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            addresses
                .push(IpCidr::new(IpAddress::Ipv4(address), 0))
                .unwrap();
        });
        let buffer = || SocketBuffer::new(vec![0; window]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(false);
        if stamps {
            socket.set_tsval_generator(Some(|| 1_000_000));
        }
        let mut sockets = SocketSet::new(vec![]);
        let socket = sockets.add(socket);
        Host {
            address,
            queue,
            interface,
            sockets,
            socket,
            to_send,
            sent: 0,
            expected,
            got: Vec::new(),
        }
    }

    fn has_all(&self) -> bool {
        self.got.len() >= self.expected.len()
    }

    fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.socket)
    }

    /// Works for a moment; returns what was sent.
    fn work(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let (is_client, has_all) = (self.address == A, self.has_all());
        let socket = self.sockets.get_mut::<Socket<'_>>(self.socket);
        if (is_client || has_all) && socket.can_send() && self.sent < self.to_send.len() {
            self.sent += socket.send_slice(&self.to_send[self.sent..]).unwrap();
        }
        if has_all && socket.may_send() && self.sent == self.to_send.len() {
            socket.close();
        }
        while socket.can_recv() {
            let got = &mut self.got;
            socket
                .recv(|bytes| (bytes.len(), got.extend_from_slice(bytes)))
                .unwrap();
        }
        self.interface.poll(now, &mut self.queue, &mut self.sockets);
        core::mem::take(&mut self.queue.sent)
    }
}

/// A link that loses, doubles and delays packets, by chances in 256. Bare acknowledgments keep their order: one with a window
/// of zero that comes after the next stops smoltcp for good.
struct Link {
    chance: u8,
    random: Random,
    waiting: Vec<(i64, Vec<u8>)>,
}

impl Link {
    fn send(&mut self, now: i64, packets: Vec<Vec<u8>>) {
        for packet in packets {
            let dice = self.random.next_u64();
            let [lost, doubled, late, by, ..] = dice.to_le_bytes();
            let wait = if carries(&packet) {
                i64::from(by) / 16
            } else {
                0
            };
            let delay = |is: bool| now + 1 + if is { wait } else { 0 };
            if doubled < self.chance / 4 {
                self.waiting.push((delay(true), packet.clone()));
            }
            if lost >= self.chance {
                self.waiting.push((delay(late < self.chance), packet));
            }
        }
    }

    fn receive(&mut self, now: i64) -> Vec<Vec<u8>> {
        let (due, later) = core::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|(at, _)| *at <= now);
        self.waiting = later;
        let due: Vec<(i64, Vec<u8>)> = due;
        due.into_iter().map(|(_, packet)| packet).collect()
    }
}

/// Whether a segment carries payload or a SYN.
fn carries(packet: &[u8]) -> bool {
    let tcp = &packet[20..];
    let (header, syn) = (usize::from(tcp[12] >> 4) * 4, tcp[13] & 2 != 0);
    syn || tcp.len() > header
}

fn bytes(length: usize, factor: usize) -> Vec<u8> {
    (0..length).map(|at| (at * factor / 7) as u8).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn streams_arrive_whole(
        seed: u64,
        chance in 0u8..16,
        there in 1usize..60_000,
        back in 0usize..60_000,
        windows in (1usize..200_000, 1usize..200_000),
        stamps: bool,
        is_ip6: bool,
    ) {
        let config = match is_ip6 {
            true => CONFIG.replace("MarkIPHeader", "MarkIP6Header"),
            false => CONFIG.into(),
        };
        let mut rig = Rig::new(&config);
        let over = |packets: Vec<Vec<u8>>, translate: fn(&[u8]) -> Vec<u8>| match is_ip6 {
            true => packets.iter().map(|packet| translate(packet)).collect(),
            false => packets,
        };
        let (asked, answer) = (bytes(there, 3), bytes(back, 5));
        let mut client = Host::new(A, (windows.0.max(512), stamps), asked.clone(), answer.clone());
        let mut server = Host::new(B, (windows.1.max(512), true), answer, asked);
        let link = |number| Link {
            chance,
            random: Random::new(seed ^ number),
            waiting: Vec::new(),
        };
        let mut links = [link(1), link(2), link(3), link(4)];
        server.socket().listen(80).unwrap();
        let local = 1024 + (seed % 60_000) as u16;
        let (interface, handle) = (&mut client.interface, client.socket);
        let socket = client.sockets.get_mut::<Socket<'_>>(handle);
        socket.connect(interface.context(), (IpAddress::Ipv4(B), 80), local).unwrap();
        for step in 0..STEPS {
            let now = Instant::from_millis(step * STEP);
            let [to_proxy, to_server, from_server, to_client] = &mut links;
            to_proxy.send(step, client.work(now));
            from_server.send(step, server.work(now));
            rig.push_all("c", &over(to_proxy.receive(step), ip6::from_v4));
            rig.push_all("s", &over(from_server.receive(step), ip6::from_v4));
            to_server.send(step, over(rig.data("servers"), ip6::to_v4));
            to_client.send(step, over(rig.data("clients"), ip6::to_v4));
            server.queue.arrived.extend(to_server.receive(step));
            client.queue.arrived.extend(to_client.receive(step));
            rig.advance(STEP as u64 * MS);
            if client.has_all() && server.has_all() {
                break;
            }
            prop_assert_ne!(server.socket().state(), State::Closed);
        }
        prop_assert!(client.got == client.expected, "{} of {back}", client.got.len());
        prop_assert!(server.got == server.expected, "{} of {there}", server.got.len());
        prop_assert_eq!(rig.read("p.opened"), "1");
    }
}
