mod frames;
mod pace;
mod sizes;
mod turns;

use frames::{Flow, Frames, Range};
use pace::{Pace, Speed};
use sizes::Sizes;
use turns::Turns;

use super::stamp::{FLOWS_MAX, RUNS, Stamp};
use crate::prelude::*;
use crate::rates::traffic::Traffic;

/// Ports that a source address may have.
const PORTS: u32 = 1 << 16;
/// Time before a packet is due in which the source does not sleep.
const POLLING: u64 = 50_000;

/// A flow's packets so far.
#[derive(Clone, Copy, Default)]
struct Sent {
    packets: u32,
    /// Bytes of payload, modulo 2^32.
    bytes: u32,
}

/// Makes Ethernet frames of flows with numbers and times, for a TrafficSink to measure.
///
/// Flows take turns. Flow *n* has the *n*-th address of SRC and of DST, which start over at the end of
/// their prefixes, and each time that all addresses of SRC were used, the source port is one higher. So no
/// two flows are the same. TCP segments carry ACK, and consecutive sequence numbers.
///
/// Behind the transport header stand 18 bytes: a number that tells runs apart, the flow, the
/// packet's number in its flow, and the time of its batch. The rest of the payload is zero.
/// The shortest frames are 60 bytes for UDP over IPv4, 72 for TCP over IPv4, 80 and 92 over IPv6.
/// Sizes below that are lengthened.
///
/// SIZES are those of frames, without the frame check sequence: one or more, each with its weight
/// after a colon, or `imix` for `60:7 590:4 1514:1`. RATE counts the bits of these frames, or
/// packets with k or M. A source that cannot keep its rate catches up on 10 ms at most.
///
/// # Example
/// ```click
/// TrafficSource(FLOWS 100, SIZES imix, RATE 10Mbps, DURATION 1s, STOP true)
///     -> Unqueue -> s :: TrafficSink -> Discard;
/// DriverManager(pause, print s.rate, print s.lost);
/// ```
///
/// # See also
/// TrafficSink, FastUDPFlows, NumberPacket
#[derive(Element)]
#[element(ports = "0/1", processing = "l", handlers)]
pub struct TrafficSource {
    /// The source Ethernet address.
    #[arg(name = "SRCETH")]
    source_ether: EtherAddress,
    /// The destination Ethernet address.
    #[arg(name = "DSTETH", default = EtherAddress([0xff; 6]))]
    destination_ether: EtherAddress,
    /// The source address, or the prefix of several, from the given one on.
    #[arg(name = "SRC", default = Range::V4(Ipv4Addr::new(198, 18, 0, 1), 0))]
    source: Range,
    /// The destination address, or the prefix of several, from the given one on.
    #[arg(name = "DST", default = Range::V4(Ipv4Addr::new(198, 18, 1, 1), 0))]
    destination: Range,
    /// `udp` or `tcp`.
    #[arg(default = IpProtocol::UDP)]
    protocol: IpProtocol,
    /// Whether TCP segments are SYNs, as those of a flood.
    #[arg(default = false)]
    syn: bool,
    /// The source port of the first flows.
    #[arg(name = "SPORT", default = 1024)]
    source_port: u16,
    /// The destination port.
    #[arg(name = "DPORT", default = 9)]
    destination_port: u16,
    /// Flows, 1048576 at most.
    #[arg(default = 1, read)]
    flows: u32,
    /// Sizes of frames.
    #[arg]
    sizes: Sizes,
    /// Packets or bits a second; 0: as fast as they are pulled.
    #[arg(name = "RATE")]
    pace_rate: Speed,
    /// Packets after which it stops; 0: no limit.
    #[arg(name = "COUNT", default = 0)]
    limit: u64,
    /// Time after which it stops; 0: no limit.
    #[arg]
    duration: Timestamp,
    /// Whether it makes packets. Writing true begins another run.
    #[arg(default = true, read, write, checkbox, then = activated)]
    active: bool,
    /// Whether it stops the driver at its end.
    #[arg]
    stop: bool,
    /// Packets made.
    #[handler(read)]
    count: u64,
    /// Their bytes.
    #[handler(read, name = "byte_count")]
    bytes: u64,
    #[flatten]
    traffic: Traffic,
    frames: Frames,
    pace: Pace,
    sent: Vec<Sent>,
    turns: Turns,
    run: u32,
    started: Option<Steady>,
    /// Whether the end of the run was seen.
    ended: bool,
    signal: Option<SignalId>,
    timer: Option<TimerId>,
}

#[handlers]
impl TrafficSource {
    /// The argument RATE. The run goes on.
    #[write(
        name = "rate",
        error = "expected packets a second, or bits a second with a unit, as in 100Mbps"
    )]
    fn change_rate(&mut self, cx: &mut Cx<'_>, rate: Speed) {
        self.pace.set(rate);
        self.wake(cx, true);
    }

    /// Whether all packets were made.
    #[read]
    fn done(&self) -> bool {
        self.ended
    }

    /// Begins another run: counts and numbers start at 0.
    #[write(button)]
    fn reset(&mut self, cx: &mut Cx<'_>) {
        self.begin(cx);
        self.wake(cx, true);
    }
}

impl TrafficSource {
    fn activated(&mut self, cx: &mut Cx<'_>) {
        if self.active {
            self.reset(cx);
        }
    }

    fn begin(&mut self, cx: &mut Cx<'_>) {
        self.run = match self.started {
            // A run must not look like the one before.
            Some(_) => (self.run + 1) % RUNS,
            None => cx.random().below(RUNS),
        };
        self.sent.fill(Sent::default());
        let addresses = self.source.len(FLOWS_MAX).max(1);
        self.turns = Turns::new(self.flows, addresses, self.sizes.len());
        (self.count, self.bytes) = (0, 0);
        (self.started, self.ended) = (None, false);
    }

    fn wake(&self, cx: &mut Cx<'_>, active: bool) {
        if let Some(signal) = self.signal {
            cx.set_signal(signal, active);
        }
    }

    /// Checks addresses and ports, and prepares the template.
    fn prepare(&mut self, args: &Args<'_>) -> Result<(), Failed> {
        let same = matches!(
            (self.source, self.destination),
            (Range::V4(..), Range::V4(..)) | (Range::V6(..), Range::V6(..))
        );
        if !same {
            return Err(args.fail("SRC and DST must be of one family, IPv4 or IPv6"));
        }
        if ![IpProtocol::UDP, IpProtocol::TCP].contains(&self.protocol) {
            return Err(args.fail("PROTOCOL must be udp or tcp"));
        }
        if self.syn && self.protocol != IpProtocol::TCP {
            return Err(args.fail("SYN needs PROTOCOL tcp"));
        }
        if !(1..=FLOWS_MAX).contains(&self.flows) {
            return Err(args.fail(format_args!("FLOWS must be from 1 to {FLOWS_MAX}")));
        }
        let addresses = self.source.len(FLOWS_MAX);
        let ports = PORTS - u32::from(self.source_port);
        if u64::from(self.flows) > u64::from(addresses) * u64::from(ports) {
            return Err(args.fail(format_args!(
                "FLOWS {}: {addresses} source addresses with {ports} ports make fewer; give SRC a prefix, \
                 or a lower SPORT",
                self.flows
            )));
        }
        self.frames = Frames {
            source: self.source,
            destination: self.destination,
            protocol: self.protocol,
            is_syn: self.syn,
            port: self.destination_port,
            template: Vec::new(),
        };
        let least = self.frames.least() as u32;
        if self.sizes.least() < least {
            self.sizes.raise(least);
        }
        let most = self.sizes.most();
        self.frames
            .prepare(self.source_ether, self.destination_ether, most);
        Ok(())
    }

    /// Whether the run is over at `now`.
    #[inline]
    fn is_over(&self, now: Steady) -> bool {
        let counted = self.limit > 0 && self.count >= self.limit;
        let timed = self.duration.0 > 0
            && self
                .started
                .is_some_and(|started| now.since(started) >= self.duration.0 as u64);
        counted || timed
    }

    /// The next packet, if there is memory.
    #[inline]
    fn make(&mut self, cx: &mut Cx<'_>, now: Steady, time: i64) -> Option<Packet> {
        let turn = self.turns;
        let size = self.sizes.nth(turn.size);
        let flow = Flow {
            source: turn.address,
            destination: turn.flow,
            port: self.source_port.wrapping_add(turn.round),
        };
        let sent = self.sent.get_mut(turn.flow as usize)?;
        let stamp = Stamp {
            run: self.run,
            flow: turn.flow,
            sequence: sent.packets,
            time,
        };
        let packet = self.frames.make(cx.pool(), size, flow, sent.bytes, stamp)?;
        sent.packets = sent.packets.wrapping_add(1);
        sent.bytes = sent.bytes.wrapping_add(self.frames.payload(size));
        self.turns.advance();
        self.count += 1;
        self.bytes += u64::from(size);
        self.pace.made(now, size as usize);
        Some(packet)
    }

    #[cold]
    fn end(&mut self, cx: &mut Cx<'_>) {
        self.wake(cx, false);
        if !self.ended && self.stop {
            cx.stop();
        }
        self.ended = true;
    }
}

impl Element for TrafficSource {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.prepare(args)?;
        self.pace.set(self.pace_rate);
        if self.signal.is_none() {
            self.signal = Some(cx.signal(Notice::Empty, true));
        }
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let flows = self.flows as usize;
        if self.sent.try_reserve_exact(flows).is_err() {
            return Err(cx.error(format_args!("out of memory for {flows} flows")));
        }
        self.sent.resize(flows, Sent::default());
        self.timer = Some(cx.timer());
        self.begin(cx);
        Ok(())
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        if !self.active {
            return self.wake(cx, false);
        }
        let (now, time) = (cx.steady(), cx.wall());
        self.started.get_or_insert(now);
        let (count, bytes) = (self.count, self.bytes);
        while batch.len() < most && !self.is_over(now) {
            if let Some(due) = self.pace.wait(now) {
                if due.since(now) > POLLING
                    && let Some(timer) = self.timer
                    && batch.is_empty()
                {
                    self.wake(cx, false);
                    cx.schedule_at(timer, due);
                }
                break;
            }
            let Some(packet) = self.make(cx, now, time) else {
                break;
            };
            if let Err(packet) = batch.push(packet) {
                cx.kill(packet);
                break;
            }
        }
        self.traffic
            .update(now, self.count - count, self.bytes - bytes);
        if batch.is_empty() && self.is_over(now) {
            self.end(cx);
        }
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        self.wake(cx, true);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use crate::testing::*;

    #[test]
    fn flows_take_turns_and_differ() {
        for (protocol, address, offset, least) in [
            ("udp", "SRC 10.0.0.254/30, DST 10.1.0.0/16", 14 + 20, 60),
            ("tcp", "SRC 10.0.0.254/30, DST 10.1.0.0/16", 14 + 20, 72),
            (
                "udp",
                "SRC 2001:db8::ff/126, DST 2001:db8:1::1/64",
                14 + 40,
                80,
            ),
            (
                "tcp",
                "SRC 2001:db8::ff/126, DST 2001:db8:1::1/64",
                14 + 40,
                92,
            ),
        ] {
            let config = format!(
                "s :: TrafficSource({address}, PROTOCOL {protocol}, FLOWS 10, SIZES 60 200 1514, COUNT 60)
                 -> p :: Puller;"
            );
            let mut rig = Rig::new(&config);
            let mut flows: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
            let mut sizes = BTreeSet::new();
            for packet in rig.pull("p", 64) {
                let data = packet.data();
                sizes.insert(data.len());
                let transport = &data[offset..];
                let number = if protocol == "tcp" { 6 } else { 17 };
                let pseudo = match data[12..14] {
                    [8, 0] => {
                        assert_eq!(checksum(&data[14..34]), 0);
                        [&data[26..34], &[0, number]].concat()
                    }
                    _ => [&data[22..54], &[0, number]].concat(),
                };
                let length = (transport.len() as u16).to_be_bytes();
                assert_eq!(checksum(&[&pseudo[..], &length, transport].concat()), 0);
                *flows
                    .entry([&pseudo[..], &transport[..4]].concat())
                    .or_default() += 1;
            }
            assert_eq!(flows.len(), 10);
            assert!(flows.values().all(|count| *count == 6));
            assert_eq!(sizes, BTreeSet::from([least, 200, 1514]));
            rig.assert_handlers(&[("s.count", "60"), ("s.done", "false")]);
            assert!(rig.pull("p", 1).is_empty());
            rig.assert_handlers(&[("s.done", "true")]);
        }
    }

    #[test]
    fn sizes_keep_their_shares_with_any_number_of_flows() {
        for (flows, sizes, least, share) in [(1, "64 128", 64, 12), (11, "imix", 60, 14)] {
            let config = format!(
                "s :: TrafficSource(FLOWS {flows}, SIZES {sizes}, COUNT 24) -> p :: Puller;"
            );
            let packets = Rig::new(&config).pull("p", 24);
            let count = packets.iter().filter(|it| it.data().len() == least);
            assert_eq!(count.count(), share, "{flows} {sizes}");
        }
    }

    #[test]
    fn the_rate_is_kept_and_the_source_sleeps_between_packets() {
        let config = "s :: TrafficSource(RATE 100, DURATION 2s) -> u :: Unqueue -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.advance(5 * MS);
        assert_eq!(rig.data("c").len(), 1);
        assert!(rig.router.arm(), "it sleeps");
        rig.advance(SECOND);
        let count = rig.data("c").len();
        assert!((99..=101).contains(&count), "{count}");
        rig.write("s.rate", "8Mbps");
        rig.advance(SECOND / 10);
        let count = rig.data("c").len();
        assert!((1650..=1690).contains(&count), "{count}");
        rig.advance(2 * SECOND);
        assert_eq!(rig.read("s.done"), "true");
        rig.data("c");
        rig.write("s.active", "true");
        rig.advance(MS);
        assert!(!rig.data("c").is_empty(), "another run");
        assert!(rig.try_write("s.rate", "fast").is_err());
    }

    #[test]
    fn arguments_have_bounds() {
        for (arguments, part) in [
            ("SRC ::1", "SRC and DST must be of one family"),
            ("PROTOCOL icmp", "PROTOCOL must be udp or tcp"),
            ("FLOWS 0", "FLOWS must be from 1 to 1048576"),
            (
                "FLOWS 65000",
                "1 source addresses with 64512 ports make fewer",
            ),
            ("SIZES 64 x", "is no size: write bytes from 60 to 9014"),
            ("SIZES 10", "'10' is no size: write bytes from 60 to 9014"),
            ("RATE fast", "expected packets a second"),
        ] {
            Rig::refuses(
                &format!("TrafficSource({arguments}) -> Unqueue -> Discard;"),
                part,
            );
        }
    }
}
