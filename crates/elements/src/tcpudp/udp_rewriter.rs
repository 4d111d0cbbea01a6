use alloc::format;
use alloc::string::String;

use packet::Packet;
use packet::wire::IpProtocol;
use router::args::{Args, Failed};
use router::{Class, Cx, Declared, Element};

use crate::rewriter::base::{Base, ExtraHandlers, GUARANTEE, Translate, Translation, optional_seconds, seconds};
use crate::rewriter::flow::{Annotations, Direction, Flow};
use crate::rewriter::key::FlowKey;
use crate::rewriter::headers::{self, DCCP};
use crate::rewriter::path::{Identity, Scheme};
use crate::rewriter::{rewriter_handlers, rewriter_methods};
use crate::rewriter::sequence::Sequences;
use crate::rewriter::table::{Kind, Table, Timeouts};

/// Rewrites addresses and ports of UDP packets, and of others with ports where UDP has them.
///
/// Works as IPRewriter does, but tells flows apart by addresses and ports alone: one table holds
/// UDP, TCP and DCCP flows, and treats all as datagrams. Other protocols, later fragments and
/// headers cut short are dropped, but pass inputs with `pass`.
///
/// # Arguments
/// - `INPUTSPEC` (specification, one for each input): what to do with packets of no known flow; see
///   IPRewriter.
/// - `TIMEOUT` (seconds, 5 minutes): timeout of flows; also `UDP_TIMEOUT`.
/// - `STREAMING_TIMEOUT` (seconds, TIMEOUT): timeout of flows with three packets or more, and
///   packets both ways; also `UDP_STREAMING_TIMEOUT`.
/// - `GUARANTEE` (seconds, 5): how long after its last packet a flow is not given up for a new one;
///   also `UDP_GUARANTEE`.
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
/// - `table` (read): the mappings, a line for each direction: flow, rewritten flow, outputs with
///   the one that counts starred, input, seconds left.
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
/// rw :: UDPRewriter(pattern 1.0.0.1 1024-65535 - - 0 1, drop);
/// FromDevice(eth0) -> Strip(14) -> CheckIPHeader -> [0] rw;
/// FromDevice(eth1) -> Strip(14) -> CheckIPHeader -> [1] rw;
/// rw [0] -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> Queue -> ToDevice(eth1);
/// rw [1] -> EtherEncap(0x0800, 1:1:1:1:1:1, 3:3:3:3:3:3) -> Queue -> ToDevice(eth0);
/// ```
///
/// # See also
/// IPRewriter, TCPRewriter, IPRewriterPatterns
#[derive(Default)]
pub struct UDPRewriter {
    pub(crate) base: Base,
}

impl Class for UDPRewriter {
    const NAME: &'static str = "UDPRewriter";
    const PORTS: &'static str = "1-/1-";
    const PROCESSING: &'static str = "h";
    const IS_A: &'static [&'static str] = &["IPRewriterBase"];
    const SEGMENTS: bool = true;
}

/// How UDPRewriter reads and writes packets.
pub struct Datagrams;

impl Scheme for Datagrams {
    const DATAGRAMS: Option<u16> = Some(0);

    #[inline(always)]
    fn identify(packet: &Packet) -> Identity {
        match headers::flow(packet) {
            Some((protocol @ (IpProtocol::TCP | IpProtocol::UDP | DCCP), key)) => Identity {
                key,
                table: 0,
                protocol: protocol.0,
            },
            _ => Identity::NONE,
        }
    }

    #[inline(always)]
    fn apply(
        flow: &mut Flow,
        _sequences: &mut Sequences,
        direction: Direction,
        annotations: Annotations,
        packet: &mut Packet,
    ) {
        headers::apply_datagram(flow, direction, annotations, packet);
    }
}

impl Declared for UDPRewriter {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let (mut timeout, mut guarantee, mut streaming) = (None, None, None);
        let mut udp_streaming = None;
        args.keyword_with("UDP_TIMEOUT", optional_seconds, &mut timeout)
            .keyword_with("STREAMING_TIMEOUT", optional_seconds, &mut streaming)
            .keyword_with("UDP_STREAMING_TIMEOUT", optional_seconds, &mut udp_streaming)
            .keyword_with("UDP_GUARANTEE", optional_seconds, &mut guarantee)
            .consume()?;
        self.base.configure_annotations(args, true)?;
        let times = self.base.configure(cx, args)?;
        let timeout = times.timeout.or(timeout).unwrap_or(5 * 60);
        let guarantee = times.guarantee.or(guarantee).unwrap_or(GUARANTEE);
        self.base.set_tables(alloc::vec![Table {
            kind: Kind::Datagrams,
            timeouts: Timeouts {
                guarantee: seconds(guarantee),
                plain: seconds(timeout),
                active: seconds(streaming.or(udp_streaming).unwrap_or(timeout)),
                done: 0,
            },
        }]);
        Ok(())
    }

    rewriter_handlers! {
        "table", "mappings" => 0, show;
    }
}

impl Element for UDPRewriter {
    rewriter_methods!(Datagrams);
}

impl ExtraHandlers for UDPRewriter {}

impl Translate for UDPRewriter {
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
        self.base.obtain::<Datagrams>(cx, identity, port)
    }
}

/// Shows a mapping.
pub(super) fn show(flow: &Flow, direction: Direction, _: &Sequences) -> String {
    format!("{} => {}", flow.key(direction), flow.rewritten(direction))
}
