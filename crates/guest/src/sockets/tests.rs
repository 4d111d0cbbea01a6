extern crate std;

use alloc::alloc::{Layout, alloc_zeroed};
use alloc::vec::Vec;
use core::net::{Ipv4Addr, SocketAddr};
use core::ptr::NonNull;

use abi::PAGE;
use abi::nqe::{DatagramHead, GONE, MORE, Nqe, RESTORED, operation};
use abi::ring::{Consumer, Producer};
use abi::tenant::{CHUNK_BYTES, CHUNKS, NSM_FILE_BYTES, PAYLOAD_FILE_BYTES};
use packet::anno::AGGREGATE;
use packet::{Batch, Pool};
use proptest::prelude::*;

use super::*;

struct Nowhere;

impl Surroundings for Nowhere {
    fn ring(&self) {}

    fn now(&self) -> u64 {
        0
    }

    fn report(&self, _line: fmt::Arguments<'_>) {}
}

/// A guest's sockets, and CoreEngine's side of them.
struct Rig {
    sockets: Sockets,
    submissions: Consumer<Nqe>,
    deliveries: Producer<Nqe>,
    payload: PayloadFile,
    pool: Pool,
}

const AT: SocketAddr = SocketAddr::new(core::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 80);

fn endpoint(serves: bool, stream: bool) -> Endpoint {
    Endpoint {
        serves,
        stream,
        address: AT,
    }
}

impl Rig {
    fn new() -> Rig {
        // Of the payload, pages that are not used take no memory, as its alignment is any.
        let memory = |bytes, align| {
            let layout = Layout::from_size_align(bytes, align).unwrap();
            // SAFETY: the size is not zero; the memory is never freed.
            NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap()
        };
        // SAFETY: aligned and that long, never freed; each side of the queue set is opened once.
        unsafe {
            let queues = QueueFile::new(memory(NSM_FILE_BYTES, PAGE), NSM_FILE_BYTES);
            let payload = PayloadFile::new(memory(PAYLOAD_FILE_BYTES, 1));
            queues.format();
            let (submissions, deliveries) = queues.core(0);
            Rig {
                sockets: Sockets::open(queues, payload, Box::new(Nowhere)).unwrap(),
                submissions,
                deliveries,
                payload,
                pool: Pool::heap(64),
            }
        }
    }

    fn open(&mut self, serves: bool, stream: bool) -> Box<dyn Device> {
        let mut device = self.sockets.device(&endpoint(serves, stream));
        device.open();
        device
    }

    /// What the guest asked since the last call, but options.
    fn asked(&mut self) -> Vec<Nqe> {
        let filled = self.submissions.filled(1).unwrap();
        let asked: Vec<_> = (0..filled).map(|i| self.submissions.peek(i)).collect();
        self.submissions.release(filled);
        let (options, others) = asked
            .into_iter()
            .partition(|nqe| nqe.operation == operation::SET_OPTION);
        for option in options {
            let Nqe { socket, offset, .. } = option;
            self.deliver(result(operation::SET_OPTION, socket).with_chunk(offset, 0));
        }
        others
    }

    fn deliver(&mut self, nqe: Nqe) {
        assert!(self.deliveries.free(1).unwrap() > 0);
        self.deliveries.fill(0, nqe);
        self.deliveries.publish(1);
    }

    /// Delivers bytes to a socket, in a chunk of the NSM's.
    fn data(&mut self, socket: u32, bytes: &[u8]) -> u64 {
        let offset = ((CHUNKS - 1) * CHUNK_BYTES) as u64;
        let chunk = self.payload.bytes(offset, bytes.len() as u32).unwrap();
        chunk.write(bytes);
        self.deliver(Nqe::new(operation::DATA, socket).with_chunk(offset, bytes.len() as u32));
        offset
    }

    fn received(&mut self, device: &mut Box<dyn Device>) -> Vec<(u32, Vec<u8>)> {
        let mut batch = Batch::new();
        device.receive(&mut self.pool, &mut batch, 64);
        let packets = batch.iter();
        let received = packets.map(|it| (it.anno(AGGREGATE), it.data().to_vec()));
        let received = received.collect();
        self.pool.recycle(&mut batch);
        received
    }

    /// Sends packets; how many stay.
    fn send(&mut self, device: &mut Box<dyn Device>, packets: &[(u32, &[u8])]) -> usize {
        let mut batch = Batch::new();
        for (name, data) in packets {
            let mut packet = self.pool.copy(data).unwrap();
            packet.set_anno(AGGREGATE, *name);
            batch.push(packet).unwrap();
        }
        device.transmit(&mut self.pool, &mut batch);
        let left = batch.len();
        self.pool.recycle(&mut batch);
        left
    }

    /// The bytes that an element names.
    fn bytes(&self, nqe: &Nqe) -> Vec<u8> {
        let mut bytes = std::vec![0; nqe.len as usize];
        self.payload
            .bytes(nqe.offset, nqe.len)
            .unwrap()
            .read(&mut bytes);
        bytes
    }

    /// Has a server listen; its socket.
    fn listening(&mut self) -> u32 {
        let socket = self.asked()[0].socket;
        self.deliver(result(operation::BIND, socket));
        self.deliver(result(operation::LISTEN, socket));
        socket
    }

    /// Offers a connection; its socket.
    fn connect(&mut self, device: &mut Box<dyn Device>, listener: u32, offered: u32) -> u32 {
        let incoming = Nqe::new(operation::INCOMING, listener).with_address(AT);
        self.deliver(Nqe {
            len: offered,
            ..incoming
        });
        device.has_received();
        let asked = self.asked();
        assert_eq!(
            (asked[0].operation, asked[0].data),
            (operation::ACCEPT, u64::from(offered))
        );
        asked[0].socket
    }
}

fn result(operation: u8, socket: u32) -> Nqe {
    Nqe::new(operation::RESULT, socket).with_flags(operation)
}

fn operations(asked: &[Nqe]) -> Vec<u8> {
    asked.iter().map(|nqe| nqe.operation).collect()
}

#[test]
fn each_connection_of_a_server_gets_its_own_answers() {
    let mut rig = Rig::new();
    let mut device = rig.open(true, true);
    let listener = rig.listening();
    let first = rig.connect(&mut device, listener, 71);
    let second = rig.connect(&mut device, listener, 72);
    rig.data(first, b"one");
    rig.data(second, b"two");
    let received = rig.received(&mut device);
    let [(a, _), (b, _)] = received[..] else {
        panic!("{received:?}");
    };
    assert_ne!(a, b);
    assert_eq!(received[1].1, b"two");
    assert_eq!(operations(&rig.asked()), [operation::CONSUMED; 2]);
    // Packets of one connection share a chunk; without a name they go to the latest.
    assert_eq!(
        rig.send(&mut device, &[(a, b"An"), (a, b"swer"), (0, b"2")]),
        0
    );
    let asked = rig.asked();
    assert_eq!(operations(&asked), [operation::SEND; 2]);
    assert_eq!(
        (asked[0].socket, rig.bytes(&asked[0])),
        (first, b"Answer".to_vec())
    );
    assert_eq!(
        (asked[1].socket, rig.bytes(&asked[1])),
        (second, b"2".to_vec())
    );
    // A packet without bytes ends its connection, and what comes later for it is dropped.
    rig.send(&mut device, &[(a, b"bye"), (a, b""), (a, b"late")]);
    assert_eq!(
        operations(&rig.asked()),
        [operation::SEND, operation::CLOSE]
    );
    let status = device.socket_status();
    assert_eq!((status.open, status.connections, status.drops), (1, 2, 1));
}

#[test]
fn a_connection_that_the_peer_ended_is_closed_once_all_is_sent() {
    let mut rig = Rig::new();
    let mut device = rig.open(true, true);
    let listener = rig.listening();
    let socket = rig.connect(&mut device, listener, 1);
    rig.data(socket, b"last");
    rig.deliver(Nqe::new(operation::END, socket));
    let received = rig.received(&mut device);
    rig.send(&mut device, &[(received[0].0, b"answer")]);
    let sent = rig.asked().pop().unwrap();
    device.arm_receive(0);
    assert_eq!(
        operations(&rig.asked()),
        [0; 0],
        "the answer is not with the NSM"
    );
    rig.deliver(Nqe::new(operation::SENT, socket).with_chunk(sent.offset, sent.len));
    device.arm_receive(0);
    assert_eq!(operations(&rig.asked()), [operation::CLOSE]);
    // Its number is another's then, whose name differs.
    rig.deliver(Nqe::new(operation::CLOSED, socket));
    device.has_received();
    let again = rig.connect(&mut device, listener, 2);
    assert_eq!(again, socket);
    rig.send(&mut device, &[(received[0].0, b"for the first")]);
    assert_eq!(operations(&rig.asked()), [0; 0]);
}

#[test]
fn a_client_waits_for_its_connection_and_connects_again() {
    let mut rig = Rig::new();
    let mut device = rig.open(false, true);
    let asked = rig.asked();
    assert_eq!(operations(&asked), [operation::SOCKET, operation::CONNECT]);
    let socket = asked[0].socket;
    assert_eq!(rig.send(&mut device, &[(0, b"request")]), 1);
    assert_eq!(device.room(), 0);
    rig.deliver(result(operation::CONNECT, socket));
    assert!(device.room() > 0);
    assert_eq!(rig.send(&mut device, &[(0, b"request")]), 0);
    assert_eq!(operations(&rig.asked()), [operation::SEND]);
    // It breaks; the next packet has it connect, and is dropped if that fails.
    rig.deliver(Nqe::new(operation::FAILED, socket).with_flags(GONE));
    assert_eq!(rig.send(&mut device, &[(0, b"more")]), 1);
    let asked = rig.asked();
    let expected = [operation::CLOSE, operation::SOCKET, operation::CONNECT];
    assert_eq!(operations(&asked), expected);
    rig.deliver(result(operation::CONNECT, asked[2].socket).with_error(111));
    assert_eq!(rig.send(&mut device, &[(0, b"more")]), 0);
    assert_eq!(operations(&rig.asked()), [operation::CLOSE]);
    let status = device.socket_status();
    assert_eq!((status.open, status.connections, status.drops), (0, 1, 1));
}

#[test]
fn a_socket_whose_nsm_does_not_run_waits_for_it() {
    for serves in [true, false] {
        let mut rig = Rig::new();
        let mut device = rig.open(serves, true);
        let socket = rig.asked()[0].socket;
        if !serves {
            assert_eq!(rig.send(&mut device, &[(0, b"request")]), 1);
        }
        rig.deliver(result(operation::SOCKET, socket).with_error(100));
        device.has_received();
        // The packet that waits for the connection waits on.
        assert_eq!(device.socket_status().drops, 0);
        assert_eq!(device.room(), 0);
        let asked = rig.asked();
        let expected: &[u8] = match serves {
            true => &[operation::SOCKET, operation::BIND, operation::LISTEN],
            false => &[operation::SOCKET, operation::CONNECT],
        };
        assert_eq!(asked[0].operation, operation::CLOSE);
        assert_eq!(operations(&asked[1..]), expected);
        assert!(asked[1..].iter().all(|nqe| nqe.flags == RESTORED));
        let again = asked[1].socket;
        rig.deliver(result(*expected.last().unwrap(), again));
        match serves {
            true => drop(rig.connect(&mut device, again, 1)),
            false => assert_eq!(rig.send(&mut device, &[(0, b"request")]), 0),
        }
    }
}

#[test]
fn a_stream_waits_while_its_window_is_full() {
    let mut rig = Rig::new();
    let mut device = rig.open(false, true);
    let socket = rig.asked()[0].socket;
    rig.deliver(result(operation::CONNECT, socket));
    let full: &[u8] = &[7; 1500];
    let mut sent = Vec::new();
    while device.room() > 0 {
        rig.send(&mut device, &[(0, full); 16]);
        sent.extend(rig.asked());
    }
    assert_eq!(sent.len(), abi::tenant::SEND_WINDOW);
    rig.deliver(Nqe::new(operation::SENT, socket).with_chunk(sent[0].offset, 0));
    assert!(device.room() > 0);
}

#[test]
fn a_datagram_comes_whole_and_its_sender_is_answered() {
    let mut rig = Rig::new();
    let mut device = rig.open(true, false);
    let socket = rig.asked()[0].socket;
    rig.deliver(result(operation::BIND, socket));
    let from = |port| SocketAddr::new(AT.ip(), port);
    let mut received = Vec::new();
    for port in [1000, 2000] {
        let head = DatagramHead::new(Some(from(port))).to_bytes();
        let offset = (CHUNKS - port as usize) * CHUNK_BYTES;
        let chunk = rig.payload.bytes(offset as u64, 70).unwrap();
        chunk.write(&[&head[..], b"first "].concat());
        let part = Nqe::new(operation::DATAGRAM, socket).with_chunk(offset as u64, 70);
        rig.deliver(part.with_flags(MORE));
        assert!(rig.received(&mut device).is_empty(), "the rest is missing");
        let offset = offset as u64 + 100;
        rig.payload.bytes(offset, 4).unwrap().write(b"rest");
        rig.deliver(Nqe::new(operation::DATAGRAM, socket).with_chunk(offset, 4));
        received.extend(rig.received(&mut device));
    }
    assert_eq!(received[0].1, b"first rest");
    let names: Vec<_> = received.iter().map(|(name, _)| *name).collect();
    rig.asked();
    rig.send(
        &mut device,
        &[(names[0], b"a"), (names[1], b"b"), (77, b"nobody's")],
    );
    let asked = rig.asked();
    let to = |nqe: &Nqe| {
        let bytes = rig.bytes(nqe);
        DatagramHead::from_bytes(bytes[..64].try_into().unwrap()).address
    };
    let to: Vec<_> = asked.iter().map(to).collect();
    assert_eq!(to, [Some(from(1000)), Some(from(2000))]);
}

proptest! {
    /// Whatever is delivered, the guest stays in its memory, and chunks are one socket's at a time.
    #[test]
    fn any_deliveries_are_borne(
        nqes in proptest::collection::vec(
            (60..75u8, 0..6u32, any::<u8>(), any::<u64>(), 0..20_000u32, any::<u32>()),
            1..200,
        ),
        serves in any::<bool>(),
        stream in any::<bool>(),
    ) {
        let mut rig = Rig::new();
        let mut device = rig.open(serves, stream);
        let mut held = std::collections::HashMap::new();
        for (operation, socket, flags, offset, len, extra) in nqes {
            let offset = offset % (PAYLOAD_FILE_BYTES as u64 + 9);
            let nqe = Nqe { operation, socket, flags, offset, len, extra, ..Nqe::default() };
            // What is given back is anybody's again.
            if operation == operation::SENT {
                let chunk = offset / CHUNK_BYTES as u64;
                held.retain(|at, by| (*at, *by) != (chunk, socket));
            }
            if [operation::CLOSED, operation::FAILED].contains(&operation) {
                held.retain(|_, by| *by != socket);
            }
            rig.deliver(nqe);
            rig.received(&mut device);
            rig.send(&mut device, &[(0, b"x"), (1 << 12 | socket, b"y")]);
            device.arm_transmit(0);
            for nqe in rig.asked() {
                if [operation::SEND, operation::SEND_TO].contains(&nqe.operation) {
                    prop_assert!(rig.payload.bytes(nqe.offset, nqe.len).is_some());
                    let chunk = nqe.offset / CHUNK_BYTES as u64;
                    prop_assert_eq!(held.insert(chunk, nqe.socket), None);
                }
            }
            device.has_received();
        }
        device.close();
    }
}
