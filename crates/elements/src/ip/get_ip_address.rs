use crate::prelude::*;

/// Where the address is.
#[derive(Clone, Copy, Default)]
enum Place {
    At(usize),
    Source,
    #[default]
    Destination,
}

/// Copies an IP address out of packets into their destination address annotation.
///
/// Packets too short for the address keep their annotation.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> Strip(14) -> GetIPAddress(16) -> Discard;
/// ```
///
/// # See also
/// ARPQuerier, StaticIPLookup, SetIPAddress, StoreIPAddress
#[derive(Element)]
#[element(ports = "1/1", segments)]
pub struct GetIPAddress {
    /// Where the address is, in bytes from the packet's start: 16 for the destination of a packet
    /// that starts with its IP header.
    #[arg(positional, default = -1, default_text = "")]
    offset: i32,
    /// The annotation to set.
    #[arg(positional, default = AnnoOf::new(DST_IP), default_text = "DST_IP")]
    anno: AnnoOf<4>,
    /// Instead of OFFSET, the source or destination address of the IP header, which must be marked.
    #[arg(name = "IP", kind = "src or dst")]
    field: String,
    place: Place,
}

impl Element for GetIPAddress {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.place = match (usize::try_from(self.offset), self.field.as_str()) {
            (Ok(offset), "") => Place::At(offset),
            (Ok(_), _) | (_, "") => return Err(args.fail("set one of OFFSET, IP")),
            (_, "src") => Place::Source,
            (_, "dst") => Place::Destination,
            _ => return Err(args.fail("bad IP")),
        };
        Ok(())
    }

    #[inline]
    fn effects(&self) -> Effects {
        // Where CheckIPHeader and its like put it already.
        let same = self.anno.offset() == DST_IP.offset && matches!(self.place, Place::At(16));
        let known = Facts::ALL.without(Facts::DESTINATION);
        Effects {
            no_op: Facts::DESTINATION.if_so(same),
            preserves: known.if_so(self.anno.offset() == DST_IP.offset),
            ..Effects::default()
        }
    }

    #[inline(always)]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if let Some(address) = self.place.address(packet) {
            packet.set_anno_word(self.anno.offset(), u32::from_ne_bytes(address.octets()));
        }
        Verdict::Forward
    }
}

impl Place {
    #[inline(always)]
    fn address(self, packet: &Packet) -> Option<Ipv4Addr> {
        if let Place::At(offset) = self {
            let bytes = packet.data().get(offset..)?.first_chunk()?;
            return Some(Ipv4Addr::from_octets(*bytes));
        }
        let header = packet.network_header().filter(|bytes| bytes.len() >= 20)?;
        let ip = Ipv4Packet::new_unchecked(header);
        Some(match self {
            Place::Source => ip.source(),
            _ => ip.destination(),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    fn annotations(args: &str) -> [u8; 48] {
        let config =
            alloc::format!("i :: Inject -> MarkIPHeader -> GetIPAddress({args}) -> c :: Collect;");
        let mut rig = Rig::new(&config);
        let (from, to) = (Ipv4Addr::new(1, 2, 3, 4), Ipv4Addr::new(5, 6, 7, 8));
        rig.push("i", &udp((from, 1), (to, 2), &[]));
        *rig.collected("c")[0].annotations()
    }

    #[test]
    fn the_address_is_where_the_arguments_say() {
        assert_eq!(annotations("16")[..4], [5, 6, 7, 8]);
        assert_eq!(annotations("IP src")[..4], [1, 2, 3, 4]);
        assert_eq!(annotations("IP dst")[..4], [5, 6, 7, 8]);
        assert_eq!(annotations("12, 20")[20..24], [1, 2, 3, 4]);
        assert_eq!(annotations("26"), [0; 48]);
    }

    #[test]
    fn one_place_is_needed() {
        for (args, error) in [
            ("", "set one of OFFSET, IP"),
            ("16, IP src", "set one of OFFSET, IP"),
            ("IP zork", "bad IP"),
            ("16, 46", "ANNO: parse error"),
        ] {
            let config = alloc::format!("Inject -> GetIPAddress({args}) -> Collect;");
            Rig::refuses(&config, error);
        }
    }
}
