use core::fmt::Write;

use crate::prelude::*;

mod dump;
pub(crate) mod output;
mod transport;

use dump::Form;
use output::Output;
use transport::Transport;

/// What of a packet's bytes is printed.
#[derive(Clone, Copy)]
struct Dump {
    form: Form,
    /// What follows the transport header, not all of the packet.
    payload: bool,
    /// Most bytes; none: all.
    most: Option<usize>,
}

/// Prints a line for each IP packet, in a format like tcpdump's.
///
/// Packets must have their IP header marked; others are not printed.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> CheckIPHeader(14) -> IPPrint(ok, PAYLOAD ascii) -> Discard;
/// ```
///
/// # See also
/// Print, CheckIPHeader
#[derive(Element)]
#[element(ports = "1/1")]
pub struct IPPrint {
    /// Text in front of each line.
    #[arg(positional)]
    label: String,
    /// Whether and how to print the packets' bytes; `true` is `HEX`.
    #[arg(
        default = "no".into(),
        with = WordArg,
        kind = "NONE, HEX or ASCII",
        default_text = "NONE"
    )]
    contents: String,
    /// The same for the bytes after the transport header; excludes CONTENTS.
    #[arg(default = "no".into(), with = WordArg, kind = "NO, HEX or ASCII", default_text = "NO")]
    payload: String,
    /// Most bytes printed; -1: all.
    #[arg(default_text = "1500")]
    maxlength: Option<i32>,
    /// The same as MAXLENGTH.
    #[arg]
    nbytes: Option<i32>,
    /// Whether to print the timestamp, in seconds since 1970.
    #[arg(default = true)]
    timestamp: bool,
    /// Whether to print the IP header's identification.
    #[arg(name = "ID")]
    ident: bool,
    /// Whether to print the time to live.
    #[arg]
    ttl: bool,
    /// Whether to print the type of service.
    #[arg]
    tos: bool,
    /// Whether to print the IP header's length.
    #[arg]
    length: bool,
    /// Whether to print the paint annotation.
    #[arg]
    paint: bool,
    /// Whether to print the aggregate annotation.
    #[arg]
    aggregate: bool,
    /// Whether to take ICMP identifiers and sequence numbers for big-endian.
    #[arg(default = true)]
    swap: bool,
    /// Whether to print at all.
    #[arg(
        default = true,
        read,
        write,
        checkbox,
        calm,
        error = "expected boolean"
    )]
    active: bool,
    #[flatten]
    output: Output,
    dump: Option<Dump>,
    /// The line at work: kept so that its memory is.
    line: String,
}

impl IPPrint {
    /// Writes the line of `packet` to `self.line`.
    fn describe(&mut self, cx: &Cx<'_>, packet: &Packet) {
        let mut line = core::mem::take(&mut self.line);
        line.clear();
        // Writing to a string cannot fail.
        let _ = self.write_annotations(&mut line, packet);
        let _ = self.write_packet(&mut line, cx, packet);
        self.line = line;
    }

    fn write_annotations(&self, line: &mut String, packet: &Packet) -> core::fmt::Result {
        if !self.label.is_empty() {
            write!(line, "{}: ", self.label)?;
        }
        if self.timestamp {
            line.put_time(Timestamp(packet.timestamp()));
            line.put(": ");
        }
        if self.aggregate {
            write!(line, "#{}", packet.anno(AGGREGATE))?;
        }
        if self.paint {
            let before = if self.aggregate { "." } else { "paint " };
            write!(line, "{before}{}", packet.anno(PAINT))?;
        }
        if self.aggregate || self.paint {
            line.push_str(": ");
        }
        Ok(())
    }

    fn write_packet(&self, line: &mut String, cx: &Cx<'_>, packet: &Packet) -> core::fmt::Result {
        let header = packet.network_header().unwrap_or_default();
        if header.len() < Ipv4Packet::<&[u8]>::HEADER_LEN {
            line.push_str("truncated-ip");
            return Ok(());
        }
        let ip = Ipv4Packet::new_unchecked(header);
        self.write_fields(line, &ip);
        let transport = Transport::of(&ip, packet);
        transport.write(line, cx, self.swap)?;
        if ip.is_fragment() {
            let more = if ip.more_fragments() { "+" } else { "" };
            let (ident, at) = (ip.ident(), ip.fragment_offset());
            write!(line, " (frag {ident}:{}@{at}{more})", transport.length)?;
        }
        if let Some(dump) = self.dump {
            let bytes = if dump.payload {
                transport.payload()
            } else {
                packet.data()
            };
            let most = dump.most.unwrap_or(bytes.len());
            dump.form.write(line, bytes.get(..most).unwrap_or(bytes));
        }
        Ok(())
    }

    fn write_fields(&self, line: &mut String, ip: &Ipv4Packet<&[u8]>) {
        for (wanted, name, value) in [
            (self.ident, "id", ip.ident()),
            (self.ttl, "ttl", ip.ttl().into()),
            (self.tos, "tos", ip.tos().into()),
            (self.length, "length", ip.total_len()),
        ] {
            if wanted {
                line.put(name);
                line.put(" ");
                line.put_decimal(value);
                line.put(" ");
            }
        }
    }

    /// What `CONTENTS`, `PAYLOAD` and `MAXLENGTH` ask for together.
    fn read_dump(
        args: &Args<'_>,
        contents: &str,
        payload: &str,
        most: i32,
    ) -> Result<Option<Dump>, Failed> {
        let contents = Form::contents(contents).ok_or_else(|| {
            let contents = contents.to_uppercase();
            args.fail(format_args!(
                "bad contents value '{contents}'; should be 'NONE', 'HEX', or 'ASCII'"
            ))
        })?;
        let payload = Form::payload(payload).ok_or_else(|| {
            args.fail(format_args!(
                "bad payload value '{payload}'; should be 'false', 'hex', or 'ascii'"
            ))
        })?;
        let (form, payload) = match (contents, payload) {
            (Some(_), Some(_)) => {
                return Err(args.fail("specify at most one of PAYLOAD and CONTENTS"));
            }
            (Some(form), None) => (form, false),
            (None, Some(form)) => (form, true),
            (None, None) => return Ok(None),
        };
        let most = usize::try_from(most).ok();
        Ok(Some(Dump {
            form,
            payload,
            most,
        }))
    }
}

impl Element for IPPrint {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        // NBYTES is the former name of MAXLENGTH.
        let most = self.nbytes.or(self.maxlength).unwrap_or(1500);
        self.dump = IPPrint::read_dump(args, &self.contents, &self.payload, most)?;
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.output.open().map_err(|error| cx.error(error))
    }

    fn cleanup(&mut self, _cx: &mut Cx<'_>) {
        self.output.close();
    }

    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if self.active && packet.network_offset().is_some() {
            self.describe(cx, packet);
            self.output.print(cx, &mut self.line);
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests;
