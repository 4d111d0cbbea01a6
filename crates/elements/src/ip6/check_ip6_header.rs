use crate::prelude::*;

/// No host has this address.
const ALL_ONES: Ipv6Addr = Ipv6Addr::from_bits(u128::MAX);

/// Checks IPv6 headers, marks them, and drops packets whose header is wrong.
///
/// A header is right if its version is 6, its payload length fits the packet, and the source
/// address is not a bad one. A right header is marked, so that other elements find it, and the
/// packet is cut to the length that the header says. The first wrong packet draws a message.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> Strip(14)
///     -> CheckIP6Header(BADADDRS 2001:db8::ffff ::)
///     -> IP6Print -> Discard;
/// ```
///
/// # See also
/// MarkIP6Header, DecIP6HLIM, CheckIPHeader
#[derive(Element)]
#[element(ports = "1/1-2", processing = "a/ah", segments)]
#[outputs("right packets", "wrong packets")]
pub struct CheckIP6Header {
    /// Bad source addresses, besides the one whose bits are all ones. `::` is one for routers.
    #[arg(positional, name = "BADADDRS", with = addresses, kind = "IPv6 addresses")]
    bad: Vec<Ipv6Addr>,
    /// Where the header starts, in bytes from the packet's start; in front of it if negative.
    #[arg(positional, default = 0)]
    offset: i32,
    /// Wrong packets.
    #[handler(read)]
    drops: u64,
}

/// Addresses separated by spaces, perhaps in quotes.
fn addresses(text: &str, context: &Context<'_>) -> Result<Vec<Ipv6Addr>, Invalid> {
    context.parse(&click::config::unquote_text(text))
}

impl CheckIP6Header {
    /// Where the packet ends by its header, if that is right.
    #[inline(always)]
    fn look(&self, packet: &Packet, offset: usize) -> Option<usize> {
        let bytes = packet.data().get(offset..)?;
        let ip = Ipv6Packet::new_quoted(bytes).ok()?;
        let end = 40 + usize::from(ip.payload_len());
        if end > bytes.len() && offset + end > packet.total_len() {
            return None;
        }
        (!self.bad.contains(&ip.source())).then_some(end)
    }

    /// Checks and marks the header that starts at `offset`.
    #[inline]
    fn check(&mut self, cx: &mut Cx<'_>, packet: &mut Packet, offset: usize) -> Verdict {
        let Some(end) = self.look(packet, offset) else {
            return self.refuse(cx, packet);
        };
        packet.set_network_header(offset, 40);
        packet.truncate(offset + end);
        Verdict::Forward
    }

    /// Checks a header that starts in front of the packet's data.
    #[cold]
    fn check_in_front(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let bytes = self.offset.unsigned_abs() as usize;
        if !packet.push(bytes) {
            return self.refuse(cx, packet);
        }
        let verdict = self.check(cx, packet, 0);
        packet.pull(bytes);
        verdict
    }

    #[cold]
    fn refuse(&mut self, cx: &mut Cx<'_>, packet: &Packet) -> Verdict {
        if self.drops == 0 {
            cx.chatter("IP6 header check failed");
        }
        self.drops += packet.stands_for() as u64;
        Verdict::To(1)
    }
}

impl Element for CheckIP6Header {
    fn configured(&mut self, _cx: &mut Cx<'_>, _args: &mut Args<'_>) -> Result<(), Failed> {
        self.bad.push(ALL_ONES);
        self.bad.sort_unstable();
        self.bad.dedup();
        Ok(())
    }

    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        match usize::try_from(self.offset) {
            Ok(offset) => self.check(cx, packet, offset),
            Err(_) => self.check_in_front(cx, packet),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::ip6::{addr, packet};
    use crate::testing::*;

    #[test]
    fn the_header_may_start_in_front_of_the_data() {
        let config = "i :: Inject -> Strip(4) -> h :: CheckIP6Header(OFFSET -4) -> Unstrip(4)
            -> c :: Collect; h[1] -> d :: Collect;";
        let mut rig = Rig::new(config);
        rig.push("i", &[&good()[..], &[0; 9]].concat());
        let packets = rig.collected("c");
        assert_eq!(packets[0].network_offset(), Some(0));
        assert_eq!(packets[0].data(), good());
        rig.push("i", &[0; 60]);
        assert_eq!(rig.data("d"), [[0; 56]]);
    }

    fn good() -> Vec<u8> {
        packet(59, addr("2001:db8::1"), addr("2001:db8::2"), &[1, 2, 3])
    }

    #[test]
    fn right_packets_are_marked_and_cut() {
        let mut rig = Rig::new("i :: Inject -> k :: CheckIP6Header(OFFSET 2) -> c :: Collect;");
        rig.push("i", &[&[0; 2], &good()[..], &[0; 9]].concat());
        let packets = rig.collected("c");
        assert_eq!(packets[0].data(), [&[0; 2], &good()[..]].concat());
        assert_eq!(packets[0].network_offset(), Some(2));
        assert_eq!(packets[0].transport_offset(), Some(42));
        assert_eq!(rig.read("k.drops"), "0");
    }

    #[test]
    fn wrong_packets_leave_by_output_1_and_are_counted() {
        let mut rig = Rig::new(
            "i :: Inject -> k :: CheckIP6Header(2001:db8::bad ::) -> c :: Collect;
            k[1] -> bad :: Collect;",
        );
        let from = |source| packet(59, addr(source), addr("2001:db8::2"), &[]);
        let (mut version, mut length) = (good(), good());
        version[0] = 0x45;
        length[5] += 1;
        let wrong = [
            good()[..39].to_vec(),
            Vec::new(),
            version,
            length,
            from("2001:db8::bad"),
            from("::"),
            from("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ];
        rig.push_all("i", &wrong);
        assert_eq!(rig.data("bad"), wrong);
        assert!(rig.data("c").is_empty());
        assert_eq!(rig.printed(), ["IP6 header check failed"]);
        assert_eq!(rig.read("k.drops"), "7");
    }

    #[test]
    fn bad_addresses_may_stand_in_quotes() {
        let mut rig = Rig::new("i :: Inject -> k :: CheckIP6Header(\"::1 ::2\") -> c :: Collect;");
        for source in ["::1", "::2", "::3"] {
            rig.push("i", &packet(59, addr(source), addr("::4"), &[]));
        }
        assert_eq!(rig.data("c").len(), 1);
        assert_eq!(rig.read("k.drops"), "2");
    }

    #[test]
    fn bad_addresses_are_addresses() {
        Rig::refuses("Inject -> CheckIP6Header(::1 zork) -> Collect;", "BADADDRS");
    }
}
