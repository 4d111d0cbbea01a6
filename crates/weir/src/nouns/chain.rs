//! `weir chain`: functions in a row.

use std::path::Path;

use clap::{Args, Subcommand};
use node::chain::{PerFunction, fuse, stages};
use node::error::Error;
use node::model::{Chain, Guest, LINK_FORMS, Link, Memory, Wire};

use super::output::print;
use super::verb::Waiting;
use super::wire::tell;
use super::{Result, client};
use crate::run::cpus;
use crate::run::foreground::{IsolationArg, memory};

/// Puts functions in a row: a guest for each, with the switch between them, or one guest for all
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  weir chain create edge firewall nat44 --between lan eth1 -p firewall.rules=office.rules
  weir chain show edge firewall nat44 --between lan eth1 >edge.toml
  weir chain fuse firewall nat44 >edge.click
  weir wire delete edge")]
pub enum ChainCommand {
    /// Creates a chain, as a wire of its name
    #[command(
        after_help = "`weir wire show NAME` shows the chain, `weir wire delete NAME` removes it.

Examples:
  weir chain create edge firewall nat44 --between lan eth1 -p firewall.rules=office.rules
  weir chain create edge firewall nat44 --between tap:weir0 dev:eth1 --fuse
  weir chain create web ddos:outside balancer --between eth1 servers
  weir chain create metered monitor nat44 --between lan eth1 --link monitor.export=management"
    )]
    Create(CreateArgs),
    /// Prints a chain as a wire's file
    #[command(after_help = "Example:
  weir chain show edge firewall nat44 --between lan eth1 >edge.toml")]
    Show(ChainArgs),
    /// Prints a chain as one configuration
    #[command(after_help = "Examples:
  weir chain fuse firewall nat44 -p firewall.rules=office.rules >edge.click
  weir run edge.click --link inside=tap:weir0 --link outside=dev:eth1
  weir read edge firewall/rules.hits")]
    Fuse(FuseArgs),
}

/// The functions of a chain.
#[derive(Debug, Args)]
pub struct Functions {
    /// The functions, or files of configurations, in their order; FUNCTION:INTERFACE names the
    /// interface towards the first side, if it is not the function's first
    #[arg(required = true, value_name = "FUNCTION")]
    functions: Vec<String>,
    /// A value for a function's parameter; a second firewall is firewall2
    #[arg(short, long = "parameter", value_name = "FUNCTION.NAME=VALUE", value_parser = of_function)]
    parameters: Vec<OfFunction>,
}

/// `weir chain fuse`.
#[derive(Debug, Args)]
pub struct FuseArgs {
    #[command(flatten)]
    functions: Functions,
    /// A name from which the addresses of its inner interfaces follow
    #[arg(long, default_value = "chain")]
    name: String,
}

/// A chain.
#[derive(Debug, Args)]
pub struct ChainArgs {
    /// The chain's name
    name: String,
    #[command(flatten)]
    functions: Functions,
    /// The stubs or links at its sides; KIND:NAME makes a link
    #[arg(long, num_args = 1..=2, value_name = "SWITCH")]
    between: Vec<String>,
    /// The stub or link of an interface besides the two sides
    #[arg(short, long = "link", value_name = "FUNCTION.INTERFACE=LINK", value_parser = of_function)]
    links: Vec<OfFunction>,
    /// Run all functions in one guest
    #[arg(long)]
    fuse: bool,
    /// The wall around each guest
    #[arg(long, value_enum, default_value_t = IsolationArg::Auto)]
    isolation: IsolationArg,
    /// Private memory of each guest, as in 4M or 2048K
    #[arg(long, value_parser = memory, value_name = "SIZE")]
    memory: Option<u64>,
    /// Slots of each ring, a power of two from 64 to 2048
    #[arg(long, value_name = "N")]
    ring_slots: Option<u32>,
    /// Number of vCPUs of each guest
    #[arg(long, value_parser = cpus::count, value_name = "N")]
    cpus: Option<usize>,
}

/// `weir chain create`.
#[derive(Debug, Args)]
pub struct CreateArgs {
    #[command(flatten)]
    chain: ChainArgs,
    /// Print the steps as JSON
    #[arg(long)]
    json: bool,
}

/// `FUNCTION.NAME=VALUE`.
#[derive(Clone, Debug)]
struct OfFunction {
    function: String,
    name: String,
    value: String,
}

fn of_function(text: &str) -> Result<OfFunction, String> {
    let parts = text.split_once('=').and_then(|(name, value)| {
        let (function, name) = name.split_once('.')?;
        Some((function, name, value))
    });
    let (function, name, value) = parts.ok_or_else(|| {
        format!("‘{text}’ is not FUNCTION.NAME=VALUE, as in nat44.gateway=10.0.0.1")
    })?;
    Ok(OfFunction {
        function: function.into(),
        name: name.into(),
        value: value.into(),
    })
}

/// Values by function and name, each once.
fn by_function(values: &[OfFunction]) -> Result<PerFunction> {
    let mut all = PerFunction::new();
    for OfFunction {
        function,
        name,
        value,
    } in values
    {
        let of = all.entry(function.clone()).or_default();
        if of.insert(name.clone(), value.clone()).is_some() {
            return Err(Error::invalid(format_args!(
                "‘{function}.{name}’ is given twice"
            )));
        }
    }
    Ok(all)
}

/// Runs `weir chain`.
pub fn run(command: &ChainCommand) -> Result {
    match command {
        ChainCommand::Create(args) => create(args),
        ChainCommand::Show(args) => print(&wire(args)?.to_text()),
        ChainCommand::Fuse(FuseArgs { functions, name }) => {
            let parameters = by_function(&functions.parameters)?;
            let stages = stages(&functions.functions, &parameters, Path::new(""), 1);
            let fused = stages.and_then(|stages| fuse(name, stages));
            print(&fused.map_err(Error::invalid)?)
        }
    }
}

/// The wire that a chain is: its parts, with configurations by their names.
fn wire(args: &ChainArgs) -> Result<Wire> {
    let mut wire = Wire {
        wire: args.name.clone(),
        description: format!("A chain: {}", args.functions.functions.join(", ")),
        ..Wire::default()
    };
    let ends: Result<Vec<_>> = args
        .between
        .iter()
        .map(|end| add_end(&mut wire, end))
        .collect();
    let mut links = by_function(&args.links)?;
    for link in links.values_mut().flat_map(|links| links.values_mut()) {
        *link = add_end(&mut wire, link)?;
    }
    let chain = Chain {
        functions: args.functions.functions.clone(),
        between: ends?,
        fuse: args.fuse,
        parameters: by_function(&args.functions.parameters)?,
        interfaces: links,
        guest: Guest {
            isolation: args.isolation.into(),
            memory: args.memory.map(Memory),
            ring_slots: args.ring_slots,
            cpus: args.cpus,
            ..Guest::default()
        },
    };
    wire.chains.insert(args.name.clone(), chain);
    let expanded = wire.expand_chains(Path::new(""));
    expanded.map_err(|(_, why)| Error::invalid(why))?;
    Ok(wire)
}

/// Adds what a side stands on to a wire: a stub or link of the node, or a link of its own. The
/// name of it there.
fn add_end(wire: &mut Wire, end: &str) -> Result<String> {
    if !end.contains(':') {
        wire.existing.insert(end.into());
        return Ok(end.into());
    }
    let link = Link::parse(end).ok_or_else(|| {
        Error::invalid(format_args!(
            "‘{end}’ is no link: write the name of a stub or link, or {LINK_FORMS}"
        ))
    })?;
    let name = match link.interface() {
        Some(interface) => interface.to_string(),
        None => format!("{}-{}", wire.wire, wire.links.len() + 1),
    };
    wire.links.insert(name.clone(), link);
    Ok(name)
}

fn create(args: &CreateArgs) -> Result {
    let name = &args.chain.name;
    let wire = wire(&args.chain)?.read_files(Path::new(""));
    let wire = wire.map_err(Error::invalid)?;
    let client = client();
    if client
        .list::<Wire>()?
        .iter()
        .any(|there| there.name == *name)
    {
        return Err(Error::invalid(format_args!(
            "there is a wire ‘{name}’ already: `weir wire delete {name}` first"
        )));
    }
    let waiting = Waiting::new(
        &format!("chain ‘{name}’ is being created"),
        format!(
            "interrupted: the node creates chain ‘{name}’ as a whole or not at all; `weir wire show {name}` shows it"
        ),
    );
    let change = client.apply(&wire);
    drop(waiting);
    tell(&change?, args.json)
}
