mod leases;
mod message;
mod subnet;
#[cfg(test)]
mod tests;

use leases::{ADDRESSES_MAX, Client, Leases, State};
use message::{Kind, MESSAGE_MAX, Reply, Request, code};
use subnet::{Plan, Subnet};

use super::datagram::Datagram;
use crate::prelude::*;

/// Ports (RFC 2131, section 4.1).
const SERVER_PORT: u16 = 67;
const CLIENT_PORT: u16 = 68;
/// Seconds that an offer holds.
const OFFER: u64 = 60;
/// Seconds that an address is not used after a client found that another host has it.
const DECLINED: u64 = 600;
/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;
/// Shortest lease, in seconds, and most domain name servers.
const LEASE_MIN: u32 = 10;
const DNS_MAX: usize = 8;
/// Most bytes of a domain name.
const DOMAIN_MAX: usize = 255;
/// Bytes in front of a message.
const HEADERS: usize = 14 + 20 + 8;

/// Leases IPv4 addresses to clients: a DHCP server (RFC 2131, RFC 2132).
///
/// Each SUBNET is `PREFIX FIRST-LAST [ROUTER]`: the addresses from FIRST to LAST are leased to clients of that
/// network, which have ROUTER as their gateway. The subnet that SERVER is in is the server's own; clients of others
/// are asked for by relay agents, each by its address in theirs. Arguments may also be reservations, `ETHER
/// ADDRESS`: an address for one client, in a pool or not.
///
/// A client is known by its identifier, or else by its Ethernet address, and gets the address that it has or had
/// last; or the one it asks for, if that is free; or the one that has been free for longest. An offer holds for 60 s. An address
/// that a client declines is not used for 600 s. The server does not probe addresses: clients do.
///
/// Each address of the pools, 65536 at most, has its place in the table of leases, about 200 bytes; all memory is
/// allocated when the router is initialized. If all are in use, new clients get no offer, and those that have a
/// lease go on. Leases are lost with the router, and learned from clients that renew theirs. In a
/// hotswap they go on, if their address is in a pool or reserved.
///
/// Packets must start with an Ethernet header, have their IP header marked, and be UDP to port 67, which an
/// IPClassifier in front sees to. A reply is a frame: to the client's Ethernet address or, if it says so, to
/// all; to relay agents, and to clients that renew, by where the packet came from. Packets that get no reply are
/// dropped. BOOTP clients, and hardware other than Ethernet, are not served.
///
/// # Example
/// ```click
/// FromDump(in.pcap, STOP true) -> CheckIPHeader(14) -> c :: IPClassifier(udp dst port 67, -);
/// c[0] -> s :: DHCPServer(10.0.0.1, 02:00:00:00:00:01, 10.0.0.0/24 10.0.0.100-10.0.0.199 10.0.0.1,
///     02:00:00:00:00:07 10.0.0.7, DNS 10.0.0.1, DOMAIN example.org) -> Discard;
/// c[1] -> Discard;
/// DriverManager(wait, print s.leases);
/// ```
///
/// # See also
/// DNSResponder, ARPResponder, IPClassifier
#[derive(Element)]
#[element(ports = "1/1", handlers, take_over)]
#[outputs("replies")]
pub struct DHCPServer {
    /// The server's address, by which clients name it.
    #[arg(mandatory, read)]
    server: Ipv4Addr,
    /// Its Ethernet address.
    #[arg(mandatory)]
    ether: EtherAddress,
    /// The domain name servers of clients, at most 8.
    #[arg]
    dns: Vec<Ipv4Addr>,
    /// The domain of clients.
    #[arg]
    domain: String,
    /// The longest packet on the clients' link, in bytes; 0: clients are not told.
    #[arg(default = 0)]
    mtu: u16,
    /// How long a lease lasts: whole seconds, 10 at least.
    #[arg(default = Timestamp(3_600_000_000_000))]
    lease: Timestamp,
    /// Subnets, and reservations.
    #[arg(
        rest,
        name = "SUBNET",
        kind = "subnets, then any number of reservations"
    )]
    given: Vec<String>,
    /// Requests for an offer.
    #[handler(read)]
    discovers: u64,
    /// Offers.
    #[handler(read)]
    offers: u64,
    /// Leases, and renewed ones.
    #[handler(read)]
    acks: u64,
    /// Requests that were refused.
    #[handler(read)]
    naks: u64,
    /// Addresses that clients found in use.
    #[handler(read)]
    declines: u64,
    /// Leases that clients gave back.
    #[handler(read)]
    releases: u64,
    /// Requests for other parameters than an address.
    #[handler(read)]
    informs: u64,
    /// Requests for an offer while no address was free.
    #[handler(read)]
    exhausted: u64,
    /// Requests from networks that are no subnet.
    #[handler(read)]
    foreign: u64,
    /// Packets that are no client's messages, or malformed.
    #[handler(read)]
    invalid: u64,
    plan: Plan,
    leases: Leases,
    timer: Option<TimerId>,
}

#[handlers]
impl DHCPServer {
    /// A line for each address that is in use: the address, its client's Ethernet address, its state, and the
    /// seconds that it lasts.
    #[read(expensive, name = "leases")]
    fn show_leases(&self, cx: &mut Cx<'_>) -> Result<String, HandlerError> {
        let now = Self::now(cx);
        listing(|out| {
            let mut slots = self.leases.slots().iter();
            slots.try_for_each(|slot| {
                let (address, state) = (slot.address, slot.state);
                if state == State::Free {
                    return Ok(());
                }
                let left = slot.until.saturating_sub(now);
                match slot.client {
                    Some(client) => writeln!(out, "{address} {} {state} {left}", client.hardware),
                    None => writeln!(out, "{address} - {state} {left}"),
                }
            })
        })
    }

    /// Addresses that clients have.
    #[read]
    fn count(&self) -> usize {
        self.in_state(State::Leased)
    }

    /// Addresses that are free, reserved ones included.
    #[read]
    fn free(&self) -> usize {
        self.in_state(State::Free)
    }

    /// Takes the lease of an address back: its client is refused when it renews.
    #[write(error = "expected IP address")]
    fn revoke(&mut self, address: Ipv4Addr) -> Result<(), String> {
        let number = self.leases.slot_of(address);
        let number = number.ok_or_else(|| format!("{address} is in no pool, and not reserved"))?;
        self.leases.revoke(number);
        Ok(())
    }
}

/// What a reply says of a lease.
enum Grant<'s> {
    /// A subnet's address.
    Lease(&'s Subnet),
    /// Parameters alone.
    Parameters(&'s Subnet),
    /// Nothing.
    Refusal,
}

impl DHCPServer {
    fn now(cx: &Cx<'_>) -> u64 {
        cx.steady().0 / SECOND
    }

    fn in_state(&self, state: State) -> usize {
        let slots = self.leases.slots().iter();
        slots.filter(|slot| slot.state == state).count()
    }

    fn seconds(&self) -> u32 {
        u32::try_from(self.lease.0 / SECOND as i64).unwrap_or(u32::MAX)
    }

    /// The subnet of a client: by its relay agent; the server's own, if it asks all; or by its own address.
    fn subnet(&self, request: &Request, to_all: bool) -> Option<u16> {
        if !request.relay.is_unspecified() {
            return self.plan.subnet_of(request.relay);
        }
        let by_address = self.plan.subnet_of(request.client).filter(|_| !to_all);
        by_address.or_else(|| self.plan.subnet_of(self.server))
    }

    /// What becomes of a message: the kind of the reply, and the address in it.
    fn decide(&mut self, request: &Request, subnet: u16, now: u64) -> Option<(Kind, Ipv4Addr)> {
        let client = Client {
            identity: request.identity,
            hardware: request.hardware,
            subnet,
        };
        match request.kind {
            Kind::Discover => self.offer(&client, request.requested, now),
            Kind::Request => self.grant(&client, request, now),
            Kind::Inform => {
                self.informs += 1;
                let is_known = !request.client.is_unspecified();
                is_known.then_some((Kind::Ack, Ipv4Addr::UNSPECIFIED))
            }
            Kind::Decline if request.server.is_none_or(|server| server == self.server) => {
                let number = self.held(&client, request.requested?)?;
                self.declines += 1;
                self.leases.decline(number, now + DECLINED);
                None
            }
            Kind::Release => {
                let number = self.held(&client, request.client)?;
                self.releases += 1;
                self.leases.free(number);
                None
            }
            Kind::Decline | Kind::Offer | Kind::Ack | Kind::Nak => None,
        }
    }

    /// The slot of an address that a client has.
    fn held(&self, client: &Client, address: Ipv4Addr) -> Option<u32> {
        let number = self.leases.slot_of(address)?;
        let slot = self.leases.get(number)?;
        let is_held = matches!(slot.state, State::Offered | State::Leased);
        let is_own = slot.client.is_some_and(|it| it.identity == client.identity);
        (is_held && is_own).then_some(number)
    }

    fn offer(
        &mut self,
        client: &Client,
        requested: Option<Ipv4Addr>,
        now: u64,
    ) -> Option<(Kind, Ipv4Addr)> {
        self.discovers += 1;
        let Some(number) = self.leases.choose(client, requested) else {
            self.exhausted += 1;
            return None;
        };
        let address = self.leases.get(number)?.address;
        // A lease goes on while its client looks for another server.
        let is_leased = self.held(client, address).is_some()
            && self
                .leases
                .get(number)
                .is_some_and(|slot| slot.state == State::Leased);
        if !is_leased {
            self.leases
                .give(number, *client, State::Offered, now + OFFER);
        }
        self.offers += 1;
        Some((Kind::Offer, address))
    }

    /// Answers a request for an address (RFC 2131, section 4.3.2).
    fn grant(&mut self, client: &Client, request: &Request, now: u64) -> Option<(Kind, Ipv4Addr)> {
        let own = self.leases.of_client(client);
        if request.server.is_some_and(|server| server != self.server) {
            // The client chose another server.
            let slot = own.and_then(|number| self.leases.get(number));
            if slot.is_some_and(|slot| slot.state == State::Offered) {
                self.leases.free(own?);
            }
            return None;
        }
        let wished = match request.server {
            Some(_) => request.requested,
            None => Some(request.client)
                .filter(|address| !address.is_unspecified())
                .or(request.requested),
        };
        let wished = wished?;
        let reboots = request.server.is_none() && request.client.is_unspecified();
        let is_local = self.plan.subnet_of(wished) == Some(client.subnet);
        if reboots && is_local && own.is_none() {
            // Another server may know the client.
            return None;
        }
        let number = self.leases.slot_of(wished);
        let may_have = |number: &u32| self.leases.may_have(client, *number);
        let Some(number) = number.filter(|_| is_local).filter(may_have) else {
            self.naks += 1;
            return Some((Kind::Nak, Ipv4Addr::UNSPECIFIED));
        };
        if reboots && own != Some(number) {
            self.naks += 1;
            return Some((Kind::Nak, Ipv4Addr::UNSPECIFIED));
        }
        let until = now + u64::from(self.seconds());
        self.leases.give(number, *client, State::Leased, until);
        self.acks += 1;
        Some((Kind::Ack, wished))
    }

    /// Adds what a client is told.
    fn fill(&self, reply: &mut Reply, grant: &Grant<'_>) {
        let subnet = match grant {
            Grant::Lease(subnet) => {
                let lease = self.seconds();
                for (option, time) in [
                    (code::LEASE, lease),
                    (code::RENEWAL, lease / 2),
                    (code::REBINDING, lease / 8 * 7),
                ] {
                    reply.option(option, &time.to_be_bytes());
                }
                subnet
            }
            Grant::Parameters(subnet) => subnet,
            Grant::Refusal => return,
        };
        reply.option(code::MASK, &subnet.prefix.mask.octets());
        if let Some(router) = subnet.router {
            reply.option(code::ROUTER, &router.octets());
        }
        if !self.dns.is_empty() {
            let mut servers = [0; 4 * DNS_MAX];
            for (place, address) in servers.chunks_exact_mut(4).zip(&self.dns) {
                place.copy_from_slice(&address.octets());
            }
            let length = 4 * self.dns.len().min(DNS_MAX);
            reply.option(code::DNS, &servers[..length]);
        }
        if self.mtu > 0 {
            reply.option(code::MTU, &self.mtu.to_be_bytes());
        }
        reply.option(code::BROADCAST, &subnet.prefix.broadcast().octets());
        if !self.domain.is_empty() {
            reply.option(code::DOMAIN, self.domain.as_bytes());
        }
    }

    /// The reply to a packet; `None` if there is none.
    fn reply(&mut self, cx: &mut Cx<'_>, packet: &Packet) -> Option<Packet> {
        let read = Datagram::of(packet).and_then(|datagram| {
            let frame = EthernetFrame::new_checked(packet.data()).ok()?;
            let request = Request::parse(datagram.payload(packet))?;
            let to_all = datagram.destination_v4(packet)?.is_broadcast();
            (!frame.source().is_group()).then_some((request, frame.source(), to_all))
        });
        let Some((request, sender, to_all)) = read else {
            self.invalid += 1;
            return None;
        };
        let Some(subnet) = self.subnet(&request, to_all) else {
            self.foreign += 1;
            return None;
        };
        let (kind, yours) = self.decide(&request, subnet, Self::now(cx))?;
        let subnet = self.plan.subnets.get(usize::from(subnet))?;
        let grant = match kind {
            Kind::Nak => Grant::Refusal,
            _ if request.kind == Kind::Inform => Grant::Parameters(subnet),
            _ => Grant::Lease(subnet),
        };
        let mut reply = Reply::new(&request, kind, self.server, yours);
        self.fill(&mut reply, &grant);
        let to = destination(&request, kind, yours, sender);
        self.frame(cx, to, reply.finish())
    }

    /// A message in its frame.
    fn frame(
        &self,
        cx: &mut Cx<'_>,
        (ether, address, port): (EtherAddress, Ipv4Addr, u16),
        message: &[u8],
    ) -> Option<Packet> {
        let length = (8 + message.len()) as u16;
        let ip = Ipv4Header {
            tos: 0,
            total_len: 20 + length,
            ident: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            protocol: IpProtocol::UDP,
            source: self.server,
            destination: address,
        };
        let udp = UdpHeader {
            source: SERVER_PORT,
            destination: port,
            length,
        };
        let header = EthernetHeader {
            destination: ether,
            source: self.ether,
            ethertype: EtherType::IPV4,
        };
        let mut bytes = [0; HEADERS + MESSAGE_MAX];
        bytes[..14].copy_from_slice(&header.to_bytes());
        bytes[14..34].copy_from_slice(&ip.to_bytes());
        bytes[34..HEADERS].copy_from_slice(&udp.to_bytes());
        let end = HEADERS + message.len();
        bytes[HEADERS..end].copy_from_slice(message);
        let mut udp = UdpPacket::new_unchecked(&mut bytes[34..end]);
        let pseudo = pseudo_header_v4(self.server, address, IpProtocol::UDP.0, length);
        udp.fill_checksum(pseudo);
        let mut packet = cx.pool().copy(&bytes[..end])?;
        packet.set_mac_header(0);
        packet.set_network_header(14, 20);
        packet.set_dst_ip(address);
        Some(packet)
    }

    fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut Self) {
        if self.server == old.server {
            self.leases.take_over(&old.leases);
            self.leases.advance(Self::now(cx));
        }
        (self.discovers, self.offers, self.acks, self.naks) =
            (old.discovers, old.offers, old.acks, old.naks);
        (self.declines, self.releases, self.informs) = (old.declines, old.releases, old.informs);
        (self.exhausted, self.foreign, self.invalid) = (old.exhausted, old.foreign, old.invalid);
    }
}

/// Where a reply goes (RFC 2131, section 4.1).
fn destination(
    request: &Request,
    kind: Kind,
    yours: Ipv4Addr,
    sender: EtherAddress,
) -> (EtherAddress, Ipv4Addr, u16) {
    let to_all = (EtherAddress::BROADCAST, Ipv4Addr::BROADCAST, CLIENT_PORT);
    if !request.relay.is_unspecified() {
        (sender, request.relay, SERVER_PORT)
    } else if kind == Kind::Nak {
        to_all
    } else if !request.client.is_unspecified() {
        (sender, request.client, CLIENT_PORT)
    } else if request.wants_broadcast() {
        to_all
    } else {
        (request.hardware, yours, CLIENT_PORT)
    }
}

impl Element for DHCPServer {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let seconds = self.lease.0 / SECOND as i64;
        if !(i64::from(LEASE_MIN)..=i64::from(u32::MAX)).contains(&seconds) {
            return Err(args.fail("LEASE must be from 10 to 4294967295 seconds"));
        }
        if self.dns.len() > DNS_MAX {
            return Err(args.fail("DNS has at most 8 addresses"));
        }
        let is_name = self.domain.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_name || self.domain.len() > DOMAIN_MAX {
            return Err(
                args.fail("DOMAIN must be a name of at most 255 characters, as in example.org")
            );
        }
        if self.mtu > 0 && self.mtu < 68 {
            return Err(args.fail("MTU must be at least 68, or 0"));
        }
        self.plan =
            Plan::parse(&self.given, self.server, &args.context()).map_err(|why| args.fail(why))?;
        let addresses: usize = self.plan.subnets.iter().map(Subnet::addresses).sum();
        if addresses + self.plan.reservations.len() > ADDRESSES_MAX {
            return Err(args.fail(format_args!(
                "{addresses} addresses are too many: pools have {ADDRESSES_MAX} in all"
            )));
        }
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let leases = Leases::new(&self.plan.subnets, &self.plan.reservations);
        self.leases = leases.map_err(|_| {
            cx.error("out of memory for the leases; give smaller pools, or a guest more memory, as in --memory 32M")
        })?;
        let timer = cx.timer();
        cx.schedule_after(timer, SECOND);
        self.timer = Some(timer);
        Ok(())
    }

    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let Some(reply) = self.reply(cx, packet) else {
            return Verdict::Drop;
        };
        let request = core::mem::replace(packet, reply);
        cx.kill(request);
        Verdict::Forward
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        self.leases.advance(Self::now(cx));
        cx.schedule_after(timer, SECOND);
    }
}
