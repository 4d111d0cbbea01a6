mod message;

use message::{Format, Message, Time};

use super::flow_monitor::Records;
use crate::prelude::*;

/// Nanoseconds between two looks for records.
const TICK: u64 = 200_000_000;
/// Messages of a tick; further records wait.
const BURST: usize = 256;

/// Exports a FlowMonitor's records by IPFIX (RFC 7011) or NetFlow v9 (RFC 3954).
///
/// Each packet is the payload of a UDP datagram: a message of at most 1400 bytes. Records wait for
/// at most 200 ms. There is a template for each version of IP. They come with the first message, and again with
/// the next one after TEMPLATE.
/// Both directions of a connection are records of their own. At most 256 messages leave every 200 ms.
///
/// # Example
/// ```click
/// FromDump(in.pcap, STOP true) -> MarkIPHeader(14)
///     -> ConnectionTracker(1000) -> m :: FlowMonitor -> Discard;
/// FlowExporter(m) -> UDPIPEncap(10.0.0.1, 4739, 10.0.0.2, 4739) -> Discard;
/// ```
///
/// # See also
/// FlowMonitor, UDPIPEncap
#[derive(Element)]
#[element(ports = "0/1", processing = "h")]
pub struct FlowExporter {
    /// The FlowMonitor, which runs on the same thread.
    #[arg(mandatory)]
    monitor: Option<Link<dyn Records>>,
    /// `ipfix` or `netflow9`.
    #[arg(positional)]
    format: Format,
    /// The exporter's number (observation domain, source identifier).
    #[arg(default = 1)]
    domain: u32,
    /// Time after which the templates are sent again.
    #[arg(default = Timestamp(60_000_000_000))]
    template: Timestamp,
    /// Messages sent.
    #[handler(read)]
    count: u64,
    /// Records in them.
    #[handler(read)]
    records: u64,
    /// When the templates were sent.
    explained: Option<i64>,
    started: Option<Steady>,
    buffer: Vec<u8>,
    timer: Option<TimerId>,
}

impl FlowExporter {
    /// Sends a message of what waits; returns whether there was something.
    fn send(&mut self, cx: &mut Cx<'_>, monitor: Link<dyn Records>) -> bool {
        let now = cx.steady();
        let since = now.since(self.started.unwrap_or(now));
        let time = Time {
            wall: cx.wall(),
            uptime: (since / 1_000_000) as u32,
        };
        let mut message = Message::new(self.format, time, core::mem::take(&mut self.buffer));
        let explained = self
            .explained
            .is_some_and(|at| time.wall - at < self.template.0);
        if !explained {
            message.add_templates();
        }
        while message.has_room()
            && let Some(record) = cx.reach(monitor, |monitor, _| monitor.take()).flatten()
        {
            message.add(&record);
        }
        let records = message.records();
        // IPFIX numbers records, NetFlow v9 messages.
        let sequence = match self.format {
            Format::Ipfix => self.records,
            Format::NetFlow9 => self.count,
        };
        let bytes = message.finish(sequence as u32, self.domain);
        if records > 0 {
            self.records += u64::from(records);
            self.count += 1;
            if !explained {
                self.explained = Some(time.wall);
            }
            if let Some(packet) = cx.pool().copy(&bytes) {
                cx.emit(0, packet);
            }
        }
        self.buffer = bytes;
        records > 0
    }
}

impl Element for FlowExporter {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        if let Some(monitor) = self.monitor {
            cx.share_thread(monitor.id());
            if cx.reach(monitor, |monitor, _| monitor.keep()) == Some(false) {
                return Err(cx.error(
                    "out of memory for the records; give the FlowMonitor smaller RECORDS, or a guest more \
                     memory, as in --memory 32M",
                ));
            }
        }
        self.started = Some(cx.steady());
        let timer = cx.timer();
        cx.schedule_after(timer, TICK);
        self.timer = Some(timer);
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        if let Some(monitor) = self.monitor {
            for _ in 0..BURST {
                if !self.send(cx, monitor) {
                    break;
                }
            }
        }
        cx.schedule_after(timer, TICK);
    }
}
