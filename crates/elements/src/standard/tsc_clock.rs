use crate::prelude::*;

/// Shows the clocks.
///
/// In FastClick, it makes time come from the processor's time stamp counter. Weir's clocks do so
/// without it, as the kernel's vDSO does. Packets pass unchanged.
///
/// # Example
/// ```click
/// clock :: TSCClock(NOWAIT true);
/// DriverManager(print clock.now, print clock.now_steady);
/// ```
///
/// # See also
/// JiffieClock, SetTimestamp
#[derive(Element)]
#[element(ports = "0-1/=", processing = "h", segments, handlers)]
pub struct TSCClock {
    /// Accepted and ignored.
    #[arg]
    verbose: i32,
    /// Accepted and ignored.
    #[arg(default = true)]
    install: bool,
    /// Accepted and ignored: the clocks are ready at once.
    #[arg(name = "NOWAIT")]
    no_wait: bool,
    /// Accepted and ignored: the host's clock is the base.
    #[arg(with = Any, kind = "element")]
    base: String,
    /// Accepted and ignored.
    #[arg(with = Any, kind = "element")]
    source: String,
    /// Accepted and ignored.
    #[arg]
    convert_steady: bool,
    /// A handler to write when the router starts: `ELEMENT.HANDLER [VALUE]`.
    #[arg(with = Any, kind = "handler call")]
    ready_call: String,
    call: Option<Call>,
}

#[handlers]
impl TSCClock {
    /// The time, in seconds since 1970.
    #[read]
    fn now(&self, cx: &mut Cx<'_>) -> Timestamp {
        Timestamp(cx.wall())
    }

    /// The steady clock, in seconds.
    #[read]
    fn now_steady(&self, cx: &mut Cx<'_>) -> Timestamp {
        Timestamp(i64::try_from(cx.steady().0).unwrap_or(i64::MAX))
    }

    /// The steady clock, in ticks.
    #[read]
    fn cycles(&self, cx: &mut Cx<'_>) -> u64 {
        cx.steady().0
    }

    /// Ticks a second.
    #[read]
    fn cycles_hz(&self) -> u64 {
        1_000_000_000
    }

    /// 2: the clock runs.
    #[read]
    fn phase(&self) -> u32 {
        2
    }
}

impl Element for TSCClock {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        if self.ready_call.is_empty() {
            return Ok(());
        }
        match Call::to_write(cx, &self.ready_call) {
            Ok(call) => self.call = Some(call),
            Err(error) => return Err(cx.error(format_args!("READY_CALL: {error}"))),
        }
        let task = cx.task();
        cx.schedule(task);
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, _task: TaskId) -> Ran {
        if let Some(call) = self.call.take()
            && call.write(cx).is_err()
        {
            let name = cx.declaration();
            cx.chatter(format_args!("{name}: READY_CALL failed"));
        }
        Ran::worked(true)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn the_clocks_are_shown() {
        let mut rig = Rig::new("k :: TSCClock(INSTALL true, NOWAIT true);");
        rig.pause(1_500_000_000);
        assert_eq!(rig.read("k.now"), "1000000001.500000");
        assert_eq!(rig.read("k.now_steady"), "1.500000");
        assert_eq!(rig.read("k.cycles"), "1500000000");
    }

    #[test]
    fn the_call_is_made_once_at_the_start() {
        let config = "i :: Inject -> TSCClock(READY_CALL s.switch 1) -> s :: Switch;
            s[0] -> c :: Collect; s[1] -> d :: Collect;";
        let mut rig = Rig::new(config);
        rig.push("i", &[1]);
        rig.run();
        rig.push("i", &[2]);
        assert_eq!(
            (rig.data("c"), rig.data("d")),
            (vec![vec![1]], vec![vec![2]])
        );
        rig.write("s.switch", "0");
        rig.run();
        assert_eq!(rig.read("s.switch"), "0");
        Rig::refuses(
            "TSCClock(READY_CALL x.y);",
            "READY_CALL: no element named 'x'",
        );
    }
}
