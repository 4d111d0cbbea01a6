mod rewrite;
mod table;
#[cfg(test)]
mod tests;

use self::rewrite::{Flow, Refusal, Upper};
use self::table::{Endpoint, Fixed, Pool, Side, Stock};
use crate::filters::dispatch::{DROP, dispatch};
use crate::prelude::*;

/// How often the element says the same.
const COMPLAINTS: u32 = 5;
const ICMP: usize = 8;

/// Replaces addresses, and perhaps ports, of IPv6 packets.
///
/// In outgoing packets, the source is replaced by the mapped address; in incoming packets, the
/// mapped destination by the inner address. Mappings are static, or made for new packets: an
/// address from a list for each address, or a port of one address for each flow. Packets must start
/// with their IPv6 header and carry TCP, UDP or ICMPv6, with or without extension headers;
/// checksums are updated. The identifier of an echo serves as its port. An ICMPv6 error is
/// translated by the flow of the packet that it quotes, and the quoted packet too.
///
/// Packets without a mapping are dropped, and so are all others. When all addresses or ports of a
/// list are in use, a new mapping takes the one that has been idle longest, if it was idle for five
/// minutes; otherwise the packet is dropped.
///
/// # Arguments
/// In this order, without keywords:
/// - `STATIC` (integer): number of fixed mappings. Only if it is not 0 follow
///   - `STATIC_PORTS` (boolean): whether they map ports too, and
///   - that many mappings, each `INNER MAPPED` or, with ports, `INNER PORT MAPPED PORT`.
/// - `DYNAMIC` (boolean): whether mappings are made as packets come. Only if so follow
/// - `PORTS` (boolean): whether flows get ports, rather than addresses get addresses,
/// - `DIRECTION` (0 or 1): which packets make mappings: 0, those on their way out: the list is of
///   mapped addresses; 1, those on their way in: the list is of inner addresses,
/// - the list: any number of addresses, or with `PORTS` one `ADDRESS FIRST LAST`, with the first
///   and last port.
///
/// # Example
/// ```click
/// // Hosts of 2001:db8:1::/48 share one address and a thousand ports.
/// at :: AddressTranslator(0, true, true, 0, 2001:db8::1 1024 2023);
/// FromDump(inside.pcap) -> Strip(14) -> CheckIP6Header -> [0] at [0] -> Discard;
/// FromDump(outside.pcap) -> Strip(14) -> CheckIP6Header -> [1] at [1] -> Discard;
/// ```
///
/// # See also
/// ProtocolTranslator64, ProtocolTranslator46
#[derive(Element)]
#[element(ports = "2/2", processing = "h/h", flow = "xy/xy", raw, handlers)]
#[inputs("packets on their way out", "packets on their way in")]
#[outputs("packets on their way out", "packets on their way in")]
pub struct AddressTranslator {
    fixed: Fixed,
    pool: Option<Pool>,
    /// Packets on their way in make mappings.
    inward: bool,
    /// Packets dropped.
    #[handler(read)]
    drops: u64,
    exhausted: Complaint,
    unrecognized: Complaint,
}

/// Something to say, up to some times.
#[derive(Default)]
struct Complaint {
    due: u32,
    made: u32,
}

impl Complaint {
    fn make(&mut self, cx: &mut Cx<'_>, text: &str) {
        for _ in 0..core::mem::take(&mut self.due).min(COMPLAINTS - self.made) {
            cx.chatter(text);
            self.made += 1;
        }
    }
}

impl AddressTranslator {
    /// What stands for `side`'s end on the other side.
    fn find(
        &mut self,
        outward: bool,
        flow: &Flow,
        side: Side,
        bind: bool,
        now: u64,
    ) -> Option<Endpoint> {
        if (flow.has_port() || !self.fixed.ports)
            && let Some(found) = self.fixed.find(outward, side.own)
        {
            return Some(found);
        }
        let pool = self.pool.as_mut()?;
        if pool.has_ports() && !flow.has_port() {
            return None;
        }
        if outward == self.inward {
            return pool.owner(side, now);
        }
        let found = pool.take(side, bind, now);
        self.exhausted.due += u32::from(found.is_none() && bind && pool.has_ports());
        found
    }

    /// Translates a packet.
    fn translate(&mut self, packet: &mut Packet, outward: bool, now: u64) -> Result<(), Refusal> {
        let ip = Ipv6Packet::new_checked(packet.data()).map_err(|_| Refusal::Unknown)?;
        let end = 40 + usize::from(ip.payload_len());
        let flow = Flow::of(&ip)?;
        if flow.upper == Upper::Error {
            let bytes = packet.data_mut().get_mut(..end);
            let done = bytes.and_then(|bytes| self.error(bytes, &flow, outward, now));
            return done.ok_or(Refusal::Unknown);
        }
        let found = self.find(outward, &flow, flow.side(outward), true, now);
        flow.replace(packet.data_mut(), outward, found.ok_or(Refusal::Unknown)?);
        Ok(())
    }

    /// Translates an ICMPv6 error after the packet that it quotes, which went the other way.
    fn error(&mut self, bytes: &mut [u8], flow: &Flow, outward: bool, now: u64) -> Option<()> {
        let (header, message) = bytes.split_at_mut_checked(flow.at)?;
        let pseudo = |header: &[u8], length| {
            Ipv6Packet::new_unchecked(header).pseudo_header(flow.protocol, length)
        };
        let length = message.len() as u32;
        let icmp = Icmpv6Packet::new_checked(&*message).ok()?;
        if !icmp.verify_checksum(pseudo(header, length)) {
            return None;
        }
        let quoted = Ipv6Packet::new_quoted(icmp.payload()).ok()?;
        let quoted = Flow::of(&quoted).ok()?;
        let found = self.find(outward, &quoted, quoted.side(!outward), false, now)?;
        quoted.replace(message.get_mut(ICMP..)?, !outward, found);
        let mut ip = Ipv6Packet::new_unchecked(&mut *header);
        if outward {
            ip.set_source(found.0);
        } else {
            ip.set_destination(found.0);
        }
        Icmpv6Packet::new_unchecked(message).fill_checksum(pseudo(header, length));
        Some(())
    }
}

/// The words of an argument.
fn words(text: Option<&String>) -> Vec<String> {
    text.map_or_else(Vec::new, |text| click::config::split_space(text))
}

fn boolean(args: &Args<'_>, at: usize) -> Result<bool, Failed> {
    let text = args.raw().get(at).map_or("", String::as_str);
    let parsed = args.context().parse(text);
    parsed.map_err(|_| args.fail(format_args!("argument {at} should be : bool")))
}

/// A fixed mapping.
fn mapping(words: &[String], ports: bool, context: &Context<'_>) -> Option<(Endpoint, Endpoint)> {
    let address = |word: &String| context.parse::<Ipv6Addr>(word).ok();
    let port = |word: &String| context.parse::<u16>(word).ok();
    match (words, ports) {
        ([inner, mapped], false) => Some(((address(inner)?, 0), (address(mapped)?, 0))),
        ([inner, inner_port, mapped, mapped_port], true) => Some((
            (address(inner)?, port(inner_port)?),
            (address(mapped)?, port(mapped_port)?),
        )),
        _ => None,
    }
}

/// A range of ports of an address.
fn port_range(words: &[String], context: &Context<'_>) -> Option<Stock> {
    let [address, first, last] = words else {
        return None;
    };
    let (first, last) = (context.parse(first).ok()?, context.parse(last).ok()?);
    (first <= last).then_some(Stock::Ports(context.parse(address).ok()?, first, last))
}

#[handlers]
impl AddressTranslator {
    /// Mappings made.
    #[read]
    fn count(&self) -> usize {
        self.pool.as_ref().map_or(0, Pool::count)
    }
}

impl Element for AddressTranslator {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let first = args.raw().first().map_or("", String::as_str);
        let fixed: u32 = args
            .context()
            .parse(first)
            .map_err(|_| args.fail("argument 0 should be : integer"))?;
        let mut next = 1;
        if fixed > 0 {
            self.fixed.ports = boolean(args, 1)?;
            next = 2;
        }
        for _ in 0..fixed {
            let text = words(args.raw().get(next));
            let Some((inner, mapped)) = mapping(&text, self.fixed.ports, &args.context()) else {
                let port = if self.fixed.ports { " <port>" } else { "" };
                return Err(args.fail(format_args!(
                    "argument {next} should be : <IP6Address>{port} <IP6Address>{port}"
                )));
            };
            self.fixed.add(inner, mapped);
            next += 1;
        }
        if !boolean(args, next)? {
            return Ok(());
        }
        let ports = boolean(args, next + 1)?;
        self.inward = boolean(args, next + 2)?;
        next += 3;
        if ports {
            let stock = port_range(&words(args.raw().get(next)), &args.context());
            let stock = stock.ok_or_else(|| {
                args.fail(format_args!(
                    "argument {next} should be : <IP6Address> <first port> <last port>"
                ))
            })?;
            self.pool = Some(Pool::new(stock));
            return Ok(());
        }
        let mut addresses = Vec::new();
        for (i, text) in args.raw().iter().enumerate().skip(next) {
            match args.context().parse(text) {
                Ok(address) => addresses.push(address),
                Err(_) => args.error(format_args!("argument {i} should be : <IP6Address>")),
            }
        }
        self.pool = Some(Pool::new(Stock::Addresses(addresses)));
        args.finish()
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) -> usize {
        let now = cx.steady().0 / 1_000_000_000;
        let output = dispatch(cx, batch, |packet| {
            match self.translate(packet, port == 0, now) {
                Ok(()) => return port as u32,
                Err(Refusal::Protocol) => self.unrecognized.due += 1,
                Err(Refusal::Unknown) => {}
            }
            self.drops += 1;
            DROP
        });
        self.exhausted
            .make(cx, "AddressTranslator ran out of ports");
        self.unrecognized
            .make(cx, " discard the packet, protocol unrecognized");
        output
    }
}
