use crate::prelude::*;

mod limits;
pub(super) mod table;

use table::{Limits, Millis, Table};

/// An element whose table of addresses several ARPQueriers share.
pub trait SharedTable {
    /// The table; `None` while an ARPQuerier works with it.
    fn shared(&mut self) -> &mut Option<Box<Table>>;
}

impl Interface for dyn SharedTable {
    const NAME: &'static str = "ARPTable";
}

/// Takes a shared table to work with.
pub(super) fn take(cx: &mut Cx<'_>, link: Link<dyn SharedTable>) -> Option<Box<Table>> {
    cx.reach(link, |element, _| element.shared().take())?
}

/// Gives back what [`take`] took.
pub(super) fn put_back(cx: &mut Cx<'_>, link: Link<dyn SharedTable>, table: Box<Table>) {
    cx.reach(link, |element, _| *element.shared() = Some(table));
}

/// Stores the Ethernet addresses of IPv4 addresses for several ARPQueriers.
///
/// An ARPQuerier has a table of its own; an ARPTable is a table that several share. It stores the
/// packets that wait for an address, too.
///
/// # Example
/// ```click
/// table :: ARPTable(TIMEOUT 1m);
/// FromDump(in.pcap) -> Strip(14) -> CheckIPHeader
///     -> arp :: ARPQuerier(18.26.4.1, 1:1:1:1:1:1, TABLE table)
///     -> Discard;
/// Idle -> [1] arp;
/// ```
///
/// # See also
/// ARPQuerier
#[derive(Element)]
#[element(ports = "0/0", live, handlers, take_over, provides(SharedTable))]
pub struct ARPTable {
    #[flatten]
    limits: Limits,
    #[init(Some(Box::default()))]
    table: Option<Box<Table>>,
    timer: Option<TimerId>,
}

/// Schedules the timer that drops expired entries, as often as `timeout` says.
pub(super) fn schedule(cx: &mut Cx<'_>, timer: TimerId, timeout: Millis, again: bool) {
    if timeout > Millis(0) {
        let seconds = (timeout.0 / 1000) as u64 + u64::from(again);
        cx.schedule_after(timer, seconds * 1_000_000_000);
    }
}

/// Learns the address `IP ETH`.
pub(super) fn insert(cx: &mut Cx<'_>, table: &mut Table, value: &str) -> Result<(), HandlerError> {
    let (mut ip, mut ether) = (Ipv4Addr::UNSPECIFIED, EtherAddress::BROADCAST);
    router::parse_words(cx, value, |args| {
        args.read()
            .mandatory_positional("IP", &mut ip)
            .mandatory_positional("ETH", &mut ether)
            .complete()
    })?;
    let now = Millis::at(cx.steady());
    table.insert(cx.pool(), ip, ether, now);
    Ok(())
}

/// Forgets the address `IP`.
pub(super) fn delete(cx: &mut Cx<'_>, table: &mut Table, value: &str) -> Result<(), HandlerError> {
    let mut ip = Ipv4Addr::UNSPECIFIED;
    router::parse_words(cx, value, |args| {
        args.read().mandatory_positional("IP", &mut ip).complete()
    })?;
    let now = Millis::at(cx.steady());
    table.insert(cx.pool(), ip, EtherAddress::BROADCAST, now);
    Ok(())
}

impl ARPTable {
    fn own(&mut self) -> &mut Table {
        self.table.get_or_insert_default()
    }

    fn take_over(&mut self, _cx: &mut Cx<'_>, old: &mut Self) {
        if let (Some(table), Some(old)) = (&mut self.table, &mut old.table) {
            table.take_over(old);
        }
    }
}

#[handlers]
impl ARPTable {
    /// A line for each address: the address, 1 if its Ethernet address is known, the Ethernet
    /// address, seconds since it was learned.
    #[read]
    fn table(&mut self, cx: &mut Cx<'_>) -> Result<String, HandlerError> {
        self.own().unparse(Millis::at(cx.steady()))
    }

    /// Packets that waited in vain.
    #[read]
    fn drops(&mut self) -> u64 {
        self.own().drops()
    }

    /// Number of addresses.
    #[read]
    fn count(&mut self) -> usize {
        self.own().count()
    }

    /// Number of packets that wait.
    #[read]
    fn length(&mut self) -> u32 {
        self.own().length()
    }

    /// `IP ETH`: learns an address.
    #[write]
    fn insert(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), HandlerError> {
        insert(cx, self.own(), value)
    }

    /// `IP`: forgets an address.
    #[write]
    fn delete(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), HandlerError> {
        delete(cx, self.own(), value)
    }

    /// Forgets all addresses.
    #[write]
    fn clear(&mut self, cx: &mut Cx<'_>) {
        self.own().clear(cx.pool());
    }
}

impl SharedTable for ARPTable {
    fn shared(&mut self) -> &mut Option<Box<Table>> {
        &mut self.table
    }
}

impl Element for ARPTable {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.limits.check(args)?;
        self.own().limits = self.limits.clone();
        if let Some(timer) = self.timer {
            schedule(cx, timer, self.limits.timeout, false);
        }
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let timer = cx.timer();
        self.timer = Some(timer);
        schedule(cx, timer, self.limits.timeout, false);
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        let now = Millis::at(cx.steady());
        self.own().slim(cx.pool(), now);
        schedule(cx, timer, self.limits.timeout, true);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn handlers_change_the_table() {
        let mut rig = Rig::new("t :: ARPTable(TIMEOUT 0.1s, CAPACITY 5);");
        rig.write("t.insert", "1.0.0.1 2:1:0:0:1:f");
        rig.advance(50_000_000);
        rig.write("t.insert", "1.0.0.2 2:1:0:0:2:f");
        rig.advance(60_000_000);
        let table = "1.0.0.1 0 02-01-00-00-01-0F 0.110000\n1.0.0.2 1 02-01-00-00-02-0F 0.060000\n";
        assert_eq!(rig.read("t.table"), table);
        rig.write("t.delete", "1.0.0.2");
        let table = "1.0.0.1 0 02-01-00-00-01-0F 0.110000\n1.0.0.2 0 FF-FF-FF-FF-FF-FF 0.000000\n";
        assert_eq!(rig.read("t.table"), table);
        assert_eq!(rig.read("t.count"), "2");
        rig.assert_handlers(&[("t.length", "0"), ("t.drops", "0")]);
        let error = rig.try_write("t.insert", "1.0.0.2").unwrap_err();
        assert_eq!(
            error,
            HandlerError::failed(FailureKind::Failed, "ETH: required argument missing")
        );
    }

    #[test]
    fn expired_addresses_are_dropped_in_time() {
        let mut rig = Rig::new("t :: ARPTable(TIMEOUT 2s);");
        rig.write("t.insert", "1.0.0.1 2:1:0:0:1:f");
        rig.advance(4_900_000_000);
        assert_eq!(rig.read("t.count"), "1");
        rig.advance(200_000_000);
        assert_eq!(rig.read("t.count"), "0");
        rig.write("t.insert", "1.0.0.1 2:1:0:0:1:f");
        rig.write("t.clear", "");
        assert_eq!(rig.read("t.count"), "0");
    }

    #[test]
    fn a_factor_of_0_is_refused() {
        Rig::refuses(
            "ARPTable(CAPACITY_SLIM_FACTOR 0);",
            "CAPACITY_SLIM_FACTOR cannot be zero",
        );
    }
}
