//! `weir start`, `stop`, `restart`, `destroy`, `rename`: verbs for one or many guests.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use node::error::Error;
use node::model::{Action, GuestAction, GuestOutcome, Rename, is_pattern};
use signal_hook::consts::SIGINT;
use signal_hook::flag;
use signal_hook::iterator::{Handle, Signals};

use super::cluster::ClusterOption;
use super::{Result, client, clustered};

/// The exit code after Ctrl-C.
const INTERRUPTED: i32 = 130;
/// Most errors that are told.
const ERRORS_MAX: usize = 20;

/// Which guests.
#[derive(Debug, Args)]
pub struct GuestsArgs {
    /// Names and patterns of guests, as in 'fw-*'
    #[arg(required = true, value_name = "GUEST")]
    pub guests: Vec<String>,
}

/// Which guests are removed.
#[derive(Debug, Args)]
pub struct DestroyArgs {
    #[command(flatten)]
    pub guests: GuestsArgs,
    #[command(flatten)]
    pub cluster: ClusterOption,
}

/// Which name a guest gets.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  weir rename fw firewall")]
pub struct RenameArgs {
    /// The guest
    pub guest: String,
    /// Its new name
    pub name: String,
}

/// Does something with guests.
pub fn act(action: Action, args: &GuestsArgs) -> Result {
    let guests = args.guests.clone();
    let is_known = !guests.iter().any(|guest| is_pattern(guest));
    let mut progress = Progress::new(is_known.then_some(guests.len() as u64));
    let action = GuestAction { action, guests };
    client().act(&action, |outcome| progress.tell(outcome))?;
    progress.end().map(drop)
}

/// Runs `weir destroy`.
pub fn destroy(args: &DestroyArgs) -> Result {
    match args.cluster.context()? {
        Some(context) => clustered::destroy(&context, &args.guests.guests),
        None => act(Action::Destroy, &args.guests),
    }
}

/// Runs `weir rename`.
pub fn rename(args: &RenameArgs) -> Result {
    let new = Rename {
        name: args.name.clone(),
    };
    client().rename(&args.guest, &new).map(drop)
}

/// How far work on many guests has come: a bar on a terminal, and what went wrong. Ctrl-C ends the
/// work after the guests that are under way, which are counted.
pub struct Progress {
    bar: ProgressBar,
    interrupted: Arc<AtomicBool>,
    outcomes: Vec<GuestOutcome>,
}

impl Progress {
    /// Of work on so many guests, if that is known.
    pub fn new(count: Option<u64>) -> Progress {
        let interrupted = Arc::new(AtomicBool::new(false));
        // The second one ends this program at once; where they cannot be caught, so does the first.
        let _ = flag::register_conditional_shutdown(SIGINT, INTERRUPTED, Arc::clone(&interrupted));
        let _ = flag::register(SIGINT, Arc::clone(&interrupted));
        let bar = match count {
            _ if !std::io::stderr().is_terminal() => ProgressBar::hidden(),
            Some(0 | 1) => ProgressBar::hidden(),
            Some(count) => ProgressBar::new(count)
                .with_style(style("{bar:40} {pos}/{len} guests, {per_sec}, {eta} left")),
            None => ProgressBar::no_length().with_style(style("{spinner} {pos} guests, {per_sec}")),
        };
        bar.enable_steady_tick(Duration::from_millis(100));
        Progress {
            bar,
            interrupted,
            outcomes: Vec::new(),
        }
    }

    /// Notes a guest's result; returns whether to go on.
    pub fn tell(&mut self, outcome: GuestOutcome) -> ControlFlow<()> {
        let messages = outcome.status.as_ref().and_then(|s| s.messages.as_ref());
        if let Some(messages) = messages {
            self.bar.suspend(|| eprint!("{messages}"));
        }
        self.outcomes.push(outcome);
        self.bar.inc(1);
        if self.is_interrupted() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    /// Whether Ctrl-C came.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// The guests' results, if all succeeded.
    pub fn end(self) -> Result<Vec<GuestOutcome>> {
        self.bar.finish_and_clear();
        let failed = self.outcomes.iter().filter_map(|it| it.error.as_ref());
        let failed: Vec<_> = failed.collect();
        let interrupted = self.is_interrupted();
        let mut sentences: Vec<_> = failed
            .iter()
            .take(ERRORS_MAX)
            .map(|error| error.error.clone())
            .collect();
        if failed.len() > ERRORS_MAX {
            sentences.push(format!("and {} guests more", failed.len() - ERRORS_MAX));
        }
        if interrupted {
            let done = self.outcomes.len() - failed.len();
            sentences.push(format!(
                "interrupted after {done} guests; no other was begun"
            ));
        }
        match failed.first() {
            None if !interrupted => Ok(self.outcomes),
            first => Err(Error {
                error: sentences.join("\n"),
                ..first.map_or_else(|| Error::refused(""), |first| (*first).clone())
            }),
        }
    }
}

/// Progress of one long request: shows the action and the elapsed time on a terminal. Ctrl-C ends
/// this program with a sentence, and the node goes on.
pub struct Waiting {
    bar: ProgressBar,
    signals: Option<Handle>,
}

impl Waiting {
    /// Shows the action `what` on a terminal; `interrupted` is the sentence after Ctrl-C.
    pub fn new(what: &str, interrupted: String) -> Waiting {
        let bar = if std::io::stderr().is_terminal() {
            ProgressBar::no_length().with_style(style("{spinner} {msg}, {elapsed}"))
        } else {
            ProgressBar::hidden()
        };
        bar.set_message(what.to_string());
        bar.enable_steady_tick(Duration::from_millis(100));
        // Where signals cannot be caught, Ctrl-C ends this program without a word.
        let signals = Signals::new([SIGINT]).ok();
        let handle = signals.as_ref().map(Signals::handle);
        if let Some(mut signals) = signals {
            let shown = bar.clone();
            std::thread::spawn(move || {
                if signals.forever().next().is_some() {
                    shown.finish_and_clear();
                    eprintln!("weir: {interrupted}");
                    std::process::exit(INTERRUPTED);
                }
            });
        }
        Waiting {
            bar,
            signals: handle,
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
        // The next one has a sentence of its own.
        if let Some(signals) = &self.signals {
            signals.close();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template);
    style.unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(error: Option<&str>) -> GuestOutcome {
        GuestOutcome {
            error: error.map(Error::not_found),
            ..GuestOutcome::default()
        }
    }

    #[test]
    fn what_went_wrong_is_told_of_each_guest_up_to_a_limit() {
        let mut progress = Progress::new(None);
        assert!(progress.tell(outcome(None)).is_continue());
        let outcomes = progress.end().unwrap();
        assert_eq!(outcomes.len(), 1);
        let mut progress = Progress::new(None);
        for _ in 0..ERRORS_MAX + 3 {
            assert!(progress.tell(outcome(Some("no guest"))).is_continue());
        }
        let error = progress.end().unwrap_err().error;
        assert_eq!(error.lines().count(), ERRORS_MAX + 1);
        assert!(error.ends_with("and 3 guests more"), "{error}");
    }

    #[test]
    fn an_interrupt_ends_the_work_and_says_how_far_it_came() {
        let mut progress = Progress::new(Some(9));
        progress.interrupted.store(true, Ordering::Relaxed);
        assert!(progress.tell(outcome(None)).is_break());
        let error = progress.end().unwrap_err().error;
        assert!(error.starts_with("interrupted after 1 guests"), "{error}");
    }
}
