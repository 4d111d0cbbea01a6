//! `weir cluster`: many hosts, and the option `--cluster` of other commands.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use cluster::agent::{self, guard};
use cluster::context::Context;
use cluster::etcd::Store;
use cluster::etcd::members::{self, Member};
use cluster::guests::Whereabouts;
use cluster::hosts::{self, Joining};
use cluster::keys;
use cluster::model::{LEASE_S, Settings, VERSION};
use cluster::view::View;
use cluster::{block_on, events, guests};
use node::client::Client;
use node::error::Error;
use node::log;
use node::model::rfc3339;
use node::paths::Paths;
use node::tls::Files;
use scheduler::facts::Memory;
use serde::Serialize;

use super::output::{Column, Output, print};
use super::{Result, is_remote};

/// Makes, joins and shows a cluster of hosts
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  weir cluster init && weir cluster agent &
  weir cluster status")]
pub enum ClusterCommand {
    /// Makes a cluster, of which this host is the first
    #[command(
        after_help = "Without --etcd, this host runs an etcd of its own, for this machine alone. `weir cluster agent`, a service
beside the node, then keeps the host in the cluster.

Examples:
  weir cluster init
  weir cluster init --etcd https://10.0.0.1:2379,https://10.0.0.2:2379 --tls-cert a.pem --tls-key a.key --tls-ca ca.pem --address 10.0.0.11:6640"
    )]
    Init(InitArgs),
    /// Adds this host to a cluster
    #[command(
        after_help = "Example:\n  weir cluster join --etcd https://10.0.0.1:2379 --tls-cert b.pem --tls-key b.key --tls-ca ca.pem --address 10.0.0.12:6640"
    )]
    Join(JoinArgs),
    /// Takes this host out of its cluster
    #[command(after_help = "Examples:\n  weir cluster leave\n  weir cluster leave --force")]
    Leave {
        /// Also with guests on it, which start elsewhere, and without etcd
        #[arg(long)]
        force: bool,
    },
    /// Runs the agent of this host, which joined: a service beside the node
    #[command(after_help = "Example:\n  weir cluster agent &")]
    Agent(AgentArgs),
    /// Shows etcd's members, the leader, hosts and guests
    #[command(after_help = "Examples:\n  weir cluster status\n  weir cluster status --json")]
    Status {
        #[command(flatten)]
        cluster: ClusterFile,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Shows what happens in the cluster
    #[command(after_help = "Example:\n  weir cluster events --follow")]
    Events {
        #[command(flatten)]
        cluster: ClusterFile,
        /// Go on until interrupted
        #[arg(short, long, required = true)]
        follow: bool,
    },
}

/// Where etcd is, and what this host shows to it.
#[derive(Debug, Args)]
pub struct EtcdArgs {
    /// Addresses of etcd, separated by commas: http://HOST:PORT or https://HOST:PORT
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    etcd: Vec<String>,
    /// The beginning of the cluster's keys in etcd
    #[arg(long, value_name = "PREFIX", default_value = keys::PREFIX)]
    prefix: String,
    /// Certificate to show to etcd and to nodes of other hosts (PEM)
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "tls_ca"])]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Authority that signed the certificates of etcd and of nodes (PEM)
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
}

/// Who this host is.
#[derive(Debug, Args)]
pub struct HostArgs {
    /// Name of this host in the cluster; default: its host name
    #[arg(long)]
    name: Option<String>,
    /// Where the other hosts reach this host's node, as `weir node --listen` has it
    #[arg(long, value_name = "HOST:PORT")]
    address: Option<String>,
    /// Labels of this host, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "LABEL")]
    label: Vec<String>,
    /// Where this host stands, from the outside in: hall-1/rack-3
    #[arg(long, default_value = "")]
    site: String,
    /// The group of hosts that this host is in
    #[arg(long, default_value = "")]
    group: String,
    /// Memory that guests may have; default: all
    #[arg(long, value_name = "SIZE")]
    memory: Option<Memory>,
    /// Most guests of this host
    #[arg(long, value_name = "N")]
    max_guests: Option<u32>,
    /// Keep guests running when this host is cut off from etcd; they may then run twice
    #[arg(long)]
    keep: bool,
    /// Never lead: agents of other hosts decide where guests run
    #[arg(long)]
    follow: bool,
}

#[derive(Debug, Args)]
pub struct InitArgs {
    #[command(flatten)]
    etcd: EtcdArgs,
    #[command(flatten)]
    host: HostArgs,
    /// Seconds without a sign of life after which a host is lost
    #[arg(long, value_name = "SECONDS", default_value_t = LEASE_S)]
    lease: u64,
    /// The policy by which guests are placed (`weir policy ls`)
    #[arg(long, default_value = "none")]
    policy: String,
    /// Encrypt frames between hosts by WireGuard, at this UDP port; default port: 51820
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "51820", value_parser = clap::value_parser!(u16).range(1..))]
    wireguard: Option<u16>,
}

#[derive(Debug, Args)]
pub struct JoinArgs {
    #[command(flatten)]
    etcd: EtcdArgs,
    #[command(flatten)]
    host: HostArgs,
}

#[derive(Debug, Args)]
pub struct AgentArgs {
    /// Format of the log on standard error: human, or json for one object a line; default: human
    #[arg(long, value_name = "FORMAT", env = "WEIR_LOG")]
    log: Option<log::Format>,
    /// Lowest level to log: error, warn, info, debug or trace; default: info
    #[arg(long, value_name = "LEVEL", env = "WEIR_LOG_LEVEL")]
    log_level: Option<tracing::Level>,
    /// Serve metrics for Prometheus at this address, as in 127.0.0.1:6641: GET /metrics
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
    /// What this process does of it
    #[arg(long, hide = true, value_enum, default_value_t = Part::Guard)]
    part: Part,
}

/// The processes of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Starts the others, and stops guests when the lease may end
    Guard,
    /// Does the work
    Work,
    /// Stops guests when the lease may end, after the guard
    Linger,
}

/// The file that names a cluster.
#[derive(Clone, Debug, Args)]
pub struct ClusterFile {
    /// The cluster of this file; default: this host's
    #[arg(long, value_name = "FILE", env = "WEIR_CLUSTER")]
    cluster: Option<PathBuf>,
}

impl ClusterFile {
    /// The cluster's context.
    pub fn context(&self) -> Result<Context> {
        Context::find(self.cluster.as_deref(), &Paths::from_environment())
    }
}

/// `--cluster` of a command that asks a node otherwise.
#[derive(Clone, Debug, Args)]
pub struct ClusterOption {
    /// Ask the cluster: this host's, or that of a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    cluster: Option<Option<PathBuf>>,
}

impl ClusterOption {
    /// The cluster's context, if the cluster is asked.
    pub fn context(&self) -> Result<Option<Context>> {
        let Some(file) = &self.cluster else {
            return Ok(None);
        };
        let file = file.clone();
        let file = file.or_else(|| std::env::var_os("WEIR_CLUSTER").map(PathBuf::from));
        Context::find(file.as_deref(), &Paths::from_environment()).map(Some)
    }

    /// Makes the node of the host that runs a guest the target of this process's commands, if the cluster is asked.
    pub fn choose_host_of(&self, guest: &str) -> Result {
        let Some(context) = self.context()? else {
            return Ok(());
        };
        if is_remote() {
            return Err(Error::invalid("--node and --cluster exclude each other"));
        }
        let view = view(&context)?;
        let at = guests::find(&view, guest)?;
        if context.host.as_ref().is_some_and(|it| it.name == at.host) {
            return Ok(());
        }
        super::choose(remote(&context, &format!("guest ‘{guest}’ runs on"), at)?);
        Ok(())
    }
}

/// The node of another host, about which something is the case.
pub fn remote(context: &Context, what: &str, at: Whereabouts) -> Result<Client> {
    let Whereabouts { host, address } = at;
    let address = address.ok_or_else(|| {
        Error::refused(format_args!(
            "{what} host {host}, whose node has no address: `weir cluster join --address` gives it one"
        ))
    })?;
    let files = context.node_tls.as_ref().ok_or_else(|| {
        Error::invalid(format_args!(
            "{what} host {host}, and there is no certificate to show to its node: set cert, key and ca in the cluster's file"
        ))
    })?;
    Client::remote(&format!("https://{address}"), files)
}

/// All keys of a cluster.
pub fn view(context: &Context) -> Result<View> {
    with(context, async |store: Store| store.view().await)
}

/// Does something with a cluster's keys.
pub fn with<T>(context: &Context, work: impl AsyncFnOnce(Store) -> Result<T>) -> Result<T> {
    block_on(async {
        let store = hosts::open(context).await?;
        work(store).await
    })
}

impl EtcdArgs {
    fn context(&self, host: &HostArgs) -> Result<Context> {
        let files = match (&self.tls_cert, &self.tls_key, &self.tls_ca) {
            (Some(cert), Some(key), Some(ca)) => {
                let path = |path: &PathBuf| {
                    std::path::absolute(path).map_err(|error| {
                        Error::invalid(format_args!("{}: {error}", path.display()))
                    })
                };
                Some(Files {
                    cert: path(cert)?,
                    key: path(key)?,
                    ca: path(ca)?,
                })
            }
            _ => None,
        };
        if let Some(files) = &files {
            // What is wrong with them is told now.
            node::tls::client(files)?;
        }
        if !self.prefix.ends_with('/') {
            return Err(Error::invalid(format_args!(
                "‘{}’ is no prefix: it ends in ‘/’, as in /weir/",
                self.prefix
            )));
        }
        Ok(Context {
            etcd: self.etcd.clone(),
            prefix: self.prefix.clone(),
            tls: files.clone(),
            node_tls: files,
            keep: host.keep,
            follows: host.follow,
            ..Context::default()
        })
    }
}

impl HostArgs {
    fn joining(&self) -> Joining {
        let name = self.name.clone().unwrap_or_else(|| {
            let name = rustix::system::uname();
            name.nodename().to_string_lossy().into_owned()
        });
        Joining {
            name,
            address: self.address.clone(),
            labels: self.label.iter().cloned().collect(),
            site: self.site.clone(),
            group: self.group.clone(),
            memory: self.memory,
            max_guests: self.max_guests,
        }
    }
}

/// Runs `weir cluster`.
pub fn run(command: &ClusterCommand) -> Result {
    let paths = Paths::from_environment();
    match command {
        ClusterCommand::Init(args) => {
            let joining = args.host.joining();
            let context = args.etcd.context(&args.host)?;
            block_on(hosts::init(
                &paths,
                context,
                &joining,
                Settings {
                    version: VERSION,
                    lease_s: args.lease,
                    policy: args.policy.clone(),
                    policies: BTreeMap::new(),
                    wireguard: args.wireguard,
                },
            ))?;
            print(&format!(
                "host {} is the first of the cluster: `weir cluster agent` runs its agent\n",
                joining.name
            ))
        }
        ClusterCommand::Join(args) => {
            let joining = args.host.joining();
            let context = args.etcd.context(&args.host)?;
            block_on(hosts::join(&paths, context, &joining))?;
            print(&format!(
                "host {} joined: `weir cluster agent` runs its agent\n",
                joining.name
            ))
        }
        ClusterCommand::Leave { force } => block_on(hosts::leave(&paths, *force)),
        ClusterCommand::Agent(args) => run_agent(args, &paths),
        ClusterCommand::Status { cluster, json } => status(&cluster.context()?, *json),
        ClusterCommand::Events { cluster, .. } => follow(&cluster.context()?),
    }
}

fn run_agent(args: &AgentArgs, paths: &Paths) -> Result {
    log::start(
        args.log.unwrap_or_default(),
        args.log_level.unwrap_or(tracing::Level::INFO),
    );
    let program = std::env::current_exe().map_err(Error::failed)?;
    let part = |part: &'static str| {
        let mut command = Command::new(&program);
        command.args(["cluster", "agent", "--part", part]);
        if let Some(level) = args.log_level {
            command.args(["--log-level", level.as_str()]);
        }
        if args.log == Some(log::Format::Json) {
            command.args(["--log", "json"]);
        }
        if let Some(metrics) = args.metrics {
            command.args(["--metrics", &metrics.to_string()]);
        }
        command
    };
    match args.part {
        Part::Guard => {
            Context::find(None, paths)?.identity()?;
            paths.make_run(None)?;
            let _lock = agent::lock(paths)?;
            guard::run(paths, || part("work"), || part("linger"))
        }
        Part::Work => {
            let context = Context::find(None, paths)?;
            let ended = block_on(agent::run(paths.clone(), context, args.metrics));
            if let Err(error) = &ended {
                tracing::error!("{error}");
                if error.error == agent::GUARD_ENDED {
                    // Somebody must stop the guests when the lease may end.
                    return Err(Error::failed(part("guard").exec()));
                }
                std::process::exit(match error.kind {
                    // To try again is of no use.
                    node::error::Kind::NotFound => guard::DONE.into(),
                    _ => 1,
                });
            }
            ended
        }
        Part::Linger => {
            guard::linger(paths);
            Ok(())
        }
    }
}

/// A member of etcd, as it is shown.
#[derive(Serialize)]
struct MemberRow {
    member: String,
    state: &'static str,
}

const MEMBERS: &[Column<MemberRow>] = &[
    Column::new("etcd", |it| it.member.clone()),
    Column::new("state", |it| it.state.into()),
];

/// A cluster, as it is shown.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct StatusRow {
    etcd: Vec<MemberRow>,
    /// Why the rest is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    host: Option<String>,
    leader: Option<String>,
    policy: Option<String>,
    /// Those of groups of hosts.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    policies: BTreeMap<String, String>,
    lease_s: Option<u64>,
    /// The UDP port of WireGuard, if frames between hosts are encrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    wireguard: Option<u16>,
    hosts: usize,
    up: usize,
    guests: usize,
    waiting: usize,
}

fn status(context: &Context, json: bool) -> Result {
    members::check(context)?;
    let members = block_on(async { Ok(members::all(context).await) })?;
    let etcd = members.into_iter().map(|(member, state)| MemberRow {
        member,
        state: match state {
            Member::Led => "up",
            Member::Leaderless => "without leader",
            Member::Down => "down",
            Member::Unknown => "unreachable",
        },
    });
    let etcd = etcd.collect();
    let (view, error) = match view(context) {
        Ok(view) => (view, None),
        Err(error) => (View::default(), Some(error)),
    };
    let settings = view.settings();
    let hosts = hosts::list(&view);
    let guests = guests::select(&view, &[])?;
    let is_waiting = |name: &&String| view.placement(name).is_none();
    let row = StatusRow {
        etcd,
        error: error.as_ref().map(|error| error.error.clone()),
        host: context.host.as_ref().map(|it| it.name.clone()),
        leader: view.get(keys::LEADER),
        policy: settings.as_ref().map(|it| it.policy.clone()),
        lease_s: settings.as_ref().map(|it| it.lease_s),
        wireguard: settings.as_ref().and_then(|it| it.wireguard),
        policies: settings.map(|it| it.policies).unwrap_or_default(),
        up: hosts.iter().filter(|host| host.state != "down").count(),
        hosts: hosts.len(),
        waiting: guests.iter().filter(is_waiting).count(),
        guests: guests.len(),
    };
    if json {
        super::output::made(true, &row)?;
    } else {
        Output::default().show(&row.etcd, MEMBERS)?;
        if error.is_none() {
            let leader = row.leader.as_deref().unwrap_or("none");
            let policy = row.policy.as_deref().unwrap_or("none");
            let policies = row.policies.iter();
            let policies: String = policies
                .map(|(group, policy)| format!(" (group {group}: {policy})"))
                .collect();
            let wireguard = row.wireguard;
            let wireguard = wireguard.map_or(String::new(), |port| {
                format!(", frames encrypted by WireGuard at UDP port {port}")
            });
            print(&format!(
                "leader {leader}, policy {policy}{policies}, lease {} s{wireguard}\n{}, {} of them up; {}, {} of them waiting\n",
                row.lease_s.unwrap_or(0),
                cluster::count(row.hosts, "host"),
                row.up,
                cluster::count(row.guests, "guest"),
                row.waiting
            ))?;
        }
    }
    error.map_or(Ok(()), Err)
}

fn follow(context: &Context) -> Result {
    with(context, async |store: Store| {
        let mut view = View::default();
        let mut seen = store.read(&mut view, "").await?;
        loop {
            let watched = async {
                let mut watch = store.watch("", seen + 1).await?;
                loop {
                    let (changes, to) = watch.next().await?;
                    for change in changes {
                        if let Some(sentence) = events::sentence(&view, &change) {
                            let time = rfc3339(SystemTime::now());
                            print(&format!("{time} {}\n", vmm::printable(&sentence)))?;
                        }
                        let value = change.value.as_deref();
                        view.apply(&change.key, value, change.revision);
                    }
                    view.seen_to(to);
                    seen = seen.max(to);
                }
            };
            let ended: Result<()> = watched.await;
            let Err(error) = ended else { return Ok(()) };
            if error.kind != node::error::Kind::Unavailable {
                return Err(error);
            }
            log::say(&error);
            cluster::pause(Duration::from_secs(1)).await;
        }
    })
}
