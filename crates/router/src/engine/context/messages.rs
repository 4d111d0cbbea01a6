//! Messages: for the user, for other elements, and about initialization.

use alloc::format;
use core::fmt::{self, Display};

use click::{Location, Severity};

use super::{Cx, Engine};
use crate::args::Failed;
use crate::chatter::DEFAULT_CHANNEL;
use crate::prelude::*;
use crate::scheduler::task::TaskId;

/// What an element reports while it is initialized.
pub(crate) struct Report {
    pub severity: Severity,
    /// Unknown: the element's.
    pub location: Location,
    pub text: String,
}

/// A line below the heading.
impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.location.is_known() {
            write!(f, "{}: ", self.location)?;
        }
        let mark = if self.severity == Severity::Warning {
            "warning: "
        } else {
            ""
        };
        write!(f, "  {mark}{}", self.text)
    }
}

impl Engine {
    /// The first line of messages about an element.
    pub fn heading(&self, what: &str, id: ElementId) -> String {
        let info = self.graph.info(id);
        // Only the heading names the place, as Click has it.
        let place = if info.location.is_known() {
            format!("{}: ", info.location)
        } else {
            String::new()
        };
        let (name, class) = (&info.name, info.class.name);
        let argument = self.elements.get(id).and_then(|e| e.declared_argument());
        let argument = argument.map_or(String::new(), |argument| format!("({argument})"));
        format!("{place}{what} ‘{name} :: {class}{argument}’:")
    }
}

/// Messages.
impl Cx<'_> {
    /// Prints a line for the user.
    pub fn chatter(&mut self, line: impl Display) {
        self.chatter_on(DEFAULT_CHANNEL, line);
    }

    /// Prints a line of a message, whose quotation marks are curly.
    pub fn report(&mut self, line: &str) {
        let quotes = self.engine.runtime.embedding.quotes();
        self.chatter(quotes.apply(line));
    }

    /// As [`chatter`](Self::chatter), on a channel: only its listeners get it.
    pub fn chatter_on(&mut self, channel: &str, line: impl Display) {
        let line = line.to_string();
        let own = self.engine.threads.partition.as_ref();
        if own.is_some_and(|own| own.listened && !own.whole) {
            return self.whole(|cx| cx.chatter_on(channel, line));
        }
        if self.engine.listeners.is_loud(channel) {
            self.engine.runtime.embedding.chatter(&line);
        }
        let Engine {
            listeners,
            scheduler,
            ..
        } = &mut *self.engine;
        listeners.deliver(channel, &line, |task| scheduler.tasks.schedule(task));
    }

    /// Delivers the messages on a channel to this element from now on. `quiet`: on a channel other
    /// than the default one, nothing is printed because of this listener.
    pub fn listen(&mut self, channel: &str, quiet: bool) {
        self.engine.listeners.add(self.id, channel, quiet);
    }

    /// Schedules `task` whenever a message arrives.
    pub fn wake_on_message(&mut self, task: TaskId) {
        self.engine.listeners.wake(self.id, task);
    }

    /// The messages since the last call, a line each.
    pub fn messages(&mut self) -> Vec<String> {
        self.engine.listeners.take(self.id)
    }

    /// Writes text to standard output, or as a message where there is none.
    pub fn print(&mut self, text: &[u8]) {
        self.engine.runtime.embedding.print(text);
    }

    /// Reports an error while the element is initialized: `return Err(cx.error("…"))`.
    pub fn error(&mut self, text: impl Display) -> Failed {
        self.error_at(&Location::unknown(), text)
    }

    /// As [`error`](Self::error), of a place in a file that the element reads.
    pub fn error_at(&mut self, location: &Location, text: impl Display) -> Failed {
        self.report_at(Severity::Error, location, text);
        Failed
    }

    /// Tells something worth knowing, while the element is initialized.
    pub fn message(&mut self, text: impl Display) {
        self.report_at(Severity::Message, &Location::unknown(), text);
    }

    /// Warns, while the element is initialized.
    pub fn warning(&mut self, text: impl Display) {
        self.warning_at(&Location::unknown(), text);
    }

    /// As [`warning`](Self::warning), of a place in a file that the element reads.
    pub fn warning_at(&mut self, location: &Location, text: impl Display) {
        self.report_at(Severity::Warning, location, text);
    }

    fn report_at(&mut self, severity: Severity, location: &Location, text: impl Display) {
        self.engine.reports.push(Report {
            severity,
            location: location.clone(),
            text: text.to_string(),
        });
    }
}
