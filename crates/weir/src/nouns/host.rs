//! `weir host`: the hosts of a cluster.

use std::time::{Duration, Instant};

use clap::Subcommand;
use cluster::etcd::Store;
use cluster::hosts::{self, HostRow};
use node::error::{Error, Kind};

use super::Result;
use super::cluster::{ClusterFile, view, with};
use super::output::{Column, Output, made};

/// Longest that guests may take to leave a host without any of them doing so.
const PATIENCE: Duration = Duration::from_secs(60);

/// Lists and changes the hosts of a cluster
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  weir host ls
  weir host maintain b && weir host activate b
  weir host label a --add ssd
  weir host group a edge")]
pub enum HostCommand {
    /// Lists hosts
    #[command(after_help = "Examples:\n  weir host ls\n  weir host ls -p -o host,state")]
    Ls {
        #[command(flatten)]
        cluster: ClusterFile,
        #[command(flatten)]
        output: Output,
    },
    /// Shows all that is known of a host
    #[command(after_help = "Example:\n  weir host show a")]
    Show {
        /// The host
        host: String,
        #[command(flatten)]
        cluster: ClusterFile,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Has all guests leave a host, live where they run, and keeps others away
    #[command(after_help = "Example:\n  weir host maintain b")]
    Maintain {
        /// The host
        host: String,
        #[command(flatten)]
        cluster: ClusterFile,
        /// Do not wait until all guests have left
        #[arg(long)]
        no_wait: bool,
    },
    /// Ends a host's maintenance; the guests that left it return
    #[command(after_help = "Examples:\n  weir host activate b\n  weir host activate b --stay")]
    Activate {
        /// The host
        host: String,
        #[command(flatten)]
        cluster: ClusterFile,
        /// Leave the guests that left it where they are
        #[arg(long)]
        stay: bool,
    },
    /// Removes a host from the cluster
    #[command(after_help = "Examples:\n  weir host remove b\n  weir host remove b --force")]
    Remove {
        /// The host
        host: String,
        #[command(flatten)]
        cluster: ClusterFile,
        /// Also with guests on it, which start elsewhere
        #[arg(long)]
        force: bool,
    },
    /// Puts a host without guests into a group of hosts, which may have a policy of its own
    #[command(
        after_help = "Examples:\n  weir host group a edge && weir policy set power_saving --group edge\n  weir host group a"
    )]
    Group {
        /// The host
        host: String,
        /// The group; default: none
        #[arg(default_value = "")]
        group: String,
        #[command(flatten)]
        cluster: ClusterFile,
    },
    /// Adds and removes labels of a host
    #[command(after_help = "Example:\n  weir host label a --add ssd,new --remove old")]
    Label {
        /// The host
        host: String,
        #[command(flatten)]
        cluster: ClusterFile,
        /// Labels to add, separated by commas
        #[arg(long, value_delimiter = ',', value_name = "LABEL")]
        add: Vec<String>,
        /// Labels to remove, separated by commas
        #[arg(long, value_delimiter = ',', value_name = "LABEL")]
        remove: Vec<String>,
    },
}

const COLUMNS: &[Column<HostRow>] = &[
    Column::new("host", |it| it.host.clone()),
    Column::new("state", |it| it.state.into()),
    Column::new("leader", |it| if it.leader { "yes" } else { "" }.into()),
    Column::new("guests", |it| it.guests.to_string()),
    Column::new("booked", |it| it.booked.to_string()),
    Column::new("memory", |it| it.memory.to_string()),
    Column::new("processors", |it| it.processors.to_string()),
    Column::new("address", |it| it.address.clone().unwrap_or_default()),
    Column::new("labels", |it| {
        let labels: Vec<_> = it.labels.iter().cloned().collect();
        labels.join(",")
    }),
    Column::new("group", |it| it.group.clone()),
    Column::extra("site", |it| it.site.clone()),
    Column::extra("links", |it| it.links.join(",")),
];

/// Runs `weir host`.
pub fn run(command: &HostCommand) -> Result {
    match command {
        HostCommand::Ls { cluster, output } => {
            let view = view(&cluster.context()?)?;
            output.show(&hosts::list(&view), COLUMNS)
        }
        HostCommand::Show {
            host,
            cluster,
            json,
        } => {
            let row = hosts::show(&view(&cluster.context()?)?, host)?;
            if *json {
                return made(true, &row);
            }
            let fields = COLUMNS.iter().map(|it| (it.name(), it.value(&row)));
            let fields = fields.filter(|(_, value)| !value.is_empty());
            let text: String = fields
                .map(|(name, value)| format!("{name:<11} {}\n", vmm::printable(&value)))
                .collect();
            super::output::print(&text)
        }
        HostCommand::Maintain {
            host,
            cluster,
            no_wait,
        } => with(&cluster.context()?, async |store: Store| {
            hosts::change(&store, host, |record| {
                record.maintenance = true;
                Ok(())
            })
            .await?;
            match no_wait {
                true => Ok(()),
                false => wait_until_empty(&store, host).await,
            }
        }),
        HostCommand::Activate {
            host,
            cluster,
            stay,
        } => with(&cluster.context()?, async |store: Store| {
            hosts::activate(&store, host, *stay).await
        }),
        HostCommand::Remove {
            host,
            cluster,
            force,
        } => with(&cluster.context()?, async |store: Store| {
            hosts::remove(&store, host, *force).await
        }),
        HostCommand::Group {
            host,
            group,
            cluster,
        } => with(&cluster.context()?, async |store: Store| {
            hosts::set_group(&store, host, group).await
        }),
        HostCommand::Label {
            host,
            cluster,
            add,
            remove,
        } => with(&cluster.context()?, async |store: Store| {
            hosts::label(&store, host, add, remove).await
        }),
    }
}

/// Most guests that are named as the ones that stay.
const NAMED: usize = 5;

/// Waits until a host in maintenance has no guests.
async fn wait_until_empty(store: &Store, host: &str) -> Result {
    let (mut left, mut start) = (usize::MAX, Instant::now());
    loop {
        let view = store.view().await?;
        let row = hosts::show(&view, host)?;
        if row.guests == 0 {
            return Ok(());
        }
        let pinned = hosts::pinned(&view, host);
        if pinned.len() == row.guests {
            let named: Vec<_> = pinned.iter().take(NAMED).cloned().collect();
            return Err(Error::new(
                Kind::InUse,
                format_args!(
                    "host {host} still has {} that may run on no other (`--on {host}`): {}{}",
                    cluster::count(pinned.len(), "guest"),
                    named.join(", "),
                    if pinned.len() > NAMED { ", …" } else { "" }
                ),
            ));
        }
        if row.guests < left {
            (left, start) = (row.guests, Instant::now());
        }
        if start.elapsed() > PATIENCE {
            return Err(Error::new(
                Kind::InUse,
                format_args!(
                    "host {host} still has {}, to leave it when others may run them: `weir ls --cluster` shows them, `weir cluster events --follow` what happens",
                    cluster::count(left, "guest")
                ),
            ));
        }
        cluster::pause(Duration::from_millis(100)).await;
    }
}
