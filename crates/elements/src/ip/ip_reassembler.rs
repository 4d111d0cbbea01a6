use core::cmp::Reverse;
use core::fmt::Write;
use core::ops::Range;

use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::prelude::*;
use crate::rewriter::headers::is_ip6;

mod fragment;

use fragment::{Fragment, HEADER6, Key};

/// Nanoseconds of a second.
const SECOND: i64 = 1_000_000_000;
/// A packet of which nothing came for so long is given up, in seconds.
const TIMEOUT: i64 = 30;
/// How often it is looked for such packets, in seconds.
const INTERVAL: i64 = 10;
/// What an incomplete packet counts for besides its payload, in bytes.
const OVERHEAD: usize = 40;
/// One in this many of a pool's own buffers: most packets that may be incomplete. Each has two.
const POOL_SHARE: usize = 8;
/// Where in the header the flags are, and the flags that fragments have in common.
const FLAGS: usize = 6;
const KEPT: u8 = 0xc0;
/// Longest IP packet.
const LONGEST: usize = 0xffff;

/// A packet some of whose fragments are here.
struct Partial {
    /// The payload, as far as it reaches; what is missing is zero.
    payload: Packet,
    /// What of the payload is here: ranges in order that do not touch.
    here: SmallVec<[Range<usize>; 2]>,
    /// The first fragment, or until it comes the one that came first, up to the end of its IP
    /// header; of IPv6, up to the fragment header.
    head: Packet,
    has_first: bool,
    /// Of IPv6, fragments overlapped: nothing becomes of the packet.
    is_spoiled: bool,
    /// The payload's whole length, known from the last fragment on: as far as it reached then.
    length: Option<usize>,
    /// Flags of the fragment that came first: the reserved bit, and not to fragment.
    flags: u8,
    /// Longest fragment, its IP header included.
    longest: usize,
    /// The number of the fragment that came first, of all.
    number: u64,
    /// When the last of the fragments came, in seconds, by the fragments' own times.
    seen: i64,
    /// The same by the router's clock.
    touched: Steady,
}

impl Partial {
    /// Where Click has it: by the upper byte of the identification, the newest first.
    fn rank(&self, key: &Key) -> (u8, Reverse<u64>) {
        ((key.ident >> 8) as u8, Reverse(self.number))
    }

    /// The ports, of what is here of the payload.
    fn ports(&self) -> [u16; 2] {
        match self.payload.data().first_chunk() {
            Some(&[a, b, c, d]) => [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])],
            None => [0; 2],
        }
    }

    fn is_complete(&self) -> bool {
        let all = self.length.map(|length| 0..length);
        let is_here = self.here.len() == 1 && self.here.first() == all.as_ref();
        self.has_first && is_here && !self.is_spoiled
    }

    /// Bytes that it counts for.
    fn memory(&self) -> usize {
        OVERHEAD + self.payload.len() + self.here.len() * size_of::<Range<usize>>()
    }

    /// Whether a fragment's payload may come to where it belongs: over IPv6 there must be nothing yet, but for the
    /// same bytes (RFC 8200, section 4.5).
    fn accepts(&self, place: &Range<usize>, bytes: &[u8]) -> bool {
        let overlaps = |range: &Range<usize>| range.start < place.end && place.start < range.end;
        let has_all = |range: &Range<usize>| range.start <= place.start && place.end <= range.end;
        let is_same = || self.payload.data().get(place.clone()) == Some(bytes);
        !self.here.iter().any(overlaps) || self.here.iter().any(has_all) && is_same()
    }

    /// Copies a fragment's payload to where it belongs. False if there is no memory.
    fn fill(&mut self, place: Range<usize>, bytes: &[u8]) -> bool {
        let reach = self.payload.len();
        let more = place.end.saturating_sub(reach);
        if more > 0 && !self.payload.put(more) {
            return false;
        }
        // What buffers held before stays here.
        if let Some(hole) = self.payload.data_mut().get_mut(reach..place.start) {
            hole.fill(0);
        }
        if let Some(to) = self.payload.data_mut().get_mut(place.clone()) {
            to.copy_from_slice(bytes);
        }
        // Ranges that touch the new one become one with it.
        let first = self.here.partition_point(|range| range.end < place.start);
        let behind = self.here.partition_point(|range| range.start <= place.end);
        match self.here.get_mut(first..behind) {
            Some([one, rest @ ..]) => {
                let last = rest.last().unwrap_or(one);
                *one = one.start.min(place.start)..last.end.max(place.end);
                self.here.drain(first + 1..behind);
            }
            _ => self.here.insert(first, place),
        }
        true
    }

    /// The packet, of what is here. `None` if it would be too long.
    fn assemble(self, whole: bool, mtu: Option<AnnoOf<2>>) -> Option<Packet> {
        let Partial {
            mut payload,
            head,
            longest,
            flags,
            is_spoiled,
            ..
        } = self;
        let network = usize::try_from(head.network_offset()?).ok()?;
        let length = head.len() - network + payload.len();
        let longest_packet = match is_ip6(&head) {
            true => LONGEST + HEADER6,
            false => LONGEST,
        };
        if is_spoiled || length > longest_packet || !payload.push(head.len()) {
            return None;
        }
        payload.data_mut()[..head.len()].copy_from_slice(head.data());
        payload.copy_meta(&head);
        payload.set_anno(IPREASSEMBLER, 0);
        if let Some(anno) = mtu {
            payload.set_anno(anno.anno(), longest as u32);
        }
        if is_ip6(&payload) {
            let mut ip = Ipv6Packet::new_unchecked(payload.network_header_mut()?);
            ip.set_payload_len((length - HEADER6) as u16);
            return Some(payload);
        }
        let mut ip = Ipv4Packet::new_unchecked(payload.network_header_mut()?);
        ip.set_total_len(length as u16);
        let more = !whole && ip.more_fragments();
        ip.set_fragment(false, more, 0);
        if let Some(header) = ip.header_mut() {
            header[FLAGS] |= flags;
        }
        ip.fill_checksum();
        Some(payload)
    }
}

/// Reassembles fragmented IP packets, of IPv4 and IPv6.
///
/// Packets must have their IP header marked. Whole packets pass unchanged; fragments are kept until
/// their packet is complete. A complete packet has the headers and annotations of its first
/// fragment, and the timestamp of the last one to arrive, which is the current time if it has none.
/// A packet without a new fragment for 30
/// seconds is given up. When the fragments take more than `HIMEM` bytes, or more than an eighth of
/// the packet buffers, the packets longest without a new fragment are given up, until three
/// quarters of the limit are left.
///
/// Fragments with impossible lengths are dropped. The last fragment makes the packet's end known: it
/// is where the farthest of the fragments so far ends, and fragments beyond it are dropped. Where
/// fragments of IPv4 overlap, the later fragment's bytes are used. A packet of IPv6 whose fragments overlap with
/// different bytes is dropped (RFC 5722); a fragment that is the whole packet passes as it is (RFC 6946).
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> CheckIPHeader(14) -> IPReassembler -> IPPrint -> Discard;
/// ```
///
/// # See also
/// IPFragmenter, IP6Fragmenter
#[derive(Element)]
#[element(ports = "1/1-2", processing = "a/ah", segments, handlers)]
#[outputs(
    "whole packets",
    "packets given up, as one packet with the fragments that came"
)]
pub struct IPReassembler {
    /// Most memory for packets that are not complete, in bytes.
    #[arg(default = 262_144)]
    himem: u32,
    /// Two bytes in which to put the length of the longest fragment.
    #[arg]
    max_mtu_anno: Option<AnnoOf<2>>,
    partial: HashMap<Key, Partial>,
    memory: usize,
    /// When to look for packets to give up, in seconds, by the fragments' times.
    reap_at: i64,
    /// Gives packets up when no fragments come at all.
    timer: Option<TimerId>,
    /// The wall clock at the batch's first fragment without a time.
    now: Option<i64>,
    seen: u64,
    good: u64,
    failed: u64,
    bad: u64,
}

impl IPReassembler {
    /// Takes a fragment in; gives the packet back if it is complete now.
    fn take(&mut self, cx: &mut Cx<'_>, packet: &Packet) -> Option<Packet> {
        self.seen += 1;
        let now = packet.timestamp().div_euclid(SECOND);
        self.reap(cx, now);
        let Some(fragment) = Fragment::of(packet) else {
            self.bad += 1;
            return None;
        };
        if self.memory > self.himem as usize {
            self.reap_oldest(cx, self.himem as usize / 4 * 3, usize::MAX);
        }
        let key = fragment.key;
        let (mut partial, fresh) = match self.partial.remove(&key) {
            Some(partial) => {
                self.memory -= partial.memory();
                (partial, false)
            }
            None => {
                let most = (cx.pool().own() / POOL_SHARE).max(1);
                if self.partial.len() >= most {
                    self.reap_oldest(cx, usize::MAX, most * 3 / 4);
                }
                (start(cx.pool(), packet, &fragment, self.seen)?, true)
            }
        };
        partial.touched = cx.recent();
        if add(cx.pool(), &mut partial, packet, &fragment, fresh).is_some() {
            partial.seen = partial.seen.max(now);
            if partial.is_complete() {
                let whole = partial.assemble(true, self.max_mtu_anno);
                match whole {
                    Some(_) => self.good += 1,
                    None => self.failed += 1,
                }
                return whole;
            }
        }
        self.memory += partial.memory();
        self.partial.insert(key, partial);
        self.watch(cx);
        None
    }

    /// Gives up packets of which nothing came for long.
    fn reap(&mut self, cx: &mut Cx<'_>, now: i64) {
        if now < self.reap_at {
            return;
        }
        self.reap_at = now + INTERVAL;
        self.give_up_where(cx, |partial| partial.seen < now - TIMEOUT);
    }

    fn give_up_where(&mut self, cx: &mut Cx<'_>, lost: impl Fn(&Partial) -> bool) {
        let rank = |(key, partial): (&Key, &Partial)| (partial.rank(key), *key);
        let lost = self.partial.iter().filter(|(_, partial)| lost(partial));
        let mut ranked: Vec<_> = lost.map(rank).collect();
        ranked.sort_unstable_by_key(|(rank, _)| *rank);
        for (_, key) in ranked {
            self.give_up(cx, &key);
        }
    }

    /// Sees to it that the timer runs while there are incomplete packets.
    fn watch(&mut self, cx: &mut Cx<'_>) {
        if let Some(timer) = self.timer
            && cx.expires(timer).is_none()
        {
            cx.schedule_after(timer, (INTERVAL * SECOND) as u64);
        }
    }

    /// Gives up packets, the ones longest without a new fragment first, until they take `memory`
    /// bytes and are `count` at most.
    #[cold]
    fn reap_oldest(&mut self, cx: &mut Cx<'_>, memory: usize, count: usize) {
        let age = |(key, partial): (&Key, &Partial)| (partial.seen, partial.touched, *key);
        let mut by_age: Vec<(i64, Steady, Key)> = self.partial.iter().map(age).collect();
        by_age.sort_unstable_by_key(|(seen, touched, _)| (*seen, *touched));
        for (_, _, key) in by_age {
            if self.memory <= memory && self.partial.len() <= count {
                break;
            }
            self.failed += 1;
            self.give_up(cx, &key);
        }
    }

    fn give_up(&mut self, cx: &mut Cx<'_>, key: &Key) {
        if let Some(partial) = self.partial.remove(key) {
            self.memory -= partial.memory();
            if let Some(packet) = partial.assemble(false, self.max_mtu_anno) {
                cx.emit(1, packet);
            }
        }
    }
}

/// A packet with nothing in it but the headers of `packet`, the fragment of that number.
fn start(pool: &mut Pool, packet: &Packet, fragment: &Fragment, number: u64) -> Option<Partial> {
    let head = head_of(pool, packet, fragment)?;
    Some(Partial {
        payload: pool.packet(HEADROOM + head.len(), 0)?,
        here: SmallVec::new(),
        head,
        has_first: false,
        is_spoiled: false,
        length: None,
        flags: packet.network_header()?.get(FLAGS)? & KEPT,
        longest: 0,
        number,
        seen: 0,
        touched: Steady::default(),
    })
}

/// A copy of `packet` up to the end of its IP header.
fn head_of(pool: &mut Pool, packet: &Packet, fragment: &Fragment) -> Option<Packet> {
    let network = usize::try_from(packet.network_offset()?).ok()?;
    let mut head = pool.copy(packet.data().get(..network + fragment.parts.front)?)?;
    head.copy_meta(packet);
    if packet.mac_offset().is_some_and(|at| at < 0) {
        // It was stripped, and not copied.
        head.clear_mac_header();
    }
    if let Some((place, kind)) = fragment.parts.link {
        *head.data_mut().get_mut(network + place)? = kind.0;
    }
    Some(head)
}

/// Adds `packet` to what is here; `None` if it lies beyond the end, or there is no memory. In a fresh `partial`, the
/// head is the packet's.
fn add(
    pool: &mut Pool,
    partial: &mut Partial,
    packet: &Packet,
    fragment: &Fragment,
    fresh: bool,
) -> Option<()> {
    let end = fragment.place.end;
    if partial.is_spoiled || partial.length.is_some_and(|length| end > length) {
        return None;
    }
    let bytes = packet.network_header()?.get(fragment.parts.bytes.clone())?;
    if is_ip6(packet) && !partial.accepts(&fragment.place, bytes) {
        partial.is_spoiled = true;
        return None;
    }
    if fragment.place.start == 0 {
        if !fresh {
            partial.head = head_of(pool, packet, fragment)?;
        }
        partial.has_first = true;
    }
    if !partial.fill(fragment.place.clone(), bytes) {
        return None;
    }
    if fragment.last {
        partial.length = Some(partial.payload.len());
    }
    partial.longest = partial.longest.max(fragment.parts.bytes.end);
    Some(())
}

#[handlers]
impl IPReassembler {
    /// Counts, and a line for each packet that is not complete: addresses and ports,
    /// identification, and what of the payload is here. Packets that are given up for their age do
    /// not count as failed.
    #[read]
    fn dump(&self) -> String {
        let mut text = alloc::format!(
            "frags seen total:    {}\ngood reassemblies:   {}\nfailed reassemblies: {}\n\
             bad fragments seen:  {}\ncached chunk data:\n",
            self.seen,
            self.good,
            self.failed,
            self.bad
        );
        let mut partial: Vec<_> = self.partial.iter().collect();
        partial.sort_unstable_by_key(|(key, partial)| partial.rank(key));
        for (key, partial) in partial {
            let (from, to, ident) = (key.source, key.destination, key.ident);
            let [sport, dport] = partial.ports();
            let _ = write!(text, " ({from}, {sport}, {to}, {dport}) {ident}");
            for range in &partial.here {
                let _ = write!(text, " ({},{})", range.start, range.end);
            }
            text.push('\n');
        }
        text
    }
}

impl Element for IPReassembler {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.timer = Some(cx.timer());
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        let (now, timeout) = (cx.steady(), (TIMEOUT * SECOND) as u64);
        self.give_up_where(cx, |partial| partial.touched.after(timeout) < now);
        if !self.partial.is_empty() {
            self.watch(cx);
        }
    }

    #[inline]
    fn affects(&self, packet: &Packet) -> bool {
        fragment::is_fragment(packet)
    }

    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if !self.affects(packet) {
            return Verdict::Forward;
        }
        // A time of less than a second is none, as in Click.
        if packet.timestamp().div_euclid(SECOND) == 0 {
            packet.set_timestamp(*self.now.get_or_insert_with(|| cx.wall()));
        }
        match self.take(cx, packet) {
            Some(mut whole) => {
                whole.set_timestamp(packet.timestamp());
                cx.kill(core::mem::replace(packet, whole));
                Verdict::Forward
            }
            None => Verdict::Drop,
        }
    }

    fn batch(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        self.now = None;
        router::filter(self, cx, batch);
    }

    fn cleanup(&mut self, _cx: &mut Cx<'_>) {
        self.partial.clear();
        self.memory = 0;
    }
}

#[cfg(test)]
mod tests;
