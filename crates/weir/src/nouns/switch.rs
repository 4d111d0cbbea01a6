//! `weir switch`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use node::error::Error;
use node::model::{Address, SwitchChange, SwitchView};

use super::output::{Column, Output, made, maybe};
use super::{Result, client};

/// Shows and changes how the switch of a link works
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  weir switch show
  weir switch set lan --aging 60 --mac-limit 100
  weir switch macs lan
  weir switch flush lan")]
pub enum SwitchCommand {
    /// Shows how switches work
    Show {
        /// One link's; none: all
        link: Option<String>,
        /// Show the addresses that it knows
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
    /// Has a link's switch forget the addresses that it learned
    Flush {
        /// The link
        link: String,
    },
    /// Changes how a link's switch works
    Set(SetArgs),
}

/// `weir switch set`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  weir switch set lan --lookup hash
  weir switch set lan --lookup click --config balance.click
  weir switch set lan --speed 100M
  weir switch set lan --reset speed")]
pub struct SetArgs {
    /// The link
    pub link: String,
    /// What says where a frame goes: learning, hash, flow-table or click
    #[arg(long)]
    pub lookup: Option<String>,
    /// With --lookup click, the Click configuration
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Seconds after which an address that was not seen again is forgotten
    #[arg(long, value_name = "SECONDS")]
    pub aging: Option<String>,
    /// Most addresses that are learned behind one port
    #[arg(long, value_name = "N")]
    pub mac_limit: Option<String>,
    /// Highest rate of each port without a maxbw of its own
    #[arg(long, value_name = "RATE")]
    pub speed: Option<String>,
    /// Properties that are to be as if they had never been set, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "PROPERTY")]
    pub reset: Vec<String>,
    /// Print how it works then as JSON
    #[arg(long)]
    pub json: bool,
}

impl SetArgs {
    fn change(&self) -> Result<SwitchChange> {
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
        let set = given.iter().filter_map(|(name, value)| {
            let value = value.as_ref()?;
            Some(format!("{name}={value}"))
        });
        Ok(SwitchChange {
            set: set.collect::<Vec<_>>().join(","),
            reset: self.reset.clone(),
            click: config,
        })
    }
}

const COLUMNS: &[Column<SwitchView>] = &[
    Column::new("link", |s| s.link.clone()),
    Column::new("lookup", |s| s.properties.lookup.to_string()),
    Column::new("aging", |s| s.properties.aging.to_string()),
    Column::new("mac-limit", |s| s.properties.mac_limit.to_string()),
    Column::new("speed", |s| maybe(s.properties.speed.as_ref())),
];

const ADDRESSES: &[Column<Address>] = &[
    Column::new("mac", |a| a.mac.to_string()),
    Column::new("vlan", |a| a.vlan.to_string()),
    Column::new("port", |a| a.port.clone()),
    Column::new("age", |a| maybe(a.age.as_ref())),
];

/// Runs `weir switch`.
pub fn run(command: &SwitchCommand) -> Result {
    let client = client();
    match command {
        SwitchCommand::Show {
            link: Some(link),
            macs: true,
            output,
        }
        | SwitchCommand::Macs { link, output } => {
            let addresses: Vec<Address> = client.get(&["switches", link, "macs"])?;
            output.show(&addresses, ADDRESSES)
        }
        SwitchCommand::Show { link, output, .. } => {
            let switches: Vec<SwitchView> = match link {
                Some(link) => vec![client.get(&["switches", link])?],
                None => client.get(&["switches"])?,
            };
            output.show(&switches, COLUMNS)
        }
        SwitchCommand::Flush { link } => client.post(&["switches", link, "flush"], &()),
        SwitchCommand::Set(args) => {
            let set: SwitchView = client.patch(&["switches", &args.link], &args.change()?)?;
            made(args.json, &set)
        }
    }
}
