//! What TrafficSource writes behind the transport header of its packets.
//!
//! ```text
//!  0       2            6          10                18
//! +-------+------------+----------+-----------------+---------
//! | magic | run, flow  | sequence | time sent (ns)  | zeros
//! +-------+------------+----------+-----------------+---------
//! ```
//!
//! The run has 12 bits, the flow 20. All is in network byte order.

use crate::prelude::*;

/// Bytes of a stamp.
pub const STAMP: usize = 18;
/// Most flows of a run.
pub const FLOWS_MAX: u32 = 1 << FLOW_BITS;
/// Runs that are told apart.
pub const RUNS: u32 = 1 << (32 - FLOW_BITS);

const FLOW_BITS: u32 = 20;
const MAGIC: [u8; 2] = *b"Wm";

/// A packet's stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// A number that tells a source's runs apart, below [`RUNS`].
    pub run: u32,
    /// The flow, below [`FLOWS_MAX`].
    pub flow: u32,
    /// How many packets of the flow there were before, modulo 2^32.
    pub sequence: u32,
    /// When it was sent, in nanoseconds since 1970.
    pub time: i64,
}

impl Stamp {
    /// The stamp on the wire.
    #[inline]
    pub fn to_bytes(self) -> [u8; STAMP] {
        let mut bytes = [0; STAMP];
        bytes[..2].copy_from_slice(&MAGIC);
        bytes[2..6].copy_from_slice(&(self.run << FLOW_BITS | self.flow).to_be_bytes());
        bytes[6..10].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[10..].copy_from_slice(&self.time.to_be_bytes());
        bytes
    }

    #[inline]
    fn parse(bytes: &[u8; STAMP]) -> Option<Stamp> {
        let [m0, m1, f0, f1, f2, f3, s0, s1, s2, s3, time @ ..] = *bytes;
        let flow = u32::from_be_bytes([f0, f1, f2, f3]);
        ([m0, m1] == MAGIC).then(|| Stamp {
            run: flow >> FLOW_BITS,
            flow: flow & (FLOWS_MAX - 1),
            sequence: u32::from_be_bytes([s0, s1, s2, s3]),
            time: i64::from_be_bytes(time),
        })
    }

    /// The stamp of a packet, whose IP header is marked, or else stands behind an Ethernet header
    /// and up to two VLAN tags.
    #[inline]
    pub fn of(packet: &Packet) -> Option<Stamp> {
        let ip = match packet.network_header() {
            Some(ip) => ip,
            None => network(packet.data())?,
        };
        match ip.first()? >> 4 {
            4 => {
                let header = Ipv4Packet::new_checked(ip).ok()?;
                Self::behind(header.protocol(), header.payload())
            }
            6 => {
                let header = Ipv6Packet::new_checked(ip).ok()?;
                Self::behind(header.next_header(), header.payload())
            }
            _ => None,
        }
    }

    /// The stamp behind a transport header.
    #[inline]
    fn behind(protocol: IpProtocol, transport: &[u8]) -> Option<Stamp> {
        let at = match protocol {
            IpProtocol::UDP => 8,
            IpProtocol::TCP => usize::from(transport.get(12)? >> 4) * 4,
            _ => return None,
        };
        Self::parse(transport.get(at..)?.first_chunk()?)
    }
}

/// What is behind a frame's Ethernet header.
fn network(frame: &[u8]) -> Option<&[u8]> {
    let mut at = 12;
    for _ in 0..3 {
        let kind = u16::from_be_bytes(*frame.get(at..)?.first_chunk()?);
        match EtherType(kind) {
            kind if kind.is_vlan() => at += 4,
            _ => return frame.get(at + 2..),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;

    proptest! {
        #[test]
        fn a_stamp_is_read_as_it_was_written(
            run in 0..RUNS, flow in 0..FLOWS_MAX, sequence: u32, time: i64, tags in 0usize..3, ports: (u16, u16),
        ) {
            let stamp = Stamp { run, flow, sequence, time };
            let bytes = stamp.to_bytes();
            let ends = ((A, ports.0), (B, ports.1));
            for ip in [udp(ends.0, ends.1, &bytes), tcp(ends.0, ends.1, 0x10, &bytes)] {
                let frame = ether([1; 6], [2; 6], 0x800, &ip);
                let tagged = [&frame[..12], &[0x81, 0, 0, 7].repeat(tags), &frame[12..]].concat();
                let mut pool = Pool::heap(4);
                prop_assert_eq!(Stamp::of(&pool.copy(&tagged).unwrap()), Some(stamp));
            }
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(data in prop::collection::vec(any::<u8>(), 0..120)) {
            let mut pool = Pool::heap(4);
            let _ = Stamp::of(&pool.copy(&data).unwrap());
        }
    }
}
