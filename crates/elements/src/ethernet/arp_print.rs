use core::fmt::Write;

use crate::ip::ip_print::output::Output;
use crate::prelude::*;

/// The protocol of ARP packets for IPv4 with trailers (RFC 893).
const TRAILERS: EtherType = EtherType(0x1000);

/// Prints a line for each ARP packet, in a format like tcpdump's.
///
/// Packets must have their ARP header marked as network header, as CheckARPHeader does; other
/// packets are not printed.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> Classifier(12/0806) -> CheckARPHeader(14) -> ARPPrint(arp) -> Discard;
/// ```
///
/// # See also
/// CheckARPHeader, Print, IPPrint
#[derive(Element)]
#[element(ports = "1/1", segments)]
pub struct ARPPrint {
    /// Put before each line.
    #[arg(positional)]
    label: String,
    /// Whether to print the timestamp, in seconds since 1970.
    #[arg(default = true)]
    timestamp: bool,
    /// Whether to print the addresses of the Ethernet header.
    #[arg]
    ether: bool,
    /// Whether to print at all.
    #[arg(default = true, read, write, error = "expected boolean")]
    active: bool,
    /// A file to print to instead of the console. On a host only.
    #[arg(name = "OUTFILE", with = FilenameArg, kind = "file name")]
    file: String,
    output: Output,
}

impl ARPPrint {
    fn write_line(&self, line: &mut String, packet: &Packet) -> core::fmt::Result {
        let arp = packet.network_header().unwrap_or_default();
        if !self.label.is_empty() {
            write!(line, "{}: ", self.label)?;
        }
        if self.timestamp {
            write!(line, "{}: ", Timestamp(packet.timestamp()))?;
        }
        if self.ether
            && let frame = packet.mac_header().unwrap_or(packet.data())
            && frame.len() >= arp.len() + 14
        {
            let frame = EthernetFrame::new_unchecked(frame);
            write!(line, "{} > {}: ", frame.source(), frame.destination())?;
        }
        write_arp(line, arp)
    }
}

/// Writes the content of the ARP packet `arp`.
fn write_arp(line: &mut String, arp: &[u8]) -> core::fmt::Result {
    let Some([h0, h1, p0, p1, hardware_len, protocol_len, o0, o1]) = arp.first_chunk::<8>() else {
        return write!(line, "truncated-arp ({})", arp.len());
    };
    let hardware = u16::from_be_bytes([*h0, *h1]);
    let protocol = EtherType(u16::from_be_bytes([*p0, *p1]));
    let operation = u16::from_be_bytes([*o0, *o1]);
    if !matches!(protocol, EtherType::IPV4 | TRAILERS) || *protocol_len != 4 || *hardware_len == 0 {
        let protocol = protocol.0;
        return write!(
            line,
            "arp-#{operation} for proto #{protocol} ({protocol_len}) \
             hardware #{hardware} ({hardware_len})"
        );
    }
    if arp.len() < ArpPacket::<&[u8]>::HEADER_LEN {
        return write!(line, "truncated-arp ({})", arp.len());
    }
    if protocol == TRAILERS {
        line.push_str("trailer-");
    }
    let ArpMessage {
        operation,
        sender_hardware,
        sender,
        target_hardware,
        target,
    } = ArpMessage::parse(&ArpPacket::new_unchecked(arp));
    match operation {
        ArpOperation::REQUEST => write_request(line, target, target_hardware, sender)?,
        ArpOperation::REPLY => write!(line, "arp reply {sender} is-at {sender_hardware}")?,
        ArpOperation::REVERSE_REQUEST => {
            write!(line, "rarp who-is {target_hardware} tell {sender_hardware}")?;
        }
        ArpOperation::REVERSE_REPLY => write!(line, "rarp reply {target_hardware} at {target}")?,
        ArpOperation::INVERSE_REQUEST => {
            write!(
                line,
                "invarp who-is {target_hardware} tell {sender_hardware}"
            )?;
        }
        ArpOperation::INVERSE_REPLY => write!(line, "invarp reply {target_hardware} at {target}")?,
        ArpOperation(other) => write!(line, "arp-#{other}")?,
    }
    match hardware {
        1 => Ok(()),
        other => write!(line, "hardware #{other}"),
    }
}

fn write_request(
    line: &mut String,
    target: Ipv4Addr,
    hardware: EtherAddress,
    sender: Ipv4Addr,
) -> core::fmt::Result {
    write!(line, "arp who-has {target}")?;
    if !hardware.is_zero() {
        write!(line, " ({hardware})")?;
    }
    write!(line, " tell {sender}")
}

impl Element for ARPPrint {
    fn configured(&mut self, _cx: &mut Cx<'_>, _args: &mut Args<'_>) -> Result<(), Failed> {
        self.output = Output::named(self.file.clone());
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.output.open().map_err(|error| cx.error(error))
    }

    fn cleanup(&mut self, _cx: &mut Cx<'_>) {
        self.output.close();
    }

    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if self.active && packet.network_header().is_some() {
            let mut line = String::new();
            // Writing to a string cannot fail.
            let _ = self.write_line(&mut line, packet);
            self.output.print(cx, &mut line);
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    fn arp(operation: u8, target_hardware: [u8; 6]) -> Vec<u8> {
        [
            &[0, 1, 8, 0, 6, 4, 0, operation][..],
            &[2; 6],
            &[2, 0, 0, 2],
            &target_hardware,
            &[1, 0, 0, 1],
        ]
        .concat()
    }

    fn line(arguments: &str, packet: &[u8]) -> String {
        let mut rig = Rig::new(&format!(
            "i :: Inject -> p :: ARPPrint({arguments}) -> c :: Collect;"
        ));
        rig.push_with("i", &ether([1; 6], [2; 6], 0x0806, packet), |packet| {
            packet.set_network_header(14, packet.len() - 14);
            packet.set_timestamp(1_500_000_000);
        });
        assert_eq!(rig.collected("c").len(), 1);
        rig.printed().join("\n")
    }

    #[test]
    fn lines_are_as_click_prints_them() {
        const HARDWARE: &str = "02-02-02-02-02-02";
        for (packet, expected) in [
            (arp(1, [0; 6]), "arp who-has 1.0.0.1 tell 2.0.0.2"),
            (
                arp(1, [1; 6]),
                "arp who-has 1.0.0.1 (01-01-01-01-01-01) tell 2.0.0.2",
            ),
            (
                arp(2, [1; 6]),
                &format!("arp reply 2.0.0.2 is-at {HARDWARE}"),
            ),
            (
                arp(3, [1; 6]),
                &format!("rarp who-is 01-01-01-01-01-01 tell {HARDWARE}"),
            ),
            (arp(4, [1; 6]), "rarp reply 01-01-01-01-01-01 at 1.0.0.1"),
            (
                arp(8, [1; 6]),
                &format!("invarp who-is 01-01-01-01-01-01 tell {HARDWARE}"),
            ),
            (arp(9, [1; 6]), "invarp reply 01-01-01-01-01-01 at 1.0.0.1"),
            (arp(7, [1; 6]), "arp-#7"),
            (arp(1, [1; 6])[..7].to_vec(), "truncated-arp (7)"),
            (arp(1, [1; 6])[..27].to_vec(), "truncated-arp (27)"),
            (
                [&[0, 1, 0x86, 0xdd, 6, 16, 0, 1][..], &[0; 44]].concat(),
                "arp-#1 for proto #34525 (16) hardware #1 (6)",
            ),
        ] {
            assert_eq!(line("TIMESTAMP false", &packet), expected);
        }
        let mut other = arp(2, [1; 6]);
        other[1] = 6;
        other[2..4].copy_from_slice(&[0x10, 0]);
        let expected = format!("trailer-arp reply 2.0.0.2 is-at {HARDWARE}hardware #6");
        assert_eq!(line("TIMESTAMP false", &other), expected);
    }

    #[test]
    fn labels_times_and_ethernet_addresses_come_first() {
        let expected = "here: 1.500000: 02-02-02-02-02-02 > 01-01-01-01-01-01: \
            arp who-has 1.0.0.1 tell 2.0.0.2";
        assert_eq!(line("here, ETHER true", &arp(1, [0; 6])), expected);
        assert_eq!(line("ACTIVE false", &arp(1, [0; 6])), "");
    }

    #[test]
    fn it_can_be_silenced_and_passes_over_other_packets() {
        let mut rig = Rig::new("i :: Inject -> p :: ARPPrint -> c :: Collect;");
        rig.push("i", &arp(1, [0; 6]));
        rig.write("p.active", "false");
        rig.push_with("i", &arp(1, [0; 6]), |packet| {
            packet.set_network_header(0, 28)
        });
        assert_eq!(rig.read("p.active"), "false");
        assert!(rig.printed().is_empty());
        assert_eq!(rig.collected("c").len(), 2);
    }
}
