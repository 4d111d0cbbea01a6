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

/// Rewrites source and destination addresses, a pair at a time.
///
/// As IPAddrRewriter, but a mapping is for packets from one address to another: the same outside
/// address can stand for different inside addresses towards different destinations. Any protocol is
/// rewritten; checksums of IP, TCP and UDP are brought up to date. An input's specification is
/// `drop`, `pass OUTPUT`, `keep FOUTPUT ROUTPUT` or the name of a mapper, as with IPRewriter, or
/// `pattern SADDR DADDR FOUTPUT ROUTPUT`. Either address may be `-` and then stays; SADDR may be a
/// range `A-B` or a prefix `A/N`, of which an address is chosen whose replies no other mapping
/// takes, at random, or with `#` behind in turn. If there is none, the packet is dropped.
///
/// Packets must have their IP header marked; others are dropped. Mappings end as with IPRewriter.
///
/// # Arguments
/// - `INPUTSPEC` (specification, one for each input): what to do with packets of no known flow.
/// - `TIMEOUT` (seconds, 2 hours): how long a mapping lives after its last packet.
/// - `GUARANTEE` (seconds, 5): how long after its last packet a mapping is not given up for a new
///   one.
/// - `REAP_INTERVAL` (seconds, 15 minutes): how often mappings whose time is up are taken out; 0:
///   never.
/// - `MAPPING_CAPACITY` (integer or element, 2147483647): most mappings, or another rewriter to
///   share the mappings' memory and limit with; also `CAPACITY`.
/// - `REPLY_ANNO` (annotation of 1 byte, none): an annotation that replies get as the first packet
///   of their flow had it.
///
/// # Ports
/// One push input for each specification; as many push outputs as the specifications name. Packets
/// leave with their destination address annotation set.
///
/// # Handlers
/// - `table` (read): the mappings, a line for each direction: addresses, rewritten addresses,
///   outputs with the one that counts starred, input, seconds left.
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
/// rw :: IPAddrPairRewriter(pattern 1.0.0.0/24 - 0 1, drop);
/// FromDevice(eth0) -> Strip(14) -> CheckIPHeader -> [0] rw;
/// FromDevice(eth1) -> Strip(14) -> CheckIPHeader -> [1] rw;
/// rw [0] -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> Queue -> ToDevice(eth1);
/// rw [1] -> EtherEncap(0x0800, 1:1:1:1:1:1, 3:3:3:3:3:3) -> Queue -> ToDevice(eth0);
/// ```
///
/// # See also
/// IPRewriter, IPAddrRewriter, IPRewriterPatterns
#[derive(Default)]
pub struct IPAddrPairRewriter {
    pub(crate) base: Base,
}

impl Class for IPAddrPairRewriter {
    const NAME: &'static str = "IPAddrPairRewriter";
    const PORTS: &'static str = "1-/1-";
    const PROCESSING: &'static str = "h";
    const IS_A: &'static [&'static str] = &["IPRewriterBase"];
    const SEGMENTS: bool = true;
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
            headers::update_partial(delta, headers::protocol(ip), transport);
        } else if headers::is_first(ip) {
            let delta = flow.transport_delta(direction);
            headers::update_transport(delta, headers::protocol(ip), transport);
        }
        annotations.set(flow, direction, packet);
    }
}

impl Declared for IPAddrPairRewriter {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.base.configure_annotations(args, false)?;
        let times = self.base.configure(cx, args)?;
        self.base.set_tables(addresses_table(times, 2 * 60 * 60));
        Ok(())
    }

    rewriter_handlers! {
        "table", "mappings" => 0, show;
    }
}

impl Element for IPAddrPairRewriter {
    rewriter_methods!(Pairs);
}

impl ExtraHandlers for IPAddrPairRewriter {}

impl Translate for IPAddrPairRewriter {
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
