//! What the sources that are benchmark tools share: rate, limit, counts, and the making of packets.

use crate::prelude::*;
use crate::rates::gaps::GapRate;

/// Most packets a second (Click's limit).
const RATE_MAX: u32 = 1_000_000_000;

/// When packets are due, and how many there were.
#[derive(Component)]
#[component(handlers)]
struct Pace {
    /// Packets a second; no limit if 0.
    #[arg(mandatory)]
    rate: u32,
    /// Packets after which it stops; no limit if negative.
    #[arg(mandatory, write, error = "limit parameter must be integer >= 0")]
    limit: i32,
    gaps: GapRate,
    /// Packets made.
    #[handler(read)]
    count: u64,
    first: Option<Steady>,
    last: Option<Steady>,
}

#[handlers]
impl Pace {
    /// Packets a second from the first to the last, after LIMIT packets; 0 before.
    #[read]
    fn read_rate(&self) -> u128 {
        let (Some(first), Some(last)) = (self.first, self.last) else {
            return 0;
        };
        let nanoseconds = last.since(first).max(1_000_000);
        u128::from(self.count) * 1_000_000_000 / u128::from(nanoseconds)
    }

    /// The argument RATE.
    #[write(error = "rate parameter must be integer >= 0")]
    fn write_rate(&mut self, cx: &mut Cx<'_>, rate: u32) -> Result<(), String> {
        if rate > RATE_MAX {
            return Err(format!("rate too large; max is {RATE_MAX}"));
        }
        self.rate = rate;
        self.gaps.set_rate(rate.into(), cx.steady());
        Ok(())
    }
}

impl Pace {
    /// Checks the arguments.
    fn configured(&mut self, args: &Args<'_>) -> Result<(), Failed> {
        if self.rate > RATE_MAX {
            return Err(args.fail(format_args!("RATE too large; max is {RATE_MAX}")));
        }
        self.gaps.set_rate(self.rate.into(), Steady(0));
        Ok(())
    }

    /// Whether as many were made as there are to be.
    fn is_spent(&self) -> bool {
        u64::try_from(self.limit).is_ok_and(|limit| self.count >= limit)
    }

    /// How many packets may be made now, `most` at most; beyond the limit too, for sources that
    /// have something to send after it.
    fn due(&mut self, now: Steady, most: usize) -> usize {
        if self.rate == 0 {
            return most;
        }
        self.gaps.allowed(now).min(most as u64) as usize
    }

    /// How many packets the limit has left, `most` at most.
    fn left(&self, most: usize) -> usize {
        let limit = u64::try_from(self.limit).unwrap_or(u64::MAX);
        let left = limit.saturating_sub(self.count);
        left.min(most as u64) as usize
    }

    /// Counts packets that were made.
    fn made(&mut self, now: Steady, packets: usize) {
        if packets == 0 {
            return;
        }
        if self.rate > 0 {
            self.gaps.count(packets as u64);
        }
        self.count += packets as u64;
        self.first.get_or_insert(now);
        if self.is_spent() {
            self.last = Some(now);
        }
    }

    /// Sets the counts to 0.
    fn reset(&mut self) {
        (self.count, self.first, self.last) = (0, None, None);
    }
}

/// The packets of a source.
pub trait Packets: Component + Default + Send + 'static {
    /// Whether some are made after LIMIT.
    const AFTER_LIMIT: bool = false;

    /// Checks the arguments.
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed>;

    /// Prepares for the first packet.
    fn start(&mut self, cx: &mut Cx<'_>) {
        let _ = cx;
    }

    /// The next packet; there were `count` before it. `spent`: LIMIT is reached.
    fn next(&mut self, cx: &mut Cx<'_>, count: u64, spent: bool) -> Option<Packet>;

    /// Whether the driver stops when all are made.
    fn stops(&self) -> bool {
        false
    }

    /// Starts again.
    fn reset(&mut self) {}
}

/// Makes packets at a rate.
#[derive(Component)]
#[component(handlers)]
pub struct Source<P: Packets> {
    #[flatten]
    pace: Pace,
    #[flatten]
    packets: P,
    /// Whether it makes packets. Writing true also resets it.
    #[arg(
        positional,
        default = true,
        write,
        checkbox,
        error = "active parameter must be boolean",
        then = activated
    )]
    active: bool,
}

#[handlers]
impl<P: Packets> Source<P> {
    /// Starts again.
    #[write(button)]
    fn reset(&mut self) {
        self.pace.reset();
        self.packets.reset();
    }

    fn activated(&mut self, _cx: &mut Cx<'_>) {
        if self.active {
            self.reset();
        }
    }
}

impl<P: Packets> Element for Source<P> {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.packets.configured(cx, args)?;
        self.pace.configured(args)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.packets.start(cx);
        Ok(())
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        if !self.active {
            return;
        }
        let now = cx.steady();
        let (count, left) = (self.pace.count, self.pace.left(most));
        let due = self.pace.due(now, if P::AFTER_LIMIT { most } else { left });
        for made in 0..due {
            let Some(packet) = self.packets.next(cx, count + made as u64, made >= left) else {
                break;
            };
            if let Err(packet) = batch.push(packet) {
                cx.kill(packet);
                break;
            }
        }
        self.pace.made(now, batch.len());
        // Where packets follow LIMIT, all are made when there is none any more.
        let all = due > 0 && batch.is_empty() == P::AFTER_LIMIT && self.pace.is_spent();
        if all && self.packets.stops() {
            cx.stop();
        }
    }
}

/// How often the ports of a source of one flow have gone up: by one every `interval` packets,
/// never if that is 0. `None` if no more often than for the packet before.
pub fn raised(count: u64, interval: u32) -> Option<u16> {
    let interval = u64::from(interval);
    (interval > 0 && count.is_multiple_of(interval)).then(|| (count / interval) as u16)
}

/// Sets the ports of a UDP datagram to those given, `raised` higher.
pub fn set_ports(datagram: &mut [u8], ports: (UdpPort, UdpPort), raised: u16) {
    let mut udp = UdpPacket::new_unchecked(datagram);
    let ports = (
        ports.0.0.wrapping_add(raised),
        ports.1.0.wrapping_add(raised),
    );
    let delta = Delta::of_u16(udp.source(), ports.0) + Delta::of_u16(udp.destination(), ports.1);
    udp.set_source(ports.0);
    udp.set_destination(ports.1);
    udp.update_checksum(delta);
}

/// The least length of a frame that is made.
pub fn at_least(cx: &mut Cx<'_>, length: u32, least: u32) -> u32 {
    if length < least {
        cx.chatter(format_args!(
            "warning: packet length < {least}, defaulting to {least}"
        ));
    }
    length.max(least)
}

/// Longest frame that is made: what an IPv4 packet can hold, with an Ethernet header.
pub const LENGTH_MAX: u32 = 65535 + 14;
/// Most flows at a time.
pub const FLOWS_MAX: u32 = 1 << 20;

/// Whether a source can be made like this; else what is wrong.
pub fn check(length: u32, flows: u32) -> Result<(), String> {
    if length > LENGTH_MAX {
        return Err(format!("LENGTH too large; max {LENGTH_MAX}"));
    }
    if !(1..=FLOWS_MAX).contains(&flows) {
        return Err(format!("FLOWS must be between 1 and {FLOWS_MAX}"));
    }
    Ok(())
}
