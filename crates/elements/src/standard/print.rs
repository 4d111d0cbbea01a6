use core::fmt::Write;

use crate::prelude::*;

/// How a packet's data is shown.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Contents {
    None,
    #[default]
    Hex,
    Ascii,
}

/// Prints each packet on a line and passes it on.
///
/// A line has the label, the length and the data: `label:   60 | 00112233 44556677`.
///
/// # Example
/// ```click
/// InfiniteSource(DATA \<00112233>, LIMIT 3, STOP true) -> Print(made, CONTENTS HEX) -> Discard;
/// ```
///
/// # See also
/// IPPrint
#[derive(Element)]
#[element(ports = "1/1", segments, live)]
pub struct Print {
    /// The start of each line.
    #[arg(positional)]
    label: String,
    /// Most bytes of data shown; all if negative.
    #[arg(positional, default = 24)]
    maxlength: i32,
    /// An old name of MAXLENGTH.
    #[arg(deprecated)]
    length: Option<i32>,
    /// An old name of MAXLENGTH.
    #[arg(deprecated)]
    nbytes: Option<i32>,
    /// How the data is shown.
    #[arg(name = "CONTENTS", default = "HEX".into(), default_text = "HEX", with = WordArg,
        kind = "NONE, HEX or ASCII")]
    contents_name: String,
    /// Whether the timestamp is shown.
    #[arg]
    timestamp: bool,
    /// Whether the annotations are shown.
    #[arg]
    printanno: bool,
    /// Whether anything is printed.
    #[arg(
        default = true,
        read,
        write,
        checkbox,
        calm,
        error = "expected boolean"
    )]
    active: bool,
    /// Whether headroom and tailroom are shown.
    #[arg]
    headroom: bool,
    contents: Contents,
    /// Most bytes shown.
    most: usize,
}

impl Print {
    fn line(&self, packet: &Packet) -> String {
        // Room for most of what stands before the bytes.
        let mut line = String::with_capacity(64);
        // Writing to a string cannot fail.
        let _ = self.write_line(&mut line, packet);
        line
    }

    fn write_line(&self, line: &mut String, packet: &Packet) -> core::fmt::Result {
        let mut separator = "";
        if !self.label.is_empty() {
            line.push_str(&self.label);
            separator = ": ";
        }
        if self.timestamp {
            line.put(separator);
            line.put_time(Timestamp(packet.timestamp()));
            separator = ": ";
        }
        write!(line, "{separator}{:4}", packet.total_len())?;
        if self.headroom {
            write!(line, " (h{} t{})", packet.headroom(), packet.tailroom())?;
        }
        if self.printanno {
            line.push_str(" | ");
            for byte in packet.annotations() {
                line.put_hex(*byte);
            }
        }
        let shown = packet.len().min(self.most);
        if shown == 0 {
            return Ok(());
        }
        line.push_str(" | ");
        // Room for it all: two digits a byte, and the spaces.
        line.reserve(3 * shown);
        for (i, byte) in packet.data()[..shown].iter().enumerate() {
            if self.contents == Contents::Hex {
                if i > 0 && i % 4 == 0 {
                    line.push(' ');
                }
                line.put_hex(*byte);
            } else {
                if i % 8 == 0 {
                    line.push(' ');
                }
                let printable = (b' '..=b'~').contains(byte);
                line.push(if printable { char::from(*byte) } else { '.' });
            }
        }
        Ok(())
    }
}

impl Element for Print {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let as_boolean = cx.names().parse::<bool>(&self.contents_name).ok();
        let name = self.contents_name.to_ascii_uppercase();
        self.contents = match (as_boolean, name.as_str()) {
            (Some(true), _) | (_, "HEX") => Contents::Hex,
            (Some(false), _) | (_, "NONE") => Contents::None,
            (_, "ASCII") => Contents::Ascii,
            (_, other) => {
                return Err(args.fail(format_args!(
                    "bad contents value ‘{other}’; should be ‘NONE’, ‘HEX’, or ‘ASCII’"
                )));
            }
        };
        let most = self.nbytes.or(self.length).unwrap_or(self.maxlength);
        self.most = match self.contents {
            Contents::None => 0,
            _ => usize::try_from(most).unwrap_or(usize::MAX),
        };
        Ok(())
    }

    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if self.active {
            cx.chatter(self.line(packet));
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    /// The line that `Print(arguments)` prints for `data`.
    fn line(arguments: &str, data: &[u8]) -> alloc::string::String {
        let mut rig = Rig::new(&format!(
            "i :: Inject -> p :: Print({arguments}) -> c :: Collect;"
        ));
        rig.push_with("i", data, |packet| packet.set_timestamp(1_500_000_000));
        assert_eq!(rig.data("c"), [data]);
        rig.printed().join("\n")
    }

    #[test]
    fn lines_are_as_click_prints_them() {
        let data = b"\x00\x11abcdefgh~\x7f";
        for (arguments, expected) in [
            ("", "  12 | 00116162 63646566 67687e7f"),
            ("here", "here:   12 | 00116162 63646566 67687e7f"),
            ("here, 5", "here:   12 | 00116162 63"),
            ("CONTENTS none", "  12"),
            ("CONTENTS false", "  12"),
            ("a, -1, CONTENTS ASCII", "a:   12 |  ..abcdef gh~."),
            ("MAXLENGTH 0, TIMESTAMP true", "1.500000:   12"),
            ("a, 1, TIMESTAMP true", "a: 1.500000:   12 | 00"),
        ] {
            assert_eq!(line(arguments, data), expected, "{arguments}");
        }
        let annotated = line("PRINTANNO true, MAXLENGTH 0", data);
        assert_eq!(annotated, format!("  12 | {}", "00".repeat(48)));
        let room = line("HEADROOM true, MAXLENGTH 0", data);
        assert!(room.starts_with("  12 (h") && room.contains(" t"), "{room}");
    }

    #[test]
    fn it_can_be_silenced() {
        let mut rig = Rig::new("i :: Inject -> p :: Print -> c :: Collect;");
        rig.write("p.active", "false");
        rig.push("i", &[1]);
        assert!(rig.printed().is_empty());
        rig.write("p.config", "again");
        rig.push("i", &[1]);
        assert_eq!(rig.printed(), ["again:    1 | 01"]);
    }

    #[test]
    fn wrong_contents_are_refused() {
        Rig::refuses(
            "Inject -> Print(CONTENTS octal) -> Collect;",
            "bad contents value",
        );
    }
}
