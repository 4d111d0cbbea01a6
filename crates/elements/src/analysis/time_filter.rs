use crate::prelude::*;

/// Passes packets whose timestamps lie in a range.
///
/// # Example
/// ```click
/// FromDump(in.pcap, STOP true) -> TimeFilter(START_AFTER 60, INTERVAL 10) -> ToDump(out.pcap);
/// ```
///
/// # See also
/// TimeRange, FromDump
#[derive(Element)]
#[element(ports = "1/1-2", processing = "a/ah", handlers)]
#[outputs("packets in the range", "other packets")]
pub struct TimeFilter {
    /// The first time that passes, in seconds since 1970.
    #[arg(positional)]
    start: Timestamp,
    /// The first time that no longer passes.
    #[arg(positional)]
    end: Timestamp,
    /// As START, counted from the start of the router.
    #[arg]
    start_delay: Timestamp,
    /// As END, counted from the start of the router.
    #[arg]
    end_delay: Timestamp,
    /// As START, counted from the first packet's timestamp.
    #[arg]
    start_after: Timestamp,
    /// As END, counted from the first packet's timestamp.
    #[arg]
    end_after: Timestamp,
    /// As END, counted from the first time that passes.
    #[arg]
    interval: Timestamp,
    /// Stop the driver at the first packet after the end.
    #[arg]
    stop: bool,
    /// Called at the first packet after the end; in its value, `$t` is the packet's timestamp. If
    /// the call sets a later end, the packet passes. Not together with STOP.
    #[arg(with = args::Any, kind = "handler call")]
    end_call: String,
    first: i64,
    #[init(i64::MAX)]
    last: i64,
    first_base: Base,
    last_base: Base,
    /// A packet was seen: times that count from it are known.
    ready: bool,
    call: Option<Call>,
    /// The call is still to come.
    call_waits: bool,
}

/// What a time counts from.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Base {
    #[default]
    Epoch,
    Start,
    FirstPacket,
    FirstTime,
}

impl TimeFilter {
    fn move_end(&mut self, last: i64) {
        self.last = last;
        self.call_waits = self.call.is_some();
    }

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

    /// Makes the call, again as long as it sets a later end.
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
            let _ = call.write_from(cx, self);
            if time < self.last || !self.call_waits || self.last <= before {
                return;
            }
        }
    }
}

#[handlers]
impl TimeFilter {
    /// The first time that passes; known after the first packet if it counts from that.
    #[read]
    fn read_start(&self) -> Timestamp {
        Timestamp(self.first)
    }

    /// The argument START.
    #[write(error = "expected time")]
    fn write_start(&mut self, time: Timestamp) {
        if !self.ready {
            self.first_packet(time.0);
        }
        self.first = time.0;
    }

    /// The first time that no longer passes; known after the first packet if it counts from that.
    #[read]
    fn read_end(&self) -> Timestamp {
        Timestamp(self.last)
    }

    /// The argument END.
    #[write(error = "expected time")]
    fn write_end(&mut self, time: Timestamp) {
        self.move_end(time.0);
        self.last_base = Base::Epoch;
    }

    /// The length of the range.
    #[read]
    fn read_interval(&self) -> Timestamp {
        Timestamp(self.last.saturating_sub(self.first))
    }

    /// The argument INTERVAL.
    #[write(error = "expected time")]
    fn write_interval(&mut self, time: Timestamp) {
        self.move_end(self.first.saturating_add(time.0));
    }

    /// Adds a time to the end.
    #[write(error = "expected time")]
    fn extend_interval(&mut self, time: Timestamp) {
        self.move_end(self.last.saturating_add(time.0));
    }
}

impl Element for TimeFilter {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        Call::check_element(cx, args, "END_CALL", &self.end_call)?;
        let given = |times: &[Timestamp]| times.iter().filter(|time| time.0 != 0).count();
        if given(&[self.start, self.start_delay, self.start_after]) > 1 {
            return Err(args.fail("START, START_AFTER, and START_DELAY are mutually exclusive"));
        }
        if given(&[self.end, self.end_delay, self.end_after, self.interval]) > 1 {
            let message = "END, END_AFTER, END_DELAY, and INTERVAL are mutually exclusive";
            return Err(args.fail(message));
        }
        (self.first, self.first_base) = match (self.start.0, self.start_delay.0) {
            (0, 0) => (self.start_after.0, Base::FirstPacket),
            (0, delay) => (delay, Base::Start),
            (start, _) => (start, Base::Epoch),
        };
        let (after, delay, interval) = (self.end_after.0, self.end_delay.0, self.interval.0);
        (self.last, self.last_base) = match (self.end.0, after, delay, interval) {
            (0, 0, 0, 0) => (i64::MAX, Base::Epoch),
            (0, 0, 0, interval) => (interval, Base::FirstTime),
            (0, 0, delay, _) => (delay, Base::Start),
            (0, after, ..) => (after, Base::FirstPacket),
            (end, ..) => (end, Base::Epoch),
        };
        match (self.stop, self.end_call.is_empty()) {
            (true, false) => return Err(args.fail("END_CALL and STOP are mutually exclusive")),
            (true, true) => self.end_call = "stop true".to_string(),
            _ => {}
        }
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        if !self.end_call.is_empty() {
            cx.may_interrupt();
            let call = Call::to_write(cx, &self.end_call).map_err(|error| cx.error(error))?;
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
        if time < self.last {
            Verdict::Forward
        } else {
            Verdict::To(1)
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

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
            assert_eq!(
                (yes.as_slice(), no.len()),
                (inside, 5 - inside.len()),
                "{args}"
            );
        }
        let start = START / SECOND;
        let (yes, _) = passed(
            &mut filter("START_DELAY 1, END_DELAY 3"),
            &[start, start + 1, start + 3],
        );
        assert_eq!(yes, [start + 1]);
    }

    #[test]
    fn the_call_at_the_end_can_move_it() {
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
        rig.assert_handlers(&[("t.start", "5.000000"), ("t.end", "9.000000")]);
        rig.write("t.end", "7");
        assert_eq!(rig.read("t.interval"), "2.000000");
        assert!(rig.try_write("t.end", "x").is_err());
        Rig::refuses(
            "Idle -> TimeFilter(1, START_AFTER 2) -> Discard;",
            "mutually exclusive",
        );
    }
}
