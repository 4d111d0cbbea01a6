use super::numbering::Numbering;
use super::record_timestamp::Recorder;
use crate::prelude::*;

/// Delays that are kept unless N says otherwise.
const DELAYS: u32 = 1 << 20;
/// Most delays that are kept.
const DELAYS_MAX: u32 = 1 << 24;
const PER_MICROSECOND: u64 = 1_000;
const PER_MILLISECOND: u64 = 1_000_000;

/// Measures the time that packets take from a RecordTimestamp element to here.
///
/// Packets carry the number that NumberPacket writes. Packets without a recorded time leave
/// by output 1, or are dropped if that is not connected. The packets of a batch arrive at the same
/// time. The table of delays is allocated at initialization; when it is full, further delays are
/// only counted (`missed`).
///
/// The handlers that compute something of the delays take the index of the first delay to look at
/// as a parameter: `average 1000` leaves the first thousand out. Delays are in microseconds, or with
/// NANO in nanoseconds.
///
/// # Example
/// ```click
/// InfiniteSource(LENGTH 64, LIMIT 1000, STOP true) -> NumberPacket
///     -> r :: RecordTimestamp(N 1000, OFFSET 40) -> Queue -> Unqueue
///     -> d :: TimestampDiff(r) -> Discard;
/// DriverManager(pause, print d.average, print d.perc99);
/// ```
///
/// # See also
/// RecordTimestamp, NumberPacket, TimestampAccum
#[derive(Element)]
#[element(ports = "1/1-2", processing = "h", handlers)]
#[outputs("packets with a recorded time, and those not sampled", "the others")]
pub struct TimestampDiff {
    /// The RecordTimestamp element. It runs on the same thread.
    #[arg(mandatory)]
    recorder: Option<Link<dyn Recorder>>,
    /// Offset of the packet's number, in the recorder's byte order.
    #[arg(default = 40)]
    offset: u32,
    /// Delays to keep, up to 16777216; 0 stands for 1048576. A delay takes 4 bytes, with TC_OFFSET 5.
    #[arg]
    n: u32,
    /// Longest delay that is kept, in milliseconds.
    #[arg(name = "MAXDELAY", default = 1000)]
    max_delay: u32,
    /// Whether delays are in nanoseconds.
    #[arg]
    nano: bool,
    /// One of this many numbers is measured.
    #[arg(default = 1)]
    sample: u32,
    /// Whether to report delays above MAXDELAY.
    #[arg]
    verbose: bool,
    /// Offset of a byte that names the packet's traffic class; negative: there is none.
    #[arg(default = -1)]
    tc_offset: i32,
    /// The bits of that byte that count.
    #[arg(default = 0xff)]
    tc_mask: u8,
    numbering: Numbering,
    /// Most delays that are kept.
    most: usize,
    delays: Vec<u32>,
    classes: Vec<u8>,
    /// Delays for which the table had no room.
    #[handler(read)]
    missed: u64,
}

impl TimestampDiff {
    /// Keeps the delay of a packet.
    #[inline]
    fn keep(&mut self, cx: &mut Cx<'_>, packet: &Packet, nanoseconds: u64) {
        if nanoseconds > u64::from(self.max_delay) * PER_MILLISECOND {
            self.report(cx, packet, nanoseconds);
            return;
        }
        if self.delays.len() >= self.most {
            self.missed += 1;
            return;
        }
        let delay = if self.nano {
            nanoseconds
        } else {
            nanoseconds / PER_MICROSECOND
        };
        self.delays.push(u32::try_from(delay).unwrap_or(u32::MAX));
        if let Ok(offset) = usize::try_from(self.tc_offset) {
            let byte = packet.data().get(offset).copied().unwrap_or(0);
            self.classes.push(byte & self.tc_mask);
        }
    }

    #[cold]
    fn report(&self, cx: &mut Cx<'_>, packet: &Packet, nanoseconds: u64) {
        if self.verbose {
            let number = self.numbering.read(packet).unwrap_or(0);
            let (delay, most) = (nanoseconds / PER_MILLISECOND, self.max_delay);
            cx.chatter(format_args!(
                "Packet {number} experienced delay {delay} ms > {most} ms"
            ));
        }
    }

    /// The delays from the index on that a handler's parameter gives; all if it gives none.
    fn from(&self, begin: &str) -> Result<&[u32], String> {
        let begin = begin.trim();
        let begin = match begin {
            "" => 0,
            begin => begin
                .parse::<usize>()
                .map_err(|_| format!("expected the index of a delay, not ‘{begin}’"))?,
        };
        Ok(self.delays.get(begin..).unwrap_or_default())
    }

    fn percentile(&self, percent: f64, begin: &str) -> Result<String, String> {
        let mut delays = self.from(begin)?.to_vec();
        let Some(last) = delays.len().checked_sub(1) else {
            return Ok("0".to_string());
        };
        let index = (percent * delays.len() as f64 / 100.0) as usize;
        let (_, delay, _) = delays.select_nth_unstable(index.min(last));
        Ok(delay.to_string())
    }
}

fn mean(delays: impl Iterator<Item = u32>) -> f64 {
    let (sum, count) = delays.fold((0u64, 0u64), |(sum, count), delay| {
        (sum + u64::from(delay), count + 1)
    });
    if count == 0 {
        return 0.0;
    }
    sum as f64 / count as f64
}

/// The square root, by Newton's method. (A guest has no C library.)
fn square_root(x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let mut root = if x < 1.0 { 1.0 } else { x };
    loop {
        let next = (root + x / root) / 2.0;
        if next >= root {
            return root;
        }
        root = next;
    }
}

/// A parameter's first word, and the rest.
fn shift(parameter: &str) -> (&str, &str) {
    let parameter = parameter.trim_start();
    parameter
        .split_once(char::is_whitespace)
        .unwrap_or((parameter, ""))
}

#[handlers]
impl TimestampDiff {
    /// The mean.
    #[read(also = "avg")]
    fn average(&self, begin: &str) -> Result<String, String> {
        Ok(unparse::real(mean(self.from(begin)?.iter().copied())))
    }

    /// The mean of a traffic class, which comes first in the parameter.
    #[read]
    fn avg_tc(&self, parameter: &str) -> Result<String, String> {
        let (class, begin) = shift(parameter);
        let class: u8 = class
            .parse()
            .map_err(|_| format!("expected a traffic class from 0 to 255, not ‘{class}’"))?;
        let delays = self.from(begin)?;
        let skipped = self.delays.len() - delays.len();
        let classes = self.classes.get(skipped..).unwrap_or_default();
        let of_class = delays.iter().zip(classes).filter(|(_, of)| **of == class);
        Ok(unparse::real(mean(of_class.map(|(delay, _)| *delay))))
    }

    /// The shortest.
    #[read(also = "perc00")]
    fn min(&self, begin: &str) -> Result<u32, String> {
        Ok(self.from(begin)?.iter().min().copied().unwrap_or(0))
    }

    /// The longest.
    #[read(also = "perc100")]
    fn max(&self, begin: &str) -> Result<u32, String> {
        Ok(self.from(begin)?.iter().max().copied().unwrap_or(0))
    }

    /// The standard deviation.
    #[read]
    fn stddev(&self, begin: &str) -> Result<String, String> {
        let delays = self.from(begin)?;
        let mean = mean(delays.iter().copied());
        let squares = delays.iter().map(|delay| {
            let difference = f64::from(*delay) - mean;
            difference * difference
        });
        let variance = squares.sum::<f64>() / delays.len().max(1) as f64;
        Ok(unparse::real(square_root(variance)))
    }

    /// The 1st percentile.
    #[read]
    fn perc01(&self, begin: &str) -> Result<String, String> {
        self.percentile(1.0, begin)
    }

    /// The 5th percentile.
    #[read]
    fn perc05(&self, begin: &str) -> Result<String, String> {
        self.percentile(5.0, begin)
    }

    /// The 10th percentile.
    #[read]
    fn perc10(&self, begin: &str) -> Result<String, String> {
        self.percentile(10.0, begin)
    }

    /// The 25th percentile.
    #[read]
    fn perc25(&self, begin: &str) -> Result<String, String> {
        self.percentile(25.0, begin)
    }

    /// The median.
    #[read]
    fn median(&self, begin: &str) -> Result<String, String> {
        self.percentile(50.0, begin)
    }

    /// The 75th percentile.
    #[read]
    fn perc75(&self, begin: &str) -> Result<String, String> {
        self.percentile(75.0, begin)
    }

    /// The 90th percentile.
    #[read]
    fn perc90(&self, begin: &str) -> Result<String, String> {
        self.percentile(90.0, begin)
    }

    /// The 95th percentile.
    #[read]
    fn perc95(&self, begin: &str) -> Result<String, String> {
        self.percentile(95.0, begin)
    }

    /// The 99th percentile.
    #[read]
    fn perc99(&self, begin: &str) -> Result<String, String> {
        self.percentile(99.0, begin)
    }

    /// The percentile that comes first in the parameter, from 0 to 100.
    #[read]
    fn perc(&self, parameter: &str) -> Result<String, String> {
        let (percent, begin) = shift(parameter);
        match percent.parse::<f64>() {
            Ok(value) if (0.0..=100.0).contains(&value) => self.percentile(value, begin),
            _ => Err(format!(
                "expected a percentile from 0 to 100, not ‘{percent}’"
            )),
        }
    }

    /// The index of the last delay; -1 before the first.
    #[read]
    fn index(&self) -> i64 {
        self.delays.len() as i64 - 1
    }

    /// The last delay.
    #[read]
    fn last(&self) -> u32 {
        self.delays.last().copied().unwrap_or(0)
    }

    /// All delays, a line each: `INDEX: DELAY`.
    #[read]
    fn dump(&self) -> String {
        let delays = self.delays.iter().enumerate();
        delays
            .map(|(index, delay)| format!("{index}: {delay}\n"))
            .collect()
    }

    /// All delays, a line each.
    #[read]
    fn dump_list(&self) -> String {
        let delays = self.delays.iter();
        delays.map(|delay| format!("{delay}\n")).collect()
    }
}

impl Element for TimestampDiff {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if self.n > DELAYS_MAX {
            return Err(args.fail(format_args!("N {}: at most {DELAYS_MAX} delays", self.n)));
        }
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let recorder = self.recorder.and_then(|recorder| cx.view(recorder));
        self.numbering = Numbering {
            offset: self.offset,
            net_order: recorder.is_some_and(|recorder| recorder.net_order(cx)),
        };
        let most = if self.n == 0 { DELAYS } else { self.n } as usize;
        self.most = most;
        let classes = if self.tc_offset < 0 { 0 } else { most };
        if self.delays.try_reserve_exact(most).is_err()
            || self.classes.try_reserve_exact(classes).is_err()
        {
            return Err(cx.error(format_args!("N {most}: out of memory; keep fewer delays")));
        }
        Ok(())
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        let Some(recorder) = self.recorder else {
            return 1;
        };
        let now = cx.steady();
        let (numbering, sample) = (self.numbering, u64::from(self.sample.max(1)));
        let mut times = [None; packet::BATCH];
        let (mut measured, mut unknown) = (0u64, 0u64);
        cx.reach(recorder, |recorder, cx| {
            for (i, (packet, time)) in batch.iter().zip(&mut times).enumerate() {
                let number = numbering.read(packet);
                if number.is_some_and(|number| !number.is_multiple_of(sample)) {
                    continue;
                }
                *time = number.and_then(|number| recorder.take(cx, number));
                match time {
                    Some(_) => measured |= 1 << i,
                    None => unknown |= 1 << i,
                }
            }
        });
        if measured != 0 {
            for (packet, time) in batch.iter().zip(times) {
                if let Some(time) = time {
                    self.keep(cx, packet, now.0.saturating_sub(time.0));
                }
            }
        }
        if unknown == 0 {
            return 0;
        }
        let known = packet::first(batch.len()) & !unknown;
        cx.dispatch(batch, &[(0, known), (1, unknown)])
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    fn rig(arguments: &str) -> Rig {
        Rig::new(&format!(
            "i :: Inject -> r :: RecordTimestamp(OFFSET 0) -> Queue -> u :: Unqueue(ACTIVE false)
             -> d :: TimestampDiff(r, OFFSET 0{arguments}) -> c :: Collect; d[1] -> e :: Collect;
             j :: Inject -> d;
             s :: Script(TYPE PASSIVE, return $(d.average 2) $(d.min 2) $(d.max 2) $(d.perc 50) $(d.perc 100 1) \
              $(d.perc 0 3) $(d.stddev 3) $(d.avg 9));"
        ))
    }

    /// Sends packets that take that many microseconds.
    fn delay(rig: &mut Rig, delays: &[u64]) {
        for (number, delay) in (0u64..).zip(delays) {
            let data = [&number.to_ne_bytes()[..], &[number as u8 + 16]].concat();
            rig.push("i", &data);
            rig.pause(delay * 1000);
            rig.write("u.active", "true");
            rig.run();
            rig.write("u.active", "false");
        }
    }

    #[test]
    fn delays_are_summed_up() {
        let mut rig = rig("");
        assert_eq!(rig.read("d.average"), "0");
        assert_eq!(rig.read("d.median"), "0");
        assert_eq!(rig.read("d.index"), "-1");
        delay(&mut rig, &[10, 20, 50, 40, 30]);
        assert_eq!(rig.data("c").len(), 5);
        for (handler, value) in [
            ("average", "30"),
            ("avg", "30"),
            ("min", "10"),
            ("perc00", "10"),
            ("perc01", "10"),
            ("perc25", "20"),
            ("median", "30"),
            ("perc75", "40"),
            ("perc99", "50"),
            ("perc100", "50"),
            ("max", "50"),
            ("index", "4"),
            ("last", "30"),
            ("dump_list", "10\n20\n50\n40\n30\n"),
        ] {
            assert_eq!(rig.read(&format!("d.{handler}")), value, "{handler}");
        }
        let deviation: f64 = rig.read("d.stddev").parse().unwrap();
        assert!((deviation - 200f64.sqrt()).abs() < 1e-9, "{deviation}");
    }

    #[test]
    fn the_first_delays_can_be_left_out() {
        let mut rig = rig("");
        delay(&mut rig, &[10, 20, 50, 30]);
        assert_eq!(rig.read("s.run"), "40 30 50 30 50 30 0 0");
    }

    #[test]
    fn packets_without_a_time_leave_by_output_1() {
        let mut rig = rig("");
        rig.push("j", &5u64.to_ne_bytes());
        rig.push("j", &[1; 7]);
        assert_eq!(rig.data("e"), [&5u64.to_ne_bytes()[..], &[1; 7]]);
        assert_eq!(rig.read("d.index"), "-1");
    }

    #[test]
    fn long_delays_are_reported_and_not_kept() {
        let mut rig = rig(", MAXDELAY 2, VERBOSE true, NANO true");
        delay(&mut rig, &[2000, 3001]);
        assert_eq!(rig.data("c").len(), 2);
        assert_eq!(rig.read("d.dump"), "0: 2000000\n");
        assert_eq!(rig.printed(), ["Packet 1 experienced delay 3 ms > 2 ms"]);
    }

    #[test]
    fn a_full_table_keeps_the_first_delays() {
        let mut rig = rig(", N 2");
        delay(&mut rig, &[1, 2, 3]);
        assert_eq!(rig.read("d.dump_list"), "1\n2\n");
        assert_eq!(rig.read("d.missed"), "1");
        assert_eq!(rig.data("c").len(), 3);
    }

    #[test]
    fn traffic_classes_have_their_own_mean() {
        let config = "i :: Inject -> r :: RecordTimestamp -> Queue -> u :: Unqueue(ACTIVE false)
            -> d :: TimestampDiff(RECORDER r, OFFSET 0, TC_OFFSET 8, TC_MASK 1) -> Discard;
            s :: Script(TYPE PASSIVE, return $(d.avg_tc 0) $(d.avg_tc 1) $(d.avg_tc 0 1));";
        let mut rig = Rig::new(config);
        delay(&mut rig, &[10, 20, 30]);
        assert_eq!(rig.read("s.run"), "20 20 30");
    }

    #[test]
    fn packets_of_a_batch_are_told_apart() {
        let mut rig = rig("");
        rig.push("i", &1u64.to_ne_bytes());
        rig.push("i", &3u64.to_ne_bytes());
        rig.push_all("j", &[0u64, 1, 2, 3].map(|n| n.to_ne_bytes().to_vec()));
        assert_eq!(rig.data("c"), [1u64, 3].map(u64::to_ne_bytes));
        assert_eq!(rig.data("e"), [0u64, 2].map(u64::to_ne_bytes));
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for (arguments, message) in [
            ("", "RECORDER: required argument missing"),
            ("x", "expected RecordTimestamp"),
            ("r, N 16777217", "at most 16777216 delays"),
        ] {
            let errors = Rig::errors(&format!(
                "Idle -> x :: Null -> r :: RecordTimestamp
                 -> TimestampDiff({arguments}) -> Discard;"
            ));
            assert!(errors.contains(message), "{arguments}: {errors}");
        }
    }
}
