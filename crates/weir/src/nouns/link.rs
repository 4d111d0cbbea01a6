//! `weir link`.

use std::net::IpAddr;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand, ValueEnum};
use node::model::{LinkMode, LinkView, NewLink, PropertyChange, Tunnel};

use super::output::{Column, Output, made, maybe, name};
use super::stat::{self, StatArgs};
use super::{Result, client, joined};

/// Shows and attaches links: the host's interfaces, and stubs
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  weir link attach eth1
  weir link show
  weir link stat -i 1
  weir link stat --lanes
  weir link stat eth1 --lanes
  weir link show -p -o link,state
  weir link detach eth1")]
pub enum LinkCommand {
    /// Shows links
    #[command(after_help = "Examples:
  weir link show
  weir link show -p -o link,state
  weir link show --json eth1")]
    Show {
        /// One link; none: all
        link: Option<String>,
        #[command(flatten)]
        output: Output,
    },
    /// Shows counters of attached interfaces, or of the switch's lanes
    #[command(after_help = "Examples:
  weir link stat
  weir link stat -i 1 -c 10 eth1
  weir link stat --lanes
  weir link stat eth1 --lanes -o all")]
    Stat {
        /// One interface; none: all
        link: Option<String>,
        /// Show what each lane of the switch did; with an interface, what of that
        #[arg(long)]
        lanes: bool,
        #[command(flatten)]
        args: StatArgs,
    },
    /// Attaches an interface of the host, which is the switch's from then on
    Attach(AttachArgs),
    /// Changes properties of an interface's port; they hold from the next frame on
    SetProp {
        /// PROPERTY=VALUE, separated by commas; several values of cpus, protection and allowed-ips
        /// are joined by ‘+’
        #[arg(short, long = "prop", required = true, value_name = "PROPERTIES", value_parser = NonEmptyStringValueParser::new())]
        properties: Vec<String>,
        /// The interface
        link: String,
        /// Print what it is then as JSON
        #[arg(long)]
        json: bool,
    },
    /// Sets properties back to what they are when they are not given
    ResetProp {
        /// Names, separated by commas
        #[arg(
            short,
            long = "prop",
            required = true,
            value_delimiter = ',',
            value_name = "PROPERTIES"
        )]
        properties: Vec<String>,
        /// The interface
        link: String,
        /// Print what it is then as JSON
        #[arg(long)]
        json: bool,
    },
    /// Detaches an interface, which is as it was before
    Detach {
        /// The interface
        link: String,
    },
}

/// `weir link attach`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  weir link attach eth1
  weir link attach eth1 --mode packet -p maxbw=1G
  weir link attach eth1 --lanes 2
  weir link attach weir0 --mode tap
  weir link attach overlay --mode vxlan --vni 42 --remote 192.0.2.2,192.0.2.3")]
pub struct AttachArgs {
    /// The interface; with --mode tap, the one to be made; with --mode vxlan, a name
    pub link: String,
    /// How; none: the best that the interface can
    #[arg(long, value_enum)]
    pub mode: Option<Mode>,
    /// With --mode vxlan, the network's number
    #[arg(long, value_name = "N", requires = "remotes")]
    pub vni: Option<u32>,
    /// With --mode vxlan, the other hosts' addresses, separated by commas
    #[arg(
        long = "remote",
        value_delimiter = ',',
        value_name = "ADDRESS",
        requires = "vni"
    )]
    pub remotes: Vec<IpAddr>,
    /// With --mode vxlan, this host's address; none: any
    #[arg(long, value_name = "ADDRESS", requires = "vni")]
    pub local: Option<IpAddr>,
    /// With --mode vxlan, the UDP port, here and there; none: 4789
    #[arg(long, value_name = "PORT", requires = "vni", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// Read it on N lanes of the switch: its queues, or its flows shared out where it has fewer.
    /// The same as -p lanes=N; `weir node --lanes` says how many there are
    #[arg(long, value_name = "N")]
    pub lanes: Option<u16>,
    /// PROPERTY=VALUE of the interface's port, separated by commas; several values of cpus,
    /// protection and allowed-ips are joined by ‘+’
    #[arg(short, long = "prop", value_name = "PROPERTIES")]
    pub properties: Vec<String>,
    /// Print what was attached as JSON
    #[arg(long)]
    pub json: bool,
}

impl AttachArgs {
    fn tunnel(&self) -> Option<Tunnel> {
        Some(Tunnel {
            vni: self.vni?,
            remotes: self.remotes.clone(),
            local: self.local,
            port: self.port,
        })
    }

    fn properties(&self) -> String {
        let lanes = self.lanes.iter().map(|lanes| format!("lanes={lanes}"));
        let all: Vec<_> = self.properties.iter().cloned().chain(lanes).collect();
        joined(&all)
    }
}

/// `--mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// By AF_XDP sockets
    Xdp,
    /// By AF_PACKET sockets
    Packet,
    /// A TAP device, made for it
    Tap,
    /// Other hosts by VXLAN, instead of an interface
    Vxlan,
}

impl From<Mode> for LinkMode {
    fn from(mode: Mode) -> LinkMode {
        match mode {
            Mode::Xdp => LinkMode::Xdp,
            Mode::Packet => LinkMode::Packet,
            Mode::Tap => LinkMode::Tap,
            Mode::Vxlan => LinkMode::Vxlan,
        }
    }
}

pub(super) const COLUMNS: &[Column<LinkView>] = &[
    Column::new("link", |l| l.name.clone()),
    Column::new("class", |l| name(&l.class)),
    Column::new("mtu", |l| l.mtu.to_string()),
    Column::new("state", |l| name(&l.state)),
    Column::new("mode", |l| l.mode.as_ref().map(name).unwrap_or_default()),
    Column::new("vnics", |l| l.vnics.to_string()),
    Column::extra("tunnel", |l| maybe(l.tunnel.as_ref())),
    Column::extra("properties", |l| l.properties.to_string()),
    Column::extra("reason", |l| maybe(l.reason.as_ref())),
];

/// Runs `weir link`.
pub fn run(command: &LinkCommand) -> Result {
    let client = client();
    match command {
        LinkCommand::Show { link, output } => {
            let links: Vec<LinkView> = match link {
                Some(link) => vec![client.get(&["links", link])?],
                None => client.get(&["links"])?,
            };
            output.show(&links, COLUMNS)
        }
        LinkCommand::Stat {
            lanes: true,
            link: Some(link),
            args,
        } => stat::show_by_lane(&client, link, args),
        LinkCommand::Stat {
            lanes: true, args, ..
        } => stat::show_lanes(&client, args),
        LinkCommand::Stat { link, args, .. } => {
            stat::show(&client, link.as_deref(), |s| s.name == s.link, args)
        }
        LinkCommand::Attach(args) => {
            let new = NewLink {
                name: args.link.clone(),
                mode: args.mode.map(LinkMode::from),
                tunnel: args.tunnel(),
                properties: args.properties(),
            };
            let link: LinkView = client.post(&["links"], &new)?;
            made(args.json, &link)
        }
        LinkCommand::SetProp {
            properties,
            link,
            json,
        } => {
            let change = PropertyChange::set(joined(properties));
            let link: LinkView = client.patch(&["links", link], &change)?;
            made(*json, &link)
        }
        LinkCommand::ResetProp {
            properties,
            link,
            json,
        } => {
            let change = PropertyChange::reset(properties);
            let link: LinkView = client.patch(&["links", link], &change)?;
            made(*json, &link)
        }
        LinkCommand::Detach { link } => client.delete(&["links", link]),
    }
}
