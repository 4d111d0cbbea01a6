use alloc::string::String;

use packet::Packet;
use packet::wire::IpProtocol;
use router::args::{Args, Failed, SecondsArg};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList};

use super::tcp_rewriter::{self, TcpTimes};
use crate::rewriter::base::{Base, ExtraHandlers, GUARANTEE, Translate, Translation, seconds};
use crate::rewriter::flow::{Annotations, Direction, Flow};
use crate::rewriter::key::FlowKey;
use crate::rewriter::headers;
use crate::rewriter::path::{Identity, Scheme};
use crate::rewriter::{rewriter_handlers, rewriter_methods};
use crate::rewriter::sequence::Sequences;
use crate::rewriter::table::{Kind, Table, Timeouts};

/// Rewrites addresses and ports of TCP and UDP packets: network address and port translation.
///
/// A table of mappings says how each flow's packets are rewritten. A packet whose addresses, ports
/// and protocol are in the table is rewritten, its checksums brought up to date, and sent to the
/// mapping's output, whichever input it came by. For any other packet the specification of its
/// input says what to do; most enter the flow into the table, both ways: forward, and back for the
/// replies.
///
/// An input's specification is one of:
///
/// - `drop` or `discard`: drop the packet.
/// - `pass OUTPUT` or `nochange OUTPUT`: send it to OUTPUT unchanged, without a mapping.
/// - `keep FOUTPUT ROUTPUT`: make a mapping that changes nothing; the flow's packets go to FOUTPUT,
///   replies to ROUTPUT.
/// - `pattern SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT`: make a mapping that sets what the pattern
///   gives; a part that is `-` stays. SPORT may be a range `L-H`: a port is chosen whose replies no
///   other mapping takes, the packet's own if possible, else any. With `#` behind the range ports
///   are taken in turn, with `?` at random. If none is left the packet is dropped. SADDR may be a
///   range `A-B` or a prefix `A/N` instead.
/// - `pattern NAME FOUTPUT ROUTPUT`: a pattern that IPRewriterPatterns names.
/// - `ELEMENT`: a mapper such as RoundRobinIPMapper decides.
///
/// Packets must have their IP header marked. Other protocols, later fragments and headers that are
/// cut short are dropped, but pass inputs with `pass`.
///
/// A mapping lives until its timeout after its last packet; mappings whose time is up are taken out
/// every REAP_INTERVAL. When the table is full, the mapping whose time is up first makes room for a
/// new one; mappings within their guarantee do not, and if there are only such, the new flow's
/// packet is dropped. Where no memory is left for a mapping, the same happens.
///
/// # Arguments
/// - `INPUTSPEC` (specification, one for each input): what to do with packets of no known flow.
/// - `TCP_TIMEOUT` (seconds, 24 hours): timeout of connections with data both ways; also `TIMEOUT`.
/// - `TCP_DONE_TIMEOUT` (seconds, 4 minutes): timeout of connections that ended, by FIN both ways
///   or by RST.
/// - `TCP_NODATA_TIMEOUT` (seconds, 5 minutes): timeout of other connections.
/// - `TCP_GUARANTEE` (seconds, 5): how long after its last packet a connection is not given up for
///   a new flow; also `GUARANTEE`.
/// - `UDP_TIMEOUT` (seconds, 5 minutes): timeout of UDP flows.
/// - `UDP_STREAMING_TIMEOUT` (seconds, UDP_TIMEOUT): timeout of UDP flows with three packets or
///   more, and packets both ways.
/// - `UDP_GUARANTEE` (seconds, 5): as TCP_GUARANTEE, for UDP flows.
/// - `REAP_INTERVAL` (seconds, 15 minutes): how often mappings whose time is up are taken out; 0:
///   never.
/// - `MAPPING_CAPACITY` (integer or element, 2147483647): most mappings, or another rewriter to
///   share the mappings' memory and limit with; also `CAPACITY`. Memory for as many, up to 2^20, is
///   set aside at the start.
/// - `DST_ANNO` (boolean, true): whether to set the destination address annotation.
/// - `REPLY_ANNO` (annotation of 1 byte, none): an annotation that replies get as the first packet
///   of their flow had it.
///
/// # Ports
/// One push input for each specification; as many push outputs as the specifications name.
///
/// # Handlers
/// - `tcp_table` (read): the TCP mappings, a line for each direction: flow, rewritten flow, outputs
///   with the one that counts starred, input, seconds left.
/// - `udp_table` (read): the same for UDP.
/// - `tcp_lookup` (read, `SADDR SPORT DADDR DPORT`): what a TCP flow is rewritten to; nothing if
///   it has no mapping.
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
/// rw :: IPRewriter(pattern 1.0.0.1 1024-65535 - - 0 1, drop);
/// FromDevice(eth0) -> Strip(14) -> CheckIPHeader -> [0] rw;
/// FromDevice(eth1) -> Strip(14) -> CheckIPHeader -> [1] rw;
/// rw [0] -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> Queue -> ToDevice(eth1);
/// rw [1] -> EtherEncap(0x0800, 1:1:1:1:1:1, 3:3:3:3:3:3) -> Queue -> ToDevice(eth0);
/// ```
///
/// # See also
/// TCPRewriter, UDPRewriter, IPAddrRewriter, IPAddrPairRewriter, IPRewriterPatterns, ICMPRewriter,
/// ICMPPingRewriter
#[derive(Default)]
pub struct IPRewriter {
    pub(crate) base: Base,
}

/// The table of TCP connections.
pub(crate) const TCP: u16 = 0;
/// The table of UDP flows.
pub(crate) const UDP: u16 = 1;

impl Class for IPRewriter {
    const NAME: &'static str = "IPRewriter";
    const PORTS: &'static str = "1-/1-";
    const PROCESSING: &'static str = "h";
    const IS_A: &'static [&'static str] = &["IPRewriterBase", "TCPRewriter"];
    const SEGMENTS: bool = true;
}

/// How IPRewriter reads and writes packets.
pub struct Both;

impl Scheme for Both {
    const DATAGRAMS: Option<u16> = Some(UDP);

    #[inline(always)]
    fn identify(packet: &Packet) -> Identity {
        let Some((protocol, key)) = headers::flow(packet) else {
            return Identity::NONE;
        };
        let table = match protocol {
            IpProtocol::TCP => TCP,
            IpProtocol::UDP => UDP,
            _ => return Identity::NONE,
        };
        Identity {
            key,
            table,
            protocol: protocol.0,
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
        if flow.protocol == IpProtocol::TCP.0 {
            headers::apply_segment(flow, sequences, direction, annotations, packet);
        } else {
            headers::apply_datagram(flow, direction, annotations, packet);
        }
    }
}

impl Declared for IPRewriter {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let (mut timeout, mut guarantee) = (5 * 60, GUARANTEE);
        let mut streaming = None;
        args.keyword_with("UDP_TIMEOUT", SecondsArg(0), &mut timeout)
            .keyword_with(
                "UDP_STREAMING_TIMEOUT",
                crate::rewriter::base::optional_seconds,
                &mut streaming,
            )
            .keyword_with("UDP_GUARANTEE", SecondsArg(0), &mut guarantee)
            .consume()?;
        let mut tcp = TcpTimes::configure(args)?;
        self.base.configure_annotations(args, true)?;
        let times = self.base.configure(cx, args)?;
        tcp.guarantee = times.guarantee.unwrap_or(tcp.guarantee);
        let udp = Table {
            kind: Kind::Datagrams,
            timeouts: Timeouts {
                guarantee: seconds(guarantee),
                plain: seconds(timeout),
                active: seconds(streaming.unwrap_or(timeout)),
                done: 0,
            },
        };
        self.base.set_tables(alloc::vec![tcp.table(), udp]);
        Ok(())
    }

    rewriter_handlers! {
        "tcp_table", "tcp_mappings" => TCP, tcp_rewriter::show;
        "udp_table", "udp_mappings" => UDP, super::udp_rewriter::show;
    }
}

impl Element for IPRewriter {
    rewriter_methods!(Both);
}

impl ExtraHandlers for IPRewriter {
    fn extra_handlers(&self, list: &mut HandlerList) {
        list.read_with("tcp_lookup");
    }

    fn read_extra(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        parameter: &str,
    ) -> Option<Result<String, HandlerError>> {
        (name == "tcp_lookup").then(|| tcp_rewriter::lookup(&mut self.base, cx, parameter))
    }
}

impl Translate for IPRewriter {
    fn translate(
        &mut self,
        cx: &mut Cx<'_>,
        protocol: IpProtocol,
        key: FlowKey,
    ) -> Option<Translation> {
        let table = match protocol {
            IpProtocol::TCP => TCP,
            IpProtocol::UDP => UDP,
            _ => return None,
        };
        self.base.translate(cx, table, protocol, key)
    }

    fn obtain(
        &mut self,
        cx: &mut Cx<'_>,
        protocol: IpProtocol,
        key: FlowKey,
        port: usize,
    ) -> Option<Translation> {
        let table = match protocol {
            IpProtocol::TCP => TCP,
            IpProtocol::UDP => UDP,
            _ => return None,
        };
        let identity = Identity {
            key,
            table,
            protocol: protocol.0,
        };
        self.base.obtain::<Both>(cx, identity, port)
    }
}
