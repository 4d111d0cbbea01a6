//! What has arrived: which socket a packet is for. All of it is another host's word.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use rustix::io::Errno;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, Icmpv4DstUnreachable, Icmpv4Message,
    Icmpv4Packet, Icmpv6DstUnreachable, Icmpv6Message, Icmpv6Packet, IpAddress, IpProtocol,
    Ipv4Packet, Ipv6Packet, TcpPacket, UdpPacket, UdpRepr,
};

use super::network::Way;

/// A packet that has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// A segment.
    Tcp(Segment),
    /// A datagram, whose checksums are right.
    Udp(Received),
    /// What a host says of a packet that this one is said to have sent.
    Error(Reported),
    /// Where a neighbour is.
    Neighbour,
    /// Anything else: smoltcp's interface deals with it.
    Other,
    /// Not for this host.
    Foreign,
}

/// What of a segment concerns who gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// It asks for a connection.
    pub opens: bool,
    /// It ends one.
    pub resets: bool,
}

/// A datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Received {
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub hop_limit: u8,
    pub traffic_class: u8,
    /// Where its payload is in the frame.
    pub payload: Range<usize>,
}

/// An error that a host reports (RFC 792, RFC 4443).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reported {
    /// Whether it is about a segment, not a datagram.
    pub tcp: bool,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub error: Errno,
}

/// Looks at a frame of the VNIC, whose address is `mac`, or at a packet of the loopback.
pub(super) fn look(way: Way, frame: &[u8], mac: EthernetAddress) -> Arrival {
    match way {
        Way::Vnic => ethernet(frame, mac),
        Way::Loopback => match frame.first().map(|first| first >> 4) {
            Some(4) => ipv4(way, frame, 0),
            Some(6) => ipv6(way, frame, 0),
            _ => Arrival::Foreign,
        },
    }
}

fn ethernet(frame: &[u8], mac: EthernetAddress) -> Arrival {
    let Ok(ethernet) = EthernetFrame::new_checked(frame) else {
        return Arrival::Foreign;
    };
    let to = ethernet.dst_addr();
    if to != mac && !to.is_multicast() && !to.is_broadcast() {
        return Arrival::Foreign;
    }
    let at = super::vnic::ETHERNET;
    match ethernet.ethertype() {
        EthernetProtocol::Arp => Arrival::Neighbour,
        EthernetProtocol::Ipv4 => ipv4(Way::Vnic, &frame[at..], at),
        EthernetProtocol::Ipv6 => ipv6(Way::Vnic, &frame[at..], at),
        _ => Arrival::Other,
    }
}

/// Checksums of packets that never left this process are not there.
fn checksums(way: Way) -> ChecksumCapabilities {
    match way {
        Way::Vnic => ChecksumCapabilities::default(),
        Way::Loopback => ChecksumCapabilities::ignored(),
    }
}

fn ipv4(way: Way, bytes: &[u8], at: usize) -> Arrival {
    let Ok(packet) = Ipv4Packet::new_checked(bytes) else {
        return Arrival::Foreign;
    };
    let whole = !packet.more_frags() && packet.frag_offset() == 0;
    let right = way == Way::Loopback || packet.verify_checksum();
    let from = packet.src_addr();
    if !whole || !right || from.is_multicast() || from.is_broadcast() {
        return Arrival::Other;
    }
    let header = Ip {
        way,
        addresses: (IpAddr::V4(from), IpAddr::V4(packet.dst_addr())),
        hop_limit: packet.hop_limit(),
        traffic_class: packet.dscp() << 2 | packet.ecn(),
        payload_at: at + usize::from(packet.header_len()),
    };
    match packet.next_header() {
        IpProtocol::Icmp => match Icmpv4Packet::new_checked(packet.payload()) {
            Ok(icmp) if icmp.verify_checksum() => reported4(&icmp),
            _ => Arrival::Other,
        },
        protocol => transport(protocol, packet.payload(), &header),
    }
}

fn ipv6(way: Way, bytes: &[u8], at: usize) -> Arrival {
    let Ok(packet) = Ipv6Packet::new_checked(bytes) else {
        return Arrival::Foreign;
    };
    let from = packet.src_addr();
    if from.is_multicast() {
        return Arrival::Other;
    }
    let header = Ip {
        way,
        addresses: (IpAddr::V6(from), IpAddr::V6(packet.dst_addr())),
        hop_limit: packet.hop_limit(),
        traffic_class: packet.traffic_class(),
        payload_at: at + packet.header_len(),
    };
    match packet.next_header() {
        IpProtocol::Icmpv6 => match Icmpv6Packet::new_checked(packet.payload()) {
            Ok(icmp) if icmp.verify_checksum(&from, &packet.dst_addr()) => reported6(&icmp),
            _ => Arrival::Other,
        },
        // Extension headers are smoltcp's affair: no socket gets such a packet.
        protocol => transport(protocol, packet.payload(), &header),
    }
}

/// What an IP header says.
struct Ip {
    way: Way,
    /// From and to.
    addresses: (IpAddr, IpAddr),
    hop_limit: u8,
    traffic_class: u8,
    payload_at: usize,
}

fn transport(protocol: IpProtocol, payload: &[u8], ip: &Ip) -> Arrival {
    let (from, to) = ip.addresses;
    match protocol {
        IpProtocol::Tcp => match TcpPacket::new_checked(payload) {
            Ok(tcp) => Arrival::Tcp(Segment {
                local: SocketAddr::new(to, tcp.dst_port()),
                remote: SocketAddr::new(from, tcp.src_port()),
                opens: tcp.syn() && !tcp.ack() && !tcp.rst() && !tcp.fin(),
                resets: tcp.rst(),
            }),
            Err(_) => Arrival::Foreign,
        },
        IpProtocol::Udp => {
            let Ok(udp) = UdpPacket::new_checked(payload) else {
                return Arrival::Foreign;
            };
            let ends: (IpAddress, IpAddress) = (from.into(), to.into());
            if UdpRepr::parse(&udp, &ends.0, &ends.1, &checksums(ip.way)).is_err() {
                return Arrival::Foreign;
            }
            const HEADER: usize = 8;
            let start = ip.payload_at + HEADER;
            Arrival::Udp(Received {
                local: SocketAddr::new(to, udp.dst_port()),
                remote: SocketAddr::new(from, udp.src_port()),
                hop_limit: ip.hop_limit,
                traffic_class: ip.traffic_class,
                payload: start..start + udp.payload().len(),
            })
        }
        _ => Arrival::Other,
    }
}

fn reported4(icmp: &Icmpv4Packet<&[u8]>) -> Arrival {
    if icmp.msg_type() != Icmpv4Message::DstUnreachable {
        return Arrival::Other;
    }
    // Linux's errors for the codes (icmp_err_convert).
    let error = match Icmpv4DstUnreachable::from(icmp.msg_code()) {
        Icmpv4DstUnreachable::NetUnreachable | Icmpv4DstUnreachable::DstNetUnknown => {
            Errno::NETUNREACH
        }
        Icmpv4DstUnreachable::PortUnreachable => Errno::CONNREFUSED,
        Icmpv4DstUnreachable::ProtoUnreachable => Errno::NOPROTOOPT,
        Icmpv4DstUnreachable::FragRequired => Errno::MSGSIZE,
        _ => Errno::HOSTUNREACH,
    };
    let quoted = icmp.data();
    // Only the first bytes of its payload are quoted.
    let packet = Ipv4Packet::new_unchecked(quoted);
    if quoted.len() < 20 || quoted[0] >> 4 != 4 {
        return Arrival::Other;
    }
    let header = usize::from(packet.header_len());
    let ends = (packet.src_addr().into(), packet.dst_addr().into());
    quoted_ports(packet.next_header(), quoted.get(header..), ends, error)
}

fn reported6(icmp: &Icmpv6Packet<&[u8]>) -> Arrival {
    let error = match icmp.msg_type() {
        Icmpv6Message::NeighborSolicit | Icmpv6Message::NeighborAdvert => {
            return Arrival::Neighbour;
        }
        Icmpv6Message::PktTooBig => Errno::MSGSIZE,
        Icmpv6Message::DstUnreachable => match Icmpv6DstUnreachable::from(icmp.msg_code()) {
            Icmpv6DstUnreachable::NoRoute => Errno::NETUNREACH,
            Icmpv6DstUnreachable::AdminProhibit => Errno::ACCESS,
            Icmpv6DstUnreachable::PortUnreachable => Errno::CONNREFUSED,
            _ => Errno::HOSTUNREACH,
        },
        _ => return Arrival::Other,
    };
    let quoted = icmp.payload();
    if quoted.len() < 40 || quoted[0] >> 4 != 6 {
        return Arrival::Other;
    }
    let packet = Ipv6Packet::new_unchecked(quoted);
    let ends = (packet.src_addr().into(), packet.dst_addr().into());
    quoted_ports(packet.next_header(), quoted.get(40..), ends, error)
}

/// The ends of a packet of which the first bytes are quoted.
fn quoted_ports(
    protocol: IpProtocol,
    quoted: Option<&[u8]>,
    (local, remote): (IpAddr, IpAddr),
    error: Errno,
) -> Arrival {
    let tcp = match protocol {
        IpProtocol::Tcp => true,
        IpProtocol::Udp => false,
        _ => return Arrival::Other,
    };
    let Some(&[a, b, c, d, ..]) = quoted else {
        return Arrival::Other;
    };
    Arrival::Error(Reported {
        tcp,
        local: SocketAddr::new(local, u16::from_be_bytes([a, b])),
        remote: SocketAddr::new(remote, u16::from_be_bytes([c, d])),
        error,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use smoltcp::wire::{Ipv4Repr, TcpControl, TcpRepr, TcpSeqNumber};

    use super::*;

    const MAC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 1]);

    /// A whole frame with a payload of an IP protocol.
    fn frame(protocol: IpProtocol, len: usize, emit: impl FnOnce(&mut [u8])) -> Vec<u8> {
        let ip = Ipv4Repr {
            src_addr: [10, 0, 0, 1].into(),
            dst_addr: [10, 0, 0, 2].into(),
            next_header: protocol,
            payload_len: len,
            hop_limit: 9,
        };
        let mut bytes = vec![0; 34 + len];
        let mut ethernet = EthernetFrame::new_unchecked(&mut bytes);
        ethernet.set_dst_addr(MAC);
        ethernet.set_ethertype(EthernetProtocol::Ipv4);
        let mut packet = Ipv4Packet::new_unchecked(ethernet.payload_mut());
        ip.emit(&mut packet, &ChecksumCapabilities::default());
        emit(packet.payload_mut());
        bytes
    }

    fn ends() -> (SocketAddr, SocketAddr) {
        (
            "10.0.0.2:80".parse().unwrap(),
            "10.0.0.1:4000".parse().unwrap(),
        )
    }

    #[test]
    fn a_datagram_is_found_with_its_payload() {
        let udp = UdpRepr {
            src_port: 4000,
            dst_port: 80,
        };
        let (local, remote) = ends();
        let mut bytes = frame(IpProtocol::Udp, 13, |room| {
            let mut packet = UdpPacket::new_unchecked(room);
            let ends: (IpAddress, IpAddress) = (remote.ip().into(), local.ip().into());
            let put = |room: &mut [u8]| room.copy_from_slice(b"hello");
            udp.emit(
                &mut packet,
                &ends.0,
                &ends.1,
                5,
                put,
                &ChecksumCapabilities::default(),
            );
        });
        let Arrival::Udp(datagram) = look(Way::Vnic, &bytes, MAC) else {
            panic!("no datagram");
        };
        assert_eq!(
            (datagram.local, datagram.remote, datagram.hop_limit),
            (local, remote, 9)
        );
        assert_eq!(&bytes[datagram.payload], b"hello");
        // A switch floods what it knows no port for.
        let other = EthernetAddress([2, 0, 0, 0, 0, 9]);
        assert_eq!(look(Way::Vnic, &bytes, other), Arrival::Foreign);
        *bytes.last_mut().unwrap() ^= 1;
        assert_eq!(look(Way::Vnic, &bytes, MAC), Arrival::Foreign);
    }

    #[test]
    fn an_error_is_about_what_is_quoted() {
        let tcp = TcpRepr {
            src_port: 80,
            dst_port: 4000,
            control: TcpControl::Syn,
            seq_number: TcpSeqNumber(1),
            ack_number: None,
            window_len: 1,
            window_scale: None,
            max_seg_size: None,
            sack_permitted: false,
            sack_ranges: [None; 3],
            timestamp: None,
            payload: &[],
        };
        let (local, remote) = ends();
        let sent = frame(IpProtocol::Tcp, tcp.buffer_len(), |room| {
            let ends: (IpAddress, IpAddress) = (local.ip().into(), remote.ip().into());
            let mut packet = TcpPacket::new_unchecked(room);
            tcp.emit(
                &mut packet,
                &ends.0,
                &ends.1,
                &ChecksumCapabilities::default(),
            );
        });
        let bytes = frame(IpProtocol::Icmp, 8 + 28, |room| {
            room[8..].copy_from_slice(&sent[14..42]);
            let mut icmp = Icmpv4Packet::new_unchecked(room);
            icmp.set_msg_type(Icmpv4Message::DstUnreachable);
            icmp.set_msg_code(Icmpv4DstUnreachable::HostUnreachable.into());
            icmp.fill_checksum();
        });
        let Arrival::Error(reported) = look(Way::Vnic, &bytes, MAC) else {
            panic!("no error");
        };
        assert_eq!((reported.tcp, reported.error), (true, Errno::HOSTUNREACH));
        assert_eq!((reported.local.port(), reported.remote.port()), (80, 4000));
    }

    proptest! {
        /// Whatever a neighbour sends, or what has come of it, is looked at without a panic, and a payload is in it.
        #[test]
        fn any_bytes_are_an_arrival(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..200),
            kind in 0..4usize,
            protocol in prop::sample::select(vec![1u8, 6, 17, 58]),
        ) {
            let heads: [&[u8]; 4] = [&[], &[0x08, 0x00, 0x45], &[0x86, 0xdd, 0x60], &[0x08, 0x06]];
            for (at, byte) in heads[kind].iter().enumerate() {
                if let Some(there) = bytes.get_mut(12 + at) {
                    *there = *byte;
                }
            }
            bytes.iter_mut().zip(MAC.0).for_each(|(there, byte)| *there = byte);
            for at in [14 + 9, 14 + 6] {
                if let Some(there) = bytes.get_mut(at) {
                    *there = protocol;
                }
            }
            for (way, bytes) in [(Way::Vnic, &bytes[..]), (Way::Loopback, bytes.get(14..).unwrap_or(&[]))] {
                if let Arrival::Udp(datagram) = look(way, bytes, MAC) {
                    prop_assert!(datagram.payload.end <= bytes.len());
                }
            }
        }
    }
}
