use alloc::string::{String, ToString};

use packet::Batch;
use router::args::{Any, Args, Failed};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList, Notice, Ran, Search, TaskId};

use super::source::Pace;

/// Makes packets of random bytes as fast as it can.
///
/// # Arguments
/// - `LENGTH` (0 to 65535): length of each packet, in bytes.
/// - `LIMIT` (integer, -1): packets after which it stops; no limit if negative.
/// - `BURST` (integer, 1): packets each time it is scheduled.
/// - `ACTIVE` (boolean, true): whether it makes packets.
/// - `TIMESTAMP` (boolean, true): whether packets carry the time they were made.
/// - `STOP` (boolean, false): stop the driver after LIMIT packets.
/// - `END_CALL` (handler call): called after LIMIT packets; not together with STOP.
///
/// # Ports
/// No input; one output, agnostic.
///
/// # Handlers
/// - `count` (read): packets made.
/// - `reset` (write): sets `count` to 0.
/// - `length`, `limit`, `burst`, `active` (read, write): the arguments.
/// - `scheduled`, `tickets`, `home_thread`: the task's; on a push output.
///
/// # Example
/// ```click
/// RandomSource(64, LIMIT 100, STOP true) -> Queue -> Unqueue -> Discard;
/// ```
///
/// # See also
/// InfiniteSource, RatedSource
#[derive(Default)]
pub struct RandomSource {
    length: usize,
    pace: Pace,
}

impl Class for RandomSource {
    const NAME: &'static str = "RandomSource";
    const PORTS: &'static str = "0/1";
    const PROCESSING: &'static str = "a";
}

/// The length that an argument asks for.
fn checked(length: i32) -> Option<usize> {
    usize::try_from(length).ok().filter(|length| *length < 1 << 16)
}

fn make(cx: &mut Cx<'_>, length: usize, batch: &mut Batch, most: usize, now: i64) -> usize {
    for made in 0..most {
        let Some(mut packet) = cx.pool().packet(packet::HEADROOM, length) else {
            return made;
        };
        let random = cx.random();
        for word in packet.data_mut().chunks_mut(8) {
            let bytes = random.next_u64().to_ne_bytes();
            word.copy_from_slice(&bytes[..word.len()]);
        }
        packet.set_timestamp(now);
        if batch.push(packet).is_err() {
            return made;
        }
    }
    most
}

impl Declared for RandomSource {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.pace.set_defaults();
        let (mut length, mut stop) = (0, false);
        args.mandatory_positional("LENGTH", &mut length)
            .positional("LIMIT", &mut self.pace.limit)
            .positional("BURST", &mut self.pace.burst)
            .positional("ACTIVE", &mut self.pace.active)
            .keyword("TIMESTAMP", &mut self.pace.timestamp)
            .keyword("STOP", &mut stop)
            .keyword_with("END_CALL", Any, &mut self.pace.end)
            .complete()?;
        let Some(length) = checked(length) else {
            return Err(args.fail(format_args!("bad length {length}")));
        };
        self.length = length;
        self.pace.check(cx, stop).map_err(|e| args.fail(e))
    }

    fn handlers(&self, list: &mut HandlerList) {
        self.pace.handlers(list);
        list.read_write("length");
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "length" => Ok(self.length.to_string()),
            _ => self.pace.read(name),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        if name != "length" {
            return self.pace.write(cx, name, value);
        }
        let length = cx.names().parse(value).ok().and_then(checked);
        self.length = length.ok_or("length must be an integer from 0 to 65535")?;
        Ok(())
    }
}

impl Element for RandomSource {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.pace.initialize(cx)
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, task: TaskId) -> Ran {
        let length = self.length;
        self.pace.run_task(cx, task, |cx, batch, most, now| {
            make(cx, length, batch, most, now)
        })
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        let length = self.length;
        self.pace.pull(cx, batch, most, |cx, batch, most, now| {
            make(cx, length, batch, most, now)
        });
    }

    fn notifier(&self, notice: Notice, _port: usize) -> Search {
        self.pace.notifier(notice)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn packets_are_random_and_of_the_length() {
        let mut rig = Rig::new("s :: RandomSource(67, LIMIT 50, STOP true) -> c :: Collect;");
        rig.run();
        let data = rig.data("c");
        assert!(data.len() == 50 && data.iter().all(|packet| packet.len() == 67));
        let ones: u32 = data.iter().flatten().map(|byte| byte.count_ones()).sum();
        assert!((12_400..14_400).contains(&ones), "{ones} of 26800 bits");
        assert!(data.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn it_can_be_pulled_from() {
        let mut rig = Rig::new("s :: RandomSource(1, LIMIT 2) -> p :: Puller;");
        assert_eq!(rig.pull("p", 5).len(), 2);
        assert!(rig.pull("p", 5).is_empty());
        rig.write("s.reset", "");
        rig.write("s.length", "9");
        assert_eq!(rig.pull("p", 1)[0].len(), 9);
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for (arguments, message) in [
            ("", "LENGTH: required argument missing"),
            ("65536", "bad length 65536"),
            ("-1", "bad length -1"),
            ("5, BURST 0", "burst size must be >= 1"),
        ] {
            let errors = Rig::errors(&alloc::format!("RandomSource({arguments}) -> Discard;"));
            assert!(errors.contains(message), "{errors}");
        }
    }
}
