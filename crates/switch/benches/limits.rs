//! How well limits, shares and isolation hold, on rings in memory.
//!
//! One lane on one core; one thread on another plays all guests: it keeps the sources' transmit
//! rings as full as the case asks for and empties the sinks' receive rings. What passed is read
//! from the switch's own counters, from one moment to another, so what a full bucket lets through
//! at first is no part of it. Three parts:
//!
//! - accuracy: a rate from 1 Mb/s to 10 Gb/s on the sender or on the receiver, with frames of 60
//!   and 1514 bytes and segments of 64 KB; the deviation in per cent of the rate, and for how much of
//!   the time lane or guests were away for longer than a bucket lasts;
//! - fairness: three senders with shares 1 : 2 : 4 that always have frames, where a receiver's rate
//!   is short, and where the lane is; each one's part, over its share's;
//! - isolation: a sender of 20 000 frames/s within its share, alone and beside one that floods:
//!   what arrives, the delay to the receiver, and that of a round trip, the receiver answering at
//!   once (median and 99th percentile, in µs); also where the receiver does not keep up.
//!
//! `cargo bench -p switch --bench limits [-- PART [RATES]]` prints JSON; `accuracy 1G,10G` does a
//! part of the first part. On a machine that does other things at the same time, start it so that
//! it runs ahead of them: what is late by more than a bucket's depth is lost to the rate. (With
//! `chrt -f`, the kernel still takes the processors away for 50 ms of each second, in which rings
//! run empty and shares are lost, unless `kernel.sched_rt_runtime_us` is -1.)

#[path = "../tests/common/mod.rs"]
mod common;

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use abi::chain;
use abi::region::{PART_MAX, accepts};
use abi::ring::{Slot, flags};
use common::attach_to_lanes;
use rustix::thread::{CpuSet, sched_setaffinity};
use serde_json::{Value, json};
use switch::counters::PortStats;
use switch::lanes::Lanes;
use switch::memory::{CounterFile, GuestSide};
use switch::process::Options;
use switch::protocol::PortId;

const SLOTS: u32 = 1024;
const BURST: u32 = 64;
/// 14.88 million frames of 60 bytes a second: all that 10GBASE has room for.
const LINE_60: &str = "maxbw=7143M";
/// A TCP segment of 64 KB with its headers, in bytes.
const SEGMENT: usize = 65_000;

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| !arg.starts_with('-'));
    let part = args.next();
    let rates = args.next().unwrap_or("1M,10M,100M,1G,10G".into());
    let wanted = |name: &str| part.as_ref().is_none_or(|part| part == name);
    let mut report = json!({ "bench": "switch limits, one lane, guests on another core" });
    if wanted("accuracy") {
        report["accuracy"] = accuracy(&rates);
    }
    if wanted("fairness") {
        report["fairness"] = json!([
            fairness("maxbw=1G", 1514),
            fairness("", 1514),
            fairness("", 60)
        ]);
    }
    if wanted("isolation") {
        report["isolation"] = json!([
            isolation("maxbw=2G", "", 1514, None),
            isolation("", "maxbw=10G", 1514, None),
            isolation("", "", 1514, None),
            isolation("", LINE_60, 60, None),
            isolation("", "", 60, None),
            isolation("", "", 60, Some(1_000_000)),
        ]);
    }
    println!("{report:#}");
}

fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    // With one core only there is nothing to choose.
    let _ = sched_setaffinity(None, &set);
}

/// A switch and the guests on it.
struct Net {
    lanes: Lanes,
    counters: CounterFile,
}

struct Guest {
    side: GuestSide,
    doorbell: OwnedFd,
    port: PortId,
    mac: u8,
    prepared: bool,
}

impl Net {
    fn new() -> Net {
        pin(1);
        let options = Options {
            lanes: 1,
            cpus: vec![0],
        };
        let (lanes, file) = Lanes::start(&options).expect("a lane");
        let counters = CounterFile::open(std::os::fd::AsFd::as_fd(&file)).expect("counters");
        Net { lanes, counters }
    }

    fn guest(&mut self, mac: u8, properties: &str) -> Guest {
        let (macs, properties) = ([[2, 0, 0, 0, 0, mac]], properties.parse());
        let properties = properties.expect("properties");
        let (region, doorbell, ports) =
            attach_to_lanes(&mut self.lanes, SLOTS, &macs, 0, &properties);
        let side = region.guest_side(0).expect("an interface");
        side.region.set_accepts(0, accepts::SEGMENTS);
        Guest {
            side,
            doorbell,
            port: ports[0],
            mac,
            prepared: false,
        }
    }

    fn stats(&self, guest: &Guest) -> PortStats {
        self.counters.sum(guest.port.slot())
    }
}

/// The first bytes of a TCP packet from one guest to another; `len` with all headers.
fn header(from: u8, to: u8, len: usize) -> [u8; 60] {
    let mut frame = [0; 60];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 8, 0]);
    frame[14] = 0x45;
    frame[16..18].copy_from_slice(&((len - 14) as u16).to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 6]);
    frame[26..30].copy_from_slice(&[10, 0, 0, from]);
    frame[30..34].copy_from_slice(&[10, 0, 0, to]);
    frame[46] = 0x50;
    frame
}

impl Guest {
    /// Sends as many frames of `len` bytes as there is room for, `most` at the most. Returns how
    /// many.
    fn send(&mut self, to: u8, len: usize, most: u32, stamp: u64) -> u32 {
        let slots = (len.max(1)).div_ceil(PART_MAX.min(len)) as u32;
        let wanted = most.min(BURST / slots.min(BURST)).max(1);
        let free = self
            .side
            .transmit
            .free(wanted * slots)
            .expect("an honest switch");
        let frames = (free / slots).min(wanted);
        let mut head = header(self.mac, to, len);
        head[34 + 20 - 6 + 4..34 + 20 - 6 + 4 + 8].copy_from_slice(&stamp.to_ne_bytes());
        for frame in 0..frames {
            let mut left = len;
            for part in 0..slots {
                let position = frame * slots + part;
                let spent = self.side.transmit.peek(position);
                let here = left.min(PART_MAX);
                left -= here;
                let mut slot = Slot {
                    len: here as u16,
                    ..Slot::spent(spent.buffer)
                };
                if slots > 1 {
                    slot.flags = if left > 0 { flags::MORE } else { 0 };
                    if part == 0 {
                        slot.flags |= flags::NEEDS_CHECKSUM | flags::SEGMENT_TCP4;
                        slot.checksum_start = 34;
                        slot.checksum_offset = 16;
                        slot.segment_size = 1448;
                    }
                }
                if part == 0 && !self.prepared {
                    let room = self.side.region.frame(slot).expect("a buffer");
                    room.write_array(0, &head);
                }
                self.side.transmit.fill(position, slot);
            }
        }
        if frames > 0 {
            self.side.transmit.publish(frames * slots);
            if self.side.transmit.consumer_sleeps() {
                rustix::io::write(&self.doorbell, &1u64.to_ne_bytes()).expect("rung");
            }
        }
        frames
    }

    /// Writes a frame into each buffer, so that [`send`](Self::send) writes no more.
    fn prepare(&mut self, to: u8, len: usize) {
        let head = header(self.mac, to, len);
        for buffer in 0..self.side.region.geometry().buffers() {
            let slot = Slot {
                len: len as u16,
                ..Slot::spent(buffer)
            };
            let room = self.side.region.frame(slot).expect("a buffer");
            room.write_array(0, &head);
        }
        self.prepared = true;
    }

    /// Takes what has come.
    fn receive(&mut self) {
        self.receive_some(BURST, 0, |_| {});
    }

    /// Takes up to so many of the frames that have come, and hands out the stamps of those of a
    /// length. Returns how many.
    fn receive_some(&mut self, most: u32, len: usize, mut stamp: impl FnMut(u64)) -> u32 {
        let filled = self.side.receive.filled(most).expect("an honest switch");
        let filled = filled.min(most);
        for i in 0..filled {
            let slot = self.side.receive.peek(i);
            if usize::from(slot.len) != len {
                continue;
            }
            let bytes = self.side.region.frame(slot).expect("a frame");
            if let Some(head) = bytes.read_array::<60>(0) {
                stamp(u64::from_ne_bytes(
                    head[52..60].try_into().expect("eight bytes"),
                ));
            }
        }
        if filled > 0 {
            self.side.receive.release(filled);
        }
        filled
    }
}

/// How far off each rate is.
fn accuracy(rates: &str) -> Value {
    const _: () = assert!(SEGMENT <= chain::BYTES);
    let mut rows = Vec::new();
    for rate in rates.split(',') {
        for len in [60, 1514, SEGMENT] {
            for on in ["sender", "receiver"] {
                let limit = format!("maxbw={rate}");
                let mut net = Net::new();
                let (source, sink) = match on {
                    "sender" => (limit.as_str(), ""),
                    _ => ("", limit.as_str()),
                };
                let mut source = net.guest(1, source);
                let mut sink = net.guest(2, sink);
                let bits = rate
                    .parse::<switch::properties::Bandwidth>()
                    .expect("a rate")
                    .bits();
                // The sink's address is known without a frame of its own: it came with the port.
                let (reached, typical, interrupted) = flow(&net, &mut source, &mut sink, len, bits);
                let off = |reached: f64| ((reached / bits as f64 - 1.0) * 1e4).round() / 1e2;
                rows.push(json!({
                    "rate": rate,
                    "frame_bytes": len,
                    "limit_on": on,
                    "mbps": (reached / 1e4).round() / 1e2,
                    "off_percent": off(reached),
                    "typical_off_percent": off(typical),
                    "interrupted_percent": (interrupted * 1e4).round() / 1e2,
                    "dropped": net.stats(&sink).drops().map(|(_, n)| n).sum::<u64>()
                        + net.stats(&source).drops().map(|(_, n)| n).sum::<u64>(),
                }));
            }
        }
    }
    json!(rows)
}

/// Measures the flow from one guest to another once a full bucket has passed. Returns the median of
/// bits a second over short stretches, few of which are interrupted by other load of the machine.
/// Also returns the share of time that interruptions took beyond what a bucket holds: while a lane
/// or a guest has no processor, nothing passes, and only a bucket's worth is made up for.
fn flow(net: &Net, source: &mut Guest, sink: &mut Guest, len: usize, bits: u64) -> (f64, f64, f64) {
    if len <= 1514 {
        source.prepare(sink.mac, len);
    }
    // `switch::qos::token_bucket`: 256 KB, but at least 2 ms and at most 20 ms; and a frame's time.
    let depth = ((256 << 10) as f64 * 8.0 / bits as f64).clamp(0.002, 0.02);
    let depth = depth + len as f64 * 8.0 / bits as f64;
    // Twenty frames and more, and half a second and more.
    let frames = |n: f64| len as f64 * 8.0 * n / bits as f64;
    let time = Duration::from_secs_f64(frames(20.0).clamp(0.5, 6.0));
    let warm_up = Duration::from_secs_f64(frames(2.0).clamp(0.05, 1.5));
    let stretch = Duration::from_secs_f64(frames(10.0).max(0.01));
    let started = Instant::now();
    let mut marks: Vec<(u64, Instant)> = Vec::new();
    let (mut seen, mut last) = (0, (0, started));
    let mut interrupted = 0.0;
    loop {
        for _ in 0..4 {
            source.send(sink.mac, len, BURST, 0);
            sink.receive();
        }
        let bytes = net.stats(sink).bytes_out;
        let now = Instant::now();
        if bytes != seen {
            seen = bytes;
            if !marks.is_empty() {
                interrupted += ((now - last.1).as_secs_f64() - depth).max(0.0);
            }
            last = (bytes, now);
            let due = marks.last().is_none_or(|mark| now - mark.1 >= stretch);
            if now - started > warm_up && due {
                marks.push(last);
            }
        }
        if now - started > warm_up + time {
            break;
        }
    }
    let rate = |from: (u64, Instant), to: (u64, Instant)| {
        (to.0 - from.0) as f64 * 8.0 / (to.1 - from.1).as_secs_f64()
    };
    let mut rates: Vec<_> = marks
        .windows(2)
        .map(|pair| rate(pair[0], pair[1]))
        .collect();
    rates.sort_by(f64::total_cmp);
    let whole = marks.first().map_or(0.0, |&first| rate(first, last));
    let median = rates.get(rates.len() / 2);
    let window = marks
        .first()
        .map_or(0.0, |first| (last.1 - first.1).as_secs_f64());
    let interrupted = interrupted / window.max(1e-9);
    (whole, median.copied().unwrap_or(whole), interrupted)
}

/// The parts that three senders get whose shares are 1 : 2 : 4.
fn fairness(sink: &str, len: usize) -> Value {
    let mut net = Net::new();
    let shares = [100u64, 200, 400];
    let mut sources: Vec<Guest> = (1..)
        .zip(shares)
        .map(|(mac, share)| net.guest(mac, &format!("share={share}")))
        .collect();
    for source in &mut sources {
        source.prepare(9, len);
    }
    let mut sink = net.guest(9, sink);
    let mut before = Vec::new();
    let started = Instant::now();
    let time = Duration::from_millis(800);
    while started.elapsed() < time {
        for source in &mut sources {
            source.send(9, len, BURST, 0);
        }
        for _ in 0..3 {
            sink.receive();
        }
        if before.is_empty() && started.elapsed() > time / 10 {
            before = sources
                .iter()
                .map(|source| net.stats(source).bytes_in)
                .collect();
        }
    }
    let after = sources.iter().map(|source| net.stats(source).bytes_in);
    let sent: Vec<u64> = after
        .zip(before)
        .map(|(after, before)| after - before)
        .collect();
    let (all, weights) = (
        sent.iter().sum::<u64>() as f64,
        shares.iter().sum::<u64>() as f64,
    );
    let parts = sent.iter().zip(shares).map(|(&sent, share)| {
        let part = sent as f64 / all / (share as f64 / weights);
        (part * 1e3).round() / 1e3
    });
    json!({
        "receiver": net.lanes.member(sink.port.slot()).map(|member| member.properties.to_string()),
        "frame_bytes": len,
        "shares": shares,
        "part_over_share": parts.collect::<Vec<_>>(),
        "gbps": (all * 8.0 / (time.as_secs_f64() * 0.9) / 1e7).round() / 1e2,
    })
}

/// What a flood does to a sender within its share. `takes` is how many frames a second the receiver
/// takes, if it does not keep up.
fn isolation(sink: &str, flooder: &str, len: usize, takes: Option<u32>) -> Value {
    let alone = victim(sink, None, len, takes);
    let beside = victim(sink, Some(flooder), len, takes);
    let change = |what: fn(&Seen) -> f64| {
        let (a, b) = (what(&alone), what(&beside));
        ((b / a - 1.0) * 1e4).round() / 1e2
    };
    let both =
        |of: fn(&Seen) -> &Delays| [&alone, &beside].map(|seen| [of(seen).median, of(seen).high]);
    json!({
        "receiver": match takes {
            Some(takes) => format!("takes {takes} frames/s"),
            None => sink.into(),
        },
        "flooder": flooder,
        "frame_bytes": len,
        "arrived": [alone.arrived, beside.arrived],
        "arrived_change_percent": change(|seen| seen.arrived),
        "delay_us": both(|seen| &seen.delay),
        "median_change_percent": change(|seen| seen.delay.median),
        "added_us": ((beside.delay.median - alone.delay.median) * 100.0).round() / 100.0,
        "round_trip_us": both(|seen| &seen.round_trip),
        "round_trip_change_percent": change(|seen| seen.round_trip.median),
        "flood_mpps": beside.flood_mpps,
        "woken_percent": [alone.woken, beside.woken],
    })
}

/// Times in µs.
#[derive(Default)]
struct Delays {
    median: f64,
    high: f64,
}

impl Delays {
    fn of(mut delays: Vec<f64>) -> Delays {
        delays.sort_by(f64::total_cmp);
        let at = |part: f64| {
            let delay = delays.get((delays.len() as f64 * part) as usize);
            delay.map_or(f64::NAN, |delay| (delay * 100.0).round() / 100.0)
        };
        Delays {
            median: at(0.5),
            high: at(0.99),
        }
    }
}

struct Seen {
    /// Frames that arrived, of those sent.
    arrived: f64,
    /// From one guest to the other.
    delay: Delays,
    /// To the other, which answers at once, and back.
    round_trip: Delays,
    /// Frames that the flooder got rid of, in millions a second.
    flood_mpps: f64,
    /// Parts of a hundred of the sender's frames for which its queue was asleep.
    woken: f64,
}

/// The thread that plays the guests is what is measured with: it must not be away for long when a
/// frame arrives. So the flooder's frames stand in its buffers from the start, the sink tells frames
/// apart by their lengths, and as long as one is waited for, only a few others are sent and taken
/// between two looks.
fn victim(sink: &str, flooder: Option<&str>, len: usize, takes: Option<u32>) -> Seen {
    let mut net = Net::new();
    let mut victim = net.guest(1, "");
    let flooded = flooder.is_some();
    let mut flooder = net.guest(2, flooder.unwrap_or_default());
    let mut sink = net.guest(9, sink);
    flooder.prepare(9, len);
    // Another length, no longer than the MTU allows.
    let own = if len < 1514 { len + 1 } else { len - 1 };
    let (mut delays, mut round_trips) = (Vec::new(), Vec::new());
    let started = Instant::now();
    let elapsed = || started.elapsed().as_nanos() as u64;
    let time = Duration::from_millis(800).as_nanos() as u64;
    let gap = Duration::from_micros(50).as_nanos() as u64;
    let (mut next, mut sent, mut taken) = (0, 0u64, 0u64);
    let mut waits = false;
    let mut now = 0;
    while now < time {
        if now >= next {
            next += gap;
            if next < now {
                // The thread was away: what it missed is not made up for.
                next = now + gap;
            }
            waits = victim.send(9, own, 1, elapsed()) > 0;
            sent += u64::from(waits);
        }
        let few = if waits { 8 } else { BURST };
        if flooded {
            flooder.send(9, len, few / 2, 0);
        }
        now = elapsed();
        let may = takes.map_or(u64::MAX, |takes| {
            (now * u64::from(takes) / 1_000_000_000).saturating_sub(taken)
        });
        let most = few.min(u32::try_from(may).unwrap_or(u32::MAX));
        let mut answers = Vec::new();
        taken += u64::from(sink.receive_some(most, own, |stamp| answers.push(stamp)));
        for stamp in answers {
            delays.push((now - stamp) as f64 / 1e3);
            sink.send(1, own, 1, stamp);
            waits = true;
        }
        now = elapsed();
        victim.receive_some(BURST, own, |stamp| {
            round_trips.push((now - stamp) as f64 / 1e3);
            waits = false;
        });
    }
    let stats = net.stats(&victim);
    let rounded = |x: f64| (x * 100.0).round() / 100.0;
    Seen {
        arrived: delays.len() as f64 / sent.max(1) as f64,
        delay: Delays::of(delays),
        round_trip: Delays::of(round_trips),
        flood_mpps: rounded(net.stats(&flooder).frames_in as f64 * 1e3 / time as f64),
        woken: rounded(stats.by_wakeup as f64 * 100.0 / stats.frames_in.max(1) as f64),
    }
}
