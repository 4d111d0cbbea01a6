use super::tcp_rewriter::{self, TcpTimes};
use super::udp_rewriter::{self, UdpTimes};
use crate::prelude::*;
use crate::rewriter::base::{Base, Connections, Rewriter, Translation};
use crate::rewriter::flow::{Annotations, Direction, Flow};
use crate::rewriter::headers;
use crate::rewriter::key::FlowKey;
use crate::rewriter::path::Scheme;
use crate::rewriter::rewriter_methods;
use crate::rewriter::scratch::Identity;
use crate::rewriter::sequence::Sequences;

/// Rewrites addresses and ports of TCP and UDP packets: network address and port translation.
///
/// A table of mappings rewrites each flow's packets. A packet whose addresses, ports and protocol
/// have a mapping is rewritten, with its checksums, and sent to the mapping's output, from any
/// input. Any other packet is treated by the specification of its input. Most specifications add
/// two mappings for the flow: one forward, and one for the replies.
///
/// An input's specification is one of:
///
/// - `drop` or `discard`: drop the packet.
/// - `pass OUTPUT` or `nochange OUTPUT`: send it to OUTPUT unchanged, without a mapping.
/// - `keep FOUTPUT ROUTPUT`: make a mapping that changes nothing; the flow's packets go to FOUTPUT,
///   replies to ROUTPUT.
/// - `pattern SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT`: make a mapping that sets the given parts; a
///   part that is `-` stays. SPORT may be a range `L-H`: the mapping gets the packet's port if it
///   is in the range and unused, else any unused one. With `#` after the range, ports are taken in
///   order; with `?`, at random. If none is unused, the packet is dropped. SADDR may be a range
///   `A-B` or a prefix `A/N` instead.
/// - `pattern NAME FOUTPUT ROUTPUT`: a pattern that IPRewriterPatterns names.
/// - `ELEMENT`: a mapper such as RoundRobinIPMapper decides.
///
/// Packets must have their IP header marked. Other protocols, later fragments and truncated headers
/// are dropped, except at an input with `pass`.
///
/// A mapping expires its timeout after its last packet; expired mappings are removed every
/// REAP_INTERVAL. When the table or the memory for mappings is full, the mapping that expires first
/// is evicted for a new one. Mappings within their guarantee are not evicted; if there are no
/// others, the new flow's packet is dropped.
///
/// # Handlers
/// - `pattern0`, `pattern1`, … (read, write): one input's specification. Writing it ends the
///   mappings that the input made.
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
pub struct IPRewriter {
    #[flatten]
    tcp: TcpTimes,
    #[flatten]
    udp: UdpTimes,
    /// Whether to set the destination address annotation.
    #[arg(default = true)]
    dst_anno: bool,
    #[flatten]
    base: Base,
}

/// The table of TCP connections.
const TCP: u16 = 0;
/// The table of UDP flows.
const UDP: u16 = 1;

/// How IPRewriter reads and writes packets.
pub struct Both;

impl Scheme for Both {
    const DATAGRAMS: Option<u16> = Some(UDP);

    #[inline(always)]
    fn identify(packet: &Packet) -> Identity {
        let Some((protocol, key)) = headers::flow(packet) else {
            return Identity::NONE;
        };
        let Some(table) = table(protocol) else {
            return Identity::NONE;
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

/// The table of a protocol's flows.
#[inline(always)]
fn table(protocol: IpProtocol) -> Option<u16> {
    match protocol {
        IpProtocol::TCP => Some(TCP),
        IpProtocol::UDP => Some(UDP),
        _ => None,
    }
}

#[handlers]
impl IPRewriter {
    /// The TCP mappings, a line for each direction: flow, rewritten flow, change of sequence
    /// numbers if any, outputs with this direction's starred, input, seconds left.
    #[read(alias = "tcp_mappings")]
    fn tcp_table(&mut self, cx: &mut Cx<'_>) -> String {
        self.base.show_table(cx, TCP, tcp_rewriter::show)
    }

    /// The UDP mappings in the same form.
    #[read(alias = "udp_mappings")]
    fn udp_table(&mut self, cx: &mut Cx<'_>) -> String {
        self.base.show_table(cx, UDP, udp_rewriter::show)
    }

    /// The flow that the TCP flow `SADDR SPORT DADDR DPORT` is rewritten to; empty without a
    /// mapping.
    #[read]
    fn tcp_lookup(&mut self, cx: &mut Cx<'_>, flow: &str) -> Result<String, HandlerError> {
        tcp_rewriter::lookup(&mut self.base, cx, flow)
    }
}

impl Element for IPRewriter {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let tables = alloc::vec![self.tcp.table(), self.udp.table()];
        self.base.configured(cx, args, self.dst_anno, tables)
    }

    rewriter_methods!(Both);
}

impl Connections for IPRewriter {}

impl Rewriter for IPRewriter {
    fn base(&mut self) -> &mut Base {
        &mut self.base
    }

    fn translate(
        &mut self,
        cx: &mut Cx<'_>,
        protocol: IpProtocol,
        key: FlowKey,
    ) -> Option<Translation> {
        let table = table(protocol)?;
        self.base.translate(cx, table, protocol, key)
    }

    fn obtain(
        &mut self,
        cx: &mut Cx<'_>,
        protocol: IpProtocol,
        key: FlowKey,
        port: usize,
    ) -> Option<Translation> {
        let table = table(protocol)?;
        self.base.obtain::<Both>(cx, table, protocol, key, port)
    }
}
