use core::ops::Range;

use crate::prelude::*;

/// Cuts IPv6 packets that are longer than a link allows into fragments.
///
/// Packets must have their IPv6 header marked; others pass unchanged, as do packets that fit. One that an IPReassembler
/// put together fits if it is no longer than its longest fragment was, if MTU_ANNO is the IPReassembler's MAX_MTU_ANNO: the
/// path behind may carry no more. A longer packet is cut as RFC 8200, section 4.5, says: the headers for routers (up to hop-by-hop
/// options and routing headers) precede each fragment; a fragment is cut further. Fragments start
/// with the IPv6 header, and have the packet's annotations.
///
/// Only senders, and translators for them, may fragment: a router has to answer with "packet too
/// big" instead. With HONOR_DF it treats every packet as one that must not be fragmented, but for those that were put
/// together.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> Strip(14) -> CheckIP6Header
///     -> fr :: IP6Fragmenter(1280, HONOR_DF true) -> Discard;
/// fr[1] -> ICMP6Error(2001:db8::1, 2, 0, PMTU 1280) -> IP6Print -> Discard;
/// ```
///
/// # See also
/// ICMP6Error, IPFragmenter
#[derive(Element)]
#[element(ports = "1/1-2", processing = "h/h", segments)]
#[outputs("packets and fragments", "packets that are too long and cannot be cut")]
pub struct IP6Fragmenter {
    /// Longest packet, in bytes; at least 56, and at least 1280 on any real link.
    #[arg(mandatory)]
    mtu: u32,
    /// Whether packets that are too long leave by output 1 whole.
    #[arg]
    honor_df: bool,
    /// Two bytes of a packet's annotations: if they are not 0, it was put together from fragments, the longest of
    /// this length.
    #[arg]
    mtu_anno: Option<AnnoOf<2>>,
    /// Packets that could not be cut.
    #[handler(read)]
    drops: u64,
    /// Fragments made.
    #[handler(read)]
    fragments: u64,
}

/// What every link carries (RFC 8200, section 5).
const LEAST: usize = 1280;
/// Length of a fragment header.
const FRAGMENT: usize = 8;
/// An IPv6 header, a fragment header, and the least that is cut off.
const MTU_MIN: u32 = 56;

/// How a packet is cut.
struct Plan {
    /// Length of the headers that each fragment starts with.
    kept: usize,
    /// Where, in those, the kind of the next header stands.
    link: usize,
    /// What follows the fragment header.
    next: u8,
    /// What is cut, counted from the start of the IPv6 header.
    payload: Range<usize>,
    /// The fragment header of a packet that is a fragment already.
    fragment: Option<Fragment>,
    /// Payload of a fragment, a multiple of eight.
    piece: usize,
}

impl Plan {
    /// `None` if the packet cannot be cut.
    fn of(ip: &Ipv6Packet<&[u8]>, mtu: usize) -> Option<Plan> {
        let end = 40 + ip.payload().len();
        let mut plan = Plan {
            kept: 40,
            link: 6,
            next: ip.next_header().0,
            payload: 40..end,
            fragment: None,
            piece: 0,
        };
        let mut link = plan.link;
        for extension in ip.extensions() {
            let extension = extension.ok()?;
            let named_at = core::mem::replace(&mut link, extension.at);
            let behind = extension.at + extension.bytes.len();
            let next = *extension.bytes.first()?;
            plan.fragment = extension.fragment();
            if plan.fragment.is_some() {
                (plan.kept, plan.link) = (extension.at, named_at);
            } else if matches!(extension.kind, IpProtocol::HOP_BY_HOP | IpProtocol::ROUTING) {
                (plan.kept, plan.link) = (behind, extension.at);
            } else {
                continue;
            }
            (plan.next, plan.payload.start) = (next, behind);
            if plan.fragment.is_some() {
                break;
            }
        }
        plan.piece = mtu.checked_sub(plan.kept + FRAGMENT)? & !7;
        let whole = plan.base() + plan.payload.len();
        (plan.piece >= 8 && whole <= 0xffff).then_some(plan)
    }

    /// Where the payload belongs in the whole.
    fn base(&self) -> usize {
        self.fragment
            .map_or(0, |fragment| usize::from(fragment.offset))
    }

    /// The fragment of `piece`, a part of the payload; `None` if there is no memory.
    fn fragment(
        &self,
        cx: &mut Cx<'_>,
        packet: &Packet,
        piece: Range<usize>,
        ident: u32,
    ) -> Option<Packet> {
        let header = packet.network_header()?;
        let (kept, payload) = (header.get(..self.kept)?, header.get(piece.clone())?);
        let more =
            piece.end < self.payload.end || self.fragment.is_some_and(|fragment| fragment.more);
        let offset = self.base() + piece.start - self.payload.start;
        let length = self.kept + FRAGMENT + payload.len();
        let mut fragment = cx.pool().packet(HEADROOM, length)?;
        let (headers, rest) = fragment.data_mut().split_at_mut(self.kept);
        headers.copy_from_slice(kept);
        *headers.get_mut(self.link)? = IpProtocol::FRAGMENT.0;
        Ipv6Packet::new_unchecked(headers).set_payload_len((length - 40) as u16);
        let (fragment_header, body) = rest.split_at_mut(FRAGMENT);
        let [high, low] = (offset as u16 | u16::from(more)).to_be_bytes();
        let [a, b, c, d] = ident.to_be_bytes();
        fragment_header.copy_from_slice(&[self.next, 0, high, low, a, b, c, d]);
        body.copy_from_slice(payload);
        fragment.copy_meta(packet);
        fragment.clear_mac_header();
        fragment.set_network_header(0, 40);
        Some(fragment)
    }
}

impl IP6Fragmenter {
    /// Sends on a packet that may be longer than the MTU.
    fn fragment(&mut self, cx: &mut Cx<'_>, mut packet: Packet) {
        if !packet.make_whole() {
            // No fragments of segments: their sender is to make them shorter.
            return self.refuse(cx, packet);
        }
        let mtu = self.mtu_of(&packet);
        let header = packet.network_header().unwrap_or_default();
        let Ok(ip) = Ipv6Packet::new_checked(header) else {
            return self.refuse(cx, packet);
        };
        let length = 40 + usize::from(ip.payload_len());
        if length <= mtu {
            // There is padding behind its end.
            packet.take(header.len() - length);
            return cx.emit(0, packet);
        }
        let may_be_cut = !self.honor_df || self.longest(&packet).is_some();
        let Some(plan) = Plan::of(&ip, mtu).filter(|_| may_be_cut) else {
            return self.refuse(cx, packet);
        };
        let ident = match plan.fragment {
            Some(fragment) => fragment.ident,
            None => cx.random().next_u32(),
        };
        let mut at = plan.payload.start;
        while at < plan.payload.end {
            let end = plan.payload.end.min(at + plan.piece);
            if let Some(fragment) = plan.fragment(cx, &packet, at..end, ident) {
                self.fragments += 1;
                cx.emit(0, fragment);
            }
            at = end;
        }
        cx.kill(packet);
    }

    #[cold]
    fn refuse(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        self.drops += packet.stands_for() as u64;
        cx.emit(1, packet);
    }

    /// The longest fragment of a packet that was put together.
    #[inline]
    fn longest(&self, packet: &Packet) -> Option<usize> {
        let longest = packet.anno(self.mtu_anno?.anno());
        (longest != 0).then_some(longest as usize)
    }

    /// The longest that may leave of a packet. What came in fragments goes on, on links that carry no more, as such.
    #[inline]
    fn mtu_of(&self, packet: &Packet) -> usize {
        let mtu = self.mtu as usize;
        let longest = self.longest(packet);
        longest.map_or(mtu, |longest| mtu.min(longest.max(LEAST)))
    }

    #[inline]
    fn fits(&self, packet: &Packet) -> bool {
        let length = packet.longest_ip();
        length.is_none_or(|length| length <= self.mtu_of(packet))
    }
}

impl Element for IP6Fragmenter {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if self.mtu < MTU_MIN {
            return Err(args.fail("MTU must be at least 56"));
        }
        Ok(())
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        if !batch.iter().all(|packet| self.fits(packet)) {
            // One by one, so that all packets leave in order.
            for packet in batch.drain() {
                if self.fits(&packet) {
                    cx.emit(0, packet);
                } else {
                    self.fragment(cx, packet);
                }
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::ip6::{addr, packet};
    use crate::testing::*;

    fn rig(args: &str) -> Rig {
        Rig::new(&format!(
            "i :: Inject -> MarkIP6Header -> f :: IP6Fragmenter({args}) -> c :: Collect;
            f[1] -> big :: Collect;"
        ))
    }

    fn whole(next: u8, payload: &[u8]) -> Vec<u8> {
        packet(next, addr("2001:db8::a"), addr("2001:db8::b"), payload)
    }

    /// What fragments say together: the headers in front, with the fragment header taken out, and
    /// the payload; and their identification.
    fn reassemble(fragments: &[Vec<u8>], mtu: usize) -> (Vec<u8>, u32) {
        let (mut front, mut payload, mut idents) = (Vec::new(), Vec::<u8>::new(), Vec::new());
        for (i, fragment) in fragments.iter().enumerate() {
            assert!(fragment.len() <= mtu);
            let ip = Ipv6Packet::new_checked(&fragment[..]).unwrap();
            assert_eq!(fragment.len(), 40 + usize::from(ip.payload_len()));
            let mut link = 6;
            for extension in ip.extensions() {
                let extension = extension.unwrap();
                let Some(header) = extension.fragment() else {
                    link = extension.at;
                    continue;
                };
                assert_eq!(usize::from(header.offset), payload.len());
                assert_eq!(header.more, i + 1 < fragments.len());
                idents.push(header.ident);
                front = fragment[..extension.at].to_vec();
                front[link] = extension.bytes[0];
                payload.extend(&fragment[extension.at + 8..]);
            }
        }
        idents.dedup();
        assert_eq!(idents.len(), 1);
        let length = (front.len() - 40 + payload.len()) as u16;
        front[4..6].copy_from_slice(&length.to_be_bytes());
        front.extend(payload);
        (front, idents[0])
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn fragments_make_the_packet_again(
            length in 0usize..4000, mtu in 80usize..1600, options: bool,
        ) {
            let mut payload: Vec<u8> = (0..length).map(|i| i as u8).collect();
            let mut next = 17;
            if options {
                // Hop-by-hop options, then options for the destination.
                next = 0;
                let headers = [60, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0];
                payload.splice(..0, headers);
            }
            let packet = whole(next, &payload);
            let mut rig = rig(&format!("{mtu}"));
            rig.push("i", &packet);
            let out = rig.data("c");
            if packet.len() <= mtu {
                prop_assert_eq!(out, [packet]);
            } else {
                prop_assert_eq!(rig.read("f.fragments"), format!("{}", out.len()));
                prop_assert_eq!(reassemble(&out, mtu).0, packet);
            }
            prop_assert_eq!(rig.outstanding(), 0);
        }
    }

    #[test]
    fn a_fragment_is_cut_further() {
        let payload: Vec<u8> = (0..100).collect();
        let part = [&[17, 0, 0, 0, 0, 0, 0, 77], &payload[..]].concat();
        let mut first = rig("96");
        first.push("i", &whole(44, &part));
        let (packet, ident) = reassemble(&first.data("c"), 96);
        assert_eq!((packet, ident), (whole(17, &payload), 77));
        // From the middle, with more behind.
        let middle = [&[17, 0, 1, 1, 0, 0, 0, 77], &payload[..96]].concat();
        let mut later = rig("96");
        later.push("i", &whole(44, &middle));
        let offsets: Vec<_> = later.data("c").iter().map(|p| (p[42], p[43])).collect();
        assert_eq!(offsets, [(1, 1), (1, 0x31)]);
    }

    #[test]
    fn what_cannot_be_cut_leaves_by_output_1() {
        let long = whole(17, &[0; 200]);
        // Routing headers of 80 bytes leave no room in 96.
        let mut routed = [0; 88];
        (routed[0], routed[1]) = (17, 9);
        let routed = whole(IpProtocol::ROUTING.0, &routed);
        let mut end = [0; 200];
        (end[0], end[2], end[3]) = (17, 0xff, 0xf8);
        let end = whole(44, &end);
        let mut cut = rig("96");
        cut.push_all("i", &[routed.clone(), end.clone()]);
        assert_eq!(cut.data("big"), [routed, end]);
        let mut honest = rig("96, HONOR_DF true");
        honest.push("i", &long);
        assert_eq!(honest.data("big"), [long]);
        assert_eq!(honest.read("f.drops"), "1");
        Rig::refuses(
            "Inject -> IP6Fragmenter(55) -> Collect;",
            "MTU must be at least 56",
        );
    }

    #[test]
    fn padding_does_not_count() {
        let packet = whole(17, &[1; 56]);
        let mut rig = rig("96");
        rig.push("i", &[&packet[..], &[0; 9]].concat());
        assert_eq!(rig.data("c"), [packet]);
    }
}
