use super::header_check::{BadSources, Check};
use crate::prelude::*;

/// Combines the input elements of an IP router.
///
/// As `Paint(COLOR) -> Strip(14) -> CheckIPHeader(...) -> GetIPAddress(16)`. Wrong packets are
/// dropped, the first with a message.
///
/// # Example
/// ```click
/// FromDevice(eth0) -> IPInputCombo(1, INTERFACES 18.26.4.9/24) -> Discard;
/// ```
///
/// # See also
/// IPOutputCombo, Paint, Strip, CheckIPHeader, GetIPAddress
#[derive(Element)]
#[element(ports = "1/1", segments)]
pub struct IPInputCombo {
    /// The paint, of which the low 8 bits count.
    #[arg(mandatory)]
    color: i32,
    /// Bad source addresses, besides 0.0.0.0 and 255.255.255.255.
    #[arg(positional, name = "BADSRC*")]
    old: Option<Vec<Ipv4Addr>>,
    #[flatten]
    sources: BadSources,
    /// Wrong packets.
    #[handler(read)]
    drops: u64,
    check: Check,
}

impl Element for IPInputCombo {
    fn configured(&mut self, _cx: &mut Cx<'_>, _args: &mut Args<'_>) -> Result<(), Failed> {
        let mut old = self.old.clone();
        if let Some(addresses) = &mut old {
            addresses.extend([Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST]);
        }
        self.check = Check::of(&self.sources, old);
        Ok(())
    }

    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        packet.set_paint(self.color as u8);
        packet.pull(14);
        if self.check.mark(packet).is_ok() {
            return Verdict::Forward;
        }
        if self.drops == 0 {
            cx.chatter("IP checksum failed");
        }
        self.drops += packet.stands_for() as u64;
        Verdict::Drop
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn right_packets_are_painted_stripped_marked_and_annotated() {
        let mut rig = Rig::new("i :: Inject -> k :: IPInputCombo(263, 1.0.0.255) -> c :: Collect;");
        let (a, b) = (Ipv4Addr::new(1, 0, 0, 1), Ipv4Addr::new(2, 0, 0, 2));
        let packet = udp((a, 1), (b, 2), &[]);
        rig.push("i", &ether([1; 6], [2; 6], 0x0800, &packet));
        let packets = rig.collected("c");
        assert_eq!(packets[0].data(), packet);
        assert_eq!((packets[0].paint(), packets[0].dst_ip()), (7, b));
        assert_eq!(packets[0].network_offset(), Some(0));
        for source in [Ipv4Addr::new(1, 0, 0, 255), Ipv4Addr::UNSPECIFIED] {
            let packet = udp((source, 1), (b, 2), &[]);
            rig.push("i", &ether([1; 6], [2; 6], 0x0800, &packet));
        }
        rig.push("i", &packet[..10]);
        assert!(rig.data("c").is_empty());
        assert_eq!(rig.read("k.drops"), "3");
        assert_eq!(rig.printed(), ["IP checksum failed"]);
    }
}
