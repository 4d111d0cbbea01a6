use std::time::SystemTime;

use super::output::Output;
use super::summary::{Selection, Writer};
use crate::prelude::*;
use crate::pulls::puller::Puller;

/// Writes a line about each packet to a file: an IP summary dump.
///
/// A line has the fields that `FIELDS` names, in that order, with `-` where the packet does not
/// have one. The first lines start with `!`; they give the file's type and fields.
/// FromIPSummaryDump reads these files.
///
/// | field | what it is |
/// | --- | --- |
/// | `timestamp`, `ntimestamp` | time, in seconds since 1970: `996033261.451094` |
/// | `ts_sec`, `ts_usec`, `ts_usec1` | its seconds, their microseconds, all of it in microseconds |
/// | `first_timestamp`, `first_ntimestamp` | first timestamp annotation |
/// | `count` | packets that the packet stands for |
/// | `direction` | paint annotation: `>` for 0, `<` for 1 |
/// | `link`, `paint` | paint annotation, as a number |
/// | `aggregate` | aggregate annotation |
/// | `wire_len` | length of the packet's data |
/// | `thread` | thread that the packet comes from, from 0 on |
/// | `eth_src`, `eth_dst`, `eth_type` | Ethernet addresses, and the type in hexadecimal |
/// | `ip_src`, `ip_dst` | addresses |
/// | `ip_tos`, `ip_dscp`, `ip_ecn` | type of service, and its parts: `no`, `ect1`, `ect2`, `ce` |
/// | `ip_ttl`, `ip_id`, `ip_sum` | time to live, identification, checksum |
/// | `ip_frag` | `F` first, `f` later fragment; `!` or `.` none, with or without DF |
/// | `ip_fragoff` | offset in bytes, `+` with MF, `!` with DF: `1480+` |
/// | `ip_proto` | protocol: `T`, `U`, `I` or a number |
/// | `ip_hl`, `ip_len`, `ip_capture_len` | lengths of the header, of the packet, and of what is there of it |
/// | `ip_opt` | options: `rr{10.0.0.1}+5`, `ssrr{1.0.0.1^1.0.0.2}`, `ts{1,!45}+2++3`, `99=0:5` |
/// | `sport`, `dport` | ports of TCP, UDP, DCCP and UDP-Lite |
/// | `tcp_seq`, `tcp_ack`, `tcp_off`, `tcp_window`, `tcp_urp` | fields of the TCP header |
/// | `tcp_flags` | of `FSRPAUECN`; `.` for none |
/// | `tcp_opt` | options: `mss1400;sackok;wscale10;ts1:2;sack95-98` |
/// | `tcp_ntopt`, `tcp_sack` | options without timestamps; options that concern SACK |
/// | `udp_len` | length in the UDP header |
/// | `icmp_type`, `icmp_code` | numbers; `icmp_type_name`, `icmp_code_name`: names where known |
/// | `icmp_flowid`, `icmp_seq`, `icmp_nextmtu` | where the type has them |
/// | `payload` | what follows the headers, as a quoted string |
/// | `payload_len`, `payload_md5`, `payload_md5_hex` | its length, and its MD5 |
///
/// `ip_` may be left out, and spaces may stand for underscores in quoted names. Options other
/// than padding are separated by semicolons; `.` says that there are none, `?` that they make no
/// sense.
///
/// In a binary dump, each packet makes a record: its length in 4 bytes, itself included, then the
/// fields' values in network order, options with a byte of their length in front. A length with
/// the highest bit set is that of a line.
///
/// # Example
/// ```click
/// FromDump(in.pcap, FORCE_IP true, STOP true)
///     -> ToIPSummaryDump(-, FIELDS timestamp ip_src sport ip_dst dport ip_len);
/// ```
///
/// # See also
/// FromIPSummaryDump, ToDump, ToIPFlowDumps
#[derive(Element)]
#[element(ports = "1/0-1", processing = "a/h", handlers)]
#[outputs("the packets, once written")]
pub struct ToIPSummaryDump {
    /// The file, which is overwritten; `-` is the standard output.
    #[arg(mandatory, with = FilenameArg, kind = "file name")]
    filename: String,
    /// The fields of a line, up to 1024.
    #[arg(with = args::Any, kind = "words", default_text = "timestamp ip_src")]
    fields: String,
    /// As FIELDS.
    #[arg(with = args::Any, kind = "words")]
    contents: String,
    /// As FIELDS.
    #[arg(with = args::Any, kind = "words")]
    data: String,
    /// Whether the header has the host and the start time.
    #[arg]
    verbose: bool,
    /// Whether the file has a header.
    #[arg(default = true)]
    header: bool,
    /// The maker of the file, for the header.
    #[arg]
    banner: String,
    /// Whether to write records.
    #[arg]
    binary: bool,
    #[flatten]
    writer: Writer,
    #[flatten]
    puller: Puller,
    output: Output,
}

impl ToIPSummaryDump {
    fn header(&self, cx: &Cx<'_>) -> String {
        let (mut header, data) = self.writer.selection.header();
        if !self.banner.is_empty() {
            let banner = click::config::quote(&click::text::encode(&self.banner));
            header.push_str(&format!("!creator {banner}\n"));
        }
        if self.verbose {
            let host = rustix::system::uname();
            let host = host.nodename().to_string_lossy();
            header.push_str(&format!("!host {host}\n"));
            let time = date(SystemTime::now());
            let now = Timestamp(cx.wall());
            header.push_str(&format!("!runtime {now} ({time})\n"));
        }
        header + &data
    }

    #[inline]
    fn add_all(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        if !self.output.is_open() {
            return;
        }
        self.writer.thread = cx.origin();
        for packet in batch.iter_mut() {
            self.writer.add(packet, cx.names(), self.output.buffer());
        }
        self.output.written(cx);
    }
}

/// A date as ctime(3) writes it, in UTC.
fn date(time: SystemTime) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let since = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let (days, seconds) = (since.as_secs() / 86400, since.as_secs() % 86400);
    // Days since 1 March of year 0, in eras of 400 years (146097 days), which are all alike.
    let from_march = days + 719_468;
    let (era, day) = (from_march / 146_097, from_march % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 {
        (month + 2, 0)
    } else {
        (month - 10, 1)
    };
    format!(
        "{} {} {day:2} {:02}:{:02}:{:02} {}",
        DAYS[days as usize % 7],
        MONTHS[month as usize % 12],
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        era * 400 + year + carry,
    )
}

#[handlers]
impl ToIPSummaryDump {
    /// Writes buffered lines.
    #[write]
    fn flush(&mut self, cx: &mut Cx<'_>) {
        self.output.flush(cx);
    }
}

impl Element for ToIPSummaryDump {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let fields = [&self.data, &self.contents, &self.fields];
        let fields = fields.into_iter().find(|fields| !fields.is_empty());
        let fields = fields.map_or("timestamp ip_src", String::as_str);
        let (selection, errors) = Selection::parse(fields, self.binary);
        errors.iter().for_each(|error| args.error(error));
        self.writer.multipacket &= !selection.has("count");
        self.writer.selection = selection;
        args.finish()
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.output = Output::create(&self.filename).map_err(|error| cx.error(error))?;
        if self.header {
            let header = self.header(cx);
            self.output.buffer().extend(header.bytes());
            self.output.written(cx);
        }
        self.puller.initialize(cx);
        Ok(())
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        self.output.flush(cx);
        self.output = Output::default();
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        self.add_all(cx, batch);
        0
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, _task: TaskId) -> Ran {
        let Some(mut batch) = cx.pulled() else {
            return self.puller.pull(cx);
        };
        let pulled = batch.len();
        self.add_all(cx, &mut batch);
        cx.push(0, batch);
        self.puller.pulled(cx, pulled)
    }
}

#[cfg(test)]
mod tests;
