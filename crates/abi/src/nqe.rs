//! The network queue element (NQE): a socket call, or the answer to one, between an application and
//! the network stack module (NSM) that serves its sockets. NQEs cross [rings](crate::ring); payload
//! stands in memory that both sides map, and the element names its offset.
//!
//! 32 bytes, with the fields and widths of NetKernel (Niu et al., 2020), in an order that keeps each
//! in one 64-bit word:
//!
//! | Byte | Field |
//! |---|---|
//! | 0 | operation |
//! | 1 | tenant |
//! | 2 | queue set |
//! | 3 | flags |
//! | 4–7 | socket |
//! | 8–15 | the operation's data |
//! | 16–23 | offset of the payload, in bytes from the start of the shared memory |
//! | 24–27 | length of the payload, in bytes |
//! | 28–31 | port, error and address family (see [`Nqe::address`]) |
//!
//! [`operation`] lists what an element asks or answers, and [`tenant`](crate::tenant) the memory
//! that it crosses.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use core::sync::atomic::{AtomicU64, Ordering};

use crate::ring::RingSlot;

/// One element, by value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nqe {
    /// What is asked, or answered.
    pub operation: u8,
    /// Whose socket it is. The switch of NQEs sets it: what an application writes here is not read.
    pub tenant: u8,
    /// The queue set of the tenant or of the NSM.
    pub queue_set: u8,
    /// The socket, by the number that the receiving side gave it.
    pub socket: u32,
    /// An address, an option, an error or a count, as the operation has it.
    pub data: u64,
    /// Where the payload starts in the shared memory, in bytes.
    pub offset: u64,
    /// Length of the payload, in bytes.
    pub len: u32,
    /// As the operation has it: see [`operation`].
    pub flags: u8,
    /// A port in bits 0–15, an error (errno) in bits 16–27, an address family in bits 28–31.
    pub extra: u32,
}

/// What an element asks or answers. "Answered" operations are answered by one [`RESULT`] each, in the
/// order of the requests of one socket. A *chunk* is the offset and the length of a payload.
pub mod operation {
    /// Makes a socket. Data: [`STREAM`](super::STREAM) or [`DATAGRAM_TYPE`](super::DATAGRAM_TYPE); family in `extra`.
    /// Answered by a [`RESULT`] only if it fails: every later operation of the socket fails too.
    pub const SOCKET: u8 = 1;
    /// Binds to the address. Answered, with the address that the socket has now.
    pub const BIND: u8 = 2;
    /// Listens. Data: the backlog. Answered, with the local address.
    pub const LISTEN: u8 = 3;
    /// Connects to the address; of a datagram socket, sets its peer (family 0: none). Answered when the
    /// connection stands or has failed, with the local address.
    pub const CONNECT: u8 = 4;
    /// Takes the connection of an [`INCOMING`] as the socket. Data: that element's `len`, the
    /// connection. Answered only if it fails, as when the peer has gone.
    pub const ACCEPT: u8 = 5;
    /// Sends the chunk. Flags: [`MORE`](super::MORE). Answered by [`SENT`].
    pub const SEND: u8 = 6;
    /// Sends a datagram: the chunk has a [`DatagramHead`](super::DatagramHead), then the payload; a head
    /// without an address means the peer. Flags: [`MORE`](super::MORE): the payload goes on in the chunk of the next
    /// element of the socket, which has no head. Each is answered by [`SENT`].
    pub const SEND_TO: u8 = 7;
    /// Gives the chunk of a [`DATA`] or [`DATAGRAM`] back. Not answered.
    pub const CONSUMED: u8 = 8;
    /// Shuts down. Data: 0 reading, 1 writing, 2 both. Not answered.
    pub const SHUTDOWN: u8 = 9;
    /// Sets an option. Data: level in the upper, name in the lower 32 bits; the value is in the chunk.
    /// Answered; the result gives the chunk back.
    pub const SET_OPTION: u8 = 10;
    /// Reads an option, as [`SET_OPTION`]. The value is written to the chunk, at most `len` bytes; the
    /// result has its length.
    pub const GET_OPTION: u8 = 11;
    /// Asks for the local address. Answered with it.
    pub const LOCAL_ADDRESS: u8 = 12;
    /// Asks for the peer's address. Answered with it.
    pub const PEER_ADDRESS: u8 = 13;
    /// Closes. What was sent before goes out. The chunks that the socket has received and not given
    /// back belong to the NSM again. Answered by [`CLOSED`]; until then the number is taken.
    pub const CLOSE: u8 = 14;
    /// The queue set takes over the socket's answers; a listening socket's connections go in turn to
    /// all that have attached. Answered by CoreEngine: later elements of the socket come by this
    /// queue set, earlier ones stand in the rings of those before.
    pub const ATTACH: u8 = 15;
    /// The queue set takes no more connections of the listening socket. Not answered.
    pub const DETACH: u8 = 16;
    /// From CoreEngine alone, to an NSM of several workers: takes connections of a listening socket that another
    /// worker has. Data: that worker in the upper, its number of the socket in the lower 32 bits; `len`: the backlog.
    /// Not answered; CLOSE ends it.
    pub const LISTEN_WITH: u8 = 17;

    /// Answers the operation in `flags`. Error in `extra` (0: none), and an address where the operation
    /// says so.
    pub const RESULT: u8 = 64;
    /// A listening socket has a connection. `len` is the connection, to be named by [`ACCEPT`]; the
    /// address is the peer's (without a scope).
    pub const INCOMING: u8 = 65;
    /// Bytes have arrived: the chunk.
    pub const DATA: u8 = 66;
    /// A datagram has arrived: the chunk has a [`DatagramHead`](super::DatagramHead), then the payload. Flags: as of
    /// [`SEND_TO`].
    pub const DATAGRAM: u8 = 67;
    /// The peer sends no more.
    pub const END: u8 = 68;
    /// Gives the chunk of a [`SEND`] or [`SEND_TO`] back: it is with the network stack. Error in `extra`.
    pub const SENT: u8 = 69;
    /// The connection is broken, by the error in `extra`; or a datagram socket has an error. With the
    /// flag [`GONE`](super::GONE) the NSM has ended: chunks that it had to send are the tenant's again.
    pub const FAILED: u8 = 70;
    /// The last element of a socket. Its number can be used again.
    pub const CLOSED: u8 = 71;
}

/// Type of a socket of bytes (TCP).
pub const STREAM: u64 = 1;
/// Type of a socket of datagrams (UDP).
pub const DATAGRAM_TYPE: u64 = 2;
/// Flag of a SEND: more follows at once, so a part of a segment may wait (MSG_MORE). Of a SEND_TO or a DATAGRAM: the
/// datagram goes on in the next.
pub const MORE: u8 = 1;
/// Flag of a FAILED: the NSM has ended, and no [`operation::SENT`] comes for what it had to send. With
/// [`RESTORED`] in a SOCKET: its connection is gone, and what is asked of it fails until it is closed.
pub const GONE: u8 = 4;
/// Flag of a SOCKET, BIND, LISTEN or CONNECT: the socket stands for one of an NSM or a CoreEngine that is
/// gone, so its address may still be in use (SO_REUSEADDR). Nobody waits for the result. Of a socket that
/// several processes announce, CoreEngine takes the first. While the NSM does not run, the socket waits for it.
pub const RESTORED: u8 = 2;
/// Flag of a BIND: the socket is IPv6's only (IPV6_V6ONLY), when it is restored, too.
pub const ONLY_IPV6: u8 = 8;
/// Flag of a BIND: other sockets may have the address (SO_REUSEPORT), when it is restored, too.
pub const REUSE_PORT: u8 = 16;
/// Bit of a connection's number that the NSM has chosen; others are CoreEngine's.
pub const CHOSEN_BY_NSM: u32 = 1 << 31;

/// The address families in `extra`.
const IPV4: u32 = 4;
const IPV6: u32 = 6;

const _: () = assert!(size_of::<<Nqe as RingSlot>::Shared>() == 32);

impl Nqe {
    const fn words(self) -> [u64; 4] {
        [
            self.operation as u64
                | (self.tenant as u64) << 8
                | (self.queue_set as u64) << 16
                | (self.flags as u64) << 24
                | (self.socket as u64) << 32,
            self.data,
            self.offset,
            self.len as u64 | (self.extra as u64) << 32,
        ]
    }

    const fn from_words([head, data, offset, len]: [u64; 4]) -> Nqe {
        Nqe {
            operation: head as u8,
            tenant: (head >> 8) as u8,
            queue_set: (head >> 16) as u8,
            flags: (head >> 24) as u8,
            socket: (head >> 32) as u32,
            data,
            offset,
            len: len as u32,
            extra: (len >> 32) as u32,
        }
    }

    /// An element of a socket.
    pub const fn new(operation: u8, socket: u32) -> Nqe {
        Nqe {
            operation,
            tenant: 0,
            queue_set: 0,
            socket,
            data: 0,
            offset: 0,
            len: 0,
            flags: 0,
            extra: 0,
        }
    }

    /// The address in the element: its 16 bytes in `data` and `offset` (an IPv4 address in the first
    /// four), scope in `len`, port and family in `extra`. `None`: the family is neither.
    pub fn address(&self) -> Option<SocketAddr> {
        let bytes = (u128::from(self.offset) << 64 | u128::from(self.data)).to_le_bytes();
        address_of(self.family(), bytes, self.extra as u16, self.len)
    }

    /// The address family: 4, 6, or another value for none.
    pub const fn family(&self) -> u32 {
        self.extra >> 28
    }

    /// With an address family, and no address.
    pub const fn with_family(mut self, family: u32) -> Nqe {
        self.extra = self.extra & 0x0fff_ffff | family << 28;
        self
    }

    /// With an address. It takes `data`, `offset` and `len`.
    pub fn with_address(mut self, address: SocketAddr) -> Nqe {
        let (family, bytes, scope) = bytes_of(address);
        let bytes = u128::from_le_bytes(bytes);
        self.data = bytes as u64;
        self.offset = (bytes >> 64) as u64;
        self.len = scope;
        self.extra = self.extra & 0x0fff_0000 | family << 28 | u32::from(address.port());
        self
    }

    /// The error, by its number (errno); 0: none.
    pub const fn error(&self) -> i32 {
        (self.extra >> 16 & 0xfff) as i32
    }

    /// With an error, 0 to 4095.
    pub const fn with_error(mut self, error: i32) -> Nqe {
        self.extra = self.extra & 0xf000_ffff | (error as u32 & 0xfff) << 16;
        self
    }

    /// With a payload.
    pub const fn with_chunk(mut self, offset: u64, len: u32) -> Nqe {
        self.offset = offset;
        self.len = len;
        self
    }

    /// With data of the operation.
    pub const fn with_data(mut self, data: u64) -> Nqe {
        self.data = data;
        self
    }

    /// With flags.
    pub const fn with_flags(mut self, flags: u8) -> Nqe {
        self.flags = flags;
        self
    }
}

fn address_of(family: u32, bytes: [u8; 16], port: u16, scope: u32) -> Option<SocketAddr> {
    match family {
        IPV4 => {
            let [a, b, c, d, ..] = bytes;
            Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), port))
        }
        IPV6 => Some(SocketAddr::V6(SocketAddrV6::new(
            Ipv6Addr::from(bytes),
            port,
            0,
            scope,
        ))),
        _ => None,
    }
}

fn bytes_of(address: SocketAddr) -> (u32, [u8; 16], u32) {
    match address {
        SocketAddr::V4(address) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&address.ip().octets());
            (IPV4, bytes, 0)
        }
        SocketAddr::V6(address) => (IPV6, address.ip().octets(), address.scope_id()),
    }
}

/// The bytes before a datagram's payload: its destination or its source, and its ancillary data (IP
/// header fields, and the interface). Of a datagram to send, what is `None` is the socket's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatagramHead {
    /// The destination of a datagram to send (`None`: the peer), or the source of one received.
    pub address: Option<SocketAddr>,
    /// The hop limit of IPv6, or the TTL of IPv4.
    pub hop_limit: Option<u8>,
    /// The traffic class of IPv6, or the TOS of IPv4.
    pub traffic_class: Option<u8>,
    /// Packet information.
    pub packet: Option<PacketInfo>,
}

/// The interface and the local address of a datagram: IP_PKTINFO (ip(7)) or IPV6_PKTINFO (RFC 3542,
/// section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketInfo {
    /// Of IPv4.
    V4 {
        /// The interface's index; 0: any.
        interface: u32,
        /// The local address.
        local: Ipv4Addr,
        /// The destination in the header of a datagram received.
        destination: Ipv4Addr,
    },
    /// Of IPv6.
    V6 {
        /// The interface's index; 0: any.
        interface: u32,
        /// The source of a datagram to send, the destination of one received.
        address: Ipv6Addr,
    },
}

const HAS_HOP_LIMIT: u8 = 1;
const HAS_TRAFFIC_CLASS: u8 = 2;

impl DatagramHead {
    /// Length, in bytes: family (4 bytes), scope (4), port (2), hop limit (1), traffic class (1), which
    /// of these two are there (1), family of the packet information (1), zeros (2), address (16),
    /// addresses of the packet information (16), its interface (4), zeros (12).
    pub const LEN: usize = 64;

    /// To or from an address, without ancillary data.
    pub const fn new(address: Option<SocketAddr>) -> DatagramHead {
        DatagramHead {
            address,
            hop_limit: None,
            traffic_class: None,
            packet: None,
        }
    }

    /// Whether there is ancillary data.
    pub const fn has_ancillary(&self) -> bool {
        self.hop_limit.is_some() || self.traffic_class.is_some() || self.packet.is_some()
    }

    /// As bytes.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut all = [0; Self::LEN];
        if let Some(address) = self.address {
            let (family, bytes, scope) = bytes_of(address);
            all[..4].copy_from_slice(&family.to_le_bytes());
            all[4..8].copy_from_slice(&scope.to_le_bytes());
            all[8..10].copy_from_slice(&address.port().to_le_bytes());
            all[16..32].copy_from_slice(&bytes);
        }
        if let Some(hops) = self.hop_limit {
            all[10] = hops;
            all[12] |= HAS_HOP_LIMIT;
        }
        if let Some(class) = self.traffic_class {
            all[11] = class;
            all[12] |= HAS_TRAFFIC_CLASS;
        }
        let interface = match self.packet {
            None => 0,
            Some(PacketInfo::V4 {
                interface,
                local,
                destination,
            }) => {
                all[13] = IPV4 as u8;
                all[32..36].copy_from_slice(&local.octets());
                all[36..40].copy_from_slice(&destination.octets());
                interface
            }
            Some(PacketInfo::V6 { interface, address }) => {
                all[13] = IPV6 as u8;
                all[32..48].copy_from_slice(&address.octets());
                interface
            }
        };
        all[48..52].copy_from_slice(&interface.to_le_bytes());
        all
    }

    /// Of bytes. An unknown family is no address, or no packet information.
    pub fn from_bytes(all: &[u8; Self::LEN]) -> DatagramHead {
        let word = |at: usize| u32::from_le_bytes([all[at], all[at + 1], all[at + 2], all[at + 3]]);
        let ip = |at: usize| {
            let mut bytes = [0; 16];
            bytes.copy_from_slice(&all[at..at + 16]);
            bytes
        };
        let v4 = |at: usize| Ipv4Addr::new(all[at], all[at + 1], all[at + 2], all[at + 3]);
        let interface = word(48);
        DatagramHead {
            address: address_of(word(0), ip(16), word(8) as u16, word(4)),
            hop_limit: (all[12] & HAS_HOP_LIMIT != 0).then_some(all[10]),
            traffic_class: (all[12] & HAS_TRAFFIC_CLASS != 0).then_some(all[11]),
            packet: match u32::from(all[13]) {
                IPV4 => Some(PacketInfo::V4 {
                    interface,
                    local: v4(32),
                    destination: v4(36),
                }),
                IPV6 => Some(PacketInfo::V6 {
                    interface,
                    address: ip(32).into(),
                }),
                _ => None,
            },
        }
    }
}

// SAFETY: only atomics in it.
unsafe impl RingSlot for Nqe {
    type Shared = [AtomicU64; 4];

    #[inline]
    fn load(shared: &[AtomicU64; 4]) -> Nqe {
        Nqe::from_words(shared.each_ref().map(|word| word.load(Ordering::Relaxed)))
    }

    #[inline]
    fn store(self, shared: &[AtomicU64; 4]) {
        for (word, value) in shared.iter().zip(self.words()) {
            word.store(value, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use core::ptr::NonNull;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::ring::{Consumer, Producer, ring_bytes_of};

    const SLOTS: u32 = 64;

    #[repr(align(64))]
    #[derive(Clone, Copy)]
    struct Line(#[allow(dead_code)] [u64; 8]);

    fn sides(memory: &mut [Line]) -> (Producer<Nqe>, Consumer<Nqe>) {
        assert_eq!(size_of_val(memory), ring_bytes_of::<Nqe>(SLOTS));
        let base = NonNull::from(&mut memory[0]).cast();
        // SAFETY: aligned and long enough; the tests keep the memory, and open each side once.
        unsafe { (Producer::open(base, SLOTS), Consumer::open(base, SLOTS)) }
    }

    fn memory() -> Vec<Line> {
        std::vec![Line([0; 8]); ring_bytes_of::<Nqe>(SLOTS) / size_of::<Line>()]
    }

    #[test]
    fn every_field_has_its_own_bytes() {
        let nqe = Nqe {
            operation: 1,
            tenant: 2,
            queue_set: 3,
            socket: 0x0706_0504,
            data: 0x0f0e_0d0c_0b0a_0908,
            offset: 0x1716_1514_1312_1110,
            len: 0x1b1a_1918,
            flags: 0xaa,
            extra: 0x1f1e_1d1c,
        };
        let bytes: Vec<u8> = nqe.words().iter().flat_map(|w| w.to_le_bytes()).collect();
        let expected = [
            1, 2, 3, 0xaa, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22,
            23, 24, 25, 26, 27, 28, 29, 30, 31,
        ];
        assert_eq!(bytes, expected);
    }

    proptest! {
        /// An element can be read from any bytes, and is written back as it was read. Asking for
        /// its address never panics.
        #[test]
        fn any_bytes_are_an_element(words in any::<[u64; 4]>()) {
            let nqe = Nqe::from_words(words);
            prop_assert_eq!(nqe.words(), words);
            prop_assert_eq!(nqe.address().is_some(), [4, 6].contains(&nqe.family()));
        }

        #[test]
        fn an_address_and_an_error_are_read_as_written(
            ip in any::<IpAddr>(),
            port in any::<u16>(),
            scope in any::<u32>(),
            error in 0..4096i32,
        ) {
            let mut address = SocketAddr::new(ip, port);
            if let SocketAddr::V6(address) = &mut address {
                address.set_scope_id(scope);
            }
            let nqe = Nqe::new(operation::CONNECT, 7).with_error(error).with_address(address);
            prop_assert_eq!((nqe.address(), nqe.error()), (Some(address), error));
            let nqe = Nqe::new(operation::CONNECT, 7).with_address(address).with_error(error);
            prop_assert_eq!((nqe.address(), nqe.error()), (Some(address), error));
            let head = DatagramHead::new(Some(address));
            prop_assert_eq!(DatagramHead::from_bytes(&head.to_bytes()), head);
        }

        #[test]
        fn ancillary_data_is_read_as_written(
            hop_limit in any::<Option<u8>>(),
            traffic_class in any::<Option<u8>>(),
            ip in any::<IpAddr>(),
            interface in any::<u32>(),
            destination in any::<Ipv4Addr>(),
        ) {
            let packet = match ip {
                IpAddr::V4(local) => PacketInfo::V4 { interface, local, destination },
                IpAddr::V6(address) => PacketInfo::V6 { interface, address },
            };
            for packet in [None, Some(packet)] {
                let head = DatagramHead { address: None, hop_limit, traffic_class, packet };
                prop_assert_eq!(DatagramHead::from_bytes(&head.to_bytes()), head);
            }
        }

        #[test]
        fn any_bytes_are_a_head(bytes in any::<[u8; DatagramHead::LEN]>()) {
            let head = DatagramHead::from_bytes(&bytes);
            let known = bytes[1..4] == [0; 3] && [4, 6].contains(&bytes[0]);
            prop_assert_eq!(head.address.is_some(), known);
            prop_assert_eq!(head.packet.is_some(), [4, 6].contains(&bytes[13]));
            prop_assert_eq!(DatagramHead::from_bytes(&head.to_bytes()), head);
        }

        #[test]
        fn elements_come_out_in_order_and_whole(
            batches in proptest::collection::vec((0..80u32, 0..80u32), 1..100),
        ) {
            let mut memory = memory();
            let (mut producer, mut consumer) = sides(&mut memory);
            let element = |n: u64| Nqe {
                operation: n as u8,
                socket: n as u32,
                data: n << 20,
                offset: !n,
                len: n as u32,
                ..Nqe::default()
            };
            let (mut put, mut taken) = (0, 0);
            for (more, fewer) in batches {
                let more = producer.free(more).unwrap().min(more);
                for i in 0..more {
                    producer.fill(i, element(put + u64::from(i)));
                }
                producer.publish(more);
                put += u64::from(more);
                let fewer = consumer.filled(fewer).unwrap().min(fewer);
                for i in 0..fewer {
                    prop_assert_eq!(consumer.peek(i), element(taken + u64::from(i)));
                }
                consumer.release(fewer);
                taken += u64::from(fewer);
            }
            prop_assert_eq!(u64::from(consumer.filled(SLOTS).unwrap()), put - taken);
        }
    }
}
