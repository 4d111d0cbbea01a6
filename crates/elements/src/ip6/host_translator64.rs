use super::aliases::Aliases;
use super::translate;
use crate::prelude::*;

/// Most hosts.
const HOSTS_MAX: u32 = 1 << 20;
/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// Lets IPv6 hosts reach IPv4: the part of a NAT64 (RFC 6146) that translates packets.
///
/// Hosts see an IPv4 address `a.b.c.d` as PREFIX followed by it (RFC 6052). To IPv4, each host is an
/// address of its own, its alias: the first free one of ALIASES when it sends its first packet, until it had no
/// packet for TIMEOUT. Packets are translated as by ProtocolTranslator64 and ProtocolTranslator46 (RFC 7915),
/// ICMP errors with the packet that they are about. Behind it, a NAT of IPv4 such as FlowIPNAT lets
/// all aliases share an address.
///
/// TIMEOUT must be longer than the NAT's connections live, for an alias becomes another host's.
/// When all aliases are in use, packets of new hosts are dropped. All memory is allocated when the router
/// is initialized: about 45 bytes for each alias. Packets that cannot be translated are dropped.
///
/// # Example
/// ```click
/// h :: HostTranslator64(64:ff9b::/96, 100.64.0.0/22);
/// FromDump(six.pcap) -> Strip(14) -> CheckIP6Header -> [0] h [0] -> IPPrint -> Discard;
/// FromDump(four.pcap) -> Strip(14) -> CheckIPHeader -> [1] h [1] -> IP6Print -> Discard;
/// ```
///
/// # See also
/// ProtocolTranslator64, ProtocolTranslator46, FlowIPNAT, AddressTranslator
#[derive(Element)]
#[element(ports = "2/2", processing = "h/h", flow = "#/#", handlers, take_over)]
#[inputs("IPv6 packets of hosts", "IPv4 packets to aliases")]
#[outputs("the former as IPv4 packets", "the latter as IPv6 packets")]
pub struct HostTranslator64 {
    /// The prefix of 96 bits that stands for IPv4.
    #[arg(mandatory, with = prefix_of_96, kind = "IPv6 prefix")]
    prefix: Ipv6Addr,
    /// The aliases.
    #[arg(mandatory)]
    #[init(Ipv4Prefix::ANY)]
    aliases: Ipv4Prefix,
    /// Seconds that a host without packets keeps its alias.
    #[arg(default = 7500)]
    timeout: u32,
    /// Packets that were dropped.
    #[handler(read)]
    drops: u64,
    hosts: Aliases,
    timer: Option<TimerId>,
}

fn prefix_of_96(text: &str, context: &Context<'_>) -> Result<Ipv6Addr, Invalid> {
    let wrong = || Invalid::because("write an IPv6 prefix of 96 bits, as in 64:ff9b::/96");
    let address = text.strip_suffix("/96").ok_or_else(wrong)?;
    let address: Ipv6Addr = context.parse(address).map_err(|_| wrong())?;
    (address.to_bits() as u32 == 0)
        .then_some(address)
        .ok_or_else(wrong)
}

#[handlers]
impl HostTranslator64 {
    /// Hosts that have an alias.
    #[read]
    fn count(&self) -> usize {
        self.hosts.count()
    }

    /// Packets of hosts for which there was no alias.
    #[read]
    fn refused(&self) -> u64 {
        self.hosts.refused
    }

    /// A line for each host: its address, its alias, and the seconds since its last packet.
    #[read(expensive, name = "hosts")]
    fn show_hosts(&self) -> Result<String, HandlerError> {
        listing(|out| {
            let mut hosts = self.hosts.iter();
            hosts.try_for_each(|(host, alias, idle)| writeln!(out, "{host} {alias} {idle}"))
        })
    }
}

impl HostTranslator64 {
    fn now(cx: &Cx<'_>) -> u32 {
        (cx.steady().0 / SECOND) as u32
    }

    fn take_over(&mut self, _cx: &mut Cx<'_>, old: &mut Self) {
        if self.hosts.is_like(&old.hosts) {
            core::mem::swap(&mut self.hosts, &mut old.hosts);
        }
        self.drops = old.drops;
    }
}

impl Element for HostTranslator64 {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if self.aliases.length().is_none_or(|length| length < 12) {
            return Err(args.fail(format_args!(
                "ALIASES must be a prefix of 12 bits or more: there may be {HOSTS_MAX} hosts"
            )));
        }
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let seeds = [cx.random().next_u64(), cx.random().next_u64()];
        let length = self.aliases.length().unwrap_or(32);
        let count = 1usize << (32 - length);
        let hosts = Aliases::new(self.prefix, (self.aliases.network(), count), seeds);
        self.hosts = hosts.map_err(|_| {
            cx.error(format_args!(
                "out of memory for {count} hosts; give fewer ALIASES, or a guest more memory, as in --memory 32M"
            ))
        })?;
        self.hosts.advance(Self::now(cx), self.timeout);
        let timer = cx.timer();
        cx.schedule_after(timer, SECOND);
        self.timer = Some(timer);
        Ok(())
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) -> usize {
        batch.filter(
            &mut (self, cx),
            |(this, _), packet| {
                let translated = match port {
                    0 => translate::to_v4(packet, &mut this.hosts),
                    _ => translate::to_v6(packet, &mut this.hosts),
                };
                translated.is_none().then_some(())
            },
            |(this, cx), packet, ()| {
                this.drops += packet.stands_for() as u64;
                cx.kill(packet);
            },
        );
        port
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        self.hosts.advance(Self::now(cx), self.timeout);
        cx.schedule_after(timer, SECOND);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::ip6;
    use crate::testing::*;

    const CONFIG: &str = "h :: HostTranslator64(64:ff9b::/96, 100.64.0.0/30, TIMEOUT 100);
        s :: Inject -> [0] h [0] -> CheckIPHeader -> CheckUDPHeader -> four :: Collect;
        f :: Inject -> [1] h [1] -> six :: Collect;";

    fn host(number: u16) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, number)
    }

    #[test]
    fn hosts_reach_ipv4_by_aliases() {
        let mut rig = Rig::new(CONFIG);
        let server: Ipv6Addr = "64:ff9b::c000:201".parse().unwrap();
        let four = Ipv4Addr::new(192, 0, 2, 1);
        for number in 0..5 {
            rig.push("s", &ip6::udp((host(number), 5), (server, 6), b"there"));
            let packets = rig.data("four");
            // The fifth finds no alias.
            let alias = Ipv4Addr::new(100, 64, 0, number as u8);
            let expected = udp((alias, 5), (four, 6), b"there");
            let found = packets.first().map(|packet| packet[12..].to_vec());
            assert_eq!(found, (number < 4).then(|| expected[12..].to_vec()));
            if number < 4 {
                rig.push("f", &udp((four, 6), (alias, 5), b"back"));
                let back = ip6::udp((server, 6), (host(number), 5), b"back");
                assert_eq!(rig.data("six"), [back]);
            }
        }
        rig.assert_handlers(&[("h.count", "4"), ("h.refused", "1"), ("h.drops", "1")]);
        rig.swap(CONFIG);
        assert!(rig.read("h.hosts").contains("2001:db8::3 100.64.0.3 0\n"));
        // Nobody's alias any more.
        rig.advance(101 * SECOND);
        rig.push(
            "f",
            &udp((four, 6), (Ipv4Addr::new(100, 64, 0, 1), 5), b"late"),
        );
        assert!(rig.data("six").is_empty());
        assert_eq!(rig.read("h.count"), "0");
    }

    #[test]
    fn wrong_prefixes_are_refused() {
        for (arguments, said) in [
            (
                "64:ff9b::/64, 100.64.0.0/16",
                "write an IPv6 prefix of 96 bits",
            ),
            (
                "64:ff9b::1/96, 100.64.0.0/16",
                "write an IPv6 prefix of 96 bits",
            ),
            (
                "64:ff9b::/96, 96.0.0.0/8",
                "ALIASES must be a prefix of 12 bits",
            ),
        ] {
            let config = std::format!(
                "Idle -> h :: HostTranslator64({arguments}) -> Discard; Idle -> [1] h [1] -> Discard;"
            );
            Rig::refuses(&config, said);
        }
    }
}
