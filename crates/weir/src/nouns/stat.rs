//! Counters of links and VNICs, once or again and again.

use std::collections::HashMap;
use std::time::Duration;

use clap::Args;
use node::client::Client;
use node::model::{FlowStats, LaneStats, PortStats};
use serde::Serialize;

use super::Result;
use super::output::{Column, Output, maybe};
use crate::run::client::interval;

/// Which counters to show, and how often.
#[derive(Clone, Debug, Args)]
pub struct StatArgs {
    /// Show the counts of each period of SECONDS; default: the totals, once
    #[arg(short, long, value_name = "SECONDS", value_parser = interval)]
    pub interval: Option<f64>,
    /// Exit after this many periods
    #[arg(short, long, requires = "interval", value_parser = clap::value_parser!(u32).range(1..))]
    pub count: Option<u32>,
    /// How to show it
    #[command(flatten)]
    pub output: Output,
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

const LANE: Column<PortStats> = Column::new("lane", |s| maybe(s.lane.as_ref()));

const LANES: &[Column<LaneStats>] = &[
    Column::new("lane", |s| s.lane.to_string()),
    Column::new("cpu", |s| maybe(s.cpu.as_ref())),
    Column::new("queues", |s| s.queues.to_string()),
    Column::new("frames", |s| s.frames.to_string()),
    Column::new("by-poll", |s| s.by_poll.to_string()),
    Column::new("by-wakeup", |s| s.by_wakeup.to_string()),
    Column::new("under-10", |s| s.chains_under_10.to_string()),
    Column::new("10-to-50", |s| s.chains_10_to_50.to_string()),
    Column::new("over-50", |s| s.chains_over_50.to_string()),
    Column::extra("wakeups", |s| s.wakeups.to_string()),
    Column::extra("handoffs", |s| s.handoffs.to_string()),
    Column::extra("handoff-drops", |s| s.handoff_drops.to_string()),
    Column::extra("busy", |s| s.busy.to_string()),
    Column::extra("idle", |s| s.idle.to_string()),
    Column::extra("asleep", |s| s.asleep.to_string()),
];

const FLOWS: &[Column<FlowStats>] = &[
    Column::new("flow", |s| s.name.clone()),
    Column::new("link", |s| s.link.clone()),
    Column::new("frames", |s| s.frames.to_string()),
    Column::new("bytes", |s| s.bytes.to_string()),
    Column::new("held", |s| s.held.to_string()),
    Column::new("dropped", |s| s.dropped.to_string()),
];

/// Shows counters of the port called `name`, or of the ports in `wanted`.
pub fn show(
    client: &Client,
    name: Option<&str>,
    wanted: impl Fn(&PortStats) -> bool,
    args: &StatArgs,
) -> Result {
    let read = || {
        if let Some(name) = name {
            return Ok(vec![client.stats_of(name)?]);
        }
        let mut stats = client.stats()?;
        stats.retain(&wanted);
        Ok(stats)
    };
    again(args, read, |s| s.name.clone(), PortStats::since, COLUMNS)
}

/// Shows counters of ports of several nodes, whose names differ.
pub fn show_all(read: impl Fn() -> Result<Vec<PortStats>>, args: &StatArgs) -> Result {
    again(args, read, |s| s.name.clone(), PortStats::since, COLUMNS)
}

/// Shows counters of the port called `name`, of each lane apart.
pub fn show_by_lane(client: &Client, name: &str, args: &StatArgs) -> Result {
    let read = || client.stats_by_lane(name);
    let columns: Vec<_> = [LANE].iter().chain(COLUMNS).copied().collect();
    again(
        args,
        read,
        |s| maybe(s.lane.as_ref()),
        PortStats::since,
        &columns,
    )
}

/// Shows counters of the switch's lanes.
pub fn show_lanes(client: &Client, args: &StatArgs) -> Result {
    let read = || client.lanes();
    again(args, read, |s| s.lane.to_string(), LaneStats::since, LANES)
}

/// Shows counters of flows: of the one called `name`, or of all.
pub fn show_flows(client: &Client, name: Option<&str>, args: &StatArgs) -> Result {
    let read = || match name {
        Some(name) => Ok(vec![client.stats_of_flow(name)?]),
        None => client.flow_stats(),
    };
    again(args, read, |s| s.name.clone(), FlowStats::since, FLOWS)
}

/// Shows what `read` reads: once, or what changed in each interval.
fn again<T: Serialize + Clone>(
    args: &StatArgs,
    read: impl Fn() -> Result<Vec<T>>,
    key: fn(&T) -> String,
    since: fn(&T, &T) -> T,
    columns: &[Column<T>],
) -> Result {
    let mut before = read()?;
    let Some(interval) = args.interval else {
        return args.output.show(&before, columns);
    };
    for round in 0u32.. {
        if args.count.is_some_and(|count| round >= count) {
            break;
        }
        std::thread::sleep(Duration::from_secs_f64(interval));
        let now = read()?;
        let old: HashMap<String, &T> = before.iter().map(|row| (key(row), row)).collect();
        let changed = now.iter().map(|row| match old.get(&key(row)) {
            Some(old) => since(row, old),
            None => row.clone(),
        });
        let changed: Vec<_> = changed.collect();
        if !args.output.show_next(&changed, columns, round == 0)? {
            break;
        }
        before = now;
    }
    Ok(())
}
