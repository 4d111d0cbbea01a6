use crate::prelude::*;
use crate::rewriter::base::{Base, GUARANTEE, Rewriter, Translation};
use crate::rewriter::flow::{Annotations, Direction, Flow};
use crate::rewriter::headers;
use crate::rewriter::key::FlowKey;
use crate::rewriter::path::Scheme;
use crate::rewriter::rewriter_methods;
use crate::rewriter::scratch::Identity;
use crate::rewriter::sequence::Sequences;

/// Rewrites addresses and identifiers of pings: ICMP echo requests and replies.
///
/// Works as IPRewriter, with the identifier instead of the source port: a mapping is for requests
/// with one source, destination and identifier, and for their replies. An input's specification is
/// `drop`, `pass OUTPUT`, `keep FOUTPUT ROUTPUT` or the name of a mapper, as with IPRewriter, or
/// `pattern SADDR DADDR IDENTIFIERS FOUTPUT ROUTPUT` or `pattern SADDR IDENTIFIERS DADDR - FOUTPUT
/// ROUTPUT`, where IDENTIFIERS is a range such as `0-65535`. Replies that nobody asked for, and
/// packets that are not pings, are dropped, but pass inputs with `pass`.
///
/// Packets must have their IP header marked. Mappings end as with IPRewriter.
///
/// # Handlers
/// - `pattern0`, `pattern1`, … (read, write): one input's specification. Writing it ends the
///   mappings that the input made.
///
/// # Example
/// ```click
/// rw :: ICMPPingRewriter(pattern 1.0.0.1 - 0-65535 0 1, drop);
/// FromDevice(eth0) -> Strip(14) -> CheckIPHeader -> [0] rw;
/// FromDevice(eth1) -> Strip(14) -> CheckIPHeader -> [1] rw;
/// rw [0] -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> Queue -> ToDevice(eth1);
/// rw [1] -> EtherEncap(0x0800, 1:1:1:1:1:1, 3:3:3:3:3:3) -> Queue -> ToDevice(eth0);
/// ```
///
/// # See also
/// IPRewriter, ICMPRewriter, ICMPPingResponder
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
pub struct ICMPPingRewriter {
    /// How long a mapping lives after its last packet.
    #[arg(default = Seconds(5 * 60), default_text = "5 minutes")]
    timeout: Seconds,
    /// How long after its last packet a mapping cannot be evicted for a new one.
    #[arg(default = GUARANTEE, default_text = "5 seconds")]
    guarantee: Seconds,
    /// Whether to set the destination address annotation.
    #[arg(default = true)]
    dst_anno: bool,
    #[flatten]
    base: Base,
}

/// How ICMPPingRewriter reads and writes packets. The key of requests has the identifier as source
/// port and the number after it as destination port; that of replies the other way round.
pub struct Pings;

const ECHO: u8 = 8;
const ECHO_REPLY: u8 = 0;

fn ports(identifier: u16, request: bool) -> u32 {
    let (a, b) = (u32::from(identifier), u32::from(identifier.wrapping_add(1)));
    if request { a << 16 | b } else { b << 16 | a }
}

/// The identifier in a key of packets in a direction.
fn identifier(key: FlowKey, direction: Direction) -> u16 {
    match direction {
        Direction::Forward => key.source_port(),
        Direction::Reply => key.destination_port(),
    }
}

impl Scheme for Pings {
    #[inline(always)]
    fn identify(packet: &Packet) -> Identity {
        let Some((ip, transport)) = headers::parts(packet) else {
            return Identity::NONE;
        };
        let Some(&[kind, _, _, _, a, b]) = transport.first_chunk() else {
            return Identity::NONE;
        };
        if headers::protocol(ip) != IpProtocol::ICMP
            || !headers::is_first(ip)
            || !matches!(kind, ECHO | ECHO_REPLY)
        {
            return Identity::NONE;
        }
        Identity {
            key: FlowKey {
                addresses: headers::addresses(ip),
                ports: ports(u16::from_be_bytes([a, b]), kind == ECHO),
            },
            table: 0,
            protocol: IpProtocol::ICMP.0,
        }
    }

    fn starts(identity: &Identity) -> bool {
        let key = identity.key;
        key.source_port().wrapping_add(1) == key.destination_port()
    }

    fn complete(rewritten: FlowKey) -> FlowKey {
        rewritten.with_destination_port(rewritten.source_port().wrapping_add(1))
    }

    fn prepare(flow: &mut Flow) {
        let old = flow.key(Direction::Forward).source_port();
        let new = flow.rewritten(Direction::Forward).source_port();
        flow.set_transport_change(old, new);
    }

    #[inline(always)]
    fn apply(
        flow: &mut Flow,
        _sequences: &mut Sequences,
        direction: Direction,
        annotations: Annotations,
        packet: &mut Packet,
    ) {
        let Some((ip, transport)) = headers::parts_mut(packet) else {
            return;
        };
        headers::rewrite_ip(flow, direction, ip);
        let identifier = identifier(flow.rewritten(direction), direction);
        headers::set_identifier(flow.transport_delta(direction), transport, identifier);
        annotations.set(flow, direction, packet);
    }
}

#[handlers]
impl ICMPPingRewriter {
    /// The mappings, a line for each direction: source, destination and identifier, what they
    /// become, outputs with this direction's starred, input, seconds left.
    #[read(alias = "mappings")]
    fn table(&mut self, cx: &mut Cx<'_>) -> String {
        self.base.show_table(cx, 0, show)
    }
}

impl Element for ICMPPingRewriter {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let times = (self.timeout, self.guarantee);
        self.base.configured_plain(cx, args, self.dst_anno, times)
    }

    rewriter_methods!(Pings);
}

impl Rewriter for ICMPPingRewriter {
    fn base(&mut self) -> &mut Base {
        &mut self.base
    }

    /// Both ports of `key` are the identifier.
    fn translate(
        &mut self,
        cx: &mut Cx<'_>,
        protocol: IpProtocol,
        key: FlowKey,
    ) -> Option<Translation> {
        if protocol != IpProtocol::ICMP {
            return None;
        }
        let ports = ports(key.source_port(), false);
        let (flow, direction) = self.base.lookup(cx, 0, FlowKey { ports, ..key })?;
        Some(Translation::new(
            &flow,
            direction,
            flow.rewritten(direction),
        ))
    }
}

fn show(flow: &Flow, direction: Direction, _: &Sequences) -> String {
    let part = |key: FlowKey| {
        let (source, destination) = (key.source(), key.destination());
        format!("({source}, {destination}, {})", identifier(key, direction))
    };
    format!(
        "{} => {}",
        part(flow.key(direction)),
        part(flow.rewritten(direction))
    )
}
