use crate::prelude::*;

/// How many packets that may not be fragmented draw a message.
const MESSAGES: u64 = 5;
/// Up to so many later fragments are made before the first leaves, which is the packet itself then.
const FEW: usize = 4;

/// Cuts IP packets that are too long for a link into fragments.
///
/// Packets must have their IP header marked, and should have no link header, which only the first
/// fragment would keep. A packet that fits passes unchanged. A longer one leaves as fragments, in
/// order, with the packet's annotations. Packets that must not be fragmented, and packets whose
/// fragments cannot fit, are dropped, the first five with a message.
///
/// # Example
/// ```click
/// FromDevice(eth0) -> Strip(14) -> CheckIPHeader -> f :: IPFragmenter(1024)
///     -> out :: Queue -> ToDevice(eth1);
/// f[1] -> ICMPError(18.26.4.24, unreachable, needfrag, PMTU 1024) -> out;
/// ```
///
/// # See also
/// ICMPError, CheckLength, IPReassembler
#[derive(Element)]
#[element(ports = "1/1-2", processing = "h/h", segments)]
#[outputs(
    "packets that fit, and fragments",
    "packets that cannot be fragmented, unchanged"
)]
pub struct IPFragmenter {
    /// Longest IP packet that fits, 8 at least.
    #[arg(mandatory)]
    mtu: u32,
    /// Whether "don't fragment" is obeyed. If not, the flag is cleared, and the packet gets a
    /// random identification.
    #[arg(positional, default = true)]
    honor_df: bool,
    /// Whether every packet dropped draws a message.
    #[arg(positional)]
    verbose: bool,
    /// Bytes kept free in front of fragments.
    #[arg(default = HEADROOM as u32, default_text = "128")]
    headroom: u32,
    /// Packets that could not be fragmented.
    #[handler(read)]
    drops: u64,
    /// Fragments made.
    #[handler(read)]
    fragments: u64,
}

/// The header and options that all fragments but the first have, without length, place and checksum.
struct Later {
    bytes: [u8; 60],
    len: usize,
    sum: Sum,
}

impl Later {
    /// From the header of the whole packet.
    fn of(header: &[u8; 20], options: &[u8]) -> Later {
        let (mut bytes, mut len) = ([0; 60], 20);
        bytes[..20].copy_from_slice(header);
        // A malformed option ends the list: no fragment repeats it.
        for option in Ipv4Options::new(options).map_while(Result::ok) {
            if option.kind.is_copied() {
                bytes[len..len + option.bytes.len()].copy_from_slice(option.bytes);
                len += option.bytes.len();
            }
        }
        // The rest of the last word is the option that ends the list: zeros.
        len = len.next_multiple_of(4);
        let mut ip = Ipv4Packet::new_unchecked(&mut bytes[..len]);
        ip.set_header_len(len);
        ip.set_fragment(false, false, 0);
        ip.set_total_len(0);
        ip.set_checksum(0);
        let sum = Sum::of(ip.bytes());
        Later { bytes, len, sum }
    }
}

impl IPFragmenter {
    /// Sends on a packet that is longer than the MTU.
    fn fragment(&mut self, cx: &mut Cx<'_>, mut packet: Packet) {
        if !packet.make_whole() {
            // No fragments of segments: their sender is to make them shorter.
            return self.refuse(cx, packet);
        }
        let mtu = self.mtu as usize;
        let header = packet.network_header().unwrap_or_default();
        let Ok(ip) = Ipv4Packet::new_quoted(header) else {
            return self.refuse(cx, packet);
        };
        let hlen = ip.header_len();
        // The header may promise more than there is, or leave padding behind its end.
        let length = usize::from(ip.total_len()).min(header.len());
        if (hlen..=mtu).contains(&length) {
            packet.take(header.len() - length);
            return cx.emit(0, packet);
        }
        let first = mtu.saturating_sub(hlen) & !7;
        if (ip.dont_fragment() && self.honor_df) || first < 8 || length < hlen {
            return self.refuse(cx, packet);
        }
        self.cut(cx, packet, hlen, first, length - hlen);
    }

    /// Emits the fragments of `packet`, whose header takes `hlen` bytes and whose payload takes
    /// `payload`, of which the first fragment has `first`.
    fn cut(
        &mut self,
        cx: &mut Cx<'_>,
        mut packet: Packet,
        hlen: usize,
        first: usize,
        payload: usize,
    ) {
        // Who sets "don't fragment" need not number packets (RFC 6864).
        let ident = (!self.honor_df).then(|| cx.random().next_u32() as u16);
        let Some(header) = packet.network_header_mut() else {
            return cx.kill(packet);
        };
        let mut ip = Ipv4Packet::new_unchecked(header);
        if let Some(ident) = ident.filter(|_| ip.dont_fragment()) {
            ip.set_ident(ident);
        }
        let (last_has_more, base) = (ip.more_fragments(), ip.fragment_offset());
        ip.set_fragment(false, true, base);
        ip.set_total_len((hlen + first) as u16);
        ip.fill_checksum();
        let later = Later::of(ip.header(), ip.option_bytes());

        let most = (self.mtu as usize - later.len) & !7;
        let places = (first..payload).step_by(most);
        let pieces = places.map(|at| {
            let length = most.min(payload - at);
            let more = last_has_more || at + length < payload;
            let offset = base.wrapping_add(at as u16);
            (hlen + at..hlen + at + length, offset, more)
        });
        if pieces.len() > FEW || packet.headroom() < self.headroom as usize {
            let start = self.first(cx, &packet, hlen + first);
            self.send(cx, start);
            for piece in pieces {
                let fragment = self.later(cx, &packet, &later, piece);
                self.send(cx, fragment);
            }
            return cx.kill(packet);
        }
        let made: heapless::Vec<_, FEW> = pieces
            .map(|piece| self.later(cx, &packet, &later, piece))
            .collect();
        packet.take(packet.network_header().map_or(0, <[u8]>::len) - hlen - first);
        self.send(cx, Some(packet));
        for fragment in made {
            self.send(cx, fragment);
        }
    }

    /// Sends a fragment, if there was memory for it.
    #[inline]
    fn send(&mut self, cx: &mut Cx<'_>, fragment: Option<Packet>) {
        if let Some(fragment) = fragment {
            self.fragments += 1;
            cx.emit(0, fragment);
        }
    }

    /// A copy of the packet up to `length` bytes behind the start of its IP header: the first fragment.
    fn first(&self, cx: &mut Cx<'_>, packet: &Packet, length: usize) -> Option<Packet> {
        let network = packet.network_header()?.len();
        let link = packet.len().saturating_sub(network);
        let bytes = packet.data().get(..link + length)?;
        let mut fragment = cx.pool().packet(self.headroom as usize, bytes.len())?;
        fragment.data_mut().copy_from_slice(bytes);
        fragment.copy_meta(packet);
        if packet.mac_offset().is_some_and(|at| at < 0) {
            // It was stripped, and not copied.
            fragment.clear_mac_header();
        }
        Some(fragment)
    }

    /// Another fragment: a piece of the packet, counted from the start of its IP header, behind
    /// the header of `later`; its place in the whole, and whether more follow.
    fn later(
        &self,
        cx: &mut Cx<'_>,
        packet: &Packet,
        later: &Later,
        (piece, offset, more): (core::ops::Range<usize>, u16, bool),
    ) -> Option<Packet> {
        let payload = packet.network_header()?.get(piece)?;
        let length = later.len + payload.len();
        let mut fragment = cx.pool().packet(self.headroom as usize, length)?;
        let (header, rest) = fragment.data_mut().split_at_mut(later.len);
        header.copy_from_slice(&later.bytes[..later.len]);
        rest.copy_from_slice(payload);
        let mut ip = Ipv4Packet::new_unchecked(header);
        ip.set_fragment(false, more, offset);
        ip.set_total_len(length as u16);
        // The header is not read for its sum: a read right behind narrower writes takes a dozen cycles.
        let place = ip.header().get(6..8).and_then(<[u8]>::first_chunk);
        let place = u16::from_be_bytes(*place?);
        let sum = later.sum.add_u16(length as u16).add_u16(place);
        ip.set_checksum(sum.checksum());
        fragment.copy_meta(packet);
        fragment.clear_mac_header();
        fragment.set_network_header(0, later.len);
        Some(fragment)
    }

    #[cold]
    fn refuse(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        if self.verbose || self.drops < MESSAGES {
            let header = packet.network_header().unwrap_or_default();
            let ip = Ipv4Packet::new_unchecked(header);
            cx.chatter(format_args!(
                "IPFragmenter({}) DF {} {} len={}",
                self.mtu,
                ip.source(),
                ip.destination(),
                packet.total_len()
            ));
        }
        self.drops += packet.stands_for() as u64;
        cx.emit(1, packet);
    }

    #[inline]
    fn fits(&self, packet: &Packet) -> bool {
        packet
            .longest_ip()
            .is_none_or(|length| length <= self.mtu as usize)
    }
}

impl Element for IPFragmenter {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if self.mtu < 8 {
            return Err(args.fail("MTU must be at least 8"));
        }
        Ok(())
    }

    #[inline]
    fn effects(&self) -> Effects {
        Effects {
            no_op: Facts::FITS_ETHERNET.if_so(self.mtu as usize >= Facts::ETHERNET),
            ..Effects::default()
        }
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        if batch.facts().include(self.effects().no_op) {
            return 0;
        }
        // All are asked, as that is quicker than to ask whether to go on.
        if !batch
            .iter()
            .fold(true, |all, packet| all & self.fits(packet))
        {
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
mod tests;
