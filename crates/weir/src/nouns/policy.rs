//! `weir policy` and `weir place`: how guests are placed over hosts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use cluster::context::Context;
use cluster::etcd::Store;
use cluster::keys::Kind;
use cluster::policies::{self, Move};
use node::error::Error;
use scheduler::balancers::BALANCERS;
use scheduler::filters::FILTERS;
use scheduler::plugins::{Folder, Limits, Plugin};
use scheduler::unit::find;
use scheduler::weights::WEIGHTS;
use scheduler::{BUILT_IN, BuiltIn, Exclusion, Explanation, Policy, Scene, WeightRow};
use serde::Serialize;

use super::Result;
use super::cluster::{ClusterFile, ClusterOption, view, with};
use super::output::{Column, Output, made, print};

/// Longest file that describes hosts and guests, in bytes.
const FILE_MAX: u64 = 64 << 20;
/// Most rows of a table of an explanation.
const ROWS_MAX: usize = 50;
/// Most guests whose explanation is shown.
const GUESTS_MAX: usize = 100;

/// Shows and sets policies: filters, weights with factors, a balancer, properties
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  weir policy ls
  weir policy show power_saving
  weir policy create mine mine.toml && weir policy set mine")]
pub enum PolicyCommand {
    /// Lists the policies that are built in, and those of a cluster
    #[command(after_help = "Examples:\n  weir policy ls\n  weir policy ls --json")]
    Ls {
        #[command(flatten)]
        cluster: ClusterOption,
        #[command(flatten)]
        output: Output,
    },
    /// Shows a policy: what each of its filters, weights and properties does
    #[command(
        after_help = "Examples:\n  weir policy show power_saving\n  weir policy show none --json"
    )]
    Show {
        /// The policy
        name: String,
        #[command(flatten)]
        cluster: ClusterOption,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Gives a cluster a policy of its own, or replaces it
    #[command(after_help = "Example:\n  weir policy create mine mine.toml")]
    Create {
        /// The policy
        name: String,
        /// Its filters, weights, balancer and properties (TOML): docs/cluster.md
        file: PathBuf,
        #[command(flatten)]
        cluster: ClusterFile,
    },
    /// Has a cluster follow a policy, or a group of its hosts
    #[command(
        after_help = "Examples:\n  weir policy set evenly_distributed\n  weir policy set power_saving --group edge"
    )]
    Set {
        /// The policy
        name: String,
        /// The group of hosts (`weir host group`); default: all without a policy of their own
        #[arg(long)]
        group: Option<String>,
        #[command(flatten)]
        cluster: ClusterFile,
    },
}

#[derive(Serialize)]
struct PolicyRow {
    name: String,
    description: &'static str,
    #[serde(flatten)]
    policy: Policy,
}

const POLICIES: &[Column<PolicyRow>] = &[
    Column::new("name", |it| it.name.clone()),
    Column::new("balancer", |it| it.policy.balancer.clone()),
    Column::new("description", |it| it.description.into()),
    Column::extra("filters", |it| it.policy.filters.join(",")),
    Column::extra("weights", |it| {
        let weights = it.policy.weights.iter();
        let weights = weights.map(|(name, factor)| format!("{name}={factor}"));
        weights.collect::<Vec<_>>().join(",")
    }),
];

fn row(row: &'static BuiltIn) -> PolicyRow {
    PolicyRow {
        name: row.name.into(),
        description: row.description,
        policy: row.policy(),
    }
}

/// A part of a policy.
#[derive(Serialize)]
struct Part {
    kind: &'static str,
    name: String,
    value: String,
    description: &'static str,
}

const PARTS: &[Column<Part>] = &[
    Column::new("kind", |it| it.kind.into()),
    Column::new("name", |it| it.name.clone()),
    Column::new("value", |it| it.value.clone()),
    Column::new("description", |it| it.description.into()),
];

fn parts(policy: &Policy) -> Vec<Part> {
    let part = |kind, name: &str, value, description| Part {
        kind,
        name: name.into(),
        value,
        description,
    };
    let filters = policy.filters.iter().map(|name| {
        let description = find(FILTERS, name).map_or("", |row| row.description);
        part("filter", name, String::new(), description)
    });
    let weights = policy.weights.iter().map(|(name, factor)| {
        let description = find(WEIGHTS, name).map_or("", |row| row.description);
        part("weight", name, factor.to_string(), description)
    });
    let balancer = find(BALANCERS, &policy.balancer).map_or("", |row| row.description);
    let balancer = part("balancer", &policy.balancer, String::new(), balancer);
    let properties = policy.declared().into_iter().map(|property| {
        let value = policy.properties.get(property.name).cloned();
        let value = value.unwrap_or_else(|| property.default.to_string());
        part("property", property.name, value, property.description)
    });
    filters
        .chain(weights)
        .chain([balancer])
        .chain(properties)
        .collect()
}

/// Runs `weir policy`.
pub fn run(command: &PolicyCommand) -> Result {
    match command {
        PolicyCommand::Ls { cluster, output } => {
            let mut rows: Vec<_> = BUILT_IN.iter().map(row).collect();
            if let Some(context) = cluster.context()? {
                let view = view(&context)?;
                let own = view.names(Kind::Policy).filter_map(|name| {
                    Some(PolicyRow {
                        name: name.into(),
                        description: "One of the cluster's own.",
                        policy: view.get(&Kind::Policy.of(name))?,
                    })
                });
                rows.extend(own);
            }
            output.show(&rows, POLICIES)
        }
        PolicyCommand::Create {
            name,
            file,
            cluster,
        } => create(name, file, &cluster.context()?),
        PolicyCommand::Set {
            name,
            group,
            cluster,
        } => with(&cluster.context()?, async |store: Store| {
            policies::set(&store, name, group.as_deref()).await
        }),
        PolicyCommand::Show {
            name,
            cluster,
            json,
        } => {
            let policy = match cluster.context()? {
                Some(context) => cluster::plugins::named(&view(&context)?, name)?,
                None => Policy::built_in(name).map_err(Error::not_found)?,
            };
            if *json {
                return made(true, &policy);
            }
            Output::default().show(&parts(&policy), PARTS)
        }
    }
}

/// Gives a cluster a policy of a file.
fn create(name: &str, file: &Path, context: &Context) -> Result {
    let text = read_text(file)?;
    let policy: Policy = toml::from_str(&text).map_err(|error| wrong_line(file, &text, &error))?;
    with(context, async |store: Store| {
        policies::create(&store, name, &policy).await
    })
}

/// Shows which guests the balancer would move
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  weir balance --dry-run")]
pub struct BalanceArgs {
    /// Show the moves, and do nothing; the leader does them by itself
    #[arg(long, required = true)]
    dry_run: bool,
    #[command(flatten)]
    cluster: ClusterFile,
    #[command(flatten)]
    output: Output,
}

const MOVES: &[Column<Move>] = &[
    Column::new("guest", |it| it.guest.clone()),
    Column::new("from", |it| it.from.clone()),
    Column::new("to", |it| it.to.clone()),
];

/// Runs `weir balance`.
pub fn balance(args: &BalanceArgs) -> Result {
    let moves = policies::balance(view(&args.cluster.context()?)?)?;
    args.output.show(&moves, MOVES)
}

/// Shows where guests would be placed, and why, without doing anything
#[derive(Debug, Args)]
#[command(
    after_help = "The file has hosts, guests and a policy, in TOML, or in JSON if its name ends in .json: docs/cluster.md.
Each guest that does not run is placed in the order of names, and is booked before the next one.

Examples:
  weir place --explain examples/placement.toml
  weir place --explain examples/placement.toml --guest web-4 --json"
)]
pub struct PlaceArgs {
    /// Show which filter excludes which host of this file, and the table of weights
    #[arg(long, value_name = "FILE")]
    explain: PathBuf,
    /// Show this guest alone; default: all that do not run
    #[arg(long)]
    guest: Option<String>,
    /// The folder of plugins
    #[arg(long, value_name = "FOLDER")]
    plugins: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXCLUDED: &[Column<Exclusion>] = &[
    Column::new("host", |it| it.host.clone()),
    Column::new("filter", |it| it.filter.clone().unwrap_or_default()),
    Column::new("reason", |it| it.reason.clone()),
];

const SUMS: &[Column<WeightRow>] = &[
    Column::new("host", |it| it.host.clone()),
    Column::new("sum", |it| format!("{:.2}", it.sum)),
    Column::new("costs", |it| {
        let costs = it.scores.iter().filter(|score| score.cost > 0.0);
        let costs = costs.map(|score| format!("{} {:.2}", score.weight, score.cost));
        costs.collect::<Vec<_>>().join(", ")
    }),
];

/// Runs `weir place`.
pub fn place(args: &PlaceArgs) -> Result {
    let scene = read_scene(&args.explain)?;
    let plugins = match &args.plugins {
        Some(folder) => plugins(folder)?,
        None => Vec::new(),
    };
    let scheduler = scene.scheduler(&plugins).map_err(Error::invalid)?;
    let explained = scene.explain(&scheduler).map_err(Error::invalid)?;
    let is_meant = |it: &Explanation| args.guest.as_ref().is_none_or(|guest| *guest == it.guest);
    let mut shown = 0;
    for explained in explained {
        let explained = explained.map_err(Error::invalid)?;
        if !is_meant(&explained) {
            continue;
        }
        shown += 1;
        if args.json {
            // One array, of which one element at a time is here.
            print(if shown == 1 { "[" } else { "," })?;
            print(&serde_json::to_string(&explained).map_err(Error::failed)?)?;
        } else if shown <= GUESTS_MAX {
            show(&explained)?;
        }
    }
    match (&args.guest, shown, args.json) {
        (Some(guest), 0, _) => {
            let path = args.explain.display();
            Err(Error::not_found(format_args!(
                "{path} has no guest {guest} that is to be placed"
            )))
        }
        (_, 0, true) => print("[]\n"),
        (_, _, true) => print("]\n"),
        _ if shown > GUESTS_MAX => print(&format!(
            "and {} guests more: --guest shows one, --json all\n",
            shown - GUESTS_MAX
        )),
        _ => Ok(()),
    }
}

/// Shows an explanation.
pub(super) fn show(explained: &Explanation) -> Result {
    let Explanation { guest, policy, .. } = explained;
    let chosen = match &explained.host {
        Some(host) => format!("runs on host {host}"),
        None => "may run on no host".into(),
    };
    print(&format!("guest {guest} {chosen} (policy {policy})\n"))?;
    for failure in &explained.failures {
        print(&format!("{}\n", vmm::printable(&failure.to_string())))?;
    }
    let output = Output::default();
    show_rows(&output, &explained.excluded, EXCLUDED)?;
    show_rows(&output, &explained.weights, SUMS)
}

/// Shows the first rows, and how many there are more.
fn show_rows<T: Serialize>(output: &Output, rows: &[T], columns: &[Column<T>]) -> Result {
    let (first, rest) = rows.split_at(rows.len().min(ROWS_MAX));
    if !first.is_empty() {
        output.show(first, columns)?;
    }
    match rest.len() {
        0 => Ok(()),
        count => print(&format!("and {count} more: --json shows all\n")),
    }
}

/// Reads hosts and guests from a file.
pub(super) fn read_scene(path: &Path) -> Result<Scene> {
    let text = read_text(path)?;
    if path.extension().is_some_and(|end| end == "json") {
        return serde_json::from_str(&text).map_err(|error| wrong(path, &error));
    }
    toml::from_str(&text).map_err(|error| wrong_line(path, &text, &error))
}

fn wrong(path: &Path, why: &dyn std::fmt::Display) -> Error {
    Error::invalid(format_args!("{}: {why}", path.display()))
}

/// What is wrong with a file of TOML, and in which line.
fn wrong_line(path: &Path, text: &str, error: &toml::de::Error) -> Error {
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.unwrap_or("").matches('\n').count() + 1;
    wrong(path, &format_args!("line {line}: {}", error.message()))
}

fn read_text(path: &Path) -> Result<String> {
    let size = std::fs::metadata(path).map_err(|error| wrong(path, &error))?;
    if size.len() > FILE_MAX {
        return Err(wrong(
            path,
            &format_args!("it has more than {} MiB", FILE_MAX >> 20),
        ));
    }
    std::fs::read_to_string(path).map_err(|error| wrong(path, &error))
}

/// The plugins of a folder.
pub(super) fn plugins(path: &Path) -> Result<Vec<Plugin>> {
    let found = Folder::new(path.into(), Limits::default()).plugins();
    let (plugins, failures) =
        found.map_err(|error| Error::invalid(format_args!("{}: {error}", path.display())))?;
    for failure in failures {
        node::log::say(format_args!("{failure}"));
    }
    Ok(plugins)
}

/// The properties of a plugin, and what their values must match.
pub(super) fn patterns(plugin: &Plugin) -> BTreeMap<String, String> {
    let properties = plugin.properties.iter();
    properties
        .map(|(name, pattern)| (name.clone(), pattern.must()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is wrong with a file of this text.
    fn refused(name: &str, text: &str) -> String {
        let name = format!("weir-scene-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        let read = read_scene(&path);
        std::fs::remove_file(&path).unwrap();
        read.unwrap_err().error.split_once(": ").unwrap().1.into()
    }

    #[test]
    fn a_wrong_file_is_refused_with_the_line() {
        let error = refused("a.toml", "policy = 'none'\n[hosts.a]\nmemory = 'much'\n");
        assert!(
            error.starts_with("line 3: ‘much’ is not an amount of memory"),
            "{error}"
        );
        let error = refused("b.toml", "colour = 1\n");
        assert!(
            error.starts_with("line 1: unknown field `colour`"),
            "{error}"
        );
        let error = refused("c.json", "{\n\"policy\": 1}");
        assert!(error.contains("line 2"), "{error}");
        let error = read_scene(Path::new("/nowhere")).unwrap_err().error;
        assert!(error.starts_with("/nowhere: No such file"), "{error}");
    }

    #[test]
    fn every_part_of_a_built_in_policy_is_described() {
        for row in BUILT_IN {
            let parts = parts(&row.policy());
            assert!(
                parts.iter().all(|part| !part.description.is_empty()),
                "{}",
                row.name
            );
        }
    }
}
