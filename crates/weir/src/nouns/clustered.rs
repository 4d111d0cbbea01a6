//! `weir create`, `ls`, `show` and `destroy` with `--cluster`.

pub mod wire;

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use cluster::context::Context;
use cluster::etcd::Store;
use cluster::guests::{self, GuestRow};
use cluster::hosts;
use cluster::model::Demand;
use node::error::Error;
use node::model::{Guest, GuestOutcome, is_pattern};
use scheduler::facts::{Affinity, Membership, Processors};
use vmm::printable;

use super::Result;
use super::cluster::{view, with};
use super::guest::describe_config;
use super::output::{Column, made, print};
use super::verb::Progress;

/// What a guest demands of its host.
#[derive(Debug, Args)]
#[command(next_help_heading = "Where it runs, with --cluster")]
pub struct DemandArgs {
    /// The group of hosts that it runs on (`weir host group`); default: the hosts that are in none
    #[arg(long, default_value = "", hide_default_value = true)]
    group: String,
    /// Hosts that it may run on, separated by commas; default: all
    #[arg(long, value_delimiter = ',', value_name = "HOST")]
    on: Vec<String>,
    /// Labels that its host must have, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "LABEL")]
    label: Vec<String>,
    /// Labels that its host must not have, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "LABEL")]
    anti_label: Vec<String>,
    /// Groups whose members run on one host
    #[arg(long, value_delimiter = ',', value_name = "GROUP")]
    together: Vec<String>,
    /// Groups whose members run on hosts of their own
    #[arg(long, value_delimiter = ',', value_name = "GROUP")]
    apart: Vec<String>,
    /// Let it run against its groups, if it could not run otherwise
    #[arg(long)]
    soft: bool,
    /// Save its state every so often, at least 1s; with it, it goes on elsewhere when its host is lost
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    checkpoint: Option<Duration>,
    /// Guests that it should rather be near to, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "GUEST")]
    near: Vec<String>,
    /// Processors that are reserved for it, as in 0.5
    #[arg(long, value_name = "CPUS")]
    reserve: Option<Processors>,
}

impl DemandArgs {
    fn demand(&self) -> Demand {
        let member = |affinity| {
            move |group: &String| Membership {
                group: group.clone(),
                affinity,
                hard: !self.soft,
            }
        };
        let together = self.together.iter().map(member(Affinity::Together));
        let apart = self.apart.iter().map(member(Affinity::Apart));
        let set = |list: &[String]| list.iter().cloned().collect::<BTreeSet<_>>();
        Demand {
            group: self.group.clone(),
            on: set(&self.on),
            labels: set(&self.label),
            anti_labels: set(&self.anti_label),
            affinity: together.chain(apart).collect(),
            reserve: self.reserve.unwrap_or_default(),
            near: set(&self.near),
            checkpoint_s: self.checkpoint.map(|it| it.as_secs()),
        }
    }

    /// What is demanded, if anything is.
    fn given(&self) -> Option<Demand> {
        Some(self.demand()).filter(|demand| *demand != Demand::default())
    }

    /// Refuses demands without a cluster.
    pub fn refuse(&self) -> Result {
        match self.given() {
            None => Ok(()),
            Some(_) => Err(Error::invalid(
                "--group, --on, --label, --anti-label, --together, --apart, --near, --checkpoint and --reserve are for a host of a cluster: give --cluster, too",
            )),
        }
    }
}

/// The columns of a list of guests.
pub const COLUMNS: &[Column<GuestRow>] = &[
    Column::new("guest", |it| it.guest.clone()),
    Column::new("host", |it| it.host.clone().unwrap_or_default()),
    Column::new("state", |it| it.state.clone()),
    Column::new("reason", |it| it.reason.clone().unwrap_or_default()),
    Column::extra("target", |it| it.target.clone().unwrap_or_default()),
];

/// The guests that names and patterns select.
pub fn rows(context: &Context, names: &[String]) -> Result<Vec<GuestRow>> {
    let view = view(context)?;
    let names = guests::select(&view, names)?;
    let rows = names.iter().filter_map(|name| {
        let mut row = guests::row(&view, name)?;
        row.record = None;
        row.reason = row.reason.or_else(|| guests::why_waits(&view, name));
        Some(row)
    });
    Ok(rows.collect())
}

/// Creates guests, and waits until they run.
pub fn create(
    context: &Context,
    guests: Vec<(String, Guest)>,
    demand: &DemandArgs,
    json: bool,
) -> Result {
    let names: Vec<_> = guests.iter().map(|(name, _)| name.clone()).collect();
    let rows = with(context, async |store: Store| {
        guests::create(&store, &guests, &demand.demand()).await?;
        wait(&store, &names).await
    })?;
    made(json, &rows)
}

/// Waits until guests run.
async fn wait(store: &Store, names: &[String]) -> Result<Vec<GuestRow>> {
    let mut progress = Progress::new(Some(names.len() as u64));
    let mut rows = Vec::new();
    guests::wait(store, names, |row| {
        rows.push(GuestRow {
            record: None,
            ..row.clone()
        });
        progress.tell(outcome(row)).is_continue()
    })
    .await?;
    progress.end()?;
    Ok(rows)
}

/// What became of a guest that was created.
fn outcome(row: &GuestRow) -> GuestOutcome {
    let GuestRow { guest, reason, .. } = row;
    let why = reason.as_deref().unwrap_or("no reason is known");
    let error = match row.state.as_str() {
        "waiting" => Some(format!(
            "guest ‘{guest}’ waits for a host, and starts when one may run it: {why}"
        )),
        "failed" => {
            let host = row.host.as_deref().unwrap_or("its host");
            Some(format!(
                "guest ‘{guest}’ does not start on {host}: {why}; it is tried again until `weir destroy --cluster {guest}`"
            ))
        }
        _ => None,
    };
    GuestOutcome {
        guest: guest.clone(),
        status: None,
        error: error.map(Error::refused),
    }
}

/// Shows guests.
pub fn show(context: &Context, names: &[String], json: bool) -> Result {
    let view = view(context)?;
    let names = guests::select(&view, names)?;
    let rows: Vec<_> = names
        .iter()
        .filter_map(|name| guests::row(&view, name))
        .collect();
    if json {
        return made(true, &rows);
    }
    let texts: Vec<_> = rows.iter().map(described).collect();
    print(&texts.join("\n"))
}

fn described(row: &GuestRow) -> String {
    let fields = COLUMNS.iter().map(|it| (it.name(), it.value(row)));
    let fields = fields.filter(|(_, value)| !value.is_empty());
    let mut text: String = fields
        .map(|(name, value)| format!("{name:<11} {}\n", printable(&value)))
        .collect();
    if let Some(record) = &row.record {
        let guest = &record.guest;
        describe_config(&mut text, "config", &guest.file_name(), &guest.config);
    }
    text
}

/// Moves guests to a host. Of a pattern, one that cannot go stays, and the others go.
pub fn migrate(context: &Context, pattern: &str, to: &str) -> Result {
    with(context, async |store: Store| {
        let view = store.view().await?;
        let mut names = guests::select(&view, &[pattern.to_string()])?;
        if is_pattern(pattern) {
            hosts::show(&view, to)?;
            names.retain(|name| guests::find(&view, name).is_ok_and(|at| at.host != to));
        }
        let mut progress = Progress::new(Some(names.len() as u64));
        for guest in names {
            let moved = guests::migrate(&store, &guest, to).await;
            let outcome = GuestOutcome {
                guest,
                status: None,
                error: moved.err(),
            };
            if progress.tell(outcome).is_break() {
                break;
            }
        }
        progress.end().map(drop)
    })
}

/// Removes guests.
pub fn destroy(context: &Context, names: &[String]) -> Result {
    with(context, async |store: Store| {
        let names = guests::select(&store.view().await?, names)?;
        guests::destroy(&store, &names).await
    })
}
