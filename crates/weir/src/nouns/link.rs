//! `weir link`.

use std::net::IpAddr;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand, ValueEnum};
use node::client::Client;
use node::error::{Error, Kind};
use node::model::{Link, LinkStatus, Mode, Object, Stub, Tunnel};
use serde::Serialize;
use serde_json::json;
use switch::properties::PortProperties;

use super::output::{Column, Output, made, maybe, name};
use super::stat::{self, StatArgs};
use super::{Result, client, properties, reset, set};

/// Attaches and shows links: interfaces of the host, and stubs
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
        /// The link; default: all
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
        /// The link; default: all
        link: Option<String>,
        /// Show the counters of each lane; with a link, each lane's counters of that link
        #[arg(long)]
        lanes: bool,
        #[command(flatten)]
        args: StatArgs,
    },
    /// Attaches an interface of the host, or other hosts, to the switch
    Attach(AttachArgs),
    /// Changes properties of a link's port, from the next frame on
    SetProp {
        /// PROPERTY=VALUE, separated by commas; several values of cpus, protection and allowed-ips
        /// are joined by ‘+’
        #[arg(short, long = "prop", required = true, value_name = "PROPERTIES", value_parser = NonEmptyStringValueParser::new())]
        properties: Vec<String>,
        /// The link
        link: String,
        /// Print the link as JSON
        #[arg(long)]
        json: bool,
    },
    /// Resets properties to their defaults
    ResetProp {
        /// Property names, separated by commas
        #[arg(
            short,
            long = "prop",
            required = true,
            value_delimiter = ',',
            value_name = "PROPERTIES"
        )]
        properties: Vec<String>,
        /// The link
        link: String,
        /// Print the link as JSON
        #[arg(long)]
        json: bool,
    },
    /// Detaches an interface and restores its former state
    Detach {
        /// The link
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
    /// The interface; with --mode tap, the device to make; with --mode vxlan, a name
    pub link: String,
    /// How to attach it; default: the best that works
    #[arg(long, value_enum)]
    pub mode: Option<ModeArg>,
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
    /// With --mode vxlan, this host's address; default: any
    #[arg(long, value_name = "ADDRESS", requires = "vni")]
    pub local: Option<IpAddr>,
    /// With --mode vxlan, the UDP port of all hosts; default: 4789
    #[arg(long, value_name = "PORT", requires = "vni", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// Read it on N lanes of the switch, as -p lanes=N; `weir node --lanes` sets how many there are
    #[arg(long, value_name = "N")]
    pub lanes: Option<u16>,
    /// PROPERTY=VALUE of the interface's port, separated by commas; several values of cpus,
    /// protection and allowed-ips are joined by ‘+’
    #[arg(short, long = "prop", value_name = "PROPERTIES", value_parser = NonEmptyStringValueParser::new())]
    pub properties: Vec<String>,
    /// Print the link as JSON
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
            ..Tunnel::default()
        })
    }

    fn link(&self) -> Result<Link> {
        let vxlan = self.tunnel();
        if vxlan.is_some() != (self.mode == Some(ModeArg::Vxlan)) {
            return Err(Error::invalid(if vxlan.is_some() {
                "--vni, --remote, --local and --port are for --mode vxlan only"
            } else {
                "a VXLAN link needs a network number and other hosts: --vni N --remote ADDRESS,…"
            }));
        }
        let lanes = self.lanes.map(|lanes| ("lanes", lanes.to_string()));
        Ok(Link {
            vxlan,
            mode: match self.mode {
                Some(ModeArg::Xdp) => Mode::Xdp,
                Some(ModeArg::Packet) => Mode::Packet,
                Some(ModeArg::Tap) => Mode::Tap,
                Some(ModeArg::Vxlan) | None => Mode::Auto,
            },
            port: properties(&self.properties, lanes)?,
            ..Link::default()
        })
    }
}

/// `--mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModeArg {
    /// By AF_XDP sockets
    Xdp,
    /// By AF_PACKET sockets
    Packet,
    /// By a new TAP device
    Tap,
    /// Other hosts by VXLAN
    Vxlan,
}

/// A link or stub in a list: both are segments of the switch.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Segment {
    /// A link.
    Link(Box<Object<Link>>),
    /// A stub.
    Stub(Object<Stub>),
}

impl Segment {
    fn name(&self) -> &str {
        match self {
            Segment::Link(link) => &link.name,
            Segment::Stub(stub) => &stub.name,
        }
    }

    fn status(&self) -> &LinkStatus {
        match self {
            Segment::Link(link) => &link.status,
            Segment::Stub(stub) => &stub.status,
        }
    }

    fn link(&self) -> Option<&Link> {
        match self {
            Segment::Link(link) => Some(&link.spec),
            Segment::Stub(_) => None,
        }
    }
}

pub(super) const COLUMNS: &[Column<Segment>] = &[
    Column::new("link", |l| l.name().into()),
    Column::new("class", |l| name(&l.status().class)),
    Column::new("mtu", |l| l.status().mtu.to_string()),
    Column::new("state", |l| name(&l.status().state)),
    Column::new("mode", |l| {
        let mode = l.status().mode.as_ref();
        mode.map(name).unwrap_or_default()
    }),
    Column::new("vnics", |l| l.status().vnics.to_string()),
    Column::extra("tunnel", |l| {
        maybe(l.link().and_then(|link| link.vxlan.as_ref()))
    }),
    Column::extra("properties", |l| maybe(l.link().map(|link| &link.port))),
    Column::extra("reason", |l| maybe(l.status().reason.as_ref())),
];

/// Links and stubs, by name: one, or all.
fn segments(client: &Client, name: Option<&str>) -> Result<Vec<Segment>> {
    let Some(name) = name else {
        let links = client
            .list()?
            .into_iter()
            .map(|link| Segment::Link(Box::new(link)));
        let stubs = client.list()?.into_iter().map(Segment::Stub);
        let mut all: Vec<_> = links.chain(stubs).collect();
        all.sort_by(|a, b| a.name().cmp(b.name()));
        return Ok(all);
    };
    match client.show(name) {
        // It is a stub.
        Err(error) if error.kind == Kind::Invalid => Ok(vec![Segment::Stub(client.show(name)?)]),
        link => Ok(vec![Segment::Link(Box::new(link?))]),
    }
}

/// Runs `weir link`.
pub fn run(command: &LinkCommand) -> Result {
    let client = client();
    match command {
        LinkCommand::Show { link, output } => {
            output.show(&segments(&client, link.as_deref())?, COLUMNS)
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
            let link = Object::new(&args.link, args.link()?);
            made(args.json, &client.create(&link)?)
        }
        LinkCommand::SetProp {
            properties,
            link,
            json,
        } => {
            let patch = json!({ "port": set::<PortProperties>(properties)? });
            made(*json, &client.patch::<Link>(link, &patch)?)
        }
        LinkCommand::ResetProp {
            properties,
            link,
            json,
        } => {
            let patch = json!({ "port": reset(properties, PortProperties::reset)? });
            made(*json, &client.patch::<Link>(link, &patch)?)
        }
        LinkCommand::Detach { link } => client.delete::<Link>(link),
    }
}
