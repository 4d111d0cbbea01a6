//! `weir events`: what happened.

use std::ops::ControlFlow;

use clap::Args;
use node::model::{Event, EventsQuery, Selection, Since};
use vmm::printable;

use super::output::is_read;
use super::{Result, client};

/// Prints what happened to guests, links, VNICs, wires and the switch
#[derive(Debug, Args)]
#[command(after_help = "The node keeps its last 8192 events, as long as it runs.

Examples:
  weir events --since 1h
  weir events -f 'fw-*' nat")]
pub struct EventsArgs {
    /// Names and patterns of guests, links and so on, as in 'fw-*'; default: all
    pub names: Vec<String>,
    /// Go on with what happens, until interrupted
    #[arg(short, long)]
    pub follow: bool,
    /// Only events that are not older: how long ago, as in 90s, 10m or 2h, or a time in UTC, as in
    /// 2030-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    pub since: Option<Since>,
    /// Print a JSON object for each event
    #[arg(long)]
    pub json: bool,
}

fn text(event: &Event, json: bool) -> String {
    if json {
        // All keys are text, so that nothing can go wrong.
        return serde_json::to_string(event).unwrap_or_default() + "\n";
    }
    format!("{} {}\n", event.time, printable(&event.to_string()))
}

/// Runs `weir events`.
pub fn run(args: &EventsArgs) -> Result {
    let query = EventsQuery {
        name: Selection::of(&args.names).name,
        since: args.since,
        follow: false,
    };
    if !args.follow {
        let events = client().events(&query)?;
        let all: String = events.iter().map(|event| text(event, args.json)).collect();
        return is_read(&all).map(drop);
    }
    let mut printed = Ok(true);
    client().follow_events(query, |event| {
        printed = is_read(&text(&event, args.json));
        match printed {
            Ok(true) => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    })?;
    printed.map(drop)
}
