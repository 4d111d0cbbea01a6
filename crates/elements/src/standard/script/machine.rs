//! What runs a script: its instructions, its variables, what it was called with.
//!
//! A script is called while it runs when it writes its own handlers, or reads them in `$(...)`, and when
//! what it calls does so. The former calls are answered here, the latter by the element, which is in its
//! slot meanwhile. Both only change where the script goes on; the run under way does it.

use click::config::{self, Style};

use super::errors::Errors;
use super::program::{Ending, ScriptOp, ScriptProgram, Target};
use super::script_type::ScriptType;
#[cfg(feature = "host")]
use super::signal::Signals;
use crate::prelude::*;

/// Jumps that a script may make without blocking. Scripts that call each other make up to the
/// product of theirs: fewer in tests, whose random scripts do.
const JUMPS: u32 = if cfg!(test) { 100 } else { 1000 };

/// Who lets a script go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// A handler, a packet or a timer.
    Plain,
    /// The driver, which was asked to stop.
    Driver,
}

/// What a call of a handler asks of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Step,
    Goto,
    Run,
}

/// A script and where it stands.
#[derive(Component)]
#[component(handlers, dynamic)]
pub(super) struct ScriptMachine {
    /// When it runs. ACTIVE: when the router starts. PASSIVE: when `run` is called. PACKET: for
    /// each packet; its return value is the output. PROXY: when any handler of the script is
    /// called. DRIVER: as DriverManager. SIGNAL followed by names or numbers: when the process gets
    /// such a signal; on a host only. PACKET if there are ports and ACTIVE if not, unless given.
    #[arg(name = "TYPE", with = Any,
        kind = "ACTIVE, PASSIVE, PACKET, PROXY, DRIVER or SIGNAL SIGNUM...")]
    pub type_text: String,
    /// The instructions, in order.
    #[arg(rest, name = "INSTRUCTION", kind = "instruction, any number of them")]
    pub instructions: Vec<String>,
    pub script_type: ScriptType,
    /// It is a DriverManager's.
    pub manages: bool,
    pub program: ScriptProgram,
    #[cfg(feature = "host")]
    signals: Signals,
    pub timer: Option<TimerId>,
    /// The next instruction.
    at: usize,
    /// It still has to take the step that starts it.
    fresh: bool,
    /// A run is under way that a handler started.
    running: bool,
    /// Steps that were asked for during the run.
    more: u32,
    /// What `$?` says.
    pub status: i32,
    /// What `$args`, `$0` and `$write` say.
    pub args: String,
    pub handler: String,
    pub writing: bool,
}

impl ScriptMachine {
    /// Sets the variables that are set once, and starts a script that starts of itself.
    fn start(&mut self, cx: &mut Cx<'_>) {
        self.timer = Some(cx.timer());
        let mut errors = Errors::Initialization;
        for i in 0..self.program.instructions.len() {
            let instruction = &self.program.instructions[i];
            if let ScriptOp::Init {
                variable, unquote, ..
            } = instruction.op
            {
                let text = instruction.text.clone();
                self.assign(cx, variable, &text, unquote, &mut errors);
            }
        }
        if !matches!(self.script_type, ScriptType::Active | ScriptType::Driver) {
            return;
        }
        match self.program.instructions.first().map(|i| i.op) {
            Some(ScriptOp::Wait) => {
                self.wait(cx, 0, &mut errors);
            }
            Some(ScriptOp::Start) => {
                self.fresh = true;
                match (&self.script_type, self.timer) {
                    // The driver finds that it is to stop, and asks the script first.
                    (ScriptType::Driver, _) => cx.stop(),
                    (_, Some(timer)) => cx.schedule_after(timer, 0),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// The time is up that a script waited for.
    pub fn timed_out(&mut self, cx: &mut Cx<'_>) {
        let mut errors = Errors::while_executing(cx);
        self.run(cx, 1, Cause::Plain, &mut errors);
    }

    /// Runs the script for each signal that arrived.
    #[cfg(feature = "host")]
    pub fn signals_arrived(&mut self, cx: &mut Cx<'_>) {
        for number in self.signals.take() {
            let mut errors = Errors::while_executing(cx);
            self.restart(cx);
            self.args.clear();
            self.as_handler(cx, "run", true, 0, Cause::Plain, &mut errors);
            let failed = matches!(self.ending(), Some(Ending::Error { .. }));
            self.signals.settle(number, failed);
        }
    }

    #[cfg(not(feature = "host"))]
    pub fn signals_arrived(&mut self, _cx: &mut Cx<'_>) {}

    fn packets_pulled(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        batch.filter(
            &mut (self, cx),
            |(machine, cx), _| match machine.packet(cx, 0) {
                Some(0) => None,
                output => Some(output),
            },
            |(_, cx), packet, output| match output {
                Some(output) => cx.emit(output, packet),
                None => cx.kill(packet),
            },
        );
    }

    /// Goes back to the first instruction.
    fn restart(&mut self, cx: &mut Cx<'_>) {
        self.stop_waiting(cx);
        self.at = 0;
    }

    /// Runs the script for a packet from input `port`; returns the output for it.
    pub fn packet(&mut self, cx: &mut Cx<'_>, port: usize) -> Option<usize> {
        let input = self.program.variable("input");
        self.program.variables[input].1 = port.to_string();
        let mut errors = Errors::while_executing(cx);
        self.restart(cx);
        self.run(cx, 0, Cause::Plain, &mut errors);
        match self.ending() {
            Some(Ending::End) => Some(0),
            Some(_) => None,
            None => {
                let number = Context::blank().parse::<i32>(self.returned()?.trim());
                usize::try_from(number.ok()?).ok()
            }
        }
    }

    /// Does what a call of a handler asks for; the run under way does it, if the script called itself from
    /// one that a handler started. Afterwards, `$0` and `$write` say that there is none, also to a script
    /// that called itself and goes on; that ended in `stop` or an error, it forgets its words too.
    fn as_handler(
        &mut self,
        cx: &mut Cx<'_>,
        handler: &str,
        writing: bool,
        steps: u32,
        cause: Cause,
        errors: &mut Errors,
    ) {
        self.handler = handler.to_string();
        self.writing = writing;
        if self.running {
            self.more += steps;
        } else {
            self.running = true;
            self.run(cx, steps, cause, errors);
            self.running = false;
        }
        self.handler.clear();
        self.writing = false;
        if let Some(Ending::Stop | Ending::Error { .. }) = self.ending() {
            self.args.clear();
        }
    }

    /// A handler was called; returns what the script returned.
    pub fn request(
        &mut self,
        cx: &mut Cx<'_>,
        request: Request,
        handler: &str,
        value: &str,
        writing: bool,
    ) -> Result<String, HandlerError> {
        let mut steps = Some(0);
        match request {
            Request::Goto => {
                self.jump(config::uncomment(value).trim())?;
                self.stop_waiting(cx);
            }
            Request::Run => {
                self.restart(cx);
                self.args = value.to_string();
            }
            Request::Step => steps = parse_steps(value)?,
        }
        let mut errors = Errors::Caller(Vec::new());
        if let Some(steps) = steps {
            let cause = match (request, value.trim()) {
                (Request::Step, "router") => Cause::Driver,
                _ => Cause::Plain,
            };
            self.as_handler(cx, handler, writing, steps, cause, &mut errors);
        }
        let returned = self.returned().map(String::from).unwrap_or_default();
        let reason = match self.ending() {
            Some(Ending::Error { .. }) => FailureKind::Failed,
            _ => FailureKind::Invalid,
        };
        match (self.ending(), errors) {
            (_, Errors::Caller(lines)) if !lines.is_empty() => {
                Err(HandlerError::failed(reason, lines.join("\n")))
            }
            (Some(Ending::Error { .. }), _) => Err(HandlerError::failed(reason, "")),
            _ => Ok(returned),
        }
    }

    fn jump(&mut self, label: &str) -> Result<(), HandlerError> {
        let Some(Target::Instruction(at)) = self.program.label(label) else {
            return Err("jump to nonexistent label".into());
        };
        for instruction in &mut self.program.instructions[at..] {
            instruction.done = 0;
        }
        self.at = at;
        Ok(())
    }

    /// How the script ended, if it stands at an end.
    pub fn ending(&self) -> Option<Ending> {
        match self.program.instructions.get(self.at)?.op {
            ScriptOp::End(end) | ScriptOp::Goto(Target::End(end)) => Some(end),
            _ => None,
        }
    }

    /// What the script returned, if it stands at a return.
    fn returned(&self) -> Option<&str> {
        match self.program.instructions.get(self.at)?.op {
            ScriptOp::Return { .. } => Some(&self.program.variables[0].1),
            _ => None,
        }
    }

    /// Runs the script until it blocks or ends, passing `steps` blocking instructions, and those
    /// that it asks itself to pass.
    fn run(&mut self, cx: &mut Cx<'_>, steps: u32, cause: Cause, errors: &mut Errors) {
        let mut jumps = 0;
        self.more = 0;
        self.step(cx, steps, cause, &mut jumps, errors);
        while self.more > 0 && jumps < JUMPS {
            let steps = core::mem::take(&mut self.more);
            jumps += 1;
            self.step(cx, steps, Cause::Plain, &mut jumps, errors);
        }
        #[cfg(feature = "host")]
        if let Some(Ending::End) = self.ending() {
            self.signals.arm();
        }
    }

    fn step(
        &mut self,
        cx: &mut Cx<'_>,
        mut steps: u32,
        cause: Cause,
        jumps: &mut u32,
        errors: &mut Errors,
    ) {
        while self.at < self.program.instructions.len() && *jumps < JUMPS {
            // The next one, already: the instruction may itself jump, or have the script jump.
            let at = self.at;
            self.at += 1;
            match self.execute(cx, at, &mut steps, errors) {
                NextStep::On => {}
                NextStep::Block(at) => {
                    self.at = at;
                    break;
                }
                NextStep::End(end) => {
                    self.at = at;
                    if end == Ending::Stop && cause != Cause::Driver {
                        cx.stop();
                    }
                    return;
                }
            }
            if self.at != at + 1 {
                *jumps += 1;
            }
        }
        if *jumps >= JUMPS {
            let declaration = cx.declaration();
            cx.chatter(format_args!("{declaration}: too many jumps, giving up"));
            self.at = self.program.instructions.len();
            self.stop_waiting(cx);
        } else if cause == Cause::Driver {
            cx.set_run_count(cx.run_count().saturating_add(1));
        }
    }

    fn stop_waiting(&mut self, cx: &mut Cx<'_>) {
        if let Some(timer) = self.timer {
            cx.unschedule_timer(timer);
        }
    }

    fn execute(
        &mut self,
        cx: &mut Cx<'_>,
        at: usize,
        steps: &mut u32,
        errors: &mut Errors,
    ) -> NextStep {
        let instruction = &mut self.program.instructions[at];
        match instruction.op {
            ScriptOp::Start => {
                if core::mem::take(&mut self.fresh) {
                    *steps = steps.saturating_sub(1);
                }
            }
            ScriptOp::Pause(count) => {
                let passed = (*steps).min(count.saturating_sub(instruction.done));
                instruction.done += passed;
                *steps -= passed;
                if instruction.done < count {
                    return NextStep::Block(at);
                }
            }
            ScriptOp::Wait if *steps == 0 => return self.wait(cx, at, errors),
            ScriptOp::Wait => {
                *steps -= 1;
                self.stop_waiting(cx);
            }
            ScriptOp::Goto(target) => {
                let text = instruction.text.clone();
                return self.goto(cx, at, target, &text, errors);
            }
            ScriptOp::Return { unquote } => {
                let text = instruction.text.clone();
                self.assign(cx, 0, &text, unquote, errors);
                if self.at == at + 1 {
                    return NextStep::Block(at);
                }
            }
            ScriptOp::Set { variable, unquote } => {
                let text = instruction.text.clone();
                self.assign(cx, variable, &text, unquote, errors);
            }
            ScriptOp::End(end) => {
                if let Ending::Error { unquote } = end {
                    let text = instruction.text.clone();
                    let text = self.expand(cx, &text, unquote, errors);
                    if !text.is_empty() {
                        errors.error(cx, &text);
                    }
                }
                return NextStep::End(end);
            }
            ScriptOp::Print { newline, unquote } => {
                let text = instruction.text.clone();
                self.print(cx, &text, newline, unquote, errors);
            }
            ScriptOp::Read { unquote } => {
                let text = instruction.text.clone();
                self.show(cx, &text, unquote, errors);
            }
            ScriptOp::Write { unquote } => {
                let text = instruction.text.clone();
                self.call_write(cx, &text, unquote, errors);
            }
            ScriptOp::Init { .. } | ScriptOp::Label => {}
        }
        NextStep::On
    }

    /// Blocks at the wait instruction `at` for its time; goes on behind it if that is not right.
    fn wait(&mut self, cx: &mut Cx<'_>, at: usize, errors: &mut Errors) -> NextStep {
        let text = self.program.instructions[at].text.clone();
        let text = self.expand(cx, &text, false, errors);
        match (cx.names().parse::<Timestamp>(text.trim()), self.timer) {
            (Ok(time), Some(timer)) => {
                cx.schedule_after(timer, time.0.unsigned_abs());
                NextStep::Block(at)
            }
            _ => {
                errors.error(cx, "syntax error at ‘wait’");
                NextStep::Block(at + 1)
            }
        }
    }

    fn goto(
        &mut self,
        cx: &mut Cx<'_>,
        at: usize,
        target: Target,
        condition: &str,
        errors: &mut Errors,
    ) -> NextStep {
        let (expanded, ok) = self.expand_as(cx, condition, Style::Bare, errors);
        // If nothing came of what failed, it stays as it stands.
        let condition = match expanded.as_str() {
            "" if !ok => condition,
            expanded => expanded,
        };
        if !condition.is_empty() {
            match cx.names().parse::<bool>(condition) {
                Ok(true) => {}
                Ok(false) => return NextStep::On,
                Err(_) => {
                    errors.error(cx, &format!("bad condition ‘{condition}’"));
                    return NextStep::On;
                }
            }
        }
        match target {
            Target::End(end) => NextStep::End(end),
            Target::Instruction(to) => {
                // The instructions behind the target block again.
                let behind = self.program.instructions.get_mut(to..at);
                for instruction in behind.into_iter().flatten() {
                    instruction.done = 0;
                }
                self.at = to;
                NextStep::On
            }
        }
    }
}

/// What comes after an instruction.
enum NextStep {
    /// The one that is next.
    On,
    /// Nothing: the script goes on at the given instruction, later.
    Block(usize),
    /// Nothing.
    End(Ending),
}

/// The steps that `step` is written; `None` if they are fewer than none.
fn parse_steps(value: &str) -> Result<Option<u32>, HandlerError> {
    match config::uncomment(value).trim() {
        "" | "router" => Ok(Some(1)),
        text => {
            let steps = Context::blank().parse::<i32>(text);
            Ok(u32::try_from(steps.map_err(|_| "syntax error")?).ok())
        }
    }
}

impl Descriptors for ScriptMachine {
    fn selected(&mut self, cx: &mut Cx<'_>, _fd: i32, _readable: bool, _writable: bool) {
        cx.whole(|cx| self.signals_arrived(cx));
    }
}

impl DriverHook for ScriptMachine {
    /// Steps the script until it wants the router to go on, or ends.
    fn driver_stopped(&mut self, cx: &mut Cx<'_>) {
        for _ in 0..JUMPS {
            let mut errors = Errors::of_driver();
            let before = self.at;
            self.as_handler(cx, "step", true, 1, Cause::Driver, &mut errors);
            let ended = matches!(self.ending(), Some(Ending::Stop | Ending::Error { .. }));
            if cx.run_count() > 0 || ended || (self.at == before && self.ending().is_some()) {
                break;
            }
        }
    }
}

impl Element for ScriptMachine {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.complete(cx, args, None)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.start(cx);
        if cx.inputs() > 0 {
            cx.may_interrupt();
        }
        #[cfg(feature = "host")]
        if let ScriptType::Signal(numbers) = &self.script_type {
            self.signals.install(cx, numbers)?;
        }
        Ok(())
    }

    /// Signals that arrived before the end have their effect, even if there was no time to look
    /// for them.
    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        self.signals_arrived(cx);
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) -> usize {
        cx.whole(|cx| {
            for packet in batch.drain() {
                match self.packet(cx, port) {
                    Some(output) => cx.emit(output, packet),
                    None => cx.kill(packet),
                }
            }
        });
        0
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, _batch: &mut Batch, most: usize) {
        cx.pull_through(0, most);
    }

    fn pulled(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.whole(|cx| self.packets_pulled(cx, batch));
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        cx.whole(|cx| self.timed_out(cx));
    }
}
