use core::fmt::{self, Write};

use crate::prelude::*;

/// Prints each IPv6 packet on a line and passes it on.
///
/// Packets must have their IPv6 header marked; others are not printed. A line has the label, the
/// addresses, the payload's length, the next header and the hop limit: `label: 2001:db8::1 ->
/// 2001:db8::2 plen 8, next 17, hlim 64`.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> Strip(14) -> CheckIP6Header
///     -> IP6Print(v6, NBYTES 64, CONTENTS true) -> Discard;
/// ```
///
/// # See also
/// IPPrint, Print
#[derive(Element)]
#[element(ports = "1/1")]
pub struct IP6Print {
    /// The start of each line.
    #[arg(positional)]
    label: String,
    /// Whether the packet's bytes follow, in rows of 24.
    #[arg]
    contents: bool,
    /// Most bytes shown.
    #[arg(default = 1500)]
    nbytes: u32,
}

/// Bytes in a row, and in a group of a row.
const ROW: usize = 24;
const GROUP: usize = 4;

impl IP6Print {
    fn describe(&self, text: &mut String, header: &[u8], data: &[u8]) -> fmt::Result {
        if !self.label.is_empty() {
            write!(text, "{}: ", self.label)?;
        }
        let ip = Ipv6Packet::new_unchecked(header);
        let (source, destination) = (unparse::ip6(ip.source()), unparse::ip6(ip.destination()));
        write!(text, "{source} -> {destination} plen ")?;
        text.put_decimal(ip.payload_len());
        text.put(", next ");
        text.put_decimal(ip.next_header().0);
        text.put(", hlim ");
        text.put_decimal(ip.hop_limit());
        if !self.contents {
            return Ok(());
        }
        text.push_str("\n  ");
        for (i, byte) in (1..).zip(data.iter().take(self.nbytes as usize)) {
            text.put_hex(*byte);
            if i % ROW == 0 {
                text.push_str("\n  ");
            } else if i % GROUP == 0 {
                text.push(' ');
            }
        }
        Ok(())
    }
}

impl Element for IP6Print {
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if let Some(header) = packet.network_header().filter(|bytes| bytes.len() >= 40) {
            // Most lines are no longer.
            let mut text = String::with_capacity(128);
            // Writing to a string cannot fail.
            let _ = self.describe(&mut text, header, packet.data());
            cx.chatter(text);
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::ip6::{addr, packet};
    use crate::testing::*;

    fn printed(args: &str, payload: &[u8]) -> alloc::vec::Vec<alloc::string::String> {
        let config = format!("i :: Inject -> MarkIP6Header -> IP6Print({args}) -> Discard;");
        let mut rig = Rig::new(&config);
        rig.push(
            "i",
            &packet(17, addr("2001:db8::1"), addr("::1.2.3.4"), payload),
        );
        rig.printed()
    }

    #[test]
    fn lines_are_as_click_prints_them() {
        let line = "2001:db8::1 -> ::1.2.3.4 plen 9, next 17, hlim 64";
        assert_eq!(printed("", &[7; 9]), [line]);
        let rows = "60000000 00091140 20010db8 00000000 00000000 00000001\n  \
            00000000 00000000 00000000 01020304 07070707 07070707\n  07";
        let expected = format!("a b: {line}\n  {rows}");
        assert_eq!(printed("\"a b\", CONTENTS true", &[7; 9]), [expected]);
        let expected = format!("{line}\n  60000000 00");
        assert_eq!(printed("CONTENTS true, NBYTES 5", &[7; 9]), [expected]);
        // Groups and rows end in what separates them from the next, even if there is none.
        let expected = format!("{line}\n  60000000 ");
        assert_eq!(printed("CONTENTS true, NBYTES 4", &[7; 9]), [expected]);
    }

    #[test]
    fn what_is_not_marked_is_not_printed() {
        let mut rig = Rig::new("i :: Inject -> IP6Print -> c :: Collect;");
        rig.push("i", &[0x60; 60]);
        rig.push_with("i", &[0x60; 39], |packet| packet.set_network_header(0, 40));
        assert!(rig.printed().is_empty());
        assert_eq!(rig.data("c").len(), 2);
    }
}
