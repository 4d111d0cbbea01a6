use std::io::{self, IsTerminal, Write};

use crate::prelude::*;

mod picture;

use picture::Picture;

const SECOND: u64 = 1_000_000_000;
/// Without progress for this long, it says that it stalls.
const STALL: u64 = 5 * SECOND;
/// Columns of a terminal that does not say how many it has.
const COLUMNS: usize = 80;

/// Draws a progress bar on the terminal.
///
/// The position is read from handlers each time the bar is drawn; the size, the position at the
/// end, is read once. The values of several handlers are added. Without a size, the bar only shows
/// activity. Nothing is drawn if standard error is not a terminal, or while the program is in the
/// background.
///
/// # Example
/// ```click
/// f :: FromDump(in.pcap, STOP true) -> Discard;
/// ProgressBar(f.filepos, f.filesize, BANNER in.pcap);
/// ```
///
/// # See also
/// FromDump, DriverManager
#[derive(Element)]
#[element(ports = "0/0", handlers)]
pub struct ProgressBar {
    /// The position.
    #[arg(mandatory, name = "POSHANDLER", with = Any, kind = "read handlers, separated by spaces")]
    position_text: String,
    /// The size.
    #[arg(positional, name = "SIZEHANDLER", with = Any, kind = "read handlers, separated by spaces")]
    size_text: String,
    /// How often it draws.
    #[arg(name = "UPDATE", default = Milliseconds(250), default_text = "0.25s")]
    interval: Milliseconds,
    /// Text before the bar.
    #[arg(read, raw)]
    banner: String,
    /// Whether it draws.
    #[arg(default = true, read, write, checkbox, error = "type mismatch", then = activated)]
    active: bool,
    /// How long it waits before it draws first.
    #[arg(default_text = "0")]
    delay: Milliseconds,
    /// Whether not to draw if standard output is a terminal.
    #[arg]
    check_stdout: bool,
    /// The size, in place of SIZEHANDLER.
    #[arg]
    fixed_size: Option<f64>,
    position_calls: Vec<Call>,
    size_calls: Vec<Call>,
    size: Option<f64>,
    stage: Stage,
    clock: Clock,
    /// The position when it last grew.
    #[handler(read, name = "pos")]
    position: f64,
    timer: Option<TimerId>,
}

/// How far it is itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Nothing is to be drawn on.
    #[default]
    Dead,
    First,
    Middle,
    /// Over before it was drawn once.
    FirstDone,
    Done,
}

/// When what happened.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    start: Steady,
    /// When the position last grew.
    moved: Steady,
    /// Nanoseconds for which it stalled.
    stalled: u64,
}

/// Whether this program may draw: it is in the foreground of its terminal.
fn in_foreground() -> bool {
    let group = rustix::termios::tcgetpgrp(io::stderr());
    group.is_ok_and(|group| group == rustix::process::getpgrp())
}

fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stderr());
    let columns = size.map_or(0, |size| usize::from(size.ws_col));
    if columns == 0 { COLUMNS } else { columns }
}

fn resolve(cx: &Cx<'_>, text: &str) -> Result<Vec<Call>, String> {
    let words = click::config::split_space(text);
    words.iter().map(|word| Call::to_read(cx, word)).collect()
}

/// The sum of what handlers say; `None` if there are none, or one says no number.
fn sum(cx: &mut Cx<'_>, calls: &[Call]) -> Option<f64> {
    let mut all = None;
    for call in calls {
        let text = call.read(cx).ok()?;
        let value: f64 = cx.names().parse(text.trim()).ok()?;
        *all.get_or_insert(0.0) += value;
    }
    all
}

impl ProgressBar {
    fn resume(&self, cx: &mut Cx<'_>, nanoseconds: u64) {
        if let Some(timer) = self.timer {
            cx.schedule_after(timer, nanoseconds);
        }
    }

    fn activated(&mut self, cx: &mut Cx<'_>) {
        let asleep = self.timer.is_some_and(|timer| cx.expires(timer).is_none());
        if self.active && asleep && self.stage != Stage::Dead {
            self.resume(cx, 0);
        }
    }

    fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Done | Stage::FirstDone)
    }

    fn begin(&mut self, cx: &mut Cx<'_>) {
        if !matches!(self.stage, Stage::First | Stage::FirstDone) {
            return;
        }
        if self.size.is_none() {
            self.size = sum(cx, &self.size_calls);
        }
        let now = cx.steady();
        (self.position, self.clock) = (0.0, Clock::default());
        (self.clock.start, self.clock.moved) = (now, now);
        if self.stage == Stage::First {
            self.stage = Stage::Middle;
        }
    }

    /// The line that shows where things stand.
    fn line(&mut self, cx: &mut Cx<'_>, columns: usize) -> String {
        let now = cx.steady();
        let position = sum(cx, &self.position_calls);
        let mut waited = now.since(self.clock.moved);
        if position.unwrap_or(0.0) > self.position {
            if waited >= STALL {
                self.clock.stalled += waited;
            }
            self.clock.moved = now;
            self.position = position.unwrap_or(0.0);
            waited = 0;
        }
        Picture {
            banner: &self.banner,
            position,
            size: self.size,
            relative: self.size_calls.is_empty(),
            done: self.is_done(),
            elapsed: now
                .since(self.clock.start)
                .saturating_sub(self.clock.stalled),
            stalls: waited >= STALL,
            columns,
        }
        .draw()
    }

    fn update(&mut self, cx: &mut Cx<'_>) {
        if !self.active || self.stage == Stage::Dead {
            return;
        }
        self.begin(cx);
        let interval = u64::from(self.interval.0) * 1_000_000;
        if !in_foreground() {
            return self.resume(cx, interval);
        }
        let delay = u64::from(self.delay.0) * 1_000_000;
        let passed = cx.steady().since(self.clock.start);
        if let Some(rest) = delay.checked_sub(passed).filter(|rest| *rest > 0) {
            return self.resume(cx, rest);
        }
        let line = self.line(cx, columns());
        // A terminal that went away is no reason to stop.
        let _ = io::stderr().write_all(&click::text::encode(&line));
        if self.is_done() {
            self.active = false
        } else {
            self.resume(cx, interval)
        }
    }

    /// Draws the bar a last time.
    fn finish(&mut self, cx: &mut Cx<'_>, whole: bool) {
        if self.is_done() || !self.active || self.stage == Stage::Dead {
            return;
        }
        if whole {
            self.size = Some(sum(cx, &self.position_calls).unwrap_or(0.0));
        }
        self.stage = match self.stage {
            Stage::First => Stage::FirstDone,
            _ => Stage::Done,
        };
        if let Some(timer) = self.timer {
            cx.unschedule_timer(timer);
        }
        self.update(cx);
    }
}

fn names(cx: &Cx<'_>, calls: &[Call]) -> String {
    let names: Vec<String> = calls.iter().map(|call| call.full_name(cx)).collect();
    names.join(" ")
}

#[handlers]
impl ProgressBar {
    /// Draws the bar a last time.
    #[write]
    fn mark_stopped(&mut self, cx: &mut Cx<'_>) {
        self.finish(cx, false);
    }

    /// Draws the bar a last time, complete.
    #[write]
    fn mark_done(&mut self, cx: &mut Cx<'_>) {
        self.finish(cx, true);
    }

    /// Starts again.
    #[write(button)]
    fn reset(&mut self, cx: &mut Cx<'_>) {
        (self.size, self.active) = (None, true);
        if self.stage != Stage::Dead {
            self.stage = Stage::First;
            self.resume(cx, 0);
        }
    }

    /// The argument BANNER.
    #[write(raw)]
    fn write_banner(&mut self, value: &str) {
        self.banner = value.into();
    }

    /// The handlers of the position.
    #[read]
    fn read_poshandler(&self, cx: &mut Cx<'_>) -> String {
        names(cx, &self.position_calls)
    }

    /// The argument POSHANDLER.
    #[write]
    fn write_poshandler(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), String> {
        self.position_calls = resolve(cx, value)?;
        Ok(())
    }

    /// The handlers of the size.
    #[read]
    fn read_sizehandler(&self, cx: &mut Cx<'_>) -> String {
        names(cx, &self.size_calls)
    }

    /// The argument SIZEHANDLER.
    #[write]
    fn write_sizehandler(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), String> {
        (self.size_calls, self.size) = (resolve(cx, value)?, None);
        Ok(())
    }

    /// The size; -1 if it is not known.
    #[read]
    fn read_size(&self) -> f64 {
        self.size.unwrap_or(-1.0)
    }

    /// Sets the size.
    #[write(error = "type mismatch")]
    fn write_size(&mut self, size: f64) {
        self.size = Some(size);
    }
}

impl Element for ProgressBar {
    fn configured(&mut self, _cx: &mut Cx<'_>, _args: &mut Args<'_>) -> Result<(), Failed> {
        self.size = self.fixed_size;
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let position = resolve(cx, &self.position_text);
        self.position_calls = position.map_err(|error| cx.error(error))?;
        let size = resolve(cx, &self.size_text);
        self.size_calls = size.map_err(|error| cx.error(error))?;
        let hidden = self.check_stdout && io::stdout().is_terminal();
        if io::stderr().is_terminal() && !hidden {
            self.stage = Stage::First;
        }
        self.timer = Some(cx.timer());
        if self.active && self.stage != Stage::Dead {
            self.resume(cx, 0);
        }
        Ok(())
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        if self.stage == Stage::Middle {
            self.stage = Stage::Done;
            self.update(cx);
        }
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        self.update(cx);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn handlers_say_where_things_stand() {
        let config = "i :: Inject -> c :: Counter -> Discard;
            p :: ProgressBar(c.count c.byte_count, FIXED_SIZE 10, BANNER b);";
        let mut rig = Rig::new(config);
        assert_eq!(rig.read("p.poshandler"), "c.count c.byte_count");
        rig.assert_handlers(&[("p.size", "10"), ("p.banner", "b")]);
        rig.write("p.sizehandler", "c.count");
        rig.assert_handlers(&[("p.size", "-1"), ("p.sizehandler", "c.count")]);
        // Without a terminal nothing is drawn, and nothing keeps the router awake.
        rig.write("p.reset", "");
        rig.write("p.mark_done", "");
        assert!(rig.printed().is_empty());
        Rig::refuses("ProgressBar(nobody.count);", "no element named");
    }
}
