use super::numbering::Numbering;
use crate::prelude::*;

/// Most numbers that are counted.
const COUNT_MAX: u64 = 1 << 24;

/// Counts how many packets carry each number that NumberPacket wrote.
///
/// Packets with a number from COUNT on, and packets too short for a number, leave by output 1, or
/// are dropped if that is not connected. The first such number is reported.
///
/// # Example
/// ```click
/// InfiniteSource(LENGTH 64, LIMIT 10, STOP true) -> NumberPacket
///     -> c :: CheckNumberPacket(COUNT 10) -> Discard;
/// DriverManager(pause, print c.dump);
/// ```
///
/// # See also
/// NumberPacket, RecordTimestamp, TimestampDiff
#[derive(Element)]
#[element(ports = "1/1-2", processing = "h", handlers)]
#[outputs("packets with a number below COUNT", "the others")]
pub struct CheckNumberPacket {
    #[flatten]
    numbering: Numbering,
    /// How many numbers are counted, from 0 on, up to 16777216.
    #[arg(positional, read, write, error = "syntax error", then = resize)]
    count: u64,
    seen: Vec<u32>,
    reported: bool,
}

impl CheckNumberPacket {
    fn resize(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        if self.count > COUNT_MAX {
            return Err(format!("COUNT {}: at most {COUNT_MAX} numbers", self.count));
        }
        let (before, after) = (self.seen.len(), self.count as usize);
        let more = after.saturating_sub(before);
        if self.seen.try_reserve_exact(more).is_err() {
            return Err(format!("COUNT {after}: out of memory"));
        }
        self.seen.resize(after, 0);
        Ok(())
    }

    #[cold]
    fn report(&mut self, cx: &mut Cx<'_>, number: u64) {
        if !self.reported {
            self.reported = true;
            let (name, count) = (cx.declaration(), self.count);
            cx.chatter(format_args!(
                "{name}: {number} out of scope (count is {count}) !"
            ));
        }
    }
}

/// An entry as `max` and `min` show it.
fn entry(entry: Option<(usize, &u32)>, none: i64) -> String {
    match entry {
        Some((number, times)) => format!("[{number}] : {times}"),
        None => format!("[-1] : {none}"),
    }
}

#[handlers]
impl CheckNumberPacket {
    /// The number that came most often, and how often: `[NUMBER] : TIMES`.
    #[read(expensive)]
    fn max(&self) -> String {
        let entries = self.seen.iter().enumerate().rev();
        entry(entries.max_by_key(|(_, times)| **times), -1)
    }

    /// The number that came least often, and how often: `[NUMBER] : TIMES`.
    #[read(expensive)]
    fn min(&self) -> String {
        let entries = self.seen.iter().enumerate();
        let none = i64::from(i32::MAX);
        entry(entries.min_by_key(|(_, times)| **times), none)
    }

    /// How often each number came, a line each: `NUMBER: TIMES`.
    #[read(expensive)]
    fn dump(&self) -> String {
        let lines = self.seen.iter().enumerate();
        lines
            .map(|(number, times)| format!("{number}: {times}\n"))
            .collect()
    }
}

impl Element for CheckNumberPacket {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.resize(cx).map_err(|error| args.fail(error))
    }

    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let Some(number) = self.numbering.read(packet) else {
            return Verdict::To(1);
        };
        let times = usize::try_from(number).ok();
        match times.and_then(|number| self.seen.get_mut(number)) {
            Some(times) => {
                *times = times.saturating_add(1);
                Verdict::Forward
            }
            None => {
                self.report(cx, number);
                Verdict::To(1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    fn number(number: u64) -> Vec<u8> {
        [&[0; 40], &number.to_ne_bytes()[..]].concat()
    }

    #[test]
    fn numbers_are_counted() {
        let config = "i :: Inject -> k :: CheckNumberPacket(COUNT 4) -> c :: Collect;
            k[1] -> d :: Collect;";
        let mut rig = Rig::new(config);
        rig.push_all("i", &[0, 1, 1, 3, 0, 4, 5].map(number));
        rig.push("i", &[0; 47]);
        assert_eq!(rig.data("c").len(), 5);
        assert_eq!(rig.data("d"), [number(4), number(5), vec![0; 47]]);
        assert_eq!(rig.read("k.dump"), "0: 2\n1: 2\n2: 0\n3: 1\n");
        assert_eq!(rig.read("k.max"), "[0] : 2");
        assert_eq!(rig.read("k.min"), "[2] : 0");
        assert_eq!(
            rig.printed(),
            ["k :: CheckNumberPacket: 4 out of scope (count is 4) !"]
        );
    }

    #[test]
    fn the_count_can_change() {
        let mut rig = Rig::new("i :: Inject -> k :: CheckNumberPacket(0) -> c :: Collect;");
        assert_eq!(rig.read("k.max"), "[-1] : -1");
        assert_eq!(rig.read("k.min"), "[-1] : 2147483647");
        rig.push("i", &[0; 8]);
        assert!(rig.data("c").is_empty());
        rig.write("k.count", "1");
        rig.push("i", &[0; 8]);
        rig.write("k.count", "2");
        assert_eq!(rig.read("k.dump"), "0: 1\n1: 0\n");
        assert!(rig.try_write("k.count", "16777217").is_err());
        assert_eq!(rig.read("k.count"), "2");
        let errors = Rig::errors("Idle -> CheckNumberPacket(COUNT 16777217) -> Discard;");
        assert!(errors.contains("at most 16777216 numbers"), "{errors}");
    }
}
