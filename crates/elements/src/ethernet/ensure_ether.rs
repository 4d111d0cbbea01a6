use crate::prelude::*;

/// Makes sure that IP packets have an Ethernet header.
///
/// Packets without a marked network header pass unchanged, and so do packets that start with the
/// Ethernet header of an IP packet. Other packets lose the bytes before their IP header, and get an
/// Ethernet header: the one that was stripped off them, if it stands in front of their data, or else
/// the one in the arguments.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 1, STOP true) -> IPEncap(udp, 1.0.0.1, 2.0.0.2)
///     -> EnsureEther(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> Print -> Discard;
/// ```
///
/// # See also
/// EtherEncap, EtherRewrite, EtherVLANEncap
#[derive(Element)]
#[element(ports = "1/1", segments)]
pub struct EnsureEther {
    /// The type of the payload.
    #[arg(positional, default = 0x0800)]
    ethertype: u32,
    /// The source address.
    #[arg(positional, name = "SRC", default = EtherAddress([1; 6]), default_text = "1:1:1:1:1:1")]
    source: EtherAddress,
    /// The destination address.
    #[arg(positional, name = "DST", default = EtherAddress([2; 6]), default_text = "2:2:2:2:2:2")]
    destination: EtherAddress,
    /// The header on the wire.
    header: [u8; 14],
}

/// Whether `bytes` start with the Ethernet header of an IP packet.
#[inline(always)]
fn is_ip(bytes: &[u8]) -> bool {
    let ethertype = EthernetFrame::new_unchecked(bytes).ethertype();
    matches!(ethertype, EtherType::IPV4 | EtherType::IPV6)
}

impl Element for EnsureEther {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let ethertype = u16::try_from(self.ethertype)
            .map_err(|_| args.fail("argument 1 (Ethernet encapsulation type) must be <= 0xFFFF"))?;
        let header = EthernetHeader {
            destination: self.destination,
            source: self.source,
            ethertype: EtherType(ethertype),
        };
        self.header = header.to_bytes();
        Ok(())
    }

    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let Some(Ok(offset)) = packet.network_offset().map(usize::try_from) else {
            return Verdict::Forward;
        };
        if offset == 14 && is_ip(packet.data()) {
            return Verdict::Forward;
        }
        packet.pull(offset);
        // A stripped header still stands in the headroom; no other bytes count.
        let room = packet.headroom() >= 14;
        if !packet.push(14) {
            return Verdict::Drop;
        }
        if !(offset == 0 && room && is_ip(packet.data())) {
            EthernetFrame::new_unchecked(packet.data_mut()).set_header(&self.header);
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    fn rig(before: &str) -> Rig {
        Rig::new(&alloc::format!(
            "i :: Inject -> {before} -> EnsureEther(0x0800, 3:3:3:3:3:3, 4:4:4:4:4:4)
                -> c :: Collect;"
        ))
    }

    #[test]
    fn packets_without_a_header_get_one() {
        let packet = udp((A, 1), (A, 2), &[5]);
        let framed = ether([4; 6], [3; 6], 0x0800, &packet);
        let mut plain = rig("MarkIPHeader");
        plain.push("i", &packet);
        assert_eq!(plain.data("c"), [&framed[..]]);
        let mut other = rig("MarkIPHeader(4)");
        other.push("i", &[&[0; 4][..], &packet].concat());
        assert_eq!(other.data("c"), [&framed[..]]);
        let mut foreign = rig("MarkIPHeader(14)");
        foreign.push("i", &ether([9; 6], [9; 6], 0x8847, &packet));
        assert_eq!(foreign.data("c"), [framed]);
    }

    #[test]
    fn headers_that_are_there_or_were_stripped_are_used() {
        let frame = ether([9; 6], [8; 6], 0x0800, &udp((A, 1), (A, 2), &[5]));
        for before in ["MarkIPHeader(14)", "Strip(14) -> MarkIPHeader", "Null"] {
            let mut rig = rig(before);
            rig.push("i", &frame);
            assert_eq!(rig.data("c"), [&frame[..]], "{before}");
        }
    }

    #[test]
    fn ethertypes_have_16_bits() {
        Rig::refuses(
            "Inject -> EnsureEther(65536) -> Collect;",
            "must be <= 0xFFFF",
        );
    }
}
