//! A peer of a user NSM that says what it likes. It knows what a peer on the way knows: where the NSM's connections stand.
#![allow(dead_code)]

use abi::nqe::{Nqe, STREAM, operation};

use super::world::World;

/// Where the tenant listens.
const LISTENER: u32 = 1000;
const PORT: u16 = 80;
/// The first of the peer's ports.
const FROM: u16 = 4000;

/// A segment, relative to where its connection stands.
#[derive(Clone, Debug)]
pub struct Segment {
    pub port: u8,
    pub flags: u8,
    pub sequence: i32,
    pub acknowledged: i32,
    pub window: u16,
    pub len: u8,
    pub options: [u8; 4],
}

/// The peer.
#[derive(Default)]
pub struct Peer {
    /// By port: what the NSM expects next, and what it sends next.
    stands: [(u32, u32); 4],
    /// The tenant's sockets.
    accepted: Vec<u32>,
    next: u32,
    /// Connections that came to stand.
    pub connections: u32,
}

/// The Internet checksum (RFC 1071) of bytes.
fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u32;
    for part in parts {
        for pair in part.chunks(2) {
            let low = pair.get(1).copied().unwrap_or(0);
            sum += u32::from(u16::from_be_bytes([pair[0], low]));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

const ETHERNET: [u8; 14] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
const ENDS: [u8; 8] = [10, 0, 0, 1, 10, 0, 0, 2];

/// A frame from 10.0.0.1 to 10.0.0.2.
fn frame(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let [high, low] = (20 + payload.len() as u16).to_be_bytes();
    let mut ip = vec![0x45, 0, high, low, 0, 0, 0, 0, 64, protocol, 0, 0];
    ip.extend(ENDS);
    let sum = checksum(&[&ip]);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    [&ETHERNET, &ip[..], payload].concat()
}

impl Peer {
    /// The tenant listens.
    pub fn begin(&mut self, world: &mut World) {
        let socket = Nqe::new(operation::SOCKET, LISTENER);
        world
            .hostile
            .submit(socket.with_data(STREAM).with_family(4));
        let bind = Nqe::new(operation::BIND, LISTENER);
        world
            .hostile
            .submit(bind.with_address(([0, 0, 0, 0], PORT).into()));
        world
            .hostile
            .submit(Nqe::new(operation::LISTEN, LISTENER).with_data(64));
        world.hostile.flush();
        world.turn();
        // Where this peer is.
        let mut arp = vec![0xff; 6];
        arp.extend([
            2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1,
        ]);
        arp.extend([0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
        world.send(&arp);
        for port in 0..4 {
            self.send(
                world,
                &Segment {
                    port,
                    flags: 2,
                    sequence: 0,
                    acknowledged: 0,
                    window: 1000,
                    len: 0,
                    options: [0; 4],
                },
            );
        }
        for _ in 0..2 {
            world.turn();
            self.look(world);
        }
        for port in 0..4 {
            self.send(
                world,
                &Segment {
                    port,
                    flags: 16,
                    sequence: 0,
                    acknowledged: 0,
                    window: 1000,
                    len: 0,
                    options: [0; 4],
                },
            );
        }
        world.turn();
        self.serve(world);
    }

    /// The tenant accepts what there is, answers what comes, and gives chunks back.
    pub fn serve(&mut self, world: &mut World) {
        let mut delivered = Vec::new();
        while let Some(nqe) = world.hostile.delivered() {
            delivered.push(nqe);
        }
        for nqe in delivered {
            match nqe.operation {
                operation::INCOMING => {
                    self.next += 1;
                    self.connections += 1;
                    let socket = 2000 + self.next % 10_000;
                    self.accepted.push(socket);
                    let accept = Nqe::new(operation::ACCEPT, socket);
                    world.hostile.submit(accept.with_data(nqe.len.into()));
                    world
                        .hostile
                        .submit(Nqe::new(operation::SEND, socket).with_chunk(0, 3000));
                }
                operation::DATA => {
                    let consumed = Nqe::new(operation::CONSUMED, nqe.socket);
                    world
                        .hostile
                        .submit(consumed.with_chunk(nqe.offset, nqe.len));
                }
                _ => {}
            }
        }
        world.hostile.flush();
    }

    /// The tenant closes all.
    pub fn end(&mut self, world: &mut World) {
        for socket in self.accepted.drain(..).chain([LISTENER]) {
            world.hostile.submit(Nqe::new(operation::CLOSE, socket));
        }
        world.hostile.flush();
        for _ in 0..3 {
            world.turn();
            world.sent();
            world.hostile.take(256, |_| ());
        }
        // Connections of the next round are others.
        for port in 0..4 {
            self.send(
                world,
                &Segment {
                    port,
                    flags: 4,
                    sequence: 0,
                    acknowledged: 0,
                    window: 0,
                    len: 0,
                    options: [0; 4],
                },
            );
        }
        world.turn();
        world.sent();
        world.hostile.take(256, |_| ());
    }

    /// Notes where the NSM's connections stand.
    pub fn look(&mut self, world: &mut World) {
        for frame in world.sent() {
            let Some(tcp) = frame.get(34..54) else {
                continue;
            };
            let word =
                |at: usize| u32::from_be_bytes([tcp[at], tcp[at + 1], tcp[at + 2], tcp[at + 3]]);
            let port = u16::from_be_bytes([tcp[2], tcp[3]]).wrapping_sub(FROM);
            if frame[12..14] != [8, 0] || frame[23] != 6 || port >= 4 {
                continue;
            }
            let header = usize::from(tcp[12] >> 4) * 4;
            let len = frame.len() - 34 - header.min(frame.len() - 34);
            let ends = u32::from(tcp[13] & 3 != 0);
            let next = word(4).wrapping_add(len as u32).wrapping_add(ends);
            let expected = if tcp[13] & 16 != 0 {
                word(8)
            } else {
                self.stands[usize::from(port)].0
            };
            self.stands[usize::from(port)] = (expected, next);
        }
    }

    /// Sends a segment.
    pub fn send(&mut self, world: &mut World, segment: &Segment) {
        let (expected, next) = self.stands[usize::from(segment.port % 4)];
        let mut tcp = Vec::new();
        tcp.extend((FROM + u16::from(segment.port % 4)).to_be_bytes());
        tcp.extend(PORT.to_be_bytes());
        tcp.extend(expected.wrapping_add_signed(segment.sequence).to_be_bytes());
        tcp.extend(next.wrapping_add_signed(segment.acknowledged).to_be_bytes());
        tcp.extend([6 << 4, segment.flags]);
        tcp.extend(segment.window.to_be_bytes());
        tcp.extend([0; 4]);
        tcp.extend(segment.options);
        tcp.extend(vec![7; segment.len.into()]);
        let len = (tcp.len() as u16).to_be_bytes();
        let sum = checksum(&[&ENDS, &[0, 6], &len, &tcp]);
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        world.send(&frame(6, &tcp));
    }

    /// Sends a packet.
    pub fn send_ip(&mut self, world: &mut World, protocol: u8, bytes: &[u8]) {
        let mut bytes = bytes.to_vec();
        if protocol == 1 && bytes.len() > 4 {
            bytes[2..4].fill(0);
            let sum = checksum(&[&bytes]);
            bytes[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        world.send(&frame(protocol, &bytes));
    }
}
