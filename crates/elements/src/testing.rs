//! A bench to try elements on: a router in simulated time, with what it prints kept.

#[cfg(test)]
mod configurations;
#[cfg(test)]
mod fused_paths;
pub mod ip6;

use core::any::Any;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use click::text::{decode, encode};
use click::{Diagnostics, Limits, Options, Quotes};

pub(crate) use crate::prelude::*;
#[cfg(all(test, feature = "host"))]
pub(crate) use crate::userlevel::testing::*;
#[cfg(test)]
pub(crate) use proptest::prelude::*;

/// The address of a host.
pub const A: Ipv4Addr = Ipv4Addr::new(1, 0, 0, 1);
/// The address of another.
pub const B: Ipv4Addr = Ipv4Addr::new(2, 0, 0, 2);
/// Nanoseconds in a millisecond.
pub const MS: u64 = 1_000_000;
/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;
/// Wall-clock time at which every test starts: 1000000000 s after 1970.
pub const START: i64 = 1_000_000_000_000_000_000;

struct Simulation {
    now: Arc<AtomicU64>,
    lines: Arc<Mutex<Vec<String>>>,
    cables: Vec<(String, Cable)>,
    store: StoreBox,
}

impl Embedding for Simulation {
    fn store(&self) -> Option<StoreBox> {
        Some(self.store.clone())
    }

    fn steady(&self) -> Steady {
        Steady(self.now.load(Ordering::Relaxed))
    }

    fn wall(&self) -> i64 {
        START + self.now.load(Ordering::Relaxed) as i64
    }

    fn chatter(&mut self, line: &str) {
        self.lines.lock().unwrap().push(line.to_string());
    }

    fn quotes(&self) -> Quotes {
        Quotes::Curly
    }

    fn print(&mut self, text: &[u8]) {
        let text = decode(text).into_owned();
        self.lines.lock().unwrap().push(text);
    }

    fn seed(&mut self) -> u64 {
        1
    }

    fn driver(&self) -> &'static str {
        "test"
    }

    fn device(&mut self, name: &str, _side: Side) -> Result<Box<dyn Device>, String> {
        let cable = self.cables.iter().find(|(known, _)| known == name);
        let (_, cable) = cable.ok_or(NO_DEVICE)?;
        Ok(Box::new(cable.clone()))
    }

    /// The cable of the name `socket`.
    fn socket(&mut self, _endpoint: &Endpoint) -> Result<Box<dyn Device>, String> {
        self.device("socket", Side::Receive)
            .map_err(|_| NO_SOCKETS.into())
    }

    fn device_name(&self, index: usize) -> Option<String> {
        self.cables.get(index).map(|(name, _)| name.clone())
    }
}

#[derive(Default)]
struct Ends {
    mac: [u8; 6],
    arrived: VecDeque<(Vec<u8>, usize, Option<Offload>)>,
    sent: Vec<Vec<u8>>,
    /// What was left to do on each of those.
    left: Vec<Option<Offload>>,
    segments: Option<bool>,
    room: usize,
    promised: usize,
    /// Frames sent whose flows are settled.
    settled: usize,
}

/// A device whose far end the test holds.
#[derive(Clone)]
pub struct Cable(Arc<Mutex<Ends>>);

impl Cable {
    /// A device with the Ethernet address `mac`, and no room to send.
    pub fn new(mac: [u8; 6]) -> Cable {
        Cable(Arc::new(Mutex::new(Ends {
            mac,
            ..Ends::default()
        })))
    }

    /// Lets a frame arrive.
    pub fn arrive(&self, frame: &[u8]) {
        let all = frame.len();
        let arrived = (frame.to_vec(), all, None);
        self.0.lock().unwrap().arrived.push_back(arrived);
    }

    /// Lets a frame arrive on which something is left to do, and whose data beyond `first` bytes is
    /// in parts.
    pub fn arrive_unfinished(&self, frame: &[u8], first: usize, offload: Offload) {
        let arrived = (frame.to_vec(), first.min(frame.len()), Some(offload));
        self.0.lock().unwrap().arrived.push_back(arrived);
    }

    /// Whether packets may come that stand for several, if that was said.
    pub fn accepts_segments(&self) -> Option<bool> {
        self.0.lock().unwrap().segments
    }

    /// Makes room for this many frames to be sent.
    pub fn make_room(&self, frames: usize) {
        self.0.lock().unwrap().room = frames;
    }

    /// Says that there is room for this many frames, though there may be less.
    pub fn promise_room(&self, frames: usize) {
        self.0.lock().unwrap().promised = frames;
    }

    /// How many of the frames that were sent said that their flow is settled.
    pub fn settled(&self) -> usize {
        self.0.lock().unwrap().settled
    }

    /// Takes the frames that were sent.
    pub fn sent(&self) -> Vec<Vec<u8>> {
        let mut ends = self.0.lock().unwrap();
        ends.left.clear();
        core::mem::take(&mut ends.sent)
    }

    /// Takes the frames that were sent, with what is left to do on each.
    pub fn sent_unfinished(&self) -> Vec<(Vec<u8>, Option<Offload>)> {
        let mut ends = self.0.lock().unwrap();
        let left = core::mem::take(&mut ends.left);
        core::mem::take(&mut ends.sent)
            .into_iter()
            .zip(left)
            .collect()
    }
}

impl Device for Cable {
    fn mac(&self) -> [u8; 6] {
        self.0.lock().unwrap().mac
    }

    fn mtu(&self) -> usize {
        1500
    }

    fn settles(&self) -> Option<u8> {
        Some(0)
    }

    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch, most: usize) {
        let mut ends = self.0.lock().unwrap();
        for _ in 0..most.min(batch.room()) {
            let Some(frame) = ends.arrived.pop_front() else {
                break;
            };
            let (frame, first, offload) = frame;
            let mut packet = pool.copy(&frame[..first]).expect("the pool has room");
            for part in frame[first..].chunks(packet::PART_MAX) {
                assert!(pool.append(&mut packet, part), "the pool has room");
            }
            packet.set_offload(offload);
            batch.push(packet).expect("the batch has room");
        }
    }

    fn transmit(&mut self, pool: &mut Pool, batch: &mut Batch) {
        let mut ends = self.0.lock().unwrap();
        let mut going = Batch::new();
        ends.room -= going.append(batch, ends.room);
        for packet in going.drain() {
            let parts: Vec<&[u8]> = core::iter::once(packet.data())
                .chain(packet.parts_data())
                .collect();
            ends.sent.push(parts.concat());
            ends.left.push(packet.offload());
            ends.settled += usize::from(packet.settles());
            pool.kill(packet);
        }
    }

    fn take_segments(&mut self, takes: bool) {
        self.0.lock().unwrap().segments = Some(takes);
    }

    fn room(&mut self) -> usize {
        let ends = self.0.lock().unwrap();
        ends.room.max(ends.promised)
    }

    fn arm_receive(&mut self, _thread: u16) -> bool {
        !self.has_received()
    }

    fn arm_transmit(&mut self, _thread: u16) -> bool {
        self.0.lock().unwrap().room == 0
    }

    fn has_received(&mut self) -> bool {
        !self.0.lock().unwrap().arrived.is_empty()
    }
}

/// Pushes what a test gives it: `Rig::push`.
#[derive(Element)]
#[element(ports = "0/1", processing = "h")]
pub struct Inject;

impl Element for Inject {}

/// Keeps what is pushed into it: `Rig::collected`.
#[derive(Element)]
#[element(ports = "1/0", processing = "h")]
pub struct Collect {
    packets: Vec<Packet>,
}

impl Element for Collect {
    fn push(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        self.packets.extend(batch.drain());
        0
    }
}

/// Pulls when a test asks: `Rig::pull`.
#[derive(Element)]
#[element(ports = "1/0", processing = "l")]
pub struct Puller;

impl Element for Puller {}

static CLASSES: &[ClassEntry] = &[
    ClassEntry::of::<Inject>(),
    ClassEntry::of::<Collect>(),
    ClassEntry::of::<Puller>(),
];

/// What a [`Rig`] is made with.
pub struct Bench<'a> {
    /// Most packets of a batch.
    pub batch: usize,
    /// The classes to use, besides [`Inject`], [`Collect`] and [`Puller`].
    pub library: Library,
    /// Bounds on the configuration.
    pub limits: Limits,
    /// Most packet buffers.
    pub buffers: usize,
    /// Devices by name.
    pub cables: &'a [(&'a str, &'a Cable)],
}

impl Default for Bench<'_> {
    fn default() -> Self {
        Bench {
            batch: 64,
            library: crate::library(),
            limits: Limits::DEFAULT,
            buffers: 1 << 14,
            cables: &[],
        }
    }
}

/// A router under test.
pub struct Rig {
    /// The router.
    pub router: Router,
    /// What its elements ask of the control store.
    pub store: StoreBox,
    now: Arc<AtomicU64>,
    lines: Arc<Mutex<Vec<String>>>,
    library: Library,
    limits: Limits,
    batch: usize,
}

impl Rig {
    /// A router of `config`, with batches of 64.
    #[track_caller]
    pub fn new(config: &str) -> Rig {
        Rig::with_batch(config, 64)
    }

    /// A router of `config`, with batches of at most `batch`.
    #[track_caller]
    pub fn with_batch(config: &str, batch: usize) -> Rig {
        Rig::with_cables(config, batch, &[])
    }

    /// As `with_batch`, with devices.
    #[track_caller]
    pub fn with_cables(config: &str, batch: usize, cables: &[(&str, &Cable)]) -> Rig {
        let bench = Bench {
            batch,
            cables,
            ..Bench::default()
        };
        match Rig::on(bench, config) {
            Ok(rig) => rig,
            Err(errors) => panic!("{errors}"),
        }
    }

    /// What is wrong with `config`, as Click would print it.
    #[track_caller]
    pub fn errors(config: &str) -> String {
        match Rig::on(Bench::default(), config) {
            Ok(_) => panic!("the configuration is right"),
            Err(errors) => errors,
        }
    }

    /// Asserts that `config` is refused with a message that contains `part`.
    #[track_caller]
    pub fn refuses(config: &str, part: &str) {
        assert_contains(&Rig::errors(config), part);
    }

    /// A router of `config` with a guest's library and devices, or what is wrong with it.
    pub fn in_guest(config: &str, cables: &[(&str, &Cable)]) -> Result<Rig, String> {
        let bench = Bench {
            library: crate::guest_library(),
            cables,
            ..Bench::default()
        };
        Rig::on(bench, config)
    }

    /// A router of `config` on `bench`, or what is wrong with it.
    pub fn on(bench: Bench<'_>, config: &str) -> Result<Rig, String> {
        let mut diagnostics = Diagnostics::new();
        let mut library = bench.library;
        library.add(CLASSES);
        let (limits, batch) = (bench.limits, bench.batch);
        let options = Options {
            limits,
            ..Options::new(&library)
        };
        let flat = click::parse(&encode(config), "config", &options, &mut diagnostics)
            .ok_or_else(|| diagnostics.to_string())?;
        let (now, lines) = (Arc::default(), Arc::default());
        let store = StoreBox::default();
        let simulation = Simulation {
            now: Arc::clone(&now),
            lines: Arc::clone(&lines),
            cables: bench
                .cables
                .iter()
                .map(|(name, cable)| (name.to_string(), (*cable).clone()))
                .collect(),
            store: store.clone(),
        };
        let runtime = Runtime::new(Box::new(simulation), Pool::heap(bench.buffers));
        let settings = Settings {
            batch,
            ..Settings::default()
        };
        let router = Router::new(flat, config, &library, runtime, settings, &mut diagnostics)
            .map_err(|_| diagnostics.to_string())?;
        lines
            .lock()
            .unwrap()
            .extend(diagnostics.to_string().lines().map(|line| line.to_string()));
        Ok(Rig {
            router,
            store,
            now,
            lines,
            library,
            limits,
            batch,
        })
    }

    /// Puts a router of `config` in the place of this one, as a hotswap does.
    #[track_caller]
    pub fn swap(&mut self, config: &str) {
        if let Err(errors) = self.try_swap(config) {
            panic!("{errors}");
        }
    }

    /// As `swap`, or says what is wrong with `config`; the router goes on then.
    pub fn try_swap(&mut self, config: &str) -> Result<(), String> {
        let mut diagnostics = Diagnostics::new();
        let options = Options {
            limits: self.limits,
            ..Options::new(&self.library)
        };
        let flat = click::parse(&encode(config), "config", &options, &mut diagnostics)
            .ok_or_else(|| diagnostics.to_string())?;
        let settings = Settings {
            batch: self.batch,
            ..Settings::default()
        };
        let (old, library) = (&mut self.router, &self.library);
        Router::replace(old, flat, config, library, settings, &mut diagnostics)
            .map_err(|_| diagnostics.to_string())
    }

    /// Puts a router of several configurations, the main one first, in the place of this one. Those that are
    /// the same go on.
    pub fn update(&mut self, configs: &[(&str, &str)]) -> Result<(), String> {
        let mut diagnostics = Diagnostics::new();
        let options = Options {
            limits: self.limits,
            ..Options::new(&self.library)
        };
        let mut parse = |(name, config): (&str, &str)| {
            click::parse(&encode(config), name, &options, &mut diagnostics)
                .ok_or_else(|| diagnostics.to_string())
        };
        let (main, others) = configs.split_first().expect("there is a main one");
        let mut flat = parse(*main)?;
        for (name, config) in others {
            let installed = flat.install(name, parse((name, config))?);
            installed.map_err(|place| place.to_string())?;
        }
        let settings = Settings {
            batch: self.batch,
            ..Settings::default()
        };
        let (old, library) = (&mut self.router, &self.library);
        Router::update(old, flat, main.1, library, settings, &mut diagnostics)
            .map_err(|_| diagnostics.to_string())
    }

    /// Ends the router, as a driver does; returns how many packets are still out of the pool.
    pub fn end(self) -> usize {
        self.router.end().pool.outstanding()
    }

    #[track_caller]
    fn id(&self, name: &str) -> ElementId {
        self.router.find(name).expect("the element is there")
    }

    /// Runs tasks and timers until all is quiet, 10 000 rounds at most, in no time.
    pub fn run(&mut self) -> Status {
        let mut status = Status::Busy;
        for _ in 0..10_000 {
            status = self.router.run(1);
            if status != Status::Busy {
                break;
            }
        }
        status
    }

    /// Runs one task.
    pub fn step(&mut self) -> Status {
        self.router.run(1)
    }

    /// Lets `nanoseconds` pass, running what is due on the way; a busy router runs each millisecond.
    pub fn advance(&mut self, nanoseconds: u64) {
        let end = self.now.load(Ordering::Relaxed) + nanoseconds;
        loop {
            let status = self.run();
            let now = self.now.load(Ordering::Relaxed);
            if now >= end {
                break;
            }
            let next = match status {
                Status::Idle(Some(at)) => at.0.max(now + 1),
                Status::Idle(None) => end,
                _ => now + MS,
            };
            let now = next.min(end);
            self.now.store(now, Ordering::Relaxed);
        }
    }

    /// Lets `nanoseconds` pass in which the router does not run.
    pub fn pause(&mut self, nanoseconds: u64) {
        self.now.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// Pushes a packet of `data` out of the Inject called `name`.
    #[track_caller]
    pub fn push(&mut self, name: &str, data: &[u8]) {
        self.push_with(name, data, |_| {});
    }

    /// As `push`, after `prepare` had its hands on the packet.
    #[track_caller]
    pub fn push_with(&mut self, name: &str, data: &[u8], prepare: impl FnOnce(&mut Packet)) {
        let id = self.id(name);
        self.router.with(id, |_, cx| {
            let mut packet = cx.pool().copy(data).expect("the pool has room");
            prepare(&mut packet);
            cx.emit(0, packet);
        });
    }

    /// Pushes a TCP packet over IPv4 that stands for several `segments` of 100 bytes of payload.
    pub fn push_segments(
        &mut self,
        name: &str,
        segments: usize,
        prepare: impl FnOnce(&mut Packet),
    ) {
        let payload = std::vec![7; 100 * segments];
        let packet = tcp(([1; 4].into(), 1), ([2; 4].into(), 2), 0, &payload);
        self.push_with(name, &packet, |packet| {
            packet.set_offload(Some(Offload {
                checksum_start: 20,
                checksum_offset: 16,
                segments: Some(Segments {
                    kind: SegmentKind::Tcp4,
                    size: 100,
                    ecn: false,
                }),
            }));
            prepare(packet);
        });
    }

    /// Pushes several packets as one batch.
    #[track_caller]
    pub fn push_all(&mut self, name: &str, packets: &[Vec<u8>]) {
        let id = self.id(name);
        self.router.with(id, |_, cx| {
            for data in packets {
                let packet = cx.pool().copy(data).expect("the pool has room");
                cx.emit(0, packet);
            }
        });
    }

    /// Pulls at most `most` packets by the Puller called `name`.
    #[track_caller]
    pub fn pull(&mut self, name: &str, most: usize) -> Vec<Packet> {
        let id = self.id(name);
        let pulled = self.router.with(id, |_, cx| {
            let mut batch = cx.batch();
            cx.pull(0, &mut batch, most);
            batch.drain().collect()
        });
        pulled.unwrap_or_default()
    }

    /// Takes what the Collect called `name` has.
    #[track_caller]
    pub fn collected(&mut self, name: &str) -> Vec<Packet> {
        let id = self.id(name);
        let taken = self.router.with(id, |element, _| {
            let element: &mut dyn Any = element;
            let collect = element.downcast_mut::<Collect>().expect("a Collect");
            core::mem::take(&mut collect.packets)
        });
        taken.unwrap_or_default()
    }

    /// The data of what the Collect called `name` has, taken.
    #[track_caller]
    pub fn data(&mut self, name: &str) -> Vec<Vec<u8>> {
        let packets = self.collected(name);
        packets
            .iter()
            .map(|packet| packet.data().to_vec())
            .collect()
    }

    /// Reads `element.handler`.
    #[track_caller]
    pub fn read(&mut self, handler: &str) -> String {
        self.try_read(handler).expect("the handler can be read")
    }

    /// Asserts what handlers show: their paths, each with its value.
    #[track_caller]
    pub fn assert_handlers(&mut self, shown: &[(&str, &str)]) {
        for (handler, value) in shown {
            assert_eq!(self.read(handler), *value, "{handler}");
        }
    }

    /// Reads `element.handler`, or says why not.
    pub fn try_read(&mut self, handler: &str) -> Result<String, HandlerError> {
        let (element, name) = handler.rsplit_once('.').expect("element.handler");
        let id = (!element.is_empty()).then(|| self.id(element));
        self.router.read(id, name, "")
    }

    /// Writes `element.handler`.
    #[track_caller]
    pub fn write(&mut self, handler: &str, value: &str) {
        self.try_write(handler, value)
            .expect("the handler can be written");
    }

    /// Writes `element.handler`, or says why not.
    pub fn try_write(&mut self, handler: &str, value: &str) -> Result<(), HandlerError> {
        let (element, name) = handler.rsplit_once('.').expect("element.handler");
        let id = (!element.is_empty()).then(|| self.id(element));
        self.router.write(id, name, value)
    }

    /// Makes an LLRPC of an element.
    #[track_caller]
    pub fn llrpc(
        &mut self,
        element: &str,
        call: Llrpc,
        mut data: [u8; 4],
    ) -> Result<[u8; 4], HandlerError> {
        let id = self.id(element);
        self.router.llrpc(id, call, &mut data).map(|()| data)
    }

    /// Takes the lines printed so far, warnings of the start included. What goes to standard output
    /// has its line end.
    pub fn printed(&mut self) -> Vec<String> {
        core::mem::take(&mut self.lines.lock().unwrap())
    }

    /// Packets that are out of the pool.
    pub fn outstanding(&mut self) -> usize {
        self.router.runtime().pool.outstanding()
    }
}

/// Asserts that `text` contains `part`, or shows it.
#[track_caller]
pub fn assert_contains(text: &str, part: &str) {
    assert!(text.contains(part), "{text}");
}

/// A UDP packet over IPv4 of `payload`, checksums right, TTL 64.
pub fn udp(from: (Ipv4Addr, u16), to: (Ipv4Addr, u16), payload: &[u8]) -> Vec<u8> {
    let mut udp = Vec::new();
    udp.extend(from.1.to_be_bytes());
    udp.extend(to.1.to_be_bytes());
    udp.extend((8 + payload.len() as u16).to_be_bytes());
    udp.extend([0, 0]);
    udp.extend(payload);
    let mut packet = ip(17, from.0, to.0, &mut udp, 6);
    if packet[26..28] == [0, 0] {
        // Zero would mean that there is none (RFC 768).
        packet[26..28].fill(0xff);
    }
    packet
}

/// A TCP segment over IPv4 with `flags` and `payload`, checksums right, TTL 64.
pub fn tcp(from: (Ipv4Addr, u16), to: (Ipv4Addr, u16), flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut tcp = Vec::new();
    tcp.extend(from.1.to_be_bytes());
    tcp.extend(to.1.to_be_bytes());
    tcp.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 0x20, 0, 0, 0, 0, 0]);
    tcp.extend(payload);
    ip(6, from.0, to.0, &mut tcp, 16)
}

/// Sets the checksum of a TCP segment over IPv4 without options.
pub fn complete_tcp(packet: &mut [u8]) {
    packet[36..38].fill(0);
    let mut pseudo = packet[12..20].to_vec();
    pseudo.extend([0, 6]);
    pseudo.extend((packet.len() as u16 - 20).to_be_bytes());
    pseudo.extend(&packet[20..]);
    let sum = checksum(&pseudo);
    packet[36..38].copy_from_slice(&sum.to_be_bytes());
}

/// An ICMP echo request over IPv4, checksums right, TTL 64.
pub fn ping(from: Ipv4Addr, to: Ipv4Addr, payload: &[u8]) -> Vec<u8> {
    let mut icmp = std::vec![8, 0, 0, 0, 0, 1, 0, 2];
    icmp.extend(payload);
    let sum = checksum(&icmp);
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    header(1, from, to, &icmp)
}

/// `packet` behind an Ethernet header.
pub fn ether(to: [u8; 6], from: [u8; 6], kind: u16, packet: &[u8]) -> Vec<u8> {
    [&to[..], &from[..], &kind.to_be_bytes(), packet].concat()
}

fn ip(protocol: u8, from: Ipv4Addr, to: Ipv4Addr, transport: &mut [u8], at: usize) -> Vec<u8> {
    let mut pseudo = Vec::new();
    pseudo.extend(from.octets());
    pseudo.extend(to.octets());
    pseudo.extend([0, protocol]);
    pseudo.extend((transport.len() as u16).to_be_bytes());
    pseudo.extend(&*transport);
    let sum = checksum(&pseudo);
    transport[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    header(protocol, from, to, transport)
}

fn header(protocol: u8, from: Ipv4Addr, to: Ipv4Addr, payload: &[u8]) -> Vec<u8> {
    let mut packet = std::vec![0x45, 0];
    packet.extend((20 + payload.len() as u16).to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, protocol, 0, 0]);
    packet.extend(from.octets());
    packet.extend(to.octets());
    let sum = checksum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(payload);
    packet
}

/// The Internet checksum (RFC 1071), the plain way.
pub fn checksum(data: &[u8]) -> u16 {
    let words = data.chunks(2).map(|pair| match pair {
        [a, b] => u16::from_be_bytes([*a, *b]) as u32,
        [a] => (*a as u32) << 8,
        _ => 0,
    });
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
