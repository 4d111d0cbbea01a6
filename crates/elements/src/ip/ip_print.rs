use alloc::string::{String, ToString};
use core::fmt::Write;

use packet::Packet;
use packet::anno::{AGGREGATE, PAINT};
use packet::wire::Ipv4Packet;
use router::args::{Args, FilenameArg, Failed, Timestamp, WordArg};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerFlags, HandlerList, Verdict};

use crate::values;

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

/// What a line says besides addresses and transport.
#[derive(Default)]
struct Fields {
    ident: bool,
    timestamp: bool,
    paint: bool,
    tos: bool,
    ttl: bool,
    length: bool,
    aggregate: bool,
}

/// Prints IP packets, a line for each, much as tcpdump does.
///
/// Packets must have their IP header marked; nothing is printed of others.
///
/// # Arguments
/// - `LABEL` (text): put before each line.
/// - `CONTENTS` (`NONE`, `HEX` or `ASCII`, `NONE`): whether and how to print the packets' bytes;
///   `true` is `HEX`.
/// - `PAYLOAD` (`NO`, `HEX` or `ASCII`, `NO`): the same of what follows the transport header. At
///   most one of the two may be given.
/// - `MAXLENGTH` (integer, 1500): most bytes printed; -1: all.
/// - `ID`, `TTL`, `TOS`, `LENGTH` (boolean, false): whether to print these fields of the IP header.
/// - `TIMESTAMP` (boolean, true): whether to print the timestamp, in seconds since 1970.
/// - `PAINT`, `AGGREGATE` (boolean, false): whether to print these annotations.
/// - `SWAP` (boolean, true): whether to take ICMP identifiers and sequence numbers for big-endian.
/// - `OUTFILE` (file name): a file to print to instead of the console. On a host only.
/// - `ACTIVE` (boolean, true): whether to print at all.
/// - `CHANNEL` (word, default): whom it speaks to: the default channel is the console's, others are
///   heard by a ChatterSocket alone.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// - `active` (read, write): the argument.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> CheckIPHeader(14) -> IPPrint(ok, PAYLOAD ascii) -> Discard;
/// ```
///
/// # See also
/// Print, CheckIPHeader
#[derive(Default)]
pub struct IPPrint {
    label: String,
    fields: Fields,
    swap: bool,
    dump: Option<Dump>,
    active: bool,
    output: Output,
    /// The line at work: kept so that its memory is.
    line: String,
}

impl Class for IPPrint {
    const NAME: &'static str = "IPPrint";
    const PORTS: &'static str = "1/1";
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
        let fields = &self.fields;
        if !self.label.is_empty() {
            write!(line, "{}: ", self.label)?;
        }
        if fields.timestamp {
            write!(line, "{}: ", Timestamp(packet.timestamp()))?;
        }
        if fields.aggregate {
            write!(line, "#{}", packet.anno(AGGREGATE))?;
        }
        if fields.paint {
            let before = if fields.aggregate { "." } else { "paint " };
            write!(line, "{before}{}", packet.anno(PAINT))?;
        }
        if fields.aggregate || fields.paint {
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
        self.write_fields(line, &ip)?;
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
            dump.form.write(line, bytes.get(..most).unwrap_or(bytes))?;
        }
        Ok(())
    }

    fn write_fields(&self, line: &mut String, ip: &Ipv4Packet<&[u8]>) -> core::fmt::Result {
        for (wanted, name, value) in [
            (self.fields.ident, "id", ip.ident()),
            (self.fields.ttl, "ttl", ip.ttl().into()),
            (self.fields.tos, "tos", ip.tos().into()),
            (self.fields.length, "length", ip.total_len()),
        ] {
            if wanted {
                write!(line, "{name} {value} ")?;
            }
        }
        Ok(())
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

impl Declared for IPPrint {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let (mut contents, mut payload) = ("no".to_string(), "no".to_string());
        let (mut file, mut channel) = (String::new(), String::new());
        let (mut most, mut bytes) = (None, None);
        (self.swap, self.active, self.fields.timestamp) = (true, true, true);
        let fields = &mut self.fields;
        args.positional("LABEL", &mut self.label)
            .keyword_with("CONTENTS", WordArg, &mut contents)
            .keyword_with("PAYLOAD", WordArg, &mut payload)
            .keyword("NBYTES", &mut bytes)
            .keyword("MAXLENGTH", &mut most)
            .keyword("ID", &mut fields.ident)
            .keyword("TIMESTAMP", &mut fields.timestamp)
            .keyword("PAINT", &mut fields.paint)
            .keyword("TOS", &mut fields.tos)
            .keyword("TTL", &mut fields.ttl)
            .keyword("SWAP", &mut self.swap)
            .keyword("LENGTH", &mut fields.length)
            .keyword("AGGREGATE", &mut fields.aggregate)
            .keyword("ACTIVE", &mut self.active)
            .keyword_with("OUTFILE", FilenameArg, &mut file)
            .keyword_with("CHANNEL", WordArg, &mut channel)
            .complete()?;
        // NBYTES is MAXLENGTH's name of old.
        let most = bytes.or(most).unwrap_or(1500);
        self.dump = IPPrint::read_dump(args, &contents, &payload, most)?;
        self.output = Output::named(file, channel);
        Ok(())
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.checkbox("active").add("active", HandlerFlags::CALM);
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "active" => Ok(self.active.to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "active" => self.active = values::boolean(cx, value)?,
            _ => return Err(HandlerError::Unknown),
        }
        Ok(())
    }
}

impl Element for IPPrint {
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
