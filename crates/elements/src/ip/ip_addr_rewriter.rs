use crate::prelude::*;
use crate::rewriter::base::{Base, GUARANTEE, Rewriter, Translation};
use crate::rewriter::flow::{Annotations, Direction, Flow};
use crate::rewriter::key::FlowKey;
use crate::rewriter::path::Scheme;
use crate::rewriter::rewriter_methods;
use crate::rewriter::scratch::Identity;
use crate::rewriter::sequence::Sequences;
use crate::rewriter::{checksums, headers};

/// Rewrites source addresses, and the destination addresses of replies: basic network address
/// translation.
///
/// A table of mappings gives each inside address its own outside address, for any protocol. A
/// packet whose source address is mapped leaves with the outside address; one whose destination is
/// a mapped outside address, with the inside address. The checksums of IP, TCP and UDP are updated.
/// Any other packet is treated by the specification of its input: `drop`, `pass OUTPUT`, `keep
/// FOUTPUT ROUTPUT` or the name of a mapper, as with IPRewriter, or `pattern SADDR - FOUTPUT
/// ROUTPUT`. SADDR is an address, a range `A-B` or a prefix `A/N`: an address that is not in use is
/// chosen, at random, or with `#` behind in turn. If there is none, the packet is dropped.
///
/// Packets must have their IP header marked; others are dropped. Mappings end as with IPRewriter.
///
/// # Handlers
/// - `pattern0`, `pattern1`, … (read, write): one input's specification. Writing it ends the
///   mappings that the input made.
///
/// # Example
/// ```click
/// rw :: IPAddrRewriter(pattern 1.0.0.0/24 - 0 1, drop);
/// FromDevice(eth0) -> Strip(14) -> CheckIPHeader -> [0] rw;
/// FromDevice(eth1) -> Strip(14) -> CheckIPHeader -> [1] rw;
/// rw [0] -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> Queue -> ToDevice(eth1);
/// rw [1] -> EtherEncap(0x0800, 1:1:1:1:1:1, 3:3:3:3:3:3) -> Queue -> ToDevice(eth0);
/// ```
///
/// # See also
/// IPRewriter, IPAddrPairRewriter, IPRewriterPatterns
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
pub struct IPAddrRewriter {
    /// How long a mapping lives after its last packet.
    #[arg(default = Seconds(2 * 60 * 60), default_text = "2 hours")]
    timeout: Seconds,
    /// How long after its last packet a mapping cannot be evicted for a new one.
    #[arg(default = GUARANTEE, default_text = "5 seconds")]
    guarantee: Seconds,
    #[flatten]
    base: Base,
}

/// How IPAddrRewriter reads and writes packets. Forward keys have a source alone, reply keys a
/// destination.
pub struct Sources;

fn by_source(addresses: u64) -> FlowKey {
    FlowKey {
        addresses: addresses >> 32 << 32,
        ports: 0,
    }
}

fn by_destination(addresses: u64) -> FlowKey {
    FlowKey {
        addresses: addresses & 0xffff_ffff,
        ports: 0,
    }
}

impl Scheme for Sources {
    #[inline(always)]
    fn identify(packet: &Packet) -> Identity {
        match headers::parts(packet) {
            Some((ip, _)) => Identity {
                key: by_source(headers::addresses(ip)),
                table: 0,
                protocol: 0,
            },
            None => Identity::NONE,
        }
    }

    #[inline(always)]
    fn alternative(packet: &Packet) -> Option<FlowKey> {
        let (ip, _) = headers::parts(packet)?;
        Some(by_destination(headers::addresses(ip)))
    }

    fn accepts(rewritten: FlowKey) -> bool {
        rewritten.ports == 0 && rewritten.destination().is_unspecified()
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
        let rewritten = flow.rewritten(direction);
        match direction {
            Direction::Forward => headers::set_source(ip, rewritten.source()),
            Direction::Reply => headers::set_destination(ip, rewritten.destination()),
        }
        headers::update_ip_sum(flow.ip_delta(direction), ip);
        if partial {
            let delta = flow.ip_delta(direction);
            checksums::update_partial(delta, headers::protocol(ip), transport);
        } else if headers::is_first(ip) {
            let delta = flow.transport_delta(direction);
            checksums::update_transport(delta, headers::protocol(ip), transport);
        }
        if direction == Direction::Reply {
            annotations.set(flow, direction, packet);
        }
    }
}

#[handlers]
impl IPAddrRewriter {
    /// The mappings, a line for each direction: address, rewritten address, outputs with this
    /// direction's starred, input, seconds left.
    #[read(alias = "mappings")]
    fn table(&mut self, cx: &mut Cx<'_>) -> String {
        self.base.show_table(cx, 0, show)
    }
}

impl Element for IPAddrRewriter {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let times = (self.timeout, self.guarantee);
        self.base.configured_plain(cx, args, true, times)
    }

    rewriter_methods!(Sources);
}

impl Rewriter for IPAddrRewriter {
    fn base(&mut self) -> &mut Base {
        &mut self.base
    }

    fn translate(
        &mut self,
        cx: &mut Cx<'_>,
        _protocol: IpProtocol,
        key: FlowKey,
    ) -> Option<Translation> {
        let mut whole = key;
        let source = self.base.lookup(cx, 0, by_source(key.addresses));
        let (flow, direction) = match source {
            Some((flow, direction)) => {
                whole = whole.with_source(flow.rewritten(direction).source());
                (flow, direction)
            }
            None => {
                let found = self.base.lookup(cx, 0, by_destination(key.addresses))?;
                whole = whole.with_destination(found.0.rewritten(found.1).destination());
                found
            }
        };
        Some(Translation::new(&flow, direction, whole))
    }
}

fn show(flow: &Flow, direction: Direction, _: &Sequences) -> String {
    let (from, to) = (flow.key(direction), flow.rewritten(direction));
    match direction {
        Direction::Forward => format!("{} => {}", from.source(), to.source()),
        Direction::Reply => format!("{} => {}", from.destination(), to.destination()),
    }
}
