use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::Ipv4Addr;

use packet::Packet;
use router::args::{Args, Failed};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList, Verdict};

use super::check_ip_header::{Check, Interfaces, InterfacesArg};

/// Does what packets meet on their way into an IP router, in one element.
///
/// As `Paint(COLOR) -> Strip(14) -> CheckIPHeader(...) -> GetIPAddress(16)`. Wrong packets are
/// dropped, the first with a message.
///
/// # Arguments
/// - `COLOR` (integer): the paint, 0 to 255.
/// - `BADSRC*` (addresses): bad source addresses, beside 0.0.0.0 and 255.255.255.255.
/// - `INTERFACES`, `BADSRC`, `GOODDST`: as CheckIPHeader's.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// - `drops` (read): wrong packets.
///
/// # Example
/// ```click
/// FromDevice(eth0) -> IPInputCombo(1, INTERFACES 18.26.4.9/24) -> Discard;
/// ```
///
/// # See also
/// IPOutputCombo, Paint, Strip, CheckIPHeader, GetIPAddress
#[derive(Default)]
pub struct IPInputCombo {
    colour: u8,
    check: Check,
    drops: u64,
}

impl Class for IPInputCombo {
    const NAME: &'static str = "IPInputCombo";
    const PORTS: &'static str = "1/1";
    const SEGMENTS: bool = true;
}

impl Declared for IPInputCombo {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let mut old: Option<Vec<Ipv4Addr>> = None;
        let (mut bad, mut good) = (None, None);
        let mut interfaces = Interfaces::default();
        args.mandatory_positional("COLOR", &mut self.colour)
            .positional("BADSRC*", &mut old)
            .keyword_with("INTERFACES", InterfacesArg, &mut interfaces)
            .keyword("BADSRC", &mut bad)
            .keyword("GOODDST", &mut good)
            .complete()?;
        let old = old.map(|mut addresses| {
            addresses.extend([Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST]);
            addresses
        });
        let bad = bad.or(old).unwrap_or(interfaces.bad);
        self.check = Check::of(bad, good.unwrap_or(interfaces.good));
        Ok(())
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read("drops");
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "drops" => Ok(self.drops.to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }
}

impl Element for IPInputCombo {
    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        packet.set_paint(self.colour);
        packet.pull(14);
        if self.check.mark(packet).is_ok() {
            return Verdict::Forward;
        }
        if self.drops == 0 {
            cx.chatter("IP checksum failed");
        }
        self.drops += 1;
        Verdict::Drop
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use crate::testing::{Rig, ether, udp};

    #[test]
    fn right_packets_are_painted_stripped_marked_and_annotated() {
        let mut rig = Rig::new("i :: Inject -> k :: IPInputCombo(7, 1.0.0.255) -> c :: Collect;");
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
