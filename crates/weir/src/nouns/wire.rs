//! `weir wire`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use node::check::check_guest;
use node::error::Error;
use node::model::{Guest, Object, Wire, WireChange, WireGuest, WireProcess};
use node::wire::{capture, check};

use serde::Serialize;

use super::cluster::ClusterOption;
use super::clustered::{self, DemandArgs};
use super::output::{Column, Output, name, print};
use super::stat::{self, StatArgs};
use super::verb::Waiting;
use super::{Result, client};
use crate::graph::wire as graph;

/// Makes whole networks from files, and files from networks
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  weir wire apply examples/wires/two-subnets.toml
  weir wire diff two-subnets.toml
  weir wire show two-subnets --graph svg >two-subnets.svg
  weir wire export two-subnets >two-subnets.toml
  weir wire capture --prefix copy- >captured.toml
  weir wire delete two-subnets
  weir wire apply --cluster edge.toml")]
pub enum WireCommand {
    /// Makes a wire match its file, as a whole or not at all
    Apply {
        /// The wire's file; - for standard input
        file: PathBuf,
        /// Print the steps as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        cluster: ClusterOption,
        #[command(flatten)]
        demand: Box<DemandArgs>,
    },
    /// Shows the steps that ‘apply’ would take
    #[command(after_help = "Examples:
  weir wire diff two-subnets.toml
  weir wire diff two-subnets.toml --json
  weir wire diff two-subnets.toml --exit-code || weir wire apply two-subnets.toml")]
    Diff {
        /// The wire's file; - for standard input
        file: PathBuf,
        /// Exit with 2 if there are steps; an error is 1
        #[arg(long)]
        exit_code: bool,
        /// Print the steps as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        cluster: ClusterOption,
        #[command(flatten)]
        demand: Box<DemandArgs>,
    },
    /// Shows wires
    Show(ShowArgs),
    /// Shows counters of a wire's VNICs, links and patches; the ends of a patch are WIRE/PATCH:a and
    /// WIRE/PATCH:b
    #[command(after_help = "Examples:
  weir wire stat
  weir wire stat two-subnets -i 1
  weir wire stat two-subnets -p -o name,drops,reasons
  weir wire stat --cluster edge -i 1")]
    Stat {
        /// The wire; default: all
        wire: Option<String>,
        #[command(flatten)]
        cluster: ClusterOption,
        #[command(flatten)]
        args: StatArgs,
    },
    /// Prints a wire as a file for ‘apply’, here or on another host
    Export {
        /// The wire
        wire: String,
        #[command(flatten)]
        cluster: ClusterOption,
    },
    /// Removes a wire and all its parts
    Delete {
        /// The wire
        wire: String,
        #[command(flatten)]
        cluster: ClusterOption,
    },
    /// Reads the Linux network of this machine and prints it as a wire's file
    Capture(CaptureArgs),
}

/// The exit code of `diff --exit-code` if there are steps.
const DIFFERS: i32 = 2;

/// `weir wire show`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  weir wire show
  weir wire show two-subnets --graph svg >two-subnets.svg
  weir wire show examples/wires/two-subnets.toml --graph dot")]
pub struct ShowArgs {
    /// The wire, or a wire's file; default: all wires
    pub wire: Option<String>,
    /// Draw it
    #[arg(long, value_name = "FORMAT", requires = "wire")]
    pub graph: Option<Graph>,
    #[command(flatten)]
    pub cluster: ClusterOption,
    #[command(flatten)]
    pub output: Output,
}

/// `--graph`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Graph {
    /// An SVG drawing
    Svg,
    /// Text for Graphviz
    Dot,
}

/// `weir wire capture`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  weir wire capture --prefix copy- >captured.toml
  weir wire capture --name office -n blue -n red >office.toml")]
pub struct CaptureArgs {
    /// The name of the wire
    #[arg(long, default_value = "captured")]
    pub name: String,
    /// A namespace to read, by its name or a process id, with the host's switches that it is
    /// connected to; default: all named namespaces, and this command's own
    #[arg(short, long = "namespace", value_name = "NAME")]
    pub namespaces: Vec<String>,
    /// Prefix of the namespaces' names, so that the copy can run beside the original
    #[arg(long, default_value = "")]
    pub prefix: String,
}

const COLUMNS: &[Column<Object<Wire>>] = &[
    Column::new("wire", |wire| wire.name.clone()),
    Column::new("switches", |wire| {
        (wire.spec.stubs.len() + wire.spec.links.len()).to_string()
    }),
    Column::new("vnics", |wire| wire.spec.vnics.len().to_string()),
    Column::new("namespaces", |wire| wire.spec.namespaces.len().to_string()),
    Column::new("guests", |wire| wire.spec.guests.len().to_string()),
    Column::extra("nsms", |wire| wire.spec.nsms.len().to_string()),
    Column::extra("apps", |wire| wire.spec.applications.len().to_string()),
    Column::new("states", |wire| {
        let state = |guest: &WireGuest| state(&guest.name, guest.state.as_ref());
        let guests = wire.status.guests.iter().map(state);
        let process = |it: &WireProcess| self::state(&it.name, it.state.as_ref());
        let nsms = wire.status.nsms.iter();
        let processes = nsms.chain(&wire.status.applications).map(process);
        guests.chain(processes).collect::<Vec<_>>().join(",")
    }),
    Column::new("description", |wire| wire.spec.description.clone()),
    Column::extra("changing", |wire| wire.status.changing.to_string()),
];

/// A part that can be down, with its state.
fn state(part: &str, state: Option<&impl Serialize>) -> String {
    format!("{part}={}", state.map_or("missing".into(), name))
}

/// Runs `weir wire`.
pub fn run(command: &WireCommand) -> Result {
    match command {
        WireCommand::Apply {
            file,
            json,
            cluster,
            demand,
        } => {
            let wire = read(file)?;
            if let Some(context) = cluster.context()? {
                return clustered::wire::apply(&context, &wire, demand, *json);
            }
            demand.refuse()?;
            let name = &wire.wire;
            let waiting = Waiting::new(
                &format!("wire ‘{name}’ is being applied"),
                format!(
                    "interrupted: the node brings wire ‘{name}’ to its end, as a whole or not at all; `weir wire show {name}` shows it"
                ),
            );
            let change = client().apply(&wire);
            drop(waiting);
            tell(&change?, *json)
        }
        WireCommand::Diff {
            file,
            exit_code,
            json,
            cluster,
            demand,
        } => {
            let wire = read(file)?;
            let change = match cluster.context()? {
                Some(context) => clustered::wire::compare(&context, &wire, demand)?,
                None => {
                    demand.refuse()?;
                    client().compare(&wire)?
                }
            };
            tell(&change, *json)?;
            if *exit_code && !change.steps.is_empty() {
                std::process::exit(DIFFERS);
            }
            Ok(())
        }
        WireCommand::Show(args) => show(args),
        WireCommand::Stat {
            wire,
            cluster,
            args,
        } => match cluster.context()? {
            Some(context) => {
                stat::show_all(|| clustered::wire::stats(&context, wire.as_deref()), args)
            }
            None => stat(wire.as_deref(), args),
        },
        WireCommand::Export { wire, cluster } => print(&spec(wire, cluster)?.to_text()),
        WireCommand::Delete { wire, cluster } => {
            if let Some(context) = cluster.context()? {
                return clustered::wire::delete(&context, wire);
            }
            let _waiting = Waiting::new(
                &format!("wire ‘{wire}’ is being removed"),
                format!(
                    "interrupted: the node brings this to its end; `weir wire show {wire}` shows whether the wire is still there"
                ),
            );
            client().delete::<Wire>(wire)
        }
        WireCommand::Capture(args) => captured(args),
    }
}

/// Reads a wire's file, and says all that is wrong with it at once.
fn read(file: &Path) -> Result<Wire> {
    let wire = Wire::read(file).map_err(Error::invalid)?;
    let mut errors = check::check(&wire).errors;
    // The node looks at the guests of which something changes, when all else is right.
    if !errors.is_empty() {
        errors.extend(wire.guests.iter().flat_map(wrong_with_guest));
    }
    if errors.is_empty() {
        return Ok(wire);
    }
    let called = match file.to_str() {
        Some("-") => "standard input".into(),
        _ => file.display().to_string(),
    };
    let of_file = |error: &String| format!("{called}: {error}");
    let errors: Vec<_> = errors.iter().map(of_file).collect();
    Err(Error::invalid(errors.join("\n")))
}

/// The errors of a guest's configurations.
fn wrong_with_guest((name, guest): (&String, &Guest)) -> Vec<String> {
    // Any address will do.
    let interfaces = guest.interfaces.keys();
    let interfaces: Vec<_> = interfaces
        .map(|it| (it.clone(), [2, 0, 0, 0, 0, 1]))
        .collect();
    let said = check_guest(guest, &interfaces, "VNIC", None);
    if said.errors() == 0 {
        return Vec::new();
    }
    let said = said.to_string();
    let lines = said.lines().map(|line| format!("guest ‘{name}’: {line}"));
    lines.collect()
}

/// Tells the steps of a change.
pub(super) fn tell(change: &WireChange, json: bool) -> Result {
    if json {
        let text = serde_json::to_string_pretty(change).map_err(Error::failed)?;
        return print(&(text + "\n"));
    }
    for warning in &change.warnings {
        eprintln!("warning: {warning}");
    }
    let steps = change.steps.iter().map(|step| format!("{step}\n"));
    print(&steps.collect::<String>())
}

/// A wire, as it was applied to the node, or over the hosts of a cluster.
fn spec(wire: &str, cluster: &ClusterOption) -> Result<Wire> {
    match cluster.context()? {
        Some(context) => clustered::wire::spec(&context, wire),
        None => Ok(client().show::<Wire>(wire)?.spec),
    }
}

fn show(args: &ShowArgs) -> Result {
    if let Some(context) = args.cluster.context()?
        && args.graph.is_none()
    {
        return clustered::wire::show(&context, args.wire.as_deref(), &args.output);
    }
    let Some(name) = &args.wire else {
        return args.output.show(&client().list::<Wire>()?, COLUMNS);
    };
    let is_file = name.ends_with(".toml");
    let wire = if is_file {
        let wire = read(Path::new(name))?;
        Object::new(wire.wire.clone(), wire)
    } else if args.graph.is_some() {
        Object::new(name, spec(name, &args.cluster)?)
    } else {
        client().show::<Wire>(name)?
    };
    match args.graph {
        Some(Graph::Svg) => print(&graph::svg(&wire.spec)),
        Some(Graph::Dot) => print(&graph::dot(&wire.spec)),
        None if args.output.json => {
            let text = serde_json::to_string_pretty(&wire.spec).map_err(Error::failed)?;
            print(&(text + "\n"))
        }
        None if is_file => print(&wire.spec.to_text()),
        None => args.output.show(&[wire], COLUMNS),
    }
}

fn stat(wire: Option<&str>, args: &StatArgs) -> Result {
    let client = client();
    let mut parts = BTreeSet::new();
    for Object { name, spec, .. } in client.some::<Wire>(wire)? {
        for patch in spec.patches.keys() {
            parts.extend(["a", "b"].map(|end| format!("{name}/{patch}:{end}")));
        }
        parts.extend(spec.vnics.into_keys());
        let nsms = spec.nsms.into_iter().filter(|(_, nsm)| nsm.link.is_some());
        parts.extend(nsms.map(|(name, _)| name));
        let links = spec.links.into_iter();
        parts.extend(links.flat_map(|(name, link)| [name, link.device]));
    }
    stat::show(&client, None, |stats| parts.contains(&stats.name), args)
}

/// Refuses names that no wire can have, before anything is looked at.
fn check_names(args: &CaptureArgs) -> Result {
    let mut named = Wire {
        wire: args.name.clone(),
        ..Wire::default()
    };
    if !args.prefix.is_empty() {
        let of_prefix = [(args.prefix.clone(), Default::default())];
        named.namespaces.extend(of_prefix);
    }
    let errors = check::check(&named).errors;
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Error::invalid(errors.join("\n")))
    }
}

fn captured(args: &CaptureArgs) -> Result {
    check_names(args)?;
    let seen = capture::read(&args.namespaces).map_err(Error::refused)?;
    let mut captured = capture::describe(&seen, &args.name, &args.prefix);
    if !args.namespaces.is_empty() {
        captured.keep_reached();
    }
    for note in &captured.notes {
        eprintln!("note: {note}");
    }
    for error in check::check(&captured.wire).errors {
        eprintln!("warning: {error}");
    }
    print(&captured.wire.to_text())
}
