//! `weir switch`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};
use node::error::Error;
use node::log;
use node::model::{Address, Entry, EntryStatus, Object, SwitchFunction};
use serde_json::{Map, Value, json};
use switch::properties::DomainProperties;

use super::output::{Column, Output, made, maybe, name};
use super::{Result, client, set};

/// Shows and sets the lookup function, limits and entries of a link's switch
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  weir switch show
  weir switch set lan --aging 60 --mac-limit 100
  weir switch set lan --lookup flow-table --default drop
  weir switch add-flow lan \
    tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_src=1024,tp_dst=80,actions=output:web0
  weir switch flows lan
  weir switch macs lan
  weir switch flush lan")]
pub enum SwitchCommand {
    /// Shows the settings of switches
    Show {
        /// The link; default: all
        link: Option<String>,
        /// Show the addresses that this link's switch knows
        #[arg(long, requires = "link")]
        macs: bool,
        #[command(flatten)]
        output: Output,
    },
    /// Shows the addresses that a link's switch knows
    Macs {
        /// The link
        link: String,
        #[command(flatten)]
        output: Output,
    },
    /// Removes the addresses that a link's switch learned
    Flush {
        /// The link
        link: String,
    },
    /// Changes the settings of a link's switch
    Set(SetArgs),
    /// Shows the entries of a link's flow table; a learned entry has an age
    #[command(alias = "dump-flows")]
    Flows {
        /// The link
        link: String,
        #[command(flatten)]
        output: Output,
    },
    /// Adds a flow table entry: a flow, and the VNIC or link that it goes to
    #[command(after_help = FLOW_HELP)]
    AddFlow {
        /// The link; its lookup function is flow-table
        link: String,
        /// The flow, with actions=output:VNIC
        flow: String,
        /// Print the entry as JSON
        #[arg(long)]
        json: bool,
    },
    /// Removes a flow's entry
    #[command(alias = "del-flow", alias = "del-flows", after_help = FLOW_HELP)]
    RemoveFlow {
        /// The link
        link: String,
        /// The flow
        flow: String,
    },
}

const FLOW_HELP: &str = "A flow is one direction of one connection, in ovs-ofctl's words: a protocol (tcp, udp, sctp, icmp,
icmp6 or nw_proto=NUMBER), nw_src and nw_dst, and tp_src and tp_dst if the protocol has ports. The
switch learns the other direction from it.

Examples:
  weir switch add-flow lan \\
    tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_src=1024,tp_dst=80,actions=output:web0
  weir switch add-flow lan icmp6,ipv6_src=fd00::1,ipv6_dst=fd00::2,actions=output:web0
  weir switch remove-flow lan icmp6,ipv6_src=fd00::1,ipv6_dst=fd00::2";

/// `weir switch set`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true).multiple(true)
    .args(["lookup", "aging", "mac_limit", "speed", "default", "reset"]))]
#[command(after_help = "Examples:
  weir switch set lan --lookup hash
  weir switch set lan --lookup click --config balance.click
  weir switch set lan --speed 100M
  weir switch set lan --reset speed")]
pub struct SetArgs {
    /// The link
    pub link: String,
    /// Lookup function: learning, hash, flow-table or click
    #[arg(long)]
    pub lookup: Option<String>,
    /// With --lookup click, the Click configuration
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Seconds after which an unused address is removed
    #[arg(long, value_name = "SECONDS")]
    pub aging: Option<String>,
    /// Highest number of addresses learned for one port
    #[arg(long, value_name = "N")]
    pub mac_limit: Option<String>,
    /// Highest rate of each port without a maxbw of its own
    #[arg(long, value_name = "RATE")]
    pub speed: Option<String>,
    /// With a flow table, the action without an entry: normal (by addresses), drop, output:VNIC
    #[arg(long, value_name = "ACTION")]
    pub default: Option<String>,
    /// Properties to reset to their defaults, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "PROPERTY")]
    pub reset: Vec<String>,
    /// Print the settings as JSON
    #[arg(long)]
    pub json: bool,
}

impl SetArgs {
    fn patch(&self) -> Result<Value> {
        let click = self.lookup.as_deref() == Some("click");
        let config = match (&self.config, click) {
            (Some(path), true) => Some(
                std::fs::read_to_string(path)
                    .map_err(|error| Error::invalid(format_args!("{}: {error}", path.display())))?,
            ),
            (None, true) => {
                return Err(Error::invalid(
                    "--lookup click needs --config FILE: the Click configuration",
                ));
            }
            (Some(_), false) => {
                return Err(Error::invalid("--config is for --lookup click only"));
            }
            (None, false) => None,
        };
        let lookup = self.lookup.as_ref().filter(|_| !click);
        let given = [
            ("lookup", lookup),
            ("aging", self.aging.as_ref()),
            ("mac-limit", self.mac_limit.as_ref()),
            ("speed", self.speed.as_ref()),
        ];
        let given = given.iter().filter_map(|(name, value)| {
            let value = value.as_ref()?;
            Some(format!("{name}={value}"))
        });
        let given: Vec<_> = given.collect();
        let mut patch = Map::new();
        for name in &self.reset {
            if name != "default" {
                DomainProperties::default().reset(name)?;
            }
            patch.insert(name.clone(), Value::Null);
        }
        if !given.is_empty() {
            let set = set::<DomainProperties>(&given)?;
            patch.extend(set.as_object().cloned().unwrap_or_default());
        }
        if let Some(config) = config {
            patch.insert("lookup".into(), json!({ "click": { "config": config } }));
            patch.insert("file".into(), json!(self.config));
        }
        if let Some(default) = &self.default {
            patch.insert("default".into(), json!(default));
        }
        Ok(Value::Object(patch))
    }
}

const COLUMNS: &[Column<Object<SwitchFunction>>] = &[
    Column::new("link", |s| s.name.clone()),
    Column::new("lookup", |s| s.spec.lookup.to_string()),
    Column::new("aging", |s| s.spec.aging.to_string()),
    Column::new("mac-limit", |s| s.spec.mac_limit.to_string()),
    Column::new("speed", |s| maybe(s.spec.speed.as_ref())),
    Column::new("default", |s| maybe(s.spec.default.as_ref())),
];

const ADDRESSES: &[Column<Address>] = &[
    Column::new("mac", |a| a.mac.to_string()),
    Column::new("vlan", |a| a.vlan.to_string()),
    Column::new("port", |a| a.port.clone()),
    Column::new("age", |a| maybe(a.age.as_ref())),
];

const FLOWS: &[Column<Entry>] = &[
    Column::new("flow", |f| f.flow.clone()),
    Column::new("port", |f| f.port.clone()),
    Column::new("age", |f| maybe(f.status.age.as_ref())),
    Column::extra("state", |f| name(&f.status.state)),
];

/// An entry as it is written: the flow, and among its fields where it goes.
fn entry(text: &str) -> Result<Entry> {
    let fields = text.split(',').map(str::trim);
    let (actions, flow): (Vec<_>, Vec<_>) = fields.partition(|field| field.starts_with("actions="));
    let port = match actions.as_slice() {
        [action] => action.strip_prefix("actions=output:"),
        _ => None,
    };
    let port = port
        .filter(|port| !port.is_empty())
        .ok_or_else(|| Error::invalid("an entry has one action: …,actions=output:VNIC"))?;
    Ok(Entry {
        flow: flow.join(","),
        port: port.into(),
        status: EntryStatus::default(),
    })
}

/// Runs `weir switch`.
pub fn run(command: &SwitchCommand) -> Result {
    let client = client();
    match command {
        SwitchCommand::Show {
            link: Some(link),
            macs: true,
            output,
        }
        | SwitchCommand::Macs { link, output } => output.show(&client.macs(link)?, ADDRESSES),
        SwitchCommand::Show { link, output, .. } => {
            output.show(&client.some(link.as_deref())?, COLUMNS)
        }
        SwitchCommand::Flush { link } => client.flush(link),
        SwitchCommand::Flows { link, output } => output.show(&client.entries(link)?, FLOWS),
        SwitchCommand::AddFlow { link, flow, json } => {
            made(*json, &client.add_entry(link, &entry(flow)?)?)
        }
        SwitchCommand::RemoveFlow { link, flow } => client.remove_entry(link, flow),
        SwitchCommand::Set(args) => {
            let set = client.patch::<SwitchFunction>(&args.link, &args.patch()?)?;
            if !set.status.missing.is_empty() {
                log::say(format_args!(
                    "warning: ‘{}’ has no port named {}: frames to it are dropped until there is one",
                    set.name,
                    set.status.missing.join(", ")
                ));
            }
            made(args.json, &set)
        }
    }
}
