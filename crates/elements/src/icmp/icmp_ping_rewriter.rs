use alloc::format;
use alloc::string::String;

use packet::Packet;
use packet::wire::IpProtocol;
use router::args::{Args, Failed};
use router::{Class, Cx, Declared, Element};

use crate::rewriter::base::{Base, ExtraHandlers, Translate, Translation, addresses_table};
use crate::rewriter::flow::{Annotations, Direction, Flow};
use crate::rewriter::key::FlowKey;
use crate::rewriter::headers;
use crate::rewriter::path::{Identity, Scheme};
use crate::rewriter::{rewriter_handlers, rewriter_methods};
use crate::rewriter::sequence::Sequences;

/// Rewrites addresses and identifiers of pings: ICMP echo requests and replies.
///
/// Works as IPRewriter does, with the identifier in the place of the source port: a mapping is for
/// requests with one source, destination and identifier, and the replies to them. An input's
/// specification is `drop`, `pass OUTPUT`, `keep FOUTPUT ROUTPUT` or the name of a mapper, as with
/// IPRewriter, or `pattern SADDR DADDR IDENTIFIERS FOUTPUT ROUTPUT` or
/// `pattern SADDR IDENTIFIERS DADDR - FOUTPUT ROUTPUT`, where IDENTIFIERS is a range such as
/// `0-65535`. Replies that nobody asked for, and packets that are not pings, are dropped, but pass
/// inputs with `pass`.
///
/// Packets must have their IP header marked. Mappings end as with IPRewriter.
///
/// # Arguments
/// - `INPUTSPEC` (specification, one for each input): what to do with requests of no known flow.
/// - `TIMEOUT` (seconds, 5 minutes): how long a mapping lives after its last packet.
/// - `GUARANTEE` (seconds, 5): how long after its last packet a mapping is not given up for a new
///   one.
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
/// - `table` (read): the mappings, a line for each direction: source, destination and identifier,
///   what they become, outputs with the one that counts starred, input, seconds left.
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
/// rw :: ICMPPingRewriter(pattern 1.0.0.1 - 0-65535 0 1, drop);
/// FromDevice(eth0) -> Strip(14) -> CheckIPHeader -> [0] rw;
/// FromDevice(eth1) -> Strip(14) -> CheckIPHeader -> [1] rw;
/// rw [0] -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> Queue -> ToDevice(eth1);
/// rw [1] -> EtherEncap(0x0800, 1:1:1:1:1:1, 3:3:3:3:3:3) -> Queue -> ToDevice(eth0);
/// ```
///
/// # See also
/// IPRewriter, ICMPRewriter, ICMPPingResponder
#[derive(Default)]
pub struct ICMPPingRewriter {
    pub(crate) base: Base,
}

impl Class for ICMPPingRewriter {
    const NAME: &'static str = "ICMPPingRewriter";
    const PORTS: &'static str = "1-/1-";
    const PROCESSING: &'static str = "h";
    const IS_A: &'static [&'static str] = &["IPRewriterBase"];
    const SEGMENTS: bool = true;
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

impl Declared for ICMPPingRewriter {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.base.configure_annotations(args, true)?;
        let times = self.base.configure(cx, args)?;
        self.base.set_tables(addresses_table(times, 5 * 60));
        Ok(())
    }

    rewriter_handlers! {
        "table", "mappings" => 0, show;
    }
}

impl Element for ICMPPingRewriter {
    rewriter_methods!(Pings);
}

impl ExtraHandlers for ICMPPingRewriter {}

impl Translate for ICMPPingRewriter {
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
        Some(Translation::new(&flow, direction, flow.rewritten(direction)))
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
