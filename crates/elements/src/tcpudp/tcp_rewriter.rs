use alloc::format;
use alloc::string::String;
use core::net::Ipv4Addr;

use packet::Packet;
use packet::wire::IpProtocol;
use router::args::{Args, Failed, Port, SecondsArg};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList};

use crate::rewriter::base::{Base, ExtraHandlers, GUARANTEE, Translate, Translation, optional_seconds, seconds};
use crate::rewriter::flow::{Annotations, Direction, Flow};
use crate::rewriter::key::FlowKey;
use crate::rewriter::headers;
use crate::rewriter::path::{Identity, Scheme};
use crate::rewriter::{rewriter_handlers, rewriter_methods};
use crate::rewriter::sequence::Sequences;
use crate::rewriter::table::{Kind, Table, Timeouts};

/// Rewrites addresses and ports of TCP packets, and their sequence numbers where asked to.
///
/// Works as IPRewriter does, for TCP alone: other packets are dropped, but pass inputs with `pass`.
/// Elements that change the length of a connection's data can have it change sequence and
/// acknowledgment numbers of the packets behind, selective acknowledgments included.
///
/// # Arguments
/// - `INPUTSPEC` (specification, one for each input): what to do with packets of no known flow; see
///   IPRewriter.
/// - `TCP_TIMEOUT` (seconds, 24 hours): timeout of connections with data both ways; also `TIMEOUT`.
/// - `TCP_DONE_TIMEOUT` (seconds, 4 minutes): timeout of connections that ended, by FIN both ways
///   or by RST.
/// - `TCP_NODATA_TIMEOUT` (seconds, 5 minutes): timeout of other connections.
/// - `TCP_GUARANTEE` (seconds, 5): how long after its last packet a connection is not given up for
///   a new flow; also `GUARANTEE`.
/// - `REAP_INTERVAL` (seconds, 15 minutes): how often mappings whose time is up are taken out; 0:
///   never.
/// - `MAPPING_CAPACITY` (integer or element, 2147483647): most mappings, or another rewriter to
///   share the mappings' memory and limit with; also `CAPACITY`.
/// - `DST_ANNO` (boolean, true): whether to set the destination address annotation.
/// - `REPLY_ANNO` (annotation of 1 byte, none): an annotation that replies get as the first packet
///   of their flow had it.
///
/// # Ports
/// One push input for each specification; as many push outputs as the specifications name.
///
/// # Handlers
/// - `table` (read): the mappings, a line for each direction: flow, rewritten flow, change of
///   sequence numbers if any, outputs with the one that counts starred, input, seconds left.
/// - `lookup` (read, `SADDR SPORT DADDR DPORT`): what a flow is rewritten to; nothing if it has no
///   mapping.
/// - `table_size` (read): mappings that this element made.
/// - `mapping_failures` (read): mappings that could not be made.
/// - `patterns` (read): the inputs' specifications, with the numbers of mappings they made.
/// - `pattern0`, `pattern1`, … (read, write): one input's specification. Writing it ends the
///   mappings that the input made.
/// - `size` (read): mappings of all elements that share the limit.
/// - `capacity` (read, write): the limit.
/// - `clear` (write): ends all mappings.
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
#[derive(Default)]
pub struct TCPRewriter {
    pub(crate) base: Base,
}

impl Class for TCPRewriter {
    const NAME: &'static str = "TCPRewriter";
    const PORTS: &'static str = "1-/1-";
    const PROCESSING: &'static str = "h";
    const IS_A: &'static [&'static str] = &["IPRewriterBase"];
    const SEGMENTS: bool = true;
}

/// The timeouts of TCP, in seconds.
pub(super) struct TcpTimes {
    active: u32,
    done: u32,
    plain: u32,
    pub(super) guarantee: u32,
}

impl TcpTimes {
    /// Takes the arguments, `TIMEOUT` too.
    pub(super) fn configure(args: &mut Args<'_>) -> Result<TcpTimes, Failed> {
        let mut times = TcpTimes {
            active: 24 * 60 * 60,
            done: 4 * 60,
            plain: 5 * 60,
            guarantee: GUARANTEE,
        };
        let (mut timeout, mut tcp_timeout) = (None, None);
        args.keyword_with("TCP_NODATA_TIMEOUT", SecondsArg(0), &mut times.plain)
            .keyword_with("TCP_GUARANTEE", SecondsArg(0), &mut times.guarantee)
            .keyword_with("TIMEOUT", optional_seconds, &mut timeout)
            .keyword_with("TCP_TIMEOUT", optional_seconds, &mut tcp_timeout)
            .keyword_with("TCP_DONE_TIMEOUT", SecondsArg(0), &mut times.done)
            .consume()?;
        times.active = tcp_timeout.or(timeout).unwrap_or(times.active);
        Ok(times)
    }

    /// The table of connections.
    pub(super) fn table(&self) -> Table {
        Table {
            kind: Kind::Connections,
            timeouts: Timeouts {
                guarantee: seconds(self.guarantee),
                plain: seconds(self.plain),
                active: seconds(self.active),
                done: seconds(self.done),
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

impl Declared for TCPRewriter {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let mut tcp = TcpTimes::configure(args)?;
        self.base.configure_annotations(args, true)?;
        let times = self.base.configure(cx, args)?;
        tcp.guarantee = times.guarantee.unwrap_or(tcp.guarantee);
        self.base.set_tables(alloc::vec![tcp.table()]);
        Ok(())
    }

    rewriter_handlers! {
        "table", "mappings" => 0, show;
    }
}

impl Element for TCPRewriter {
    rewriter_methods!(Segments);
}

impl ExtraHandlers for TCPRewriter {
    fn extra_handlers(&self, list: &mut HandlerList) {
        list.read_with("lookup");
    }

    fn read_extra(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        parameter: &str,
    ) -> Option<Result<String, HandlerError>> {
        (name == "lookup").then(|| lookup(&mut self.base, cx, parameter))
    }
}

impl Translate for TCPRewriter {
    fn translate(
        &mut self,
        cx: &mut Cx<'_>,
        protocol: IpProtocol,
        key: FlowKey,
    ) -> Option<Translation> {
        self.base.translate(cx, 0, protocol, key)
    }

    fn obtain(
        &mut self,
        cx: &mut Cx<'_>,
        protocol: IpProtocol,
        key: FlowKey,
        port: usize,
    ) -> Option<Translation> {
        let table = 0;
        let identity = Identity {
            key,
            table,
            protocol: protocol.0,
        };
        self.base.obtain::<Segments>(cx, identity, port)
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
pub(super) fn lookup(
    base: &mut Base,
    cx: &mut Cx<'_>,
    text: &str,
) -> Result<String, HandlerError> {
    let names = cx.names();
    let words = click::config::split_space(text);
    let [source, from, destination, to] = &words[..] else {
        return Err("expected ‘SADDR SPORT DADDR DPORT’".into());
    };
    let address = |keyword, text: &str| -> Result<Ipv4Addr, HandlerError> {
        names
            .parse(text)
            .map_err(|_| format!("{keyword}: expected IP address").into())
    };
    let port = |keyword, text: &str| -> Result<u16, HandlerError> {
        names
            .parse_with(Port::TCP, text)
            .map_err(|_| format!("{keyword}: expected port").into())
    };
    let key = FlowKey::new(
        (address("SADDR", source)?, port("SPORT", from)?),
        (address("DADDR", destination)?, port("DPORT", to)?),
    );
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
