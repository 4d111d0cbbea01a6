use super::arp_responder::{ARP_FRAME, write_arp};
use super::arp_table::table::{Limits, Millis, Table, Waits};
use super::arp_table::{self, SharedTable, schedule};
use crate::prelude::*;

/// Bytes of an Ethernet header.
const HEADER: usize = EthernetFrame::<&[u8]>::HEADER_LEN;
/// Headers that are remembered while a batch lasts.
const REMEMBERED: usize = 16;
/// The output of queries, unless it is not connected.
const QUERIES: usize = 1;
/// The output of packets whose neighbor does not answer.
const UNANSWERED: usize = 2;

/// Whose table it is.
enum Home {
    /// The element's own; away while it works.
    Own(Option<Box<Table>>),
    /// That of an ARPTable.
    Of(Link<dyn SharedTable>),
}

/// Puts Ethernet headers in front of IP packets, and resolves the addresses that it needs by ARP.
///
/// Packets on input 0 need their destination address annotation set to the neighbor that they go
/// to. If its Ethernet address is known, they leave with a header; if not, they wait while queries
/// are sent, ten a second at most for one address, and after ten without an answer one every two
/// seconds. If three queries in 3 s had no answer, further packets to the address leave by output 2 with
/// the waiting packets, if it is connected. Packets on input 1 must start with an Ethernet header: the addresses in ARP replies are
/// learned, and packets that waited for them leave. An address is queried again before it expires.
///
/// Packets to a broadcast address go to FF-FF-FF-FF-FF-FF, packets to a multicast address to
/// the Ethernet group that RFC 1112 gives it, and packets to 0.0.0.0 are dropped.
///
/// # Arguments
/// - `IP` (IP address or prefix, mandatory): the router's own address, and perhaps its network.
/// - `ETH` (Ethernet address): its Ethernet address. May be omitted if IP is a name of both (see
///   AddressInfo).
///
/// # Example
/// ```click
/// FromDevice(eth0) -> c :: Classifier(12/0806 20/0002, 12/0800, -);
/// arp :: ARPQuerier(18.26.4.24/24, 00:00:C0:AE:67:EF) -> Queue -> ToDevice(eth0);
/// c[0] -> [1] arp;
/// c[1] -> Strip(14) -> CheckIPHeader -> DecIPTTL -> SetIPAddress(18.26.4.1) -> arp;
/// c[2] -> Discard;
/// ```
///
/// # See also
/// ARPTable, ARPResponder, EtherEncap, AddressInfo
#[derive(Element)]
#[element(
    ports = "2/1-3",
    processing = "h/h",
    flow = "xy/x",
    segments,
    live,
    raw,
    handlers,
    take_over
)]
#[inputs("IP packets", "ARP replies")]
#[outputs(
    "frames",
    "queries, which leave by output 0 if it is not connected",
    "IP packets whose neighbor does not answer"
)]
pub struct ARPQuerier {
    /// An ARPTable to use instead of an own table. The arguments from CAPACITY to TIMEOUT have no
    /// effect then.
    #[arg(name = "TABLE")]
    shared: Option<Link<dyn SharedTable>>,
    #[flatten]
    limits: Limits,
    /// How long after it was learned an address is queried again; 0: never.
    #[arg(default = Millis(60_000), default_text = "1 minute")]
    poll_timeout: Millis,
    /// Whether to query again by broadcast, rather than ask the neighbor alone.
    #[arg]
    broadcast_poll: bool,
    /// The local broadcast address; that of IP's network if not given.
    #[arg(name = "BROADCAST")]
    given_broadcast: Option<Ipv4Addr>,
    /// The router's own address.
    #[handler(read, write, name = "ipaddr", error = "expected IP address")]
    ip: Ipv4Addr,
    /// The local broadcast address.
    #[handler(read, write, error = "expected IP address")]
    #[init(Ipv4Addr::BROADCAST)]
    broadcast: Ipv4Addr,
    /// Queries sent.
    #[handler(read)]
    queries: u64,
    /// Packets that came on input 1.
    #[handler(read)]
    responses: u64,
    /// Packets dropped, other than those in the table.
    #[handler(read)]
    drops: u64,
    ether: EtherAddress,
    #[init(Home::Own(Some(Box::default())))]
    home: Home,
    timer: Option<TimerId>,
    configured: bool,
    zero_warned: bool,
}

/// Why a packet does not go out.
enum Kept {
    Dropped,
    Waits(Ipv4Addr),
}

/// The Ethernet group of an IP multicast address (RFC 1112, section 6.4).
fn group(address: Ipv4Addr) -> EtherAddress {
    let [_, a, b, c] = address.octets();
    EtherAddress([0x01, 0x00, 0x5e, a & 0x7f, b, c])
}

/// Writes a packet's header, for which there is room.
#[inline(always)]
fn write(packet: &mut Packet, header: &[u8; HEADER]) {
    if let Some(start) = packet.data_mut().first_chunk_mut() {
        *start = *header;
    }
}

/// The element at work on a batch.
struct Work<'w, 'c> {
    querier: &'w mut ARPQuerier,
    table: &'w mut Table,
    cx: &'w mut Cx<'c>,
    now: Millis,
    /// Addresses of this batch with the headers to them, by their last bits. Their neighbors need not be asked again.
    remembered: [Option<(Ipv4Addr, [u8; HEADER])>; REMEMBERED],
}

impl Work<'_, '_> {
    /// Gives a packet its header, or returns why it cannot.
    #[inline(always)]
    fn encapsulate(&mut self, packet: &mut Packet) -> Option<Kept> {
        let querier = &mut *self.querier;
        if querier.ip.is_unspecified() || !packet.push(HEADER) {
            querier.drops += packet.stands_for() as u64;
            return Some(Kept::Dropped);
        }
        packet.set_mac_header(0);
        let ip = packet.dst_ip();
        let slot = &mut self.remembered[ip.to_bits() as usize % REMEMBERED];
        if let Some((remembered, header)) = slot
            && *remembered == ip
        {
            write(packet, header);
            return None;
        }
        let poll_timeout = querier.poll_timeout;
        let destination = match self.table.lookup(ip, self.now, poll_timeout) {
            Some((ether, false)) => {
                let header = querier.header(ether);
                *slot = Some((ip, header));
                write(packet, &header);
                return None;
            }
            Some((ether, true)) => {
                self.ask_again(packet, ether);
                ether
            }
            None if ip.is_broadcast() || ip == querier.broadcast => EtherAddress::BROADCAST,
            None if ip.is_multicast() => group(ip),
            None if ip.is_unspecified() => {
                querier.warn_of_zero(self.cx, packet);
                return Some(Kept::Dropped);
            }
            None => return Some(Kept::Waits(ip)),
        };
        write(packet, &self.querier.header(destination));
        None
    }

    #[cold]
    fn ask_again(&mut self, packet: &Packet, ether: EtherAddress) {
        let to = if self.querier.broadcast_poll {
            EtherAddress::BROADCAST
        } else {
            ether
        };
        self.querier.ask(self.cx, to, &Query::about(packet));
    }

    #[cold]
    fn keep(&mut self, packet: Packet, why: Kept) {
        // The table may make room for this packet's address.
        self.remembered = [None; REMEMBERED];
        let Kept::Waits(ip) = why else {
            return self.cx.kill(packet);
        };
        let query = Query::about(&packet);
        if self.cx.outputs() > UNANSWERED
            && let Some(asks) = self.table.asked_in_vain(ip, self.now)
        {
            if asks {
                self.querier.ask(self.cx, EtherAddress::BROADCAST, &query);
            }
            let waited = core::iter::from_fn(|| self.table.next_waiting(ip));
            for mut packet in waited.chain([packet]) {
                packet.pull(HEADER);
                self.cx.emit(UNANSWERED, packet);
            }
            return;
        }
        let waits = self.table.wait(self.cx.pool(), ip, packet, self.now);
        if waits == Waits::AndQuery {
            self.querier.ask(self.cx, EtherAddress::BROADCAST, &query);
        }
    }

    /// Learns the address in an ARP reply, and sends the packets that waited for it.
    fn learn(&mut self, packet: &Packet) {
        if packet.len() < ARP_FRAME {
            return;
        }
        self.querier.responses += 1;
        let frame = EthernetFrame::new_unchecked(packet.data());
        let Ok(arp) = ArpPacket::new_checked(frame.payload()) else {
            return;
        };
        let (ip, ether) = (arp.sender(), arp.sender_hardware());
        if frame.ethertype() != EtherType::ARP
            || arp.operation() != ArpOperation::REPLY
            || ether.is_group()
        {
            return;
        }
        self.table.insert(self.cx.pool(), ip, ether, self.now);
        while let Some(mut packet) = self.table.next_waiting(ip) {
            // With the element's present addresses, not those of when the packet began to wait.
            write(&mut packet, &self.querier.header(ether));
            self.cx.emit(0, packet);
        }
    }
}

/// The fields of a query that come from the packet that needs it.
struct Query {
    target: Ipv4Addr,
    timestamp: i64,
    tag: u32,
}

impl Query {
    fn about(packet: &Packet) -> Query {
        Query {
            target: packet.dst_ip(),
            timestamp: packet.timestamp(),
            tag: packet.anno(VLAN_TCI),
        }
    }
}

impl ARPQuerier {
    /// The header of packets to a neighbor.
    #[inline(always)]
    fn header(&self, destination: EtherAddress) -> [u8; HEADER] {
        let header = EthernetHeader {
            destination,
            source: self.ether,
            ethertype: EtherType::IPV4,
        };
        let mut bytes = [0; HEADER];
        header.emit(&mut EthernetFrame::new_unchecked(&mut bytes[..]));
        bytes
    }

    #[cold]
    fn warn_of_zero(&mut self, cx: &mut Cx<'_>, packet: &Packet) {
        self.drops += packet.stands_for() as u64;
        if !self.zero_warned {
            self.zero_warned = true;
            let declaration = cx.declaration();
            cx.chatter(format_args!(
                "{declaration}: would query for 0.0.0.0; missing dest IP addr annotation?"
            ));
        }
    }

    fn ask(&mut self, cx: &mut Cx<'_>, to: EtherAddress, query: &Query) {
        let Some(mut packet) = cx.pool().packet(HEADROOM, ARP_FRAME) else {
            return cx.chatter("in arp querier: cannot make packet!");
        };
        let message = ArpMessage::request(self.ether, self.ip, query.target);
        write_arp(&mut packet, to, &message);
        packet.set_timestamp(query.timestamp);
        packet.set_anno(VLAN_TCI, query.tag);
        self.queries += 1;
        let last = cx.outputs().saturating_sub(1);
        cx.emit(last.min(QUERIES), packet);
    }

    /// Works with the table, wherever it is. `None` if the ARPTable it was in is gone.
    #[inline(always)]
    fn work<R>(
        &mut self,
        cx: &mut Cx<'_>,
        work: impl FnOnce(&mut Self, &mut Table, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        let mut table = match &mut self.home {
            Home::Own(table) => table.take()?,
            Home::Of(link) => arp_table::take(cx, *link)?,
        };
        let result = work(self, &mut table, cx);
        match &mut self.home {
            Home::Own(own) => *own = Some(table),
            Home::Of(link) => arp_table::put_back(cx, *link, table),
        }
        Some(result)
    }

    /// As [`work`](Self::work), with an error in place of `None`.
    fn work_for_handler<R>(
        &mut self,
        cx: &mut Cx<'_>,
        work: impl FnOnce(&mut Self, &mut Table, &mut Cx<'_>) -> Result<R, HandlerError>,
    ) -> Result<R, HandlerError> {
        self.work(cx, work).unwrap_or(Err(HandlerError::Unknown))
    }

    fn take_over(&mut self, _cx: &mut Cx<'_>, old: &mut Self) {
        let addresses = |q: &ARPQuerier| (q.ip, q.ether, q.broadcast);
        if addresses(self) != addresses(old) {
            return;
        }
        if let (Home::Own(Some(table)), Home::Own(Some(old))) = (&mut self.home, &mut old.home) {
            table.take_over(old);
        }
        (self.queries, self.responses, self.drops) = (old.queries, old.responses, old.drops);
    }

    fn schedule(&mut self, cx: &mut Cx<'_>, again: bool) {
        if let (Home::Own(Some(table)), Some(timer)) = (&self.home, self.timer) {
            schedule(cx, timer, table.limits.timeout, again);
        }
    }
}

#[handlers]
impl ARPQuerier {
    /// A line for each address: the address, 1 if its Ethernet address is known, the Ethernet
    /// address, seconds since it was learned.
    #[read]
    fn table(&mut self, cx: &mut Cx<'_>) -> Result<String, HandlerError> {
        self.work_for_handler(cx, |_, table, cx| table.unparse(Millis::at(cx.steady())))
    }

    /// Packets dropped and queries sent, in words.
    #[read]
    fn stats(&mut self, cx: &mut Cx<'_>) -> Result<String, HandlerError> {
        self.work_for_handler(cx, |querier, table, _| {
            let (drops, queries) = (querier.drops + table.drops(), querier.queries);
            Ok(format!(
                "{drops} packets killed\n{queries} ARP queries sent\n"
            ))
        })
    }

    /// Number of addresses.
    #[read]
    fn count(&mut self, cx: &mut Cx<'_>) -> Result<usize, HandlerError> {
        self.work_for_handler(cx, |_, table, _| Ok(table.count()))
    }

    /// Number of packets that wait.
    #[read]
    fn length(&mut self, cx: &mut Cx<'_>) -> Result<u32, HandlerError> {
        self.work_for_handler(cx, |_, table, _| Ok(table.length()))
    }

    /// `IP ETH`: learns an address.
    #[write]
    fn insert(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), HandlerError> {
        self.work_for_handler(cx, |_, table, cx| arp_table::insert(cx, table, value))
    }

    /// `IP`: forgets an address.
    #[write]
    fn delete(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), HandlerError> {
        self.work_for_handler(cx, |_, table, cx| arp_table::delete(cx, table, value))
    }

    /// Forgets all addresses, and sets the counts to 0.
    #[write]
    fn clear(&mut self, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        (self.queries, self.responses, self.drops) = (0, 0, 0);
        self.work_for_handler(cx, |_, table, cx| {
            table.clear(cx.pool());
            Ok(())
        })
    }
}

impl Element for ARPQuerier {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if args.restores() {
            return Ok(());
        }
        let live = self.configured;
        self.limits.check(args)?;
        let (prefix, ether) = read_addresses(args)?;
        if let Home::Own(Some(own)) = &mut self.home {
            if live && (self.ip, self.ether) != (prefix.address, ether) {
                own.clear(cx.pool());
            }
            own.limits = self.limits.clone();
        }
        // A running router keeps its tables.
        if let Some(shared) = self.shared.filter(|_| !live) {
            self.home = Home::Of(shared);
        }
        (self.ip, self.ether) = (prefix.address, ether);
        self.broadcast = self.given_broadcast.unwrap_or(match prefix.broadcast() {
            same if same == prefix.address => Ipv4Addr::BROADCAST,
            other => other,
        });
        self.configured = true;
        self.schedule(cx, false);
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        if matches!(self.home, Home::Own(_)) {
            self.timer = Some(cx.timer());
            self.schedule(cx, false);
        }
        Ok(())
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) -> usize {
        let now = Millis::at(cx.steady());
        let replies = port != 0;
        self.work(cx, |querier, table, cx| {
            let mut work = Work {
                querier,
                table,
                cx,
                now,
                remembered: [None; REMEMBERED],
            };
            if replies {
                for packet in batch.iter() {
                    work.learn(packet);
                }
            } else {
                batch.filter(&mut work, Work::encapsulate, Work::keep);
            }
        });
        // Replies end here: there is no such output.
        if replies { cx.outputs() } else { 0 }
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        let now = Millis::at(cx.steady());
        self.work(cx, |_, table, cx| table.slim(cx.pool(), now));
        self.schedule(cx, true);
    }
}

/// The arguments `IP` and `ETH`, or one name for both.
fn read_addresses(args: &mut Args<'_>) -> Result<(Ipv4Prefix, EtherAddress), Failed> {
    let (mut prefix, mut ether) = (Ipv4Prefix::ANY, EtherAddress::ZERO);
    let both = args
        .raw()
        .first()
        .filter(|_| args.raw().len() == 1)
        .cloned();
    let read = args
        .read()
        .mandatory_positional_with("IP", IpPrefixArg::OR_ADDRESS, &mut prefix);
    match both {
        None => read.mandatory_positional("ETH", &mut ether).complete()?,
        Some(name) => {
            let read = read.complete();
            let named = args.context().parse(&name);
            ether = named.map_err(|invalid| {
                args.invalid("ETH", &invalid);
                Failed
            })?;
            read?;
        }
    }
    Ok((prefix, ether))
}

#[cfg(test)]
mod tests;
