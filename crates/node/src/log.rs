//! Messages on standard error. A command says one line at a time; the node logs by `tracing`, for
//! people or as JSON.

use std::fmt::{self, Display};
use std::io::Write;
use std::os::fd::AsFd;
use std::str::FromStr;
use std::time::SystemTime;

use click::text::encode;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber, debug, info, warn};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::model::{self as happened, Happened, rfc3339};

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
        Format::Human => log
            .event_format(Human {
                journal: is_journal(),
            })
            .try_init(),
        Format::Json => log.json().flatten_event(true).try_init(),
    };
}

/// Logs an event, with its fields.
pub fn event(event: &happened::Event) {
    macro_rules! log {
        ($level:ident) => {
            $level!(
                number = event.number,
                topic = ?event.topic,
                name = event.name,
                event = ?event.event,
                reason = event.reason,
                by = event.by,
                "{event}"
            )
        };
    }
    match event.event {
        Happened::Down | Happened::Crashed | Happened::Restarted | Happened::Lost => log!(warn),
        // With many guests, these are every other line.
        Happened::Started | Happened::Running => log!(debug),
        _ => log!(info),
    }
}

/// Says something, in one write: others may write to the same file. A failed write is ignored.
pub fn say(line: impl Display) {
    let _ = std::io::stderr().write_all(&encode(&format!("weir: {line}\n")));
}

/// Whether standard error is systemd's journal, which has times and levels of its own
/// (systemd.exec(5), `JOURNAL_STREAM`).
fn is_journal() -> bool {
    let stream = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    let error = rustix::fs::fstat(std::io::stderr().as_fd());
    error.is_ok_and(|file| stream == format!("{}:{}", file.st_dev, file.st_ino))
}

/// Time, level and message; fields are for JSON. The journal takes the level as a number in front of the line
/// (sd-daemon(3)).
struct Human {
    journal: bool,
}

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
        let level = *event.metadata().level();
        writeln!(
            writer,
            "{}",
            self.line(SystemTime::now(), level, &message.0)
        )
    }
}

impl Human {
    fn line(&self, time: SystemTime, level: Level, message: &str) -> String {
        if !self.journal {
            let level = level.as_str().to_lowercase();
            return format!("{} {level:<5} weir: {message}", rfc3339(time));
        }
        let number = match level {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            _ => 7,
        };
        format!("<{number}>weir: {message}")
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

    #[test]
    fn a_line_has_time_and_level_as_its_reader_needs_them() {
        let line =
            |journal| Human { journal }.line(SystemTime::UNIX_EPOCH, Level::WARN, "it is late");
        assert_eq!(
            line(false),
            "1970-01-01T00:00:00.000Z warn  weir: it is late"
        );
        assert_eq!(line(true), "<4>weir: it is late");
    }
}
