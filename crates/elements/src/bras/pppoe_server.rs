mod discovery;
mod lifecycle;
mod show;
#[cfg(test)]
mod tests;

use hashbrown::HashSet;

use super::SessionTable;
use super::authority::{Asker, Authority, Decision, Ticket};
use super::control::{Outbox, protocol};
use super::ip6::is_solicitation;
use super::layer::NEVER;
use super::lcp::{Method, Methods};
use super::ppp::{Cause, Settings};
use super::secrets::Secrets;
use super::sessions::{HOST_MAX, Sessions};
use super::table::{CAPACITY_MAX, Frame, Table, look, slot};
use super::users::{Users, is_unicast};
use crate::filters::dispatch::DROP;
use crate::nat::carrier_grade_nat::range;
use crate::prelude::*;
use crate::rates::token_bucket::TokenBucket;

/// Sizes of packets that links have at least, and that a frame has room for.
const MTU: core::ops::RangeInclusive<u16> = 576..=1492;
/// Least size of packets on a link that carries IPv6.
const MTU6: u16 = 1280;
/// Most addresses of the pool that are used.
const POOL_MAX: u32 = 1 << 17;
/// Most bytes of the concentrator's name, and of a service's.
const TEXT_MAX: usize = 64;
/// Most services.
const SERVICES_MAX: usize = 8;
/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;
/// Sessions that a run of the timer serves.
const BURST: usize = 256;
/// Least time between two runs of the timer.
const TICK: u64 = 10_000_000;

/// Lets subscribers in by PPP over Ethernet (RFC 2516): an access concentrator, or BRAS.
///
/// Discovery keeps no state: an offer bears a cookie that follows from the host's address and the time,
/// and a session begins when the cookie comes back. Then LCP, authentication by CHAP with MD5 or by PAP, and
/// IPCP are negotiated; subscribers get an address and DNS servers (RFC 1877). With IP6, IPV6CP gives
/// interface identifiers, and router advertisements a prefix of 64 bits for each session. A session ends by
/// PADT, by LCP, when echo requests stay unanswered, when packets do not flow within SETUP, when it
/// negotiates for the ninth time, and by the times that RADIUS gives it; an idle session ends after once to
/// twice its time.
///
/// USERS has a user on each line: name, secret, and an address if it is always the same. A line that
/// begins with `#` is a comment. Users that are not there are asked of RADIUS, a RADIUSClient, which gets
/// accounts of all sessions. Names and secrets have at most 128 bytes. Of a POOL that is a prefix, the first and
/// the last address are not given out. A user whose address by RADIUS is outside POOL is turned away.
///
/// There are CAPACITY sessions; their memory, some 1000 bytes each, is allocated when the router is
/// initialized. When all are in use, a new one takes the place of the one whose user has
/// been unknown for the longest time; if all users are known, offers stop, and requests are
/// answered by an error. A host has HOST_SESSIONS: a further one ends its oldest. RATE bounds offers and
/// new sessions; the frames beyond it are dropped, and sessions that are there go on. A second session with
/// the same address, by USERS or by RADIUS, ends the first.
///
/// Packets pass PPPoEDecap and PPPoEEncap. A frame counts for a session only if it comes from the
/// session's host, and a packet only if its source is the session's address, or of its prefix.
///
/// Short of the RFCs: MRUs below MTU are answered by a Nak with MTU, so that all sessions have one
/// MTU. Payloads above 1492 bytes (RFC 4638), several links (RFC 1990), authentication by EAP or
/// MS-CHAP, compression, and link quality reports are rejected. A session without IPCP ends.
/// Frames with VLAN tags are not understood. Prefixes are not delegated by DHCPv6 (RFC 8415) or given by
/// RADIUS.
///
/// # Example
/// ```click
/// b :: PPPoEServer(2:0:0:0:0:1, 100.64.0.1, 100.64.0.0/22, USERS "ann secret");
/// FromDump(in.pcap) -> kind :: Classifier(12/8863, 12/8864, -);
/// kind[0] -> [0] b;
/// kind[1] -> decap :: PPPoEDecap(b) -> CheckIPHeader -> Discard;
/// decap[1] -> [1] b;
/// kind[2] -> Discard;
/// b -> out :: Queue -> Discard;
/// Idle -> PPPoEEncap(b) -> out;
/// ```
///
/// # See also
/// PPPoEDecap, PPPoEEncap, RADIUSClient
#[derive(Element)]
#[element(
    ports = "2/1",
    processing = "h/h",
    handlers,
    take_over,
    provides(SessionTable, Asker)
)]
#[inputs("discovery frames", "session frames of control packets")]
#[outputs("frames to subscribers")]
pub struct PPPoEServer {
    /// The concentrator's Ethernet address.
    #[arg(mandatory)]
    ether: EtherAddress,
    /// The concentrator's address in IPCP, the subscribers' gateway.
    #[arg(mandatory, read)]
    address: Ipv4Addr,
    /// The subscribers' addresses: a prefix, or the first and last, as in 100.64.0.4-100.64.0.9.
    #[arg(mandatory, with = read_pool, kind = "prefix or range of addresses")]
    pool: Pool,
    /// The users, one on each line.
    #[arg(name = "USERS")]
    users_text: String,
    /// A RADIUSClient, which knows further users, and gets accounts.
    #[arg]
    radius: Option<Link<dyn Authority>>,
    /// How users authenticate: `chap`, `pap`, or `any`, which asks for CHAP first.
    #[arg(with = methods, kind = "any, chap or pap", default_text = "any")]
    auth: Methods,
    /// The concentrator's name.
    #[arg(default = String::from("weir"), default_text = "weir", read)]
    name: String,
    /// The services that are offered; all that are asked for if there are none.
    #[arg(with = words, kind = "words")]
    services: Vec<String>,
    /// DNS servers for subscribers, at most two.
    #[arg(with = addresses, kind = "addresses")]
    dns: Vec<Ipv4Addr>,
    /// Most bytes of a packet.
    #[arg(default = 1492)]
    mtu: u16,
    /// Whether IPv6 is negotiated.
    #[arg]
    ip6: bool,
    /// The subscribers' prefixes: each session has one of 64 bits.
    #[arg(default = Ipv6Prefix { address: Ipv6Addr::UNSPECIFIED, length: 0 }, default_text = "")]
    pool6: Ipv6Prefix,
    /// Most sessions.
    #[arg(default = 1024, read)]
    capacity: u32,
    /// Most sessions of a host.
    #[arg(default = 1)]
    host_sessions: u8,
    /// Most offers, and most new sessions, in a second.
    #[arg(default = 500)]
    rate: u32,
    /// Seconds until packets must flow.
    #[arg(default = 30)]
    setup: u16,
    /// Seconds between two echo requests.
    #[arg(default = 10)]
    echo: u16,
    /// Echo requests without an answer after which a session ends.
    #[arg(default = 3)]
    echo_failures: u8,
    /// Seconds between two accounts of a session, unless RADIUS says otherwise; 0 if there are none.
    #[arg(default = 600)]
    interim: u32,
    /// Offers that were made.
    #[handler(read)]
    offers: u64,
    /// Sessions that began.
    #[handler(read)]
    begun: u64,
    /// Sessions whose user became known.
    #[handler(read)]
    accepted: u64,
    /// Sessions that were refused: their user is unknown, its proof wrong, or no address free.
    #[handler(read)]
    refused: u64,
    /// Sessions that ended because their host was silent.
    #[handler(read)]
    silent: u64,
    /// Requests that got no session because all were in use, and sessions that made room for others.
    #[handler(read)]
    full: u64,
    /// Discovery frames beyond RATE.
    #[handler(read)]
    over_rate: u64,
    /// Discovery frames that are wrong, or bear no right cookie.
    #[handler(read)]
    invalid: u64,
    settings: Settings,
    users: Users,
    /// The addresses of users that always have the same.
    fixed: HashSet<u32>,
    secrets: Secrets,
    table: Table,
    sessions: Sessions,
    out: Outbox,
    offer_rate: TokenBucket,
    session_rate: TokenBucket,
    /// Tells sessions in accounts from each other.
    next_id: u64,
    timer: Option<TimerId>,
    /// When the timer runs.
    due: u64,
}

fn methods(text: &str, _context: &Context<'_>) -> Result<Methods, Invalid> {
    match text {
        "any" => Ok(Methods::Any),
        "chap" => Ok(Methods::Only(Method::Chap)),
        "pap" => Ok(Methods::Only(Method::Pap)),
        _ => Err(Invalid::because("write any, chap or pap")),
    }
}

/// Words separated by spaces.
fn words(text: &str, _context: &Context<'_>) -> Result<Vec<String>, Invalid> {
    let mut words = click::config::split_space(text);
    words.retain(|word| word != "\"\"");
    Ok(words)
}

/// Addresses separated by spaces.
fn addresses(text: &str, context: &Context<'_>) -> Result<Vec<Ipv4Addr>, Invalid> {
    let words = words(text, context)?;
    let addresses = words
        .iter()
        .map(|word| word.parse::<Ipv4Addr>().ok().filter(|it| is_unicast(*it)));
    let addresses: Option<Vec<Ipv4Addr>> = addresses.collect();
    addresses.ok_or_else(|| {
        Invalid::because("write addresses with spaces between, as in 9.9.9.9 1.1.1.1")
    })
}

#[handlers]
impl PPPoEServer {
    /// A line for each session: number, host, user, address, how far it is, seconds that packets flow,
    /// and packets and bytes in and out.
    #[read(expensive)]
    fn sessions(&self, cx: &mut Cx<'_>) -> Result<String, HandlerError> {
        let now = cx.steady().0;
        listing(|out| {
            let mut sessions = self.sessions.iter();
            sessions.try_for_each(|it| show::line(out, it, &self.table, now))
        })
    }

    /// All about the session with a number.
    #[read]
    fn session(&self, cx: &mut Cx<'_>, text: &str) -> Result<String, HandlerError> {
        let slot = self.slot_of(text)?;
        let session = self.sessions.get(slot).ok_or_else(|| unknown(text))?;
        Ok(show::page((slot, session), &self.table, cx.steady().0))
    }

    /// Ends the session with a number.
    #[write]
    fn terminate(&mut self, cx: &mut Cx<'_>, text: &str) -> Result<(), HandlerError> {
        let slot = self.slot_of(text)?;
        self.drive(cx, slot, |ppp, _, env| ppp.close(Cause::AdminReset, env));
        Ok(())
    }

    /// Sessions.
    #[read]
    fn count(&self) -> usize {
        self.sessions.count()
    }

    /// Addresses of the pool that are free.
    #[read]
    fn free_addresses(&self) -> usize {
        self.sessions.free_addresses()
    }

    /// Session frames of no session, or of another host's.
    #[read]
    fn strangers(&self) -> u64 {
        self.table.strays.strangers
    }

    /// Packets whose source is not their session's address.
    #[read]
    fn spoofed(&self) -> u64 {
        self.table.strays.spoofed
    }

    /// Packets for addresses that no session has.
    #[read]
    fn unreachable(&self) -> u64 {
        self.table.strays.unreachable
    }
}

fn unknown(text: &str) -> HandlerError {
    let text = format!("there is no session ‘{text}’: `sessions` lists the numbers of all");
    HandlerError::failed(FailureKind::Invalid, text)
}

impl PPPoEServer {
    fn slot_of(&self, text: &str) -> Result<usize, HandlerError> {
        let session = text.trim().parse::<u16>().ok();
        let slot = session.map(slot);
        slot.filter(|slot| self.sessions.get(*slot).is_some())
            .ok_or_else(|| unknown(text.trim()))
    }

    fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut Self) {
        let same = (self.ether, self.pool, self.capacity) == (old.ether, old.pool, old.capacity);
        if same && (self.ip6, self.pool6) == (old.ip6, old.pool6) {
            core::mem::swap(&mut self.table, &mut old.table);
            core::mem::swap(&mut self.sessions, &mut old.sessions);
            core::mem::swap(&mut self.secrets, &mut old.secrets);
            self.next_id = old.next_id;
            if let Some(timer) = self.timer {
                self.due = cx.steady().0 + TICK;
                cx.schedule_at(timer, Steady(self.due));
            }
        }
        (self.offers, self.begun, self.accepted) = (old.offers, old.begun, old.accepted);
        (self.refused, self.silent, self.full) = (old.refused, old.silent, old.full);
        (self.over_rate, self.invalid) = (old.over_rate, old.invalid);
    }

    /// What all sessions have in common, by the arguments.
    fn settings(&self) -> Result<Settings, String> {
        let least = |name: &str, value: u32| match value {
            0 => Err(format!("{name} must be at least 1")),
            _ => Ok(()),
        };
        if !(1..=CAPACITY_MAX).contains(&self.capacity) {
            return Err(format!("CAPACITY must be from 1 to {CAPACITY_MAX}"));
        }
        if !(1..=HOST_MAX).contains(&usize::from(self.host_sessions)) {
            return Err(format!("HOST_SESSIONS must be from 1 to {HOST_MAX}"));
        }
        if !MTU.contains(&self.mtu) {
            let (least, most) = (MTU.start(), MTU.end());
            return Err(format!("MTU must be from {least} to {most}"));
        }
        least("RATE", self.rate)?;
        least("SETUP", self.setup.into())?;
        least("ECHO", self.echo.into())?;
        least("ECHO_FAILURES", self.echo_failures.into())?;
        if self.ether.is_group() || self.ether.is_zero() {
            return Err("ETHER must be the address of a station".into());
        }
        if !is_unicast(self.address) {
            return Err("ADDRESS must be the address of a host".into());
        }
        let ends = self.pool.ends();
        let are_hosts = ends.map(Ipv4Addr::from_bits).into_iter().all(is_unicast);
        if !(1..=POOL_MAX).contains(&self.pool.count) || !are_hosts {
            return Err(format!(
                "POOL must have from 1 to {POOL_MAX} addresses, all of hosts"
            ));
        }
        let texts = self.services.iter().chain([&self.name]);
        if self.services.len() > SERVICES_MAX || texts.into_iter().any(|it| !is_name(it)) {
            return Err(format!(
                "NAME and each of SERVICES must have from 1 to {TEXT_MAX} printable characters, and SERVICES at most {SERVICES_MAX} words"
            ));
        }
        let has_room = self.pool6.length <= 64
            && self.pool6.network() == self.pool6.address
            && 1u128 << (64 - self.pool6.length.min(64)) >= self.capacity.into();
        if self.ip6 && (!has_room || self.pool6.length == 0 || self.mtu < MTU6) {
            return Err(format!(
                "IP6 needs a POOL6 with a prefix of 64 bits for each of {} sessions, and an MTU of at least {MTU6}",
                self.capacity
            ));
        }
        let dns = match self.dns[..] {
            [] => [Ipv4Addr::UNSPECIFIED; 2],
            [one] => [one, Ipv4Addr::UNSPECIFIED],
            [one, two] => [one, two],
            [..] => return Err("DNS must have at most two servers".into()),
        };
        Ok(Settings {
            mru: self.mtu,
            methods: self.auth,
            name: self.name.clone(),
            address: self.address,
            dns,
            ip6: self.ip6,
            echo: u64::from(self.echo) * SECOND,
            failures: self.echo_failures,
            setup: u64::from(self.setup) * SECOND,
        })
    }

    /// Takes a session frame of a control packet.
    fn receive(&mut self, cx: &mut Cx<'_>, data: &[u8]) -> Option<()> {
        let (frame, peer) = look(data)?;
        let slot = slot(frame.session);
        let session = self.sessions.get(slot)?;
        if session.peer == peer {
            let (protocol, packet) = (frame.protocol, frame.packet);
            let is_open6 = self.table.line(slot).is_some_and(|line| line.open6);
            if protocol == protocol::IPV6 && is_open6 {
                if is_solicitation(packet) {
                    self.advertise(cx, slot);
                    self.settle(cx, slot);
                }
                return Some(());
            }
            self.drive(cx, slot, |ppp, settings, env| {
                ppp.receive(protocol, packet, settings, env)
            });
        }
        Some(())
    }
}

/// The subscribers' addresses.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Pool {
    first: u32,
    count: u32,
    /// Whether it is a prefix, whose first and last address are no host's.
    is_prefix: bool,
}

fn read_pool(text: &str, context: &Context<'_>) -> Result<Pool, Invalid> {
    let (first, count) = range(text, context)?;
    Ok(Pool {
        first,
        count,
        is_prefix: text.contains('/') && count > 2,
    })
}

impl Pool {
    fn ends(&self) -> [u32; 2] {
        let last = self.first.wrapping_add(self.count.wrapping_sub(1));
        [self.first, last]
    }

    fn contains(&self, address: Ipv4Addr) -> bool {
        address.to_bits().wrapping_sub(self.first) < self.count
    }

    /// The addresses that are given out.
    fn hosts(&self) -> impl Iterator<Item = u32> {
        let [first, last] = self.ends();
        let outer = u32::from(self.is_prefix);
        first + outer..=last - outer
    }
}

fn is_name(text: &str) -> bool {
    (1..=TEXT_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

impl Element for PPPoEServer {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.settings = self.settings().map_err(|why| args.fail(why))?;
        let users = Users::parse(&core::mem::take(&mut self.users_text));
        self.users =
            users.map_err(|(line, why)| args.fail(format_args!("USERS: line {line}: {why}")))?;
        let mut fixed = self.users.addresses();
        match fixed.find(|address| !self.pool.contains(*address)) {
            None => Ok(()),
            Some(address) => Err(args.fail(format_args!(
                "USERS: the address {address} of a user is outside POOL; give an address of it, or none"
            ))),
        }
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.secrets = Secrets::new(cx.random());
        let mut seeds = || [cx.random().next_u64(), cx.random().next_u64()];
        let capacity = self.capacity as usize;
        let prefixes = (self.pool6.address.to_bits() >> 64) as u64;
        let table = Table::new(self.ether, capacity, prefixes, seeds());
        self.fixed = self.users.addresses().map(Ipv4Addr::to_bits).collect();
        let own = self.address.to_bits();
        let pool = self.pool.hosts();
        let pool = pool.filter(|address| *address != own && !self.fixed.contains(address));
        let sessions = Sessions::new(capacity, pool, seeds());
        let (Ok(table), Ok(sessions)) = (table, sessions) else {
            return Err(cx.error(format_args!(
                "out of memory for {capacity} sessions; give a smaller CAPACITY or POOL, or a guest more memory, as in --memory 64M"
            )));
        };
        (self.table, self.sessions) = (table, sessions);
        self.offer_rate.assign(self.rate.into(), self.rate.into());
        self.session_rate.assign(self.rate.into(), self.rate.into());
        // Numbers of sessions in accounts go on where those of a router before stopped.
        self.next_id = (cx.wall() / SECOND as i64) as u64 * 100_000;
        self.due = NEVER;
        self.timer = Some(cx.timer());
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) -> usize {
        for packet in batch.drain() {
            let data = packet.data();
            let done = match port {
                0 => self.discover(cx, data),
                _ => self.receive(cx, data),
            };
            if done.is_none() {
                self.invalid += 1;
            }
            cx.kill(packet);
        }
        0
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        let now = cx.steady().0;
        self.due = NEVER;
        let (mut slot, mut served) = (0, 0);
        while let Some(due) = self.sessions.due(slot, now).filter(|_| served < BURST) {
            self.serve(cx, due, now);
            slot = due + 1;
            served += 1;
        }
        let due = self.sessions.next_due();
        if due != NEVER {
            self.due = due.max(now + TICK);
            cx.schedule_at(timer, Steady(self.due));
        }
    }
}

impl Asker for PPPoEServer {
    fn decided(&mut self, cx: &mut Cx<'_>, ticket: Ticket, decision: Decision<'_>) {
        let slot = ticket.slot as usize;
        let session = self.sessions.get(slot);
        let is_asking = session.is_some_and(|session| {
            session.attempt == ticket.attempt
                && session.id == ticket.session
                && session.ppp.is_deciding()
        });
        if is_asking {
            match decision {
                Decision::Accept(terms) => self.accept(cx, slot, terms),
                Decision::Reject(text) => self.refuse(cx, slot, text),
            }
            self.settle(cx, slot);
        }
    }
}

impl SessionTable for PPPoEServer {
    fn take_off(&mut self, batch: &mut Batch, outputs: &mut [u32; BATCH]) {
        self.table.take_off(batch, |number, frame| {
            outputs[number % BATCH] = match frame {
                Frame::Packet => 0,
                Frame::Control => 1,
                Frame::Packet6 => 2,
                Frame::Wrong => DROP,
            };
        });
    }

    fn put_on(&mut self, batch: &mut Batch, outputs: &mut [u32; BATCH]) {
        self.table.put_on(batch, |number, found| {
            outputs[number % BATCH] = u32::from(!found);
        });
    }
}
