//! A tenant that submits queue elements, CoreEngine and the kernel NSM, with real sockets at the other
//! end. CoreEngine and the NSM are threads here; what crosses between them is the same.

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use abi::nqe::{
    DATAGRAM_TYPE, DatagramHead, GONE, MORE, Nqe, PacketInfo, RESTORED, STREAM, operation,
};
use abi::tenant::{CHUNK_BYTES, SEND_CHUNKS};
use netkernel::core::CoreEngine;
use netkernel::kernel::KernelNsm;
use netkernel::protocol::{Limits, Operator, Request, Token};

use common::Tenant;

/// A CoreEngine with a kernel NSM, and a folder for its sockets.
struct Stack {
    folder: PathBuf,
    operator: Operator,
}

impl Stack {
    fn start(name: &str) -> Stack {
        let folder = std::env::temp_dir().join(format!("weir-nk-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (door, operator) = (folder.join("door"), folder.join("operator"));
        let core = CoreEngine::listen(&door, &operator).unwrap();
        std::thread::spawn(move || core.run().unwrap());
        let operator = Operator::connect(&operator).unwrap();
        let stack = Stack { folder, operator };
        stack.add_nsm("kernel", false);
        stack
    }

    fn door(&self) -> PathBuf {
        self.folder.join("door")
    }

    fn add_nsm(&self, name: &str, local: bool) {
        let token = self.new_nsm(name, 1);
        self.join(token, local, 1);
    }

    /// Adds an NSM, which does not run.
    fn new_nsm(&self, name: &str, cores: u8) -> Token {
        let (token, nsm) = (Token::random().unwrap(), name.to_owned());
        let name = name.to_owned();
        self.operator.ask(&Request::AddNsm { name, token }).unwrap();
        self.operator
            .ask(&Request::SetCores { nsm, cores })
            .unwrap();
        token
    }

    fn join(&self, token: Token, local: bool, workers: u8) -> Vec<JoinHandle<()>> {
        let workers = KernelNsm::join_all(&self.door(), token, local, workers).unwrap();
        let run = |nsm: KernelNsm| std::thread::spawn(move || drop(nsm.run()));
        workers.into_iter().map(run).collect()
    }

    fn tenant(&self, name: &str, limits: Limits) -> (Token, Tenant) {
        self.tenant_of("kernel", name, limits)
    }

    fn tenant_of(&self, nsm: &str, name: &str, limits: Limits) -> (Token, Tenant) {
        let token = Token::random().unwrap();
        self.operator
            .ask(&Request::AddTenant {
                name: name.to_owned(),
                token,
                nsm: nsm.to_owned(),
                limits,
            })
            .unwrap();
        (token, Tenant::join(&self.door(), token))
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

#[test]
fn a_client_sends_receives_and_sees_the_end() {
    let stack = Stack::start("client");
    let server = TcpListener::bind(loopback()).unwrap();
    let (_, mut tenant) = stack.tenant("app", Limits::default());
    let result = tenant.connect(7, server.local_addr().unwrap());
    assert_eq!(result.error(), 0);
    let (mut peer, from) = server.accept().unwrap();
    assert_eq!(result.address(), Some(from));
    tenant.send(7, 0, b"hello");
    assert_eq!(tenant.next(7, operation::SENT).offset, 0);
    let mut bytes = [0; 5];
    peer.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"hello");
    let long: Vec<u8> = (0..1_000_000u32).map(|n| (n % 251) as u8).collect();
    let copy = long.clone();
    let writer = std::thread::spawn(move || {
        peer.write_all(&copy).unwrap();
        peer.shutdown(std::net::Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        peer.read_to_end(&mut rest).unwrap();
        rest
    });
    assert!(tenant.receive(7, long.len()) == long);
    tenant.next(7, operation::END);
    // What is sent before a close arrives.
    for chunk in 0..64 {
        tenant.send(7, chunk, &[chunk as u8; CHUNK_BYTES]);
    }
    tenant.submit(Nqe::new(operation::CLOSE, 7));
    tenant.next(7, operation::CLOSED);
    let rest = writer.join().unwrap();
    assert_eq!(rest.len(), 64 * CHUNK_BYTES);
    assert!(
        rest.chunks(CHUNK_BYTES)
            .enumerate()
            .all(|(n, chunk)| chunk.iter().all(|&b| b == n as u8))
    );
}

#[test]
fn a_server_accepts_and_answers() {
    let stack = Stack::start("server");
    let (_, mut tenant) = stack.tenant("app", Limits::default());
    tenant.open(1, STREAM);
    let bound = tenant.result(Nqe::new(operation::BIND, 1).with_address(loopback()));
    let address = bound.address().unwrap();
    assert_eq!(
        tenant
            .result(Nqe::new(operation::LISTEN, 1).with_data(8))
            .error(),
        0
    );
    for n in 0..20u32 {
        let mut client = TcpStream::connect(address).unwrap();
        let incoming = tenant.next(1, operation::INCOMING);
        assert_eq!(incoming.address(), client.local_addr().ok());
        let socket = 2 + n;
        tenant.submit(Nqe::new(operation::ACCEPT, socket).with_data(incoming.len.into()));
        client.write_all(b"ping").unwrap();
        assert_eq!(tenant.receive(socket, 4), b"ping");
        tenant.send(socket, 3, b"pong");
        let mut bytes = [0; 4];
        client.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"pong");
        let name = tenant.result(Nqe::new(operation::LOCAL_ADDRESS, socket));
        assert_eq!(name.address(), Some(address));
        tenant.submit(Nqe::new(operation::CLOSE, socket));
        tenant.next(socket, operation::CLOSED);
        assert_eq!(client.read(&mut bytes).unwrap(), 0);
    }
    let status = stack.operator.status().unwrap();
    assert_eq!(
        (status.tenants[0].sockets, status.tenants[0].connections),
        (1, 20)
    );
    // A connection that nobody accepts ends with its listening socket.
    let mut client = TcpStream::connect(address).unwrap();
    tenant.next(1, operation::INCOMING);
    tenant.submit(Nqe::new(operation::CLOSE, 1));
    tenant.next(1, operation::CLOSED);
    assert_eq!(client.read(&mut [0; 1]).unwrap_or(0), 0);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn errors_are_the_socket_apis() {
    let stack = Stack::start("errors");
    let (_, mut tenant) = stack.tenant(
        "app",
        Limits {
            sockets: Some(3),
            ..Limits::default()
        },
    );
    let nobody = TcpListener::bind(loopback()).unwrap().local_addr().unwrap();
    assert_eq!(tenant.connect(1, nobody).error(), libc::ECONNREFUSED);
    // A socket whose connection failed makes another attempt.
    let again = tenant.result(Nqe::new(operation::CONNECT, 1).with_address(nobody));
    assert_eq!(again.error(), libc::ECONNREFUSED);
    assert_eq!(
        tenant.result(Nqe::new(operation::PEER_ADDRESS, 1)).error(),
        libc::ENOTCONN
    );
    assert_eq!(
        tenant.result(Nqe::new(operation::PEER_ADDRESS, 99)).error(),
        libc::EBADF
    );
    // Options that reach further than the socket, or hold addresses of memory.
    for (level, name) in [
        (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER),
        (libc::SOL_SOCKET, libc::SO_MARK),
        (libc::IPPROTO_IP, libc::IP_TRANSPARENT),
        (libc::IPPROTO_TCP, libc::TCP_REPAIR),
    ] {
        let data = (level as u64) << 32 | name as u64;
        let set = Nqe::new(operation::SET_OPTION, 1).with_data(data);
        assert_eq!(
            tenant.result(set.with_chunk(0, 16)).error(),
            libc::ENOPROTOOPT
        );
    }
    // An address that the host does not have, and an interface.
    tenant.open(2, STREAM);
    let mut set = |level: i32, name: i32, value: &[u8]| {
        let len = value.len() as u32;
        tenant.process.payload(0, len).unwrap().write(value);
        let set = Nqe::new(operation::SET_OPTION, 2).with_data((level as u64) << 32 | name as u64);
        tenant.result(set.with_chunk(0, len)).error()
    };
    let bound = set(libc::SOL_SOCKET, libc::SO_BINDTODEVICE, b"lo\0");
    assert_eq!(bound, 0);
    let none = set(libc::SOL_SOCKET, libc::SO_BINDTODEVICE, b"none-such\0");
    assert!(none == libc::ENODEV || none == libc::EPERM, "{none}");
    assert_eq!(
        set(libc::IPPROTO_IP, libc::IP_FREEBIND, &1i32.to_ne_bytes()),
        0
    );
    let strange = Nqe::new(operation::BIND, 2).with_address("192.0.2.1:0".parse().unwrap());
    assert_eq!(tenant.result(strange).error(), 0);
    tenant.submit(Nqe::new(operation::CLOSE, 2));
    tenant.next(2, operation::CLOSED);
    let data = (libc::SOL_SOCKET as u64) << 32 | libc::SO_KEEPALIVE as u64;
    tenant
        .process
        .payload(0, 4)
        .unwrap()
        .write(&1i32.to_ne_bytes());
    let set = Nqe::new(operation::SET_OPTION, 1)
        .with_data(data)
        .with_chunk(0, 4);
    assert_eq!(tenant.result(set).error(), 0);
    let get = Nqe::new(operation::GET_OPTION, 1).with_data(data);
    let got = tenant.result(get.with_chunk(CHUNK_BYTES as u64, 4));
    assert_eq!(
        (got.error(), got.len, got.offset),
        (0, 4, CHUNK_BYTES as u64)
    );
    let mut value = [0; 4];
    tenant
        .process
        .payload(got.offset, 4)
        .unwrap()
        .read(&mut value);
    assert_eq!(i32::from_ne_bytes(value), 1);
    // More sockets than it may have.
    tenant.open(2, STREAM);
    tenant.open(3, STREAM);
    tenant.open(4, STREAM);
    let result = tenant.next(4, operation::RESULT);
    assert_eq!(
        (result.flags, result.error()),
        (operation::SOCKET, libc::EMFILE)
    );
    // A payload outside its chunk.
    tenant.submit(Nqe::new(operation::SEND, 2).with_chunk(CHUNK_BYTES as u64 - 1, 2));
    assert_eq!(tenant.next(2, operation::SENT).error(), libc::EFAULT);
}

#[test]
fn datagrams_go_and_come() {
    let stack = Stack::start("datagrams");
    let (_, mut tenant) = stack.tenant("app", Limits::default());
    let peer = UdpSocket::bind(loopback()).unwrap();
    tenant.open(5, DATAGRAM_TYPE);
    let bound = tenant.result(Nqe::new(operation::BIND, 5).with_address(loopback()));
    let mut bytes = DatagramHead::new(peer.local_addr().ok())
        .to_bytes()
        .to_vec();
    bytes.extend(b"question");
    let len = bytes.len() as u32;
    tenant.process.payload(0, len).unwrap().write(&bytes);
    tenant.submit(Nqe::new(operation::SEND_TO, 5).with_chunk(0, len));
    assert_eq!(tenant.next(5, operation::SENT).error(), 0);
    let mut room = [0; 100];
    let (n, from) = peer.recv_from(&mut room).unwrap();
    assert_eq!(
        (&room[..n], Some(from)),
        (&b"question"[..], bound.address())
    );
    peer.send_to(b"answer", from).unwrap();
    let datagram = tenant.next(5, operation::DATAGRAM);
    let mut bytes = vec![0; datagram.len as usize];
    tenant
        .process
        .payload(datagram.offset, datagram.len)
        .unwrap()
        .read(&mut bytes);
    let (head, body) = bytes.split_at(DatagramHead::LEN);
    let head = DatagramHead::from_bytes(head.try_into().unwrap());
    let expected = DatagramHead::new(peer.local_addr().ok());
    assert_eq!((head, body), (expected, &b"answer"[..]));
    // Their payload counts, not their heads: one chunk of two has none.
    let [first, second] = [CHUNK_BYTES as u32, 100];
    let chunk = Nqe::new(operation::SEND_TO, 5);
    tenant.submit(chunk.with_chunk(0, first).with_flags(MORE));
    tenant.submit(chunk.with_chunk(CHUNK_BYTES as u64, second));
    let long = first as usize + second as usize - DatagramHead::LEN;
    let mut room = vec![0; 2 * CHUNK_BYTES];
    assert_eq!(peer.recv_from(&mut room).unwrap().0, long);
    let status = stack.operator.status().unwrap();
    let (tenant, nsm) = (&status.tenants[0], &status.nsms[0]);
    assert_eq!((tenant.sent, tenant.received), (8 + long as u64, 6));
    assert_eq!((nsm.sent, nsm.received), (tenant.sent, tenant.received));
}

#[test]
fn datagrams_have_the_ancillary_data_that_was_asked_for() {
    let stack = Stack::start("ancillary");
    let (_, mut tenant) = stack.tenant("app", Limits::default());
    tenant.open(5, DATAGRAM_TYPE);
    let bound = tenant.result(Nqe::new(operation::BIND, 5).with_address(loopback()));
    for name in [libc::IP_RECVTTL, libc::IP_RECVTOS, libc::IP_PKTINFO] {
        let on = 1i32.to_ne_bytes();
        tenant.process.payload(0, 4).unwrap().write(&on);
        let word = (libc::IPPROTO_IP as u64) << 32 | name as u64;
        let set = Nqe::new(operation::SET_OPTION, 5).with_data(word);
        assert_eq!(tenant.result(set.with_chunk(0, 4)).error(), 0);
    }
    let sent = DatagramHead {
        address: bound.address(),
        hop_limit: Some(7),
        traffic_class: Some(0x10),
        packet: Some(PacketInfo::V4 {
            interface: 0,
            local: std::net::Ipv4Addr::LOCALHOST,
            destination: std::net::Ipv4Addr::UNSPECIFIED,
        }),
    };
    let bytes = sent.to_bytes();
    let len = bytes.len() as u32;
    tenant.process.payload(0, len).unwrap().write(&bytes);
    tenant.submit(Nqe::new(operation::SEND_TO, 5).with_chunk(0, len));
    assert_eq!(tenant.next(5, operation::SENT).error(), 0);
    let datagram = tenant.next(5, operation::DATAGRAM);
    let mut bytes = [0; DatagramHead::LEN];
    tenant
        .process
        .payload(datagram.offset, datagram.len)
        .unwrap()
        .read(&mut bytes);
    let head = DatagramHead::from_bytes(&bytes);
    assert_eq!(head.address, bound.address());
    assert_eq!((head.hop_limit, head.traffic_class), (Some(7), Some(0x10)));
    let Some(PacketInfo::V4 {
        interface,
        local,
        destination,
    }) = head.packet
    else {
        panic!("no packet information: {head:?}");
    };
    assert!(interface > 0);
    let loopback = std::net::Ipv4Addr::LOCALHOST;
    assert_eq!((local, destination), (loopback, loopback));
}

/// A process that ends closes what it alone had; a shared socket goes on with the process that takes it
/// over, with what arrived meanwhile.
#[test]
fn a_shared_socket_outlives_its_process() {
    let stack = Stack::start("shared");
    let server = TcpListener::bind(loopback()).unwrap();
    let (token, mut first) = stack.tenant("app", Limits::default());
    let address = server.local_addr().unwrap();
    assert_eq!(first.connect(1, address).error(), 0);
    let (mut lone, _) = server.accept().unwrap();
    assert_eq!(first.connect(2, address).error(), 0);
    let (mut kept, _) = server.accept().unwrap();
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    first
        .process
        .share(2, std::os::fd::AsFd::as_fd(&theirs))
        .unwrap();
    drop(theirs);
    first.send(1, 0, b"last words");
    let mut second = Tenant::join(&stack.door(), token);
    drop(first);
    let mut words = Vec::new();
    lone.read_to_end(&mut words).unwrap();
    assert_eq!(words, b"last words");
    kept.write_all(b"still there?").unwrap();
    assert_eq!(second.result(Nqe::new(operation::ATTACH, 2)).error(), 0);
    assert_eq!(second.receive(2, 12), b"still there?");
    second.send(2, 1, b"yes");
    let mut bytes = [0; 3];
    kept.read_exact(&mut bytes).unwrap();
    assert_eq!(
        second.result(Nqe::new(operation::ATTACH, 1)).error(),
        libc::EBADF
    );
    drop(ours);
    assert_eq!(kept.read(&mut bytes).unwrap(), 0);
}

#[test]
fn a_limited_tenant_keeps_its_rate() {
    let stack = Stack::start("limited");
    let server = TcpListener::bind(loopback()).unwrap();
    let rate = 2_000_000;
    let limits = Limits {
        bytes_per_second: Some(rate),
        ..Limits::default()
    };
    let (_, mut tenant) = stack.tenant("app", limits);
    assert_eq!(tenant.connect(1, server.local_addr().unwrap()).error(), 0);
    let (mut peer, _) = server.accept().unwrap();
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        peer.read_to_end(&mut all).unwrap();
        all.len()
    });
    let start = Instant::now();
    let chunks = 123;
    for n in 0..chunks {
        tenant.send(1, n % 32, &[0; CHUNK_BYTES]);
        if n >= 32 {
            tenant.next(1, operation::SENT);
        }
    }
    tenant.submit(Nqe::new(operation::CLOSE, 1));
    tenant.next(1, operation::CLOSED);
    assert_eq!(reader.join().unwrap(), chunks as usize * CHUNK_BYTES);
    // Half a second at that rate; at least it is no sooner.
    let least = Duration::from_secs_f64((chunks as usize * CHUNK_BYTES) as f64 / rate as f64);
    assert!(
        start.elapsed() > least - Duration::from_millis(60),
        "{:?}",
        start.elapsed()
    );
}

/// Two tenants of an NSM that leaves the kernel out: bytes both ways, ends, a reset.
#[test]
fn two_tenants_of_an_nsm_need_no_tcp() {
    let stack = Stack::start("local");
    stack.add_nsm("shm", true);
    let (_, mut server) = stack.tenant_of("shm", "server", Limits::default());
    let (_, mut client) = stack.tenant_of("shm", "client", Limits::default());
    server.open(1, STREAM);
    let bound = server.result(Nqe::new(operation::BIND, 1).with_address(loopback()));
    let address = bound.address().unwrap();
    server.result(Nqe::new(operation::LISTEN, 1).with_data(8));
    let connected = client.connect(1, address);
    assert_eq!(connected.error(), 0);
    let established = |port: u16| {
        let tcp = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
        let port = format!(":{port:04X} ");
        tcp.lines()
            .any(|line| line.contains(&port) && line.contains(" 01 "))
    };
    assert!(!established(address.port()));
    // What is sent before the other side accepts waits.
    client.send(1, 0, b"first ");
    client.send(1, 1, b"second");
    let incoming = server.next(1, operation::INCOMING);
    assert_eq!(incoming.address(), connected.address());
    server.submit(Nqe::new(operation::ACCEPT, 2).with_data(incoming.len.into()));
    assert_eq!(server.receive(2, 12), b"first second");
    for offset in [0, CHUNK_BYTES as u64] {
        let sent = client.next(1, operation::SENT);
        assert_eq!((sent.offset, sent.error()), (offset, 0));
    }
    let peer = server.result(Nqe::new(operation::PEER_ADDRESS, 2));
    assert_eq!(peer.address(), connected.address());
    let local = server.result(Nqe::new(operation::LOCAL_ADDRESS, 2));
    assert_eq!(local.address(), Some(address));
    // More than the receiver's window: the rest comes as chunks are given back.
    let chunks = 200u64;
    for n in 0..chunks {
        server.send(2, n, &[n as u8; CHUNK_BYTES]);
    }
    server.submit(Nqe::new(operation::CLOSE, 2));
    let all = client.receive(1, chunks as usize * CHUNK_BYTES);
    assert!(
        all.chunks(CHUNK_BYTES)
            .enumerate()
            .all(|(n, chunk)| chunk.iter().all(|&b| b == n as u8))
    );
    client.next(1, operation::END);
    server.next(2, operation::CLOSED);
    client.send(1, 0, b"too late");
    assert_eq!(client.next(1, operation::SENT).error(), libc::EPIPE);
    assert_eq!(client.next(1, operation::FAILED).error(), libc::EPIPE);
    client.submit(Nqe::new(operation::CLOSE, 1));
    client.next(1, operation::CLOSED);
    // A connection that is closed with bytes unread is reset, and so is one that nobody accepts.
    for accepts in [true, false] {
        assert_eq!(client.connect(1, address).error(), 0);
        let incoming = server.next(1, operation::INCOMING);
        client.send(1, 0, b"unread");
        let socket = if accepts {
            server.submit(Nqe::new(operation::ACCEPT, 3).with_data(incoming.len.into()));
            server.next(3, operation::DATA);
            3
        } else {
            1
        };
        server.submit(Nqe::new(operation::CLOSE, socket));
        server.next(socket, operation::CLOSED);
        assert_eq!(client.next(1, operation::FAILED).error(), libc::ECONNRESET);
        client.submit(Nqe::new(operation::CLOSE, 1));
        client.next(1, operation::CLOSED);
    }
    assert_eq!(client.connect(4, address).error(), libc::ECONNREFUSED);
    // An option that was set before the kernel had a socket.
    client.open(5, STREAM);
    let data = (libc::SOL_SOCKET as u64) << 32 | libc::SO_KEEPALIVE as u64;
    client
        .process
        .payload(0, 4)
        .unwrap()
        .write(&1i32.to_ne_bytes());
    let set = Nqe::new(operation::SET_OPTION, 5).with_data(data);
    assert_eq!(client.result(set.with_chunk(0, 4)).error(), 0);
    let get = Nqe::new(operation::GET_OPTION, 5).with_data(data);
    assert_eq!(client.result(get.with_chunk(CHUNK_BYTES as u64, 4)).len, 4);
    let mut value = [0; 4];
    client
        .process
        .payload(CHUNK_BYTES as u64, 4)
        .unwrap()
        .read(&mut value);
    assert_eq!(i32::from_ne_bytes(value), 1);
}

/// Sets an option to 1, by the last chunk to send from.
fn set_option(tenant: &mut Tenant, socket: u32, level: i32, name: i32) {
    let result = option(tenant, operation::SET_OPTION, socket, level, name);
    assert_eq!(result.error(), 0);
}

/// Asks about an option, with 1 as its value; the answer.
fn option(tenant: &mut Tenant, asked: u8, socket: u32, level: i32, name: i32) -> Nqe {
    let offset = (SEND_CHUNKS as u64 - 1) * CHUNK_BYTES as u64;
    let value = tenant.process.payload(offset, 4).unwrap();
    value.write(&1u32.to_ne_bytes());
    let option = (level as u64) << 32 | name as u64;
    let nqe = Nqe::new(asked, socket).with_data(option);
    tenant.result(nqe.with_chunk(offset, 4))
}

#[test]
fn workers_share_the_connections_of_a_socket_and_nobody_notices() {
    let stack = Stack::start("workers");
    let token = stack.new_nsm("pair", 2);
    stack.join(token, false, 2);
    let (_, mut tenant) = stack.tenant_of("pair", "many", Limits::default());
    tenant.open(1, STREAM);
    set_option(&mut tenant, 1, libc::SOL_SOCKET, libc::SO_REUSEADDR);
    set_option(&mut tenant, 1, libc::SOL_SOCKET, libc::SO_KEEPALIVE);
    let bound = tenant.result(Nqe::new(operation::BIND, 1).with_address(loopback()));
    let address = bound.address().unwrap();
    let listen = tenant.result(Nqe::new(operation::LISTEN, 1).with_data(64));
    assert_eq!((listen.error(), listen.address()), (0, Some(address)));
    set_option(&mut tenant, 1, libc::IPPROTO_TCP, libc::TCP_NODELAY);
    // The address is taken as ever, by a socket that shares addresses too.
    tenant.open(2, STREAM);
    set_option(&mut tenant, 2, libc::SOL_SOCKET, libc::SO_REUSEADDR);
    let second = tenant.result(Nqe::new(operation::BIND, 2).with_address(address));
    assert_eq!(second.error(), libc::EADDRINUSE);

    let mut workers = [0; 2];
    let mut clients = Vec::new();
    for socket in 100..140 {
        clients.push(TcpStream::connect(address).unwrap());
        let incoming = tenant.next(1, operation::INCOMING);
        workers[(incoming.len >> 28) as usize] += 1;
        let accept = Nqe::new(operation::ACCEPT, socket);
        tenant.submit(accept.with_data(incoming.len.into()));
        // They have the options of the listening socket.
        for (level, name) in [
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
            (libc::IPPROTO_TCP, libc::TCP_NODELAY),
        ] {
            let got = option(&mut tenant, operation::GET_OPTION, socket, level, name);
            let mut value = [0; 4];
            let chunk = tenant.process.payload(got.offset, 4).unwrap();
            chunk.read(&mut value);
            assert_eq!((got.error(), u32::from_ne_bytes(value) > 0), (0, true));
        }
    }
    assert!(workers.iter().all(|&taken| taken > 4), "{workers:?}");
    for (socket, client) in (100..).zip(&mut clients) {
        client.write_all(b"question").unwrap();
        assert_eq!(tenant.receive(socket, 8), b"question");
        tenant.send(socket, 0, b"answer");
        tenant.next(socket, operation::SENT);
        let mut answer = [0; 6];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"answer");
    }
    // One that listens counts once.
    let status = stack.operator.status().unwrap();
    let pair = status.nsms.iter().find(|nsm| nsm.name == "pair").unwrap();
    assert_eq!((pair.present, pair.sockets), (true, 42));

    // As soon as it is closed, the port is free.
    tenant.submit(Nqe::new(operation::CLOSE, 1));
    tenant.next(1, operation::CLOSED);
    let again = tenant.result(Nqe::new(operation::BIND, 2).with_address(address));
    assert_eq!(again.error(), 0);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn a_socket_listens_again_at_another_number_of_workers() {
    let stack = Stack::start("cores");
    let token = stack.new_nsm("pair", 2);
    let mut workers = stack.join(token, false, 2);
    let (_, mut tenant) = stack.tenant_of("pair", "many", Limits::default());
    tenant.open(1, STREAM);
    let bound = tenant.result(Nqe::new(operation::BIND, 1).with_address(loopback()));
    let address = bound.address().unwrap();
    tenant.result(Nqe::new(operation::LISTEN, 1).with_data(64));
    for cores in [1, 3] {
        let nsm = "pair".to_owned();
        stack
            .operator
            .ask(&Request::SetCores { nsm, cores })
            .unwrap();
        let failed = tenant.next(1, operation::FAILED);
        assert_eq!((failed.flags, failed.error()), (GONE, libc::ECONNRESET));
        // They are one process otherwise, which ends before the next one begins.
        workers.drain(..).for_each(|it| it.join().unwrap());
        workers = stack.join(token, false, cores);
        let listens = tenant.next(1, operation::RESULT);
        assert_eq!((listens.flags, listens.error()), (operation::BIND, 0));
        let listens = tenant.next(1, operation::RESULT);
        assert_eq!((listens.flags, listens.error()), (operation::LISTEN, 0));
        let _client = TcpStream::connect(address).unwrap();
        let incoming = tenant.next(1, operation::INCOMING);
        assert!(incoming.len >> 28 < cores.into());
        let accept = Nqe::new(operation::ACCEPT, 2).with_data(incoming.len.into());
        tenant.submit(accept);
        tenant.submit(Nqe::new(operation::CLOSE, 2));
        tenant.next(2, operation::CLOSED);
    }
    let nsm = "pair".to_owned();
    let cores = 17;
    let refused = stack.operator.ask(&Request::SetCores { nsm, cores });
    let refused = refused.unwrap_err().to_string();
    assert_eq!(refused, "an NSM has 1 to 16 workers, not 17");
}

#[test]
fn a_socket_that_waits_for_its_nsm_connects_when_that_runs() {
    let stack = Stack::start("waits");
    let token = stack.new_nsm("late", 1);
    let (_, mut tenant) = stack.tenant_of("late", "early", Limits::default());
    tenant.open(1, STREAM);
    let down = tenant.next(1, operation::RESULT);
    assert_eq!(
        (down.flags, down.error()),
        (operation::SOCKET, libc::ENETDOWN)
    );
    let listener = TcpListener::bind(loopback()).unwrap();
    let again = |operation| Nqe::new(operation, 2).with_flags(RESTORED);
    tenant.submit(again(operation::SOCKET).with_data(STREAM).with_family(4));
    tenant.submit(again(operation::CONNECT).with_address(listener.local_addr().unwrap()));
    stack.join(token, false, 1);
    let connected = tenant.next(2, operation::RESULT);
    assert_eq!(
        (connected.flags, connected.error()),
        (operation::CONNECT, 0)
    );
    tenant.send(2, 0, b"hello");
    let (mut peer, _) = listener.accept().unwrap();
    let mut said = [0; 5];
    peer.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"hello");
}
