use core::fmt::Write;

use crate::prelude::*;

/// What may be wrong with a header, in the order of `drop_details`.
#[derive(Clone, Copy, Debug)]
enum Reason {
    Tiny,
    Length,
    Hardware,
    Protocol,
}

const REASONS: [&str; 4] = [
    "tiny packet",
    "too small for addresses",
    "bad hardware type/length",
    "bad protocol type/length",
];

/// Length of an ARP packet before its addresses.
const FIXED: usize = 8;

/// Checks ARP headers, marks them, and drops packets whose header is wrong.
///
/// A header is right if the packet holds the addresses that it announces, and the addresses have the
/// length of their type: 6 bytes for Ethernet, 4 for IPv4, 16 for IPv6. A right header is marked as
/// the network header, so that ARPPrint finds it. The first wrong packet is reported.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> Classifier(12/0806) -> CheckARPHeader(14) -> ARPPrint -> Discard;
/// ```
///
/// # See also
/// ARPPrint, ARPQuerier, ARPResponder, ARPFaker
#[derive(Element)]
#[element(ports = "1/1-2", processing = "a/ah", segments, handlers)]
#[outputs(
    "packets with a right header",
    "wrong packets, which are dropped without it"
)]
pub struct CheckARPHeader {
    /// Bytes from the packet's start to the ARP header.
    #[arg(positional, default = 0)]
    offset: u32,
    /// Whether each wrong packet is reported.
    #[arg]
    verbose: bool,
    /// Whether wrong packets are counted by their fault.
    #[arg]
    details: bool,
    /// Wrong packets.
    #[handler(read)]
    drops: u64,
    faults: [u64; REASONS.len()],
}

/// The length of the ARP header that `bytes` start with.
#[inline(always)]
fn check(bytes: &[u8]) -> Result<usize, Reason> {
    let header = bytes.first_chunk::<FIXED>().ok_or(Reason::Tiny)?;
    let [h0, h1, p0, p1, hardware_len, protocol_len, _, _] = *header;
    let length = FIXED + 2 * usize::from(hardware_len) + 2 * usize::from(protocol_len);
    if bytes.len() < length {
        return Err(Reason::Length);
    }
    if [h0, h1] == [0, 1] && hardware_len != 6 {
        return Err(Reason::Hardware);
    }
    match ([p0, p1], protocol_len) {
        ([0x08, 0x00], 4) | ([0x86, 0xdd], 16) => Ok(length),
        ([0x08, 0x00] | [0x86, 0xdd], _) => Err(Reason::Protocol),
        _ => Ok(length),
    }
}

impl CheckARPHeader {
    #[cold]
    fn refuse(&mut self, cx: &mut Cx<'_>, packet: &Packet, reason: Reason) -> Verdict {
        if self.drops == 0 || self.verbose {
            let reason = REASONS[reason as usize];
            cx.chatter(format_args!("ARP header check failed: {reason}"));
        }
        let packets = packet.stands_for() as u64;
        self.drops += packets;
        self.faults[reason as usize] += packets;
        Verdict::To(1)
    }
}

#[handlers]
impl CheckARPHeader {
    /// Wrong packets by their fault, a line for each; with DETAILS only.
    #[read(when = self.details)]
    fn drop_details(&self) -> String {
        let mut text = String::new();
        for (count, reason) in self.faults.iter().zip(REASONS) {
            let _ = writeln!(text, "{count}\t{reason}");
        }
        text
    }
}

impl Element for CheckARPHeader {
    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let offset = self.offset as usize;
        match check(packet.data().get(offset..).unwrap_or_default()) {
            Ok(length) => packet.set_network_header(offset, length),
            Err(reason) => return self.refuse(cx, packet, reason),
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    /// An ARP request with these types and lengths of addresses.
    fn arp(hardware: u16, hardware_len: u8, protocol: u16, protocol_len: u8) -> Vec<u8> {
        let mut bytes = [hardware.to_be_bytes(), protocol.to_be_bytes()].concat();
        bytes.extend([hardware_len, protocol_len, 0, 1]);
        bytes.resize(
            8 + 2 * usize::from(hardware_len) + 2 * usize::from(protocol_len),
            7,
        );
        bytes
    }

    fn rig(arguments: &str) -> Rig {
        Rig::new(&format!(
            "i :: Inject -> k :: CheckARPHeader({arguments}) -> c :: Collect;
             k[1] -> bad :: Collect;"
        ))
    }

    #[test]
    fn right_headers_are_marked() {
        let mut rig = rig("2");
        for packet in [
            arp(1, 6, 0x0800, 4),
            arp(1, 6, 0x86dd, 16),
            arp(7, 1, 0x1234, 9),
        ] {
            rig.push("i", &[&[0, 0][..], &packet].concat());
            let packets = rig.collected("c");
            assert_eq!(packets[0].network_offset(), Some(2));
            assert_eq!(packets[0].network_header_len(), packet.len());
        }
        assert_eq!(rig.read("k.drops"), "0");
    }

    #[test]
    fn wrong_ones_leave_by_output_1_and_are_counted() {
        let mut rig = rig("DETAILS true");
        let bad = [
            arp(1, 6, 0x0800, 4)[..7].to_vec(),
            arp(1, 6, 0x0800, 4)[..27].to_vec(),
            arp(1, 5, 0x0800, 4),
            arp(1, 6, 0x0800, 5),
            arp(1, 6, 0x86dd, 4),
        ];
        rig.push_all("i", &bad);
        assert_eq!(rig.data("bad"), bad);
        assert_eq!(rig.printed(), ["ARP header check failed: tiny packet"]);
        let details = "1\ttiny packet\n1\ttoo small for addresses\n\
            1\tbad hardware type/length\n2\tbad protocol type/length\n";
        assert_eq!(rig.read("k.drop_details"), details);
        assert_eq!(rig.read("k.drops"), "5");
    }

    #[test]
    fn each_may_draw_a_message() {
        let mut rig = rig("OFFSET 4000000000, VERBOSE true");
        rig.push_all("i", &[arp(1, 6, 0x0800, 4), arp(1, 6, 0x0800, 4)]);
        assert_eq!(rig.printed().len(), 2);
        assert!(rig.try_read("k.drop_details").is_err());
    }
}
