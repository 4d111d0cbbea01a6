//! Random early detection: what RED and AdaptiveRED share.

use super::average::SCALE;
use super::managed::{Observed, Unmarked};
use crate::prelude::*;

/// Probability 1, in the fixed-point numbers that probabilities are.
pub(super) const CERTAIN: u32 = 1 << 16;
/// How probabilities are written.
pub(super) const PROBABILITY: FixedPoint = FixedPoint { bits: 16 };
/// How often an empty queue counts as observed, in nanoseconds.
const EMPTY_INTERVAL: u64 = 20_000_000;
/// Largest threshold.
const THRESHOLD_MAX: u32 = 0xffff;
/// Largest stability.
const STABILITY_MAX: u32 = 16;

/// When packets are marked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters {
    /// Up to this average length, never.
    pub min_thresh: u32,
    /// At this average length, with probability `max_p`.
    pub max_thresh: u32,
    /// Of [`CERTAIN`].
    pub max_p: u32,
    /// Of the average.
    pub stability: u32,
    /// Whether the probability rises to 1 at twice `max_thresh`, instead of jumping to it.
    pub gentle: bool,
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters {
            min_thresh: 0,
            max_thresh: 0,
            max_p: 0,
            stability: 4,
            gentle: true,
        }
    }
}

impl Parameters {
    /// What is wrong with them.
    pub fn check(&self) -> Result<(), String> {
        if self.max_thresh > THRESHOLD_MAX {
            return Err(format!("MAX_THRESH must be <= {THRESHOLD_MAX}"));
        }
        if self.min_thresh > self.max_thresh {
            return Err("MIN_THRESH must be <= MAX_THRESH".into());
        }
        if self.max_p > CERTAIN {
            return Err("MAX_P must be between 0 and 1".into());
        }
        if self.stability > STABILITY_MAX {
            return Err(format!("STABILITY must be between 0 and {STABILITY_MAX}"));
        }
        Ok(())
    }

    /// Above this average length, always.
    fn kill_thresh(&self) -> u64 {
        let gentle = self.gentle && self.max_p != CERTAIN;
        u64::from(self.max_thresh) << u32::from(gentle)
    }

    /// The lines along which the probability rises.
    fn lines(&self) -> Lines {
        let (max_p, min) = (i64::from(self.max_p), i64::from(self.min_thresh));
        let span = i64::from(self.max_thresh) - min;
        let certain = i64::from(CERTAIN);
        Lines {
            lower: match span {
                0 => (0, 1),
                _ => (max_p / span, max_p * min / span),
            },
            upper: (
                (certain - max_p) / i64::from(self.max_thresh).max(1),
                certain - 2 * max_p,
            ),
        }
    }
}

/// Slope and offset of the probability, up to the upper threshold and beyond.
#[derive(Clone, Copy, Debug, Default)]
struct Lines {
    lower: (i64, i64),
    upper: (i64, i64),
}

/// The state of a RED element.
#[derive(Component)]
pub(super) struct Red {
    /// The weight of an observation in the average is 2^-STABILITY, 0 to 16. 9 is usual for a link
    /// of 300 packets a second; 0: the length itself.
    #[arg(default = 4)]
    stability: u32,
    #[flatten]
    pub seen: Observed,
    unmarked: Unmarked,
    pub parameters: Parameters,
    lines: Lines,
    /// Packets since one was marked; -1: the average was low.
    count: i64,
    /// The random number that the next mark waits for.
    random: i64,
    /// When the queue was last seen empty, in [`EMPTY_INTERVAL`]s; 0: it is not.
    empty_since: u64,
}

impl Red {
    /// Takes the parameters and the names of `QUEUES` that were configured.
    pub fn configured(
        &mut self,
        args: &Args<'_>,
        parameters: Parameters,
        queues: &str,
    ) -> Result<(), Failed> {
        let parameters = Parameters {
            stability: self.stability,
            ..parameters
        };
        if let Err(error) = parameters.check() {
            args.error(error);
        }
        args.finish()?;
        self.seen.queues.configured(args, queues)?;
        self.set(parameters);
        Ok(())
    }

    /// The probability at MAX_THRESH, as handlers show it.
    pub fn max_p(&self) -> String {
        unparse::real2(self.parameters.max_p.into(), 16)
    }

    /// Takes parameters that were checked.
    pub fn set(&mut self, parameters: Parameters) {
        self.parameters = parameters;
        self.seen.average.set_stability(parameters.stability);
        self.lines = parameters.lines();
    }

    /// The average goes on where `old` has it.
    pub fn take_over(&mut self, _cx: &mut Cx<'_>, old: &mut Red) {
        self.seen.average.take(&old.seen.average);
    }

    /// The queues' length for decisions that are not about a packet.
    pub fn observed(&self, cx: &Cx<'_>) -> u64 {
        if self.seen.average.stability() == 0 {
            self.seen.queues.length(cx) as u64
        } else {
            self.seen.average.rounded()
        }
    }

    /// Observes the queues' length, and decides on a packet.
    #[inline]
    fn marks(&mut self, cx: &mut Cx<'_>, length: usize) -> bool {
        let length = length as u64;
        if length > 0 {
            self.seen.average.update(length);
            self.empty_since = 0;
        } else {
            self.observe_empty(cx);
        }
        let average = self.seen.average.rounded();
        if average <= u64::from(self.parameters.min_thresh) {
            self.count = -1;
            return false;
        }
        if average > self.parameters.kill_thresh() {
            self.count = -1;
            return true;
        }
        let (slope, offset) = if average <= u64::from(self.parameters.max_thresh) {
            self.lines.lower
        } else {
            self.lines.upper
        };
        let scaled = (self.seen.average.scaled() as i64).saturating_mul(slope);
        let probability = (scaled >> SCALE) - offset;
        self.count += 1;
        let marks = self.count > 0 && probability > 0 && self.count > self.random / probability;
        if marks {
            self.count = 0;
        }
        if self.count == 0 {
            self.random = i64::from(cx.random().below(CERTAIN));
        }
        marks
    }

    /// The time that a queue is empty counts by itself, since no packet comes to observe it.
    fn observe_empty(&mut self, cx: &Cx<'_>) {
        // From 1, since 0 means that the queue is not empty.
        let now = cx.steady().0 / EMPTY_INTERVAL + 1;
        let n = match self.empty_since {
            0 => 1,
            since => now.saturating_sub(since),
        };
        self.seen.average.update_empty(n);
        self.empty_since = now;
    }
}

impl Element for Red {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.seen.queues.initialize(cx)?;
        self.seen.average.clear();
        (self.count, self.seen.drops, self.empty_since) = (-1, 0, 0);
        Ok(())
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        // The packets of the batch that pass will be in the queues when the next one comes.
        let length = self.seen.queues.length(cx);
        let state = &mut (self, cx, length);
        batch.filter(
            state,
            |(red, cx, length), _| {
                let marked = red.marks(cx, *length);
                *length += usize::from(!marked);
                marked.then_some(())
            },
            |(red, cx, _), packet, ()| red.seen.mark(cx, packet),
        );
        0
    }

    #[inline]
    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, _batch: &mut Batch, most: usize) {
        self.unmarked.pull(cx, most);
    }

    #[inline]
    fn pulled(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let found = batch.len();
        // Those behind a packet were still in the queue when it left.
        let length = self.seen.queues.length(cx) + found;
        batch.filter(
            &mut (&mut *self, &mut *cx, length),
            |(red, cx, length), _| {
                *length = length.saturating_sub(1);
                red.marks(cx, *length).then_some(())
            },
            |(red, cx, _), packet, ()| red.seen.mark(cx, packet),
        );
        self.unmarked.pulled(cx, batch, found);
    }
}
