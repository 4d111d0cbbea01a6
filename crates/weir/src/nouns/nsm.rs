//! `weir nsm`.

use std::net::IpAddr;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand, ValueEnum};
use ipnet::IpNet;
use node::model::{Application, CommandLine, Nsm, NsmKind, Object, Others};
use serde_json::json;
use switch::properties::NsmProperties;

use super::output::{Column, Output, made, maybe, name};
use super::vnic::{address, joined};
use super::{Result, client, properties, reset, set};

/// Makes and shows network stack modules (NSMs), which serve the sockets of applications (`weir sock`)
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  weir nsm create web
  weir stub create lan
  weir vnic create -l lan --netns weir-nsm-web --address 10.0.0.2/24 web0
  weir sock run --nsm web -- python3 -m http.server 80
  weir nsm create fast --kind user -l lan --address 10.0.0.3/24
  weir nsm ls
  weir nsm stat web
  weir nsm delete web")]
pub enum NsmCommand {
    /// Makes an NSM, which serves when the command ends
    Create(CreateNsm),
    /// Lists NSMs
    #[command(
        visible_alias = "show",
        after_help = "Examples:
  weir nsm ls
  weir nsm ls -p -o nsm,state,pid
  weir nsm ls --json web"
    )]
    Ls {
        /// The NSM; default: all
        nsm: Option<String>,
        #[command(flatten)]
        output: Output,
    },
    /// Shows what NSMs do: queue elements, sockets, processor time, memory
    #[command(after_help = "Examples:
  weir nsm stat
  weir nsm stat web -o all")]
    Stat {
        /// The NSM; default: all
        nsm: Option<String>,
        #[command(flatten)]
        output: Output,
    },
    /// Changes what an NSM may have, at once, or its workers
    #[command(after_help = format!("Properties:
{}
Examples:
  weir nsm set -p maxbw=1G web
  weir nsm set -p conns=10000 web
  weir nsm set --cores 4 web", NsmProperties::help()))]
    Set {
        /// Of a kernel NSM: how many workers it has. It restarts: its connections end, and listening sockets listen again
        #[arg(long, value_name = "WORKERS")]
        cores: Option<u8>,
        /// PROPERTY=VALUE, separated by commas
        #[arg(short, long = "prop", required_unless_present = "cores", value_name = "PROPERTIES", value_parser = NonEmptyStringValueParser::new())]
        properties: Vec<String>,
        /// The NSM
        nsm: String,
        /// Print the NSM as JSON
        #[arg(long)]
        json: bool,
    },
    /// Takes limits away: properties have their defaults again, at once
    #[command(after_help = "Examples:
  weir nsm reset -p maxbw web")]
    Reset {
        /// Property names, separated by commas
        #[arg(
            short,
            long = "prop",
            required = true,
            value_delimiter = ',',
            value_name = "PROPERTIES"
        )]
        properties: Vec<String>,
        /// The NSM
        nsm: String,
        /// Print the NSM as JSON
        #[arg(long)]
        json: bool,
    },
    /// Has new sockets of an application go to another NSM, at once
    ///
    /// Sockets that the application has stay where they are.
    #[command(after_help = "Example:\n  weir nsm move curl-4711 web2")]
    Move {
        /// The application, as `weir sock ls` lists it
        application: String,
        /// The NSM
        nsm: String,
        /// Print the application as JSON
        #[arg(long)]
        json: bool,
    },
    /// Ends an NSM that no application uses, and removes it with its namespace
    Delete {
        /// The NSM
        nsm: String,
    },
}

/// `weir nsm create`.
#[derive(Debug, Args)]
#[command(after_help = format!("A kernel NSM's network is that of its namespace: what VNICs, routes and addresses are there. A user NSM has one VNIC,
of its own name, which is made and removed with it; `weir vnic set-prop` limits and protects it.

Properties, for all its applications together:
{}
Examples:
  weir nsm create web
  weir nsm create web --kind kernel --netns blue
  weir nsm create web --cores 4 -p maxbw=1G,conns=10000
  weir vnic create -l lan --netns weir-nsm-web --address 10.0.0.2/24 web0
  weir nsm create fast --kind user -l lan -a 10.0.0.3/24 -a fd00::3/64 --gateway 10.0.0.1
  weir nsm create within --kind shm
  weir nsm create mine --kind program -- /opt/stack --verbose", NsmProperties::help()))]
pub struct CreateNsm {
    /// The NSM's name
    pub nsm: String,
    /// What its network stack is
    #[arg(long, value_enum, default_value_t)]
    pub kind: KindArg,
    /// Of a kernel NSM or a program: run it in this network namespace of `ip netns`; default: of a kernel NSM one of its
    /// own, weir-nsm-NAME, of a program the node's
    #[arg(long, value_name = "NAMESPACE", value_parser = NonEmptyStringValueParser::new())]
    pub netns: Option<String>,
    /// Of a kernel NSM: connections between its own sockets go through shared memory, not through its network stack
    #[arg(long)]
    pub local: bool,
    /// Of a kernel NSM: how many workers it has, 1 to 16: each is a thread, and has sockets of its own; default: 1
    #[arg(long, value_name = "WORKERS")]
    pub cores: Option<u8>,
    /// Of a user NSM: the link or stub that its VNIC is on
    #[arg(short, long)]
    pub link: Option<String>,
    /// Of a user or shm NSM: an IP address, with its prefix length, as in 10.0.0.2/24
    #[arg(short, long = "address", value_name = "ADDRESS", value_parser = address)]
    pub addresses: Vec<IpNet>,
    /// Of a user NSM: the router for what is in none of its networks; one of each IP version
    #[arg(long = "gateway", value_name = "ADDRESS")]
    pub gateways: Vec<IpAddr>,
    /// Of an shm NSM: what connections to addresses that are not its own fail with
    #[arg(long, value_enum, default_value_t)]
    pub others: OthersArg,
    /// PROPERTY=VALUE, separated by commas
    #[arg(short, long = "prop", value_name = "PROPERTIES", value_parser = NonEmptyStringValueParser::new())]
    pub properties: Vec<String>,
    /// Print the NSM as JSON
    #[arg(long)]
    pub json: bool,
    /// Of a program: the program and its arguments
    #[arg(last = true)]
    pub program: Vec<String>,
}

/// `--kind`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum KindArg {
    /// Linux's TCP/IP
    #[default]
    Kernel,
    /// A TCP/IP of its own, on a VNIC, with no kernel between
    User,
    /// Connections between its own applications, through shared memory, and no others
    Shm,
    /// A program that brings another stack with ServiceLib
    Program,
}

/// `--others`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OthersArg {
    /// ENETUNREACH
    #[default]
    Unreachable,
    /// ECONNREFUSED
    Refused,
}

impl From<OthersArg> for Others {
    fn from(others: OthersArg) -> Others {
        match others {
            OthersArg::Unreachable => Others::Unreachable,
            OthersArg::Refused => Others::Refused,
        }
    }
}

impl From<OthersArg> for netkernel::shm::Others {
    fn from(others: OthersArg) -> netkernel::shm::Others {
        match others {
            OthersArg::Unreachable => netkernel::shm::Others::Unreachable,
            OthersArg::Refused => netkernel::shm::Others::Refused,
        }
    }
}

impl From<KindArg> for NsmKind {
    fn from(kind: KindArg) -> NsmKind {
        match kind {
            KindArg::Kernel => NsmKind::Kernel,
            KindArg::User => NsmKind::User,
            KindArg::Shm => NsmKind::Shm,
            KindArg::Program => NsmKind::Program,
        }
    }
}

const COLUMNS: &[Column<Object<Nsm>>] = &[
    Column::new("nsm", |n| n.name.clone()),
    Column::new("kind", |n| name(&n.spec.kind)),
    Column::new("state", |n| name(&n.status.state)),
    Column::new("namespace", |n| maybe(n.status.namespace.as_ref())),
    Column::new("applications", |n| n.status.applications.to_string()),
    Column::new("sockets", |n| n.status.sockets.to_string()),
    Column::new("properties", |n| n.spec.properties.to_string()),
    Column::new("reason", |n| maybe(n.status.reason.as_ref())),
    Column::extra("cores", |n| n.spec.workers().to_string()),
    Column::extra("link", |n| maybe(n.spec.link.as_ref())),
    Column::extra("addresses", |n| joined(&n.spec.addresses)),
    Column::extra("gateways", |n| joined(&n.spec.gateways)),
    Column::extra("run", |n| n.spec.run.to_string()),
    Column::extra("pid", |n| maybe(n.status.pid.as_ref())),
    Column::extra("restarts", |n| n.status.restarts.to_string()),
];

const STATS: &[Column<Object<Nsm>>] = &[
    Column::new("nsm", |n| n.name.clone()),
    Column::new("requests", |n| n.status.requests.to_string()),
    Column::new("answers", |n| n.status.answers.to_string()),
    Column::new("sockets", |n| n.status.sockets.to_string()),
    Column::new("sent", |n| n.status.sent.to_string()),
    Column::new("received", |n| n.status.received.to_string()),
    Column::new("applications", |n| n.status.applications.to_string()),
    Column::new("cpu-s", |n| {
        n.status
            .cpu_s
            .map_or_else(String::new, |cpu| format!("{cpu:.2}"))
    }),
    Column::new("resident", |n| maybe(n.status.resident.as_ref())),
    Column::extra("connections", |n| n.status.connections.to_string()),
    Column::extra("refused", |n| n.status.refused.to_string()),
    Column::extra("pid", |n| maybe(n.status.pid.as_ref())),
    Column::extra("restarts", |n| n.status.restarts.to_string()),
];

/// Runs `weir nsm`.
pub fn run(command: &NsmCommand) -> Result {
    let client = client();
    match command {
        NsmCommand::Create(args) => {
            let nsm = Nsm {
                kind: args.kind.into(),
                namespace: args.netns.clone(),
                local: args.local,
                cores: args.cores,
                link: args.link.clone(),
                addresses: args.addresses.clone(),
                gateways: args.gateways.clone(),
                others: args.others.into(),
                run: CommandLine(args.program.clone()),
                properties: properties(&args.properties, None)?,
            };
            made(args.json, &client.create(&Object::new(&args.nsm, nsm))?)
        }
        NsmCommand::Ls { nsm, output } => {
            output.show(&client.some::<Nsm>(nsm.as_deref())?, COLUMNS)
        }
        NsmCommand::Stat { nsm, output } => {
            output.show(&client.some::<Nsm>(nsm.as_deref())?, STATS)
        }
        NsmCommand::Set {
            cores,
            properties,
            nsm,
            json,
        } => {
            let mut patch = json!({});
            if !properties.is_empty() {
                patch["properties"] = set::<NsmProperties>(properties)?;
            }
            if let Some(cores) = cores {
                patch["cores"] = json!(cores);
            }
            made(*json, &client.patch::<Nsm>(nsm, &patch)?)
        }
        NsmCommand::Reset {
            properties,
            nsm,
            json,
        } => {
            let patch = json!({ "properties": reset(properties, NsmProperties::reset)? });
            made(*json, &client.patch::<Nsm>(nsm, &patch)?)
        }
        NsmCommand::Move {
            application,
            nsm,
            json,
        } => {
            let patch = json!({ "nsm": nsm });
            made(*json, &client.patch::<Application>(application, &patch)?)
        }
        NsmCommand::Delete { nsm } => client.delete::<Nsm>(nsm),
    }
}
