//! `weir create`, `weir ls`, `weir show`.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use node::error::Error;
use node::function::{self, Configuration};
use node::model::{Guest, GuestSeries, Health, Isolation, Memory, Object, Restart};
use serde_json::{Map, Value, json};
use vmm::printable;

use super::cluster::ClusterOption;
use super::clustered::{self, DemandArgs};
use super::output::{Column, Output, made, maybe, name, print};
use super::verb::Progress;
use super::{Result, client};
use crate::check::setting;
use crate::run::cpus::{self, CpuList};
use crate::run::foreground::{IsolationArg, memory};

/// Creates a guest that runs until it is destroyed, or many
#[derive(Debug, Args)]
#[command(
    override_usage = "weir create [OPTIONS] GUEST CONFIG [NAME=VALUE]...
       weir create [OPTIONS] --count N --name NAME CONFIG [NAME=VALUE]...",
    after_help = "Examples:
  weir create fw firewall --link inside=lan --link outside=eth1
  weir create fw firewall --link inside=fw-lan --link outside=fw-wan --restart always
  weir create slow limiter.click RATE=1000 --link a=lan --link b=eth1
  weir create r1 router -p net1_ip=192.168.1.1 -p net1_net=192.168.1.0/24 --link net1=lan --link net2=eth1
  weir create fw firewall --link inside=lan --link outside=eth1 --health 'connections.drops < 1000 every 5s failures 3'
  weir create --count 100 --name 'fw-{}' firewall --link inside=lan --link outside=eth1
  weir create --cluster --count 500 --name 'fw-{}' firewall --link inside=lan --link outside=eth1"
)]
pub struct CreateGuest {
    /// The guest's name, unless there is --name; the Click configuration, a file or a function; values for its
    /// variables
    #[arg(required = true, value_name = "GUEST CONFIG NAME=VALUE")]
    pub arguments: Vec<String>,
    /// A value for a function's parameter (`weir function NAME` lists them)
    #[arg(short, long = "parameter", value_name = "NAME=VALUE", value_parser = setting)]
    pub parameters: Vec<(String, String)>,
    /// The guests' name, with {} for the number of each; {} in a --link is the number, too
    #[arg(long, value_name = "NAME", requires = "count")]
    pub name: Option<String>,
    /// Number of guests
    #[arg(long, value_name = "N", requires = "name")]
    pub count: Option<u32>,
    /// The first guest's number
    #[arg(long, value_name = "N", requires = "name", default_value_t = 1)]
    pub first: u32,
    /// An interface of the configuration: INTERFACE=VNIC, or INTERFACE=LINK for a new VNIC on it
    #[arg(short, long = "link", value_name = "LINK")]
    pub links: Vec<GuestLink>,
    /// The NSM that serves its sockets: SocketServer and SocketClient
    #[arg(long, value_name = "NSM")]
    pub nsm: Option<String>,
    /// The wall around the guest
    #[arg(long, value_enum, default_value_t = IsolationArg::Auto)]
    pub isolation: IsolationArg,
    /// Private memory, as in 4M or 2048K; ring buffers come on top
    #[arg(long, default_value = "4M", value_parser = memory, value_name = "SIZE")]
    pub memory: u64,
    /// Slots of each ring, a power of two from 64 to 2048
    #[arg(long, default_value_t = 256, value_name = "N")]
    pub ring_slots: u32,
    /// Number of vCPUs
    #[arg(long, default_value_t = 1, value_parser = cpus::count, value_name = "N")]
    pub cpus: usize,
    /// CPUs of the host for the vCPUs, as in 0,1 or 2-5; default: any
    #[arg(long, value_name = "CPUS")]
    pub pin: Option<CpuList>,
    /// Processors of the host that the guest may use, as in 0.5 or 50%
    #[arg(long, value_name = "CPUS", value_parser = cpu_max)]
    pub cpu_max: Option<Limit<f64>>,
    /// Memory that the guest's process may use, as in 16M
    #[arg(long, value_name = "SIZE", value_parser = memory_max)]
    pub memory_max: Option<Limit<u64>>,
    /// When the node restarts the guest
    #[arg(long, value_enum, default_value_t = RestartArg::OnFailure)]
    pub restart: RestartArg,
    /// A check of the guest's health: a handler, its expected value, how often it is read, and the
    /// number of failures in a row that make the guest unhealthy
    #[arg(long, value_name = "CHECK")]
    pub health: Vec<Health>,
    #[command(flatten)]
    pub cluster: ClusterOption,
    #[command(flatten)]
    pub demand: Box<DemandArgs>,
    /// Print the guest as JSON
    #[arg(long)]
    pub json: bool,
}

/// One `--link`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestLink {
    interface: String,
    on: String,
}

impl FromStr for GuestLink {
    type Err = String;

    fn from_str(text: &str) -> Result<GuestLink, String> {
        let parts = text.split_once('=');
        let parts = parts.filter(|(interface, on)| !interface.is_empty() && !on.is_empty());
        let (interface, on) = parts.ok_or_else(|| {
            format!(
                "‘{text}’ is not a link: write INTERFACE=VNIC or INTERFACE=LINK, as in inside=lan"
            )
        })?;
        Ok(GuestLink {
            interface: interface.into(),
            on: on.into(),
        })
    }
}

/// A limit; none: as much as there is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit<T>(Option<T>);

/// Reads `--cpu-max`.
fn cpu_max(text: &str) -> Result<Limit<f64>, String> {
    if text == "max" {
        return Ok(Limit(None));
    }
    let (digits, whole) = match text.strip_suffix('%') {
        Some(digits) => (digits, 100.0),
        None => (text, 1.0),
    };
    let cpus = digits.parse::<f64>().ok().filter(|it| it.is_finite());
    cpus.map(|it| Limit(Some(it / whole)))
        .ok_or_else(|| "write a number of processors, as in 0.5 or 50%, or max".into())
}

/// Reads `--memory-max`.
fn memory_max(text: &str) -> Result<Limit<u64>, String> {
    match text {
        "max" => Ok(Limit(None)),
        text => memory(text).map(|bytes| Limit(Some(bytes))),
    }
}

/// `--restart`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RestartArg {
    /// After any end
    Always,
    /// After any end but a normal halt
    OnFailure,
    /// At no time
    Never,
}

impl From<RestartArg> for Restart {
    fn from(arg: RestartArg) -> Restart {
        match arg {
            RestartArg::Always => Restart::Always,
            RestartArg::OnFailure => Restart::OnFailure,
            RestartArg::Never => Restart::Never,
        }
    }
}

/// Changes guests: at once where that is possible, else at the next start
#[derive(Debug, Args)]
#[command(
    after_help = "A guest that runs takes --restart, --health and --config at once; the configuration is swapped in and
keeps its state. The rest holds from its next start on, which `weir show` says as ‘pending’.

Examples:
  weir set fw --memory 64M
  weir set 'fw-*' --restart always
  weir set fw --link outside=eth2 && weir restart fw"
)]
pub struct SetArgs {
    /// Names and patterns of guests, as in 'fw-*'
    #[arg(required = true, value_name = "GUEST")]
    pub guests: Vec<String>,
    /// Values for the configuration's variables, as in RATE=1000
    #[arg(long = "variable", value_name = "NAME=VALUE", value_parser = setting)]
    pub variables: Vec<(String, String)>,
    /// The Click configuration
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// An interface that is new or moves: INTERFACE=VNIC, or INTERFACE=LINK for a new VNIC on it
    #[arg(short, long = "link", value_name = "LINK")]
    pub links: Vec<GuestLink>,
    /// An interface that is removed
    #[arg(long, value_name = "INTERFACE")]
    pub unlink: Vec<String>,
    /// The NSM that serves its sockets
    #[arg(long, value_name = "NSM")]
    pub nsm: Option<String>,
    /// Takes its NSM away
    #[arg(long, conflicts_with = "nsm")]
    pub no_nsm: bool,
    /// The wall around the guest
    #[arg(long, value_enum)]
    pub isolation: Option<IsolationArg>,
    /// Private memory, as in 4M or 2048K; ring buffers come on top
    #[arg(long, value_parser = memory, value_name = "SIZE")]
    pub memory: Option<u64>,
    /// Slots of each ring, a power of two from 64 to 2048
    #[arg(long, value_name = "N")]
    pub ring_slots: Option<u32>,
    /// Number of vCPUs
    #[arg(long, value_parser = cpus::count, value_name = "N")]
    pub cpus: Option<usize>,
    /// CPUs of the host for the vCPUs, as in 0,1 or 2-5
    #[arg(long, value_name = "CPUS", conflicts_with = "unpin")]
    pub pin: Option<CpuList>,
    /// Let the vCPUs run on any CPU of the host
    #[arg(long)]
    pub unpin: bool,
    /// Processors of the host that the guests may use, as in 0.5 or 50%; max: all
    #[arg(long, value_name = "CPUS", value_parser = cpu_max)]
    pub cpu_max: Option<Limit<f64>>,
    /// Memory that the guests' processes may use, as in 16M; max: no limit
    #[arg(long, value_name = "SIZE", value_parser = memory_max)]
    pub memory_max: Option<Limit<u64>>,
    /// When the node restarts the guest
    #[arg(long, value_enum)]
    pub restart: Option<RestartArg>,
    /// Health checks of the guests, which replace their present ones
    #[arg(long, value_name = "CHECK", conflicts_with = "no_health")]
    pub health: Vec<Health>,
    /// No checks of the guests' health
    #[arg(long)]
    pub no_health: bool,
    /// Print the guests as JSON
    #[arg(long)]
    pub json: bool,
}

impl From<IsolationArg> for Isolation {
    fn from(arg: IsolationArg) -> Isolation {
        match arg {
            IsolationArg::Vm => Isolation::Vm,
            IsolationArg::Process => Isolation::Process,
            IsolationArg::Auto => Isolation::Auto,
        }
    }
}

/// Lists guests
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weir ls\n  weir ls --watch\n  weir ls 'fw-*' -p -o guest,state"
)]
pub struct LsArgs {
    /// Names and patterns of guests; default: all
    pub guests: Vec<String>,
    /// Show the list again each second, until interrupted
    #[arg(short, long)]
    pub watch: bool,
    #[command(flatten)]
    pub cluster: ClusterOption,
    #[command(flatten)]
    pub output: Output,
}

/// Shows all that is known of guests, and their configurations
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weir show fw\n  weir show 'fw-*' --json")]
pub struct ShowArgs {
    /// Names and patterns of guests
    #[arg(required = true, value_name = "GUEST")]
    pub guests: Vec<String>,
    #[command(flatten)]
    pub cluster: ClusterOption,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

const COLUMNS: &[Column<Object<Guest>>] = &[
    Column::new("guest", |g| g.name.clone()),
    Column::new("state", |g| name(&g.status.state)),
    Column::new("pid", |g| maybe(g.status.pid.as_ref())),
    Column::new("uptime", |g| {
        let uptime = g.status.uptime_s;
        uptime.map_or_else(String::new, |seconds| {
            humantime::format_duration(Duration::from_secs(seconds as u64)).to_string()
        })
    }),
    Column::new("cpu", |g| {
        let cpu = g.status.cpu_s;
        cpu.map_or_else(String::new, |seconds| format!("{seconds:.2}s"))
    }),
    Column::new("rss", |g| {
        let resident = g.status.resident;
        resident.map_or_else(String::new, |bytes| format!("{}K", bytes >> 10))
    }),
    Column::new("wall", |g| maybe(g.status.wall.as_ref())),
    Column::new("interfaces", |g| {
        let vnics = g.status.vnics.iter();
        let shown = vnics.map(|(name, vnic)| format!("{name}={vnic}"));
        shown.collect::<Vec<_>>().join(",")
    }),
    Column::new("reason", |g| maybe(g.status.reason.as_ref())),
    Column::extra("domain", |g| g.status.domain_id.to_string()),
    Column::extra("variables", |g| {
        let variables = g.spec.variables.iter();
        let shown = variables.map(|(name, value)| format!("{name}={value}"));
        shown.collect::<Vec<_>>().join(",")
    }),
    Column::extra("configurations", |g| {
        let states = g.status.configurations.iter();
        let shown = states.map(|(configuration, state)| format!("{configuration}={}", name(state)));
        shown.collect::<Vec<_>>().join(",")
    }),
    Column::extra("pending", |g| g.status.pending.join(",")),
    Column::extra("id", |g| g.status.id.to_string()),
    Column::extra("memory", |g| g.spec.memory().to_string()),
    Column::extra("cpu-max", |g| maybe(g.spec.cpu_max.as_ref())),
    Column::extra("memory-max", |g| {
        g.spec.memory_max.map_or_else(String::new, String::from)
    }),
    Column::extra("restart", |g| name(&g.spec.restart)),
    Column::extra("health", |g| {
        let checks = g.spec.health.iter().map(ToString::to_string);
        checks.collect::<Vec<_>>().join("; ")
    }),
    Column::extra("restarts", |g| g.status.restarts.to_string()),
    Column::extra("boot-ms", |g| {
        let ms = g.status.boot_ms;
        ms.map_or_else(String::new, |ms| format!("{ms:.2}"))
    }),
];

/// The text of a configuration, a file or a function, and its variables.
pub(super) fn read_config(
    path: &Path,
    settings: &[(String, String)],
) -> Result<(String, BTreeMap<String, String>)> {
    let config = function::read(path, settings, abi::boot::CONFIG_MAX);
    let Configuration { text, settings } = config.map_err(Error::invalid)?;
    let text = String::from_utf8(text).map_err(|_| {
        let file = path.display();
        Error::invalid(format_args!("{file}: a configuration is UTF-8 text"))
    })?;
    Ok((text, settings.into_iter().collect()))
}

/// Runs `weir set`.
pub fn set(args: &SetArgs) -> Result {
    let mut patch = Map::new();
    let mut put = |field: &str, value: Option<Value>| {
        patch.extend(value.map(|value| (field.to_string(), value)));
    };
    let variables = match &args.config {
        Some(path) => {
            let (config, variables) = read_config(path, &args.variables)?;
            put("config", Some(config.into()));
            put("file", Some(path.display().to_string().into()));
            variables
        }
        None => BTreeMap::new(),
    };
    put("variables", values(variables));
    let links = interfaces(&args.links)?.into_iter();
    let links = links.map(|(interface, on)| (interface, Value::from(on)));
    let gone = args.unlink.iter().map(|name| (name.clone(), Value::Null));
    let interfaces: Map<_, _> = gone.chain(links).collect();
    put(
        "interfaces",
        (!interfaces.is_empty()).then(|| interfaces.into()),
    );
    put(
        "isolation",
        args.isolation.map(|it| json!(Isolation::from(it))),
    );
    put("nsm", args.nsm.clone().map(Value::from));
    put("nsm", args.no_nsm.then_some(Value::Null));
    put("memory", args.memory.map(|it| json!(Memory(it))));
    put("ring-slots", args.ring_slots.map(Value::from));
    put("cpus", args.cpus.map(Value::from));
    put("pin", args.pin.clone().map(|it| it.into_cpus().into()));
    put("pin", args.unpin.then_some(Value::Null));
    put("cpu-max", args.cpu_max.map(|Limit(it)| json!(it)));
    let memory_max = args.memory_max.map(|Limit(it)| json!(it.map(Memory)));
    put("memory-max", memory_max);
    put("restart", args.restart.map(|it| json!(Restart::from(it))));
    put(
        "health",
        (!args.health.is_empty()).then(|| json!(args.health)),
    );
    put("health", args.no_health.then_some(Value::Null));
    if patch.is_empty() && args.variables.is_empty() {
        return Err(Error::invalid(
            "nothing to set: `weir set --help` lists the settings",
        ));
    }
    let client = client();
    let mut changed = Vec::new();
    for guest in client.select::<Guest>(&args.guests)? {
        let mut patch = patch.clone();
        if args.config.is_none() && !args.variables.is_empty() {
            let set = parameters(&client.show::<Guest>(&guest.name)?.spec, &args.variables)?;
            patch.extend(values(set).map(|set| ("variables".into(), set)));
        }
        let guest = client.patch::<Guest>(&guest.name, &Value::from(patch))?;
        tell_messages(&guest);
        let pending = &guest.status.pending;
        if !pending.is_empty() && !args.json {
            let (name, pending) = (&guest.name, pending.join(", "));
            print(&format!(
                "{name}: {pending} from its next start on: `weir restart {name}`\n"
            ))?;
        }
        changed.push(guest);
    }
    made(args.json, &changed)
}

/// Variables as the API has them; `None` if there are none.
fn values(variables: BTreeMap<String, String>) -> Option<Value> {
    let values = variables.into_iter();
    let values: Map<_, _> = values
        .map(|(name, value)| (name, Value::from(value)))
        .collect();
    (!values.is_empty()).then(|| values.into())
}

/// Further values for the variables of a guest's configuration: those of a function's parameters as it
/// takes them, together with the guest's present ones.
fn parameters(guest: &Guest, given: &[(String, String)]) -> Result<BTreeMap<String, String>> {
    let function = guest.file.as_deref().and_then(function::find);
    let function = function.filter(|function| function.text == guest.config);
    let set = match function {
        Some(function) => function.change(&guest.variables, given),
        None => Ok(given.to_vec()),
    };
    Ok(set.map_err(Error::invalid)?.into_iter().collect())
}

/// What each interface is, as `--link` has it.
fn interfaces(links: &[GuestLink]) -> Result<BTreeMap<String, String>> {
    let mut interfaces = BTreeMap::new();
    for GuestLink { interface, on } in links {
        if interfaces.insert(interface.clone(), on.clone()).is_some() {
            return Err(Error::invalid(format_args!(
                "two links are named ‘{interface}’: give each interface one --link"
            )));
        }
    }
    Ok(interfaces)
}

/// Runs `weir create`.
pub fn create(args: &CreateGuest) -> Result {
    let mut words = args.arguments.iter();
    let guest = words.next().filter(|_| args.name.is_none());
    let path = if guest.is_some() {
        words.next()
    } else {
        args.arguments.first()
    };
    let path = path.map(PathBuf::from);
    let path =
        path.ok_or_else(|| Error::invalid("there is no configuration: weir create GUEST CONFIG"))?;
    let settings = words.map(|word| setting(word).map_err(Error::invalid));
    let settings = settings.chain(args.parameters.iter().cloned().map(Ok));
    let (config, variables) = read_config(&path, &settings.collect::<Result<Vec<_>>>()?)?;
    let new = Guest {
        config,
        file: Some(path),
        variables,
        configurations: BTreeMap::new(),
        interfaces: interfaces(&args.links)?,
        nsm: args.nsm.clone(),
        isolation: args.isolation.into(),
        memory: Some(Memory(args.memory)),
        ring_slots: Some(args.ring_slots),
        cpus: Some(args.cpus),
        pin: args.pin.clone().map_or_else(Vec::new, CpuList::into_cpus),
        cpu_max: args.cpu_max.and_then(|Limit(it)| it),
        memory_max: args.memory_max.and_then(|Limit(it)| it).map(Memory),
        restart: args.restart.into(),
        health: args.health.clone(),
    };
    if let Some(context) = args.cluster.context()? {
        let guests = match (guest, &args.name) {
            (Some(guest), None) => vec![(guest.clone(), new)],
            (_, name) => series(args, name.clone().unwrap_or_default(), new)
                .guests()?
                .collect(),
        };
        return clustered::create(&context, guests, &args.demand, args.json);
    }
    args.demand.refuse()?;
    match (guest, &args.name) {
        (Some(guest), None) => {
            let guest = client().create(&Object::new(guest, new))?;
            tell_messages(&guest);
            made(args.json, &guest)
        }
        (_, name) => create_series(args, name.clone().unwrap_or_default(), new),
    }
}

pub(super) fn tell_messages(guest: &Object<Guest>) {
    if let Some(messages) = &guest.status.messages {
        eprint!("{messages}");
    }
}

fn series(args: &CreateGuest, name: String, guest: Guest) -> GuestSeries {
    GuestSeries {
        name,
        count: args.count.unwrap_or(1),
        first: args.first,
        guest,
    }
}

fn create_series(args: &CreateGuest, name: String, guest: Guest) -> Result {
    let series = series(args, name, guest);
    let mut progress = Progress::new(Some(series.count.into()));
    client().create_series(&series, |outcome| progress.tell(outcome))?;
    let outcomes = progress.end()?;
    made(args.json, &outcomes)
}

/// Runs `weir ls`.
pub fn ls(args: &LsArgs) -> Result {
    if let Some(context) = args.cluster.context()? {
        return repeatedly(
            args.watch,
            || clustered::rows(&context, &args.guests),
            |guests| args.output.show_again(guests, clustered::COLUMNS),
        );
    }
    let client = client();
    repeatedly(
        args.watch,
        || client.select::<Guest>(&args.guests),
        |guests| args.output.show_again(guests, COLUMNS),
    )
}

/// Shows a list, once or each second.
fn repeatedly<T>(
    watch: bool,
    look: impl Fn() -> Result<Vec<T>>,
    show: impl Fn(&[T]) -> Result<bool>,
) -> Result {
    loop {
        let guests = look()?;
        // On a terminal, each list takes the last one's place (ECMA-48: home, erase the rest).
        if watch && std::io::stdout().is_terminal() {
            print("\u{1b}[H\u{1b}[2J")?;
        }
        let is_read = show(&guests)?;
        if !watch || !is_read {
            return Ok(());
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Runs `weir show`.
pub fn show(args: &ShowArgs) -> Result {
    if let Some(context) = args.cluster.context()? {
        return clustered::show(&context, &args.guests, args.json);
    }
    let client = client();
    // A list has no configurations.
    let listed = client.select::<Guest>(&args.guests)?;
    let guests = listed.iter().map(|guest| client.show::<Guest>(&guest.name));
    let guests = guests.collect::<Result<Vec<_>>>()?;
    if args.json {
        return made(true, &guests);
    }
    let texts: Vec<_> = guests.iter().map(described).collect();
    print(&texts.join("\n"))
}

/// A guest as `weir show` prints it: its fields, one a line, and the configuration, indented.
fn described(guest: &Object<Guest>) -> String {
    let fields = COLUMNS
        .iter()
        .map(|column| (column.name(), column.value(guest)));
    let fields = fields.filter(|(_, value)| !value.is_empty());
    let mut text: String = fields
        .map(|(name, value)| format!("{name:<11} {}\n", printable(&value)))
        .collect();
    describe_config(
        &mut text,
        "config",
        &guest.spec.file_name(),
        &guest.spec.config,
    );
    let files = guest.spec.files();
    for (name, configuration) in &guest.spec.configurations {
        let file = files.get(name).map_or("", String::as_str);
        describe_config(
            &mut text,
            &format!("config {name}"),
            file,
            &configuration.config,
        );
    }
    text
}

pub(super) fn describe_config(text: &mut String, what: &str, file: &str, config: &str) {
    *text += &format!("{what:<11} {}\n", printable(file));
    for line in config.lines() {
        // Tabs are part of how it is written.
        let line: Vec<_> = line.split('\t').map(printable).collect();
        *text += format!("    {}", line.join("\t")).trim_end();
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_names_an_interface_and_what_it_is() {
        let link: GuestLink = "inside=lan".parse().unwrap();
        assert_eq!(
            (link.interface.as_str(), link.on.as_str()),
            ("inside", "lan")
        );
        for wrong in ["", "inside", "=lan", "inside="] {
            let error = wrong.parse::<GuestLink>().unwrap_err();
            assert!(error.contains("INTERFACE=VNIC"), "{error}");
        }
    }
}
