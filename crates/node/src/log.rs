//! Messages on standard error. A command says one line at a time; the node logs by `tracing`, for
//! people or as JSON.

use std::fmt::{self, Display};
use std::io::Write;
use std::str::FromStr;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber, warn};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// How the node logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// A line for people.
    #[default]
    Human,
    /// An object of JSON on each line, with time, level and fields.
    Json,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Format, String> {
        match text {
            "human" => Ok(Format::Human),
            "json" => Ok(Format::Json),
            _ => Err("a log's format is human or json".into()),
        }
    }
}

/// Begins to log, once in a process.
pub fn start(format: Format, level: Level) {
    let log = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(level);
    // A second log in one process is the first one.
    let _ = match format {
        Format::Human => log.event_format(Human).try_init(),
        Format::Json => log.json().flatten_event(true).try_init(),
    };
}

/// Logs that something has ended. Of `how`, whose further lines are what it printed, the first line
/// is logged.
pub fn ended(what: &dyn Display, how: &str, remedy: impl Display) {
    let how = how.lines().next().unwrap_or("it ended");
    warn!(subject = %what, reason = how, "{what}: {how}: {remedy}");
}

/// Says something, in one write: others may write to the same file. That nobody listens any more is
/// no reason to end.
pub fn say(line: impl Display) {
    let _ = std::io::stderr().write_all(format!("weir: {line}\n").as_bytes());
}

/// `weir: ` and the message; fields are for JSON.
struct Human;

impl<S, N> FormatEvent<S, N> for Human
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut message = Message(String::new());
        event.record(&mut message);
        writeln!(writer, "weir: {}", message.0)
    }
}

/// The message of an event.
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_human_or_json() {
        assert_eq!("json".parse(), Ok(Format::Json));
        assert_eq!("human".parse(), Ok(Format::Human));
        assert!("xml".parse::<Format>().is_err());
    }
}
