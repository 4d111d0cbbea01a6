use alloc::string::{String, ToString};
use core::net::Ipv4Addr;

use packet::Packet;
use packet::checksum::{Delta, Sum};
use packet::wire::{Icmpv4Header, Icmpv4Packet, Icmpv4Type, IpProtocol, Ipv4Header, Ipv4Packet};
use router::args::{Args, Failed, Kind, NamedInt, WordArg};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerFlags, HandlerList, Verdict};

use crate::values;

/// Length of the IP header.
const IP: usize = 20;
/// Length of the ICMP header of timestamp messages, their times included.
const TIMESTAMP: usize = 20;

/// The headers that packets get, and the number of the next.
struct Encap {
    ip: Ipv4Header,
    icmp_type: Icmpv4Type,
    code: u8,
    ident: u16,
    /// IP identification and ICMP sequence number of the next packet; never 0.
    number: u16,
    /// The IP header without length and identification, and its checksum.
    template: [u8; IP],
}

impl Default for Encap {
    fn default() -> Self {
        Encap {
            ip: Ipv4Header {
                tos: 0,
                total_len: 0,
                ident: 0,
                dont_fragment: false,
                more_fragments: false,
                fragment_offset: 0,
                ttl: 255,
                protocol: IpProtocol::ICMP,
                source: Ipv4Addr::UNSPECIFIED,
                destination: Ipv4Addr::UNSPECIFIED,
            },
            icmp_type: Icmpv4Type::ECHO,
            code: 0,
            ident: 0,
            number: 1,
            template: [0; IP],
        }
    }
}

impl Encap {
    fn make_template(&mut self) {
        self.template = self.ip.to_bytes();
    }

    /// Length of the ICMP header.
    fn icmp_len(&self) -> usize {
        match self.icmp_type {
            Icmpv4Type::TIMESTAMP | Icmpv4Type::TIMESTAMP_REPLY => TIMESTAMP,
            _ => Icmpv4Packet::<&[u8]>::HEADER_LEN,
        }
    }

    /// The ICMP header's last four bytes: identifier and sequence number, where it has them.
    fn rest(&self) -> [u8; 4] {
        match self.icmp_type {
            Icmpv4Type::ECHO
            | Icmpv4Type::ECHO_REPLY
            | Icmpv4Type::TIMESTAMP
            | Icmpv4Type::TIMESTAMP_REPLY
            | Icmpv4Type::INFORMATION
            | Icmpv4Type::INFORMATION_REPLY => {
                let ([a, b], [c, d]) = (self.ident.to_be_bytes(), self.number.to_be_bytes());
                [a, b, c, d]
            }
            _ => [0; 4],
        }
    }

    #[inline(always)]
    fn encapsulate(&mut self, packet: &mut Packet) -> Verdict {
        let icmp_len = self.icmp_len();
        if !packet.push(IP + icmp_len) {
            return Verdict::Drop;
        }
        let (length, number) = (packet.len() as u16, self.number);
        let mut ip = Ipv4Packet::new_unchecked(packet.data_mut());
        if let Some(place) = ip.header_mut() {
            *place = self.template;
        }
        ip.set_total_len(length);
        ip.set_ident(number);
        let new = Sum::ZERO.add_u16(length).add_u16(number);
        ip.update_checksum(Delta::of_sums(Sum::ZERO, new));

        let message = packet.data_mut().get_mut(IP..).unwrap_or_default();
        if let Some(times) = message.get_mut(8..icmp_len) {
            times.fill(0);
        }
        let mut icmp = Icmpv4Packet::new_unchecked(message);
        let header = Icmpv4Header {
            icmp_type: self.icmp_type,
            code: self.code,
            rest: self.rest(),
        };
        header.emit(&mut icmp);
        icmp.fill_checksum();
        packet.set_dst_ip(self.ip.destination);
        packet.set_network_header(0, IP);
        self.number = self.number.wrapping_add(1).max(1);
        Verdict::Forward
    }

    fn handlers(list: &mut HandlerList) {
        list.read_write("src").add("src", HandlerFlags::CALM);
        list.read_write("dst").add("dst", HandlerFlags::CALM);
    }

    fn read(&self, name: &str) -> Result<String, HandlerError> {
        match name {
            "src" => Ok(self.ip.source.to_string()),
            "dst" => Ok(self.ip.destination.to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let written = match name {
            "src" => values::argument(cx, 0, "SRC", value, &mut self.ip.source),
            "dst" => values::argument(cx, 1, "DST", value, &mut self.ip.destination),
            _ => return Err(HandlerError::Unknown),
        };
        written.map_err(|_| "syntax error")?;
        self.make_template();
        Ok(())
    }
}

/// Puts an ICMP header and an IP header in front of packets.
///
/// Where messages of the type have a sequence number, it counts up, from 1, and leaves out 0; the
/// IP identification is the same. The IP header is marked, and the destination address annotation
/// set to the destination.
///
/// # Arguments
/// - `SRC`, `DST` (IP address): who the packets are from, and who they are for.
/// - `TYPE` (integer or name): the ICMP type, such as `echo` or `unreachable`.
/// - `CODE` (integer or name, 0): the ICMP code, such as `needfrag`.
/// - `IDENTIFIER` (integer, 0): the identifier, where messages of the type have one.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// - `src`, `dst` (read, write): the arguments.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 1, STOP true)
///     -> ICMPIPEncap(1.0.0.1, 2.0.0.2, unreachable, host)
///     -> IPPrint -> Discard;
/// ```
///
/// # See also
/// ICMPPingEncap, ICMPError
#[derive(Default)]
pub struct ICMPIPEncap {
    encap: Encap,
}

impl Class for ICMPIPEncap {
    const NAME: &'static str = "ICMPIPEncap";
    const PORTS: &'static str = "1/1";
}

impl Declared for ICMPIPEncap {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let (mut kind, mut code) = (0i32, String::from("0"));
        let encap = &mut self.encap;
        args.mandatory_positional("SRC", &mut encap.ip.source)
            .mandatory_positional("DST", &mut encap.ip.destination)
            .mandatory_positional_with("TYPE", NamedInt(Kind::IcmpType), &mut kind)
            .positional_with("CODE", WordArg, &mut code)
            .keyword("IDENTIFIER", &mut encap.ident)
            .complete()?;
        let kind = u8::try_from(kind).map_err(|_| args.fail("invalid TYPE"))?;
        let context = args.context();
        let code = context.names.int_or_number(Kind::IcmpCode(kind), &code, context.element);
        let code = code.and_then(|code| u8::try_from(code).ok());
        encap.code = code.ok_or_else(|| args.fail("invalid CODE"))?;
        encap.icmp_type = Icmpv4Type(kind);
        encap.make_template();
        Ok(())
    }

    fn handlers(&self, list: &mut HandlerList) {
        Encap::handlers(list);
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        self.encap.read(name)
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        self.encap.write(cx, name, value)
    }
}

impl Element for ICMPIPEncap {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        self.encap.encapsulate(packet)
    }
}

/// Makes packets the data of ICMP echo requests.
///
/// The sequence number counts up, from 1, and leaves out 0; the IP identification is the same. The
/// IP header is marked, and the destination address annotation set to the destination.
///
/// # Arguments
/// - `SRC`, `DST` (IP address): who the requests are from, and who they are for.
/// - `IDENTIFIER` (integer, 0): the ICMP identifier.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// - `src`, `dst` (read, write): the arguments.
///
/// # Example
/// ```click
/// RatedSource(DATA hello, RATE 1, LIMIT 3, STOP true)
///     -> ICMPPingEncap(1.0.0.1, 2.0.0.2) -> IPPrint -> Discard;
/// ```
///
/// # See also
/// ICMPPingSource, ICMPPingResponder, ICMPPingRewriter, ICMPIPEncap
#[derive(Default)]
pub struct ICMPPingEncap {
    encap: Encap,
}

impl Class for ICMPPingEncap {
    const NAME: &'static str = "ICMPPingEncap";
    const PORTS: &'static str = "1/1";
}

impl Declared for ICMPPingEncap {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let encap = &mut self.encap;
        args.mandatory_positional("SRC", &mut encap.ip.source)
            .mandatory_positional("DST", &mut encap.ip.destination)
            .keyword("IDENTIFIER", &mut encap.ident)
            .complete()?;
        encap.make_template();
        Ok(())
    }

    fn handlers(&self, list: &mut HandlerList) {
        Encap::handlers(list);
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        self.encap.read(name)
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        self.encap.write(cx, name, value)
    }
}

impl Element for ICMPPingEncap {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        self.encap.encapsulate(packet)
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec::Vec;
    use core::net::Ipv4Addr;

    use proptest::prelude::*;

    use crate::testing::{Rig, checksum};

    fn rig(element: &str) -> Rig {
        Rig::new(&format!("i :: Inject -> e :: {element} -> c :: Collect;"))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn both_checksums_hold(data: Vec<u8>, ident: u16) {
            let mut rig = rig(&format!("ICMPPingEncap(1.0.0.1, 2.0.0.2, IDENTIFIER {ident})"));
            rig.push("i", &data);
            let packets = rig.collected("c");
            let packet = packets[0].data();
            prop_assert_eq!(checksum(&packet[..20]), 0);
            prop_assert_eq!(checksum(&packet[20..]), 0);
            let length = (28 + data.len() as u16).to_be_bytes();
            let header = [0x45, 0, length[0], length[1], 0, 1, 0, 0, 255, 1];
            prop_assert_eq!(&packet[..10], &header);
            prop_assert_eq!(&packet[12..22], &[1, 0, 0, 1, 2, 0, 0, 2, 8, 0]);
            prop_assert_eq!(&packet[24..26], &ident.to_be_bytes());
            prop_assert_eq!(&packet[28..], &data[..]);
        }
    }

    #[test]
    fn sequence_numbers_count_up_and_leave_out_zero() {
        let mut rig = rig("ICMPPingEncap(1.0.0.1, 2.0.0.2)");
        for number in [1, 2, 3].into_iter().chain(4..=u16::MAX).chain([1, 2]) {
            rig.push("i", &[]);
            let packets = rig.collected("c");
            assert_eq!(packets[0].data()[4..6], number.to_be_bytes());
            assert_eq!(packets[0].data()[26..28], number.to_be_bytes());
            assert_eq!(packets[0].dst_ip(), Ipv4Addr::new(2, 0, 0, 2));
            assert_eq!(packets[0].transport_offset(), Some(20));
        }
    }

    #[test]
    fn types_and_codes_have_names() {
        for (arguments, header) in [
            ("8, 0", &[8u8, 0, 0, 0, 0, 9, 0, 1][..]),
            ("echo-reply", &[0, 0, 0, 0, 0, 9, 0, 1]),
            ("unreachable, needfrag", &[3, 4, 0, 0, 0, 0, 0, 0]),
            ("5, toshost", &[5, 3, 0, 0, 0, 0, 0, 0]),
            ("timestamp", &[13, 0, 0, 0, 0, 9, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        ] {
            let mut rig = rig(&format!("ICMPIPEncap(1.0.0.1, 2.0.0.2, {arguments}, IDENTIFIER 9)"));
            rig.push("i", &[7]);
            let mut packet = rig.data("c").remove(0);
            assert_eq!(checksum(&packet[20..]), 0, "{arguments}");
            packet[22..24].fill(0);
            assert_eq!(packet[20..], [header, &[7]].concat(), "{arguments}");
        }
    }

    #[test]
    fn handlers_change_the_addresses() {
        let mut rig = rig("ICMPPingEncap(1.0.0.1, 2.0.0.2)");
        rig.write("e.src", "3.0.0.3");
        rig.write("e.dst", "4.0.0.4");
        assert_eq!((rig.read("e.src"), rig.read("e.dst")), ("3.0.0.3".into(), "4.0.0.4".into()));
        assert_eq!(rig.try_write("e.dst", "zork"), Err("syntax error".into()));
        rig.push("i", &[]);
        let packet = rig.data("c").remove(0);
        assert_eq!(packet[12..20], [3, 0, 0, 3, 4, 0, 0, 4]);
        assert_eq!(checksum(&packet[..20]), 0);
    }

    #[test]
    fn unknown_types_and_codes_are_refused() {
        for (arguments, error) in [
            ("256", "invalid TYPE"),
            ("echo, needfrag", "invalid CODE"),
            ("3, 256", "invalid CODE"),
        ] {
            let element = format!("ICMPIPEncap(1.0.0.1, 2.0.0.2, {arguments})");
            let errors = Rig::errors(&format!("Inject -> {element} -> Collect;"));
            assert!(errors.contains(error), "{errors}");
        }
    }
}
