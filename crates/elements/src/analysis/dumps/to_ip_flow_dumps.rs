use std::fs;
use std::io::Write;

use hashbrown::HashMap;

use crate::aggregates::{AggregateListener, NotifierArgument};
use crate::prelude::*;
use crate::pulls::puller::Puller;
use crate::userlevel::os_error;
use flow::{Flow, Options};
use router::args::path;

mod flow;
mod pattern;

/// Most flows whose files are being written.
const FLOWS_MAX: usize = 1 << 18;
/// How long a flow that has ended waits for packets of it that are on the way, in nanoseconds.
const LINGER: u64 = 250_000_000;

/// Writes a summary dump for each flow.
///
/// The aggregate annotation is the flow, and the paint the direction: AggregateIPFlows sets both. A
/// file has the flow's addresses and ports in a line `!flowid`, and for each packet its time,
/// direction and payload length, for TCP also flags, sequence and acknowledgement numbers. Times
/// and numbers count from the flow's first ones, which lines `!firsttime` and `!firstseq` tell; the
/// first packet's time is 0.000000001. ICMP errors of the flow become remarks. FromIPSummaryDump
/// reads such files.
///
/// The names of the files come from a pattern with these parts, from the flow's first packet:
///
/// - `%n`, `%x`, `%X`: the aggregate, in decimal or hexadecimal; with `.0` to `.3` in between
///   (`%.0n`) one of its bytes, with `.4` and `.5` its upper and lower half.
/// - `%s`, `%d`: source and destination address; with `.0` to `.3` one of its bytes.
/// - `%S`, `%D`: source and destination port.
/// - `%p`: `T` for TCP, `U` for UDP. `%%`: a percent sign.
///
/// A width may follow the percent sign, and a 0 before the width pads with zeros: `%06n`. Missing
/// folders are made. Up to 262144 flows are written at a time; packets of further flows are not
/// written.
///
/// # Example
/// ```click
/// FromDump(in.pcap, STOP true, FORCE_IP true)
///     -> f :: AggregateIPFlows -> ToIPFlowDumps(flows/%04n, NOTIFIER f);
/// ```
///
/// # See also
/// AggregateIPFlows, ToIPSummaryDump, FromIPSummaryDump
#[derive(Element)]
#[element(ports = "1/0-1", handlers, provides(AggregateListener))]
pub struct ToIPFlowDumps {
    /// The pattern; `-` is the standard output.
    #[arg(
        name = "FILEPATTERN",
        positional,
        with = FilenameArg,
        kind = "file name",
        default_text = "-"
    )]
    pattern: String,
    /// As FILEPATTERN.
    #[arg(with = FilenameArg, kind = "file name")]
    output_pattern: String,
    #[flatten]
    notifier: NotifierArgument,
    #[flatten]
    options: Options,
    /// Whether files are compressed when they are finished: `.gz` is added to their names.
    #[arg]
    gzip: bool,
    /// Files of flows with fewer packets are removed.
    #[arg(name = "MINCOUNT", default = 0)]
    min_count: u32,
    #[flatten]
    puller: Puller,
    flows: HashMap<u32, Flow>,
    /// Flows that ended, and when their files are to be finished.
    ended: VecDeque<(u32, Steady)>,
    seen: u64,
    seen_with_aggregate: u64,
    timer: Option<TimerId>,
}

impl ToIPFlowDumps {
    fn add_all(&mut self, cx: &mut Cx<'_>, batch: &Batch) {
        for packet in batch.iter() {
            self.add(cx, packet);
        }
    }

    fn add(&mut self, cx: &mut Cx<'_>, packet: &Packet) {
        self.seen += 1;
        let aggregate = packet.anno(AGGREGATE);
        if aggregate == 0 {
            return;
        }
        if !self.flows.contains_key(&aggregate) {
            if self.flows.len() >= FLOWS_MAX {
                return;
            }
            let Some(mut flow) = Flow::of(packet, &self.options) else {
                return;
            };
            match pattern::expand(&self.pattern, packet) {
                Ok(name) => flow.name = name,
                Err(error) => {
                    cx.chatter(error);
                    return;
                }
            }
            self.flows.insert(aggregate, flow);
        }
        self.seen_with_aggregate += 1;
        let Some(flow) = self.flows.get_mut(&aggregate) else {
            return;
        };
        flow.add(packet, &self.options);
        if flow.is_full() {
            write_flow(cx, flow, &self.options);
        }
    }

    /// Finishes a flow's file.
    fn finish(&mut self, cx: &mut Cx<'_>, aggregate: u32) {
        let Some(mut flow) = self.flows.remove(&aggregate) else {
            return;
        };
        if flow.count() >= self.min_count {
            write_flow(cx, &mut flow, &self.options);
            if self.gzip
                && flow.name != "-"
                && let Err(error) = compress(&flow.name)
            {
                cx.chatter(format_args!("{}.gz: {}", flow.name, os_error(&error)));
            }
        } else if flow.is_begun()
            && flow.name != "-"
            && let Err(error) = fs::remove_file(path(&flow.name))
        {
            cx.chatter(format_args!("{}: {}", flow.name, os_error(&error)));
        }
    }
}

/// Puts a compressed file in the place of a file.
fn compress(name: &str) -> std::io::Result<()> {
    let mut from = fs::File::open(path(name))?;
    let to = fs::File::create(path(&[name, ".gz"].concat()))?;
    let mut encoder = flate2::write::GzEncoder::new(to, flate2::Compression::default());
    std::io::copy(&mut from, &mut encoder)?;
    encoder.finish()?;
    fs::remove_file(path(name))
}

/// Writes what was kept of a flow to its file.
fn write_flow(cx: &mut Cx<'_>, flow: &mut Flow, options: &Options) {
    let is_begun = flow.is_begun();
    let bytes = flow.take(options);
    if flow.name == "-" {
        cx.print(&bytes);
        return;
    }
    let name = path(&flow.name);
    let open = || -> std::io::Result<()> {
        if !is_begun && let Some(folder) = name.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = if is_begun {
            fs::OpenOptions::new().append(true).open(&name)?
        } else {
            fs::File::create(&name)?
        };
        file.write_all(&bytes)
    };
    if let Err(error) = open() {
        cx.chatter(format_args!("{}: {}", flow.name, os_error(&error)));
    }
}

impl AggregateListener for ToIPFlowDumps {
    /// Notes that the flow's file is to be finished.
    fn aggregate_ended(&mut self, cx: &mut Cx<'_>, aggregate: u32) {
        if !self.flows.contains_key(&aggregate) {
            return;
        }
        let at = cx.steady().after(LINGER);
        self.ended.push_back((aggregate, at));
        if let Some(timer) = self.timer
            && cx.expires(timer).is_none()
        {
            cx.schedule_at(timer, at);
        }
    }
}

#[handlers]
impl ToIPFlowDumps {
    /// Finishes all files.
    #[write]
    fn clear(&mut self, cx: &mut Cx<'_>) {
        let mut aggregates: Vec<u32> = self.flows.keys().copied().collect();
        aggregates.sort_unstable();
        for aggregate in aggregates {
            self.finish(cx, aggregate);
        }
    }
}

impl Element for ToIPFlowDumps {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if !self.output_pattern.is_empty() {
            self.pattern = self.output_pattern.clone();
        }
        if self.pattern.is_empty() {
            self.pattern = "-".to_string();
        }
        if !self.pattern.contains('%') {
            args.warning("OUTPUT_PATTERN has no % escapes, so output files will get overwritten");
        }
        self.options.tcp_options |= self.options.tcp_timestamps;
        self.notifier.check(cx, args)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.notifier.listen(cx);
        self.timer = Some(cx.timer());
        if cx.outputs() == 0 {
            self.puller.initialize(cx);
        }
        Ok(())
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        self.clear(cx);
        if self.seen > 0 && self.seen_with_aggregate == 0 {
            let declaration = cx.declaration();
            cx.chatter(format_args!(
                "{declaration}: warning: saw no packets with aggregate annotations"
            ));
        }
    }

    fn batch(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        self.add_all(cx, batch);
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, _task: TaskId) -> Ran {
        let Some(batch) = cx.pulled() else {
            return self.puller.pull(cx);
        };
        let pulled = batch.len();
        self.add_all(cx, &batch);
        cx.done(batch);
        self.puller.pulled(cx, pulled)
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        let now = cx.steady();
        while let Some(&(aggregate, at)) = self.ended.front() {
            if at > now {
                cx.schedule_at(timer, at);
                return;
            }
            self.ended.pop_front();
            self.finish(cx, aggregate);
        }
    }
}

#[cfg(test)]
mod tests;
