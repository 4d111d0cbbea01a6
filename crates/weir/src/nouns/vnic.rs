//! `weir vnic`.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand, ValueEnum};
use ipnet::IpNet;
use node::error::Error;
use node::model::{Idle, Location, Object, OnDemand, PortStats, SwitchFunction, Trigger, Vnic};
use serde_json::json;
use switch::lookup::Mac;
use switch::properties::PortProperties;

use super::output::{Column, Output, made, maybe, name};
use super::stat::{self, StatArgs};
use super::{Result, client, properties, reset, set};
use crate::check::setting;

/// Makes and shows VNICs: virtual interfaces on links, for guests, guests on demand, namespaces, the host, or
/// vhost-user frontends
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  weir vnic create -l lan --netns blue b0
  weir vnic create -l eth1 -v 10 -p maxbw=100M,priority=high web
  weir vnic create -l lan -p allowed-ips=10.0.0.7 --template web --idle 30s web0
  weir vnic set-prop -p maxbw=1G web
  weir vnic show -p -o vnic,mac,state
  weir vnic delete web")]
pub enum VnicCommand {
    /// Makes a VNIC
    Create(CreateVnic),
    /// Removes a VNIC and its interface
    Delete {
        /// The VNIC's name
        vnic: String,
    },
    /// Shows VNICs
    #[command(after_help = "Examples:
  weir vnic show
  weir vnic show -l lan -p -o vnic,mac,state
  weir vnic show --json web")]
    Show {
        /// The VNIC; default: all
        vnic: Option<String>,
        /// Show only the VNICs on this link
        #[arg(short, long)]
        link: Option<String>,
        #[command(flatten)]
        output: Output,
    },
    /// Shows counters of VNICs
    ///
    /// Counters start at 0 when a VNIC is made, its guest starts, or a new switch replaces one that
    /// ended.
    #[command(after_help = "Examples:
  weir vnic stat
  weir vnic stat -i 1 -c 10 web
  weir vnic stat -p -o name,rx-bytes,tx-bytes,drops")]
    Stat {
        /// The VNIC; default: all
        vnic: Option<String>,
        #[command(flatten)]
        args: StatArgs,
    },
    /// Changes properties, from the next frame on
    SetProp {
        /// PROPERTY=VALUE, separated by commas; several values of cpus, protection and allowed-ips
        /// are joined by ‘+’
        #[arg(short, long = "prop", required = true, value_name = "PROPERTIES", value_parser = NonEmptyStringValueParser::new())]
        properties: Vec<String>,
        /// The VNIC
        vnic: String,
        /// Print the VNIC as JSON
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
        /// The VNIC
        vnic: String,
        /// Print the VNIC as JSON
        #[arg(long)]
        json: bool,
    },
}

/// `weir vnic create`.
#[derive(Debug, Args)]
#[command(
    after_help = format!("Properties, several values of cpus, protection and allowed-ips joined by ‘+’:
{}
Examples:
  weir vnic create -l lan --netns blue b0
  weir vnic create -l lan --netns blue --interface eth0 blue-lan
  weir vnic create -l eth1 --host mgmt0
  weir vnic create -l eth1 -v 10 -m 02:00:00:00:00:01 -p maxbw=100M,priority=high web
  weir vnic create -l lan -p protection=mac-nospoof+ip-nospoof,allowed-ips=10.0.0.2+fd00::2 db
  weir vnic create -l lan -p allowed-ips=10.0.0.7 --template web --on first-packet --idle 30s web0
  weir vnic create -l lan -p allowed-ips=10.0.0.9 --template web --on flow --guests 200 web9
  weir vnic create -l lan -p allowed-ips=10.0.0.8 --template web --parameter ip=10.0.0.8 web1",
    PortProperties::help())
)]
pub struct CreateVnic {
    /// The link
    #[arg(short, long)]
    pub link: String,
    /// Ethernet address; default: random
    #[arg(short, long, value_name = "ADDRESS")]
    pub mac: Option<Mac>,
    /// VLAN of an access port
    #[arg(short, long, value_name = "VLAN")]
    pub vlan: Option<String>,
    /// PROPERTY=VALUE, separated by commas
    #[arg(short, long = "prop", value_name = "PROPERTIES", value_parser = NonEmptyStringValueParser::new())]
    pub properties: Vec<String>,
    /// Make an interface in this network namespace: a name of `ip netns`, or a path
    #[arg(long, value_name = "NAMESPACE", group = "serves", value_parser = NonEmptyStringValueParser::new())]
    pub netns: Option<String>,
    /// Make an interface on the host
    #[arg(long, group = "serves")]
    pub host: bool,
    /// Serve vhost-user at this socket
    #[arg(long, value_name = "SOCKET", group = "serves", value_parser = socket)]
    pub vhost_user: Option<PathBuf>,
    /// Start a copy of this guest when it is needed, with the VNIC's name: from where it stands still (`weir template`),
    /// else from its configuration
    #[arg(long, value_name = "GUEST", group = "serves")]
    pub template: Option<String>,
    /// With --template, what starts the guest
    #[arg(long, value_enum, default_value_t = TriggerArg::FirstPacket, requires = "template", conflicts_with_all = ["netns", "host", "vhost_user"])]
    pub on: TriggerArg,
    /// With --on flow, how many connections may have guests of their own at a time; default: 64
    #[arg(long, value_name = "COUNT", requires = "template", conflicts_with_all = ["netns", "host", "vhost_user"])]
    pub guests: Option<u32>,
    /// With --template, time without a frame after which the guest is removed, as in 30s; default: 1m
    #[arg(long, value_name = "TIME", requires = "template", conflicts_with_all = ["netns", "host", "vhost_user"])]
    pub idle: Option<Idle>,
    /// With --template, a value for a variable of its configuration: the guest boots with it
    #[arg(long = "parameter", value_name = "NAME=VALUE", value_parser = setting, requires = "template", conflicts_with_all = ["netns", "host", "vhost_user"])]
    pub parameters: Vec<(String, String)>,
    /// With --netns or --host, the interface's name; default: the VNIC's. With --template, the guest's interface; default:
    /// its only one, or its only one on this link
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,
    /// An IP address of the interface, with its prefix length, as in 10.0.0.2/24
    #[arg(short, long = "address", value_name = "ADDRESS", value_parser = address)]
    pub addresses: Vec<IpNet>,
    /// The VNIC's name
    pub vnic: String,
    /// Print the VNIC as JSON
    #[arg(long)]
    pub json: bool,
}

/// A socket's path, seen from here: the node runs elsewhere.
fn socket(text: &str) -> Result<PathBuf, String> {
    std::path::absolute(text).map_err(|_| "a socket's path cannot be empty".into())
}

/// A namespace in the form for the node, which has another working folder: a name, or a path from
/// the root.
fn namespace(text: &str) -> Result<String> {
    if !text.contains('/') {
        return Ok(text.into());
    }
    let path = std::path::absolute(text).map_err(Error::invalid)?;
    Ok(path.display().to_string())
}

pub(super) fn address(text: &str) -> Result<IpNet, String> {
    text.parse()
        .map_err(|_| "an address needs its prefix length, as in 10.0.0.2/24".into())
}

/// `--on`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TriggerArg {
    /// The first frame to the VNIC
    FirstPacket,
    /// The same, and each TCP connection to the VNIC has a guest of its own
    Flow,
}

impl From<TriggerArg> for Trigger {
    fn from(arg: TriggerArg) -> Trigger {
        match arg {
            TriggerArg::FirstPacket => Trigger::FirstPacket,
            TriggerArg::Flow => Trigger::Flow,
        }
    }
}

impl CreateVnic {
    fn guest(&self) -> Option<OnDemand> {
        Some(OnDemand {
            template: self.template.clone()?,
            on: self.on.into(),
            guests: self.guests,
            interface: self.interface.clone(),
            variables: self.parameters.iter().cloned().collect(),
            idle: self.idle,
        })
    }

    fn vnic(&self) -> Result<Vnic> {
        let vlan = self.vlan.clone().map(|vlan| ("vlan", vlan));
        let guest = self.guest();
        Ok(Vnic {
            link: self.link.clone(),
            namespace: self.netns.as_deref().map(namespace).transpose()?,
            host: self.host,
            vhost_user: self.vhost_user.clone(),
            nsm: None,
            interface: self.interface.clone().filter(|_| guest.is_none()),
            guest,
            mac: self.mac,
            addresses: self.addresses.clone(),
            properties: properties(&self.properties, vlan)?,
        })
    }
}

/// Values with commas between.
pub(super) fn joined<T: ToString>(values: &[T]) -> String {
    let values: Vec<_> = values.iter().map(ToString::to_string).collect();
    values.join(",")
}

fn serves(vnic: &Object<Vnic>) -> String {
    match (vnic.spec.location(), &vnic.status.guest) {
        (Location::Guest, Some(guest)) => format!("guest:{guest}"),
        (Location::Guest, None) => match &vnic.spec.guest {
            Some(on) => format!("template:{}", on.template),
            None => "guest".into(),
        },
        (Location::Namespace(namespace), _) => format!("netns:{namespace}"),
        (Location::VhostUser(socket), _) => format!("vhost-user:{}", socket.display()),
        (Location::Nsm(nsm), _) => format!("nsm:{nsm}"),
        (Location::Host, _) => "host".into(),
    }
}

const COLUMNS: &[Column<Object<Vnic>>] = &[
    Column::new("vnic", |v| v.name.clone()),
    Column::new("link", |v| v.spec.link.clone()),
    Column::new("mac", |v| maybe(v.spec.mac.as_ref())),
    Column::new("vlan", |v| maybe(v.spec.properties.vlan.as_ref())),
    Column::new("state", |v| name(&v.status.state)),
    Column::new("serves", serves),
    Column::new("properties", |v| v.spec.properties.to_string()),
    Column::extra("mtu", |v| v.status.mtu.to_string()),
    Column::extra("addresses", |v| joined(&v.spec.addresses)),
    Column::extra("interface", |v| maybe(v.status.interface.as_ref())),
    Column::extra("reason", |v| maybe(v.status.reason.as_ref())),
];

/// Runs `weir vnic`.
pub fn run(command: &VnicCommand) -> Result {
    let client = client();
    match command {
        VnicCommand::Create(args) => {
            let vnic = Object::new(&args.vnic, args.vnic()?);
            made(args.json, &client.create(&vnic)?)
        }
        VnicCommand::Delete { vnic } => client.delete::<Vnic>(vnic),
        VnicCommand::Show { vnic, link, output } => {
            if let Some(link) = link {
                client.show::<SwitchFunction>(link)?;
            }
            let mut vnics = client.some::<Vnic>(vnic.as_deref())?;
            vnics.retain(|vnic| link.as_ref().is_none_or(|link| vnic.spec.link == *link));
            output.show(&vnics, COLUMNS)
        }
        VnicCommand::Stat { vnic, args } => stat::show(&client, vnic.as_deref(), is_vnic, args),
        VnicCommand::SetProp {
            properties,
            vnic,
            json,
        } => {
            let patch = json!({ "properties": set::<PortProperties>(properties)? });
            made(*json, &client.patch::<Vnic>(vnic, &patch)?)
        }
        VnicCommand::ResetProp {
            properties,
            vnic,
            json,
        } => {
            let patch = json!({ "properties": reset(properties, PortProperties::reset)? });
            made(*json, &client.patch::<Vnic>(vnic, &patch)?)
        }
    }
}

/// Whether counters are a VNIC's: an interface is called as its link, and a patch has a slash.
fn is_vnic(stats: &PortStats) -> bool {
    stats.name != stats.link && !stats.name.contains('/')
}
