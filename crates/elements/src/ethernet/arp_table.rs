use alloc::boxed::Box;
use alloc::string::{String, ToString};
use core::any::Any;
use core::net::Ipv4Addr;

use packet::wire::EtherAddress;
use router::args::{Args, Failed, Timestamp};
use router::{Class, Cx, Declared, Element, ElementId, HandlerError, HandlerList, TimerId};

use crate::values;

pub(super) mod table;

use table::{Limits, Millis, Table};

/// Stores which Ethernet addresses IPv4 addresses have, for several ARPQueriers.
///
/// An ARPQuerier has a table of its own; where several are to share one, it stands in an ARPTable.
/// Packets that wait for an address count as the table's.
///
/// # Arguments
/// - `CAPACITY` (integer, 2048): most packets that wait; 0: no limit of its own. Never more than
///   a quarter of the packet buffers wait.
/// - `ENTRY_CAPACITY` (integer, 0): most addresses; 0: 4096. The oldest goes first.
/// - `ENTRY_PACKET_CAPACITY` (integer, 0): most packets that wait for one address; 0: no limit of
///   its own. What comes on top is dropped.
/// - `CAPACITY_SLIM_FACTOR` (integer, 2): when `CAPACITY` is exceeded, one part in this many of
///   it is dropped, the packets for the oldest addresses first.
/// - `TIMEOUT` (time, 5 minutes): how long an address holds; 0: for ever.
///
/// # Ports
/// None.
///
/// # Handlers
/// - `table` (read): a line for each address: the address, 1 if its Ethernet address is known, the
///   Ethernet address, seconds since it was learned.
/// - `count` (read): number of addresses.
/// - `length` (read): number of packets that wait.
/// - `drops` (read): packets that waited in vain.
/// - `insert` (write, `IP ETH`): learns an address.
/// - `delete` (write, `IP`): forgets an address.
/// - `clear` (write): forgets all.
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
pub struct ARPTable {
    /// Away while an ARPQuerier works with it.
    table: Option<Box<Table>>,
    timer: Option<TimerId>,
}

impl Default for ARPTable {
    fn default() -> Self {
        ARPTable {
            table: Some(Box::default()),
            timer: None,
        }
    }
}

impl Class for ARPTable {
    const NAME: &'static str = "ARPTable";
    const PORTS: &'static str = "0/0";
}

/// The arguments that set a table's limits: those in `args` that `limits` takes.
pub(super) fn read_limits(args: &mut Args<'_>, limits: &mut Limits) -> Result<(), Failed> {
    let mut timeout = Timestamp::default();
    let mut given = false;
    let mut new = limits.clone();
    args.keyword("CAPACITY", &mut new.packets)
        .keyword("ENTRY_CAPACITY", &mut new.entries)
        .keyword("ENTRY_PACKET_CAPACITY", &mut new.entry_packets)
        .keyword("CAPACITY_SLIM_FACTOR", &mut new.slim_factor)
        .keyword("TIMEOUT", &mut timeout)
        .given(&mut given)
        .consume()?;
    if new.slim_factor == 0 {
        return Err(args.fail("CAPACITY_SLIM_FACTOR cannot be zero"));
    }
    if given {
        new.timeout = Millis::span(timeout);
    }
    *limits = new;
    Ok(())
}

/// Takes the table of an ARPTable away; `None` if `id` is none.
pub(super) fn take(cx: &mut Cx<'_>, id: ElementId) -> Option<Box<Table>> {
    cx.with(id, |element: &mut ARPTable, _| element.table.take())?
}

/// Gives back what [`take`] took.
pub(super) fn put_back(cx: &mut Cx<'_>, id: ElementId, table: Box<Table>) {
    cx.with(id, |element: &mut ARPTable, _| element.table = Some(table));
}

/// Schedules the timer that drops what has expired, as often as `timeout` says.
pub(super) fn schedule(cx: &mut Cx<'_>, timer: TimerId, timeout: Millis, again: bool) {
    if timeout > Millis(0) {
        let seconds = (timeout.0 / 1000) as u64 + u64::from(again);
        cx.schedule_after(timer, seconds * 1_000_000_000);
    }
}

/// The handlers that change a table.
pub(super) fn write(
    cx: &mut Cx<'_>,
    table: &mut Table,
    name: &str,
    value: &str,
) -> Result<(), HandlerError> {
    let (mut ip, mut ether) = (Ipv4Addr::UNSPECIFIED, EtherAddress::BROADCAST);
    match name {
        "insert" => values::words(cx, value, |args| {
            args.mandatory_positional("IP", &mut ip)
                .mandatory_positional("ETH", &mut ether)
                .complete()
        })?,
        "delete" => values::words(cx, value, |args| {
            args.mandatory_positional("IP", &mut ip).complete()
        })?,
        "clear" => {
            table.clear(cx.pool());
            return Ok(());
        }
        _ => return Err(HandlerError::Unknown),
    }
    let now = Millis::at(cx.steady());
    table.insert(cx.pool(), ip, ether, now);
    Ok(())
}

impl Declared for ARPTable {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let table = self.table.get_or_insert_default();
        read_limits(args, &mut table.limits)?;
        args.none()?;
        if let Some(timer) = self.timer {
            schedule(cx, timer, table.limits.timeout, false);
        }
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read("table")
            .read("drops")
            .read("count")
            .read("length");
        list.write("insert").write("delete").write("clear");
    }

    fn read(&mut self, cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        let table = self.table.get_or_insert_default();
        Ok(match name {
            "table" => table.unparse(Millis::at(cx.steady())),
            "drops" => table.drops().to_string(),
            "count" => table.count().to_string(),
            "length" => table.length().to_string(),
            _ => return Err(HandlerError::Unknown),
        })
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        write(cx, self.table.get_or_insert_default(), name, value)
    }

    fn take_state(&mut self, _cx: &mut Cx<'_>, old: &mut dyn Element) {
        let old: &mut dyn Any = old;
        if let Some(old) = old.downcast_mut::<ARPTable>()
            && let (Some(table), Some(old)) = (&mut self.table, &mut old.table)
        {
            table.take_over(old);
        }
    }
}

impl Element for ARPTable {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let timer = cx.timer();
        self.timer = Some(timer);
        let table = self.table.get_or_insert_default();
        schedule(cx, timer, table.limits.timeout, false);
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        let now = Millis::at(cx.steady());
        let table = self.table.get_or_insert_default();
        table.slim(cx.pool(), now);
        schedule(cx, timer, table.limits.timeout, true);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

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
        assert_eq!((rig.read("t.length"), rig.read("t.drops")), ("0".into(), "0".into()));
        let error = rig.try_write("t.insert", "1.0.0.2").unwrap_err();
        assert_eq!(error, "ETH: required argument missing".into());
    }

    #[test]
    fn what_has_expired_goes_in_time() {
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
        let errors = Rig::errors("ARPTable(CAPACITY_SLIM_FACTOR 0);");
        assert!(
            errors.contains("CAPACITY_SLIM_FACTOR cannot be zero"),
            "{errors}"
        );
    }
}
