use hashbrown::HashMap;

use super::segment::{Segment, Style, before, make};
use crate::prelude::*;

const MILLISECOND: u64 = 1_000_000;
/// How long ago connections that were missed may have been due.
const CATCH_UP: u64 = 100 * MILLISECOND;
const SECOND: u64 = 1000 * MILLISECOND;
/// A segment without answer is sent again after this long.
const RESEND: u64 = SECOND;
/// How often it is sent again, the first time left out, before the connection is given up.
const RESENDS: u32 = 5;
/// How often the counts are printed.
const REPORT: u64 = 5 * SECOND;
/// The port that web servers listen on.
const WEB: u16 = 80;

/// Requests random pages from a web server repeatedly, each over a new connection.
///
/// Connections start at an even rate, each from a random address in PREFIX and a random port. A
/// connection asks for one of 270 pages, `/spec/D/D-C-F`, takes the answer, and ends with the
/// server. A segment that is not answered is sent again each second, six times at most. Every five
/// seconds, and at the end, a line shows the numbers of connections that were started, ended well,
/// had no answer, and were reset. Packets start with their IP header, in and out.
///
/// At most the connections of ten seconds can be open at a time; more are not started, which is
/// reported.
///
/// # Example
/// ```click
/// tun :: KernelTun(192.0.2.1/24) -> WebGen(192.0.2.128/25, 192.0.2.1, 10) -> tun;
/// ```
///
/// # See also
/// TCPReflector, KernelTun
#[derive(Element)]
#[element(ports = "1/1", processing = "h")]
#[inputs("packets from the server")]
#[outputs("packets to the server")]
pub struct WebGen {
    /// The source addresses of connections.
    #[arg(mandatory, with = IpPrefixArg::OR_ADDRESS, kind = "IP prefix")]
    #[init(Ipv4Prefix::ANY)]
    prefix: Ipv4Prefix,
    /// The server.
    #[arg(mandatory, name = "DST")]
    server: Ipv4Addr,
    /// Connections a second, from 1 to 1000000.
    #[arg(mandatory)]
    rate: i32,
    /// Nanoseconds between two connections' starts.
    #[init(SECOND)]
    interval: u64,
    /// Most connections.
    limit: usize,
    ident: u16,
    /// By our address and port.
    connections: HashMap<(Ipv4Addr, u16), Connection>,
    /// Each connection once, with a time not after its last segment's.
    resend: VecDeque<(Steady, (Ipv4Addr, u16))>,
    next_start: Steady,
    next_report: Steady,
    counts: Counts,
    timer: Option<TimerId>,
}

#[derive(Default)]
struct Counts {
    initiated: u32,
    completed: u32,
    reset: u32,
    timeout: u32,
}

/// One connection. Names of numbers are those of RFC 9293, section 3.3.1.
struct Connection {
    iss: u32,
    snd_una: u32,
    snd_nxt: u32,
    rcv_nxt: u32,
    connected: bool,
    got_fin: bool,
    sent_fin: bool,
    /// An acknowledgment waits.
    pending: bool,
    closed: bool,
    resends: u32,
    last_send: Steady,
    request: String,
}

impl Connection {
    fn new(iss: u32, request: String) -> Connection {
        Connection {
            iss,
            snd_una: iss,
            snd_nxt: iss,
            rcv_nxt: 0,
            connected: false,
            got_fin: false,
            sent_fin: false,
            pending: false,
            closed: false,
            resends: 0,
            last_send: Steady::default(),
            request,
        }
    }

    /// Updates the connection from a segment.
    fn take(&mut self, segment: &Segment) {
        let ack = segment.has(TcpFlags::ACK);
        let answers = ack && segment.acknowledgment == self.iss.wrapping_add(1);
        let end = segment.sequence.wrapping_add(segment.payload);
        if answers && !self.connected {
            self.snd_nxt = self.iss.wrapping_add(1);
            self.snd_una = self.snd_nxt;
            self.rcv_nxt = segment.sequence.wrapping_add(1);
            (self.connected, self.pending) = (true, true);
        } else if segment.payload > 0 {
            self.pending = true;
            if before(self.rcv_nxt, end) {
                self.rcv_nxt = end;
            }
        }
        if ack && before(self.snd_una, segment.acknowledgment) {
            self.snd_una = segment.acknowledgment;
        }
        if segment.has(TcpFlags::FIN) && end == self.rcv_nxt && !self.got_fin {
            self.rcv_nxt = self.rcv_nxt.wrapping_add(1);
            (self.got_fin, self.pending) = (true, true);
        }
    }

    /// The next segment to send: flags, sequence and acknowledgment number, and whether it has the
    /// request in it. `None` if there is nothing to send.
    fn segment(&mut self) -> Option<(TcpFlags, u32, u32, bool)> {
        let start = self.iss.wrapping_add(1);
        let length = self.request.len() as u32;
        let asks = self.connected && self.snd_una.wrapping_sub(start) < length;
        let sequence = if asks {
            self.snd_nxt = start.wrapping_add(length);
            start
        } else {
            self.snd_nxt.wrapping_add(self.sent_fin.into())
        };
        if self.connected && !self.pending && !asks {
            return None;
        }
        self.pending = false;
        if !self.connected {
            return Some((TcpFlags::SYN, sequence, 0, false));
        }
        let mut flags = TcpFlags::ACK;
        if asks {
            flags = flags | TcpFlags::PSH | TcpFlags::FIN;
        }
        if self.got_fin {
            flags = flags | TcpFlags::FIN;
        }
        self.sent_fin |= flags.contains(TcpFlags::FIN);
        self.closed = self.sent_fin && self.got_fin;
        Some((flags, sequence, self.rcv_nxt, asks))
    }
}

impl WebGen {
    fn style(&mut self) -> Style {
        self.ident = self.ident.wrapping_add(1);
        Style {
            tos: 0,
            ttl: 250,
            ident: self.ident.wrapping_sub(1),
            dont_fragment: false,
            window: 60 * 1024,
        }
    }

    /// Sends a connection's next segment, if there is one.
    fn send(&mut self, cx: &mut Cx<'_>, own: (Ipv4Addr, u16)) {
        let style = self.style();
        let Some(connection) = self.connections.get_mut(&own) else {
            return;
        };
        connection.last_send = cx.steady();
        let Some((flags, sequence, acknowledgment, asks)) = connection.segment() else {
            return;
        };
        if connection.closed {
            self.counts.completed += 1;
        }
        let request = if asks {
            connection.request.as_bytes()
        } else {
            &[]
        };
        let segment = Segment {
            source: own,
            destination: (self.server, WEB),
            flags,
            sequence,
            acknowledgment,
            payload: request.len() as u32,
        };
        if let Some(packet) = make(cx, &segment, &style, request) {
            cx.emit(0, packet);
        }
    }

    /// Starts a connection from a random address and port; returns whether that was possible.
    fn start(&mut self, cx: &mut Cx<'_>) -> bool {
        let mask = self.prefix.mask.to_bits();
        let random = cx.random();
        let address = random.next_u32() & !mask | self.prefix.address.to_bits() & mask;
        let own = (
            Ipv4Addr::from_bits(address),
            1024 + random.below(60_000) as u16,
        );
        if self.connections.len() >= self.limit || self.connections.contains_key(&own) {
            cx.chatter("out of available CBs");
            return false;
        }
        let iss = random.next_u32() & 0x0fff_ffff;
        let (folder, file, class) = (random.below(10), random.below(9), random.below(3));
        let request = format!("GET /spec/{folder}/{folder}-{class}-{file} HTTP/1.0\r\n\r\n");
        self.connections.insert(own, Connection::new(iss, request));
        self.resend.push_back((cx.steady(), own));
        self.counts.initiated += 1;
        self.send(cx, own);
        true
    }

    /// Sends segments without an answer again, and gives up connections without any for too long.
    fn resend(&mut self, cx: &mut Cx<'_>, now: Steady) {
        for _ in 0..self.resend.len() {
            let Some(&(at, own)) = self.resend.front() else {
                return;
            };
            if now.since(at) <= RESEND {
                return;
            }
            self.resend.pop_front();
            let Some(connection) = self.connections.get_mut(&own) else {
                continue;
            };
            if now.since(connection.last_send) > RESEND {
                connection.resends += 1;
                if connection.resends > RESENDS + 1 {
                    self.counts.timeout += 1;
                    self.connections.remove(&own);
                    continue;
                }
                self.send(cx, own);
            }
            if let Some(connection) = self.connections.get(&own) {
                self.resend.push_back((connection.last_send, own));
            }
        }
    }

    fn report(&mut self, cx: &mut Cx<'_>) {
        let Counts {
            initiated,
            completed,
            reset,
            timeout,
        } = core::mem::take(&mut self.counts);
        cx.chatter(format_args!(
            "init: {initiated}  comp: {completed:5}  tmo: {timeout:5}  rst: {reset:5}"
        ));
    }

    fn take(&mut self, cx: &mut Cx<'_>, segment: &Segment) {
        let own = segment.destination;
        let known = segment.source.1 == WEB && self.connections.contains_key(&own);
        if !known {
            self.refuse(cx, segment);
            return;
        }
        let Some(connection) = self.connections.get_mut(&own) else {
            return;
        };
        if segment.has(TcpFlags::RST) {
            self.connections.remove(&own);
            self.counts.reset += 1;
            return;
        }
        connection.take(segment);
        self.send(cx, own);
        if self
            .connections
            .get(&own)
            .is_some_and(|connection| connection.closed)
        {
            self.connections.remove(&own);
        }
    }

    /// Resets a segment of no connection.
    fn refuse(&mut self, cx: &mut Cx<'_>, segment: &Segment) {
        if segment.has(TcpFlags::RST) {
            return;
        }
        let reset = Segment {
            source: segment.destination,
            destination: segment.source,
            flags: TcpFlags::RST,
            sequence: segment.acknowledgment,
            acknowledgment: segment.sequence,
            payload: 0,
        };
        let style = self.style();
        if let Some(packet) = make(cx, &reset, &style, &[]) {
            cx.emit(0, packet);
        }
    }
}

impl Element for WebGen {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if !(1..=1_000_000).contains(&self.rate) {
            return Err(args.fail("RATE must be from 1 to 1000000"));
        }
        self.interval = SECOND / u64::from(self.rate.unsigned_abs());
        self.limit = 2 * self.rate as usize * RESENDS as usize;
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let (timer, now) = (cx.timer(), cx.steady());
        cx.schedule_at(timer, now);
        self.timer = Some(timer);
        self.next_start = now.after(self.interval);
        self.next_report = now.after(REPORT);
        Ok(())
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        if self.timer.is_some() {
            self.report(cx);
        }
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        let now = cx.steady();
        // Missed connections are caught up on, up to a limit.
        if now.since(self.next_start) > CATCH_UP {
            self.next_start = Steady(now.0 - CATCH_UP);
        }
        while now >= self.next_start {
            self.next_start = self.next_start.after(self.interval);
            if !self.start(cx) && now >= self.next_start {
                // The table is full: missed connections are given up, so that one message is enough.
                self.next_start = now.after(self.interval);
            }
        }
        self.resend(cx, now);
        if now >= self.next_report {
            self.next_report = now.after(REPORT);
            self.report(cx);
        }
        cx.schedule_after(timer, MILLISECOND);
    }

    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if let Some(segment) = Segment::parse(packet.data()) {
            self.take(cx, &segment);
        }
        Verdict::Drop
    }
}

#[cfg(test)]
mod tests {

    fn word(data: &[u8], at: usize) -> u32 {
        u32::from_be_bytes(*data[at..].first_chunk().unwrap())
    }

    /// The server's answer to a segment.
    fn answer(to: &[u8], sequence: u32, acknowledges: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
        let end = |at: usize| {
            let address: [u8; 4] = *to[at..].first_chunk().unwrap();
            let port = 20 + (at - 12) / 2;
            (address.into(), u16::from_be_bytes([to[port], to[port + 1]]))
        };
        let mut made = tcp(end(16), end(12), flags, payload);
        made[24..28].copy_from_slice(&sequence.to_be_bytes());
        made[28..32].copy_from_slice(&acknowledges.to_be_bytes());
        made
    }

    use crate::testing::*;

    #[test]
    fn a_page_is_fetched() {
        let config = "i :: Inject -> w :: WebGen(10.1.0.0/16, 2.0.0.2, 1) -> CheckIPHeader
            -> CheckTCPHeader -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.advance(SECOND + 2_000_000);
        let syn = rig.data("c").remove(0);
        assert_eq!(
            (&syn[12..14], &syn[16..20], syn[33]),
            (&[10, 1][..], &[2, 0, 0, 2][..], 2)
        );
        let start = word(&syn, 24).wrapping_add(1);
        rig.push("i", &answer(&syn, 500, start, 0x12, &[]));
        let request = rig.data("c").remove(0);
        assert_eq!(
            (word(&request, 24), word(&request, 28), request[33]),
            (start, 501, 0x19)
        );
        let text = String::from_utf8(request[40..].to_vec()).unwrap();
        assert!(
            text.starts_with("GET /spec/") && text.ends_with(" HTTP/1.0\r\n\r\n"),
            "{text}"
        );
        let end = start.wrapping_add(text.len() as u32 + 1);
        rig.push("i", &answer(&syn, 501, end, 0x19, b"the page"));
        let last = rig.data("c").remove(0);
        assert_eq!((word(&last, 28), last[33]), (510, 0x11));
        // No connection is open now: segments are reset, but resets are not.
        rig.push("i", &answer(&syn, 510, end, 0x10, &[]));
        assert_eq!(rig.data("c")[0][33], 4);
        rig.push("i", &answer(&syn, 510, end, 4, &[]));
        assert!(rig.data("c").is_empty());
        rig.end();
    }

    #[test]
    fn segments_without_answer_are_sent_again_and_given_up() {
        let mut rig = Rig::new("i :: Inject -> WebGen(10.1.2.3, 2.0.0.2, 1) -> c :: Collect;");
        rig.advance(5 * SECOND + 100_000_000);
        let ports: Vec<[u8; 2]> = rig
            .data("c")
            .iter()
            .map(|data| [data[20], data[21]])
            .collect();
        assert_eq!(ports.iter().filter(|port| **port == ports[0]).count(), 5);
        assert_eq!(
            rig.printed(),
            ["init: 5  comp:     0  tmo:     0  rst:     0"]
        );
        rig.advance(10 * SECOND);
        let printed = rig.printed();
        assert!(
            printed.iter().any(|line| line.contains("tmo:     5")),
            "{printed:?}"
        );
    }

    #[test]
    fn after_a_pause_few_connections_are_caught_up_on() {
        let config = "i :: Inject -> WebGen(10.0.0.0/8, 2.0.0.2, 1000) -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.advance(2_000_000);
        rig.data("c");
        rig.pause(3600 * SECOND);
        rig.run();
        let sent = rig.data("c").len();
        assert!((100..=110).contains(&sent), "{sent}");
    }

    #[test]
    fn rates_have_bounds() {
        Rig::refuses(
            "Idle -> WebGen(1.0.0.0/8, 2.0.0.2, 0) -> Discard;",
            "RATE must be from 1 to 1000000",
        );
    }
}
