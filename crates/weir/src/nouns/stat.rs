//! Counters of links and VNICs, once or again and again.

use std::collections::HashMap;
use std::time::Duration;

use clap::Args;
use node::client::Client;
use node::model::PortStats;

use super::Result;
use super::output::{Column, Output};

/// What counters are to be shown, and how often.
#[derive(Clone, Debug, Args)]
pub struct StatArgs {
    /// Show what was counted in each SECONDS, again and again; without it, since the beginning
    #[arg(short, long, value_name = "SECONDS", value_parser = interval)]
    pub interval: Option<f64>,
    /// End after this many intervals
    #[arg(short, long, requires = "interval")]
    pub count: Option<u32>,
    /// How to show it
    #[command(flatten)]
    pub output: Output,
}

fn interval(text: &str) -> Result<f64, String> {
    let seconds = text
        .parse::<f64>()
        .ok()
        .filter(|s| (0.1..=3600.0).contains(s));
    seconds.ok_or_else(|| "an interval is 0.1 to 3600 seconds".into())
}

const COLUMNS: &[Column<PortStats>] = &[
    Column::new("name", |s| s.name.clone()),
    Column::new("link", |s| s.link.clone()),
    Column::new("rx-frames", |s| s.rx_frames.to_string()),
    Column::new("rx-bytes", |s| s.rx_bytes.to_string()),
    Column::new("tx-frames", |s| s.tx_frames.to_string()),
    Column::new("tx-bytes", |s| s.tx_bytes.to_string()),
    Column::new("drops", |s| s.dropped().to_string()),
    Column::extra("by-poll", |s| s.by_poll.to_string()),
    Column::extra("by-wakeup", |s| s.by_wakeup.to_string()),
    Column::extra("wakeups", |s| s.wakeups.to_string()),
    Column::extra("chains-under-10", |s| s.chains_under_10.to_string()),
    Column::extra("chains-10-to-50", |s| s.chains_10_to_50.to_string()),
    Column::extra("chains-over-50", |s| s.chains_over_50.to_string()),
    Column::extra("reasons", |s| {
        let reasons = s.drops.iter().map(|(reason, n)| format!("{reason}={n}"));
        reasons.collect::<Vec<_>>().join(",")
    }),
];

/// Shows counters of the port called `name`, or of those that `wanted` says.
pub fn show(
    client: &Client,
    name: Option<&str>,
    wanted: fn(&PortStats) -> bool,
    args: &StatArgs,
) -> Result {
    let read = || -> Result<Vec<PortStats>> {
        let mut path = vec!["stats"];
        path.extend(name);
        let mut stats: Vec<PortStats> = client.get(&path)?;
        stats.retain(|stats| name.is_some() || wanted(stats));
        Ok(stats)
    };
    let mut before = read()?;
    let Some(interval) = args.interval else {
        return args.output.show(&before, COLUMNS);
    };
    for round in 0u32.. {
        if args.count.is_some_and(|count| round >= count) {
            break;
        }
        std::thread::sleep(Duration::from_secs_f64(interval));
        let now = read()?;
        let old: HashMap<&str, &PortStats> = before
            .iter()
            .map(|stats| (stats.name.as_str(), stats))
            .collect();
        let since: Vec<_> = now
            .iter()
            .map(|stats| match old.get(stats.name.as_str()) {
                Some(old) => stats.since(old),
                None => stats.clone(),
            })
            .collect();
        args.output.show_next(&since, COLUMNS, round == 0)?;
        before = now;
    }
    Ok(())
}
