use core::fmt::Write;

use hashbrown::HashMap;

use crate::filters::dispatch::dispatch;
use crate::prelude::*;

mod trigger;

use trigger::{Action, Trigger};

/// Most aggregates that are counted.
const AGGREGATES_MAX: usize = 1 << 22;

/// Counts packets or bytes by aggregate annotation.
///
/// The counts are written to a file by a handler: after a line `!IPAggregate 1.0`, the banner and
/// `!num_nonzero N`, each aggregate with a count, in order. A frozen element counts no new
/// aggregates; nor does one that counts 4194304.
///
/// # Example
/// ```click
/// FromIPSummaryDump(in.dump, STOP true)
///     -> AggregateIP(ip dst) -> c :: AggregateCounter -> Discard;
/// DriverManager(pause, write c.write_text_file -);
/// ```
///
/// # See also
/// AggregateIP, AggregateIPFlows, AggregatePacketCounter
#[derive(Element)]
#[element(ports = "1-2/1-2", handlers)]
#[inputs("packets", "packets that count no new aggregates")]
#[outputs("packets", "in push, packets that are not counted")]
pub struct AggregateCounter {
    /// Whether to count bytes, not packets.
    #[arg]
    bytes: bool,
    /// Whether bytes count from the network header on.
    #[arg]
    ip_bytes: bool,
    /// Whether a packet counts the extra packets annotation too.
    #[arg(default = true)]
    multipacket: bool,
    /// Whether bytes count the extra length annotation.
    #[arg(default = true)]
    extra_length: bool,
    /// Freeze when there are to be more aggregates than this.
    #[arg]
    aggregate_freeze: Option<u32>,
    /// Freeze when the counts' sum reaches this.
    #[arg]
    count_freeze: Option<u64>,
    /// Stop the driver when there are to be more aggregates than this.
    #[arg]
    aggregate_stop: Option<u32>,
    /// Stop the driver when the counts' sum reaches this.
    #[arg]
    count_stop: Option<u64>,
    /// Write a handler when there are to be more aggregates than N. At most one of
    /// AGGREGATE_FREEZE, AGGREGATE_STOP and AGGREGATE_CALL can be given.
    #[arg(with = Any, kind = "N HANDLER [VALUE]")]
    aggregate_call: String,
    /// Write a handler when the counts' sum reaches N. At most one of COUNT_FREEZE, COUNT_STOP and
    /// COUNT_CALL can be given.
    #[arg(with = Any, kind = "N HANDLER [VALUE]")]
    count_call: String,
    /// A line for the files.
    #[arg(read, raw)]
    banner: String,
    /// Whether new aggregates are not counted.
    #[handler(name = "freeze", read, write, checkbox, error = "type mismatch")]
    frozen: bool,
    /// Whether anything is counted.
    #[handler(read, write, checkbox, error = "type mismatch")]
    #[init(true)]
    active: bool,
    counts: HashMap<u32, u32>,
    /// Aggregates whose count is not 0.
    #[handler(name = "nagg", read)]
    aggregates: u32,
    /// The counts' sum.
    #[handler(name = "count", read)]
    sum: u64,
    warned: bool,
    on_aggregates: Trigger,
    on_sum: Trigger,
}

/// How a file looks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Text,
    Ip,
    Share,
    Binary,
}

impl AggregateCounter {
    /// Counts a packet; returns whether it was.
    #[inline]
    fn count(&mut self, cx: &mut Cx<'_>, frozen: bool, packet: &Packet) -> bool {
        if !self.active {
            return false;
        }
        let aggregate = packet.anno(AGGREGATE);
        let known = self.counts.get(&aggregate).copied().unwrap_or(0);
        if known == 0 && frozen {
            return false;
        }
        let amount = self.amount(packet);
        if known == 0 {
            if self.counts.len() >= AGGREGATES_MAX || self.counts.try_reserve(1).is_err() {
                self.warn(cx);
                return false;
            }
            if amount > 0 {
                let most = self.on_aggregates.at;
                if most.is_some_and(|most| u64::from(self.aggregates) >= most) {
                    self.on_aggregates.at = None;
                    let action = core::mem::take(&mut self.on_aggregates.action);
                    self.act(cx, action);
                    // What was called may have changed all.
                    let frozen = frozen || self.frozen;
                    return self.count(cx, frozen, packet);
                }
                self.aggregates += 1;
            }
        }
        self.counts.insert(aggregate, known.wrapping_add(amount));
        self.sum += u64::from(amount);
        if self.on_sum.at.is_some_and(|at| self.sum >= at) {
            self.on_sum.at = None;
            let action = core::mem::take(&mut self.on_sum.action);
            self.act(cx, action);
        }
        true
    }

    #[inline]
    fn amount(&self, packet: &Packet) -> u32 {
        if !self.bytes {
            let extra = if self.multipacket {
                packet.anno(EXTRA_PACKETS)
            } else {
                0
            };
            return extra.saturating_add(1);
        }
        let length = match packet.network_header() {
            Some(ip) if self.ip_bytes => ip.len(),
            _ => packet.len(),
        };
        let extra = if self.extra_length {
            packet.anno(EXTRA_LENGTH)
        } else {
            0
        };
        extra.saturating_add(length as u32)
    }

    #[cold]
    fn warn(&mut self, cx: &mut Cx<'_>) {
        if !core::mem::replace(&mut self.warned, true) {
            cx.chatter("AggregateCounter: out of memory!");
        }
    }

    #[cold]
    fn act(&mut self, cx: &mut Cx<'_>, action: Action) {
        match action {
            Action::Nothing => {}
            Action::Freeze => self.frozen = true,
            Action::Stop => self.stop(cx),
            Action::Call(call) => {
                let _ = call.write_from(cx, self);
            }
        }
    }

    /// The counts as a file shows them.
    fn file(&self, format: Format) -> Vec<u8> {
        let mut counts: Vec<(u32, u32)> = self.counts.iter().map(|(a, n)| (*a, *n)).collect();
        counts.retain(|(_, count)| *count > 0);
        counts.sort_unstable();
        let end = if self.banner.is_empty() || self.banner.ends_with('\n') {
            ""
        } else {
            "\n"
        };
        let order = match format {
            Format::Binary if cfg!(target_endian = "big") => "!packed_be\n",
            Format::Binary => "!packed_le\n",
            Format::Ip => "!ip\n",
            Format::Text | Format::Share => "",
        };
        let (banner, aggregates) = (&self.banner, self.aggregates);
        let mut text = format!("!IPAggregate 1.0\n{banner}{end}!num_nonzero {aggregates}\n{order}");
        if format == Format::Binary {
            let mut file = text.into_bytes();
            for (aggregate, count) in counts {
                file.extend(aggregate.to_ne_bytes());
                file.extend(count.to_ne_bytes());
            }
            return file;
        }
        for (aggregate, count) in counts {
            // Writing to memory does not fail.
            let _ = match format {
                Format::Ip => writeln!(text, "{} {count}", Ipv4Addr::from_bits(aggregate)),
                Format::Share => {
                    let share = unparse::real(f64::from(count) / self.sum as f64);
                    writeln!(text, "{aggregate} {share}")
                }
                _ => writeln!(text, "{aggregate} {count}"),
            };
        }
        text.into_bytes()
    }

    fn write_file(&self, cx: &mut Cx<'_>, format: Format, name: &str) -> Result<(), HandlerError> {
        let name = click::config::uncomment(name);
        let name = cx.names().parse_with(FilenameArg, &name);
        let name: String = name.map_err(|_| "argument should be filename")?;
        let file = self.file(format);
        if name == "-" {
            cx.print(&file);
            return Ok(());
        }
        #[cfg(feature = "host")]
        {
            let written = std::fs::write(router::args::path(&name), file);
            written
                .map_err(|error| format!("{name}: {}", crate::userlevel::os_error(&error)).into())
        }
        #[cfg(not(feature = "host"))]
        Err(format!("{name}: a guest has no files; write to - instead").into())
    }
}

#[handlers]
impl AggregateCounter {
    /// Writes a file, `-` being the standard output, with a line `AGGREGATE COUNT` for each.
    #[write(also = "write_ascii_file", name = "write_text_file")]
    fn write_text_file(&mut self, cx: &mut Cx<'_>, name: &str) -> Result<(), HandlerError> {
        self.write_file(cx, Format::Text, name)
    }

    /// The same, with aggregates as IP addresses.
    #[write(name = "write_ip_file")]
    fn write_ip_file(&mut self, cx: &mut Cx<'_>, name: &str) -> Result<(), HandlerError> {
        self.write_file(cx, Format::Ip, name)
    }

    /// The same, with each count divided by the counts' sum.
    #[write(name = "write_pdf_file")]
    fn write_pdf_file(&mut self, cx: &mut Cx<'_>, name: &str) -> Result<(), HandlerError> {
        self.write_file(cx, Format::Share, name)
    }

    /// The same, each aggregate and count as two numbers of 4 bytes after a line `!packed_le` or
    /// `!packed_be`, which says their byte order.
    #[write(name = "write_file")]
    fn write_binary_file(&mut self, cx: &mut Cx<'_>, name: &str) -> Result<(), HandlerError> {
        self.write_file(cx, Format::Binary, name)
    }

    /// Counts no more, and stops the driver.
    #[write(button)]
    fn stop(&mut self, cx: &mut Cx<'_>) {
        self.active = false;
        cx.stop();
    }

    /// Makes the counts aggregates, whose counts are how often they occurred.
    #[write(name = "reaggregate_counts", also = "counts_pdf")]
    fn reaggregate(&mut self) {
        let old = core::mem::take(&mut self.counts);
        self.clear();
        for count in old.into_values().filter(|count| *count > 0) {
            *self.counts.entry(count).or_default() += 1;
            self.sum += 1;
        }
        self.aggregates = self.counts.len() as u32;
    }

    /// The argument BANNER; a line end is added.
    #[write(raw)]
    fn write_banner(&mut self, value: &str) {
        self.banner = match value {
            "" | "\n" => String::new(),
            _ => format!("{}\n", value.strip_suffix('\n').unwrap_or(value)),
        };
    }

    /// Sets all counts to 0.
    #[write]
    fn clear(&mut self) {
        self.counts.clear();
        (self.aggregates, self.sum) = (0, 0);
    }

    /// What happens when there are too many aggregates.
    #[read]
    fn read_aggregate_call(&self) -> String {
        self.on_aggregates.show()
    }

    /// The argument AGGREGATE_CALL.
    #[write]
    fn write_aggregate_call(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), HandlerError> {
        self.on_aggregates.write(cx, "aggregate_call", value)
    }

    /// What happens when the counts' sum is reached.
    #[read]
    fn read_count_call(&self) -> String {
        self.on_sum.show()
    }

    /// The argument COUNT_CALL.
    #[write]
    fn write_count_call(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), HandlerError> {
        self.on_sum.write(cx, "count_call", value)
    }
}

impl Element for AggregateCounter {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let freeze = self.aggregate_freeze.map(u64::from);
        let (stop, call) = (self.aggregate_stop.map(u64::from), &self.aggregate_call);
        self.on_aggregates = Trigger::parse(args, "AGGREGATE", freeze, stop, call)?;
        let (freeze, stop, call) = (self.count_freeze, self.count_stop, &self.count_call);
        self.on_sum = Trigger::parse(args, "COUNT", freeze, stop, call)?;
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let resolved = self.on_aggregates.resolve(cx);
        resolved.map_err(|error| cx.error(error))?;
        self.on_sum.resolve(cx).map_err(|error| cx.error(error))
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) -> usize {
        if cx.outputs() == 1 {
            for packet in batch.iter() {
                let frozen = self.frozen || port == 1;
                self.count(cx, frozen, packet);
            }
            return 0;
        }
        let mut counted = [0; packet::BATCH];
        for (packet, output) in batch.iter().zip(&mut counted) {
            let frozen = self.frozen || port == 1;
            *output = u32::from(!self.count(cx, frozen, packet));
        }
        let mut outputs = counted.iter();
        dispatch(cx, batch, |_| *outputs.next().unwrap_or(&0))
    }

    #[inline]
    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, _batch: &mut Batch, most: usize) {
        let input = if cx.inputs() == 1 { 0 } else { port };
        cx.pull_through(input, most);
    }

    #[inline]
    fn pulled(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        for packet in batch.iter() {
            let frozen = self.frozen || port == 1;
            self.count(cx, frozen, packet);
        }
    }
}

#[cfg(test)]
mod tests;
