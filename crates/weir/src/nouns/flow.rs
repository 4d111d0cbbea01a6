//! `weir flow`.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use node::client::Client;
use node::error::{Error, Kind};
use node::model::{Flow, Object, Selection, SettledFlow, SwitchFunction, Vnic};
use switch::properties::{FlowAttributes, FlowProperties};

use super::output::{Column, Output, made, maybe, name};
use super::stat::{self, StatArgs};
use super::{Result, client, properties};

/// Manages flows: parts of a link's or VNIC's traffic with a limit or a priority
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  weir flow add -l web -a transport=tcp,local_port=80 -p maxbw=50M http
  weir flow add -l eth1 -a remote_ip=10.0.0.0/8 -p priority=low bulk
  weir flow show
  weir flow stat -i 1
  weir flow remove http")]
pub enum FlowCommand {
    /// Adds a flow
    Add(AddArgs),
    /// Removes a flow
    Remove {
        /// The flow's name
        flow: String,
    },
    /// Shows flows
    #[command(after_help = "Examples:
  weir flow show
  weir flow show -l web -p -o flow,attributes,properties
  weir flow show --settled
  weir flow show --json http")]
    Show {
        /// The flow; default: all
        flow: Option<String>,
        /// Show only the flows on this link or VNIC
        #[arg(short, long)]
        link: Option<String>,
        /// Show the flows of connections that guests have settled, whose packets the kernel passes on
        #[arg(long, conflicts_with = "flow")]
        settled: bool,
        #[command(flatten)]
        output: Output,
    },
    /// Shows counters of flows
    #[command(after_help = "Examples:
  weir flow stat
  weir flow stat -i 1 -c 10 http
  weir flow stat -p -o flow,bytes,dropped")]
    Stat {
        /// The flow; default: all
        flow: Option<String>,
        #[command(flatten)]
        args: StatArgs,
    },
}

/// `weir flow add`.
#[derive(Debug, Args)]
#[command(
    after_help = format!("Attributes:
{}
Properties:
{}
Examples:
  weir flow add -l web -a transport=tcp,local_port=80 -p maxbw=50M http
  weir flow add -l web -a dsfield=0xb8:0xfc -p priority=high voice",
    FlowAttributes::help(), FlowProperties::help())
)]
pub struct AddArgs {
    /// The link or VNIC
    #[arg(short, long)]
    pub link: String,
    /// ATTRIBUTE=VALUE, separated by commas: they select the flow's frames
    #[arg(short, long = "attr", required = true, value_name = "ATTRIBUTES")]
    pub attributes: Vec<String>,
    /// PROPERTY=VALUE, separated by commas
    #[arg(short, long = "prop", value_name = "PROPERTIES", value_parser = NonEmptyStringValueParser::new())]
    pub properties: Vec<String>,
    /// The flow's name
    pub flow: String,
    /// Print the flow as JSON
    #[arg(long)]
    pub json: bool,
}

const COLUMNS: &[Column<Object<Flow>>] = &[
    Column::new("flow", |f| f.name.clone()),
    Column::new("link", |f| f.spec.link.clone()),
    Column::new("state", |f| name(&f.status.state)),
    Column::new("attributes", |f| f.spec.attributes.to_string()),
    Column::new("properties", |f| f.spec.properties.to_string()),
    Column::extra("reason", |f| maybe(f.status.reason.as_ref())),
];

const SETTLED: &[Column<SettledFlow>] = &[
    Column::new("vnic", |f| f.vnic.clone()),
    Column::new("to-vnic", |f| f.to_vnic.clone()),
    Column::new("transport", |f| f.transport.clone()),
    Column::new("source", |f| f.source.clone()),
    Column::new("destination", |f| f.destination.clone()),
    Column::new("becomes", |f| {
        let came = (&f.source, &f.destination);
        match (&f.to_source, &f.to_destination) {
            leaves if leaves == came => "-".into(),
            (source, destination) => format!("{source} {destination}"),
        }
    }),
    Column::new("packets", |f| f.packets.to_string()),
    Column::new("bytes", |f| f.bytes.to_string()),
    Column::new("idle-ms", |f| f.idle_ms.to_string()),
    Column::new("reason", |f| maybe(f.reason.as_ref())),
    Column::extra("link", |f| maybe(f.link.as_ref())),
    Column::extra("to-link", |f| maybe(f.to_link.as_ref())),
];

/// Whether there is a link or VNIC of that name.
fn check_there(client: &Client, name: &str) -> Result {
    let missing = |error: &Error| error.kind == Kind::NotFound;
    match client.show::<SwitchFunction>(name) {
        Err(error) if missing(&error) => {}
        found => return found.map(drop),
    }
    match client.show::<Vnic>(name) {
        Err(error) if missing(&error) => Err(Error::not_found(format_args!(
            "no link or VNIC ‘{name}’: `weir link show` and `weir vnic show` list them"
        ))),
        found => found.map(drop),
    }
}

/// Runs `weir flow`.
pub fn run(command: &FlowCommand) -> Result {
    let client = client();
    match command {
        FlowCommand::Add(args) => {
            let flow = Flow {
                link: args.link.clone(),
                attributes: properties(&args.attributes, None)?,
                properties: properties(&args.properties, None)?,
            };
            made(args.json, &client.create(&Object::new(&args.flow, flow))?)
        }
        FlowCommand::Remove { flow } => client.delete::<Flow>(flow),
        FlowCommand::Show {
            link,
            settled: true,
            output,
            ..
        } => {
            if let Some(link) = link {
                check_there(&client, link)?;
            }
            let mut flows = client.settled_flows(&Selection::default())?;
            flows.retain(|flow| {
                let of = [
                    Some(&flow.vnic),
                    Some(&flow.to_vnic),
                    flow.link.as_ref(),
                    flow.to_link.as_ref(),
                ];
                link.as_ref().is_none_or(|link| of.contains(&Some(link)))
            });
            output.show(&flows, SETTLED)
        }
        FlowCommand::Show {
            flow, link, output, ..
        } => {
            if let Some(link) = link {
                check_there(&client, link)?;
            }
            let mut flows = client.some::<Flow>(flow.as_deref())?;
            flows.retain(|flow| link.as_ref().is_none_or(|link| flow.spec.link == *link));
            output.show(&flows, COLUMNS)
        }
        FlowCommand::Stat { flow, args } => stat::show_flows(&client, flow.as_deref(), args),
    }
}
