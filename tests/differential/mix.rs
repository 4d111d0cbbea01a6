//! Configurations as a user could write them: chains, switches, queues and schedulers around
//! elements that read and write headers, each where packets are what it expects.
//!
//! Packets come to the element `in`, from one task that sends at most 32 at a time. Queues are drained faster than they
//! fill, so none is lost by the order in which a program runs its tasks, and the sinks `s0`, `s1` and so on count the
//! same in every program.

use super::random::Random;

/// Most packets that arrive at once.
pub const BURST: usize = 32;
/// Most copies of a packet that may be on their ways.
const COPIES: usize = 8;

/// What packets are at some place in a configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
struct State {
    /// What a packet starts with.
    start: Start,
    /// The IP header is marked.
    is_marked: bool,
    /// The destination annotation is set.
    has_destination: bool,
    protocol: Option<Protocol>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Start {
    Ethernet,
    Ip,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Protocol {
    Udp,
    Tcp,
    Icmp,
}

/// An output that leads nowhere yet.
#[derive(Clone)]
struct End {
    from: String,
    state: State,
    is_push: bool,
    /// How many packets may come of one that arrived.
    copies: usize,
}

/// Elements for any packet, pushed or pulled: their outputs are as their input.
const ANY: &str = "Null|Counter|AverageCounter|Paint(#)|SetAnnoByte(#, #)|CheckLength(1500)|Truncate(1400)|Pad(46)|\
    SetTimestamp|Align(4, 2)|AggregatePaint(4)|SetPacketType(MULTICAST)|MarkMACHeader|Suppressor";
/// Elements for Ethernet frames. `VLAN` stands for two that put a tag on and take it off.
const ETHERNET: &str = "Strip(14)|Strip(14)|Strip(14)|MarkIPHeader(14)|CheckIPHeader(OFFSET 14)|EtherMirror|\
    EtherRewrite(1:1:1:1:1:1, 2:2:2:2:2:2)|StoreEtherAddress(3:3:3:3:3:3, src)|StoreEtherAddress(4:4:4:4:4:4, dst)|\
    VLAN|DropBroadcasts|GetIPAddress(30)|GetEtherAddress(0, 6)";
/// Switches for pushed Ethernet frames, and their number of outputs.
const ETHERNET_SWITCHES: &str = "2 Classifier(12/0800, -)|3 Classifier(23/11, 23/06, -)|4 Classifier(33/00%03, 33/01%03, 33/02%03, -)|\
    2 HostEtherFilter(0:0:0:0:0:2, DROP_OTHER false)|3 HashSwitch(26, 4)|2 ARPResponder(10.0.0.1 2:2:2:2:2:2)";
/// Elements for IP packets.
const IP: &str = "CheckIPHeader|CheckIPHeader(CHECKSUM false)|MarkIPHeader|CheckIPHeader2|GetIPAddress(16)|EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2)";
/// Elements for IP packets whose header is marked. A protocol stands for a filter and elements for its packets.
const MARKED: &str = "DecIPTTL|DecIPTTL|SetIPDSCP(#)|SetIPECN(ect1)|MarkIPCE|SetIPChecksum|IPMirror|StoreIPAddress(10.0.0.9, src)|\
    FixIPSrc(10.0.0.7)|IPGWOptions(10.0.0.1)|AggregateIP(ip src/24)|AggregateIPFlows|AggregateLength|\
    CheckIPHeader|SetIPAddress(10.0.0.8)|IPEncap(4, 10.0.0.1, 10.0.0.2)|UDPIPEncap(10.0.0.1, 53, 10.0.0.2, 54)|\
    EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2)|IPFilter(deny src 10.0.0.3 && tcp, allow all)|IPFragmenter(1000)|UDP|TCP|ICMP";
/// Those of them that are only pushed to.
const PUSHED: [&str; 5] = ["IPFilter", "IPFragmenter", "UDP", "TCP", "ICMP"];
/// Switches for pushed IP packets whose header is marked.
const MARKED_SWITCHES: &str = "3 IPClassifier(udp, tcp, -)|3 IPClassifier(udp, tcp, -)|2 IPClassifier(src net 10.0.0.0/30, -)|\
    4 IPClassifier(dst port 53, src port 80, icmp type echo, -)|2 IPFilter(0 tcp, 1 all)|2 IPFilter(0 udp && dst port < 1024, 0 icmp, 1 all)|\
    2 CheckIPHeader|2 DecIPTTL";
/// Lookups of the destination annotation.
const LOOKUPS: &str =
    "StaticIPLookup|RadixIPLookup|DirectIPLookup|LinearIPLookup|RangeIPLookup|SortedIPLookup";
/// Elements for any pushed packet, and their number of outputs.
const SWITCHES: &str = "2 Tee|3 Tee|2 RoundRobinSwitch|3 RoundRobinSwitch|2 StrideSwitch(1, 2)|2 Switch(1)|3 HashSwitch(12, 4)|\
    2 PaintTee(1)|2 CheckPaint(1)|4 HashSwitch(16, 2)|3 PaintSwitch";
const QUEUES: &str = "Queue|SimpleQueue|NotifierQueue|ThreadSafeQueue|FullNoteQueue|FrontDropQueue";

/// A configuration under way.
struct Mix {
    statements: Vec<String>,
    elements: usize,
    ends: Vec<End>,
    sinks: usize,
}

impl Mix {
    fn declare(&mut self, element: &str) -> String {
        let name = format!("e{}", self.elements);
        self.elements += 1;
        self.statements.push(format!("{name} :: {element};"));
        name
    }

    fn connect(&mut self, end: &End, to: &str) {
        self.statements.push(format!("{} -> {to};", end.from));
    }

    /// Connects an element of one input behind an end. Its outputs are new ends, as that one is otherwise.
    fn attach(&mut self, end: &End, element: &str, outputs: usize) -> String {
        let name = self.declare(element);
        self.connect(end, &name);
        self.ends.extend((0..outputs).map(|output| End {
            from: format!("{name}[{output}]"),
            ..end.clone()
        }));
        name
    }

    /// Connects elements of one input and one output behind an end, one after the other.
    fn chain(&mut self, mut end: End, elements: &[&str]) {
        for element in elements {
            let name = self.declare(element);
            self.connect(&end, &name);
            end.from = format!("{name}[0]");
        }
        self.ends.push(end);
    }

    /// One more element behind one of the ends.
    fn grow(&mut self, random: &mut Random) {
        let end = self.ends.swap_remove(random.below(self.ends.len()));
        match random.below(10) {
            0 | 1 => self.change_direction(random, end),
            2 | 3 if end.is_push => self.spread(random, end),
            4 => self.join(random, end),
            _ => self.continue_at(random, end),
        }
    }

    /// Queues, and what pulls from them.
    fn change_direction(&mut self, random: &mut Random, mut end: End) {
        if end.is_push {
            let queue = format!("{}({})", random.one(QUEUES), 1 << 14);
            end.is_push = false;
            self.chain(end, &[&queue]);
        } else if random.chance(20) && end.copies * 2 <= COPIES {
            end.copies *= 2;
            self.attach(&end, "PullTee", 2);
            self.ends.last_mut().unwrap().is_push = true;
        } else {
            end.is_push = true;
            self.chain(end, &[&unqueue()]);
        }
    }

    /// Several outputs.
    fn spread(&mut self, random: &mut Random, mut end: End) {
        let state = end.state;
        let kind = match (random.below(4), state.start, state.is_marked) {
            (0, ..) => SWITCHES,
            (_, Start::Ethernet, false) => ETHERNET_SWITCHES,
            (1, Start::Ip, true) if state.has_destination => {
                let lookup = format!(
                    "{}(10.0.0.0/30 0, 10.0.0.4/30 1, 192.168.0.0/16 1, 0/0 2)",
                    random.one(LOOKUPS)
                );
                self.attach(&end, &lookup, 3);
                return;
            }
            (2, Start::Ip, true) => {
                self.attach(&end, rewriter(random, state.protocol), 2);
                return;
            }
            (_, Start::Ip, true) => MARKED_SWITCHES,
            _ => SWITCHES,
        };
        let (outputs, element) = random.one(kind).split_once(' ').unwrap();
        let outputs: usize = outputs.parse().unwrap();
        if element.contains("Tee") {
            if end.copies * outputs > COPIES {
                self.ends.push(end);
                return;
            }
            end.copies *= outputs;
        }
        self.attach(&end, element, outputs);
        if element.starts_with("IPClassifier(udp, tcp") {
            let protocols = [Some(Protocol::Udp), Some(Protocol::Tcp), None];
            let new = self.ends.len() - outputs;
            for (end, protocol) in self.ends[new..].iter_mut().zip(protocols) {
                end.state.protocol = protocol;
            }
        }
    }

    /// Two ends become one: pushed packets meet at an element's input, pulled ones at a scheduler.
    fn join(&mut self, random: &mut Random, mut end: End) {
        let is_alike = |other: &End| {
            other.is_push == end.is_push
                && other.state == end.state
                && other.copies + end.copies <= COPIES
        };
        let Some(at) = self.ends.iter().position(is_alike) else {
            self.continue_at(random, end);
            return;
        };
        let other = self.ends.swap_remove(at);
        end.copies += other.copies;
        if end.is_push {
            let name = self.attach(&end, random.one("Null|Counter|Paint(1)"), 1);
            self.connect(&other, &name);
        } else {
            let class = random
                .one("RoundRobinSched|PrioSched|DRRSched|StrideSched(1, 2)|SimpleRoundRobinSched");
            let name = self.attach(&end, class, 1);
            self.connect(&other, &format!("[1] {name}"));
        }
    }

    /// An element of one input and one output.
    fn continue_at(&mut self, random: &mut Random, mut end: End) {
        let state = end.state;
        let kind = match (random.below(4), state.start, state.is_marked) {
            (0, ..) => ANY,
            (_, Start::Ethernet, _) => ETHERNET,
            (1, Start::Ip, true) => IP,
            (_, Start::Ip, true) => MARKED,
            (_, Start::Ip, false) => IP,
        };
        let element = random.one(kind).replace('#', random.one("1|2|3"));
        let class = element.split('(').next().unwrap_or("");
        if !end.is_push && PUSHED.contains(&class) {
            return self.change_direction(random, end);
        }
        let next = &mut end.state;
        match class {
            "Strip" => next.start = Start::Ip,
            "EtherEncap" => next.start = Start::Ethernet,
            "MarkIPHeader" => next.is_marked = true,
            "CheckIPHeader" | "CheckIPHeader2" => {
                (next.is_marked, next.has_destination) = (true, true);
            }
            "GetIPAddress" | "SetIPAddress" => next.has_destination = true,
            "IPEncap" => next.protocol = None,
            "UDPIPEncap" => next.protocol = Some(Protocol::Udp),
            // Click marks a network header at the wrong place.
            "VLAN" => next.is_marked = false,
            _ => {}
        }
        match class {
            "VLAN" => self.chain(end, &["VLANEncap(7)", "VLANDecap"]),
            "UDP" | "TCP" | "ICMP" => self.only(random, end, class),
            _ => self.chain(end, &[&element]),
        }
    }

    /// Packets of one protocol, and elements for them.
    fn only(&mut self, random: &mut Random, mut end: End, protocol: &str) {
        let (pattern, protocol, checks, elements) = match protocol {
            "UDP" => (
                "udp",
                Protocol::Udp,
                "CheckUDPHeader",
                "Null|SetUDPChecksum",
            ),
            "TCP" => (
                "tcp",
                Protocol::Tcp,
                "CheckTCPHeader",
                "Null|SetTCPChecksum",
            ),
            _ => (
                "icmp",
                Protocol::Icmp,
                "CheckICMPHeader",
                "Null|ICMPPingResponder",
            ),
        };
        if end.state.protocol.is_some_and(|its| its != protocol) {
            return self.ends.push(end);
        }
        end.state.protocol = Some(protocol);
        let filter = format!("IPFilter(allow {pattern}, deny all)");
        self.chain(end, &[&filter, checks, random.one(elements)]);
    }

    /// Each end leads to a sink.
    fn finish(&mut self) {
        for end in std::mem::take(&mut self.ends) {
            let pull = match end.is_push {
                true => String::new(),
                false => unqueue() + " -> ",
            };
            let sink = self.sinks;
            self.sinks += 1;
            self.statements.push(format!(
                "{} -> {pull}s{sink} :: Counter -> Discard;",
                end.from
            ));
        }
    }
}

/// What pulls faster than packets come.
fn unqueue() -> String {
    format!("Unqueue(BURST {})", BURST * COPIES * 2)
}

/// A rewriter of addresses or ports.
fn rewriter(random: &mut Random, protocol: Option<Protocol>) -> &'static str {
    random.one(match protocol {
        Some(Protocol::Udp) => {
            "UDPRewriter(pattern 10.9.0.1 - - - 0 1)|IPAddrRewriter(pattern 10.9.0.1 - 0 1)|\
             IPRewriter(pattern - - 10.9.0.2 - 0 1)"
        }
        Some(Protocol::Tcp) => {
            "TCPRewriter(pattern 10.9.0.1 - - - 0 1)|IPAddrRewriter(pattern - 10.9.0.2 0 1)|\
             IPRewriter(pattern 10.9.0.1 - - - 0 1)"
        }
        _ => "IPAddrRewriter(pattern - 10.9.0.2 0 1)|IPAddrRewriter(keep 0 1)",
    })
}

/// The statements of a configuration of about so many elements, and its number of sinks.
pub fn mix(random: &mut Random, elements: usize) -> (Vec<String>, usize) {
    let state = State {
        start: Start::Ethernet,
        is_marked: false,
        has_destination: false,
        protocol: None,
    };
    let start = End {
        from: "in".into(),
        state,
        is_push: true,
        copies: 1,
    };
    let mut mix = Mix {
        statements: vec!["in :: Null;".into()],
        elements: 0,
        ends: vec![start],
        sinks: 0,
    };
    while mix.elements < elements {
        mix.grow(random);
    }
    mix.finish();
    (mix.statements, mix.sinks)
}
