//! Fragments of both versions of IP.

use core::ops::Range;

use super::LONGEST;
use crate::prelude::*;
use crate::rewriter::headers::is_ip6;

/// Length of IPv6's fixed header.
pub const HEADER6: usize = Ipv6Packet::<&[u8]>::HEADER_LEN;
/// Length of a fragment header.
const FRAGMENT: usize = 8;
/// Where IPv6's fixed header says what follows it.
const NEXT_HEADER: usize = 6;

/// What the fragments of one packet have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub ident: u32,
    /// Of IPv4.
    pub protocol: u8,
}

/// Where a fragment's parts are, counted from its network header.
pub struct Parts {
    /// Length of the headers that its packet begins with.
    pub front: usize,
    /// Of IPv6: where in them the kind of the next header stands, and the kind of what follows the fragment header.
    pub link: Option<(usize, IpProtocol)>,
    /// Its payload.
    pub bytes: Range<usize>,
}

/// A fragment, as far as its header makes sense.
pub struct Fragment {
    pub key: Key,
    /// Where its payload belongs in the packet's.
    pub place: Range<usize>,
    /// Whether nothing comes behind.
    pub last: bool,
    pub parts: Parts,
}

/// Whether a packet is a part of another.
#[inline]
pub fn is_fragment(packet: &Packet) -> bool {
    if is_ip6(packet) {
        return is_fragment6(packet);
    }
    let header = packet.network_header().unwrap_or_default();
    Ipv4Packet::new_unchecked(header).is_fragment()
}

#[inline(never)]
fn is_fragment6(packet: &Packet) -> bool {
    let header = packet.network_header().unwrap_or_default();
    Ipv6Packet::new_quoted(header).is_ok_and(|ip| {
        let mut fragments = ip.extensions().map_while(Result::ok);
        let fragment = fragments.find_map(|extension| extension.fragment());
        fragment.is_some_and(|fragment| fragment.offset != 0 || fragment.more)
    })
}

impl Fragment {
    /// `None` if a length is impossible.
    pub fn of(packet: &Packet) -> Option<Fragment> {
        let header = packet.network_header()?;
        match is_ip6(packet) {
            true => Fragment::of_ip6(header),
            false => Fragment::of_ip4(header),
        }
    }

    fn of_ip4(header: &[u8]) -> Option<Fragment> {
        let ip = Ipv4Packet::new_checked(header).ok()?;
        let (front, total) = (ip.header_len(), usize::from(ip.total_len()));
        let key = Key {
            source: ip.source().into(),
            destination: ip.destination().into(),
            ident: ip.ident().into(),
            protocol: ip.protocol().0,
        };
        let start = usize::from(ip.fragment_offset());
        let parts = Parts {
            front,
            link: None,
            bytes: front..total,
        };
        Fragment::new(key, start, ip.more_fragments(), parts)
    }

    fn of_ip6(header: &[u8]) -> Option<Fragment> {
        let ip = Ipv6Packet::new_checked(header).ok()?;
        let mut link = NEXT_HEADER;
        for extension in ip.extensions() {
            let extension = extension.ok()?;
            let Some(fragment) = extension.fragment() else {
                link = extension.at;
                continue;
            };
            let key = Key {
                source: ip.source().into(),
                destination: ip.destination().into(),
                ident: fragment.ident,
                protocol: 0,
            };
            let next = IpProtocol(*extension.bytes.first()?);
            let end = HEADER6 + usize::from(ip.payload_len());
            let parts = Parts {
                front: extension.at,
                link: Some((link, next)),
                bytes: extension.at + FRAGMENT..end,
            };
            return Fragment::new(key, fragment.offset.into(), fragment.more, parts);
        }
        None
    }

    fn new(key: Key, start: usize, more: bool, parts: Parts) -> Option<Fragment> {
        let length = parts.bytes.end.checked_sub(parts.bytes.start)?;
        let end = start + length;
        if length == 0 || end > LONGEST || (more && !end.is_multiple_of(8)) {
            return None;
        }
        Some(Fragment {
            key,
            place: start..end,
            last: !more,
            parts,
        })
    }
}
