//! `weir console`, `weir logs`: what guests print.

use std::ops::ControlFlow;

use clap::Args;
use node::model::{LogLine, LogQuery, LogsQuery, Selection, Since, is_pattern};
use vmm::printable;

use super::cluster::ClusterOption;
use super::output::is_read;
use super::{Result, client};

/// Prints a guest's output since its last start
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weir console fw\n  weir console fw -f")]
pub struct ConsoleArgs {
    /// The guest
    pub guest: String,
    /// Follow its output, until it is destroyed, or until interrupted
    #[arg(short, long)]
    pub follow: bool,
    #[command(flatten)]
    pub cluster: ClusterOption,
}

/// Prints what guests have printed, also before they were restarted or ended
#[derive(Debug, Args)]
#[command(
    after_help = "The node keeps the last 64 KiB and 1000 lines of each guest, as long as it runs.
With more than one guest, each line begins with the guest's name.

Examples:
  weir logs fw
  weir logs 'fw-*' nat -f --tail 10
  weir logs fw --since 10m --timestamps"
)]
pub struct LogsArgs {
    /// Names and patterns of guests, as in 'fw-*'
    #[arg(required = true, value_name = "GUEST")]
    pub guests: Vec<String>,
    /// Follow their output, until interrupted, or until all named guests are destroyed
    #[arg(short, long)]
    pub follow: bool,
    /// Only lines that are not older: how long ago, as in 90s, 10m or 2h, or a time in UTC, as in
    /// 2030-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    pub since: Option<Since>,
    /// Only the last N lines of each guest
    #[arg(long, value_name = "N")]
    pub tail: Option<usize>,
    /// Begin each line with the time at which the node took it from the guest
    #[arg(short, long)]
    pub timestamps: bool,
    /// Print a JSON object for each line
    #[arg(long, conflicts_with = "timestamps")]
    pub json: bool,
}

/// How lines are printed.
#[derive(Clone, Copy, Debug, Default)]
struct Style {
    guest: bool,
    time: bool,
    json: bool,
}

impl Style {
    fn text(self, line: &LogLine) -> String {
        if self.json {
            // All keys are text, so that nothing can go wrong.
            return serde_json::to_string(line).unwrap_or_default() + "\n";
        }
        let mut text = String::new();
        if self.time {
            text += &format!("{} ", line.time);
        }
        if self.guest {
            text += &format!("{}: ", line.guest);
        }
        text + &printable(&line.line) + "\n"
    }

    fn print(self, lines: &[LogLine]) -> Result<bool> {
        let text: String = lines.iter().map(|line| self.text(line)).collect();
        is_read(&text)
    }
}

/// Prints lines as they come, until the reader of the output has gone.
fn follow(
    style: Style,
    ask: impl FnOnce(&mut dyn FnMut(LogLine) -> ControlFlow<()>) -> Result,
) -> Result {
    let mut printed = Ok(true);
    ask(&mut |line| {
        printed = style.print(&[line]);
        match printed {
            Ok(true) => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    })?;
    printed.map(drop)
}

/// Runs `weir console`.
pub fn console(args: &ConsoleArgs) -> Result {
    args.cluster.choose_host_of(&args.guest)?;
    let query = LogQuery {
        run: true,
        ..LogQuery::default()
    };
    let style = Style::default();
    if args.follow {
        return follow(style, |told| client().follow_log(&args.guest, query, told));
    }
    style.print(&client().log(&args.guest, &query)?).map(drop)
}

/// Runs `weir logs`.
pub fn logs(args: &LogsArgs) -> Result {
    let style = Style {
        guest: args.guests.len() > 1 || args.guests.iter().any(|guest| is_pattern(guest)),
        time: args.timestamps,
        json: args.json,
    };
    let query = LogsQuery {
        name: Selection::of(&args.guests).name,
        since: args.since,
        tail: args.tail,
        follow: false,
    };
    if args.follow {
        return follow(style, |told| client().follow_logs(query, told));
    }
    style.print(&client().logs(&query)?).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_what_is_asked_for_before_it() {
        let line = LogLine {
            time: "2030-01-31T12:00:00.000Z".into(),
            guest: "fw".into(),
            line: "a\u{1b}b".into(),
            ..LogLine::default()
        };
        assert_eq!(Style::default().text(&line), "a\\u{1b}b\n");
        let style = Style {
            guest: true,
            time: true,
            json: false,
        };
        assert_eq!(
            style.text(&line),
            "2030-01-31T12:00:00.000Z fw: a\\u{1b}b\n"
        );
        let style = Style {
            json: true,
            ..Style::default()
        };
        assert_eq!(
            serde_json::from_str::<LogLine>(&style.text(&line)).unwrap(),
            line
        );
    }
}
