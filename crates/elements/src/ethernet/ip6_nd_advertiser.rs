use super::neighbor::{self, Ends};
use crate::prelude::*;

/// All nodes of the link.
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// Answers neighbor solicitations for certain IPv6 addresses.
///
/// Packets must start with an Ethernet header. If a solicitation's target is in several prefixes,
/// the longest counts. The answer states that the target is a router. It goes to the sender of the
/// solicitation or, if that is a host that checks whether an address is free, to all nodes. Packets
/// that are no solicitation, are damaged or come from beyond the link are dropped, and so are
/// solicitations of other targets. An answer keeps the VLAN tag of the solicitation's annotations,
/// and no others.
///
/// # Arguments
/// - `PREFIX [PREFIX...] ETH` (any number of times): IPv6 addresses, or prefixes, and the Ethernet
///   address to answer with.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> c :: Classifier(12/86dd 20/3aff 54/87, -);
/// c[0] -> IP6NDAdvertiser(2001:db8::1/128 fe80::1 00:00:C0:AE:67:EF) -> Discard;
/// c[1] -> Discard;
/// ```
///
/// # See also
/// IP6NDSolicitor, ARPResponder
#[derive(Element)]
#[element(ports = "1/1", segments, raw)]
pub struct IP6NDAdvertiser {
    /// The longest prefixes first.
    entries: Vec<(Ipv6Prefix, EtherAddress)>,
}

/// The entries of one argument.
fn parse(
    text: &str,
    context: &Context<'_>,
) -> Result<Vec<(Ipv6Prefix, EtherAddress)>, &'static str> {
    let (mut prefixes, mut ether) = (Vec::new(), None);
    for word in &click::config::split_space(text) {
        if let Ok(prefix) = context.parse_with(Ip6PrefixArg::OR_ADDRESS, word) {
            prefixes.push(prefix);
        } else if let Ok(address) = context.parse::<EtherAddress>(word) {
            if ether.replace(address).is_some() {
                return Err("has more than one Ethernet address");
            }
        } else {
            return Err("should be `IP6/MASK ETHADDR'");
        }
    }
    if prefixes.is_empty() {
        return Err("had no IP6 address and masks");
    }
    let ether = ether.ok_or("had no Ethernet address")?;
    Ok(prefixes.into_iter().map(|prefix| (prefix, ether)).collect())
}

impl IP6NDAdvertiser {
    fn lookup(&self, target: Ipv6Addr) -> Option<EtherAddress> {
        let mut entries = self.entries.iter();
        let entry = entries.find(|(prefix, _)| prefix.contains(target));
        entry.map(|(_, ether)| *ether)
    }

    /// The answer to a solicitation; `None` if the packet is none, or not to be answered.
    fn answer(&self, cx: &mut Cx<'_>, packet: &Packet) -> Option<Packet> {
        let (asked, solicitation) = neighbor::read(packet)?;
        if solicitation.icmp_type != Icmpv6Type::NEIGHBOR_SOLICITATION {
            return None;
        }
        let target = solicitation.target;
        let ether = self.lookup(target)?;
        // A host without an address yet cannot be told alone (RFC 4861, section 7.2.4).
        let nobody = asked.ip.0.is_unspecified();
        let (to, to_ether) = if nobody {
            (ALL_NODES, ether_group(ALL_NODES))
        } else {
            (asked.ip.0, asked.ether.0)
        };
        let message = NeighborMessage {
            solicited: !nobody,
            ..NeighborMessage::advertisement(ether, target)
        };
        let ends = Ends {
            ether: (ether, to_ether),
            ip: (target, to),
        };
        let mut answer = neighbor::frame(cx, &ends, &message)?;
        answer.set_anno(VLAN_TCI, packet.anno(VLAN_TCI));
        Some(answer)
    }
}

impl Element for IP6NDAdvertiser {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.entries.clear();
        for (i, text) in args.take_raw().iter().enumerate() {
            match parse(text, &args.context()) {
                Ok(entries) => self.entries.extend(entries),
                Err(error) => args.error(format_args!("argument {i} {error}")),
            }
        }
        // Stable: of two entries of one prefix the first counts.
        let length = |(prefix, _): &(Ipv6Prefix, _)| core::cmp::Reverse(prefix.length);
        self.entries.sort_by_key(length);
        args.finish()
    }

    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let Some(answer) = self.answer(cx, packet) else {
            return Verdict::Drop;
        };
        let solicitation = core::mem::replace(packet, answer);
        cx.kill(solicitation);
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::ip6::{addr, icmp};
    use crate::testing::*;

    fn rig(args: &str) -> Rig {
        Rig::new(&format!(
            "i :: Inject -> IP6NDAdvertiser({args}) -> c :: Collect;"
        ))
    }

    /// A message in its frame; `head` is type, code and flags.
    fn message(
        (from, to): ([u8; 6], [u8; 6]),
        (source, destination): (&str, &str),
        (kind, flags): (u8, u8),
        target: &str,
        options: &[u8],
    ) -> Vec<u8> {
        let ends: [Ipv6Addr; 3] = [addr(source), addr(destination), addr(target)];
        let payload = [&ends[2].octets()[..], options].concat();
        let mut packet = icmp(ends[0], ends[1], (kind, 0, [flags, 0, 0, 0]), &payload);
        packet[7] = 255;
        ether(to, from, 0x86dd, &packet)
    }

    fn solicitation(target: &str) -> Vec<u8> {
        let ends = ([7; 6], [0x33, 0x33, 0xff, 0, 0, 1]);
        let option = [1, 1, 7, 7, 7, 7, 7, 7];
        message(
            ends,
            ("fe80::7", "ff02::1:ff00:1"),
            (135, 0),
            target,
            &option,
        )
    }

    #[test]
    fn solicitations_are_answered_by_the_longest_prefix() {
        let mut rig = rig("2001:db8::/32 1:1:1:1:1:1, 2001:db8::1 fe80::1/128 2:2:2:2:2:2");
        for (target, mac) in [("2001:db8::1", 2), ("fe80::1", 2), ("2001:db8::2", 1)] {
            rig.push("i", &solicitation(target));
            let option = [2, 1, mac, mac, mac, mac, mac, mac];
            let expected = message(
                ([mac; 6], [7; 6]),
                (target, "fe80::7"),
                (136, 0xc0),
                target,
                &option,
            );
            assert_eq!(rig.data("c"), [expected]);
        }
        rig.push("i", &solicitation("fe80::2"));
        assert!(rig.data("c").is_empty());
        assert_eq!(rig.outstanding(), 0);
    }

    #[test]
    fn a_host_without_an_address_is_told_with_all_others() {
        let mut rig = rig("fe80::1 2:2:2:2:2:2");
        let group = [0x33, 0x33, 0, 0, 0, 1];
        let asked = message(
            ([7; 6], group),
            ("::", "ff02::1:ff00:1"),
            (135, 0),
            "fe80::1",
            &[],
        );
        rig.push("i", &asked);
        let option = [2, 1, 2, 2, 2, 2, 2, 2];
        let expected = message(
            ([2; 6], group),
            ("fe80::1", "ff02::1"),
            (136, 0x80),
            "fe80::1",
            &option,
        );
        assert_eq!(rig.data("c"), [expected]);
    }

    #[test]
    fn other_packets_are_dropped() {
        let mut rig = rig("::/0 2:2:2:2:2:2");
        let good = solicitation("fe80::1");
        for (at, value) in [
            (12, 8),
            (14, 0x40),
            (20, 17),
            (21, 254),
            (54, 136),
            (55, 1),
            (57, 1),
        ] {
            let mut wrong = good.clone();
            wrong[at] = value;
            rig.push("i", &wrong);
        }
        rig.push("i", &good[..77]);
        assert!(rig.data("c").is_empty());
        rig.push("i", &good);
        assert_eq!(rig.data("c").len(), 1);
    }

    #[test]
    fn wrong_entries_are_refused() {
        for (args, error) in [
            (
                "::1 1:1:1:1:1:1 2:2:2:2:2:2",
                "argument 0 has more than one Ethernet address",
            ),
            (
                "::1 1:1:1:1:1:1, zork",
                "argument 1 should be `IP6/MASK ETHADDR'",
            ),
            ("1:1:1:1:1:1", "argument 0 had no IP6 address and masks"),
            ("::1", "argument 0 had no Ethernet address"),
        ] {
            Rig::refuses(
                &format!("Inject -> IP6NDAdvertiser({args}) -> Collect;"),
                error,
            );
        }
    }
}
