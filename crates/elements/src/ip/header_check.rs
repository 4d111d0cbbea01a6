//! The check of IP headers, as CheckIPHeader and its kin make it.

use crate::prelude::*;

/// What may be wrong with a header, in the order of `drop_details`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    Tiny,
    Version,
    HeaderLength,
    Length,
    Checksum,
    Source,
}

const REASONS: [&str; 6] = [
    "tiny packet",
    "bad IP version",
    "bad IP header length",
    "bad IP length",
    "bad IP checksum",
    "bad source address",
];

/// The addresses that packets must not come from.
#[derive(Component)]
pub(super) struct BadSources {
    /// The router's own addresses with their networks: the networks' broadcast addresses, 0.0.0.0
    /// and 255.255.255.255 become bad sources, and the addresses good destinations.
    #[arg]
    interfaces: Interfaces,
    /// Bad source addresses.
    #[arg]
    badsrc: Option<Vec<Ipv4Addr>>,
    /// Destinations to which a packet may have a bad source.
    #[arg]
    gooddst: Option<Vec<Ipv4Addr>>,
}

/// The check of an IP header, its arguments and counts.
#[derive(Component)]
#[component(handlers)]
pub(super) struct Check {
    /// Whether every wrong packet draws a message.
    #[arg]
    verbose: bool,
    /// Whether to count wrong packets by what is wrong.
    #[arg]
    details: bool,
    #[flatten]
    sources: BadSources,
    /// Where the IP header starts, in bytes from the packet's start. It needs no keyword if no
    /// other argument lacks one.
    #[arg(alone, default = 0)]
    offset: u32,
    /// Wrong packets.
    #[handler(read)]
    drops: u64,
    counts: [u64; REASONS.len()],
    checksum: bool,
    bad_sources: Vec<Ipv4Addr>,
    good_destinations: Vec<Ipv4Addr>,
}

/// The shortest IP packet that does not fit an Ethernet frame, in bytes.
const TOO_LONG: u32 = Facts::ETHERNET as u32 + 1;

/// What was seen of a batch's packets.
struct Seen {
    /// A bit for each packet that is not usual, the lowest for the first.
    odd: u64,
    /// The highest bit is set if all usual IP packets fit an Ethernet frame.
    fit: u32,
    /// The packets' link-level types, joined: 0 if all came to this host. Some other combinations
    /// are taken for a broadcast, which costs nothing but the fact.
    types: u8,
    /// Not 0 if one is to get another source address.
    fixes: u8,
}

/// What a header that is in order says.
struct Good {
    header_len: usize,
    total_len: usize,
    destination: Ipv4Addr,
}

#[handlers]
impl Check {
    /// A line for each kind of error, with a count.
    #[read(when = self.details)]
    fn drop_details(&self) -> String {
        let lines = self.counts.iter().zip(REASONS);
        lines
            .map(|(count, reason)| format!("{count}\t{reason}\n"))
            .collect()
    }
}

impl Check {
    /// A check of headers at the start of packets. Packets from addresses in `old` are wrong,
    /// unless `sources` has others.
    pub(super) fn of(sources: &BadSources, old: Option<Vec<Ipv4Addr>>) -> Check {
        let (bad_sources, good_destinations) = sources.resolve(old);
        Check {
            checksum: true,
            bad_sources,
            good_destinations,
            ..Check::default()
        }
    }

    /// Completes the arguments.
    pub(super) fn set_checksum(&mut self, checksum: bool) {
        self.checksum = checksum;
        (self.bad_sources, self.good_destinations) = self.sources.resolve(None);
    }

    fn look(&self, packet: &Packet) -> Result<Good, Reason> {
        let bytes = packet.data().get(self.offset as usize..);
        let bytes = bytes.unwrap_or(&[]);
        if bytes.len() < 20 {
            return Err(Reason::Tiny);
        }
        let ip = Ipv4Packet::new_unchecked(bytes);
        if ip.version() != 4 {
            return Err(Reason::Version);
        }
        if ip.header_len() < 20 {
            return Err(Reason::HeaderLength);
        }
        let (header_len, total_len) = (ip.header_len(), usize::from(ip.total_len()));
        if (total_len > bytes.len() && self.is_short(packet, total_len)) || total_len < header_len {
            return Err(Reason::Length);
        }
        if self.checksum && !ip.verify_checksum() {
            return Err(Reason::Checksum);
        }
        let destination = ip.destination();
        if !self.is_good_source(ip.source(), destination) {
            return Err(Reason::Source);
        }
        Ok(Good {
            header_len,
            total_len,
            destination,
        })
    }

    /// Whether a packet ends before its header says, with what there is behind its data.
    #[cold]
    fn is_short(&self, packet: &Packet, total_len: usize) -> bool {
        packet.total_len() < self.offset as usize + total_len
    }

    /// Marks the header if it is right, and cuts the packet to the length it says.
    #[inline(always)]
    pub(super) fn mark(&self, packet: &mut Packet) -> Result<(), Reason> {
        match self.mark_plain_ip::<true>(packet) {
            Some(_) => Ok(()),
            None => self.mark_any(packet),
        }
    }

    /// The same for a header without options that is right; the length it says. `None`, and
    /// nothing done, if it is not such a one, or it takes a longer look to know. `SOURCES`: there
    /// may be bad ones.
    #[inline(always)]
    fn mark_plain_ip<const SOURCES: bool>(&self, packet: &mut Packet) -> Option<u16> {
        let header = packet.array_at::<20>(self.offset)?;
        let ip = Ipv4Packet::new_unchecked(header);
        let (length, destination) = (ip.total_len(), ip.destination());
        let right = (header[0] == 0x45) & (!self.checksum | Sum::of_array(header).is_valid());
        if !right || (SOURCES && !self.is_good_source(ip.source(), destination)) {
            return None;
        }
        let marked = packet.mark_plain_ip(self.offset, length, destination);
        marked.then_some(length)
    }

    #[inline(always)]
    fn is_good_source(&self, source: Ipv4Addr, destination: Ipv4Addr) -> bool {
        self.bad_sources.is_empty()
            || !self.bad_sources.contains(&source)
            || self.good_destinations.contains(&destination)
    }

    #[cold]
    fn mark_any(&self, packet: &mut Packet) -> Result<(), Reason> {
        let good = self.look(packet)?;
        let offset = self.offset as usize;
        packet.set_network_header(offset, good.header_len);
        packet.truncate(offset + good.total_len);
        packet.set_dst_ip(good.destination);
        Ok(())
    }

    /// Marks usual headers. Nothing is called, so that all that is counted stays in registers.
    #[inline(always)]
    fn mark_all<const SOURCES: bool>(&self, batch: &mut Batch) -> Seen {
        let mut seen = Seen {
            odd: 0,
            fit: u32::MAX,
            types: 0,
            fixes: 0,
        };
        let mut bit = 1;
        for packet in batch.iter_mut() {
            match self.mark_plain_ip::<SOURCES>(packet) {
                Some(length) => seen.fit &= u32::from(length).wrapping_sub(TOO_LONG),
                None => seen.odd |= bit,
            }
            bit <<= 1;
            seen.types |= packet.packet_type() as u8;
            seen.fixes |= packet.annotations()[FIX_IP_SRC.offset];
        }
        seen
    }

    /// Takes a longer look at the packets with a bit in `odd`.
    #[cold]
    fn mark_odd(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, odd: u64) {
        let mut wrong = 0;
        for (i, packet) in batch.iter_mut().enumerate() {
            if odd >> (i % BATCH) & 1 == 1 && self.mark_any(packet).is_err() {
                wrong |= 1 << (i % BATCH);
            }
        }
        if wrong != 0 {
            self.refuse_some(cx, batch, wrong);
        }
    }

    #[cold]
    fn refuse_some(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, wrong: u64) {
        let mut bits = wrong;
        batch.filter(
            &mut (self, cx),
            |(check, cx), packet| {
                let bad = bits & 1 == 1;
                bits >>= 1;
                let reason = if bad { check.look(packet).err() } else { None };
                reason.map(|reason| check.refuse(cx, packet, reason))
            },
            |(_, cx), packet, ()| cx.emit(1, packet),
        );
    }

    #[cold]
    fn refuse(&mut self, cx: &mut Cx<'_>, packet: &Packet, reason: Reason) {
        if self.drops == 0 || self.verbose {
            let name = cx.name().to_string();
            let reason = REASONS[reason as usize];
            cx.chatter(format_args!("{name}: IP header check failed: {reason}"));
        }
        let packets = packet.stands_for() as u64;
        self.drops += packets;
        self.counts[reason as usize] += packets;
    }
}

impl Element for Check {
    fn effects(&self) -> Effects {
        let edit = Edit::check_ip(self.offset as usize, self.checksum);
        Effects {
            edit: edit.filter(|_| self.bad_sources.is_empty()),
            ..Effects::default()
        }
    }

    #[inline(always)]
    fn batch(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let seen = if self.bad_sources.is_empty() {
            self.mark_all::<false>(batch)
        } else {
            self.mark_all::<true>(batch)
        };
        if seen.odd != 0 {
            self.mark_odd(cx, batch, seen.odd);
        }
        let usual = seen.odd == 0;
        let facts = [
            (Facts::UNICAST, seen.types == PacketType::Host as u8),
            (Facts::SOURCE_STAYS, seen.fixes == 0),
            (Facts::NO_OPTIONS, usual),
            (Facts::FITS_ETHERNET, usual && seen.fit >> 31 == 1),
            (Facts::DESTINATION, self.offset == 0),
        ];
        for (fact, known) in facts {
            batch.learn(fact.if_so(known));
        }
    }
}

impl BadSources {
    /// The bad sources, `old` ones unless others are given, and the good destinations.
    fn resolve(&self, old: Option<Vec<Ipv4Addr>>) -> (Vec<Ipv4Addr>, Vec<Ipv4Addr>) {
        let (bad, good) = (self.badsrc.clone(), self.gooddst.clone());
        (
            bad.or(old).unwrap_or_else(|| self.interfaces.bad.clone()),
            good.unwrap_or_else(|| self.interfaces.good.clone()),
        )
    }
}

/// The meaning of a router's interface addresses for the check: prefixes, separated by spaces.
#[derive(Default)]
struct Interfaces {
    bad: Vec<Ipv4Addr>,
    good: Vec<Ipv4Addr>,
}

impl Argument for Interfaces {
    const KIND: &'static str = "IP prefixes";

    fn parse(text: &str, context: &Context<'_>) -> Result<Interfaces, Invalid> {
        let mut interfaces = Interfaces::default();
        for word in click::config::split_space(text) {
            let prefix = IpPrefixArg::OR_ADDRESS.parse(&word, context)?;
            interfaces.bad.push(prefix.broadcast());
            interfaces.good.push(prefix.address);
        }
        interfaces
            .bad
            .extend([Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST]);
        Ok(interfaces)
    }
}
