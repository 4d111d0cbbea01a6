use super::source::{SourceData, SourcePace};
use crate::prelude::*;

/// Makes packets of the same data as fast as it can.
///
/// # Example
/// ```click
/// InfiniteSource(DATA \<0800>, LIMIT 100, STOP true) -> Queue -> Unqueue -> Discard;
/// ```
///
/// # See also
/// RatedSource, TimedSource
#[derive(Element)]
#[element(ports = "0/1", processing = "a", live, handlers)]
pub struct InfiniteSource {
    #[flatten]
    payload: SourceData,
    #[flatten]
    pace: SourcePace,
    /// The same as LENGTH.
    #[arg]
    datasize: Option<i32>,
    template: PacketTemplate,
}

impl InfiniteSource {
    fn make_template(&mut self) {
        self.template = PacketTemplate::new(&self.payload.bytes());
    }

    #[inline]
    fn call_end(&mut self, cx: &mut Cx<'_>) {
        if let Some(call) = self.pace.take_end() {
            let _ = call.write_from(cx, self);
        }
    }
}

#[handlers]
impl InfiniteSource {
    /// The argument DATA.
    #[write(raw)]
    fn write_data(&mut self, cx: &mut Cx<'_>, value: &str) {
        self.payload.data = click::text::encode(value).into_owned();
        self.make_template();
        self.pace.wake(cx);
    }

    /// The argument LENGTH.
    #[write(calm, alias = "datasize", error = "length must be integer")]
    fn write_length(&mut self, cx: &mut Cx<'_>, length: i32) -> Result<(), &'static str> {
        self.payload.set_length(length)?;
        self.make_template();
        self.pace.wake(cx);
        Ok(())
    }

    /// The argument LENGTH.
    #[read(calm, deprecated)]
    fn read_datasize(&self) -> i32 {
        self.payload.length
    }

    /// The argument BURST.
    #[read(calm, deprecated)]
    fn read_burstsize(&self) -> i32 {
        self.pace.burst
    }

    /// The argument BURST.
    #[write(deprecated)]
    fn write_burstsize(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), &'static str> {
        self.pace.write_burst(cx, value)
    }
}

impl Element for InfiniteSource {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if let Some(length) = self.datasize {
            self.payload.length = length;
        }
        self.pace.configured(cx, args)?;
        self.payload.check(args)?;
        self.make_template();
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.pace.initialize(cx)
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, task: TaskId) -> Ran {
        let template = &self.template;
        let ran = self
            .pace
            .run_task(cx, task, template.data().len(), |cx, batch, most, now| {
                cx.pool().fill(template, now, batch, most)
            });
        self.call_end(cx);
        ran
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        let template = &self.template;
        self.pace.pull(cx, batch, most, |cx, batch, most, now| {
            cx.pool().fill(template, now, batch, most)
        });
        self.call_end(cx);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

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

    /// Runs a router for so many turns of its tasks; a Tee shows whether packets are sent together. Returns the
    /// outputs of the Tee in order.
    fn turns(rig: &mut Rig, turns: usize) -> Vec<u8> {
        rig.router.run(turns);
        let packets = rig.collected("c");
        packets.iter().map(|packet| packet.paint()).collect()
    }

    #[test]
    fn turns_that_follow_each_other_are_taken_together() {
        let tee = "t :: Tee -> Paint(1) -> c :: Collect; t[1] -> Paint(2) -> c;";
        for path in ["s :: InfiniteSource", "InfiniteSource -> s :: Unqueue"] {
            let mut rig = Rig::new(&format!("{path} -> {tee}"));
            // As many turns as there are, and no more.
            assert_eq!(turns(&mut rig, 3), [1, 1, 1, 2, 2, 2], "{path}");
            assert_eq!(turns(&mut rig, 130).len(), 260, "{path}");
            rig.write("s.burst", "20");
            assert_eq!(turns(&mut rig, 3), [[1; 60], [2; 60]].concat(), "{path}");
            let mut rig = Rig::with_batch(&format!("{path} -> {tee}"), 1);
            assert_eq!(turns(&mut rig, 3), [1, 2, 1, 2, 1, 2], "{path}");
        }
    }

    #[test]
    fn turns_are_taken_one_by_one_where_something_may_come_between() {
        let path = "s :: InfiniteSource -> k :: Null -> t :: Tee -> Paint(1) -> c :: Collect;
            t[1] -> Paint(2) -> c;";
        let apart = [1, 2, 1, 2, 1, 2];
        // An element that looks at a queue.
        let queue = "r :: RED(5, 50, 0.02) -> Queue -> Idle;";
        let mut rig = Rig::new(&format!("{path} Idle -> {queue}"));
        assert_eq!(turns(&mut rig, 3), apart);
        // A handler that a packet may call.
        for (element, count) in [
            ("Counter(COUNT_CALL 3 stop)", 3),
            ("Counter(COUNT_CALL 3 s.active false)", 3),
            ("Counter(COUNT_CALL 3 s.limit 5)", 5),
            ("AggregateCounter(COUNT_STOP 3)", 3),
            (
                "TimeFilter(START 0.000001, END 0.000002, END_CALL s.active false)",
                0,
            ),
            ("Script(TYPE PACKET, write s.active false, return 0)", 1),
        ] {
            let mut rig = Rig::new(&path.replace("Null", element));
            assert_eq!(turns(&mut rig, 64).len(), 2 * count, "{element}");
            assert!(
                count == 0 || rig.read("s.count") == format!("{count}"),
                "{element}"
            );
        }
        let mut rig = Rig::new(&path.replace("Null", "Counter"));
        rig.write("k.count_call", "3 s.active false");
        assert_eq!(turns(&mut rig, 64).len(), 6);
        // A queue that becomes full.
        let mut rig = Rig::new("InfiniteSource -> q :: Queue(10) -> Idle;");
        rig.router.run(64);
        rig.assert_handlers(&[("q.length", "10"), ("q.drops", "0")]);
    }

    #[test]
    fn its_data_are_bytes() {
        let mut rig = Rig::new("s :: InfiniteSource(DATA \\<ff00e9>, LIMIT 1) -> c :: Collect;");
        assert_eq!(rig.read("s.data"), "\u{efff}\0\u{efe9}");
        rig.write("s.data", "é\u{efe9}");
        rig.run();
        assert_eq!(rig.data("c")[0], b"\xc3\xa9\xe9");
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
        Rig::refuses(
            "InfiniteSource(LENGTH 65536) -> Collect;",
            "length must be at most 65535",
        );
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
    fn old_names_of_arguments_and_handlers_remain() {
        let mut rig = Rig::new("s :: InfiniteSource(DATASIZE 7, LIMIT 1) -> c :: Collect;");
        rig.run();
        assert_eq!(rig.data("c")[0].len(), 7);
        rig.write("s.datasize", "9");
        rig.write("s.burstsize", "3");
        for (name, value) in [
            ("s.length", "9"),
            ("s.datasize", "9"),
            ("s.burst", "3"),
            ("s.burstsize", "3"),
        ] {
            assert_eq!(rig.read(name), value, "{name}");
        }
        assert!(rig.try_write("s.burstsize", "0").is_err());
        let handlers = rig.read("s.handlers");
        assert!(handlers.contains("datasize\trw.D\n"), "{handlers}");
        assert!(handlers.contains("burstsize\trw.D\n"), "{handlers}");
        assert!(handlers.contains("\ndata\trw%.\n"), "{handlers}");
    }

    #[test]
    fn its_configuration_can_be_written() {
        for source in ["InfiniteSource(DATA x, LIMIT 9)", "RandomSource(3, 9)"] {
            let config = format!("s :: {source} -> c :: Collect;");
            let mut rig = Rig::new(&config);
            assert!(rig.read("s.handlers").contains("config\trw"), "{source}");
            rig.run();
            assert_eq!(rig.collected("c").len(), 9);
            let first = if source.starts_with('I') { "yz" } else { "2" };
            rig.write(
                "s.config",
                &format!("{first}, LIMIT 4, ACTIVE false, STOP true"),
            );
            assert_eq!(rig.read("s.count"), "0");
            rig.write("s.active", "true");
            assert_eq!(rig.run(), router::Status::Stopped);
            let data = rig.data("c");
            assert_eq!((data.len(), data[0].len()), (4, 2), "{source}");
            let errors = rig.try_write("s.config", &format!("{first}, BURST 0"));
            assert!(errors.is_err(), "{source}");
        }
    }

    #[test]
    fn the_end_calls_a_handler() {
        let config = "s :: InfiniteSource(LIMIT 3, END_CALL k.reset) -> k :: Counter -> Discard;";
        let mut rig = Rig::new(config);
        rig.run();
        assert_eq!(rig.read("k.count"), "0");
        let errors =
            Rig::errors("InfiniteSource(END_CALL k.reset, STOP true) -> k :: Counter -> Discard;");
        assert!(errors.contains("mutually exclusive"), "{errors}");
    }

    #[test]
    fn the_end_starts_the_source_again() {
        for path in ["", "-> Unqueue "] {
            let config = format!(
                "s :: InfiniteSource(LIMIT 6, END_CALL e.run) {path}-> k :: Counter -> Discard;
                 e :: Script(TYPE PASSIVE, init n 0, set n $(add $n 1),
                     goto end $(gt $n 2), write s.reset);"
            );
            let mut rig = Rig::new(&config);
            rig.run();
            assert_eq!(rig.read("k.count"), "18", "{config}");
        }
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
