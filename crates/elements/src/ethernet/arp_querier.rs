use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use core::any::Any;
use core::net::Ipv4Addr;

use packet::anno::VLAN_TCI;
use packet::wire::{
    ArpMessage, ArpOperation, ArpPacket, EtherAddress, EtherType, EthernetFrame, EthernetHeader,
};
use packet::{Batch, HEADROOM, Packet};
use router::args::{Args, Context, ElementOf, ElementRef, Failed, Invalid, IpPrefixArg, Ipv4Prefix, Parser, Timestamp};
use router::{Class, Cx, Declared, Element, ElementId, HandlerError, HandlerList, TimerId};

use super::arp_responder::{ARP_FRAME, write_arp};
use super::arp_table::table::{Millis, Table, Waits};
use super::arp_table::{self, read_limits, schedule};
use crate::values;

/// Whose table it is.
enum Home {
    /// The element's own; away while it works.
    Own(Option<Box<Table>>),
    /// That of an ARPTable.
    Of(ElementId),
}

/// Puts Ethernet headers in front of IP packets, and asks by ARP for the addresses it needs.
///
/// Packets on input 0 need their destination address annotation set: that is the neighbour they
/// go to. If its Ethernet address is known, they go out with a header; if not, they wait while
/// queries are sent, ten a second at most for one address, and after ten without an answer one
/// every two seconds. Packets on input 1 must start with an Ethernet header: what ARP replies say
/// is learned, and packets that waited for it go out. Before an address expires it is asked for
/// anew.
///
/// Packets to a broadcast address go to FF-FF-FF-FF-FF-FF, packets to a multicast address to
/// the Ethernet group that RFC 1112 gives it, and packets to 0.0.0.0 are dropped.
///
/// # Arguments
/// - `IP` (IP address or prefix): the router's own address, and perhaps its network.
/// - `ETH` (Ethernet address): its Ethernet address. May be left out where `IP` is a name that
///   stands for both (see AddressInfo).
/// - `TABLE` (element): an ARPTable to use in place of a table of its own. The arguments from
///   `CAPACITY` to `TIMEOUT` do nothing then.
/// - `CAPACITY` (integer, 2048): most packets that wait; 0: no limit of its own. Never more than
///   a quarter of the packet buffers wait.
/// - `ENTRY_CAPACITY` (integer, 0): most addresses; 0: 4096. The oldest goes first.
/// - `ENTRY_PACKET_CAPACITY` (integer, 0): most packets that wait for one address; 0: no limit of
///   its own.
/// - `CAPACITY_SLIM_FACTOR` (integer, 2): when `CAPACITY` is exceeded, one part in this many of
///   it is dropped, the packets for the oldest addresses first.
/// - `TIMEOUT` (time, 5 minutes): how long an address holds; 0: for ever.
/// - `POLL_TIMEOUT` (time, 1 minute): how long after it was learned it is asked for anew; 0: never.
/// - `BROADCAST_POLL` (boolean, false): whether to ask anew by broadcast; else the neighbour alone
///   is asked.
/// - `BROADCAST` (IP address): the local broadcast address. That of `IP`'s network if not given.
///
/// # Ports
/// Push input 0: IP packets. Push input 1: ARP replies. Push output 0: frames. Push output 1,
/// optional: queries, which leave by output 0 if it is not connected.
///
/// # Handlers
/// - `ipaddr`, `broadcast` (read, write): the arguments.
/// - `table` (read): a line for each address: the address, 1 if its Ethernet address is known, the
///   Ethernet address, seconds since it was learned.
/// - `count` (read): number of addresses.
/// - `length` (read): number of packets that wait.
/// - `stats` (read): packets dropped and queries sent, in words.
/// - `queries`, `responses` (read): queries sent, packets that came on input 1.
/// - `drops` (read): packets dropped, those in the table not counted.
/// - `insert` (write, `IP ETH`): learns an address.
/// - `delete` (write, `IP`): forgets an address.
/// - `clear` (write): forgets all, and sets the counts to 0.
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
pub struct ARPQuerier {
    ip: Ipv4Addr,
    ether: EtherAddress,
    broadcast: Ipv4Addr,
    poll_timeout: Millis,
    broadcast_poll: bool,
    home: Home,
    timer: Option<TimerId>,
    configured: bool,
    zero_warned: bool,
    queries: u64,
    responses: u64,
    drops: u64,
}

impl Default for ARPQuerier {
    fn default() -> Self {
        ARPQuerier {
            ip: Ipv4Addr::UNSPECIFIED,
            ether: EtherAddress::ZERO,
            broadcast: Ipv4Addr::BROADCAST,
            poll_timeout: Millis(60_000),
            broadcast_poll: false,
            home: Home::Own(Some(Box::default())),
            timer: None,
            configured: false,
            zero_warned: false,
            queries: 0,
            responses: 0,
            drops: 0,
        }
    }
}

impl Class for ARPQuerier {
    const NAME: &'static str = "ARPQuerier";
    const PORTS: &'static str = "2/1-2";
    const PROCESSING: &'static str = "h/h";
    const FLOW: &'static str = "xy/x";
    const SEGMENTS: bool = true;
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

/// What a packet on its way through knows of the element's work.
struct Work<'w, 'c> {
    querier: &'w mut ARPQuerier,
    table: &'w mut Table,
    cx: &'w mut Cx<'c>,
    now: Millis,
}

impl Work<'_, '_> {
    /// Gives a packet its header; or says why it cannot have it.
    #[inline(always)]
    fn encapsulate(&mut self, packet: &mut Packet) -> Option<Kept> {
        let querier = &mut *self.querier;
        if querier.ip.is_unspecified() || !packet.push(EthernetFrame::<&[u8]>::HEADER_LEN) {
            querier.drops += 1;
            return Some(Kept::Dropped);
        }
        packet.set_mac_header(0);
        let ip = packet.dst_ip();
        let poll_timeout = querier.poll_timeout;
        let destination = match self.table.lookup(ip, self.now, poll_timeout) {
            Some((ether, false)) => ether,
            Some((ether, true)) => {
                self.ask_anew(packet, ether);
                ether
            }
            None if ip.is_broadcast() || ip == querier.broadcast => EtherAddress::BROADCAST,
            None if ip.is_multicast() => group(ip),
            None if ip.is_unspecified() => {
                querier.warn_of_zero(self.cx);
                return Some(Kept::Dropped);
            }
            None => return Some(Kept::Waits(ip)),
        };
        self.querier.write_header(packet, destination);
        None
    }

    #[cold]
    fn ask_anew(&mut self, packet: &Packet, ether: EtherAddress) {
        let to = if self.querier.broadcast_poll {
            EtherAddress::BROADCAST
        } else {
            ether
        };
        self.querier.ask(self.cx, to, &Query::about(packet));
    }

    #[cold]
    fn keep(&mut self, packet: Packet, why: Kept) {
        let Kept::Waits(ip) = why else {
            return self.cx.kill(packet);
        };
        let query = Query::about(&packet);
        let waits = self.table.wait(self.cx.pool(), ip, packet, self.now);
        if waits == Waits::AndQuery {
            self.querier.ask(self.cx, EtherAddress::BROADCAST, &query);
        }
    }

    /// Learns what an ARP reply says, and sends what waited for it.
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
            // With the addresses of now, not of when it began to wait.
            self.querier.write_header(&mut packet, ether);
            self.cx.emit(0, packet);
        }
    }
}

/// What a query takes from the packet that needs it.
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
    #[inline(always)]
    fn write_header(&self, packet: &mut Packet, destination: EtherAddress) {
        let header = EthernetHeader {
            destination,
            source: self.ether,
            ethertype: EtherType::IPV4,
        };
        header.emit(&mut EthernetFrame::new_unchecked(packet.data_mut()));
    }

    #[cold]
    fn warn_of_zero(&mut self, cx: &mut Cx<'_>) {
        self.drops += 1;
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
        cx.emit(last, packet);
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
            Home::Of(id) => arp_table::take(cx, *id)?,
        };
        let result = work(self, &mut table, cx);
        match &mut self.home {
            Home::Own(place) => *place = Some(table),
            Home::Of(id) => arp_table::put_back(cx, *id, table),
        }
        Some(result)
    }

    fn schedule(&mut self, cx: &mut Cx<'_>, again: bool) {
        if let (Home::Own(Some(table)), Some(timer)) = (&self.home, self.timer) {
            schedule(cx, timer, table.limits.timeout, again);
        }
    }
}

impl Declared for ARPQuerier {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let live = self.configured;
        let mut limits = match &self.home {
            Home::Own(Some(table)) => table.limits.clone(),
            _ => Default::default(),
        };
        read_limits(args, &mut limits)?;
        let (mut broadcast, mut poll_timeout) = (None, None::<Timestamp>);
        let mut shared = None;
        let mut broadcast_poll = self.broadcast_poll;
        args.keyword("BROADCAST", &mut broadcast)
            .keyword_with("TABLE", table, &mut shared)
            .keyword("POLL_TIMEOUT", &mut poll_timeout)
            .keyword("BROADCAST_POLL", &mut broadcast_poll)
            .consume()?;
        let (prefix, ether) = read_addresses(args)?;

        if let Home::Own(Some(own)) = &mut self.home {
            if live && (self.ip, self.ether) != (prefix.address, ether) {
                own.clear(cx.pool());
            }
            own.limits = limits;
        }
        // Which table it uses is settled when the router starts.
        if let Some(table) = shared.filter(|_| !live) {
            self.home = Home::Of(ElementId::new(table.index));
        }
        (self.ip, self.ether) = (prefix.address, ether);
        self.broadcast = broadcast.unwrap_or(match prefix.broadcast() {
            same if same == prefix.address => Ipv4Addr::BROADCAST,
            other => other,
        });
        self.poll_timeout = poll_timeout.map_or(self.poll_timeout, Millis::span);
        self.broadcast_poll = broadcast_poll;
        self.configured = true;
        self.schedule(cx, false);
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    fn handlers(&self, list: &mut HandlerList) {
        for name in ["table", "stats", "count", "length"] {
            list.read(name);
        }
        list.read("queries").read("responses").read("drops");
        list.read_write("broadcast").read_write("ipaddr");
        list.write("insert").write("delete").write("clear");
    }

    fn read(&mut self, cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "broadcast" => return Ok(self.broadcast.to_string()),
            "ipaddr" => return Ok(self.ip.to_string()),
            "queries" => return Ok(self.queries.to_string()),
            "responses" => return Ok(self.responses.to_string()),
            "drops" => return Ok(self.drops.to_string()),
            _ => {}
        }
        let read = self.work(cx, |querier, table, cx| {
            Ok(match name {
                "table" => table.unparse(Millis::at(cx.steady())),
                "count" => table.count().to_string(),
                "length" => table.length().to_string(),
                "stats" => format!(
                    "{} packets killed\n{} ARP queries sent\n",
                    querier.drops + table.drops(),
                    querier.queries
                ),
                _ => return Err(HandlerError::Unknown),
            })
        });
        read.unwrap_or(Err(HandlerError::Unknown))
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "broadcast" => self.broadcast = values::ip(cx, value)?,
            "ipaddr" => self.ip = values::ip(cx, value)?,
            _ => {
                if name == "clear" {
                    (self.queries, self.responses, self.drops) = (0, 0, 0);
                }
                let written = self.work(cx, |_, table, cx| {
                    arp_table::write(cx, table, name, value)
                });
                return written.unwrap_or(Err(HandlerError::Unknown));
            }
        }
        Ok(())
    }

    fn take_state(&mut self, _cx: &mut Cx<'_>, old: &mut dyn Element) {
        let old: &mut dyn Any = old;
        let Some(old) = old.downcast_mut::<ARPQuerier>() else {
            return;
        };
        let addresses = |q: &ARPQuerier| (q.ip, q.ether, q.broadcast);
        if addresses(self) != addresses(old) {
            return;
        }
        if let (Home::Own(Some(table)), Home::Own(Some(old))) = (&mut self.home, &mut old.home) {
            table.take_over(old);
        }
        (self.queries, self.responses, self.drops) = (old.queries, old.responses, old.drops);
    }
}

impl Element for ARPQuerier {
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

/// The argument `TABLE`.
fn table(text: &str, context: &Context<'_>) -> Result<Option<ElementRef>, Invalid> {
    ElementOf("ARPTable").parse(text, context).map(Some)
}

/// The arguments `IP` and `ETH`, or one name for both.
fn read_addresses(args: &mut Args<'_>) -> Result<(Ipv4Prefix, EtherAddress), Failed> {
    let (mut prefix, mut ether) = (Ipv4Prefix::ANY, EtherAddress::ZERO);
    let both = args.raw().first().filter(|_| args.raw().len() == 1).cloned();
    let read = args.mandatory_positional_with("IP", IpPrefixArg::OR_ADDRESS, &mut prefix);
    match both {
        None => read.mandatory_positional("ETH", &mut ether).complete()?,
        Some(name) => {
            read.complete()?;
            let named = args.context().parse(&name);
            ether = named.map_err(|invalid| {
                args.invalid("ETH", &invalid);
                Failed
            })?;
        }
    }
    Ok((prefix, ether))
}

#[cfg(test)]
mod tests;
