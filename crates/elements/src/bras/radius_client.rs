use core::fmt;

use super::authority::{Account, Asker, Authority, Decision, Facts, Moment, Ticket};
use super::layer::NEVER;
use super::ppp::Proof;
use super::radius::{AUTHENTICATOR, RadiusAnswer, RadiusRequest, attribute, code};
use super::secrets::Secrets;
use super::users::is_unicast;
use crate::prelude::*;

/// Most servers.
const SERVERS_MAX: usize = 4;
/// Most bytes of the secret, and of the client's name.
const TEXT_MAX: usize = 128;
/// Requests of a source port: identifiers have 8 bits.
const IDS: usize = 256;
/// Most requests without an answer.
const CAPACITY_MAX: u32 = 4096;
/// How often all servers are tried for an account.
const ROUNDS: u32 = 4;
/// Nanoseconds between two runs of the timer.
const TICK: u64 = 100_000_000;
/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;
/// Length of the headers of a datagram.
const HEADERS: usize = 28;

/// Asks RADIUS servers about users, and sends them accounts (RFC 2865, RFC 2866, RFC 2869).
///
/// A PPPoEServer names it. Requests leave as UDP in IPv4 with their server as destination annotation; the
/// input takes what the servers answer, with the IP header marked. A request is sent TRIES times, TIMEOUT apart,
/// and then to the next server, which is the first to be asked from then on. When no server answers, the user is
/// turned away. An account goes round the servers four times before it is given up.
///
/// All servers have the same SECRET. An answer counts only if its authenticator is right. About
/// users it must have a Message-Authenticator (RFC 3579), too, as all requests have; without it, answers
/// can be forged by a machine on the way (CVE-2024-3596). SIGNED false lets servers do without.
///
/// At most CAPACITY requests wait for answers, of which accounts are three quarters at most. Beyond,
/// users are turned away, and accounts are lost.
///
/// Requests bear User-Name, User-Password or CHAP-Password with CHAP-Challenge, NAS-IP-Address, NAS-Identifier,
/// NAS-Port, NAS-Port-Type (PPPoE), Service-Type, Framed-Protocol, Calling-Station-Id (the host's Ethernet
/// address), and Acct-Session-Id. Of answers count Framed-IP-Address, Framed-Interface-Id, Session-Timeout,
/// Idle-Timeout, Acct-Interim-Interval, Class up to 128 bytes, and Reply-Message. Accounts are Start, Stop, and
/// Interim-Update, and Accounting-On when the router starts. A challenge is a
/// rejection. Accounting-Off is not sent, and Disconnect-Requests (RFC 5176) are not obeyed.
///
/// # Example
/// ```click
/// r :: RADIUSClient(10.0.0.1, SERVERS 10.0.0.2 10.0.0.3:1812:1813, SECRET sesame);
/// b :: PPPoEServer(2:0:0:0:0:1, 100.64.0.1, 100.64.0.0/22, RADIUS r);
/// Idle -> [0] b;
/// Idle -> [1] b;
/// b -> Discard;
/// FromDump(in.pcap) -> Strip(14) -> CheckIPHeader -> r -> Discard;
/// ```
///
/// # See also
/// PPPoEServer
#[derive(Element)]
#[element(
    ports = "1/1",
    processing = "h/h",
    handlers,
    take_over,
    provides(Authority)
)]
#[inputs("answers")]
#[outputs("requests")]
pub struct RADIUSClient {
    /// The address that requests come from.
    #[arg(mandatory, read)]
    address: Ipv4Addr,
    /// Servers in the order in which they are asked, at most four: an address each, and behind `:`
    /// the ports of authentication and accounting if they are not 1812 and 1813. Without any, nothing is
    /// asked and sent.
    #[arg(with = read_servers, kind = "servers")]
    servers: Vec<Server>,
    /// What the servers know this client by.
    #[arg]
    secret: String,
    /// The client's name in requests.
    #[arg(default = String::from("weir"), default_text = "weir")]
    name: String,
    /// Seconds until a request is sent again.
    #[arg(default = 2)]
    timeout: u8,
    /// How often a request is sent to a server.
    #[arg(default = 3)]
    tries: u8,
    /// Whether answers about users must have a Message-Authenticator.
    #[arg(default = true)]
    signed: bool,
    /// Whether accounts are sent.
    #[arg(default = true)]
    accounting: bool,
    /// Most requests without an answer.
    #[arg(default = 256)]
    capacity: u32,
    /// The first of the source ports, one for each 256 of CAPACITY.
    #[arg(default = 49152)]
    port: u16,
    /// Users that servers accepted.
    #[handler(read)]
    accepts: u64,
    /// Users that servers rejected.
    #[handler(read)]
    rejects: u64,
    /// Accounts that servers confirmed.
    #[handler(read)]
    accounts: u64,
    /// Requests that were sent again.
    #[handler(read)]
    resent: u64,
    /// Users about whom no server answered.
    #[handler(read)]
    unanswered: u64,
    /// Accounts that no server confirmed, or that were beyond CAPACITY.
    #[handler(read)]
    lost: u64,
    /// Packets that are no right answers to a request.
    #[handler(read)]
    invalid: u64,
    /// Answers about users that do not count because they have no Message-Authenticator.
    #[handler(read)]
    unsigned: u64,
    requests: Vec<Option<Pending>>,
    free: VecDeque<u16>,
    /// Accounts among the requests.
    accounts_pending: usize,
    /// The server that is asked first.
    first: usize,
    secrets: Secrets,
    announced: bool,
    timer: Option<TimerId>,
    is_scheduled: bool,
}

/// A server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Server {
    address: Ipv4Addr,
    /// The ports of authentication and of accounting.
    ports: [u16; 2],
    /// Requests that it answered, and that it did not answer.
    answered: u64,
    silent: u64,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [authentication, accounting] = self.ports;
        write!(f, "{}:{authentication}:{accounting}", self.address)
    }
}

fn read_servers(text: &str, _context: &Context<'_>) -> Result<Vec<Server>, Invalid> {
    let server = |word: String| {
        let mut words = word.split(':');
        let address = words.next()?.parse::<Ipv4Addr>().ok()?;
        let mut port = |default| match words.next() {
            None => Some(default),
            Some(word) => word.parse::<u16>().ok().filter(|port| *port != 0),
        };
        let ports = [port(1812)?, port(1813)?];
        let server = Server {
            address,
            ports,
            answered: 0,
            silent: 0,
        };
        (words.next().is_none() && is_unicast(address)).then_some(server)
    };
    let words = click::config::split_space(text);
    let words = words.into_iter().filter(|word| word != "\"\"");
    let servers: Option<Vec<Server>> = words.map(server).collect();
    servers
        .filter(|servers| servers.len() <= SERVERS_MAX)
        .ok_or_else(|| {
            Invalid::because("write at most 4 servers, as in 10.0.0.2 10.0.0.3:1812:1813")
        })
}

/// A request without an answer.
struct Pending {
    /// The element that asks about a user; `None` for an account.
    asker: Option<(ElementId, Ticket)>,
    message: Vec<u8>,
    authenticator: [u8; AUTHENTICATOR],
    server: usize,
    /// How often it is still sent to this server.
    tries: u8,
    /// Servers that are still tried.
    turns: u32,
    deadline: u64,
}

#[handlers]
impl RADIUSClient {
    /// A line for each server: address and ports, requests that it answered, requests that it did not
    /// answer; the one that is asked first has a star.
    #[read(name = "servers")]
    fn show_servers(&self) -> String {
        let lines = self.servers.iter().enumerate().map(|(number, server)| {
            let star = if number == self.first { " *" } else { "" };
            let (answered, silent) = (server.answered, server.silent);
            format!("{server} {answered} {silent}{star}\n")
        });
        lines.collect()
    }

    /// Requests without an answer.
    #[read]
    fn pending(&self) -> usize {
        self.requests.len() - self.free.len()
    }
}

impl RADIUSClient {
    /// A request with the attributes of every one, and its number.
    fn begin(
        &mut self,
        cx: &mut Cx<'_>,
        code: u8,
        facts: Option<&Facts<'_>>,
    ) -> Option<(u16, RadiusRequest)> {
        let number = self.free.pop_front()?;
        let authenticator = match code {
            code::ACCESS_REQUEST => self.secrets.bytes(cx.random()),
            _ => [0; AUTHENTICATOR],
        };
        let mut request = RadiusRequest::new(code, number as u8, authenticator);
        request.add(attribute::NAS_IP_ADDRESS, &self.address.octets());
        request.add(attribute::NAS_IDENTIFIER, self.name.as_bytes());
        let Some(facts) = facts else {
            return Some((number, request));
        };
        request.add(attribute::USER_NAME, facts.user);
        request.number(attribute::NAS_PORT, facts.number.into());
        // PPPoE over Ethernet; framed; PPP.
        request.number(attribute::NAS_PORT_TYPE, 32);
        request.number(attribute::SERVICE_TYPE, 2);
        request.number(attribute::FRAMED_PROTOCOL, 1);
        let station = facts.peer.to_string();
        request.add(attribute::CALLING_STATION_ID, station.as_bytes());
        let id = format!("{:016x}", facts.id);
        request.add(attribute::ACCT_SESSION_ID, id.as_bytes());
        Some((number, request))
    }

    /// Sends a request for the first time.
    fn start(
        &mut self,
        cx: &mut Cx<'_>,
        number: u16,
        request: RadiusRequest,
        asker: Option<(ElementId, Ticket)>,
    ) {
        let (message, authenticator) = request.finish(self.secret.as_bytes());
        let rounds = if asker.is_some() { 1 } else { ROUNDS };
        let pending = Pending {
            asker,
            message,
            authenticator,
            server: self.first,
            tries: self.tries,
            turns: rounds * self.servers.len() as u32,
            deadline: NEVER,
        };
        if asker.is_none() {
            self.accounts_pending += 1;
        }
        if let Some(slot) = self.requests.get_mut(usize::from(number)) {
            *slot = Some(pending);
        }
        self.send(cx, number);
        if let Some(timer) = self.timer.filter(|_| !self.is_scheduled) {
            cx.schedule_after(timer, TICK);
            self.is_scheduled = true;
        }
    }

    /// Sends a request to its server.
    fn send(&mut self, cx: &mut Cx<'_>, number: u16) {
        let slot = self.requests.get_mut(usize::from(number));
        let Some(pending) = slot.and_then(Option::as_mut) else {
            return;
        };
        pending.tries = pending.tries.saturating_sub(1);
        pending.deadline = cx.steady().0 + u64::from(self.timeout) * SECOND;
        let Some(server) = self.servers.get(pending.server) else {
            return;
        };
        let [authentication, accounting] = server.ports;
        let port = match pending.asker {
            Some(_) => authentication,
            None => accounting,
        };
        let from = (self.address, self.port.wrapping_add(number / IDS as u16));
        if let Some(packet) = datagram(cx, from, (server.address, port), &pending.message) {
            cx.emit(0, packet);
        }
    }

    /// Takes a request off.
    fn take(&mut self, number: u16) -> Option<Pending> {
        let pending = self.requests.get_mut(usize::from(number))?.take()?;
        self.free.push_back(number);
        if pending.asker.is_none() {
            self.accounts_pending -= 1;
        }
        Some(pending)
    }

    /// Takes a packet of a server; `None` if it answers no request.
    fn receive(&mut self, cx: &mut Cx<'_>, packet: &Packet) -> Option<()> {
        let ip = Ipv4Packet::new_checked(packet.network_header()?).ok()?;
        if ip.protocol() != IpProtocol::UDP || ip.destination() != self.address {
            return None;
        }
        let udp = UdpPacket::new_checked(ip.payload()).ok()?;
        let answer = RadiusAnswer::parse(udp.payload())?;
        let port = usize::from(udp.destination().checked_sub(self.port)?);
        let number = port * IDS + usize::from(answer.id);
        let pending = self.requests.get(number)?.as_ref()?;
        let server = self.servers.get_mut(pending.server)?;
        let [authentication, accounting] = server.ports;
        let (port, about_user) = match pending.asker {
            Some(_) => (authentication, true),
            None => (accounting, false),
        };
        if (ip.source(), udp.source()) != (server.address, port) {
            return None;
        }
        let is_answer = match answer.code {
            code::ACCESS_ACCEPT | code::ACCESS_REJECT | code::ACCESS_CHALLENGE => about_user,
            code::ACCOUNTING_RESPONSE => !about_user,
            _ => false,
        };
        let secret = self.secret.as_bytes();
        if !is_answer || !answer.is_authentic(&pending.authenticator, secret) {
            return None;
        }
        if about_user && self.signed && !answer.is_signed() {
            self.unsigned += 1;
            return Some(());
        }
        server.answered += 1;
        let pending = self.take(number as u16)?;
        let Some((asker, ticket)) = pending.asker else {
            self.accounts += 1;
            return Some(());
        };
        if answer.code == code::ACCESS_ACCEPT {
            self.accepts += 1;
            let terms = answer.terms();
            tell(cx, asker, ticket, Decision::Accept(&terms));
        } else {
            self.rejects += 1;
            let text = match answer.text() {
                "" => "the name or the secret is wrong",
                text => text,
            };
            tell(cx, asker, ticket, Decision::Reject(text));
        }
        Some(())
    }

    /// Sends a request again, to the next server if need be, or gives it up.
    fn retry(&mut self, cx: &mut Cx<'_>, number: u16) {
        let (all, first) = (self.servers.len(), self.first);
        let slot = self.requests.get_mut(usize::from(number));
        let Some(pending) = slot.and_then(Option::as_mut) else {
            return;
        };
        if pending.tries == 0 {
            if let Some(server) = self.servers.get_mut(pending.server) {
                server.silent += 1;
            }
            let next = (pending.server + 1) % all.max(1);
            if pending.server == first {
                self.first = next;
            }
            pending.server = next;
            pending.tries = self.tries;
            pending.turns = pending.turns.saturating_sub(1);
        }
        if pending.turns > 0 {
            self.resent += 1;
            self.send(cx, number);
            return;
        }
        match self.take(number).and_then(|pending| pending.asker) {
            Some((asker, ticket)) => {
                self.unanswered += 1;
                let text = "no server answers; try again later";
                tell(cx, asker, ticket, Decision::Reject(text));
            }
            None => self.lost += 1,
        }
    }

    fn take_over(&mut self, _cx: &mut Cx<'_>, old: &mut Self) {
        self.announced = old.announced;
        (self.accepts, self.rejects, self.accounts) = (old.accepts, old.rejects, old.accounts);
        (self.resent, self.unanswered) = (old.resent, old.unanswered);
        (self.lost, self.invalid, self.unsigned) = (old.lost, old.invalid, old.unsigned);
    }
}

/// Tells an asker what was decided.
fn tell(cx: &mut Cx<'_>, asker: ElementId, ticket: Ticket, decision: Decision<'_>) {
    if let Some(asker) = cx.link::<dyn Asker>(asker) {
        cx.reach(asker, |asker, cx| asker.decided(cx, ticket, decision));
    }
}

/// A datagram in IPv4; `None` if there is no buffer.
fn datagram(
    cx: &mut Cx<'_>,
    from: (Ipv4Addr, u16),
    to: (Ipv4Addr, u16),
    data: &[u8],
) -> Option<Packet> {
    let length = HEADERS + data.len();
    let mut packet = cx.pool().packet(packet::HEADROOM, length)?;
    let ip = Ipv4Header {
        tos: 0,
        total_len: length as u16,
        ident: cx.random().next_u32() as u16,
        dont_fragment: false,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol: IpProtocol::UDP,
        source: from.0,
        destination: to.0,
    };
    let udp = UdpHeader {
        source: from.1,
        destination: to.1,
        length: (length - 20) as u16,
    };
    let (front, rest) = packet.data_mut().split_first_chunk_mut::<20>()?;
    *front = ip.to_bytes();
    let mut view = UdpPacket::new_unchecked(rest);
    udp.emit(&mut view);
    view.payload_mut().copy_from_slice(data);
    view.fill_checksum(pseudo_header_v4(
        from.0,
        to.0,
        IpProtocol::UDP.0,
        udp.length,
    ));
    packet.set_network_header(0, 20);
    packet.set_dst_ip(to.0);
    Some(packet)
}

impl Authority for RADIUSClient {
    fn is_there(&self) -> bool {
        !self.servers.is_empty()
    }

    fn ask(
        &mut self,
        cx: &mut Cx<'_>,
        asker: ElementId,
        ticket: Ticket,
        facts: &Facts<'_>,
        proof: &Proof,
    ) -> bool {
        let Some((number, mut request)) = self.begin(cx, code::ACCESS_REQUEST, Some(facts)) else {
            return false;
        };
        match proof {
            Proof::Password(password) => request.password(password, self.secret.as_bytes()),
            Proof::Chap {
                id,
                challenge,
                response,
            } => {
                let answer = [&[*id][..], response].concat();
                request.add(attribute::CHAP_PASSWORD, &answer);
                request.add(attribute::CHAP_CHALLENGE, challenge);
            }
        }
        self.start(cx, number, request, Some((asker, ticket)));
        true
    }

    fn account(&mut self, cx: &mut Cx<'_>, account: &Account<'_>) {
        if !self.accounting || self.servers.is_empty() {
            return;
        }
        let has_room = self.accounts_pending < self.requests.len() * 3 / 4;
        let begun = match has_room {
            true => self.begin(cx, code::ACCOUNTING_REQUEST, Some(&account.facts)),
            false => None,
        };
        let Some((number, mut request)) = begun else {
            self.lost += 1;
            return;
        };
        let status = match account.moment {
            Moment::Start => 1,
            Moment::Stop(_) => 2,
            Moment::Interim => 3,
        };
        request.number(attribute::ACCT_STATUS_TYPE, status);
        request.add(attribute::FRAMED_IP_ADDRESS, &account.address.octets());
        if let Some(prefix) = account.prefix {
            let value = [&[0, 64][..], &prefix.to_be_bytes()].concat();
            request.add(attribute::FRAMED_IPV6_PREFIX, &value);
        }
        // By RADIUS, or by the concentrator itself.
        request.number(attribute::ACCT_AUTHENTIC, 1 + u32::from(account.local));
        request.number(
            attribute::EVENT_TIMESTAMP,
            (cx.wall() / SECOND as i64) as u32,
        );
        if !account.class.is_empty() {
            request.add(attribute::CLASS, account.class);
        }
        if account.moment != Moment::Start {
            let (input, output) = (account.in_bytes, account.out_bytes);
            request.number(attribute::ACCT_SESSION_TIME, account.seconds);
            request.number(attribute::ACCT_INPUT_OCTETS, input as u32);
            request.number(attribute::ACCT_OUTPUT_OCTETS, output as u32);
            request.number(attribute::ACCT_INPUT_GIGAWORDS, (input >> 32) as u32);
            request.number(attribute::ACCT_OUTPUT_GIGAWORDS, (output >> 32) as u32);
            request.number(attribute::ACCT_INPUT_PACKETS, account.in_packets as u32);
            request.number(attribute::ACCT_OUTPUT_PACKETS, account.out_packets as u32);
        }
        if let Moment::Stop(cause) = account.moment {
            request.number(attribute::ACCT_TERMINATE_CAUSE, cause as u32);
        }
        self.start(cx, number, request, None);
    }
}

impl Element for RADIUSClient {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if !is_unicast(self.address) {
            return Err(args.fail("ADDRESS must be the address of a host"));
        }
        let is_text = |text: &str| (1..=TEXT_MAX).contains(&text.len());
        let has_secret = self.servers.is_empty() || is_text(&self.secret);
        if !has_secret || !is_text(&self.name) {
            return Err(args.fail(format_args!(
                "SECRET and NAME must have from 1 to {TEXT_MAX} bytes each"
            )));
        }
        if self.timeout == 0 || self.tries == 0 {
            return Err(args.fail("TIMEOUT and TRIES must be at least 1"));
        }
        if !(1..=CAPACITY_MAX).contains(&self.capacity) {
            return Err(args.fail(format_args!("CAPACITY must be from 1 to {CAPACITY_MAX}")));
        }
        let ports = self.capacity.div_ceil(IDS as u32);
        if self.port == 0 || u32::from(self.port) + ports > 65536 {
            return Err(args.fail(format_args!("PORT must be from 1 to {}", 65536 - ports)));
        }
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let capacity = self.capacity as usize;
        let room = self.requests.try_reserve_exact(capacity);
        if room.is_err() || self.free.try_reserve_exact(capacity).is_err() {
            return Err(cx.error("out of memory for requests; give a smaller CAPACITY"));
        }
        self.requests.resize_with(capacity, || None);
        self.free.extend((0..capacity).map(|number| number as u16));
        self.secrets = Secrets::new(cx.random());
        let timer = cx.timer();
        cx.schedule_after(timer, TICK);
        self.timer = Some(timer);
        self.is_scheduled = true;
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        for packet in batch.drain() {
            if self.receive(cx, &packet).is_none() {
                self.invalid += 1;
            }
            cx.kill(packet);
        }
        0
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        let now = cx.steady().0;
        self.is_scheduled = false;
        if !self.announced && self.accounting && self.is_there() {
            // Sessions that a router before this one had are over.
            if let Some((number, mut request)) = self.begin(cx, code::ACCOUNTING_REQUEST, None) {
                request.number(attribute::ACCT_STATUS_TYPE, 7);
                let id = format!("{:016x}", cx.wall());
                request.add(attribute::ACCT_SESSION_ID, id.as_bytes());
                self.start(cx, number, request, None);
            }
        }
        self.announced = true;
        for number in 0..self.requests.len() {
            let pending = self.requests.get(number).and_then(Option::as_ref);
            if pending.is_some_and(|pending| pending.deadline <= now) {
                self.retry(cx, number as u16);
            }
        }
        if self.pending() > 0 && !self.is_scheduled {
            cx.schedule_at(timer, Steady(now + TICK));
            self.is_scheduled = true;
        }
    }
}
