use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;
use core::net::Ipv4Addr;

use hashbrown::HashMap;
use packet::anno::{AGGREGATE, EXTRA_LENGTH, EXTRA_PACKETS};
use packet::{Batch, Packet};
use router::args::{Any, Args, Failed, FilenameArg, unparse};
use router::{Call, Cx, Declared, Element, HandlerError, handlers};

use crate::dispatch::dispatch;

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

/// What happens when a number is reached.
#[derive(Clone, Default)]
struct Trigger {
    at: Option<u64>,
    /// As it is written behind the number.
    text: String,
    action: Action,
}

#[derive(Clone, Default)]
enum Action {
    #[default]
    Nothing,
    Freeze,
    Stop,
    Call(Call),
}

/// How a file looks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Text,
    Ip,
    Share,
    Binary,
}

impl Trigger {
    /// Takes the three arguments of which one may be given.
    fn parse(
        args: &Args<'_>,
        what: &str,
        freeze: Option<u64>,
        stop: Option<u64>,
        call: &str,
    ) -> Result<Trigger, Failed> {
        let given = [freeze.is_some(), stop.is_some(), !call.is_empty()];
        if given.iter().filter(|given| **given).count() > 1 {
            return Err(args.fail(format_args!(
                "'{what}_FREEZE', '{what}_STOP', and '{what}_CALL' are mutually exclusive"
            )));
        }
        let own = |at, handler: &str, action| Trigger {
            at: Some(at),
            text: format!("{}.{handler}", args.element()),
            action,
        };
        if let Some(at) = freeze {
            return Ok(own(at, "freeze true", Action::Freeze));
        }
        if let Some(at) = stop {
            return Ok(own(at, "stop", Action::Stop));
        }
        if call.is_empty() {
            return Ok(Trigger::default());
        }
        let (number, text) = click::config::shift_space(call);
        let what = match what {
            "AGGREGATE" => "AGGREGATE_CALL first word should be unsigned (number of aggregates)",
            _ => "COUNT_CALL first word should be unsigned (count)",
        };
        Ok(Trigger {
            at: Some(args.context().parse(number).map_err(|_| args.fail(what))?),
            text: text.to_string(),
            action: Action::Nothing,
        })
    }

    /// Finds the handler to call.
    fn resolve(&mut self, cx: &Cx<'_>) -> Result<(), String> {
        if self.at.is_some() && matches!(self.action, Action::Nothing) {
            self.action = Action::Call(Call::to_write(cx, &self.text)?);
        }
        Ok(())
    }

    /// Takes what was written to a handler.
    fn write(&mut self, cx: &Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let value = click::config::uncomment(value);
        if value.is_empty() {
            *self = Trigger::default();
            return Ok(());
        }
        let (number, text) = click::config::shift_space(&value);
        let at = cx.names().parse(number);
        let at = at.map_err(|_| format!("argument to '{name}' should be 'N HANDLER [VALUE]'"))?;
        let action = Action::Call(Call::to_write(cx, text)?);
        *self = Trigger {
            at: Some(at),
            text: text.to_string(),
            action,
        };
        Ok(())
    }

    fn show(&self) -> String {
        match self.at {
            Some(at) => format!("{at} {}", self.text),
            None => String::new(),
        }
    }
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
            let extra = if self.multipacket { packet.anno(EXTRA_PACKETS) } else { 0 };
            return extra.saturating_add(1);
        }
        let length = match packet.network_header() {
            Some(ip) if self.ip_bytes => ip.len(),
            _ => packet.len(),
        };
        let extra = if self.extra_length { packet.anno(EXTRA_LENGTH) } else { 0 };
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
                let (result, heard) = call.write_and_hear(cx, self);
                let mut failed = result.err();
                for (name, value) in heard {
                    failed = self.write(cx, &name, &value).err().or(failed);
                }
                if let Some(HandlerError::Failed(error)) = failed {
                    cx.chatter(error);
                }
            }
        }
    }

    /// The counts as a file shows them.
    fn file(&self, format: Format) -> Vec<u8> {
        let mut counts: Vec<(u32, u32)> = self.counts.iter().map(|(a, n)| (*a, *n)).collect();
        counts.retain(|(_, count)| *count > 0);
        counts.sort_unstable();
        let end = if self.banner.is_empty() || self.banner.ends_with('\n') { "" } else { "\n" };
        let order = match format {
            Format::Binary if cfg!(target_endian = "big") => "!packed_be\n",
            Format::Binary => "!packed_le\n",
            Format::Ip => "!ip\n",
            Format::Text | Format::Share => "",
        };
        let (banner, aggregates) = (&self.banner, self.aggregates);
        let mut text =
            format!("!IPAggregate 1.0\n{banner}{end}!num_nonzero {aggregates}\n{order}");
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
            let written = std::fs::write(&name, file);
            written.map_err(|error| format!("{name}: {}", crate::userlevel::os_error(&error)).into())
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
    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch, most: usize) {
        let input = if cx.inputs() == 1 { 0 } else { port };
        cx.pull(input, batch, most);
        for packet in batch.iter() {
            let frozen = self.frozen || port == 1;
            self.count(cx, frozen, packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;
    use alloc::vec::Vec;

    use packet::anno::{AGGREGATE, EXTRA_LENGTH, EXTRA_PACKETS};

    use crate::testing::Rig;

    fn counter(args: &str) -> Rig {
        Rig::new(&format!("i :: Inject -> a :: AggregateCounter({args}) -> c :: Collect; a[1] -> d :: Collect;"))
    }

    fn push(rig: &mut Rig, aggregates: &[u32]) {
        for aggregate in aggregates {
            rig.push_with("i", &[0; 10], |packet| packet.set_anno(AGGREGATE, *aggregate));
        }
    }

    fn file(rig: &mut Rig, kind: &str) -> String {
        rig.write(&format!("a.write_{kind}"), "-");
        rig.printed().concat()
    }

    #[test]
    fn counts_are_written_in_order() {
        let mut rig = counter("BANNER \"# x\"");
        push(&mut rig, &[7, 1, 7, u32::MAX]);
        assert_eq!(rig.data("c").len(), 4);
        let head = "!IPAggregate 1.0\n# x\n!num_nonzero 3\n";
        assert_eq!(file(&mut rig, "text_file"), format!("{head}1 1\n7 2\n4294967295 1\n"));
        assert_eq!(file(&mut rig, "pdf_file"), format!("{head}1 0.25\n7 0.5\n4294967295 0.25\n"));
        let ip = format!("{head}!ip\n0.0.0.1 1\n0.0.0.7 2\n255.255.255.255 1\n");
        assert_eq!(file(&mut rig, "ip_file"), ip);
        assert!(file(&mut rig, "file").starts_with(&format!("{head}!packed_")));
        rig.write("a.counts_pdf", "");
        assert_eq!(file(&mut rig, "text_file"), "!IPAggregate 1.0\n# x\n!num_nonzero 2\n1 2\n2 1\n");
        assert_eq!((rig.read("a.count"), rig.read("a.nagg")), ("3".into(), "2".into()));
        rig.write("a.clear", "");
        rig.write("a.banner", "");
        assert_eq!(file(&mut rig, "text_file"), "!IPAggregate 1.0\n!num_nonzero 0\n");
        assert!(rig.try_write("a.write_text_file", "/nowhere/x").is_err());
    }

    #[test]
    fn bytes_and_packets_that_packets_stand_for_count() {
        for (args, count) in [
            ("", 4),
            ("MULTIPACKET false", 1),
            ("BYTES true", 110),
            ("BYTES true, EXTRA_LENGTH false", 10),
            ("BYTES true, IP_BYTES true", 106),
        ] {
            let mut rig = counter(args);
            rig.push_with("i", &[0; 10], |packet| {
                packet.set_network_header(4, 0);
                packet.set_anno(EXTRA_PACKETS, 3);
                packet.set_anno(EXTRA_LENGTH, 100);
            });
            assert_eq!(rig.read("a.count"), format!("{count}"), "{args}");
        }
    }

    #[test]
    fn what_is_frozen_counts_nothing_new() {
        let mut rig = counter("AGGREGATE_FREEZE 2");
        push(&mut rig, &[1, 2, 3, 1]);
        let aggregates = |packets: Vec<packet::Packet>| {
            packets.iter().map(|p| p.anno(AGGREGATE)).collect::<Vec<_>>()
        };
        assert_eq!(aggregates(rig.collected("c")), [1, 2, 1]);
        assert_eq!(aggregates(rig.collected("d")), [3]);
        assert_eq!(rig.read("a.freeze"), "true");
        rig.write("a.freeze", "false");
        push(&mut rig, &[3]);
        assert_eq!(rig.read("a.nagg"), "3");
        rig.write("a.active", "false");
        push(&mut rig, &[4]);
        assert_eq!(rig.read("a.nagg"), "3");
        let mut rig = Rig::new("i :: Inject -> [1]a :: AggregateCounter -> Discard; Idle -> a;");
        push(&mut rig, &[1]);
        assert_eq!(rig.read("a.nagg"), "0");
    }

    #[test]
    fn calls_are_made_when_numbers_are_reached() {
        let mut rig = Rig::new(
            "i :: Inject -> a :: AggregateCounter(AGGREGATE_CALL 2 s.run, COUNT_STOP 5) -> Discard;
             s :: Script(TYPE PASSIVE, print \"two\", write a.clear);",
        );
        assert_eq!(rig.read("a.aggregate_call"), "2 s.run");
        push(&mut rig, &[1, 2, 3]);
        // The third aggregate is the first of those that were not forgotten.
        assert_eq!((rig.read("a.nagg"), rig.printed()), ("1".into(), ["two\n".into()].into()));
        push(&mut rig, &[3, 3, 3]);
        assert_eq!(rig.run(), router::Status::Idle(None));
        push(&mut rig, &[3]);
        assert_eq!(rig.run(), router::Status::Stopped);
        assert_eq!(rig.read("a.active"), "false");
        rig.write("a.count_call", "9 stop");
        assert_eq!(rig.read("a.count_call"), "9 stop");
        assert!(rig.try_write("a.count_call", "x").is_err());
        rig.write("a.count_call", "");
        assert_eq!(rig.read("a.count_call"), "");
        for (args, text) in [
            ("COUNT_STOP 1, COUNT_FREEZE 2", "'COUNT_FREEZE', 'COUNT_STOP', and 'COUNT_CALL' are mutually exclusive"),
            ("AGGREGATE_CALL x", "AGGREGATE_CALL first word should be unsigned"),
        ] {
            let errors = Rig::errors(&format!("Idle -> AggregateCounter({args}) -> Discard;"));
            assert!(errors.contains(text), "{errors}");
        }
    }
}
