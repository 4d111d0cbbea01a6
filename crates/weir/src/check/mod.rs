//! `weir check`: reports errors in a configuration without running it.
//!
//! The configuration is read and expanded, its connections are checked, every element is
//! configured, and elements that stay within the router are initialized. Elements that open files,
//! sockets or devices, or run a script, are not initialized: a device that does not exist here may
//! exist on the host that runs the configuration, and a check leaves no traces.

pub mod dot;
pub mod svg;

use std::net::Ipv4Addr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use click::Diagnostics;
use click::text::decode;
use elements::net::dpdk;
use router::args::{EtherAddress, Host, Interfaces, Ipv4Prefix, Kind, NameDatabase};
use router::{
    ClassEntry, Device, Embedding, Endpoint, Refused, Router, Runtime, Side, Steady, StoreBox,
};

use crate::click::{ClickEnvironment, Source};
use crate::host::{Clock, Machine, chatter_all, print, seed};
use crate::run::links::address;
use node::check::{NoTraffic, named};
use node::function::{self, FunctionError};

/// Reports errors in a configuration, without running it.
///
/// Reads the configuration, expands its compound elements, checks its connections, configures every
/// element, and initializes the elements that use nothing outside the router. Elements that open
/// files, sockets or devices, or run scripts, are configured but not initialized, since this
/// machine may lack resources of the configuration's machine.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weir check firewall.click\n  weir check router.click RATE=1000 --graph svg >router.svg"
)]
pub struct CheckArgs {
    /// The configuration: a file, `-` for standard input, or a function.
    file: PathBuf,
    /// Values for the configuration's variables.
    #[arg(value_name = "NAME=VALUE", value_parser = setting_bytes())]
    settings: Vec<(String, String)>,
    /// A value for a function's parameter.
    #[arg(short, long = "parameter", value_name = "NAME=VALUE", value_parser = setting_bytes())]
    parameters: Vec<(String, String)>,
    /// Print the configuration's graph.
    #[arg(long, value_name = "FORMAT")]
    graph: Option<GraphFormat>,
}

/// How a graph is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GraphFormat {
    /// Text for Graphviz.
    Dot,
    /// An SVG drawing.
    Svg,
}

/// A setting of the command line.
pub fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if click::settings::is_name(name) => {
            Ok((name.to_string(), value.to_string()))
        }
        _ => Err(format!("‘{text}’ is not a setting: write NAME=VALUE")),
    }
}

/// A setting of the command line, whose value may be any bytes.
pub fn setting_bytes() -> impl TypedValueParser<Value = (String, String)> {
    OsStringValueParser::new().try_map(|text| setting(&decode(text.as_bytes())))
}

/// Runs `weir check`: fails if the configuration has errors.
pub fn run(args: &CheckArgs) -> Result<ExitCode, CheckError> {
    let settings = [&args.settings[..], &args.parameters].concat();
    let checked = file(&args.file, &settings)?;
    chatter_all(&checked.diagnostics);
    let Some(router) = checked.router else {
        return Ok(ExitCode::FAILURE);
    };
    match args.graph {
        Some(GraphFormat::Dot) => print(&dot::draw(router.graph()))?,
        Some(GraphFormat::Svg) => print(&svg::draw(router.graph()))?,
        None => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// Classes outside the host's groups whose elements reach out of the router when they are
/// initialized.
const REACH_OUT: [&str; 6] = [
    "Script",
    "DriverManager",
    DEVICES[0],
    DEVICES[1],
    dpdk::CLASSES[0],
    dpdk::CLASSES[1],
];

/// Elements that name interfaces; which there are is the affair of the guest or host to be.
const DEVICES: [&str; 4] = ["FromNetfront", "ToNetfront", "FromDevice", "ToDevice"];

/// The result of a check.
pub struct Checked {
    /// Errors and warnings.
    pub diagnostics: Diagnostics,
    /// The router, if there are no errors. It is not to be run.
    pub router: Option<Router>,
}

/// Why nothing could be checked, or said.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The configuration could not be read; the text names the file.
    #[error("{0}")]
    Read(String),
    /// The function has no such parameters.
    #[error(transparent)]
    Function(#[from] FunctionError),
    /// The graph could not be printed.
    #[error("standard output: {}", crate::click::reason(.0))]
    Print(#[from] std::io::Error),
}

/// Checks a file, `-` for standard input, or a function, with `NAME=VALUE` settings.
pub fn file(path: &Path, settings: &[(String, String)]) -> Result<Checked, CheckError> {
    let Some(function) = function::find(path) else {
        let source = Source::file(path)
            .map_err(|error| CheckError::Read(error + &function::suggest(path)))?;
        return Ok(source_text(&source, settings));
    };
    let settings = function.settings(settings)?;
    Ok(source_text(&Source::function(function), &settings))
}

/// Checks a configuration.
pub fn source_text(source: &Source, settings: &[(String, String)]) -> Checked {
    let mut diagnostics = Diagnostics::new();
    let environment = ClickEnvironment {
        library: crate::element::library(),
        ..ClickEnvironment::new()
    };
    let options = click::Options {
        environment: &environment,
        variables: settings,
        ..click::Options::default()
    };
    let flat = click::parse(&source.text, &source.name, &options, &mut diagnostics);
    let router = flat.and_then(|flat| {
        let interfaces = named(&flat, &DEVICES).into_iter().map(|(name, _)| name);
        let embedding = Box::new(Nowhere(Clock::default(), interfaces.collect()));
        let runtime = Runtime::new(embedding, packet::Pool::heap(1 << 16));
        let library = &environment.library;
        Router::check(flat, library, runtime, stays_inside, &mut diagnostics)
            .map_err(|Refused(_)| ())
            .ok()
    });
    Checked {
        diagnostics,
        router,
    }
}

fn stays_inside(class: &ClassEntry) -> bool {
    let hosts = [
        elements::userlevel::CLASSES,
        elements::analysis::dumps::CLASSES,
    ];
    let mut of_host = hosts.iter().flat_map(|group| group.iter());
    !REACH_OUT.contains(&class.name) && !of_host.any(|other| other.name == class.name)
}

/// An embedding whose devices have no traffic, and without output; but names that stand for
/// interfaces have addresses.
struct Nowhere(Clock, Vec<String>);

/// This machine, and the interfaces that a configuration names.
struct Around(Machine, Interfaces);

impl Host for Around {
    fn ip(&self, device: &str) -> Option<Ipv4Addr> {
        self.0.ip(device)
    }

    fn ip_prefix(&self, device: &str) -> Option<Ipv4Prefix> {
        self.0.ip_prefix(device)
    }

    fn gateway(&self, device: &str) -> Option<Ipv4Addr> {
        self.0.gateway(device)
    }

    fn ether(&self, device: &str) -> Option<EtherAddress> {
        self.1.ether(device).or_else(|| self.0.ether(device))
    }

    fn number(&self, kind: Kind, name: &str) -> Option<u32> {
        self.0.number(kind, name)
    }

    fn home(&self, user: Option<&str>) -> Option<String> {
        self.0.home(user)
    }
}

impl Embedding for Nowhere {
    fn steady(&self) -> Steady {
        self.0.steady()
    }

    fn wall(&self) -> i64 {
        self.0.wall()
    }

    fn chatter(&mut self, _line: &str) {}

    fn seed(&mut self) -> u64 {
        seed()
    }

    fn driver(&self) -> &'static str {
        "userlevel"
    }

    fn device(&mut self, _name: &str, _side: Side) -> Result<Box<dyn Device>, String> {
        Ok(Box::new(NoTraffic([0; 6])))
    }

    fn socket(&mut self, _endpoint: &Endpoint) -> Result<Box<dyn Device>, String> {
        Ok(Box::new(NoTraffic([0; 6])))
    }

    fn store(&self) -> Option<StoreBox> {
        Some(StoreBox::default())
    }

    fn names(&mut self) -> NameDatabase {
        let mut names = NameDatabase::new();
        let address = |name: &String| (name.clone(), EtherAddress(address("", name)));
        let interfaces = Interfaces(self.1.iter().map(address).collect());
        names.set_host(Box::new(Around(Machine::default(), interfaces)));
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Checked {
        let source = Source::expression(text.as_bytes().to_vec()).unwrap();
        source_text(&source, &[])
    }

    #[test]
    fn errors_have_their_place_and_click_s_words() {
        let checked = check("Idle -> Queu(5)\n -> Discard;");
        assert!(checked.router.is_none());
        let text = checked.diagnostics.to_string();
        assert!(text.contains("config:1: "), "{text}");
        let checked = check("Idle -> Queue(x) -> Unqueue -> Discard;");
        let text = checked.diagnostics.to_string();
        assert!(text.contains("config:1: While configuring"), "{text}");
    }

    #[test]
    fn settings_have_a_name_and_a_value() {
        assert_eq!(setting("A=b=c"), Ok(("A".into(), "b=c".into())));
        assert!(setting("=b").is_err());
        assert!(setting("a-b=c").is_err());
    }

    #[test]
    fn interfaces_are_taken_for_granted() {
        for (from, to) in [("FromNetfront", "ToNetfront"), ("FromDevice", "ToDevice")] {
            let checked = check(&format!(
                "{from}(in) -> c :: Classifier(12/0806 20/0001, -);
                 c[0] -> ARPResponder(10.0.0.1 in) -> Queue -> {to}(in); c[1] -> Discard;"
            ));
            assert!(checked.router.is_some(), "{}", checked.diagnostics);
        }
    }

    #[test]
    fn dpdk_ports_are_taken_for_granted() {
        let checked = check("FromDPDKDevice(0000:18:00.1, N_QUEUES 2) -> ToDPDKDevice(1);");
        assert!(checked.router.is_some(), "{}", checked.diagnostics);
    }

    #[test]
    fn nothing_is_opened() {
        let path = std::env::temp_dir().join(format!("weir-check-{}", std::process::id()));
        let checked = check(&format!(
            "ControlSocket(UNIX, {}); Idle -> Discard;",
            path.display()
        ));
        assert!(checked.router.is_some(), "{}", checked.diagnostics);
        assert!(!path.exists());
    }
}
