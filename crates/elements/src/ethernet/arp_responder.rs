use core::fmt::Write;

use crate::prelude::*;

/// Length of an ARP packet with its Ethernet header.
pub(super) const ARP_FRAME: usize = 42;

/// The Ethernet address of some IP addresses.
#[derive(Clone, Copy)]
struct Entry {
    /// Without bits outside of the mask.
    prefix: Ipv4Prefix,
    ether: EtherAddress,
}

/// Answers ARP requests for certain addresses.
///
/// Packets must start with an Ethernet header. If a request's address is in several prefixes, the
/// longest counts. A reply keeps the VLAN tag of the request's annotations, and no others.
///
/// # Arguments
/// - `PREFIX [PREFIX...] ETH` (any number of times): addresses, or prefixes, and the Ethernet
///   address to answer with. A name that is both an IP and an Ethernet address (see AddressInfo)
///   stands for both.
///
/// # Example
/// ```click
/// FromDevice(eth0) -> c :: Classifier(12/0806 20/0001, -);
/// c[0] -> ARPResponder(18.26.4.24 18.26.7.0/24 00-00-C0-AE-67-EF)
///     -> Queue -> ToDevice(eth0);
/// c[1] -> Discard;
/// ```
///
/// # See also
/// ARPQuerier, AddressInfo
#[derive(Element)]
#[element(ports = "1/1-2", processing = "a/ah", segments, live, raw, handlers)]
#[outputs(
    "replies",
    "packets that are not answered, which are dropped without it"
)]
pub struct ARPResponder {
    /// A prefix stands before the prefixes that contain it.
    entries: Vec<Entry>,
}

/// The entries of one argument.
fn parse(text: &str, context: &Context<'_>) -> Result<Vec<Entry>, &'static str> {
    let words = click::config::split_space(text);
    let (mut prefixes, mut ether) = (Vec::new(), None);
    for word in &words {
        if let Ok(prefix) = IpPrefixArg::OR_ADDRESS.parse(word, context) {
            prefixes.push(normal(prefix));
        } else if let Ok(address) = context.parse(word) {
            if ether.replace(address).is_some() {
                return Err("more than one ETH");
            }
        } else {
            return Err("expected IP/MASK ETH");
        }
    }
    if prefixes.is_empty() {
        return Err("missing IP/MASK");
    }
    // A name may be both.
    let ether = ether.or_else(|| words.iter().find_map(|word| context.parse(word).ok()));
    let ether = ether.ok_or("missing ETH")?;
    let entries = prefixes.into_iter().map(|prefix| Entry { prefix, ether });
    Ok(entries.collect())
}

/// A prefix without bits outside of its mask.
fn normal(prefix: Ipv4Prefix) -> Ipv4Prefix {
    let address = prefix.network();
    Ipv4Prefix { address, ..prefix }
}

/// Adds an entry; returns whether it replaced the one of its prefix.
fn insert(entries: &mut Vec<Entry>, entry: Entry) -> bool {
    if let Some(same) = entries.iter_mut().find(|e| e.prefix == entry.prefix) {
        *same = entry;
        return true;
    }
    let inside = |outer: &Entry| {
        let (outer, inner) = (outer.prefix, entry.prefix);
        let narrower = outer.mask.to_bits() & !inner.mask.to_bits() == 0;
        narrower && outer.contains(inner.address)
    };
    let at = entries.iter().position(inside).unwrap_or(entries.len());
    entries.insert(at, entry);
    false
}

impl ARPResponder {
    /// Turns a request into its reply; `None` if it is none, or not to be answered.
    fn answer(&self, packet: &mut Packet) -> Option<()> {
        let frame = EthernetFrame::new_checked(packet.data()).ok()?;
        if frame.ethertype() != EtherType::ARP {
            return None;
        }
        let arp = ArpPacket::new_checked(frame.payload()).ok()?;
        let request = ArpMessage::parse(&arp);
        if request.operation != ArpOperation::REQUEST {
            return None;
        }
        let reply = request.reply(self.lookup(request.target)?);
        let tag = packet.anno(VLAN_TCI);
        packet.truncate(ARP_FRAME);
        packet.clear_annotations();
        packet.set_anno(VLAN_TCI, tag);
        packet.set_timestamp(0);
        write_arp(packet, reply.target_hardware, &reply);
        Some(())
    }
}

/// Writes an ARP packet to `destination` over the start of `packet`, and marks its headers.
pub(super) fn write_arp(packet: &mut Packet, destination: EtherAddress, message: &ArpMessage) {
    let header = EthernetHeader {
        destination,
        source: message.sender_hardware,
        ethertype: EtherType::ARP,
    };
    packet.set_packet_type(packet::PacketType::Host);
    packet.set_mac_header(0);
    packet.set_network_header(
        EthernetFrame::<&[u8]>::HEADER_LEN,
        ArpPacket::<&[u8]>::HEADER_LEN,
    );
    let mut frame = EthernetFrame::new_unchecked(packet.data_mut());
    header.emit(&mut frame);
    message.emit(&mut ArpPacket::new_unchecked(frame.payload_mut()));
}

#[handlers]
impl ARPResponder {
    /// The entries, a line for each prefix.
    #[read]
    fn table(&self) -> String {
        let mut text = String::new();
        for Entry { prefix, ether } in &self.entries {
            let _ = writeln!(text, "{prefix} {ether}");
        }
        text
    }

    /// The Ethernet address that an IP address is answered with, if any.
    #[read(error = "expected IP address")]
    #[inline]
    fn lookup(&self, address: Ipv4Addr) -> Option<EtherAddress> {
        let mut entries = self.entries.iter();
        let entry = entries.find(|entry| entry.prefix.contains(address));
        entry.map(|entry| entry.ether)
    }

    /// Adds an entry, in the notation of the arguments.
    #[write]
    fn add(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), HandlerError> {
        let wrong = |error| HandlerError::failed(FailureKind::Failed, error);
        for entry in parse(value, &cx.names()).map_err(wrong)? {
            insert(&mut self.entries, entry);
        }
        Ok(())
    }

    /// `PREFIX`: removes the entry of exactly this prefix.
    #[write(with = IpPrefixArg::OR_ADDRESS, error = "expected IP/MASK")]
    fn remove(&mut self, prefix: Ipv4Prefix) -> Result<(), String> {
        let prefix = normal(prefix);
        let at = self.entries.iter().position(|e| e.prefix == prefix);
        self.entries
            .remove(at.ok_or_else(|| format!("{prefix} not found"))?);
        Ok(())
    }
}

impl Element for ARPResponder {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let mut entries = Vec::new();
        for (i, text) in args.take_raw().iter().enumerate() {
            match parse(text, &args.context()) {
                Ok(new) => {
                    for entry in new {
                        if insert(&mut entries, entry) {
                            let prefix = entry.prefix;
                            args.warning(format_args!("multiple entries for {prefix}"));
                        }
                    }
                }
                Err(error) => args.error(format_args!("argument {i}: {error}")),
            }
        }
        args.finish()?;
        self.entries = entries;
        Ok(())
    }

    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        match self.answer(packet) {
            Some(()) => Verdict::Forward,
            None => Verdict::To(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    fn arp(
        to: [u8; 6],
        operation: u8,
        from: ([u8; 6], [u8; 4]),
        target: ([u8; 6], [u8; 4]),
    ) -> Vec<u8> {
        [
            &to[..],
            &from.0,
            &[8, 6, 0, 1, 8, 0, 6, 4, 0, operation],
            &from.0,
            &from.1,
            &target.0,
            &target.1,
        ]
        .concat()
    }

    fn request(target: [u8; 4]) -> Vec<u8> {
        arp([255; 6], 1, ([7; 6], [1, 0, 0, 7]), ([0; 6], target))
    }

    fn rig(args: &str) -> Rig {
        Rig::new(&format!(
            "i :: Inject -> r :: ARPResponder({args}) -> c :: Collect; r[1] -> other :: Collect;"
        ))
    }

    #[test]
    fn requests_are_answered() {
        let mut rig = rig("1.0.0.1 1:1:1:1:1:1, 2.0.0.0/8 3.0.0.3 2:2:2:2:2:2");
        for (target, ether) in [([1, 0, 0, 1], 1), ([2, 9, 9, 9], 2), ([3, 0, 0, 3], 2)] {
            let padded = [request(target), vec![0; 18]].concat();
            rig.push_with("i", &padded, |packet| {
                packet.set_anno(VLAN_TCI, 77);
                packet.set_timestamp(5);
                packet.set_paint(3);
            });
            let replies = rig.collected("c");
            let expected = arp([7; 6], 2, ([ether; 6], target), ([7; 6], [1, 0, 0, 7]));
            assert_eq!(replies[0].data(), expected);
            assert_eq!(replies[0].network_offset(), Some(14));
            assert_eq!(replies[0].anno(VLAN_TCI), 77);
            assert_eq!((replies[0].timestamp(), replies[0].paint()), (0, 0));
        }
    }

    #[test]
    fn what_is_not_answered_leaves_by_output_1() {
        let mut rig = rig("1.0.0.1 1:1:1:1:1:1");
        let reply = arp([1; 6], 2, ([7; 6], [1, 0, 0, 1]), ([1; 6], [1, 0, 0, 1]));
        let mut ip = request([1, 0, 0, 1]);
        ip[13] = 0;
        let others = [
            request([1, 0, 0, 2]),
            reply,
            ip,
            request([1, 0, 0, 1])[..41].to_vec(),
        ];
        rig.push_all("i", &others);
        assert_eq!(rig.data("other"), others);
    }

    #[test]
    fn the_longest_prefix_counts() {
        let entries =
            "0/0 0:0:0:0:0:1, 1.0.0.0/8 0:0:0:0:0:2, 1.0.0.9 0:0:0:0:0:3, 2/8 0:0:0:0:0:4";
        let mut rig = rig(entries);
        let table = "1.0.0.9/32 00-00-00-00-00-03\n1.0.0.0/8 00-00-00-00-00-02\n\
            2.0.0.0/8 00-00-00-00-00-04\n0.0.0.0/0 00-00-00-00-00-01\n";
        assert_eq!(rig.read("r.table"), table);
        let id = rig.router.find("r");
        let mut lookup = |ip| rig.router.read(id, "lookup", ip);
        assert_eq!(lookup("1.0.0.9").unwrap(), "00-00-00-00-00-03");
        assert_eq!(lookup("1.0.0.8").unwrap(), "00-00-00-00-00-02");
        assert_eq!(lookup("9.0.0.8").unwrap(), "00-00-00-00-00-01");
        assert_eq!(lookup("zork").unwrap_err(), "expected IP address".into());
    }

    #[test]
    fn handlers_change_the_table() {
        let mut rig = rig("");
        assert_eq!(rig.read("r.table"), "");
        rig.write("r.add", "1.0.0.2/24 1:1:1:1:1:1");
        rig.write("r.add", "1.0.0.0/24 1:1:1:1:1:2");
        assert_eq!(rig.read("r.table"), "1.0.0.0/24 01-01-01-01-01-02\n");
        rig.write("r.remove", "1.0.0.5/24");
        let error = rig.try_write("r.remove", "1.0.0.5").unwrap_err();
        assert_eq!(error, "1.0.0.5/32 not found".into());
        rig.write("r.config", "9.9.9.9 0:0:0:0:0:9");
        assert_eq!(rig.read("r.table"), "9.9.9.9/32 00-00-00-00-00-09\n");
    }

    #[test]
    fn wrong_entries_are_refused() {
        for (args, error) in [
            ("1.0.0.1", "argument 0: missing ETH"),
            (
                "1.1.1.1 1:1:1:1:1:1, 1:1:1:1:1:1",
                "argument 1: missing IP/MASK",
            ),
            (
                "1.1.1.1 1:1:1:1:1:1 1:1:1:1:1:2",
                "argument 0: more than one ETH",
            ),
            ("1.1.1.1 zork", "argument 0: expected IP/MASK ETH"),
        ] {
            Rig::refuses(
                &format!("Inject -> ARPResponder({args}) -> Collect;"),
                error,
            );
        }
        let mut rig = rig("1.0.0.1 1:1:1:1:1:1, 1.0.0.1 1:1:1:1:1:2");
        let warning = rig.printed().concat();
        assert_contains(&warning, "warning: multiple entries for 1.0.0.1/32");
        rig.write("r.add", "1.0.0.5 1:1:1:1:1:5");
        let table = rig.read("r.table");
        assert_contains(&table, "1.0.0.5/32");
        assert!(rig.try_write("r.config", "zork").is_err());
        assert_eq!(rig.read("r.table"), table, "what was added is lost");
        rig.write("r.config", "2.0.0.2 1:1:1:1:1:1, 2.0.0.2 1:1:1:1:1:2");
        let warning = "  warning: multiple entries for 2.0.0.2/32";
        assert_eq!(rig.printed()[1..], [warning]);
    }
}
