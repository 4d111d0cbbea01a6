use alloc::string::{String, ToString};

use packet::Packet;
use packet::wire::{Ecn, Ipv4Packet};
use router::args::{Any, Args, Failed};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerFlags, HandlerList, Verdict};

use crate::values;

/// The marked IP header, if it is there.
#[inline(always)]
fn header(packet: &mut Packet) -> Option<Ipv4Packet<&mut [u8]>> {
    let header = packet.network_header_mut()?;
    (header.len() >= 20).then(|| Ipv4Packet::new_unchecked(header))
}

const OUT_OF_RANGE: &str = "diffserv code point out of range";

/// Sets the differentiated services code point of IP packets.
///
/// The code point is the upper six bits of the type of service; the others stay, and the header's
/// checksum is updated. Packets without a marked IP header pass unchanged.
///
/// # Arguments
/// - `DSCP` (0 to 63): the code point.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// - `dscp` (read, write): the argument.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> CheckIPHeader(14) -> SetIPDSCP(46) -> Discard;
/// ```
///
/// # See also
/// SetIPECN, MarkIPCE
#[derive(Default)]
pub struct SetIPDSCP {
    code_point: u8,
}

impl Class for SetIPDSCP {
    const NAME: &'static str = "SetIPDSCP";
    const PORTS: &'static str = "1/1";
    const SEGMENTS: bool = true;
}

fn code_point(value: u32) -> Option<u8> {
    u8::try_from(value).ok().filter(|value| *value < 64)
}

impl Declared for SetIPDSCP {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let mut value = 0u32;
        args.mandatory_positional("DSCP", &mut value).complete()?;
        self.code_point = code_point(value).ok_or_else(|| args.fail(OUT_OF_RANGE))?;
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read_write("dscp").add("dscp", HandlerFlags::CALM);
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "dscp" => Ok(self.code_point.to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        if name != "dscp" {
            return Err(HandlerError::Unknown);
        }
        let parser = router::args::Argument::parse;
        let new = code_point(values::parse_with(cx, "DSCP", value, parser)?).ok_or(OUT_OF_RANGE)?;
        values::argument(cx, 0, "DSCP", value, &mut self.code_point)?;
        self.code_point = new;
        Ok(())
    }
}

impl Element for SetIPDSCP {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if let Some(mut ip) = header(packet) {
            ip.rewrite_tos(self.code_point << 2 | ip.tos() & 3);
        }
        Verdict::Forward
    }
}

/// Sets the explicit congestion notification field of IP packets.
///
/// The field is the lower two bits of the type of service; the others stay, and the header's
/// checksum is updated. Packets without a marked IP header pass unchanged.
///
/// # Arguments
/// - `ECN` (`no`, `ect1`, `ect2`, `ce`, or 0 to 3): the field: the transport does not know of it,
///   ECT(1), ECT(0), or congestion was experienced. `-`, `ECT(1)`, `ECT(0)` and `CE` mean the same.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// - `ecn` (read, write): the argument, read as a number.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> CheckIPHeader(14) -> SetIPECN(no) -> Discard;
/// ```
///
/// # See also
/// SetIPDSCP, MarkIPCE
#[derive(Default)]
pub struct SetIPECN {
    field: u8,
}

impl Class for SetIPECN {
    const NAME: &'static str = "SetIPECN";
    const PORTS: &'static str = "1/1";
}

fn field(text: &str) -> Option<u8> {
    Some(match text {
        "0" | "no" | "-" => Ecn::NotCapable as u8,
        "1" | "ect1" | "ECT(1)" => Ecn::Capable1 as u8,
        "2" | "ect2" | "ECT(0)" => Ecn::Capable0 as u8,
        "3" | "ce" | "CE" => Ecn::Congested as u8,
        _ => return None,
    })
}

const BAD_ECN: &str = "bad ECN argument";

impl Declared for SetIPECN {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let mut text = String::new();
        args.mandatory_positional_with("ECN", Any, &mut text).complete()?;
        self.field = field(&text).ok_or_else(|| args.fail(BAD_ECN))?;
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read_write("ecn").add("ecn", HandlerFlags::CALM);
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "ecn" => Ok(self.field.to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        if name != "ecn" {
            return Err(HandlerError::Unknown);
        }
        let new = field(click::config::uncomment(value).as_str()).ok_or(BAD_ECN)?;
        values::argument_with(cx, 0, "ECN", value, Any, &mut String::new())?;
        self.field = new;
        Ok(())
    }
}

impl Element for SetIPECN {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if let Some(mut ip) = header(packet) {
            ip.rewrite_tos(ip.tos() & !3 | self.field);
        }
        Verdict::Forward
    }
}

/// Marks IP packets as having experienced congestion.
///
/// Packets whose transport does not know of congestion notification are dropped. The header's
/// checksum is updated. Packets must have their IP header marked; others are dropped.
///
/// # Arguments
/// - `FORCE` (boolean, false): whether to mark the packets that would be dropped.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// - `drops` (read): packets dropped.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> CheckIPHeader(14) -> MarkIPCE -> Discard;
/// ```
///
/// # See also
/// SetIPECN, SetIPDSCP
#[derive(Default)]
pub struct MarkIPCE {
    force: bool,
    drops: u64,
}

impl Class for MarkIPCE {
    const NAME: &'static str = "MarkIPCE";
    const PORTS: &'static str = "1/1";
}

impl Declared for MarkIPCE {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        args.positional("FORCE", &mut self.force).complete()
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

impl Element for MarkIPCE {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        match header(packet) {
            Some(mut ip) if self.force || ip.ecn() != Ecn::NotCapable => {
                ip.rewrite_tos(ip.tos() | Ecn::Congested as u8);
                Verdict::Forward
            }
            _ => {
                self.drops += 1;
                Verdict::Drop
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec::Vec;
    use core::net::Ipv4Addr;

    use proptest::prelude::*;

    use crate::testing::{Rig, checksum, udp};

    fn packet(tos: u8, ident: u16) -> Vec<u8> {
        let mut packet = udp((Ipv4Addr::new(1, 0, 0, 1), 5), (Ipv4Addr::new(2, 0, 0, 2), 6), &[]);
        packet[1] = tos;
        packet[4..6].copy_from_slice(&ident.to_be_bytes());
        packet[10..12].fill(0);
        let sum = checksum(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet
    }

    fn rig(element: &str) -> Rig {
        Rig::new(&format!("i :: Inject -> MarkIPHeader -> e :: {element} -> c :: Collect;"))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn checksums_are_as_if_computed_anew(ident: u16, code_point in 0u8..64, ecn in 0u8..4) {
            let mut dscp = rig(&format!("SetIPDSCP({code_point})"));
            let mut ecn_rig = rig(&format!("SetIPECN({ecn})"));
            let mut ce = rig("MarkIPCE(true)");
            let packets: Vec<_> = (0..=255).map(|tos| packet(tos, ident)).collect();
            for (rig, new) in [
                (&mut dscp, &(|tos: u8| code_point << 2 | tos & 3) as &dyn Fn(u8) -> u8),
                (&mut ecn_rig, &|tos| tos & 0xfc | ecn),
                (&mut ce, &|tos| tos | 3),
            ] {
                rig.push_all("i", &packets);
                let expected: Vec<_> = (0..=255).map(|tos| packet(new(tos), ident)).collect();
                prop_assert_eq!(rig.data("c"), expected);
            }
        }
    }

    #[test]
    fn only_capable_transports_are_marked_without_force() {
        let mut rig = rig("MarkIPCE");
        rig.push_all("i", &[packet(0xb8, 1), packet(1, 2), packet(2, 3), packet(3, 4)]);
        assert_eq!(rig.data("c"), [packet(3, 2), packet(3, 3), packet(3, 4)]);
        assert_eq!(rig.read("e.drops"), "1");
        let mut bare = Rig::new("i :: Inject -> e :: MarkIPCE(true) -> c :: Collect;");
        bare.push("i", &packet(1, 1));
        assert_eq!(bare.read("e.drops"), "1");
    }

    #[test]
    fn handlers_change_the_fields() {
        let mut dscp = rig("SetIPDSCP(DSCP 10)");
        dscp.write("e.dscp", "0x2");
        assert_eq!(dscp.read("e.dscp"), "2");
        assert_eq!(dscp.read("e.config"), "DSCP 0x2");
        let refused = dscp.try_write("e.dscp", "64");
        assert_eq!(refused, Err("diffserv code point out of range".into()));
        assert_eq!(dscp.read("e.config"), "DSCP 0x2");
        let mut ecn = rig("SetIPECN(no)");
        for (text, number) in [("ECT(1)", "1"), ("ect2", "2"), ("CE", "3"), ("-", "0"), ("1", "1")] {
            ecn.write("e.ecn", text);
            assert_eq!(ecn.read("e.ecn"), number);
            assert_eq!(ecn.read("e.config"), text);
        }
        assert_eq!(ecn.try_write("e.ecn", "4"), Err("bad ECN argument".into()));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (element, error) in [
            ("SetIPDSCP(64)", "diffserv code point out of range"),
            ("SetIPECN(maybe)", "bad ECN argument"),
        ] {
            let errors = Rig::errors(&format!("Inject -> {element} -> Collect;"));
            assert!(errors.contains(error), "{errors}");
        }
    }

    #[test]
    fn packets_without_a_header_pass_unchanged() {
        let config = "i :: Inject -> SetIPDSCP(1) -> SetIPECN(ce) -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.push("i", &packet(0, 0));
        rig.push_with("i", &[0x45; 19], |packet| packet.set_network_header(0, 20));
        assert_eq!(rig.data("c"), [packet(0, 0), [0x45; 19].to_vec()]);
    }
}
