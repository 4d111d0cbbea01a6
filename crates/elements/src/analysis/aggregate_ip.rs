use super::ip_field::{IP, IpField, PAYLOAD, TCP_OR_UDP, TRANSPORT};
use crate::prelude::*;

const TCP: u8 = 6;
const UDP: u8 = 17;
/// Where the addresses are in the IP header, in bits.
const ADDRESSES: core::ops::Range<u32> = 96..160;

/// Sets packets' aggregate annotation to a field of their IP packet.
///
/// A field is given by header and name, or by header and position, with an optional prefix or mask.
/// It lies within a word of 4 bytes. These mean the same: `ip src/8`, `ip src & 0xFF000000`,
/// `ip[12]`, `ip[12:1]`, `ip{96:8}`, `ip{96-103}`.
///
/// - Headers: `ip`; `tcp`, `udp`, `icmp` or another protocol; `tcpudp` for either; `transp` for the
///   bytes after the IP header; `data` or `payload` for the payload of TCP or UDP.
/// - Names in `ip`: `vers`, `hl`, `tos`, `dscp`, `ecn`, `len`, `id`, `off`, `rf`, `df`, `mf`,
///   `fragoff`, `ttl`, `proto`, `sum`, `src`, `dst`. In `udp`: `sport`, `dport`, `len`, `sum`. In
///   `tcp`: `sport`, `dport`, `seq`, `ack` (a flag), `ackno`, `hl`, `flags`, `fin`, `syn`, `rst`,
///   `psh`, `urg`, `win`, `sum`, `urp`. In `icmp`: `type`, `code`, `sum`. `sport` and `dport`
///   without a header are those of TCP or UDP.
/// - Places: `[BYTE]`, `[BYTE:BYTES]`, `[BYTE-BYTE]`, and the same in braces for bits. After the
///   name of a header other than `ip`, a space comes first: `tcp [13]`.
///
/// # Example
/// ```click
/// FromDump(in.pcap, FORCE_IP true, STOP true)
///     -> AggregateIP(ip dst/24) -> c :: AggregateCounter -> Discard;
/// DriverManager(pause, write c.write_ip_file -);
/// ```
///
/// # See also
/// AggregateIPFlows, AggregateLength, AggregatePaint, AggregateCounter, IPFieldInfo
#[derive(Element)]
#[element(ports = "1/1-2", processing = "a/ah", handlers)]
#[outputs(
    "packets with the field",
    "packets without the field: too short, fragments, or of another protocol"
)]
pub struct AggregateIP {
    /// The field.
    #[arg(mandatory, name = "FIELD", with = args::Any, kind = "field")]
    text: String,
    /// Whether the field becomes the low bits of the annotation, after the old value is shifted up.
    #[arg]
    incremental: bool,
    /// Whether a part of an address keeps its position in the address: the first byte of 1.2.3.4 is
    /// then 16777216, not 1.
    #[arg]
    unshift_ip_addr: bool,
    field: IpField,
    /// Where the field's word is, in bytes from the header.
    offset: usize,
    shift: u32,
    mask: u32,
}

impl AggregateIP {
    /// The header that the field is in, and what follows.
    #[inline]
    fn header<'p>(&self, packet: &'p Packet) -> Option<&'p [u8]> {
        let ip = packet.network_header()?;
        if self.field.protocol == IP {
            return Some(ip);
        }
        let (&protocol, fragment) = (ip.get(9)?, ip.get(6..8)?);
        if fragment[0] & 0x1f != 0 || fragment[1] != 0 {
            return None;
        }
        let transport = packet.transport_header()?;
        match self.field.protocol {
            TCP_OR_UDP => matches!(protocol, TCP | UDP).then_some(transport),
            TRANSPORT => Some(transport),
            PAYLOAD => match protocol {
                TCP => {
                    let header = usize::from(transport.get(..20)?.get(12)? >> 4) * 4;
                    transport.get(header..)
                }
                UDP => transport.get(8..),
                _ => None,
            },
            wanted => (u32::from(protocol) == wanted).then_some(transport),
        }
    }
}

#[handlers]
impl AggregateIP {
    /// The field's header.
    #[read]
    fn read_header(&self, cx: &mut Cx<'_>) -> String {
        let names = cx.names();
        match self.field.protocol {
            IP => "ip".to_string(),
            other => match names.names.name_of(Kind::IpProtocol, other, names.element) {
                Some(name) => name.to_string(),
                None => other.to_string(),
            },
        }
    }

    /// The field's offset in the header, in bits.
    #[read]
    fn bit_offset(&self) -> u32 {
        self.field.offset
    }

    /// The field's length, in bits.
    #[read]
    fn bit_length(&self) -> u32 {
        self.field.length
    }

    /// The field.
    #[read]
    fn field(&self, cx: &mut Cx<'_>) -> String {
        self.field.show(&cx.names())
    }
}

impl Element for AggregateIP {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let text = click::config::unquote_text(&self.text);
        let field = IpField::parse(text.trim(), &args.context());
        let field = field.map_err(|error| args.fail(error))?;
        let last = field.offset + field.length - 1;
        if field.offset / 32 != last / 32 {
            return Err(args.fail("field specification does not fit within a single word"));
        }
        if field.length == 32 && self.incremental {
            return Err(args.fail("'INCREMENTAL' is incompatible with field length 32"));
        }
        self.field = field;
        self.offset = (field.offset / 32 * 4) as usize;
        self.mask = u32::MAX >> (32 - field.length);
        self.shift = 31 - last % 32;
        let is_address = field.protocol == IP && ADDRESSES.contains(&field.offset);
        if self.unshift_ip_addr && is_address {
            self.mask <<= self.shift;
            self.shift = 0;
        }
        Ok(())
    }

    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let header = self
            .header(packet)
            .and_then(|header| header.get(self.offset..));
        let Some(word) = header.and_then(|header| header.first_chunk()) else {
            return Verdict::To(1);
        };
        let value = (u32::from_be_bytes(*word) >> self.shift) & self.mask;
        let above = if self.incremental {
            packet.anno(AGGREGATE) << self.field.length
        } else {
            0
        };
        packet.set_anno(AGGREGATE, above.wrapping_add(value));
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    /// The annotation of a packet, if it has the field.
    fn aggregate(field: &str, packet: &[u8]) -> Option<u32> {
        let mut rig = Rig::new(&format!(
            "i :: Inject -> MarkIPHeader -> AggregateIP({field}) -> c :: Collect;"
        ));
        rig.push_with("i", packet, |packet| packet.set_anno(AGGREGATE, 3));
        rig.collected("c").first().map(|p| p.anno(AGGREGATE))
    }

    #[test]
    fn fields_become_the_aggregate() {
        let ends = (([1, 2, 3, 4].into(), 1000), ([5, 6, 7, 8].into(), 53));
        let datagram = udp(ends.0, ends.1, b"abcdefgh");
        let segment = tcp(ends.0, ends.1, 0x12, b"abcdefgh");
        for (field, of_udp, of_tcp) in [
            ("ip src/8", Some(1), Some(1)),
            ("ip src & 0xFF000000", Some(1), Some(1)),
            ("ip[12]", Some(1), Some(1)),
            ("\"ip[12, 1]\"", Some(1), Some(1)),
            ("ip{96-103}", Some(1), Some(1)),
            ("ip{96:8}", Some(1), Some(1)),
            ("ip dst", Some(0x0506_0708), Some(0x0506_0708)),
            (
                "ip src/16, UNSHIFT_IP_ADDR true",
                Some(0x0102_0000),
                Some(0x0102_0000),
            ),
            ("ip dst & 0xff, INCREMENTAL true", Some(0x308), Some(0x308)),
            ("ip proto", Some(17), Some(6)),
            ("ip vers", Some(4), Some(4)),
            ("ip hl", Some(5), Some(5)),
            ("sport", Some(1000), Some(1000)),
            ("sport & 0xff", Some(1000 & 0xff), Some(1000 & 0xff)),
            ("udp dport", Some(53), None),
            ("tcp flags", None, Some(0x12)),
            ("tcp syn", None, Some(1)),
            ("tcp [13] & 2", None, Some(1)),
            ("transp [2:2]", Some(53), Some(53)),
            ("data [0]", Some(97), Some(97)),
            ("payload [1-2]", Some(0x6263), Some(0x6263)),
            ("icmp type", None, None),
            ("ip proto 17[0:2]", Some(1000), None),
            ("transp [40]", None, None),
        ] {
            assert_eq!(aggregate(field, &datagram), of_udp, "{field}");
            assert_eq!(aggregate(field, &segment), of_tcp, "{field}");
        }
        let mut fragment = datagram.clone();
        fragment[7] = 1;
        assert_eq!(aggregate("sport", &fragment), None);
        assert_eq!(aggregate("ip src", &fragment), Some(0x0102_0304));
    }

    #[test]
    fn handlers_show_the_field() {
        let shown: Vec<_> = [
            "ip src/8",
            "tcp [13] & 2",
            "udp [20:3]",
            "ip proto 47{3}",
            "transp [0]",
        ]
        .into_iter()
        .map(|field| {
            let mut rig = Rig::new(&format!("Idle -> a :: AggregateIP({field}) -> Discard;"));
            let read = ["header", "bit_offset", "bit_length", "field"];
            read.map(|name| rig.read(&format!("a.{name}"))).join(" ")
        })
        .collect();
        assert_eq!(
            shown,
            [
                "ip 96 8 ip src/8",
                "tcp 110 1 tcp syn",
                "udp 160 24 udp[20:3]",
                "gre 3 1 gre{3}",
                "transp 0 8 transp[0]",
            ]
        );
    }

    #[test]
    fn wrong_fields_are_refused() {
        for (field, text) in [
            ("zork", "expected 'HEADER [NAME]"),
            ("ip", "expected 'HEADER [NAME]"),
            ("transp[0:2]", "expected 'HEADER [NAME]"),
            ("tcp{96:4}", "expected 'HEADER [NAME]"),
            ("ip src[4]", "bad offset or length"),
            ("ip src/33", "bad prefix or mask"),
            ("ip src & 5", "bad prefix or mask"),
            ("ip src x", "garbage after field specification"),
            ("ip[3:2]", "does not fit within a single word"),
            ("ip[0:5]", "does not fit within a single word"),
            (
                "ip src, INCREMENTAL true",
                "incompatible with field length 32",
            ),
            ("ip[4294967295]", "bad offset or length"),
        ] {
            let errors = Rig::errors(&format!("Idle -> AggregateIP({field}) -> Discard;"));
            assert!(errors.contains(text), "{field}: {errors}");
        }
    }
}
