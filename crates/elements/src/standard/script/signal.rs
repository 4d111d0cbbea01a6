//! Signals: their names, and scripts that run when one arrives.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use signal_hook::SigId;
use signal_hook::flag;
use signal_hook::low_level::{pipe, unregister};

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

/// The number of the signal that `word` names or numbers, on Linux.
pub(super) fn number(word: &str) -> Option<i32> {
    let named = NAMES.iter().find(|(name, _)| *name == word);
    let number = match named {
        Some((_, number)) => Some(*number),
        None => word.parse().ok(),
    };
    number.filter(|number| (1..32).contains(number))
}

/// How many scripts take each signal, or have taken it before they gave it up.
static TAKEN: [AtomicU32; 32] = [const { AtomicU32::new(0) }; 32];

/// Whether a script takes a signal: then it ends no run. One that a script has given up does what it does by
/// default, and needs nobody else.
pub fn is_taken(number: i32) -> bool {
    let taken = usize::try_from(number).ok().and_then(|i| TAKEN.get(i));
    taken.is_some_and(|taken| taken.load(Ordering::SeqCst) > 0)
}

/// The signals that run a script.
#[derive(Default)]
pub(super) struct Signals {
    /// Where a byte arrives with each signal.
    pipe: Option<UnixStream>,
    hooks: Vec<SigId>,
    /// The signals that the script takes.
    numbers: Vec<i32>,
    /// The script takes no signals: they do what they do by default.
    left: Arc<AtomicBool>,
}

impl Signals {
    /// Lets the script run when a signal of `numbers` arrives.
    pub fn install(&mut self, cx: &mut Cx<'_>, numbers: &[i32]) -> Result<(), Failed> {
        self.try_install(numbers)
            .map_err(|error| cx.error(format_args!("cannot take signals: {error}")))?;
        if let Some(pipe) = &self.pipe {
            cx.watch(pipe.as_raw_fd(), true, false);
        }
        Ok(())
    }

    fn try_install(&mut self, numbers: &[i32]) -> std::io::Result<()> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        for number in numbers {
            let default = flag::register_conditional_default(*number, Arc::clone(&self.left))?;
            let hook = pipe::register(*number, theirs.try_clone()?)?;
            self.hooks.extend([default, hook]);
            TAKEN[*number as usize].fetch_add(1, Ordering::SeqCst);
            self.numbers.push(*number);
        }
        self.pipe = Some(ours);
        Ok(())
    }

    /// Whether signals arrived since it was asked last.
    pub fn take(&mut self) -> bool {
        let Some(pipe) = &mut self.pipe else {
            return false;
        };
        let mut bytes = [0; 64];
        let mut any = false;
        while pipe.read(&mut bytes).is_ok_and(|read| read > 0) {
            any = true;
        }
        any
    }

    /// Leaves signals to their default effect.
    pub fn leave(&self) {
        self.left.store(true, Ordering::SeqCst);
    }

    /// Takes signals again, also after they were given up.
    pub fn take_again(&self, cx: &mut Cx<'_>) {
        if let Some(pipe) = &self.pipe {
            cx.watch(pipe.as_raw_fd(), true, false);
        }
        self.left.store(false, Ordering::SeqCst);
    }

    /// Takes no more signals.
    pub fn give_up(&self, cx: &mut Cx<'_>) {
        self.leave();
        if let Some(pipe) = &self.pipe {
            cx.watch(pipe.as_raw_fd(), false, false);
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for number in &self.numbers {
            TAKEN[*number as usize].fetch_sub(1, Ordering::SeqCst);
        }
        for hook in self.hooks.drain(..) {
            unregister(hook);
        }
    }
}
