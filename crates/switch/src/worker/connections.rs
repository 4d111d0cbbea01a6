//! The TCP connections of a port that has other ports behind it: each connection goes to one of these that has none,
//! from its SYN on, and all else to the port itself.
//!
//! A port behind another is in no domain: frames get to it by the front alone, and what it sends counts as sent by the
//! front. A connection is over when both sides have sent a FIN, or one an RST. Its port keeps it until the switch's
//! client gives the port the rings of a guest that does not run yet: late segments still get there, and the next SYN
//! of the same addresses and ports begins another connection.
//!
//! All guests have one address. An ARP answer goes to the ports that sent a request for its sender's address since the
//! last answer, and to all whose guests run if none did. Neighbor advertisements and ICMP errors go to all whose guests
//! run. Over IPv6, the flags of a segment may lie behind what the switch looks at ([`HEAD`]): then any segment
//! begins a connection, and none ends it.
//!
//! [`HEAD`]: crate::port::HEAD

use hashbrown::HashMap;

use crate::counters::Reason;
use crate::ids::PortIndex;
use crate::lookup::flow::FlowWords;
use crate::mac::Mac;
use crate::port::Frame;
use crate::qos::headers::{ARP, Bytes, HeaderError, Ip, ethertype};
use crate::qos::token_bucket::Nanos;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const ICMPV6: u8 = 58;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// Where a frame to the front goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// To the front's own guest.
    Front,
    /// To a port behind it.
    Behind(PortIndex),
    /// To the front's own guest, and to some behind it ([`Connections::takers`]).
    Several,
    /// Nowhere.
    Nowhere(Reason),
}

/// The connections of a front.
#[derive(Default)]
pub(super) struct Connections {
    /// The ports behind it.
    ports: HashMap<PortIndex, Behind>,
    /// Those without a connection. The last one to become free is the next to be used.
    free: Vec<PortIndex>,
    /// The ports of connections, by the direction to them.
    flows: HashMap<FlowWords, PortIndex>,
    /// The ports that sent an ARP request which is not answered yet.
    asking: Vec<Asking>,
    /// The ports that get the last frame which was for several.
    takers: Vec<PortIndex>,
}

/// A port whose guest waits for an ARP answer.
struct Asking {
    port: PortIndex,
    /// The IPv4 address that it asks for; none if it asks for several.
    address: Option<[u8; 4]>,
}

/// A port behind the front.
struct Behind {
    /// Whether its guest runs.
    runs: bool,
    /// When its guest came to run, or its connection last had a segment.
    busy: Nanos,
    taken: Option<Connection>,
}

struct Connection {
    /// The direction to the port.
    flow: FlowWords,
    /// Which sides have sent a FIN: the other host, the port.
    finished: [bool; 2],
    /// Since when it is over.
    over: Option<Nanos>,
}

impl Connection {
    fn new(flow: FlowWords) -> Connection {
        Connection {
            flow,
            finished: [false; 2],
            over: None,
        }
    }

    /// Notes the flags of a segment from the other host (0) or the port (1).
    fn note(&mut self, flags: u8, from: usize, now: Nanos) {
        self.finished[from] |= flags & FIN != 0;
        if flags & RST != 0 || self.finished == [true; 2] {
            self.over.get_or_insert(now);
        }
    }
}

/// A frame as far as it matters here.
enum Kind {
    /// A segment, with its flags if these are to be seen; none if it is a fragment, or cut short.
    Segment(Option<(FlowWords, Option<u8>)>),
    /// An ARP request for an address.
    Request([u8; 4]),
    /// An ARP answer from an address; an answer or an error of another kind, to whom is not to be seen.
    Answer(Option<[u8; 4]>),
    Other,
}

fn kind(frame: &Frame) -> Kind {
    let bytes = Bytes::new(frame.head(), frame.len());
    let Ok((kind, l3)) = ethertype(bytes) else {
        return Kind::Other;
    };
    if kind == ARP {
        let address = |at: usize| bytes.array::<4>(l3 + at).ok();
        return match bytes.word(l3 + 6) {
            Ok(1) => address(24).map_or(Kind::Other, Kind::Request),
            Ok(2) => Kind::Answer(address(14)),
            _ => Kind::Other,
        };
    }
    let Ok(Some(ip)) = Ip::parse(bytes, kind, l3) else {
        return Kind::Other;
    };
    let l4 = |at: usize| match ip.l4 {
        Some(l4) => bytes.byte(l4 + at),
        None => Err(HeaderError::Malformed),
    };
    match ip.transport {
        TCP => Kind::Segment(match (FlowWords::of(frame), l4(13)) {
            (None, _) | (_, Err(HeaderError::Malformed)) => None,
            (Some(flow), flags) => Some((flow, flags.ok())),
        }),
        ICMP if matches!(l4(0), Ok(3 | 4 | 5 | 11 | 12)) => Kind::Answer(None),
        ICMPV6 if matches!(l4(0), Ok(1..=4 | 136)) => Kind::Answer(None),
        _ => Kind::Other,
    }
}

impl Connections {
    /// Adds a port. If its guest runs, it may have a connection: the first segment that it sends tells.
    pub fn add(&mut self, port: PortIndex, runs: bool, now: Nanos) {
        let behind = Behind {
            runs,
            busy: now,
            taken: None,
        };
        self.ports.insert(port, behind);
        // So that no frame makes them grow.
        self.flows.reserve(2 * self.ports.len());
        self.free.reserve(self.ports.len() - self.free.len());
        self.asking.reserve(self.ports.len() - self.asking.len());
        self.takers.clear();
        self.takers.reserve(self.ports.len());
        if !runs {
            self.free.push(port);
        }
    }

    /// Removes a port, with its connection.
    pub fn remove(&mut self, port: PortIndex) {
        self.end(port);
        self.free.retain(|&free| free != port);
        self.ports.remove(&port);
    }

    /// Notes that a port's rings are now those of a guest that runs, or that is yet to be started. The latter has no
    /// connection.
    pub fn set_running(&mut self, port: PortIndex, runs: bool, now: Nanos) {
        if !runs {
            self.end(port);
        }
        let Some(behind) = self.ports.get_mut(&port) else {
            return;
        };
        (behind.runs, behind.busy) = (runs, now);
        if !runs && !self.free.contains(&port) {
            self.free.push(port);
        }
    }

    /// Ends the connection of a port.
    fn end(&mut self, port: PortIndex) {
        self.asking.retain(|asking| asking.port != port);
        let behind = self.ports.get_mut(&port);
        if let Some(Connection { flow, .. }) = behind.and_then(|behind| behind.taken.take())
            // Unless it is another's by now.
            && self.flows.get(&flow) == Some(&port)
        {
            self.flows.remove(&flow);
        }
    }

    /// Where a frame to the front goes, whose address is `mac`.
    pub fn way(&mut self, frame: &Frame, mac: Option<Mac>, now: Nanos) -> Way {
        if mac.is_some_and(|mac| mac.0[..] != frame.head()[..6]) {
            return Way::Front;
        }
        let (flow, flags) = match kind(frame) {
            Kind::Segment(Some(segment)) => segment,
            Kind::Segment(None) => return Way::Nowhere(Reason::NotAwaited),
            Kind::Answer(address) => {
                self.find_takers(address);
                return Way::Several;
            }
            Kind::Request(_) | Kind::Other => return Way::Front,
        };
        let begins = flags.is_none_or(|flags| flags & (SYN | ACK | RST) == SYN);
        let port = self.flows.get(&flow).copied();
        let known = port.and_then(|port| Some((port, self.ports.get_mut(&port)?)));
        if let Some((port, behind)) = known
            && let Some(connection) = &mut behind.taken
            && !(begins && connection.over.is_some())
        {
            connection.note(flags.unwrap_or(0), 0, now);
            behind.busy = now;
            return Way::Behind(port);
        }
        if !begins {
            return Way::Nowhere(Reason::NotAwaited);
        }
        let Some(port) = self.free.pop() else {
            return Way::Nowhere(Reason::NoGuest);
        };
        if let Some(behind) = self.ports.get_mut(&port) {
            behind.taken = Some(Connection::new(flow));
        }
        self.flows.insert(flow, port);
        Way::Behind(port)
    }

    /// Finds the ports that get an ARP answer: the ports that asked for this address, else all whose guests run.
    fn find_takers(&mut self, address: Option<[u8; 4]>) {
        let Connections {
            ports,
            asking,
            takers,
            ..
        } = self;
        takers.clear();
        if address.is_some() {
            asking.retain(|asking| {
                let is_for = asking.address.is_none() || asking.address == address;
                if is_for {
                    takers.push(asking.port);
                }
                // One that asks for several gets all answers.
                !is_for || asking.address.is_none()
            });
        }
        if takers.is_empty() {
            let running = ports.iter().filter(|(_, behind)| behind.runs);
            takers.extend(running.map(|(&port, _)| port));
        }
    }

    /// Notes that a port asks for an address.
    fn ask(&mut self, port: PortIndex, address: [u8; 4]) {
        let asking = self.asking.iter_mut().find(|asking| asking.port == port);
        match asking {
            Some(asking) if asking.address != Some(address) => asking.address = None,
            Some(_) => {}
            None => self.asking.push(Asking {
                port,
                address: Some(address),
            }),
        }
    }

    /// Notes frames that a port behind sends.
    pub fn see(&mut self, port: PortIndex, frames: &[Frame], now: Nanos) {
        for frame in frames {
            let Some(behind) = self.ports.get_mut(&port) else {
                return;
            };
            let (flow, flags) = match kind(frame) {
                Kind::Segment(Some(segment)) => segment,
                Kind::Request(address) => {
                    self.ask(port, address);
                    continue;
                }
                _ => continue,
            };
            let flow = flow.reversed();
            if behind.taken.is_none() && !self.flows.contains_key(&flow) {
                // A guest that was there before this switch, say.
                behind.taken = Some(Connection::new(flow));
                self.flows.insert(flow, port);
                self.free.retain(|&free| free != port);
            }
            let own = behind.taken.as_mut().filter(|own| own.flow == flow);
            if let Some(own) = own {
                own.note(flags.unwrap_or(0), 1, now);
                behind.busy = now;
            }
        }
    }

    /// The ports whose connections are over for `grace`, or had no segment for `idle`.
    pub fn over(&self, now: Nanos, grace: Nanos, idle: Nanos) -> Vec<PortIndex> {
        let is_over = |behind: &Behind| {
            let over = behind.taken.as_ref().and_then(|taken| taken.over);
            let ended = over.is_some_and(|over| now.saturating_sub(over) >= grace);
            behind.runs && (ended || now.saturating_sub(behind.busy) >= idle)
        };
        let ports = self.ports.iter().filter(|(_, behind)| is_over(behind));
        ports.map(|(&port, _)| port).collect()
    }

    /// The ports that get the last frame which was for several.
    pub fn takers(&self) -> &[PortIndex] {
        &self.takers
    }
}

#[cfg(test)]
mod tests;
