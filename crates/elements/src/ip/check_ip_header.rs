use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;
use core::net::Ipv4Addr;

use packet::anno::FIX_IP_SRC;
use packet::checksum::Sum;
use packet::wire::Ipv4Packet;
use packet::{BATCH, Batch, Edit, Facts, Packet, PacketType};
use router::args::{Args, Context, Failed, Int, Invalid, IpPrefixArg, Parser};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList};

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

/// The check of an IP header, its arguments and counts.
#[derive(Default)]
pub(super) struct Check {
    offset: u32,
    checksum: bool,
    verbose: bool,
    bad_sources: Vec<Ipv4Addr>,
    good_destinations: Vec<Ipv4Addr>,
    drops: u64,
    details: Option<[u64; REASONS.len()]>,
}

/// The shortest IP packet that does not fit an Ethernet frame, in bytes.
const TOO_LONG: u32 = Facts::ETHERNET as u32 + 1;

/// What was seen of a batch's packets.
struct Seen {
    /// A bit for each packet that is not usual, the lowest for the first.
    odd: u64,
    /// The highest bit is set if all usual IP packets fit an Ethernet frame.
    fit: u32,
    /// How packets came off their link: 0 if all came to this host. Whoever asks whether one was
    /// a broadcast takes others for one, too, which costs nothing but the fact.
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

impl Check {
    /// A check of headers at the start of packets, checksum included.
    pub(super) fn of(bad_sources: Vec<Ipv4Addr>, good_destinations: Vec<Ipv4Addr>) -> Check {
        Check {
            checksum: true,
            bad_sources,
            good_destinations,
            ..Check::default()
        }
    }

    fn configure(&mut self, checksum: bool, args: &mut Args<'_>) -> Result<(), Failed> {
        let (mut interfaces, mut details) = (Interfaces::default(), false);
        let (mut bad, mut good) = (Vec::new(), Vec::new());
        let (mut bad_given, mut good_given) = (false, false);
        self.checksum = checksum;
        args.keyword_with("INTERFACES", InterfacesArg, &mut interfaces)
            .keyword("BADSRC", &mut bad)
            .given(&mut bad_given)
            .keyword("GOODDST", &mut good)
            .given(&mut good_given)
            .keyword("OFFSET", &mut self.offset)
            .keyword("VERBOSE", &mut self.verbose)
            .keyword("DETAILS", &mut details)
            .keyword("CHECKSUM", &mut self.checksum)
            .consume()?;
        // A lone argument left is OFFSET by position.
        let offset = args.raw().first().filter(|_| args.raw().len() == 1);
        match offset.and_then(|text| args.context().parse_with(Int::ANY, text).ok()) {
            Some(offset) => self.offset = offset,
            None => args.none()?,
        }
        self.bad_sources = if bad_given { bad } else { interfaces.bad };
        self.good_destinations = if good_given { good } else { interfaces.good };
        self.details = details.then(Default::default);
        Ok(())
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
        match self.mark_usual::<true>(packet) {
            Some(_) => Ok(()),
            None => self.mark_any(packet),
        }
    }

    /// The same for a header without options that is right; the length it says. `None`, and
    /// nothing done, if it is not such a one, or it takes a longer look to know. `SOURCES`: there
    /// may be bad ones.
    #[inline(always)]
    fn mark_usual<const SOURCES: bool>(&self, packet: &mut Packet) -> Option<u16> {
        let header = packet.array_at::<20>(self.offset)?;
        let ip = Ipv4Packet::new_unchecked(header);
        let (length, destination) = (ip.total_len(), ip.destination());
        let right = (header[0] == 0x45) & (!self.checksum | Sum::of_array(header).is_valid());
        if !right || (SOURCES && !self.is_good_source(ip.source(), destination)) {
            return None;
        }
        let marked = packet.mark_usual(self.offset, length, destination);
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

    /// What is done to packets with usual headers, if none has a bad source.
    fn edit(&self) -> Option<Edit> {
        let edit = Edit::check_ip(self.offset as usize, self.checksum);
        edit.filter(|_| self.bad_sources.is_empty())
    }

    /// Marks the headers of a batch. Wrong ones leave.
    #[inline(always)]
    fn batch(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let seen = match self.bad_sources.is_empty() {
            true => self.mark_all::<false>(batch),
            false => self.mark_all::<true>(batch),
        };
        if seen.odd != 0 {
            self.mark_odd(cx, batch, seen.odd);
        }
        let usual = seen.odd == 0;
        let facts = [
            (Facts::UNICAST, seen.types == PacketType::Host as u8),
            (Facts::SOURCE_STAYS, seen.fixes == 0),
            (Facts::NO_OPTIONS, usual),
            (
                Facts::FITS_ETHERNET,
                usual && seen.fit >> 31 == 1,
            ),
            (Facts::DESTINATION, self.offset == 0),
        ];
        for (fact, known) in facts {
            batch.learn(fact.if_so(known));
        }
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
            match self.mark_usual::<SOURCES>(packet) {
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
                reason.map(|reason| check.refuse(cx, reason))
            },
            |(_, cx), packet, ()| cx.emit(1, packet),
        );
    }

    #[cold]
    fn refuse(&mut self, cx: &mut Cx<'_>, reason: Reason) {
        if self.drops == 0 || self.verbose {
            let name = cx.name().to_string();
            let reason = REASONS[reason as usize];
            cx.chatter(format_args!("{name}: IP header check failed: {reason}"));
        }
        self.drops += 1;
        if let Some(details) = &mut self.details {
            details[reason as usize] += 1;
        }
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read("drops");
        if self.details.is_some() {
            list.read("drop_details");
        }
    }

    fn read(&self, name: &str) -> Result<String, HandlerError> {
        match (name, &self.details) {
            ("drops", _) => Ok(self.drops.to_string()),
            ("drop_details", Some(counts)) => {
                let mut text = String::new();
                for (count, reason) in counts.iter().zip(REASONS) {
                    let _ = writeln!(text, "{count}\t{reason}");
                }
                Ok(text)
            }
            _ => Err(HandlerError::Unknown),
        }
    }
}

/// What a router's interface addresses mean for the check.
#[derive(Default)]
pub(super) struct Interfaces {
    pub bad: Vec<Ipv4Addr>,
    pub good: Vec<Ipv4Addr>,
}

/// Addresses with their prefixes, separated by spaces.
pub(super) struct InterfacesArg;

impl Parser<Interfaces> for InterfacesArg {
    fn parse(&self, text: &str, context: &Context<'_>) -> Result<Interfaces, Invalid> {
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

macro_rules! check {
    ($(#[$doc:meta])* $name:ident, $checksum:literal) => {
        $(#[$doc])*
        #[derive(Default)]
        pub struct $name {
            check: Check,
        }

        impl Class for $name {
            const NAME: &'static str = stringify!($name);
            const PORTS: &'static str = "1/1-2";
            const PROCESSING: &'static str = "a/ah";
            const SEGMENTS: bool = true;
        }

        impl Declared for $name {
            fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
                self.check.configure($checksum, args)
            }

            fn handlers(&self, list: &mut HandlerList) {
                self.check.handlers(list);
            }

            fn read(
                &mut self,
                _cx: &mut Cx<'_>,
                name: &str,
                _: &str,
            ) -> Result<String, HandlerError> {
                self.check.read(name)
            }
        }

        impl Element for $name {
            fn edit(&self) -> Option<Edit> {
                self.check.edit()
            }

            fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
                self.check.batch(cx, batch);
                0
            }

            fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
                cx.pull(0, batch, most);
                self.check.batch(cx, batch);
            }
        }
    };
}

check! {
    /// Checks IP headers, marks them, and drops packets whose header is wrong.
    ///
    /// A header is right if its version is 4, its length fields fit each other and the packet, its
    /// checksum holds, and the source address is not a bad one. A right header is marked, so that
    /// other IP elements find it; the packet is cut to the length that the header says; and the
    /// destination address annotation is set to the header's destination. The first wrong packet
    /// draws a message.
    ///
    /// # Arguments
    /// - `OFFSET` (integer, 0): where the IP header starts, in bytes from the packet's start. May
    ///   be given by position if it is alone.
    /// - `INTERFACES` (prefixes): the router's own addresses with their networks: makes the
    ///   networks' broadcast addresses, 0.0.0.0 and 255.255.255.255 bad sources, and the addresses
    ///   good destinations.
    /// - `BADSRC` (addresses): bad source addresses.
    /// - `GOODDST` (addresses): destinations of which packets may have a bad source.
    /// - `CHECKSUM` (boolean, true): whether to check the checksum.
    /// - `VERBOSE` (boolean, false): whether every wrong packet draws a message.
    /// - `DETAILS` (boolean, false): whether to count wrong packets by what is wrong.
    ///
    /// # Ports
    /// One agnostic input. Output 0 is agnostic: right packets. Output 1, optional, is push: wrong
    /// packets.
    ///
    /// # Handlers
    /// - `drops` (read): wrong packets.
    /// - `drop_details` (read): with `DETAILS`, a line for each thing that can be wrong, with a
    ///   count.
    ///
    /// # Example
    /// ```click
    /// FromDump(in.pcap)
    ///     -> CheckIPHeader(OFFSET 14, INTERFACES 18.26.4.9/24 18.32.9.44/28)
    ///     -> Discard;
    /// ```
    ///
    /// # See also
    /// CheckIPHeader2, MarkIPHeader, SetIPChecksum, CheckTCPHeader, CheckUDPHeader, CheckICMPHeader
    CheckIPHeader, true
}

check! {
    /// Checks IP headers, all but the checksum; otherwise as CheckIPHeader.
    ///
    /// # Arguments
    /// As CheckIPHeader's, with
    /// - `CHECKSUM` (boolean, false): whether to check the checksum.
    ///
    /// # Ports
    /// One agnostic input. Output 0 is agnostic: right packets. Output 1, optional, is push: wrong
    /// packets.
    ///
    /// # Handlers
    /// As CheckIPHeader's.
    ///
    /// # Example
    /// ```click
    /// FromDump(in.pcap) -> CheckIPHeader2(14) -> Discard;
    /// ```
    ///
    /// # See also
    /// CheckIPHeader, MarkIPHeader
    CheckIPHeader2, false
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;
    use core::net::Ipv4Addr;

    use packet::PacketType;
    use packet::anno::FIX_IP_SRC;
    use proptest::prelude::*;

    use crate::testing::{Rig, checksum, udp};

    const CONFIG: &str = "i :: Inject -> k :: CheckIPHeader(DETAILS true) -> c :: Collect;
        k[1] -> bad :: Collect;";

    fn packet() -> Vec<u8> {
        let (from, to) = (Ipv4Addr::new(1, 0, 0, 1), Ipv4Addr::new(2, 0, 0, 2));
        udp((from, 5), (to, 6), &[1, 2, 3])
    }

    /// The packet with some bytes of its header changed, and the checksum right.
    fn changed(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut packet = packet();
        change(&mut packet);
        packet[10..12].fill(0);
        let end = (usize::from(packet[0] & 15) * 4).min(packet.len());
        let sum = checksum(&packet[..end]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet
    }

    #[test]
    fn right_packets_are_marked_and_cut() {
        let mut rig = Rig::new(CONFIG);
        let padded = [packet(), Vec::from([0; 9])].concat();
        rig.push("i", &padded);
        let packets = rig.collected("c");
        assert_eq!(packets[0].data(), packet());
        assert_eq!(packets[0].network_offset(), Some(0));
        assert_eq!(packets[0].transport_offset(), Some(20));
        assert_eq!(packets[0].dst_ip(), Ipv4Addr::new(2, 0, 0, 2));
        assert_eq!(rig.read("k.drops"), "0");
    }

    #[test]
    fn wrong_packets_leave_by_output_1_and_are_counted() {
        let mut rig = Rig::new(CONFIG);
        let wrong = [
            packet()[..19].to_vec(),
            changed(|p| p[0] = 0x65),
            changed(|p| p[0] = 0x44),
            changed(|p| p[3] = 19),
            changed(|p| p[3] = 32),
            changed(|p| p[0] = 0x4f),
            {
                let mut packet = packet();
                packet[10] ^= 1;
                packet
            },
        ];
        rig.push_all("i", &wrong);
        assert_eq!(rig.data("bad"), wrong);
        assert!(rig.data("c").is_empty());
        assert_eq!(rig.printed(), ["k: IP header check failed: tiny packet"]);
        let details = "1\ttiny packet\n1\tbad IP version\n1\tbad IP header length\n\
            3\tbad IP length\n1\tbad IP checksum\n0\tbad source address\n";
        assert_eq!(rig.read("k.drop_details"), details);
        assert_eq!(rig.read("k.drops"), "7");
    }

    #[test]
    fn options_count_for_the_checksum() {
        let mut rig = Rig::new(CONFIG);
        let options = changed(|p| {
            p[0] = 0x46;
            p[20] = 7;
        });
        rig.push_all("i", &[options]);
        assert_eq!(rig.data("c").len(), 1);
    }

    #[test]
    fn bad_sources_pass_only_to_good_destinations() {
        let config = "i :: Inject -> k :: CheckIPHeader(INTERFACES 1.0.0.9/24 2.0.0.2/32, VERBOSE true)
            -> c :: Collect;";
        let mut rig = Rig::new(config);
        for source in [[1, 0, 0, 255], [0; 4], [255; 4]] {
            rig.push("i", &changed(|p| {
                p[12..16].copy_from_slice(&source);
                p[19] = 3;
            }));
            rig.push("i", &changed(|p| p[12..16].copy_from_slice(&source)));
        }
        assert_eq!(rig.data("c").len(), 3);
        assert_eq!(rig.read("k.drops"), "3");
        assert_eq!(rig.printed().len(), 3);
        assert!(rig.try_read("k.drop_details").is_err());
    }

    #[test]
    fn the_offset_may_be_given_alone() {
        let mut rig = Rig::new("i :: Inject -> CheckIPHeader2(2) -> c :: Collect;");
        let mut frame = [[0, 0].to_vec(), packet()].concat();
        frame[12] ^= 1;
        rig.push("i", &frame);
        assert_eq!(rig.collected("c")[0].network_offset(), Some(2));
        rig.push("i", &[0]);
        assert_eq!(rig.read("CheckIPHeader2@2.drops"), "1");
        let errors = Rig::errors("Inject -> CheckIPHeader(1, 2) -> Collect;");
        assert!(errors.contains("too many arguments"), "{errors}");
    }

    proptest! {
        /// Elements that rely on what the check found out do as those that do not: Paint, which
        /// forgets all that is known of packets, makes no difference.
        #[test]
        fn what_was_found_out_is_so(
            kinds in proptest::collection::vec((0u8..5, any::<bool>(), 0usize..3), 1..80),
        ) {
            let run = |between: &str| {
                let path = [
                    "i :: Inject -> Queue -> Unqueue(64)", "k :: CheckIPHeader", "GetIPAddress(16)", "DropBroadcasts",
                    "IPGWOptions(9.9.9.9)", "FixIPSrc(8.8.8.8)", "DecIPTTL", "IPFragmenter(1500)",
                ]
                .join(between);
                let config = alloc::format!("{path} -> c :: Collect; k[1] -> bad :: Collect;");
                let mut rig = Rig::new(&config);
                for (kind, fix, length) in &kinds {
                    let payload = alloc::vec![7; [3, 1400, 1600][*length]];
                    let (from, to) = ([1, 0, 0, 1].into(), [2, 0, 0, *kind].into());
                    let mut data = udp((from, 5), (to, 6), &payload);
                    match kind {
                        // A route to be recorded, in what were the ports.
                        1 => {
                            data[0] = 0x47;
                            data[20..28].copy_from_slice(&[7, 7, 4, 0, 0, 0, 0, 0]);
                        }
                        2 => data[8] = 0,
                        3 => data[0] = 0x44,
                        _ => {}
                    }
                    data[10..12].fill(0);
                    let end = usize::from(data[0] & 15) * 4;
                    let sum = checksum(&data[..end]);
                    data[10..12].copy_from_slice(&sum.to_be_bytes());
                    rig.push_with("i", &data, |packet| {
                        packet.set_anno(FIX_IP_SRC, u32::from(*fix));
                        if *kind == 4 {
                            packet.set_packet_type(PacketType::Broadcast);
                        }
                    });
                }
                rig.run();
                (rig.data("c"), rig.data("bad"))
            };
            let relying = run(" -> ");
            prop_assert_eq!(&relying, &run(" -> Paint(0) -> "));
            let good = kinds.iter().filter(|kind| kind.0 < 2 && kind.2 < 2).count();
            prop_assert!(relying.0.len() >= good);
        }
    }
}
