//! `weir wire`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use node::error::Error;
use node::model::{WireChange, WireGuest, WireView};
use node::wire::file::Wire;
use node::wire::{capture, check, graph};

use super::output::{Column, Output, name, print};
use super::stat::{self, StatArgs};
use super::{Result, client};

/// Makes whole networks from files, and files from networks
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  weir wire apply examples/wires/two-subnets.toml
  weir wire diff two-subnets.toml
  weir wire show two-subnets --graph svg >two-subnets.svg
  weir wire export two-subnets >two-subnets.toml
  weir wire capture --prefix copy- >captured.toml
  weir wire delete two-subnets")]
pub enum WireCommand {
    /// Makes a wire what its file says: all of it, or nothing is changed
    Apply {
        /// The wire's file
        file: PathBuf,
        /// Print what was done as JSON
        #[arg(long)]
        json: bool,
    },
    /// Shows what ‘apply’ would do
    #[command(after_help = "Examples:
  weir wire diff two-subnets.toml
  weir wire diff two-subnets.toml --json")]
    Diff {
        /// The wire's file
        file: PathBuf,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Shows wires
    Show(ShowArgs),
    /// Shows counters of a wire's parts: its VNICs, its links' interfaces, and its patches, whose ends
    /// are called WIRE/PATCH:a and b
    #[command(after_help = "Examples:
  weir wire stat
  weir wire stat two-subnets -i 1
  weir wire stat two-subnets -p -o name,drops,reasons")]
    Stat {
        /// The wire; none: all wires
        wire: Option<String>,
        #[command(flatten)]
        args: StatArgs,
    },
    /// Prints a wire as a file that ‘apply’ takes, here or on another host
    Export {
        /// The wire
        wire: String,
    },
    /// Removes a wire and all that belongs to it
    Delete {
        /// The wire
        wire: String,
    },
    /// Reads the Linux network of this machine and prints it as a wire's file
    Capture(CaptureArgs),
}

/// `weir wire show`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  weir wire show
  weir wire show two-subnets --graph svg >two-subnets.svg
  weir wire show examples/wires/two-subnets.toml --graph dot")]
pub struct ShowArgs {
    /// One wire, or a wire's file; none: all wires
    pub wire: Option<String>,
    /// Draw it
    #[arg(long, value_name = "FORMAT", requires = "wire")]
    pub graph: Option<Graph>,
    #[command(flatten)]
    pub output: Output,
}

/// `--graph`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Graph {
    /// A drawing
    Svg,
    /// A text for Graphviz
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
    /// A namespace to look at, by its name or the number of a process in it, with the switches
    /// of the host that it is on; none: all that have names, and this command's own
    #[arg(short, long = "namespace", value_name = "NAME")]
    pub namespaces: Vec<String>,
    /// What is put in front of the namespaces' names, so that the copy can stand beside the
    /// original
    #[arg(long, default_value = "")]
    pub prefix: String,
}

const COLUMNS: &[Column<WireView>] = &[
    Column::new("wire", |wire| wire.name.clone()),
    Column::new("switches", |wire| wire.switches.to_string()),
    Column::new("vnics", |wire| wire.vnics.to_string()),
    Column::new("namespaces", |wire| wire.namespaces.to_string()),
    Column::new("guests", |wire| wire.guests.to_string()),
    Column::new("states", |wire| {
        let state = |guest: &WireGuest| {
            let state = guest.state.as_ref().map_or("missing".into(), name);
            format!("{}={state}", guest.name)
        };
        wire.states.iter().map(state).collect::<Vec<_>>().join(",")
    }),
    Column::new("description", |wire| wire.description.clone()),
    Column::extra("changing", |wire| wire.changing.to_string()),
];

/// Runs `weir wire`.
pub fn run(command: &WireCommand) -> Result {
    match command {
        WireCommand::Apply { file, json } => {
            let wire = read(file)?;
            let change: WireChange = client().put(&["wires", &wire.wire], &wire)?;
            tell(&change, *json)
        }
        WireCommand::Diff { file, json } => {
            let wire = read(file)?;
            let change = client().post(&["wires", &wire.wire, "diff"], &wire)?;
            tell(&change, *json)
        }
        WireCommand::Show(args) => show(args),
        WireCommand::Stat { wire, args } => stat(wire.as_deref(), args),
        WireCommand::Export { wire } => {
            let wire: Wire = client().get(&["wires", wire])?;
            print(&wire.to_text())
        }
        WireCommand::Delete { wire } => client().delete(&["wires", wire]),
        WireCommand::Capture(args) => captured(args),
    }
}

/// Reads a wire's file, and says all that is wrong with it at once.
fn read(file: &Path) -> Result<Wire> {
    let wire = Wire::read(file).map_err(Error::invalid)?;
    let errors = check::check(&wire).errors;
    if errors.is_empty() {
        return Ok(wire);
    }
    let of_file = |error: &String| format!("{}: {error}", file.display());
    let errors: Vec<_> = errors.iter().map(of_file).collect();
    Err(Error::invalid(errors.join("\n")))
}

fn tell(change: &WireChange, json: bool) -> Result {
    if json {
        let text = serde_json::to_string_pretty(change).map_err(Error::failed)?;
        return print(&(text + "\n"));
    }
    for warning in &change.warnings {
        eprintln!("warning: {warning}");
    }
    let missing = change
        .missing
        .iter()
        .map(|part| format!("+ {part}, which was missing\n"));
    let altered = change
        .altered
        .iter()
        .map(|part| format!("~ {part}, which was changed by hand, is set again\n"));
    let ended = change
        .ended
        .iter()
        .map(|guest| format!("~ {guest}, which had ended, is started anew\n"));
    let differences = change.differences.iter().map(|line| format!("{line}\n"));
    print(
        &missing
            .chain(altered)
            .chain(ended)
            .chain(differences)
            .collect::<String>(),
    )
}

fn show(args: &ShowArgs) -> Result {
    let Some(name) = &args.wire else {
        let wires: Vec<WireView> = client().get(&["wires"])?;
        return args.output.show(&wires, COLUMNS);
    };
    let wire = match name.ends_with(".toml") {
        true => read(Path::new(name))?,
        false => client().get::<Wire>(&["wires", name])?,
    };
    match args.graph {
        Some(Graph::Svg) => print(&graph::svg(&wire)),
        Some(Graph::Dot) => print(&graph::dot(&wire)),
        None if args.output.json => {
            let text = serde_json::to_string_pretty(&wire).map_err(Error::failed)?;
            print(&(text + "\n"))
        }
        None if name.ends_with(".toml") => print(&wire.to_text()),
        None => {
            let wires: Vec<WireView> = client().get(&["wires"])?;
            let wires: Vec<_> = wires
                .into_iter()
                .filter(|wire| wire.name == *name)
                .collect();
            args.output.show(&wires, COLUMNS)
        }
    }
}

fn stat(wire: Option<&str>, args: &StatArgs) -> Result {
    let client = client();
    let names = match wire {
        Some(wire) => vec![wire.to_string()],
        None => {
            let wires: Vec<WireView> = client.get(&["wires"])?;
            wires.into_iter().map(|wire| wire.name).collect()
        }
    };
    let mut parts = BTreeSet::new();
    for name in names {
        let wire: Wire = client.get(&["wires", &name])?;
        for patch in wire.patches.keys() {
            parts.extend(["a", "b"].map(|end| format!("{name}/{patch}:{end}")));
        }
        parts.extend(wire.vnics.into_keys());
        let links = wire.links.into_iter();
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
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Error::invalid(errors.join("\n"))),
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
