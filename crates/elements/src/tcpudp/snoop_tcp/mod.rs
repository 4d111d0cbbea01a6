mod connection;
#[cfg(test)]
mod tests;

use hashbrown::HashMap;

use self::connection::{Acknowledgment, Connection, Fate};

use crate::prelude::*;

/// Most connections.
const CONNECTIONS_MAX: usize = 1024;
/// One part in this many of the packet buffers may hold segments.
const POOL_SHARE: usize = 4;
/// After this many seconds, a connection makes room for others.
const IDLE: u64 = 10;

/// Retransmits TCP segments that were lost on a wireless link, invisibly to the sender.
///
/// Place it where the wired network ends (Balakrishnan and others, "Improving TCP/IP performance
/// over wireless networks", 1995). It keeps a copy of each segment from a server to a mobile host
/// until the host acknowledges it. When the host's duplicate acknowledgments indicate a loss, it
/// sends the copy and drops the duplicates, which the server would read as congestion. After two
/// copies without success, the duplicates pass to the server. After the server itself retransmits a
/// segment, acknowledgments for it pass unchanged.
///
/// Packets must have their IP header marked; packets that are not TCP pass unchanged. There are no
/// timers: the server retransmits a lost segment that no other segment follows.
///
/// The table holds 1024 connections and a quarter of the packet buffers. A segment without room is
/// not kept, unless another connection was idle for ten seconds.
///
/// # Example
/// ```click
/// snoop :: SnoopTCP;
/// FromDump(wired.pcap) -> Strip(14) -> CheckIPHeader -> [0] snoop [0] -> Discard;
/// FromDump(wireless.pcap) -> Strip(14) -> CheckIPHeader -> [1] snoop [1] -> Discard;
/// snoop[2] -> IPPrint(again) -> Discard;
/// snoop[3] -> Discard;
/// ```
///
/// # See also
/// TCPFragmenter
#[derive(Element)]
#[element(ports = "2/4", processing = "aa/aahh", flow = "xyz/xy")]
#[inputs(
    "packets from servers to mobile hosts",
    "packets from mobile hosts to servers"
)]
#[outputs(
    "the packets of input 0",
    "the packets of input 1, without the suppressed acknowledgments",
    "segments retransmitted to mobile hosts",
    "nothing"
)]
pub struct SnoopTCP {
    /// Number of connections.
    #[handler(read = HashMap::len)]
    connections: HashMap<Key, Connection>,
    /// Segments in the cache.
    #[handler(read)]
    cached: usize,
    cached_max: usize,
    /// When idle connections were last looked for, in seconds.
    cleared: u64,
    /// Segments retransmitted.
    #[handler(read)]
    retransmissions: u64,
    /// Acknowledgments not passed to servers.
    #[handler(read)]
    suppressed: u64,
}

/// A server and a mobile host, with their ports.
type Key = [(Ipv4Addr, u16); 2];

/// What counts of a segment.
struct Seen {
    source: (Ipv4Addr, u16),
    destination: (Ipv4Addr, u16),
    flags: TcpFlags,
    sequence: TcpSequence,
    acknowledgment: TcpSequence,
    window: u16,
    length: u32,
}

impl Seen {
    fn of(packet: &Packet) -> Option<Seen> {
        let ip = Ipv4Packet::new_checked(packet.network_header()?).ok()?;
        if ip.protocol() != IpProtocol::TCP || ip.is_fragment() {
            return None;
        }
        let tcp = TcpPacket::new_checked(ip.payload()).ok()?;
        Some(Seen {
            source: (ip.source(), tcp.source()),
            destination: (ip.destination(), tcp.destination()),
            flags: tcp.flags(),
            sequence: tcp.sequence(),
            acknowledgment: tcp.acknowledgment(),
            window: tcp.window(),
            length: tcp.payload().len() as u32,
        })
    }
}

impl SnoopTCP {
    fn remove(&mut self, key: &Key) {
        if let Some(connection) = self.connections.remove(key) {
            self.cached -= connection.len();
        }
    }

    /// Forgets connections that are idle, once a second at most.
    fn clear_idle(&mut self, now: u64) {
        if now == self.cleared {
            return;
        }
        self.cleared = now;
        let cached = &mut self.cached;
        self.connections.retain(|_, connection| {
            let stays = now.saturating_sub(connection.used) < IDLE;
            *cached -= if stays { 0 } else { connection.len() };
            stays
        });
    }

    /// A packet on its way to a mobile host.
    fn see_data(&mut self, cx: &mut Cx<'_>, packet: &Packet, now: u64) {
        let Some(seen) = Seen::of(packet) else {
            return;
        };
        let key = [seen.source, seen.destination];
        if seen.flags.intersects(TcpFlags::SYN | TcpFlags::RST) {
            return self.remove(&key);
        }
        if seen.length == 0 {
            return;
        }
        let full = |snoop: &Self| {
            let new = !snoop.connections.contains_key(&key);
            snoop.cached >= snoop.cached_max || new && snoop.connections.len() >= CONNECTIONS_MAX
        };
        if full(self) {
            self.clear_idle(now);
            if full(self) {
                return;
            }
        }
        let first = seen.sequence;
        let connection = self
            .connections
            .entry(key)
            .or_insert_with(|| Connection::new(first, now));
        connection.used = now;
        if !connection.wants(first) {
            return;
        }
        let Some(copy) = cx.pool().clone(packet) else {
            return;
        };
        self.cached += 1;
        if let Some(old) = connection.keep(copy, first, seen.length) {
            self.cached -= 1;
            cx.kill(old);
        }
    }

    /// A packet of a mobile host; returns whether the server is to have it.
    fn see_acknowledgment(&mut self, cx: &mut Cx<'_>, packet: &Packet, now: u64) -> bool {
        let Some(seen) = Seen::of(packet) else {
            return true;
        };
        let key = [seen.destination, seen.source];
        if seen.flags.intersects(TcpFlags::SYN | TcpFlags::RST) {
            self.remove(&key);
            return true;
        }
        let connection = self.connections.get_mut(&key);
        let Some(connection) = connection.filter(|_| seen.flags.contains(TcpFlags::ACK)) else {
            return true;
        };
        connection.used = now;
        let ack = Acknowledgment {
            number: seen.acknowledgment,
            window: seen.window,
            with_data: seen.length > 0 || seen.flags.contains(TcpFlags::FIN),
        };
        let cached = &mut self.cached;
        let fate = connection.acknowledge(ack, |packet| {
            *cached -= 1;
            cx.kill(packet);
        });
        match fate {
            Fate::Pass => return true,
            Fate::Suppress => {}
            Fate::Retransmit(packet) => {
                if let Some(copy) = cx.pool().clone(packet) {
                    self.retransmissions += 1;
                    cx.emit(2, copy);
                }
            }
        }
        self.suppressed += 1;
        false
    }

    fn see(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        let now = cx.steady().0 / 1_000_000_000;
        if port == 0 {
            for packet in batch.iter() {
                self.see_data(cx, packet, now);
            }
            return;
        }
        batch.filter(
            &mut (self, cx),
            |(snoop, cx), packet| (!snoop.see_acknowledgment(cx, packet, now)).then_some(()),
            |(_, cx), packet, ()| cx.kill(packet),
        );
    }
}

impl Element for SnoopTCP {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.cached_max = (cx.pool().own() / POOL_SHARE).max(1);
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) -> usize {
        self.see(cx, port, batch);
        port
    }

    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, _batch: &mut Batch, most: usize) {
        cx.pull_through(port, most);
    }

    fn pulled(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        self.see(cx, port, batch);
    }
}
