use crate::prelude::*;
use crate::rewriter::base::{Base, Connections, GUARANTEE, Rewriter, Translation, nanoseconds};
use crate::rewriter::flow::{Annotations, Direction, Flow};
use crate::rewriter::headers;
use crate::rewriter::key::FlowKey;
use crate::rewriter::path::Scheme;
use crate::rewriter::rewriter_methods;
use crate::rewriter::scratch::Identity;
use crate::rewriter::sequence::Sequences;
use crate::rewriter::table::{Kind, Table, Timeouts};

/// Rewrites addresses and ports of TCP packets, and sequence numbers on request of other elements.
///
/// Works as IPRewriter, for TCP only: other packets are dropped, except at an input with `pass`. An
/// element that changes the length of a connection's data can make it adjust the sequence and
/// acknowledgment numbers of later packets, selective acknowledgments included.
///
/// # Handlers
/// - `pattern0`, `pattern1`, … (read, write): one input's specification. Writing it ends the
///   mappings that the input made.
///
/// # Example
/// ```click
/// rw :: TCPRewriter(pattern 1.0.0.1 1024-65535 - - 0 1, drop);
/// FromDevice(eth0) -> Strip(14) -> CheckIPHeader -> [0] rw;
/// FromDevice(eth1) -> Strip(14) -> CheckIPHeader -> [1] rw;
/// rw [0] -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> Queue -> ToDevice(eth1);
/// rw [1] -> EtherEncap(0x0800, 1:1:1:1:1:1, 3:3:3:3:3:3) -> Queue -> ToDevice(eth0);
/// ```
///
/// # See also
/// IPRewriter, IPRewriterPatterns
#[derive(Element)]
#[element(
    ports = "1-/1-",
    processing = "h",
    segments,
    handlers,
    provides(Rewriter, Connections)
)]
#[inputs("one for each specification")]
#[outputs("as many as the specifications name")]
pub struct TCPRewriter {
    #[flatten]
    times: TcpTimes,
    /// Whether to set the destination address annotation.
    #[arg(default = true)]
    dst_anno: bool,
    #[flatten]
    base: Base,
}

/// The arguments that say how long TCP connections live.
#[derive(Component)]
pub(super) struct TcpTimes {
    /// Timeout of connections with data both ways.
    #[arg(default_text = "24 hours")]
    tcp_timeout: Option<Seconds>,
    /// The same as TCP_TIMEOUT.
    #[arg]
    timeout: Option<Seconds>,
    /// Timeout of connections that ended, by FIN both ways or by RST.
    #[arg(default = Seconds(4 * 60), default_text = "4 minutes")]
    tcp_done_timeout: Seconds,
    /// Timeout of other connections.
    #[arg(default = Seconds(5 * 60), default_text = "5 minutes")]
    tcp_nodata_timeout: Seconds,
    /// How long after its last packet a connection cannot be evicted for a new flow.
    #[arg(default = GUARANTEE, default_text = "5 seconds")]
    tcp_guarantee: Seconds,
    /// The same as TCP_GUARANTEE.
    #[arg]
    guarantee: Option<Seconds>,
}

impl TcpTimes {
    /// The table of connections.
    pub(super) fn table(&self) -> Table {
        let active = self.tcp_timeout.or(self.timeout);
        Table {
            kind: Kind::Connections,
            timeouts: Timeouts {
                guarantee: nanoseconds(self.guarantee.unwrap_or(self.tcp_guarantee)),
                plain: nanoseconds(self.tcp_nodata_timeout),
                active: nanoseconds(active.unwrap_or(Seconds(24 * 60 * 60))),
                done: nanoseconds(self.tcp_done_timeout),
            },
        }
    }
}

/// How TCPRewriter reads and writes packets.
pub struct Segments;

impl Scheme for Segments {
    #[inline(always)]
    fn identify(packet: &Packet) -> Identity {
        match headers::flow(packet) {
            Some((IpProtocol::TCP, key)) => Identity {
                key,
                table: 0,
                protocol: IpProtocol::TCP.0,
            },
            _ => Identity::NONE,
        }
    }

    #[inline(always)]
    fn apply(
        flow: &mut Flow,
        sequences: &mut Sequences,
        direction: Direction,
        annotations: Annotations,
        packet: &mut Packet,
    ) {
        headers::apply_segment(flow, sequences, direction, annotations, packet);
    }
}

#[handlers]
impl TCPRewriter {
    /// The mappings, a line for each direction: flow, rewritten flow, change of sequence numbers if
    /// any, outputs with this direction's starred, input, seconds left.
    #[read(alias = "mappings")]
    fn table(&mut self, cx: &mut Cx<'_>) -> String {
        self.base.show_table(cx, 0, show)
    }

    /// The flow that `SADDR SPORT DADDR DPORT` is rewritten to; empty without a mapping.
    #[read]
    fn lookup(&mut self, cx: &mut Cx<'_>, flow: &str) -> Result<String, HandlerError> {
        lookup(&mut self.base, cx, flow)
    }
}

impl Element for TCPRewriter {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let tables = alloc::vec![self.times.table()];
        self.base.configured(cx, args, self.dst_anno, tables)
    }

    rewriter_methods!(Segments);
}

impl Connections for TCPRewriter {}

impl Rewriter for TCPRewriter {
    fn base(&mut self) -> &mut Base {
        &mut self.base
    }

    fn obtain(
        &mut self,
        cx: &mut Cx<'_>,
        protocol: IpProtocol,
        key: FlowKey,
        port: usize,
    ) -> Option<Translation> {
        self.base.obtain::<Segments>(cx, 0, protocol, key, port)
    }
}

/// Shows a mapping of a connection.
pub(super) fn show(flow: &Flow, direction: Direction, sequences: &Sequences) -> String {
    let (from, to) = (flow.key(direction), flow.rewritten(direction));
    match sequences.latest(flow.extra, direction) {
        0 => format!("{from} => {to}"),
        by => format!("{from} => {to} seq {by:+}"),
    }
}

/// Answers what a connection, as `text` gives it, is rewritten to.
pub(super) fn lookup(base: &mut Base, cx: &mut Cx<'_>, text: &str) -> Result<String, HandlerError> {
    let (mut source, mut destination) = (Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED);
    let (mut from, mut to) = (0, 0);
    router::parse_words(cx, text, |args| {
        args.read()
            .mandatory_positional("SADDR", &mut source)
            .mandatory_positional_with("SPORT", Port::TCP, &mut from)
            .mandatory_positional("DADDR", &mut destination)
            .mandatory_positional_with("DPORT", Port::TCP, &mut to)
            .complete()
    })?;
    let key = FlowKey::new((source, from), (destination, to));
    let found = base.lookup(cx, 0, key);
    Ok(found.map_or_else(String::new, |(flow, direction)| {
        let to = flow.rewritten(direction);
        let (source, destination) = (to.source(), to.destination());
        format!(
            "{source} {} {destination} {}",
            to.source_port(),
            to.destination_port()
        )
    }))
}
