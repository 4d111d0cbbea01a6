use alloc::string::{String, ToString};

use packet::Packet;
use router::args::{self, Args, Failed, Timestamp};
use router::{Call, Class, Cx, Declared, Element, HandlerError, HandlerList, Verdict};

/// Lets packets pass whose timestamps lie in a range.
///
/// # Arguments
/// - `START` (time): the first time that passes, in seconds since 1970.
/// - `START_AFTER` (time): the same, counted from the first packet's timestamp.
/// - `START_DELAY` (time): the same, counted from the start of the router.
/// - `END` (time): the first time that passes no more.
/// - `END_AFTER`, `END_DELAY` (time): the same, counted from the first packet or from the start.
/// - `INTERVAL` (time): the same, counted from the first time that passes.
/// - `STOP` (boolean, false): stop the driver at the first packet behind the end.
/// - `END_CALL` (handler call): called at the first packet behind the end, in whose value `$t`
///   stands for the packet's timestamp. If that sets a later end, the packet passes. Not together
///   with STOP.
///
/// # Ports
/// One input, agnostic. Output 0 is agnostic; output 1, optional, is push: the packets that do not
/// pass.
///
/// # Handlers
/// - `start`, `end`, `interval` (read, write): START, END and INTERVAL; what counts from the first
///   packet is known only after it.
/// - `extend_interval` (write): adds a time to the end.
///
/// # Example
/// ```click
/// FromDump(in.pcap, STOP true) -> TimeFilter(START_AFTER 60, INTERVAL 10) -> ToDump(out.pcap);
/// ```
///
/// # See also
/// TimeRange, FromDump
pub struct TimeFilter {
    first: i64,
    last: i64,
    first_base: Base,
    last_base: Base,
    /// A packet was seen: times that count from it are known.
    ready: bool,
    call_text: String,
    call: Option<Call>,
    /// The call is still to come.
    call_waits: bool,
}

/// What a time counts from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Base {
    Epoch,
    Start,
    FirstPacket,
    FirstTime,
}

impl Default for TimeFilter {
    fn default() -> Self {
        TimeFilter {
            first: 0,
            last: i64::MAX,
            first_base: Base::Epoch,
            last_base: Base::Epoch,
            ready: false,
            call_text: String::new(),
            call: None,
            call_waits: false,
        }
    }
}

impl Class for TimeFilter {
    const NAME: &'static str = "TimeFilter";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
}

impl TimeFilter {
    #[cold]
    fn first_packet(&mut self, time: i64) {
        if self.first_base == Base::FirstPacket {
            self.first = self.first.saturating_add(time);
        }
        match self.last_base {
            Base::FirstPacket => self.last = self.last.saturating_add(time),
            Base::FirstTime => self.last = self.last.saturating_add(self.first),
            Base::Epoch | Base::Start => {}
        }
        self.ready = true;
    }

    /// Calls whoever is to be called at the end, as long as that sets a later end.
    #[cold]
    fn call_end(&mut self, cx: &mut Cx<'_>, time: i64) {
        let Some(call) = &self.call else {
            return;
        };
        let mut call = call.clone();
        let text = Timestamp(time).to_string();
        let value = click::config::expand(
            &call.value,
            click::config::Style::Bare,
            &mut |reference: &click::config::Reference<'_>| {
                (reference.name == "t").then(|| text.clone())
            },
        );
        call.value = value.unwrap_or_default();
        loop {
            let before = self.last;
            self.call_waits = false;
            let (result, heard) = call.write_and_hear(cx, self);
            if let Err(HandlerError::Failed(error)) = result {
                cx.chatter(error);
            }
            for (name, value) in heard {
                if let Err(HandlerError::Failed(error)) = self.write(cx, &name, &value) {
                    cx.chatter(error);
                }
            }
            if time < self.last || !self.call_waits || self.last <= before {
                return;
            }
        }
    }
}

impl Declared for TimeFilter {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let [mut start, mut start_delay, mut start_after] = [Timestamp(0); 3];
        let [mut end, mut end_delay, mut end_after, mut interval] = [Timestamp(0); 4];
        let mut stop = false;
        args.positional("START", &mut start)
            .positional("END", &mut end)
            .keyword("START_DELAY", &mut start_delay)
            .keyword("END_DELAY", &mut end_delay)
            .keyword("START_AFTER", &mut start_after)
            .keyword("END_AFTER", &mut end_after)
            .keyword("INTERVAL", &mut interval)
            .keyword("STOP", &mut stop)
            .keyword_with("END_CALL", args::Any, &mut self.call_text)
            .complete()?;
        let given = |times: &[Timestamp]| times.iter().filter(|time| time.0 != 0).count();
        if given(&[start, start_delay, start_after]) > 1 {
            return Err(args.fail("START, START_AFTER, and START_DELAY are mutually exclusive"));
        }
        if given(&[end, end_delay, end_after, interval]) > 1 {
            let message = "END, END_AFTER, END_DELAY, and INTERVAL are mutually exclusive";
            return Err(args.fail(message));
        }
        (self.first, self.first_base) = match (start.0, start_delay.0) {
            (0, 0) => (start_after.0, Base::FirstPacket),
            (0, delay) => (delay, Base::Start),
            (start, _) => (start, Base::Epoch),
        };
        if self.first == 0 {
            self.first_base = Base::FirstPacket;
        }
        (self.last, self.last_base) = match (end.0, end_after.0, end_delay.0, interval.0) {
            (0, 0, 0, 0) => (i64::MAX, Base::Epoch),
            (0, 0, 0, interval) => (interval, Base::FirstTime),
            (0, 0, delay, _) => (delay, Base::Start),
            (0, after, ..) => (after, Base::FirstPacket),
            (end, ..) => (end, Base::Epoch),
        };
        match (stop, self.call_text.is_empty()) {
            (true, false) => return Err(args.fail("END_CALL and STOP are mutually exclusive")),
            (true, true) => self.call_text = "stop true".to_string(),
            _ => {}
        }
        Ok(())
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read_write("start").read_write("end").read_write("interval");
        list.write("extend_interval");
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        Ok(match name {
            "start" => Timestamp(self.first).to_string(),
            "end" => Timestamp(self.last).to_string(),
            "interval" => Timestamp(self.last.saturating_sub(self.first)).to_string(),
            _ => return Err(HandlerError::Unknown),
        })
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let time = cx.names().parse::<Timestamp>(value.trim());
        let time = time.map_err(|_| HandlerError::from("expected time"));
        match name {
            "start" => {
                let time = time?.0;
                if !self.ready {
                    self.first_packet(time);
                }
                self.first = time;
            }
            "end" => {
                self.last = time?.0;
                self.last_base = Base::Epoch;
                self.call_waits = self.call.is_some();
            }
            "interval" => {
                self.last = self.first.saturating_add(time?.0);
                self.call_waits = self.call.is_some();
            }
            "extend_interval" => {
                self.last = self.last.saturating_add(time?.0);
                self.call_waits = self.call.is_some();
            }
            _ => return Err(HandlerError::Unknown),
        }
        Ok(())
    }
}

impl Element for TimeFilter {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        if !self.call_text.is_empty() {
            let call = Call::to_write(cx, &self.call_text).map_err(|error| cx.error(error))?;
            self.call = Some(call);
            self.call_waits = true;
        }
        let now = cx.wall();
        if self.first_base == Base::Start {
            self.first = self.first.saturating_add(now);
        }
        if self.last_base == Base::Start {
            self.last = self.last.saturating_add(now);
        }
        Ok(())
    }

    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let time = packet.timestamp();
        if !self.ready {
            self.first_packet(time);
        }
        if time < self.first {
            return Verdict::To(1);
        }
        if time >= self.last && self.call_waits {
            self.call_end(cx, time);
        }
        match time < self.last {
            true => Verdict::Forward,
            false => Verdict::To(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec::Vec;

    use crate::testing::{Rig, START};

    const SECOND: i64 = 1_000_000_000;

    /// Which of packets at these seconds pass, and which do not.
    fn passed(rig: &mut Rig, seconds: &[i64]) -> (Vec<i64>, Vec<i64>) {
        for time in seconds {
            rig.push_with("i", &[0], |packet| packet.set_timestamp(time * SECOND));
        }
        let mut of = |name| {
            let packets = rig.collected(name);
            let times = packets.iter().map(|p| p.timestamp() / SECOND);
            times.collect::<Vec<_>>()
        };
        (of("c"), of("d"))
    }

    fn filter(args: &str) -> Rig {
        Rig::new(&format!(
            "i :: Inject -> t :: TimeFilter({args}) -> c :: Collect; t[1] -> d :: Collect;"
        ))
    }

    #[test]
    fn packets_pass_in_their_time() {
        for (args, inside) in [
            ("", [5, 6, 7, 8, 9].as_slice()),
            ("6, 8", &[6, 7]),
            ("START_AFTER 1, END_AFTER 3", &[6, 7]),
            ("START 6, INTERVAL 1", &[6]),
            ("INTERVAL 2", &[5, 6]),
            ("END 7", &[5, 6]),
        ] {
            let (yes, no) = passed(&mut filter(args), &[5, 6, 7, 8, 9]);
            assert_eq!((yes.as_slice(), no.len()), (inside, 5 - inside.len()), "{args}");
        }
        let start = START / SECOND;
        let (yes, _) = passed(&mut filter("START_DELAY 1, END_DELAY 3"), &[start, start + 1, start + 3]);
        assert_eq!(yes, [start + 1]);
    }

    #[test]
    fn the_end_can_be_moved_by_whoever_is_called_at_it() {
        let mut rig = Rig::new(
            "i :: Inject -> t :: TimeFilter(0, 2, END_CALL s.run $t) -> c :: Collect;
             s :: Script(TYPE PASSIVE, print $1, write t.extend_interval 2);",
        );
        for time in [1, 2, 3, 9] {
            rig.push_with("i", &[0], |packet| packet.set_timestamp(time * SECOND));
        }
        assert_eq!(rig.collected("c").len(), 4);
        // At 9, the end goes from 4 in steps of 2 until it is later.
        let called = ["2.000000\n", "9.000000\n", "9.000000\n", "9.000000\n"];
        assert_eq!(rig.printed(), called);
        let mut rig = filter("0, 2, END_CALL t.extend_interval 1");
        assert_eq!(passed(&mut rig, &[1, 2, 3]).0, [1, 2, 3]);
        let mut rig = filter("0, 2, STOP true");
        passed(&mut rig, &[1, 2]);
        assert_eq!(rig.run(), router::Status::Stopped);
    }

    #[test]
    fn handlers_tell_and_set_the_range() {
        let mut rig = filter("START 6, END 8");
        assert_eq!(rig.read("t.interval"), "2.000000");
        rig.write("t.interval", "3");
        rig.write("t.start", "5");
        assert_eq!((rig.read("t.start"), rig.read("t.end")), ("5.000000".into(), "9.000000".into()));
        rig.write("t.end", "7");
        assert_eq!(rig.read("t.interval"), "2.000000");
        assert!(rig.try_write("t.end", "x").is_err());
        let errors = Rig::errors("Idle -> TimeFilter(1, START_AFTER 2) -> Discard;");
        assert!(errors.contains("mutually exclusive"), "{errors}");
    }
}
