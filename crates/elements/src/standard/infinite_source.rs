use alloc::string::{String, ToString};
use alloc::vec::Vec;

use packet::{Batch, Mold};
use router::args::{Any, Args, Failed};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList, Notice, Ran, Search, TaskId};

use super::source::Pace;

/// What packets hold if DATA is not given: the 69 bytes that Click's sources send, which existing
/// configurations and their tests count on.
pub(crate) const DATA: &[u8] =
    b"Random bullshit in a packet, at least 64 bytes long. Well, now it is.";

/// Makes packets of the same data as fast as it can.
///
/// # Arguments
/// - `DATA` (bytes): what each packet holds; 64 bytes or more if not given.
/// - `LIMIT` (integer, -1): packets after which it stops; no limit if negative.
/// - `BURST` (integer, 1): packets each time it is scheduled.
/// - `ACTIVE` (boolean, true): whether it makes packets.
/// - `TIMESTAMP` (boolean, true): whether packets carry the time they were made.
/// - `LENGTH` (integer): length of each packet, in bytes, 65535 at most; DATA is cut or repeated to
///   fit.
/// - `STOP` (boolean, false): stop the driver after LIMIT packets.
/// - `END_CALL` (handler call): called after LIMIT packets; not together with STOP.
///
/// # Ports
/// No input; one output, agnostic.
///
/// # Handlers
/// - `count` (read): packets made.
/// - `reset` (write): sets `count` to 0.
/// - `data`, `limit`, `burst`, `active`, `length` (read, write): the arguments.
/// - `scheduled`, `tickets`, `home_thread`: the task's; on a push output.
///
/// # Example
/// ```click
/// InfiniteSource(DATA \<0800>, LIMIT 100, STOP true) -> Queue -> Unqueue -> Discard;
/// ```
///
/// # See also
/// RatedSource, TimedSource
#[derive(Default)]
pub struct InfiniteSource {
    data: Vec<u8>,
    length: i32,
    mold: Mold,
    pace: Pace,
}

impl Class for InfiniteSource {
    const NAME: &'static str = "InfiniteSource";
    const PORTS: &'static str = "0/1";
    const PROCESSING: &'static str = "a";
}

/// Longest packet that LENGTH may ask for: as long as an IP packet can be.
const LENGTH_MAX: i32 = 65535;

/// A LENGTH, if it is not more than there may be; negative: that of the data.
pub(crate) fn checked_length(length: i32) -> Result<i32, &'static str> {
    match length <= LENGTH_MAX {
        true => Ok(length),
        false => Err("length must be at most 65535"),
    }
}

/// The data that a packet of `data` holds: cut or repeated to `length` bytes, if it is not
/// negative.
pub(crate) fn packet_data(data: &[u8], length: i32) -> Vec<u8> {
    let content = if data.is_empty() { DATA } else { data };
    match usize::try_from(length) {
        Ok(length) => content.iter().copied().cycle().take(length).collect(),
        Err(_) => data.to_vec(),
    }
}

impl InfiniteSource {
    fn make_mold(&mut self) {
        self.mold = Mold::new(&packet_data(&self.data, self.length));
    }
}

impl Declared for InfiniteSource {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        (self.data, self.length) = (DATA.to_vec(), -1);
        self.pace.set_defaults();
        let mut stop = false;
        args.positional("DATA", &mut self.data)
            .positional("LIMIT", &mut self.pace.limit)
            .positional("BURST", &mut self.pace.burst)
            .positional("ACTIVE", &mut self.pace.active)
            .keyword("TIMESTAMP", &mut self.pace.timestamp)
            .keyword("LENGTH", &mut self.length)
            .keyword("STOP", &mut stop)
            .keyword_with("END_CALL", Any, &mut self.pace.end)
            .complete()?;
        self.pace.check(cx, stop).map_err(|e| args.fail(e))?;
        checked_length(self.length).map_err(|e| args.fail(e))?;
        self.make_mold();
        Ok(())
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read_write("data");
        self.pace.handlers(list);
        list.read_write("length");
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "data" => Ok(String::from_utf8_lossy(&self.data).into_owned()),
            "length" => Ok(self.length.to_string()),
            _ => self.pace.read(name),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "data" => self.data = value.as_bytes().to_vec(),
            "length" => {
                let length = cx.names().parse(value);
                self.length = checked_length(length.map_err(|_| "length must be integer")?)?;
            }
            _ => return self.pace.write(cx, name, value),
        }
        self.make_mold();
        self.pace.wake(cx);
        Ok(())
    }
}

impl Element for InfiniteSource {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.pace.initialize(cx)
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, task: TaskId) -> Ran {
        let mold = &self.mold;
        self.pace.run_task(cx, task, |cx, batch, most, now| {
            cx.pool().cast(mold, now, batch, most)
        })
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        let mold = &self.mold;
        self.pace.pull(cx, batch, most, |cx, batch, most, now| {
            cx.pool().cast(mold, now, batch, most)
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
    fn it_makes_packets_of_its_data_up_to_the_limit() {
        for batch in [1, 64] {
            let config = "s :: InfiniteSource(DATA \\<0102>, LIMIT 100, BURST 30, STOP true)
                -> c :: Collect;";
            let mut rig = Rig::with_batch(config, batch);
            assert_eq!(rig.run(), router::Status::Stopped);
            let data = rig.data("c");
            assert!(data.len() == 100 && data.iter().all(|packet| packet == &[1, 2]));
            assert_eq!(rig.read("s.count"), "100");
        }
    }

    #[test]
    fn no_packet_is_longer_than_an_ip_packet_can_be() {
        let config = "s :: InfiniteSource(LIMIT 1, LENGTH 65535) -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.run();
        assert_eq!(rig.data("c")[0].len(), 65535);
        let refused = rig.try_write("s.length", "2147483647");
        assert_eq!(refused, Err("length must be at most 65535".into()));
        assert_eq!(rig.read("s.length"), "65535");
        let errors = Rig::errors("InfiniteSource(LENGTH 65536) -> Collect;");
        assert!(errors.contains("length must be at most 65535"), "{errors}");
    }

    #[test]
    fn data_is_cut_or_repeated_to_length() {
        let config = "s :: InfiniteSource(DATA abc, LIMIT 1, LENGTH 5) -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.run();
        assert_eq!(rig.data("c"), [b"abcab"]);
        rig.write("s.length", "2");
        rig.write("s.reset", "");
        rig.run();
        assert_eq!(rig.data("c"), [b"ab"]);
        rig.write("s.data", "x");
        rig.write("s.length", "-1");
        rig.write("s.reset", "");
        rig.run();
        assert_eq!(rig.data("c"), [b"x"]);
    }

    #[test]
    fn the_end_calls_a_handler() {
        let config = "s :: InfiniteSource(LIMIT 3, END_CALL k.reset) -> k :: Counter -> Discard;";
        let mut rig = Rig::new(config);
        rig.run();
        assert_eq!(rig.read("k.count"), "0");
        let errors = Rig::errors("InfiniteSource(END_CALL k.reset, STOP true) -> k :: Counter -> Discard;");
        assert!(errors.contains("mutually exclusive"), "{errors}");
    }

    #[test]
    fn who_pulls_from_it_sleeps_at_its_end() {
        let config = "s :: InfiniteSource(LIMIT 3) -> u :: Unqueue -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.run();
        assert_eq!(rig.collected("c").len(), 3);
        assert_eq!(rig.read("u.scheduled"), "false");
        rig.write("s.limit", "4");
        rig.run();
        assert_eq!(rig.collected("c").len(), 1);
        assert!(rig.try_write("s.burst", "0").is_err());
    }
}
