//! Annotations: 48 bytes that travel with a packet, at Click's offsets.
//!
//! Values wider than a byte are in native byte order, except addresses, which are in network
//! order. Several names share an offset: they belong to functions that do not meet. (Offsets and
//! sizes: Click's `include/click/packet_anno.hh`.)

/// Bytes of annotations of a packet.
pub const ANNO_BYTES: usize = 48;

/// A named annotation: a range of a packet's annotation bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anno {
    /// Name as configurations write it.
    pub name: &'static str,
    /// First byte.
    pub offset: usize,
    /// Number of bytes.
    pub size: usize,
}

const fn anno(name: &'static str, offset: usize, size: usize) -> Anno {
    assert!(offset + size <= ANNO_BYTES);
    Anno { name, offset, size }
}

/// Destination IPv4 address (or the next hop towards it).
pub const DST_IP: Anno = anno("DST_IP", 0, 4);
/// Destination IPv6 address.
pub const DST_IP6: Anno = anno("DST_IP6", 0, 16);
/// Paint colour.
pub const PAINT: Anno = anno("PAINT", 16, 1);
/// The pointer of an ICMP parameter problem.
pub const ICMP_PARAMPROB: Anno = anno("ICMP_PARAMPROB", 17, 1);
/// FixIPSrc sets the source address if this is not 0.
pub const FIX_IP_SRC: Anno = anno("FIX_IP_SRC", 19, 1);
/// VLAN tag control information, in network order.
pub const VLAN_TCI: Anno = anno("VLAN_TCI", 20, 2);
/// Number of the aggregate that a packet belongs to.
pub const AGGREGATE: Anno = anno("AGGREGATE", 20, 4);
/// Forward rate.
pub const FWD_RATE: Anno = anno("FWD_RATE", 20, 4);
/// Several IP elements' own use.
pub const MISC_IP: Anno = anno("MISC_IP", 20, 4);
/// Packets that a packet stands for besides itself.
pub const EXTRA_PACKETS: Anno = anno("EXTRA_PACKETS", 24, 4);
/// Reverse rate.
pub const REV_RATE: Anno = anno("REV_RATE", 24, 4);
/// Error of a failed send.
pub const SEND_ERR: Anno = anno("SEND_ERR", 26, 1);
/// IPReassembler's own use.
pub const IPREASSEMBLER: Anno = anno("IPREASSEMBLER", 28, 4);
/// Bytes that a packet stands for besides its own.
pub const EXTRA_LENGTH: Anno = anno("EXTRA_LENGTH", 28, 4);
/// Time of a flow's first packet.
pub const FIRST_TIMESTAMP: Anno = anno("FIRST_TIMESTAMP", 32, 8);
/// Number of a packet.
pub const PACKET_NUMBER: Anno = anno("PACKET_NUMBER", 32, 4);
/// IPsec security parameters index.
pub const IPSEC_SPI: Anno = anno("IPSEC_SPI", 32, 4);
/// Sequence number.
pub const SEQUENCE_NUMBER: Anno = anno("SEQUENCE_NUMBER", 36, 4);
/// The packet's security association.
pub const IPSEC_SA_DATA_REFERENCE: Anno = anno("IPSEC_SA_DATA_REFERENCE", 40, 8);
/// Cycle and performance counters.
pub const PERFCTR: Anno = anno("PERFCTR", 40, 8);

/// Every named annotation.
pub const ALL: [Anno; 20] = [
    DST_IP,
    DST_IP6,
    PAINT,
    ICMP_PARAMPROB,
    FIX_IP_SRC,
    VLAN_TCI,
    AGGREGATE,
    FWD_RATE,
    MISC_IP,
    EXTRA_PACKETS,
    REV_RATE,
    SEND_ERR,
    IPREASSEMBLER,
    EXTRA_LENGTH,
    FIRST_TIMESTAMP,
    PACKET_NUMBER,
    IPSEC_SPI,
    SEQUENCE_NUMBER,
    IPSEC_SA_DATA_REFERENCE,
    PERFCTR,
];
