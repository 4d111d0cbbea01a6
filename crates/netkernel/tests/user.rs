//! Two user NSMs with a cable between the ports of their VNICs, each with a CoreEngine and a tenant. All are threads
//! here; what crosses between them is the same. The cable plays the switch, and may lose frames.

mod common;
#[path = "common/region.rs"]
mod region;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use abi::nqe::{DATAGRAM_TYPE, DatagramHead, Nqe, STREAM, operation};
use abi::region::{RECEIVE_OFFSET, Region};
use abi::ring::Slot;
use abi::tenant::CHUNK_BYTES;
use netkernel::core::CoreEngine;
use netkernel::protocol::{Limits, Operator, Request, Token};
use netkernel::service::Service;
use netkernel::user::{Network, UserNsm};
use rustix::event::EventfdFlags;
use rustix::thread::futex;

use common::Tenant;
use region::Memory;

/// What a cable does with its frames.
#[derive(Default)]
struct Faults {
    end: AtomicBool,
    /// Of so many frames, one is lost; 0: none.
    loses: AtomicU32,
}

/// Carries frames between two regions until the end.
fn cable(regions: [Region; 2], faults: &Faults) {
    let mut count = 0u32;
    // SAFETY: nobody else plays the switch.
    let mut sides = regions.map(|region| unsafe {
        (
            region,
            region.transmit_consumer(0),
            region.receive_producer(0),
        )
    });
    while !faults.end.load(Ordering::Relaxed) {
        let mut busy = false;
        for at in 0..2 {
            let [a, b] = &mut sides;
            let (from, to) = if at == 0 { (a, b) } else { (b, a) };
            let filled = from.1.filled(64).unwrap();
            let room = to.2.free(64).unwrap();
            let n = filled.min(room).min(64);
            let mut put = 0;
            for i in 0..n {
                count += 1;
                let loses = faults.loses.load(Ordering::Relaxed);
                if loses > 0 && count.is_multiple_of(loses) {
                    continue;
                }
                let frame = from.0.frame(from.1.peek(i)).unwrap();
                let spent = to.2.peek(put);
                let slot = Slot {
                    offset: RECEIVE_OFFSET as u16,
                    len: frame.len() as u16,
                    ..Slot::spent(spent.buffer)
                };
                frame.copy_to(&to.0.frame(slot).unwrap());
                to.2.fill(put, slot);
                put += 1;
            }
            from.1.release(n);
            to.2.publish(put);
            let woken = [
                from.1.take_producer_sleeper().map(|_| from.0),
                to.2.take_consumer_sleeper().map(|_| to.0),
            ];
            for region in woken.into_iter().flatten() {
                region.wake_word().fetch_add(1, Ordering::SeqCst);
                futex::wake(region.wake_word(), futex::Flags::empty(), 1).unwrap();
            }
            busy |= n > 0;
        }
        if !busy {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

/// A CoreEngine with a user NSM.
struct Stack {
    folder: PathBuf,
    operator: Operator,
    token: Token,
}

impl Stack {
    fn start(name: &str, memory: &Memory, network: Network) -> Stack {
        let stack = Stack::without_nsm(name);
        let nsm = stack.nsm(memory, network);
        std::thread::spawn(move || nsm.run());
        stack
    }

    fn without_nsm(name: &str) -> Stack {
        let folder = std::env::temp_dir().join(format!("weir-nu-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (door, operator) = (folder.join("door"), folder.join("operator"));
        let core = CoreEngine::listen(&door, &operator).unwrap();
        std::thread::spawn(move || core.run());
        let operator = Operator::connect(&operator).unwrap();
        let token = Token::random().unwrap();
        let name = "user".to_owned();
        operator.ask(&Request::AddNsm { name, token }).unwrap();
        Stack {
            folder,
            operator,
            token,
        }
    }

    fn nsm(&self, memory: &Memory, network: Network) -> UserNsm {
        let doorbell = rustix::event::eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let service = Service::join(&self.folder.join("door"), self.token).unwrap();
        UserNsm::new(service, memory.file.as_fd(), doorbell, network).unwrap()
    }

    fn tenant(&self, name: &str) -> Tenant {
        let token = Token::random().unwrap();
        self.operator
            .ask(&Request::AddTenant {
                name: name.to_owned(),
                token,
                nsm: "user".to_owned(),
                limits: Limits::default(),
            })
            .unwrap();
        Tenant::join(&self.folder.join("door"), token)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Two stacks, 10.0.0.1 and 10.0.0.2, also fd00::1 and fd00::2.
struct Pair {
    stacks: [Stack; 2],
    faults: Arc<Faults>,
}

impl Pair {
    fn start(name: &str) -> Pair {
        let memories = [Memory::new(1), Memory::new(2)];
        let stacks = [0, 1].map(|at| {
            let address = |text: String| text.parse().unwrap();
            let network = Network {
                addresses: vec![
                    (address(format!("10.0.0.{}", at + 1)), 24),
                    (address(format!("fd00::{}", at + 1)), 64),
                ],
                gateways: Vec::new(),
            };
            Stack::start(&format!("{name}{at}"), &memories[at], network)
        });
        let faults = Arc::new(Faults::default());
        let (regions, known) = (memories.each_ref().map(|it| it.region), Arc::clone(&faults));
        std::thread::spawn(move || cable(regions, &known));
        Pair { stacks, faults }
    }

    fn tenants(&self) -> [Tenant; 2] {
        self.stacks.each_ref().map(|stack| stack.tenant("app"))
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.faults.end.store(true, Ordering::Relaxed);
    }
}

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn open(tenant: &mut Tenant, socket: u32, kind: u64, address: SocketAddr) {
    let family = if address.is_ipv4() { 4 } else { 6 };
    let nqe = Nqe::new(operation::SOCKET, socket);
    tenant.submit(nqe.with_data(kind).with_family(family));
}

fn listen(tenant: &mut Tenant, socket: u32, address: SocketAddr, backlog: u64) -> SocketAddr {
    open(tenant, socket, STREAM, address);
    let bound = tenant.result(Nqe::new(operation::BIND, socket).with_address(address));
    assert_eq!(bound.error(), 0);
    let listens = tenant.result(Nqe::new(operation::LISTEN, socket).with_data(backlog));
    assert_eq!(listens.error(), 0);
    bound.address().unwrap()
}

fn connect(tenant: &mut Tenant, socket: u32, address: SocketAddr) -> Nqe {
    open(tenant, socket, STREAM, address);
    tenant.result(Nqe::new(operation::CONNECT, socket).with_address(address))
}

fn accept(tenant: &mut Tenant, listener: u32, socket: u32) -> SocketAddr {
    let incoming = tenant.next(listener, operation::INCOMING);
    tenant.submit(Nqe::new(operation::ACCEPT, socket).with_data(incoming.len.into()));
    incoming.address().unwrap()
}

fn close(tenant: &mut Tenant, socket: u32) {
    tenant.submit(Nqe::new(operation::CLOSE, socket));
    tenant.next(socket, operation::CLOSED);
}

/// Bytes that differ at each offset.
fn long(len: usize) -> Vec<u8> {
    (0..len as u32).map(|n| (n * 7 % 251) as u8).collect()
}

/// Sends many bytes, by eight chunks.
fn send_all(tenant: &mut Tenant, socket: u32, bytes: &[u8]) {
    for (at, part) in bytes.chunks(CHUNK_BYTES).enumerate() {
        if at >= 8 {
            assert_eq!(tenant.next(socket, operation::SENT).error(), 0);
        }
        tenant.send(socket, at as u64 % 8, part);
    }
}

#[test]
fn connections_carry_bytes_both_ways_and_end_in_halves() {
    let pair = Pair::start("both");
    let [mut client, mut server] = pair.tenants();
    for (n, address) in ["10.0.0.2:80", "[fd00::2]:80"].into_iter().enumerate() {
        let n = n as u32 * 10;
        listen(&mut server, n + 1, at(address), 8);
        let connected = connect(&mut client, n + 2, at(address));
        assert_eq!(connected.error(), 0);
        let own = connected.address().unwrap();
        assert_eq!(accept(&mut server, n + 1, n + 3), own);
        let peer = client.result(Nqe::new(operation::PEER_ADDRESS, n + 2));
        assert_eq!(peer.address(), Some(at(address)));
        let bytes = long(3_000_000);
        let sent = bytes.clone();
        std::thread::scope(|scope| {
            let client = &mut client;
            scope.spawn(move || {
                send_all(client, n + 2, &sent);
                client.submit(Nqe::new(operation::SHUTDOWN, n + 2).with_data(1));
            });
            assert!(server.receive(n + 3, bytes.len()) == bytes);
        });
        server.next(n + 3, operation::END);
        // The other half is open.
        server.send(n + 3, 9, b"thanks");
        assert_eq!(client.receive(n + 2, 6), b"thanks");
        close(&mut server, n + 3);
        client.next(n + 2, operation::END);
        close(&mut client, n + 2);
    }
}

#[test]
fn bytes_arrive_whole_over_a_cable_that_loses_frames() {
    let pair = Pair::start("loss");
    let [mut client, mut server] = pair.tenants();
    listen(&mut server, 1, at("10.0.0.2:80"), 8);
    assert_eq!(connect(&mut client, 2, at("10.0.0.2:80")).error(), 0);
    accept(&mut server, 1, 3);
    pair.faults.loses.store(97, Ordering::Relaxed);
    let bytes = long(600_000);
    std::thread::scope(|scope| {
        scope.spawn(|| send_all(&mut client, 2, &bytes));
        assert!(server.receive(3, bytes.len()) == bytes);
    });
}

#[test]
fn a_burst_of_connections_is_accepted_up_to_the_backlog() {
    let pair = Pair::start("burst");
    let [mut client, mut server] = pair.tenants();
    listen(&mut server, 1, at("10.0.0.2:80"), 128);
    for socket in 0..128 {
        open(&mut client, socket, STREAM, at("10.0.0.2:80"));
        client.submit(Nqe::new(operation::CONNECT, socket).with_address(at("10.0.0.2:80")));
    }
    for socket in 0..128 {
        assert_eq!(client.next(socket, operation::RESULT).error(), 0);
    }
    let mut peers = HashMap::new();
    for socket in 0..128 {
        peers.insert(accept(&mut server, 1, 1000 + socket), 1000 + socket);
    }
    assert_eq!(peers.len(), 128);
    // Each is the one that it seems.
    for socket in 0..128 {
        let own = client
            .result(Nqe::new(operation::LOCAL_ADDRESS, socket))
            .address()
            .unwrap();
        client.send(socket, 0, &socket.to_be_bytes());
        client.next(socket, operation::SENT);
        assert_eq!(server.receive(peers[&own], 4), socket.to_be_bytes());
    }
    let status = pair.stacks[1].operator.status().unwrap();
    assert_eq!(status.tenants[0].connections, 128);
}

#[test]
fn errors_are_the_socket_apis() {
    let pair = Pair::start("errors");
    let [mut client, mut server] = pair.tenants();
    assert_eq!(
        connect(&mut client, 1, at("10.0.0.2:81")).error(),
        libc::ECONNREFUSED
    );
    // A socket whose connection failed makes another attempt.
    let again = Nqe::new(operation::CONNECT, 1).with_address(at("10.0.0.2:81"));
    assert_eq!(client.result(again).error(), libc::ECONNREFUSED);
    assert_eq!(
        connect(&mut client, 2, at("192.0.2.1:80")).error(),
        libc::ENETUNREACH
    );
    assert_eq!(
        connect(&mut client, 3, at("127.0.0.1:80")).error(),
        libc::ECONNREFUSED
    );
    let start = Instant::now();
    assert_eq!(
        connect(&mut client, 4, at("10.0.0.99:80")).error(),
        libc::EHOSTUNREACH
    );
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );
    let no_peer = Nqe::new(operation::PEER_ADDRESS, 1);
    assert_eq!(client.result(no_peer).error(), libc::ENOTCONN);
    open(&mut client, 5, STREAM, at("10.0.0.1:0"));
    let foreign = Nqe::new(operation::BIND, 5).with_address(at("10.0.0.7:80"));
    assert_eq!(client.result(foreign).error(), libc::EADDRNOTAVAIL);
    listen(&mut server, 1, at("0.0.0.0:80"), 8);
    open(&mut server, 2, STREAM, at("0.0.0.0:80"));
    let twice = Nqe::new(operation::BIND, 2).with_address(at("10.0.0.2:80"));
    assert_eq!(server.result(twice).error(), libc::EADDRINUSE);
    // SO_LINGER with no time resets the connection.
    assert_eq!(connect(&mut client, 6, at("10.0.0.2:80")).error(), 0);
    accept(&mut server, 1, 7);
    let offset = 20 * CHUNK_BYTES as u64;
    client
        .process
        .payload(offset, 8)
        .unwrap()
        .write(&[1, 0, 0, 0, 0, 0, 0, 0]);
    let data = (libc::SOL_SOCKET as u64) << 32 | libc::SO_LINGER as u64;
    let set = Nqe::new(operation::SET_OPTION, 6)
        .with_data(data)
        .with_chunk(offset, 8);
    assert_eq!(client.result(set).error(), 0);
    close(&mut client, 6);
    assert_eq!(server.next(7, operation::FAILED).error(), libc::ECONNRESET);
    server.send(7, 0, b"late");
    assert_eq!(server.next(7, operation::SENT).error(), libc::EPIPE);
    // What nobody accepts ends with the listening socket.
    assert_eq!(connect(&mut client, 8, at("10.0.0.2:80")).error(), 0);
    server.next(1, operation::INCOMING);
    close(&mut server, 1);
    assert_eq!(client.next(8, operation::FAILED).error(), libc::ECONNRESET);
    assert_eq!(
        connect(&mut client, 9, at("10.0.0.2:80")).error(),
        libc::ECONNREFUSED
    );
}

/// Sends a datagram to an address.
fn send_to(tenant: &mut Tenant, socket: u32, to: Option<SocketAddr>, payload: &[u8]) -> i32 {
    let room = tenant.process.payload(0, CHUNK_BYTES as u32).unwrap();
    room.write(&DatagramHead::new(to).to_bytes());
    room.skip(DatagramHead::LEN).write(payload);
    let len = (DatagramHead::LEN + payload.len()) as u32;
    tenant.submit(Nqe::new(operation::SEND_TO, socket).with_chunk(0, len));
    tenant.next(socket, operation::SENT).error()
}

/// The next datagram's source and payload.
fn receive_from(tenant: &mut Tenant, socket: u32) -> (SocketAddr, Vec<u8>) {
    let nqe = tenant.next(socket, operation::DATAGRAM);
    let bytes = tenant.process.payload(nqe.offset, nqe.len).unwrap();
    let head = DatagramHead::from_bytes(&bytes.read_array(0).unwrap());
    let mut payload = vec![0; nqe.len as usize - DatagramHead::LEN];
    bytes.skip(DatagramHead::LEN).read(&mut payload);
    tenant.submit(Nqe::new(operation::CONSUMED, socket).with_chunk(nqe.offset, nqe.len));
    (head.address.unwrap(), payload)
}

#[test]
fn datagrams_go_and_come() {
    let pair = Pair::start("datagrams");
    let [mut client, mut server] = pair.tenants();
    for (n, (bound, to)) in [("10.0.0.2:53", "10.0.0.2:53"), ("[::]:54", "[fd00::2]:54")]
        .into_iter()
        .enumerate()
    {
        let n = n as u32 * 10;
        open(&mut server, n, DATAGRAM_TYPE, at(bound));
        let bound = Nqe::new(operation::BIND, n).with_address(at(bound));
        assert_eq!(server.result(bound).error(), 0);
        open(&mut client, n, DATAGRAM_TYPE, at(to));
        assert_eq!(send_to(&mut client, n, Some(at(to)), b"question"), 0);
        let (from, payload) = receive_from(&mut server, n);
        assert_eq!(payload, b"question");
        assert_eq!(send_to(&mut server, n, Some(from), b"answer"), 0);
        assert_eq!(receive_from(&mut client, n), (at(to), b"answer".to_vec()));
        for payload in [&b""[..], b"", b"after an empty one"] {
            assert_eq!(send_to(&mut client, n, Some(at(to)), payload), 0);
            assert_eq!(receive_from(&mut server, n).1, payload);
        }
    }
    // An IPv6 socket hears IPv4, and is told so.
    assert_eq!(send_to(&mut client, 0, Some(at("10.0.0.2:54")), b"four"), 0);
    let (from, _) = receive_from(&mut server, 10);
    assert!(matches!(from.ip(), std::net::IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some()));
    assert_eq!(send_to(&mut server, 10, Some(from), b"back"), 0);
    assert_eq!(
        receive_from(&mut client, 0),
        (at("10.0.0.2:54"), b"back".to_vec())
    );
    // A connected one is told that nobody is there.
    open(&mut client, 1, DATAGRAM_TYPE, at("10.0.0.1:0"));
    let nobody = Nqe::new(operation::CONNECT, 1).with_address(at("10.0.0.2:99"));
    assert_eq!(client.result(nobody).error(), 0);
    assert_eq!(send_to(&mut client, 1, None, b"?"), 0);
    assert_eq!(
        client.next(1, operation::FAILED).error(),
        libc::ECONNREFUSED
    );
    assert_eq!(
        send_to(&mut client, 0, Some(at("10.0.0.2:53")), &[0; 1473]),
        libc::EMSGSIZE
    );
    assert_eq!(
        send_to(&mut client, 0, Some(at("10.0.0.2:53")), &[1; 1472]),
        0
    );
    assert_eq!(receive_from(&mut server, 0).1, [1; 1472]);
    assert_eq!(
        send_to(&mut client, 0, Some(at("10.0.0.255:53")), b"all"),
        libc::EACCES
    );
}

#[test]
fn sockets_of_one_nsm_reach_each_other() {
    let pair = Pair::start("loopback");
    let [mut tenant, _] = pair.tenants();
    listen(&mut tenant, 1, at("[::]:80"), 8);
    for (n, to) in ["127.0.0.1:80", "10.0.0.1:80", "[::1]:80", "[fd00::1]:80"]
        .into_iter()
        .enumerate()
    {
        let (client, server) = (10 + 2 * n as u32, 11 + 2 * n as u32);
        assert_eq!(connect(&mut tenant, client, at(to)).error(), 0, "{to}");
        accept(&mut tenant, 1, server);
        let bytes = long(500_000);
        for (at, part) in bytes.chunks(CHUNK_BYTES).enumerate() {
            tenant.send(client, at as u64, part);
        }
        assert!(tenant.receive(server, bytes.len()) == bytes, "{to}");
        close(&mut tenant, client);
        tenant.next(server, operation::END);
        close(&mut tenant, server);
    }
    open(&mut tenant, 3, DATAGRAM_TYPE, at("127.0.0.1:9"));
    let bound = tenant.result(Nqe::new(operation::BIND, 3).with_address(at("127.0.0.1:9")));
    assert_eq!(bound.error(), 0);
    open(&mut tenant, 4, DATAGRAM_TYPE, at("127.0.0.1:9"));
    assert_eq!(send_to(&mut tenant, 4, Some(at("127.0.0.1:9")), b"own"), 0);
    assert_eq!(receive_from(&mut tenant, 3).1, b"own");
    for payload in [&b""[..], b"", b"after an empty one"] {
        assert_eq!(send_to(&mut tenant, 4, Some(at("127.0.0.1:9")), payload), 0);
        assert_eq!(receive_from(&mut tenant, 3).1, payload);
    }
    // Many at once.
    let room = tenant.process.payload(0, CHUNK_BYTES as u32).unwrap();
    room.write(&DatagramHead::new(Some(at("127.0.0.1:9"))).to_bytes());
    for _ in 0..50 {
        let send = Nqe::new(operation::SEND_TO, 4);
        tenant.submit(send.with_chunk(0, DatagramHead::LEN as u32 + 8000));
    }
    for _ in 0..50 {
        assert_eq!(receive_from(&mut tenant, 3).1.len(), 8000);
    }
}

#[test]
fn a_peer_that_is_gone_is_noticed_and_a_slow_reader_holds_its_peer_up() {
    let pair = Pair::start("slow");
    let [mut client, mut server] = pair.tenants();
    listen(&mut server, 1, at("10.0.0.2:80"), 8);
    assert_eq!(connect(&mut client, 2, at("10.0.0.2:80")).error(), 0);
    accept(&mut server, 1, 3);
    // The reader gives no chunk back: of two megabytes, the stacks hold what their buffers and windows do.
    let bytes = long(2_000_000);
    let chunks = bytes.len().div_ceil(CHUNK_BYTES);
    for (at, part) in bytes.chunks(CHUNK_BYTES).enumerate() {
        client.send(2, at as u64, part);
    }
    std::thread::sleep(Duration::from_millis(500));
    while let Some(nqe) = client.process.delivered() {
        client.later.push(nqe);
    }
    let sent = client
        .later
        .iter()
        .filter(|nqe| nqe.operation == operation::SENT)
        .count();
    assert!((32..chunks).contains(&sent), "{sent} of {chunks}");
    assert!(server.receive(3, bytes.len()) == bytes);
    // The user's time for an answer is over before the cable is back.
    let offset = 400 * CHUNK_BYTES as u64;
    client
        .process
        .payload(offset, 4)
        .unwrap()
        .write(&1500u32.to_ne_bytes());
    let data = (libc::IPPROTO_TCP as u64) << 32 | libc::TCP_USER_TIMEOUT as u64;
    let set = Nqe::new(operation::SET_OPTION, 2)
        .with_data(data)
        .with_chunk(offset, 4);
    assert_eq!(client.result(set).error(), 0);
    pair.faults.loses.store(1, Ordering::Relaxed);
    client.send(2, 300, b"lost");
    assert_eq!(client.next(2, operation::FAILED).error(), libc::ETIMEDOUT);
}

#[test]
fn sockets_that_share_a_port_listen_again_after_their_nsm_has_ended() {
    let stack = Stack::without_nsm("restored");
    let network = || Network {
        addresses: vec![("10.0.0.1".parse().unwrap(), 24)],
        gateways: Vec::new(),
    };
    let memories = [Memory::new(1), Memory::new(1)];
    let mut first = stack.nsm(&memories[0], network());
    let ends = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&ends);
    let running = std::thread::spawn(move || {
        while !ended.load(Ordering::Relaxed) {
            first.step().unwrap();
            std::thread::sleep(Duration::from_micros(100));
        }
    });
    let mut tenant = stack.tenant("app");
    tenant
        .process
        .payload(0, 4)
        .unwrap()
        .write(&1u32.to_ne_bytes());
    for socket in [1, 2] {
        open(&mut tenant, socket, STREAM, at("127.0.0.1:80"));
        let data = (libc::SOL_SOCKET as u64) << 32 | libc::SO_REUSEPORT as u64;
        let set = Nqe::new(operation::SET_OPTION, socket)
            .with_data(data)
            .with_chunk(0, 4);
        assert_eq!(tenant.result(set).error(), 0);
        let bind = Nqe::new(operation::BIND, socket).with_address(at("127.0.0.1:80"));
        assert_eq!(tenant.result(bind).error(), 0);
        let listen = Nqe::new(operation::LISTEN, socket).with_data(64);
        assert_eq!(tenant.result(listen).error(), 0);
    }
    assert_eq!(connect(&mut tenant, 3, at("127.0.0.1:80")).error(), 0);
    ends.store(true, Ordering::Relaxed);
    running.join().unwrap();
    assert_eq!(tenant.next(3, operation::FAILED).error(), libc::ECONNRESET);
    let second = stack.nsm(&memories[1], network());
    std::thread::spawn(move || second.run());
    let mut offered = [0; 2];
    for socket in 10..74 {
        assert_eq!(connect(&mut tenant, socket, at("127.0.0.1:80")).error(), 0);
    }
    std::thread::sleep(Duration::from_millis(50));
    while let Some(nqe) = tenant.process.delivered() {
        tenant.later.push(nqe);
    }
    for nqe in tenant
        .later
        .iter()
        .filter(|nqe| nqe.operation == operation::INCOMING)
    {
        offered[nqe.socket as usize - 1] += 1;
    }
    assert!(offered.iter().all(|offered| *offered > 10), "{offered:?}");
}
