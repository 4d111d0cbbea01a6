//! Signals: their names, and scripts that run when one arrives.
//!
//! A script is armed for each of its signals. One that arrives disarms the script for that signal and runs it; a
//! run that ends with `end` arms it for all of them again. A signal for which no script is armed any more has its
//! default effect.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use signal_hook::consts::FORBIDDEN;
use signal_hook::low_level::{emulate_default_handler, pipe, unregister};
use signal_hook::{SigId, flag};

use crate::prelude::*;

const NAMES: &[(&str, i32)] = &[
    ("ABRT", 6),
    ("ALRM", 14),
    ("HUP", 1),
    ("INT", 2),
    ("IO", 29),
    ("PIPE", 13),
    ("QUIT", 3),
    ("TERM", 15),
    ("TSTP", 20),
    ("USR1", 10),
    ("USR2", 12),
];

/// The number of the signal that `word` names or numbers, on Linux; 0 is none.
pub(super) fn number(word: &str) -> Option<i32> {
    let named = NAMES.iter().find(|(name, _)| *name == word);
    let number = match named {
        Some((_, number)) => Some(*number),
        None => Context::blank().parse(word).ok(),
    };
    number.filter(|number| (0..32).contains(number))
}

/// What all scripts of the process do with a signal.
struct Disposition {
    /// How many take it.
    taken: AtomicU32,
    /// How many are armed for it.
    armed: AtomicU32,
    /// It has its default effect: none of those that take it is armed any more.
    default: AtomicBool,
}

static DISPOSITIONS: [Disposition; 32] = [const {
    Disposition {
        taken: AtomicU32::new(0),
        armed: AtomicU32::new(0),
        default: AtomicBool::new(false),
    }
}; 32];

/// Whether a script takes a signal: then it ends no run. One for which no script is armed any more does what it
/// does by default, and needs nobody else.
pub fn is_taken(number: i32) -> bool {
    let disposition = usize::try_from(number).ok();
    let disposition = disposition.and_then(|number| DISPOSITIONS.get(number));
    disposition.is_some_and(|disposition| disposition.taken.load(SeqCst) > 0)
}

/// A signal that a script takes.
struct Taken {
    number: i32,
    armed: bool,
    arrived: Arc<AtomicBool>,
    hooks: [SigId; 3],
}

impl Taken {
    fn new(number: i32, pipe: UnixStream) -> std::io::Result<Taken> {
        let arrived = Arc::default();
        let disposition = &DISPOSITIONS[number as usize];
        let taken = Taken {
            number,
            armed: false,
            hooks: [
                flag::register_conditional_default(number, &disposition.default)?,
                flag::register(number, Arc::clone(&arrived))?,
                pipe::register(number, pipe)?,
            ],
            arrived,
        };
        disposition.taken.fetch_add(1, SeqCst);
        Ok(taken)
    }

    fn disposition(&self) -> &'static Disposition {
        &DISPOSITIONS[self.number as usize]
    }

    fn arm(&mut self) {
        if !core::mem::replace(&mut self.armed, true) {
            self.disposition().armed.fetch_add(1, SeqCst);
            self.disposition().default.store(false, SeqCst);
        }
    }

    /// Disarms it; returns whether it was armed.
    fn disarm(&mut self) -> bool {
        let armed = core::mem::take(&mut self.armed);
        if armed {
            self.disposition().armed.fetch_sub(1, SeqCst);
        }
        armed
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.disarm();
        self.disposition().taken.fetch_sub(1, SeqCst);
        self.hooks.into_iter().for_each(|hook| {
            unregister(hook);
        });
    }
}

/// The signals that run a script.
#[derive(Default)]
pub(super) struct Signals {
    /// Where a byte arrives with each signal.
    pipe: Option<UnixStream>,
    taken: Vec<Taken>,
}

impl Signals {
    /// Lets the script run when a signal of `numbers` arrives. Some reach no program.
    pub fn install(&mut self, cx: &mut Cx<'_>, numbers: &[i32]) -> Result<(), Failed> {
        self.try_install(numbers)
            .map_err(|error| cx.error(format_args!("cannot take signals: {error}")))?;
        if let Some(pipe) = &self.pipe {
            cx.watch(pipe.as_raw_fd(), true, false);
        }
        self.arm();
        Ok(())
    }

    fn try_install(&mut self, numbers: &[i32]) -> std::io::Result<()> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let numbers = numbers.iter().filter(|number| **number > 0);
        for number in numbers.filter(|number| !FORBIDDEN.contains(number)) {
            self.taken.push(Taken::new(*number, theirs.try_clone()?)?);
        }
        self.pipe = Some(ours);
        Ok(())
    }

    /// Arms the script for all of its signals.
    pub fn arm(&mut self) {
        self.taken.iter_mut().for_each(Taken::arm);
    }

    /// The signals that arrived since it was asked last. The script is not armed for them any more.
    pub fn take(&mut self) -> Vec<i32> {
        let Some(pipe) = &mut self.pipe else {
            return Vec::new();
        };
        while pipe.read(&mut [0; 64]).is_ok_and(|read| read > 0) {}
        let taken = self.taken.iter_mut();
        let arrived = taken.filter(|taken| taken.arrived.swap(false, SeqCst));
        let armed = arrived.filter_map(|taken| taken.disarm().then_some(taken.number));
        armed.collect()
    }

    /// Leaves a signal that ran the script to its default effect, unless a script is armed for it. One that came
    /// meanwhile has this effect at once, and so has one whose script `failed`.
    pub fn settle(&self, number: i32, failed: bool) {
        let taken = self.taken.iter().filter(|taken| taken.number == number);
        for taken in taken.filter(|taken| taken.disposition().armed.load(SeqCst) == 0) {
            taken.disposition().default.store(true, SeqCst);
            if taken.arrived.swap(false, SeqCst) || failed {
                let _ = emulate_default_handler(number);
            }
        }
    }
}
