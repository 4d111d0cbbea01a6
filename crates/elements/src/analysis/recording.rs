//! Packets that are loaded once and sent again and again.

use crate::prelude::*;

const PER_SECOND: u64 = 1_000_000_000;

/// Loads packets from its inputs, then sends copies of them, over and over.
#[derive(Component)]
#[component(handlers)]
pub(super) struct Recording {
    /// How many times the packets are sent; negative: without end. Then the driver stops.
    #[arg(default = -1, read, write, error = "syntax error")]
    stop: i32,
    /// Time after which sending ends, in seconds; 0: STOP alone counts.
    #[arg]
    stop_time: u32,
    /// Accepted and ignored: copies share no buffer with the loaded packets.
    #[arg]
    quick_clone: bool,
    /// Packets sent at a time. More than a batch has no further effect.
    #[arg(default = 64)]
    burst: u32,
    /// Whether to report each time that the packets were sent.
    #[arg]
    verbose: bool,
    /// Accepted and ignored: loaded packets are freed by `reset` and at the end.
    #[arg(name = "FREEONTERMINATE", default = true)]
    free_on_terminate: bool,
    /// Most packets that are loaded; negative: no limit but half of the router's packet buffers.
    #[arg(default = -1)]
    limit: i32,
    /// Whether packets are loaded and sent.
    #[arg(default = true, read, write, checkbox, error = "type mismatch", then = activated)]
    active: bool,
    /// Whether loading waits at an empty input as long as its notifier is active.
    #[arg]
    use_signal: bool,
    /// Speed in percent of the packets' own, by their timestamps; 0: as fast as possible.
    #[arg(read, write, error = "syntax error", then = rebase)]
    timing: u32,
    /// A function of time for TIMING. Only `@0`, a constant, is supported.
    #[arg(with = Any, kind = "word")]
    timing_fnt: String,
    /// Whether the packets are loaded.
    #[handler(read)]
    loaded: bool,
    /// Whether packets leave by the output of their input's number, not by output 0.
    spread: bool,
    packets: Vec<Packet>,
    /// The earliest packet of each input, while several are loaded.
    heads: Vec<Option<Packet>>,
    signals: Vec<Signal>,
    announced: bool,
    /// The input that packets are pulled from.
    asked: usize,
    /// How often packets may still be pulled in this turn.
    left: usize,
    /// The next packet to send.
    next: usize,
    /// A packet's timestamp, and the time at which it was due.
    base: (i64, u64),
    /// When sending began.
    began: Option<u64>,
    task: Option<TaskId>,
    timer: Option<TimerId>,
}

/// How loading goes on.
enum Load {
    /// With packets of an input.
    Pull(Pull),
    /// In the task's next turn.
    Later,
    /// All packets are there.
    Done,
}

impl Recording {
    /// A recording whose packets leave by output 0, or `spread` over the outputs.
    pub fn new(spread: bool) -> Recording {
        Recording {
            spread,
            ..Recording::default()
        }
    }

    fn activated(&mut self, cx: &mut Cx<'_>) {
        self.rebase(cx);
        let Some(task) = self.task else {
            return;
        };
        if self.active {
            cx.schedule(task);
        } else {
            cx.unschedule(task);
            self.timer
                .into_iter()
                .for_each(|timer| cx.unschedule_timer(timer));
        }
    }

    /// Counts time from now and from the next packet on.
    fn rebase(&mut self, cx: &mut Cx<'_>) {
        if let Some(packet) = self.packets.get(self.next) {
            let now = cx.steady().0;
            self.base = (packet.timestamp(), now);
            self.began.get_or_insert(now);
        }
        if let (true, Some(task)) = (self.active, self.task) {
            cx.schedule(task);
        }
    }

    /// How long the next packet is too early, in nanoseconds.
    fn early(&self, packet: &Packet, now: u64) -> u64 {
        if self.timing == 0 {
            return 0;
        }
        let (first, since) = self.base;
        let behind = packet.timestamp().saturating_sub(first).max(0) as u128;
        let due = behind * 100 / u128::from(self.timing);
        let elapsed = u128::from(now.saturating_sub(since));
        u64::try_from(due.saturating_sub(elapsed)).unwrap_or(u64::MAX)
    }

    fn report(&self, cx: &mut Cx<'_>, what: core::fmt::Arguments<'_>) {
        if self.verbose {
            let name = cx.declaration();
            cx.chatter(format_args!("{name}: {what}"));
        }
    }
}

/// Loading.
impl Recording {
    /// Packets that may still be loaded.
    fn room(&self, cx: &mut Cx<'_>) -> usize {
        let buffers = cx.pool().limit() / 2;
        let most = usize::try_from(self.limit).map_or(buffers, |limit| limit.min(buffers));
        most.saturating_sub(self.packets.len())
    }

    fn keep(&mut self, cx: &mut Cx<'_>, mut packet: Packet, input: usize) {
        packet.set_paint(input as u8);
        if self.packets.try_reserve(1).is_ok() {
            self.packets.push(packet);
        } else {
            cx.kill(packet);
        }
    }

    /// Keeps what was pulled. Returns the input that gave nothing, if one was asked.
    fn take_pulled(&mut self, cx: &mut Cx<'_>) -> Option<usize> {
        let Some(mut batch) = cx.pulled() else {
            self.left = cx.limit();
            return None;
        };
        self.left = self.left.saturating_sub(1);
        let input = self.asked;
        let none = batch.is_empty();
        if self.heads.len() == 1 {
            for packet in batch.drain() {
                self.keep(cx, packet, 0);
            }
        } else {
            self.heads[input] = batch.pop();
        }
        cx.done(batch);
        none.then_some(input)
    }

    /// Goes on to load packets: a batch from the only input, or the earliest of several inputs'
    /// packets. `empty`: the input that was asked and gave nothing.
    fn load(&mut self, cx: &mut Cx<'_>, empty: Option<usize>) -> Load {
        if !self.announced {
            self.announced = true;
            let line = format!("Loading {} with {} inputs.", cx.name(), cx.inputs());
            cx.chatter(line);
        }
        if let Some(input) = empty {
            let signal = self.signals.get(input);
            if self.use_signal && signal.is_some_and(|signal| cx.is_active(signal)) {
                return Load::Later;
            }
            self.finish_loading(cx, input as i64);
            return Load::Done;
        }
        let most = loop {
            let room = self.room(cx);
            if room == 0 {
                self.finish_loading(cx, -1);
                return Load::Done;
            }
            if self.heads.len() == 1 {
                break cx.limit().min(room);
            }
            if let Some(input) = self.heads.iter().position(Option::is_none) {
                self.asked = input;
                break 1;
            }
            self.keep_earliest(cx);
        };
        if self.left == 0 {
            return Load::Later;
        }
        Load::Pull(Pull {
            port: self.asked as u16,
            most: most as u16,
        })
    }

    fn keep_earliest(&mut self, cx: &mut Cx<'_>) {
        let times = self.heads.iter().enumerate();
        let first = times.min_by_key(|(_, packet)| packet.as_ref().map(Packet::timestamp));
        let first = first.map_or(0, |(input, _)| input);
        if let Some(packet) = self.heads[first].take() {
            self.keep(cx, packet, first);
        }
    }

    fn finish_loading(&mut self, cx: &mut Cx<'_>, dry: i64) {
        let line = format!(
            "{} : Successfully loaded {} packets. Input {dry} dried out.",
            cx.name(),
            self.packets.len()
        );
        cx.chatter(line);
        for packet in self.heads.iter_mut().filter_map(Option::take) {
            cx.kill(packet);
        }
        self.loaded = true;
        self.next = 0;
        self.rebase(cx);
    }

    /// Frees the packets.
    fn free(&mut self, cx: &mut Cx<'_>) {
        let heads = self.heads.iter_mut().filter_map(Option::take);
        for packet in self.packets.drain(..).chain(heads) {
            cx.kill(packet);
        }
        self.next = 0;
    }
}

/// Sending.
impl Recording {
    /// Sends copies of the next packets; returns how many, and how long the one after them is too
    /// early.
    fn send(&mut self, cx: &mut Cx<'_>, now: u64) -> (usize, u64) {
        let most = cx.limit().min(self.burst.max(1) as usize);
        let (mut sent, mut early, mut output) = (0, 0, 0);
        let mut batch = cx.batch();
        while sent < most
            && let Some(packet) = self.packets.get(self.next)
        {
            early = self.early(packet, now);
            if early > 0 {
                break;
            }
            let Some(copy) = cx.pool().clone(packet) else {
                break;
            };
            let own = if self.spread { packet.paint() } else { 0 };
            if own != output {
                let full = core::mem::replace(&mut batch, cx.batch());
                cx.push(output.into(), full);
                output = own;
            }
            let _ = batch.push(copy);
            self.next += 1;
            sent += 1;
        }
        cx.push(output.into(), batch);
        (sent, early)
    }

    /// Whether STOP_TIME is over.
    fn is_over(&self, now: u64) -> bool {
        let elapsed = now.saturating_sub(self.began.unwrap_or(now)) / PER_SECOND;
        self.stop_time > 0 && elapsed >= u64::from(self.stop_time)
    }

    /// Takes note that all packets were sent once more.
    fn end_loop(&mut self, cx: &mut Cx<'_>, now: u64) {
        self.next = 0;
        self.rebase(cx);
        let (left, limit) = (self.stop, self.stop_time);
        let elapsed = now.saturating_sub(self.began.unwrap_or(now)) / PER_SECOND;
        if limit == 0 {
            self.report(cx, format_args!("Replay loop ({left} loops left)"));
        } else if self.is_over(now) {
            let what = format_args!("Replay stopped after {elapsed} seconds ({left} loops left)");
            self.report(cx, what);
            self.stop = 0;
            return;
        } else {
            let what = format_args!("continue after {elapsed}/{limit} seconds ({left} loops left)");
            self.report(cx, what);
        }
        if self.stop > 0 {
            self.stop -= 1;
            match (self.stop, limit) {
                (0, 0) => self.report(cx, format_args!("stopped because there is 0 loops left")),
                (0, _) => self.report(
                    cx,
                    format_args!(
                        "stopped early after {elapsed}/{limit} seconds because there is 0 loops left"
                    ),
                ),
                _ => {}
            }
        }
    }

    fn end(&mut self, cx: &mut Cx<'_>) {
        self.active = false;
        self.began = None;
        cx.stop();
    }
}

#[handlers]
impl Recording {
    /// Frees the packets; the next run loads new ones.
    #[write(button)]
    fn reset(&mut self, cx: &mut Cx<'_>) {
        self.free(cx);
        self.loaded = false;
        self.announced = false;
        self.rebase(cx);
    }
}

impl Element for Recording {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if !matches!(self.timing_fnt.as_str(), "" | "@0" | "\"@0\"" | "\"\"") {
            return Err(args.fail(
                "TIMING_FNT: functions are unsupported; write the handler ‘timing’ instead",
            ));
        }
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let task = cx.task();
        self.task = Some(task);
        self.timer = Some(cx.timer());
        for input in 0..cx.inputs() {
            self.heads.push(None);
            self.signals.push(cx.upstream_signal(input, None));
        }
        if self.active {
            cx.schedule(task);
        }
        Ok(())
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        self.free(cx);
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        if let (true, Some(task)) = (self.active, self.task) {
            cx.schedule(task);
        }
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, task: TaskId) -> Ran {
        let empty = self.take_pulled(cx);
        if !self.active {
            return Ran::Nothing;
        }
        if !self.loaded {
            match self.load(cx, empty) {
                Load::Pull(pull) => return Ran::Pull(pull),
                Load::Later => {
                    cx.schedule(task);
                    return Ran::Worked;
                }
                Load::Done => {}
            }
        }
        let now = cx.steady().0;
        if self.stop == 0 || self.is_over(now) {
            self.end(cx);
            return Ran::Nothing;
        }
        if self.packets.is_empty() {
            // Nothing can be sent any more.
            match self.stop {
                1.. => self.end(cx),
                _ => self.active = false,
            }
            return Ran::Nothing;
        }
        let (sent, early) = self.send(cx, now);
        if self.next == self.packets.len() {
            self.end_loop(cx, now);
            if self.stop == 0 {
                self.end(cx);
                return Ran::worked(sent > 0);
            }
        }
        match self.timer {
            Some(timer) if early > 0 => {
                cx.unschedule(task);
                cx.schedule_after(timer, early);
            }
            _ => cx.schedule(task),
        }
        Ran::worked(sent > 0)
    }
}
