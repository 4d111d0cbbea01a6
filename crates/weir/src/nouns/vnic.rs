//! `weir vnic`.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use ipnet::IpNet;
use node::model::{LinkView, NewVnic, PortStats, PropertyChange, Serves, VnicView};
use switch::lookup::Mac;
use switch::properties::PortProperties;

use super::output::{Column, Output, made, maybe, name};
use super::stat::{self, StatArgs};
use super::{Result, client, joined};

/// Makes and shows VNICs: virtual interfaces on links, for guests, namespaces, the host, or
/// other virtual machines
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  weir vnic create -l lan --netns blue b0
  weir vnic create -l eth1 -v 10 -p maxbw=100M,priority=high web
  weir vnic set-prop -p maxbw=1G web
  weir vnic show -p -o vnic,mac,state
  weir vnic delete web")]
pub enum VnicCommand {
    /// Makes a VNIC
    Create(CreateArgs),
    /// Removes a VNIC and its interface
    Delete {
        /// Its name
        vnic: String,
    },
    /// Shows VNICs
    #[command(after_help = "Examples:
  weir vnic show
  weir vnic show -l lan -p -o vnic,mac,state
  weir vnic show --json web")]
    Show {
        /// One VNIC; none: all
        vnic: Option<String>,
        /// Show those on this link only
        #[arg(short, long)]
        link: Option<String>,
        #[command(flatten)]
        output: Output,
    },
    /// Shows counters of VNICs
    ///
    /// They begin at 0 when a VNIC is made or its guest starts, and when another switch takes the
    /// place of one that ended.
    #[command(after_help = "Examples:
  weir vnic stat
  weir vnic stat -i 1 -c 10 web
  weir vnic stat -p -o name,rx-bytes,tx-bytes,drops")]
    Stat {
        /// One VNIC; none: all
        vnic: Option<String>,
        #[command(flatten)]
        args: StatArgs,
    },
    /// Changes properties; they hold from the next frame on
    SetProp {
        /// PROPERTY=VALUE, separated by commas; several values of cpus, protection and allowed-ips
        /// are joined by ‘+’
        #[arg(short, long = "prop", required = true, value_name = "PROPERTIES", value_parser = NonEmptyStringValueParser::new())]
        properties: Vec<String>,
        /// The VNIC
        vnic: String,
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
        /// The VNIC
        vnic: String,
        /// Print what it is then as JSON
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
  weir vnic create -l lan -p protection=mac-nospoof+ip-nospoof,allowed-ips=10.0.0.2+fd00::2 db",
    PortProperties::help())
)]
pub struct CreateArgs {
    /// The link that it stands on
    #[arg(short, long)]
    pub link: String,
    /// Its address; none: a random one
    #[arg(short, long, value_name = "ADDRESS")]
    pub mac: Option<Mac>,
    /// The VLAN that it gives access to
    #[arg(short, long, value_name = "VLAN")]
    pub vlan: Option<String>,
    /// PROPERTY=VALUE, separated by commas
    #[arg(short, long = "prop", value_name = "PROPERTIES")]
    pub properties: Vec<String>,
    /// Make an interface in this network namespace: a name of `ip netns`, or a path
    #[arg(long, value_name = "NAMESPACE", group = "serves", value_parser = NonEmptyStringValueParser::new())]
    pub netns: Option<String>,
    /// Make an interface on the host
    #[arg(long, group = "serves")]
    pub host: bool,
    /// Serve vhost-user at this socket
    #[arg(long, value_name = "SOCKET", group = "serves", value_parser = socket)]
    pub vhost_user: Option<String>,
    /// With --netns or --host, the interface's name; none: the VNIC's
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,
    /// An IP address for that interface, with its prefix, as in 10.0.0.2/24
    #[arg(short, long = "address", value_name = "ADDRESS", value_parser = address)]
    pub addresses: Vec<IpNet>,
    /// Its name
    pub vnic: String,
    /// Print what was made as JSON
    #[arg(long)]
    pub json: bool,
}

/// A socket's path, seen from here: the node runs elsewhere.
fn socket(text: &str) -> Result<String, String> {
    let path = std::path::absolute(text).map_err(|_| "a socket's path is not empty")?;
    let path = path.into_os_string().into_string();
    path.map_err(|_| "a socket's path is UTF-8 here".into())
}

fn address(text: &str) -> Result<IpNet, String> {
    text.parse()
        .map_err(|_| "an address has the length of its prefix behind it, as in 10.0.0.2/24".into())
}

impl CreateArgs {
    fn serves(&self) -> Serves {
        match (&self.netns, self.host, &self.vhost_user) {
            (Some(namespace), ..) => Serves::Netns(namespace.clone()),
            (_, true, _) => Serves::Host,
            (.., Some(socket)) => Serves::VhostUser(socket.clone()),
            (None, false, None) => Serves::Guest,
        }
    }

    fn properties(&self) -> String {
        let vlan = self.vlan.iter().map(|vlan| format!("vlan={vlan}"));
        let all: Vec<_> = self.properties.iter().cloned().chain(vlan).collect();
        joined(&all)
    }
}

fn serves(vnic: &VnicView) -> String {
    match (&vnic.serves, &vnic.guest) {
        (Serves::Guest, Some(guest)) => format!("guest:{guest}"),
        (Serves::Netns(namespace), _) => format!("netns:{namespace}"),
        (Serves::VhostUser(socket), _) => format!("vhost-user:{socket}"),
        (serves, _) => name(serves),
    }
}

const COLUMNS: &[Column<VnicView>] = &[
    Column::new("vnic", |v| v.name.clone()),
    Column::new("link", |v| v.link.clone()),
    Column::new("mac", |v| v.mac.to_string()),
    Column::new("vlan", |v| maybe(v.vlan.as_ref())),
    Column::new("state", |v| name(&v.state)),
    Column::new("serves", serves),
    Column::new("properties", |v| v.properties.to_string()),
    Column::extra("mtu", |v| v.mtu.to_string()),
    Column::extra("addresses", |v| {
        let addresses: Vec<_> = v.addresses.iter().map(ToString::to_string).collect();
        addresses.join(",")
    }),
    Column::extra("interface", |v| maybe(v.interface.as_ref())),
    Column::extra("reason", |v| maybe(v.reason.as_ref())),
];

/// Runs `weir vnic`.
pub fn run(command: &VnicCommand) -> Result {
    let client = client();
    match command {
        VnicCommand::Create(args) => {
            let new = NewVnic {
                name: args.vnic.clone(),
                link: args.link.clone(),
                mac: args.mac,
                serves: args.serves(),
                interface: args.interface.clone(),
                addresses: args.addresses.clone(),
                properties: args.properties(),
            };
            let vnic: VnicView = client.post(&["vnics"], &new)?;
            made(args.json, &vnic)
        }
        VnicCommand::Delete { vnic } => client.delete(&["vnics", vnic]),
        VnicCommand::Show { vnic, link, output } => {
            if let Some(link) = link {
                let _: LinkView = client.get(&["links", link])?;
            }
            let mut vnics: Vec<VnicView> = match vnic {
                Some(vnic) => vec![client.get(&["vnics", vnic])?],
                None => client.get(&["vnics"])?,
            };
            vnics.retain(|vnic| link.as_ref().is_none_or(|link| vnic.link == *link));
            output.show(&vnics, COLUMNS)
        }
        VnicCommand::Stat { vnic, args } => stat::show(&client, vnic.as_deref(), is_vnic, args),
        VnicCommand::SetProp {
            properties,
            vnic,
            json,
        } => {
            let change = PropertyChange::set(joined(properties));
            let vnic: VnicView = client.patch(&["vnics", vnic], &change)?;
            made(*json, &vnic)
        }
        VnicCommand::ResetProp {
            properties,
            vnic,
            json,
        } => {
            let change = PropertyChange::reset(properties);
            let vnic: VnicView = client.patch(&["vnics", vnic], &change)?;
            made(*json, &vnic)
        }
    }
}

/// Whether counters are a VNIC's: an interface is called as its link, and a patch has a slash.
fn is_vnic(stats: &PortStats) -> bool {
    stats.name != stats.link && !stats.name.contains('/')
}
