use super::arp_table::table::{Millis, Table, Waits};
use super::neighbor::{self, Ends};
use crate::prelude::*;

/// After this long without an answer, an address is dropped.
const TIMEOUT: Millis = Millis(120_000);
/// After this long, it is queried again.
const POLL: Millis = Millis(60_000);
/// Between two times at which expired addresses are dropped, in nanoseconds.
const CLEARING: u64 = 15_000_000_000;

/// Puts Ethernet headers in front of IPv6 packets, and resolves the addresses that it needs by
/// neighbor discovery.
///
/// Packets on input 0 need their destination address annotation set to the neighbor that they go
/// to. If its Ethernet address is known, they leave with a header; if not, they wait while
/// solicitations are sent, ten a second at most for one address, and after ten without an answer
/// one every two seconds. If three in 3 s had no answer, further packets to the address leave by output 2
/// with the waiting packets, if it is connected. Packets to a multicast address go to its Ethernet group; packets to `::`
/// are dropped.
///
/// Packets on input 1 must start with an Ethernet header. The addresses in advertisements are
/// learned if they were asked for, unless the packets are damaged or come from beyond the link, and
/// packets that waited for them leave. After a minute an address in use is queried again, and after
/// two without an answer it is dropped.
///
/// The table holds 4096 addresses, of which the oldest is dropped first, and 2048 packets that wait,
/// or a quarter of the packet buffers if that is less.
///
/// # Example
/// ```click
/// nds :: IP6NDSolicitor(fe80::1, 00:00:C0:AE:67:EF) -> Discard;
/// FromDump(in.pcap) -> c :: Classifier(12/86dd 20/3aff 54/88, 12/86dd, -);
/// c[0] -> [1] nds;
/// c[1] -> Strip(14) -> CheckIP6Header -> GetIP6Address(24) -> [0] nds;
/// c[2] -> Discard;
/// ```
///
/// # See also
/// IP6NDAdvertiser, LookupIP6Route, ARPQuerier
#[derive(Element)]
#[element(
    ports = "2/1-3",
    processing = "h/h",
    flow = "xy/x",
    segments,
    handlers,
    take_over
)]
#[inputs("IPv6 packets", "neighbor advertisements")]
#[outputs(
    "frames",
    "solicitations, which leave by output 0 if it is not connected",
    "IPv6 packets whose neighbor does not answer"
)]
pub struct IP6NDSolicitor {
    /// The source address of solicitations.
    #[arg(mandatory)]
    ip: Ipv6Addr,
    /// Its Ethernet address.
    #[arg(mandatory, name = "ETH")]
    ether: EtherAddress,
    /// Away while the element works.
    #[init(Some(empty_table()))]
    table: Option<Box<Table<Ipv6Addr>>>,
    warned: bool,
    queries: u64,
    drops: u64,
}

/// The output of solicitations, unless it is not connected.
const QUERIES: usize = 1;
/// The output of packets whose neighbor does not answer.
const UNANSWERED: usize = 2;

fn empty_table() -> Box<Table<Ipv6Addr>> {
    let mut table = Table::default();
    table.limits.timeout = TIMEOUT;
    Box::new(table)
}

/// Why a packet does not go out.
enum Kept {
    Dropped,
    Waits(Ipv6Addr),
}

/// The element at work on a batch.
struct Work<'w, 'c> {
    solicitor: &'w mut IP6NDSolicitor,
    table: &'w mut Table<Ipv6Addr>,
    cx: &'w mut Cx<'c>,
    now: Millis,
}

impl Work<'_, '_> {
    /// Gives a packet its header, or returns why it cannot.
    #[inline(always)]
    fn encapsulate(&mut self, packet: &mut Packet) -> Option<Kept> {
        let to = packet.dst_ip6();
        let ether = match self.table.lookup(to, self.now, POLL) {
            Some((ether, again)) => {
                if again {
                    self.solicitor.ask(self.cx, to);
                }
                ether
            }
            None if to.is_multicast() => ether_group(to),
            None if to.is_unspecified() => {
                self.solicitor.warn_of_nobody(self.cx, packet);
                return Some(Kept::Dropped);
            }
            None => return Some(Kept::Waits(to)),
        };
        if !self.solicitor.write_header(packet, ether) {
            self.solicitor.drops += packet.stands_for() as u64;
            return Some(Kept::Dropped);
        }
        None
    }

    #[cold]
    fn keep(&mut self, packet: Packet, why: Kept) {
        let Kept::Waits(to) = why else {
            return self.cx.kill(packet);
        };
        if self.cx.outputs() > UNANSWERED
            && let Some(asks) = self.table.asked_in_vain(to, self.now)
        {
            if asks {
                self.solicitor.ask(self.cx, to);
            }
            let waited = core::iter::from_fn(|| self.table.next_waiting(to));
            for packet in waited.chain([packet]) {
                self.cx.emit(UNANSWERED, packet);
            }
            return;
        }
        let waits = self.table.wait(self.cx.pool(), to, packet, self.now);
        if waits == Waits::AndQuery {
            self.solicitor.ask(self.cx, to);
        }
    }

    /// Learns the address in an advertisement, and sends the packets that waited for it.
    fn learn(&mut self, packet: &Packet) {
        let Some((_, message)) = neighbor::read(packet) else {
            return;
        };
        let Some(ether) = message.link.filter(|ether| !ether.is_group()) else {
            return;
        };
        let target = message.target;
        if message.icmp_type != Icmpv6Type::NEIGHBOR_ADVERTISEMENT || !self.table.contains(target) {
            return;
        }
        let known = self.table.lookup(target, self.now, Millis(0));
        if known.is_some_and(|(known, _)| known != ether) {
            self.cx.chatter("IP6NDSolicitor overwriting an entry");
        }
        self.table.insert(self.cx.pool(), target, ether, self.now);
        while let Some(mut packet) = self.table.next_waiting(target) {
            if self.solicitor.write_header(&mut packet, ether) {
                self.cx.emit(0, packet);
            } else {
                self.solicitor.drops += packet.stands_for() as u64;
                self.cx.kill(packet);
            }
        }
    }
}

impl IP6NDSolicitor {
    /// False if there is no memory.
    #[inline(always)]
    fn write_header(&self, packet: &mut Packet, destination: EtherAddress) -> bool {
        if !packet.push(EthernetFrame::<&[u8]>::HEADER_LEN) {
            return false;
        }
        packet.set_mac_header(0);
        let header = EthernetHeader {
            destination,
            source: self.ether,
            ethertype: EtherType::IPV6,
        };
        header.emit(&mut EthernetFrame::new_unchecked(packet.data_mut()));
        true
    }

    #[cold]
    fn ask(&mut self, cx: &mut Cx<'_>, target: Ipv6Addr) {
        let group = solicited_node(target);
        let ends = Ends {
            ether: (self.ether, ether_group(group)),
            ip: (self.ip, group),
        };
        let message = NeighborMessage::solicitation(self.ether, target);
        let Some(packet) = neighbor::frame(cx, &ends, &message) else {
            return cx.chatter("in ndsol: cannot make packet!");
        };
        self.queries += 1;
        let last = cx.outputs().saturating_sub(1);
        cx.emit(last.min(QUERIES), packet);
    }

    #[cold]
    fn warn_of_nobody(&mut self, cx: &mut Cx<'_>, packet: &Packet) {
        self.drops += packet.stands_for() as u64;
        if !self.warned {
            self.warned = true;
            let declaration = cx.declaration();
            cx.chatter(format_args!(
                "{declaration}: would query for ::; missing dest IP addr annotation?"
            ));
        }
    }

    fn take_over(&mut self, _cx: &mut Cx<'_>, old: &mut Self) {
        if (self.ip, self.ether) == (old.ip, old.ether)
            && let (Some(table), Some(old)) = (&mut self.table, &mut old.table)
        {
            table.take_over(old);
        }
    }

    fn work(&mut self, cx: &mut Cx<'_>, work: impl FnOnce(&mut Work<'_, '_>)) {
        let Some(mut table) = self.table.take() else {
            return;
        };
        let now = Millis::at(cx.steady());
        work(&mut Work {
            solicitor: self,
            table: &mut table,
            cx,
            now,
        });
        self.table = Some(table);
    }
}

#[handlers]
impl IP6NDSolicitor {
    /// A line for each address: the address, 1 if its Ethernet address is known, the Ethernet
    /// address.
    #[read]
    fn table(&self, cx: &mut Cx<'_>) -> Result<String, HandlerError> {
        let table = self.table.as_ref().ok_or("busy")?;
        let now = Millis::at(cx.steady());
        listing(|out| {
            table.iter(now).try_for_each(|(ip, known, ether, _)| {
                writeln!(out, "{} {} {ether}", unparse::ip6(ip), u8::from(known))
            })
        })
    }

    /// Packets dropped and solicitations sent, in words.
    #[read]
    fn stats(&self) -> Result<String, &'static str> {
        let table = self.table.as_ref().ok_or("busy")?;
        let (drops, queries) = (self.drops + table.drops(), self.queries);
        Ok(format!(
            "{drops} packets killed\n{queries} ND Solicitation Message sent\n"
        ))
    }
}

impl Element for IP6NDSolicitor {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let timer = cx.timer();
        cx.schedule_after(timer, CLEARING);
        Ok(())
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) -> usize {
        let answers = port != 0;
        self.work(cx, |work| {
            if answers {
                for packet in batch.iter() {
                    work.learn(packet);
                }
            } else {
                batch.filter(work, Work::encapsulate, Work::keep);
            }
        });
        // Answers end here: there is no such output.
        if answers { cx.outputs() } else { 0 }
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        self.work(cx, |work| work.table.slim(work.cx.pool(), work.now));
        cx.schedule_after(timer, CLEARING);
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        if let Some(table) = &mut self.table {
            table.clear(cx.pool());
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::ip6::{addr, icmp};
    use crate::testing::*;

    const CONFIG: &str = "i :: Inject -> GetIP6Address(0)
        -> [0] nds :: IP6NDSolicitor(fe80::1, 1:1:1:1:1:1) -> c :: Collect;
        answers :: Inject -> [1] nds; nds[1] -> q :: Collect;";

    fn query(target: &str) -> Vec<u8> {
        let target = addr(target);
        let [.., a, b, c] = target.octets();
        let mut group = addr("ff02::1:ff00:0").octets();
        group[13..].copy_from_slice(&[a, b, c]);
        let payload = [&target.octets()[..], &[1, 1, 1, 1, 1, 1, 1, 1]].concat();
        let mut packet = icmp(addr("fe80::1"), group.into(), (135, 0, [0; 4]), &payload);
        packet[7] = 255;
        ether([0x33, 0x33, 0xff, a, b, c], [1; 6], 0x86dd, &packet)
    }

    fn answer(target: &str, mac: u8) -> Vec<u8> {
        let target = addr(target);
        let payload = [&target.octets()[..], &[2, 1, mac, mac, mac, mac, mac, mac]].concat();
        let flags = [0x60, 0, 0, 0];
        let mut packet = icmp(target, addr("fe80::1"), (136, 0, flags), &payload);
        packet[7] = 255;
        ether([1; 6], [mac; 6], 0x86dd, &packet)
    }

    /// What is pushed for an address: the address.
    fn to(target: &str) -> Vec<u8> {
        addr(target).octets().to_vec()
    }

    #[test]
    fn packets_wait_for_an_answer_and_then_go_out() {
        let mut rig = Rig::new(CONFIG);
        rig.push("i", &to("fe80::9"));
        rig.push("i", &to("fe80::9"));
        assert_eq!(rig.data("q"), [query("fe80::9")]);
        assert!(rig.data("c").is_empty());
        assert_eq!(rig.read("nds.table"), "fe80::9 0 FF-FF-FF-FF-FF-FF\n");
        // Of others, from beyond the link, damaged, of a group: nothing is learned.
        let mut far = answer("fe80::9", 2);
        far[21] = 254;
        let mut damaged = answer("fe80::9", 2);
        damaged[60] ^= 1;
        rig.push_all(
            "answers",
            &[answer("fe80::8", 2), far, damaged, answer("fe80::9", 3)],
        );
        assert!(rig.data("c").is_empty());
        rig.push("answers", &answer("fe80::9", 2));
        let frame = ether([2; 6], [1; 6], 0x86dd, &to("fe80::9"));
        assert_eq!(rig.data("c"), [frame.clone(), frame.clone()]);
        rig.push("i", &to("fe80::9"));
        assert_eq!(rig.data("c"), [frame]);
        assert_eq!(rig.read("nds.table"), "fe80::9 1 02-02-02-02-02-02\n");
        let stats = "0 packets killed\n1 ND Solicitation Message sent\n";
        assert_eq!(rig.read("nds.stats"), stats);
        rig.push("answers", &answer("fe80::9", 4));
        assert_eq!(rig.printed(), ["IP6NDSolicitor overwriting an entry"]);
    }

    #[test]
    fn addresses_are_asked_for_anew_and_forgotten() {
        let mut rig = Rig::new(CONFIG);
        rig.push("i", &to("fe80::9"));
        rig.push("answers", &answer("fe80::9", 2));
        rig.data("c");
        rig.data("q");
        rig.advance(59 * SECOND);
        rig.push("i", &to("fe80::9"));
        assert!(rig.data("q").is_empty());
        rig.advance(2 * SECOND);
        rig.push("i", &to("fe80::9"));
        assert_eq!(rig.data("q"), [query("fe80::9")]);
        assert_eq!(rig.data("c").len(), 2);
        rig.advance(130 * SECOND);
        assert_eq!(rig.read("nds.table"), "");
    }

    #[test]
    fn packets_whose_neighbor_is_silent_leave_by_another_output() {
        let mut rig = Rig::new(&format!("{CONFIG} nds[2] -> lost :: Collect;"));
        for _ in 0..3 {
            rig.push("i", &to("fe80::9"));
            rig.advance(SECOND);
        }
        assert!(rig.data("lost").is_empty());
        rig.push("i", &to("fe80::9"));
        assert_eq!(rig.data("lost"), vec![to("fe80::9"); 4]);
        assert_eq!(rig.data("q").len(), 4);
        rig.push("answers", &answer("fe80::9", 2));
        rig.push("i", &to("fe80::9"));
        assert_eq!(rig.data("c").len(), 1);
        assert_eq!(rig.outstanding(), 0);
    }

    #[test]
    fn groups_need_no_question_and_nobody_gets_nothing() {
        let mut rig = Rig::new(CONFIG);
        rig.push("i", &to("ff02::1:2"));
        rig.push("i", &to("::"));
        let frame = ether([0x33, 0x33, 0, 1, 0, 2], [1; 6], 0x86dd, &to("ff02::1:2"));
        assert_eq!(rig.data("c"), [frame]);
        let line = "nds :: IP6NDSolicitor: would query for ::; missing dest IP addr annotation?";
        assert_eq!(rig.printed(), [line]);
        assert_eq!(rig.outstanding(), 0);
    }

    #[test]
    fn state_is_kept_over_a_hotswap() {
        let mut rig = Rig::new(CONFIG);
        rig.push("i", &to("fe80::9"));
        rig.push("answers", &answer("fe80::9", 2));
        rig.data("c");
        rig.data("q");
        rig.swap(CONFIG);
        rig.push("i", &to("fe80::9"));
        assert_eq!(rig.data("c").len(), 1);
        assert!(rig.data("q").is_empty());
    }
}
