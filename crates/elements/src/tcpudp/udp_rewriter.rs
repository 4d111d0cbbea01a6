use crate::prelude::*;
use crate::rewriter::base::{Base, GUARANTEE, Rewriter, Translation, nanoseconds};
use crate::rewriter::checksums::DCCP;
use crate::rewriter::flow::{Annotations, Direction, Flow};
use crate::rewriter::headers;
use crate::rewriter::key::FlowKey;
use crate::rewriter::path::Scheme;
use crate::rewriter::rewriter_methods;
use crate::rewriter::scratch::Identity;
use crate::rewriter::sequence::Sequences;
use crate::rewriter::table::{Kind, Table, Timeouts};

/// Rewrites addresses and ports of UDP packets, and of TCP and DCCP packets as if they were UDP.
///
/// Works as IPRewriter, but identifies flows by addresses and ports only: one table holds UDP, TCP
/// and DCCP flows, and treats all packets as datagrams. Other protocols, later fragments and
/// truncated headers are dropped, except at an input with `pass`.
///
/// # Handlers
/// - `pattern0`, `pattern1`, … (read, write): one input's specification. Writing it ends the
///   mappings that the input made.
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
#[derive(Element)]
#[element(
    ports = "1-/1-",
    processing = "h",
    segments,
    handlers,
    provides(Rewriter)
)]
#[inputs("one for each specification")]
#[outputs("as many as the specifications name")]
pub struct UDPRewriter {
    /// The same as UDP_TIMEOUT.
    #[arg]
    timeout: Option<Seconds>,
    /// The same as UDP_STREAMING_TIMEOUT.
    #[arg]
    streaming_timeout: Option<Seconds>,
    /// The same as UDP_GUARANTEE.
    #[arg]
    guarantee: Option<Seconds>,
    #[flatten]
    times: UdpTimes,
    /// Whether to set the destination address annotation.
    #[arg(default = true)]
    dst_anno: bool,
    #[flatten]
    base: Base,
}

/// The arguments that say how long UDP flows live.
#[derive(Component)]
pub(super) struct UdpTimes {
    /// Timeout of UDP flows.
    #[arg(default_text = "5 minutes")]
    udp_timeout: Option<Seconds>,
    /// Timeout of UDP flows with three packets or more, and packets both ways.
    #[arg(default_text = "UDP_TIMEOUT")]
    udp_streaming_timeout: Option<Seconds>,
    /// How long after its last packet a UDP flow cannot be evicted for a new one.
    #[arg(default_text = "5 seconds")]
    udp_guarantee: Option<Seconds>,
}

impl UdpTimes {
    /// The table of datagrams' flows.
    pub(super) fn table(&self) -> Table {
        let timeout = self.udp_timeout.unwrap_or(Seconds(5 * 60));
        Table {
            kind: Kind::Datagrams,
            timeouts: Timeouts {
                guarantee: nanoseconds(self.udp_guarantee.unwrap_or(GUARANTEE)),
                plain: nanoseconds(timeout),
                active: nanoseconds(self.udp_streaming_timeout.unwrap_or(timeout)),
                done: 0,
            },
        }
    }
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

#[handlers]
impl UDPRewriter {
    /// The mappings, a line for each direction: flow, rewritten flow, outputs with this direction's
    /// starred, input, seconds left.
    #[read(alias = "mappings")]
    fn table(&mut self, cx: &mut Cx<'_>) -> String {
        self.base.show_table(cx, 0, show)
    }
}

impl Element for UDPRewriter {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let times = UdpTimes {
            udp_timeout: self.timeout.or(self.times.udp_timeout),
            udp_streaming_timeout: self.streaming_timeout.or(self.times.udp_streaming_timeout),
            udp_guarantee: self.guarantee.or(self.times.udp_guarantee),
        };
        let tables = alloc::vec![times.table()];
        self.base.configured(cx, args, self.dst_anno, tables)
    }

    rewriter_methods!(Datagrams);
}

impl Rewriter for UDPRewriter {
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
        self.base.obtain::<Datagrams>(cx, 0, protocol, key, port)
    }
}

/// Shows a mapping.
pub(super) fn show(flow: &Flow, direction: Direction, _: &Sequences) -> String {
    format!("{} => {}", flow.key(direction), flow.rewritten(direction))
}
