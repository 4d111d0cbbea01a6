use crate::prelude::*;
use crate::rewriter::base::{Base, GUARANTEE, Rewriter, Translation};
use crate::rewriter::flow::{Annotations, Direction, Flow};
use crate::rewriter::key::FlowKey;
use crate::rewriter::path::Scheme;
use crate::rewriter::rewriter_methods;
use crate::rewriter::scratch::Identity;
use crate::rewriter::sequence::Sequences;
use crate::rewriter::{checksums, headers};

/// Rewrites source and destination addresses, a pair at a time.
///
/// As IPAddrRewriter, but a mapping is for packets from one address to another: one outside address
/// can represent several inside addresses if their destinations differ. Any protocol is rewritten;
/// the checksums of IP, TCP and UDP are updated. An input's specification is `drop`, `pass OUTPUT`,
/// `keep FOUTPUT ROUTPUT` or the name of a mapper, as with IPRewriter, or `pattern SADDR DADDR
/// FOUTPUT ROUTPUT`. Either address may be `-` and then stays; SADDR may be a range `A-B` or a
/// prefix `A/N`, of which an address is chosen whose replies no other mapping takes, at random, or
/// with `#` behind in turn. If there is none, the packet is dropped.
///
/// Packets must have their IP header marked; others are dropped. Mappings end as with IPRewriter.
///
/// # Handlers
/// - `pattern0`, `pattern1`, … (read, write): one input's specification. Writing it ends the
///   mappings that the input made.
///
/// # Example
/// ```click
/// rw :: IPAddrPairRewriter(pattern 1.0.0.0/24 - 0 1, drop);
/// FromDevice(eth0) -> Strip(14) -> CheckIPHeader -> [0] rw;
/// FromDevice(eth1) -> Strip(14) -> CheckIPHeader -> [1] rw;
/// rw [0] -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> Queue -> ToDevice(eth1);
/// rw [1] -> EtherEncap(0x0800, 1:1:1:1:1:1, 3:3:3:3:3:3) -> Queue -> ToDevice(eth0);
/// ```
///
/// # See also
/// IPRewriter, IPAddrRewriter, IPRewriterPatterns
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
pub struct IPAddrPairRewriter {
    /// How long a mapping lives after its last packet.
    #[arg(default = Seconds(2 * 60 * 60), default_text = "2 hours")]
    timeout: Seconds,
    /// How long after its last packet a mapping cannot be evicted for a new one.
    #[arg(default = GUARANTEE, default_text = "5 seconds")]
    guarantee: Seconds,
    #[flatten]
    base: Base,
}

/// How IPAddrPairRewriter reads and writes packets.
pub struct Pairs;

impl Scheme for Pairs {
    #[inline(always)]
    fn identify(packet: &Packet) -> Identity {
        match headers::parts(packet) {
            Some((ip, _)) => Identity {
                key: FlowKey {
                    addresses: headers::addresses(ip),
                    ports: 0,
                },
                table: 0,
                protocol: 0,
            },
            None => Identity::NONE,
        }
    }

    fn accepts(rewritten: FlowKey) -> bool {
        rewritten.ports == 0
    }

    #[inline(always)]
    fn apply(
        flow: &mut Flow,
        _sequences: &mut Sequences,
        direction: Direction,
        annotations: Annotations,
        packet: &mut Packet,
    ) {
        let partial = packet.needs_checksum();
        let Some((ip, transport)) = headers::parts_mut(packet) else {
            return;
        };
        headers::rewrite_ip(flow, direction, ip);
        if partial {
            let delta = flow.ip_delta(direction);
            checksums::update_partial(delta, headers::protocol(ip), transport);
        } else if headers::is_first(ip) {
            let delta = flow.transport_delta(direction);
            checksums::update_transport(delta, headers::protocol(ip), transport);
        }
        annotations.set(flow, direction, packet);
    }
}

#[handlers]
impl IPAddrPairRewriter {
    /// The mappings, a line for each direction: addresses, rewritten addresses, outputs with this
    /// direction's starred, input, seconds left.
    #[read(alias = "mappings")]
    fn table(&mut self, cx: &mut Cx<'_>) -> String {
        self.base.show_table(cx, 0, show)
    }
}

impl Element for IPAddrPairRewriter {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let times = (self.timeout, self.guarantee);
        self.base.configured_plain(cx, args, true, times)
    }

    rewriter_methods!(Pairs);
}

impl Rewriter for IPAddrPairRewriter {
    fn base(&mut self) -> &mut Base {
        &mut self.base
    }

    fn translate(
        &mut self,
        cx: &mut Cx<'_>,
        _protocol: IpProtocol,
        key: FlowKey,
    ) -> Option<Translation> {
        let pair = FlowKey { ports: 0, ..key };
        let (flow, direction) = self.base.lookup(cx, 0, pair)?;
        let addresses = flow.rewritten(direction).addresses;
        let whole = FlowKey { addresses, ..key };
        Some(Translation::new(&flow, direction, whole))
    }
}

fn show(flow: &Flow, direction: Direction, _: &Sequences) -> String {
    let (from, to) = (flow.key(direction), flow.rewritten(direction));
    let (a, b) = (from.source(), from.destination());
    let (c, d) = (to.source(), to.destination());
    format!("({a}, {b}) => ({c}, {d})")
}
