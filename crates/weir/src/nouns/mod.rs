//! The commands that are clients of a node: `weir link`, `stub`, `switch`, `vnic`, `flow`, `nsm`,
//! and the commands on guests; and `weir node`, the node itself. Modelled on dladm and flowadm.

pub mod chain;
pub mod cluster;
pub mod clustered;
pub mod configuration;
pub mod copy;
pub mod crash;
pub mod events;
pub mod flow;
pub mod guest;
pub mod host;
pub mod link;
pub mod log;
pub mod network;
pub mod node;
pub mod nsm;
pub mod output;
pub mod plugin;
pub mod policy;
pub mod stat;
pub mod stub;
pub mod switch;
pub mod verb;
pub mod vnic;
pub mod wire;

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::OnceLock;

use ::node::client::Client;
use ::node::error::Error;
use ::node::model::Action;
use ::node::tls::Files;
use ::switch::properties::PropertyError;
use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::Value;

/// The result of a command.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

// A documentation comment would be the whole command's help.
#[derive(Debug, Subcommand)]
pub enum NounCommand {
    Node(node::NodeArgs),
    Create(guest::CreateGuest),
    Ls(guest::LsArgs),
    Show(guest::ShowArgs),
    Set(guest::SetArgs),
    Install(configuration::InstallArgs),
    Uninstall(configuration::UninstallArgs),
    Console(log::ConsoleArgs),
    Logs(log::LogsArgs),
    Events(events::EventsArgs),
    #[command(subcommand, arg_required_else_help = true)]
    Crash(crash::CrashCommand),
    /// Starts guests that do not run
    #[command(after_help = "Examples:\n  weir start fw\n  weir start 'fw-*' nat")]
    Start(verb::GuestsArgs),
    /// Ends guests; each keeps its VNICs, and stays stopped until it is started
    #[command(after_help = "Examples:\n  weir stop fw\n  weir stop 'fw-*' nat")]
    Stop(verb::GuestsArgs),
    /// Ends guests and starts them, with the loss of their state
    #[command(after_help = "Examples:\n  weir restart fw\n  weir restart 'fw-*' nat")]
    Restart(verb::GuestsArgs),
    /// Pauses guests; each keeps its state until it is resumed
    #[command(after_help = "Examples:\n  weir pause fw\n  weir pause 'fw-*' nat")]
    Pause(verb::GuestsArgs),
    /// Resumes paused guests
    #[command(after_help = "Examples:\n  weir resume fw\n  weir resume 'fw-*' nat")]
    Resume(verb::GuestsArgs),
    /// Announces the Ethernet addresses of guests on their links, so that switches learn where they are
    #[command(
        after_help = "It sends one RARP frame for each VNIC, as after a migration.

Examples:
  weir announce fw
  weir announce 'fw-*'"
    )]
    Announce(verb::GuestsArgs),
    /// Ends guests and removes them, with the VNICs made for them
    #[command(
        after_help = "It removes the guest's state, its configurations, what it printed, and the VNICs that were made for it
(`--link INTERFACE=LINK`), with the flow table entries that lead to them. It keeps VNICs that were given to it
(`--link INTERFACE=VNIC`), links, its crash reports, its events, and files that it was saved to.

Examples:
  weir destroy fw
  weir destroy 'fw-*' nat
  weir destroy --cluster 'fw-*'"
    )]
    Destroy(verb::DestroyArgs),
    Save(copy::SaveArgs),
    Restore(copy::RestoreArgs),
    Clone(copy::CloneArgs),
    Migrate(copy::MigrateArgs),
    /// Makes guests templates, which stand still for clones until they are resumed
    #[command(after_help = "Examples:\n  weir template fw\n  weir clone fw --count 100")]
    Template(verb::GuestsArgs),
    /// Gives a guest another name; its VNICs keep theirs
    Rename(verb::RenameArgs),
    #[command(subcommand, arg_required_else_help = true)]
    Link(link::LinkCommand),
    #[command(subcommand, arg_required_else_help = true)]
    Stub(stub::StubCommand),
    #[command(subcommand, arg_required_else_help = true)]
    Switch(switch::SwitchCommand),
    #[command(subcommand, arg_required_else_help = true)]
    Vnic(vnic::VnicCommand),
    #[command(subcommand, arg_required_else_help = true)]
    Flow(flow::FlowCommand),
    #[command(subcommand, arg_required_else_help = true)]
    Wire(wire::WireCommand),
    #[command(subcommand, arg_required_else_help = true)]
    Chain(chain::ChainCommand),
    #[command(subcommand, arg_required_else_help = true)]
    Nsm(nsm::NsmCommand),
    #[command(subcommand, arg_required_else_help = true)]
    Policy(policy::PolicyCommand),
    Place(policy::PlaceArgs),
    #[command(subcommand, arg_required_else_help = true)]
    Plugin(plugin::PluginCommand),
    #[command(subcommand, arg_required_else_help = true)]
    Cluster(cluster::ClusterCommand),
    #[command(subcommand, arg_required_else_help = true)]
    Host(host::HostCommand),
    #[command(subcommand, arg_required_else_help = true)]
    Network(network::NetworkCommand),
    Balance(policy::BalanceArgs),
}

/// Runs a command that asks a node, or is one.
pub fn run(command: &NounCommand) -> Result {
    match command {
        NounCommand::Node(args) => node::run(args),
        NounCommand::Create(args) => guest::create(args),
        NounCommand::Ls(args) => guest::ls(args),
        NounCommand::Show(args) => guest::show(args),
        NounCommand::Set(args) => guest::set(args),
        NounCommand::Install(args) => configuration::install(args),
        NounCommand::Uninstall(args) => configuration::uninstall(args),
        NounCommand::Console(args) => log::console(args),
        NounCommand::Logs(args) => log::logs(args),
        NounCommand::Events(args) => events::run(args),
        NounCommand::Crash(command) => crash::run(command),
        NounCommand::Start(args) => verb::act(Action::Start, args),
        NounCommand::Stop(args) => verb::act(Action::Stop, args),
        NounCommand::Restart(args) => verb::act(Action::Restart, args),
        NounCommand::Pause(args) => verb::act(Action::Pause, args),
        NounCommand::Resume(args) => verb::act(Action::Resume, args),
        NounCommand::Announce(args) => verb::act(Action::Announce, args),
        NounCommand::Destroy(args) => verb::destroy(args),
        NounCommand::Save(args) => copy::save(args),
        NounCommand::Restore(args) => copy::restore(args),
        NounCommand::Clone(args) => copy::clone(args),
        NounCommand::Migrate(args) => copy::migrate(args),
        NounCommand::Template(args) => verb::act(Action::Template, args),
        NounCommand::Rename(args) => verb::rename(args),
        NounCommand::Link(command) => link::run(command),
        NounCommand::Stub(command) => stub::run(command),
        NounCommand::Switch(command) => switch::run(command),
        NounCommand::Vnic(command) => vnic::run(command),
        NounCommand::Flow(command) => flow::run(command),
        NounCommand::Wire(command) => wire::run(command),
        NounCommand::Chain(command) => chain::run(command),
        NounCommand::Nsm(command) => nsm::run(command),
        NounCommand::Policy(command) => policy::run(command),
        NounCommand::Place(args) => policy::place(args),
        NounCommand::Plugin(command) => plugin::run(command),
        NounCommand::Cluster(command) => cluster::run(command),
        NounCommand::Host(command) => host::run(command),
        NounCommand::Network(command) => network::run(command),
        NounCommand::Balance(args) => policy::balance(args),
    }
}

/// The node of the network that was named, if one was.
static REMOTE: OnceLock<Client> = OnceLock::new();

/// Where the node is that commands ask, if it is not this host's.
#[derive(Debug, Args)]
pub struct Remote {
    /// Ask this node of the network instead of this host's: https://HOST:PORT
    #[arg(long, value_name = "URL", env = "WEIR_NODE", requires_all = ["cert", "key", "ca"])]
    node: Option<String>,
    /// Certificate to show to the node of the network (PEM)
    #[arg(long, value_name = "FILE", env = "WEIR_CERT")]
    cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", env = "WEIR_KEY")]
    key: Option<PathBuf>,
    /// Authority that signed the certificate of the node of the network (PEM)
    #[arg(long, value_name = "FILE", env = "WEIR_CA")]
    ca: Option<PathBuf>,
}

impl Remote {
    /// Makes that node the target of this process's commands.
    pub fn choose(&self) -> Result {
        if let (Some(node), Some(cert), Some(key), Some(ca)) =
            (&self.node, &self.cert, &self.key, &self.ca)
        {
            let (cert, key, ca) = (cert.clone(), key.clone(), ca.clone());
            choose(Client::remote(node, &Files { cert, key, ca })?);
        }
        Ok(())
    }
}

/// Makes a node of the network the target of this process's commands.
fn choose(client: Client) {
    // There is one command in a process.
    let _ = REMOTE.set(client);
}

/// Whether a node of the network was named: what runs on this host is of no concern then.
pub fn is_remote() -> bool {
    REMOTE.get().is_some()
}

/// The node that the command line or the environment names.
pub fn client() -> Client {
    let remote = REMOTE.get().cloned();
    remote.unwrap_or_else(Client::from_environment)
}

/// Reads properties as the command line has them: `a=1,b=2`, several times.
pub(crate) fn properties<T>(parts: &[String], more: Option<(&str, String)>) -> Result<T>
where
    T: FromStr<Err = PropertyError>,
{
    let more = more.map(|(name, value)| format!("{name}={value}"));
    let all: Vec<_> = parts.iter().cloned().chain(more).collect();
    Ok(all.join(",").parse()?)
}

/// The changes of `set-prop` as a JSON merge patch: a property that is set to its default is null.
pub(crate) fn set<T>(text: &[String]) -> Result<Value>
where
    T: FromStr<Err = PropertyError> + Serialize,
{
    let text = text.join(",");
    let values = serde_json::to_value(text.parse::<T>()?).map_err(Error::failed)?;
    let names = text.split(',').filter_map(|part| part.split_once('='));
    let names = names.map(|(name, _)| name.trim());
    Ok(names
        .map(|name| (name.to_string(), values[name].clone()))
        .collect())
}

/// The changes of `reset-prop` as a JSON merge patch.
pub(crate) fn reset<T: Default>(
    names: &[String],
    reset: fn(&mut T, &str) -> std::result::Result<(), PropertyError>,
) -> Result<Value> {
    let mut properties = T::default();
    let null = |name: &String| {
        reset(&mut properties, name)?;
        Ok((name.clone(), Value::Null))
    };
    names.iter().map(null).collect()
}
