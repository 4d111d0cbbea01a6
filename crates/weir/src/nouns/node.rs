//! `weir node`.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::PathBuf;

use clap::Args;
use node::client::Client;
use node::config::Config;
use node::error::Error;
use node::log;
use node::model::{Action, Guest, GuestAction};
use node::paths::Paths;
use node::server::{self, Settings};
use node::tls::Files;
use switch::process::Options;

use super::Result;
use super::output::print;
use super::verb::Progress;

/// Runs the node of this host: links, VNICs, flows, guests, and their API
#[derive(Debug, Args)]
#[command(
    after_help = "The API is at $WEIR_RUN/node.sock (/run/weir), the state in $WEIR_STATE (/var/lib/weir).

When the node ends, by SIGTERM, SIGINT or a crash, guests and the switch continue, and the next
node takes them over. Without --lanes and --cpus, the switch runs as it did last. With other
values than the running switch has, a new switch replaces it.

Examples:
  weir node
  weir node --lanes 2 --cpus 0,1
  weir node --log json
  weir node --listen 192.0.2.1:7443 --tls-cert node.pem --tls-key node.key --tls-client-ca ca.pem --config node.toml
  weir node --openapi >node.json"
)]
pub struct NodeArgs {
    /// Number of lanes (threads) of the switch; default: as last, at first 1
    #[arg(long, value_name = "N")]
    pub lanes: Option<usize>,
    /// CPUs of the lanes, separated by commas; default: any
    #[arg(long, value_delimiter = ',', value_name = "CPU")]
    pub cpus: Vec<usize>,
    /// Let the users of a group use the API
    #[arg(long, value_name = "NAME")]
    pub group: Option<String>,
    /// Serve clients of the network as well, at this address by TLS
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<std::net::SocketAddr>,
    /// Certificate of the node (PEM)
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// Authority that signs the certificates of clients (PEM)
    #[arg(long, value_name = "FILE")]
    pub tls_client_ca: Option<PathBuf>,
    /// File of settings (TOML); an option given here goes before it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// End and remove everything: guests, VNICs, links, the switch, the state
    #[arg(long)]
    pub purge: bool,
    /// Print the running node's status (JSON), with damaged records and unknown guests, and exit
    #[arg(long)]
    pub status: bool,
    /// Have the running node end guests of which no record is left, and exit
    #[arg(long)]
    pub end_unknown: bool,
    /// Have the running node forget the damaged records of its state, and exit
    #[arg(long)]
    pub forget_damaged: bool,
    /// Print the API's description (OpenAPI) and exit
    #[arg(long)]
    pub openapi: bool,
    /// Format of the log on standard error: human, or json for one object a line; default: human
    #[arg(long, value_name = "FORMAT", env = "WEIR_LOG")]
    pub log: Option<log::Format>,
    /// Lowest level to log: error, warn, info, debug or trace; default: info
    #[arg(long, value_name = "LEVEL", env = "WEIR_LOG_LEVEL")]
    pub log_level: Option<tracing::Level>,
}

impl NodeArgs {
    /// How the node is to run: by the command line, else by the file of settings.
    fn settings(&self, mut config: Config) -> Result<Settings> {
        let lanes = self.lanes.or(config.switch.lanes);
        let cpus = match self.cpus.as_slice() {
            [] => config.switch.cpus.clone(),
            cpus => cpus.to_vec(),
        };
        let asked = lanes.is_some() || !cpus.is_empty();
        let listen = config.listen.take().map(|listen| listen.files());
        let listen = self.listen_by(listen)?;
        if listen.is_some() && config.roles.is_empty() {
            return Err(Error::invalid(
                "clients of the network have no roles: name a file of settings with [roles] (`--config`)",
            ));
        }
        Ok(Settings {
            switch: asked.then_some(Options {
                lanes: lanes.unwrap_or(1),
                cpus,
            }),
            group: self.group.clone().or(config.group.clone()),
            listen,
            config,
        })
    }

    /// The address for clients of the network, by the file of settings.
    fn listen_by(
        &self,
        set: Option<(std::net::SocketAddr, Files)>,
    ) -> Result<Option<(std::net::SocketAddr, Files)>> {
        let (address, files) = set.unzip();
        let Some(address) = self.listen.or(address) else {
            return Ok(None);
        };
        let file = |given: &Option<PathBuf>, set: fn(Files) -> PathBuf, option: &str| {
            let file = given.clone().or_else(|| files.clone().map(set));
            file.ok_or_else(|| {
                Error::invalid(format_args!(
                    "a node that listens at {address} needs {option}: give it, or set it in the file of settings"
                ))
            })
        };
        let files = Files {
            cert: file(&self.tls_cert, |files| files.cert, "--tls-cert")?,
            key: file(&self.tls_key, |files| files.key, "--tls-key")?,
            ca: file(&self.tls_client_ca, |files| files.ca, "--tls-client-ca")?,
        };
        Ok(Some((address, files)))
    }
}

/// Runs `weir node`.
pub fn run(args: &NodeArgs) -> Result {
    if args.openapi {
        return print(&(node::api::description() + "\n"));
    }
    if args.status {
        let status = super::client().node()?;
        let text = serde_json::to_string_pretty(&status).map_err(Error::failed)?;
        return print(&(text + "\n"));
    }
    if args.end_unknown {
        for guest in super::client().end_unknown()? {
            print(&format!("ended {} (process {})\n", guest.name, guest.pid))?;
        }
        return Ok(());
    }
    if args.forget_damaged {
        return super::client().forget_damaged();
    }
    let config = args
        .config
        .as_deref()
        .map_or_else(|| Ok(Config::default()), Config::read)?;
    let (format, level) = (config.log.format, config.log.level);
    log::start(
        args.log.or(format).unwrap_or_default(),
        args.log_level.or(level).unwrap_or(tracing::Level::INFO),
    );
    let settings = args.settings(config)?;
    let paths = Paths::from_environment();
    if super::is_remote() {
        return Err(Error::invalid(
            "this runs or purges a node of this host, not the one that --node names: leave --node and WEIR_NODE out",
        ));
    }
    if args.purge {
        destroy_guests(&Client::new(paths.api()))?;
        return server::purge(paths, settings.switch);
    }
    let api = paths.api();
    server::run(paths, &settings, |node| {
        notify();
        let status = node.status().unwrap_or_default();
        let (damaged, unknown) = (status.damaged.len(), status.unknown_guests.len());
        let api = api.display();
        if damaged + unknown == 0 {
            tracing::info!("the node is ready at {api}");
        } else {
            tracing::warn!(
                "the node is ready at {api}; {damaged} damaged records and {unknown} unknown guests: `weir node --status` names them"
            );
        }
    })
}

/// Destroys all guests of a running node, as far as possible, with progress. The purge removes the rest.
fn destroy_guests(client: &Client) -> Result {
    if !client.is_there() {
        return Ok(());
    }
    let guests: Vec<_> = client
        .list::<Guest>()?
        .into_iter()
        .map(|it| it.name)
        .collect();
    if guests.len() < 2 {
        return Ok(());
    }
    let mut progress = Progress::new(Some(guests.len() as u64));
    let action = Action::Destroy;
    client.act(&GuestAction { action, guests }, |it| progress.tell(it))?;
    let interrupted = progress.is_interrupted();
    match progress.end() {
        Err(error) if interrupted => Err(error.within(|why| {
            format!("{why}; nothing else was removed: `weir node --purge` removes the rest")
        })),
        _ => Ok(()),
    }
}

/// Tells the service manager that started this process, if one did, that the node is ready (sd_notify(3)).
fn notify() {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(&name),
    };
    let told =
        address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(b"READY=1", &address));
    if let Err(error) = told {
        tracing::warn!("the service manager cannot be told that the node is ready: {error}");
    }
}
