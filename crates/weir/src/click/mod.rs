//! `weir click`: Click's user-level driver. Its command line, messages, handlers, control protocol
//! and exit codes are Click's, so that a link named `click` to `weir` runs existing
//! configurations and scripts.

mod driver;
mod handlers;
mod options;
mod run;
mod source;
mod store;
mod threads;
mod tools;
mod usage;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::Arc;

use click::Diagnostics;
use click::text::decode;
use node::function::{self, Function};
use router::args::{Context, TcpPort};
use router::{Router, Settings, THREADS_MAX};

use crate::host::{Clock, chatter, chatter_all};
use crate::run::links::Link;
use driver::Driver;
use handlers::complain;
use options::{Argument, BadOption, Name, Options, Value};
pub use source::{ClickEnvironment, Source, reason};
use store::Requests;
use threads::RouterThreads;
pub use tools::{buildtool, flatten};

/// The default limit of packets in a batch. A program called by Click's name keeps Click's order of
/// events, which needs batches of one; `weir click` is several times as fast.
fn default_batch(program: &str) -> usize {
    match program {
        "click" => 1,
        _ => packet::BATCH,
    }
}

/// Whether a program takes functions by their names. One called by Click's name takes files alone.
fn has_functions(program: &str) -> bool {
    program != "click"
}

/// Where simulated time starts, in seconds.
const SIMULATION_START: f64 = 1e9;

/// A configuration's location.
enum Location {
    File(PathBuf),
    Expression(Vec<u8>),
}

impl Location {
    /// The function at a location, if it is the name of one.
    fn function(location: &Option<Location>) -> Option<&'static Function> {
        match location {
            Some(Location::File(path)) => function::find(path),
            _ => None,
        }
    }

    fn expression(value: Value) -> Location {
        Location::Expression(value.text().into_vec())
    }

    /// The configuration at a location; at none, standard input.
    fn read(location: Option<Location>) -> Result<Source, String> {
        match location {
            Some(Location::Expression(text)) => Source::expression(text),
            Some(Location::File(path)) => Source::file(&path),
            None => Source::file("-".as_ref()),
        }
    }
}

/// The parsed command line.
struct Invocation {
    location: Option<Location>,
    handlers: Vec<String>,
    exit_handler: Option<String>,
    output: Option<PathBuf>,
    quit: bool,
    time: bool,
    warnings: bool,
    affinity: Option<usize>,
    simulate: Option<f64>,
    /// Whether the location may be the name of a function.
    functions: bool,
    driver: Driver,
}

/// What reading the command line led to.
enum Read {
    /// Run this.
    Run(Box<Invocation>),
    /// All is done: exit with this code.
    Exit(u8),
}

/// Runs with a command line, without the program's name in it; `program` is that name. Returns
/// the exit code.
pub fn main(program: &str, arguments: Vec<OsString>) -> u8 {
    match read(program, arguments) {
        Ok(Read::Exit(code)) => code,
        Ok(Read::Run(command)) => execute(*command),
        Err(lines) => {
            for line in &lines {
                chatter(line);
            }
            chatter(&usage::short(program));
            1
        }
    }
}

fn text(value: Value) -> String {
    decode(value.text().as_bytes()).into_owned()
}

fn read(program: &str, arguments: Vec<OsString>) -> Result<Read, Vec<String>> {
    let quotes = Options::locale_quotes();
    let mut command = Invocation::new(default_batch(program));
    command.functions = has_functions(program);
    for argument in Options::new(&options::DRIVER, arguments, quotes) {
        let argument = argument.map_err(|BadOption(lines)| prefixed(program, lines))?;
        match argument {
            Argument::Plain(text) => command.plain(text)?,
            Argument::Option {
                name: Name::Help, ..
            } => return Ok(print(&usage::long(program))),
            Argument::Option {
                name: Name::Version,
                ..
            } => return Ok(print(&usage::version())),
            Argument::Option {
                name: Name::Port,
                shown,
                value,
                ..
            } => {
                let text = text(value);
                if let Some(parameter) = setting(OsStr::new(&text))
                    && has_functions(program)
                {
                    command.set(parameter);
                    continue;
                }
                let Some(port) = port(&text) else {
                    let (open, close) = match quotes {
                        click::Quotes::Curly => ('‘', '’'),
                        click::Quotes::Ascii => ('\'', '\''),
                    };
                    let line = format!(
                        "{open}{shown}{close} expects a TCP port number, not {open}{text}{close}"
                    );
                    return Err(prefixed(program, vec![line]));
                };
                let config = format!("TCP, {port}");
                command.driver.control_sockets.push(config);
            }
            Argument::Option {
                name,
                negated,
                value,
                ..
            } => command.option(name, negated, value)?,
        }
    }
    // Click adds its sockets in this order, for any order of the options.
    let order = |config: &String| {
        ["TCP", "UNIX", "SOCKET"]
            .iter()
            .position(|t| config.starts_with(t))
    };
    command.driver.control_sockets.sort_by_key(order);
    Ok(Read::Run(Box::new(command)))
}

fn prefixed(program: &str, lines: Vec<String>) -> Vec<String> {
    let lines = lines.into_iter();
    lines.map(|line| format!("{program}: {line}")).collect()
}

fn print(text: &str) -> Read {
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => Read::Exit(0),
        Err(_) => Read::Exit(1),
    }
}

/// A TCP port, by number or name, or `PORT+`.
fn port(text: &str) -> Option<String> {
    if let Ok(port) = Context::blank().parse::<TcpPort>(text) {
        return Some(port.0.to_string());
    }
    let first: i32 = Context::blank().parse(text.strip_suffix('+')?).ok()?;
    (1..65536).contains(&first).then(|| format!("{first}+"))
}

/// The kind of a second file or expression, in messages.
const CONFIGURATION: &str = "router configuration";

/// Takes what may be given once.
fn once<T>(location: &mut Option<T>, value: T, what: &str) -> Result<(), Vec<String>> {
    match location.replace(value) {
        Some(_) => Err(vec![format!("{what} specified twice")]),
        None => Ok(()),
    }
}

/// A `NAME=VALUE` setting.
fn setting(argument: &OsStr) -> Option<(String, String)> {
    let bytes = argument.as_bytes();
    let name = bytes
        .iter()
        .take_while(|b| b.is_ascii_alphanumeric() || **b == b'_')
        .count();
    if name == 0 || bytes.get(name) != Some(&b'=') {
        return None;
    }
    let text = |bytes| decode(bytes).into_owned();
    Some((text(&bytes[..name]), text(&bytes[name + 1..])))
}

impl Invocation {
    fn new(batch: usize) -> Invocation {
        Invocation {
            location: None,
            handlers: Vec::new(),
            exit_handler: None,
            output: None,
            quit: false,
            time: false,
            warnings: true,
            affinity: None,
            simulate: None,
            functions: false,
            driver: Driver {
                clock: Clock::default(),
                environment: ClickEnvironment::new(),
                variables: Vec::new(),
                links: Vec::new(),
                control_sockets: Vec::new(),
                settings: Settings { batch, threads: 1 },
                allow_reconfigure: false,
                store: Requests::of_environment(),
                next: Default::default(),
            },
        }
    }

    /// A setting or a file.
    fn plain(&mut self, argument: OsString) -> Result<(), Vec<String>> {
        let Some((name, value)) = setting(&argument) else {
            return once(
                &mut self.location,
                Location::File(argument.into()),
                CONFIGURATION,
            );
        };
        self.set((name, value));
        Ok(())
    }

    /// Gives a variable its value.
    fn set(&mut self, (name, value): (String, String)) {
        let variables = &mut self.driver.variables;
        if variables.iter().any(|(other, _)| *other == name) {
            complain(&format!("parameter ‘{name}’ multiply defined"));
        } else {
            variables.push((name, value));
        }
    }

    fn option(&mut self, name: Name, negated: bool, value: Value) -> Result<(), Vec<String>> {
        let driver = &mut self.driver;
        match name {
            Name::File => {
                let file = Location::File(value.text().into());
                once(&mut self.location, file, CONFIGURATION)?;
            }
            Name::Expression => {
                once(
                    &mut self.location,
                    Location::expression(value),
                    CONFIGURATION,
                )?;
            }
            Name::Output => {
                once(&mut self.output, value.text().into(), "output file")?;
            }
            Name::Handler => self.handlers.push(text(value)),
            Name::ExitHandler => {
                once(&mut self.exit_handler, text(value), "--exit-handler")?;
            }
            Name::UnixSocket => {
                let file = click::config::quote(value.text().as_bytes());
                driver.control_sockets.push(format!("UNIX, {file}"));
            }
            Name::Socket => driver
                .control_sockets
                .push(format!("SOCKET, {}", text(value))),
            Name::AllowReconfigure => driver.allow_reconfigure = !negated,
            Name::Quit => self.quit = true,
            Name::Time => self.time = true,
            Name::Warnings => self.warnings = !negated,
            Name::NoWarnings => self.warnings = negated,
            Name::Threads => match value {
                Value::Int(threads, _) if threads <= i64::from(THREADS_MAX) => {
                    driver.settings.threads = threads.max(1) as u16;
                }
                _ => {
                    let line = format!("a router runs on at most {THREADS_MAX} threads");
                    return Err(vec![line]);
                }
            },
            Name::Affinity => {
                self.affinity = match value {
                    _ if negated => None,
                    Value::Int(cpu, _) => usize::try_from(cpu).ok(),
                    _ => Some(0),
                };
            }
            Name::SimTime => {
                self.simulate = match value {
                    Value::Real(start) => Some(start),
                    _ => Some(SIMULATION_START),
                };
            }
            Name::Link => {
                let text = text(value);
                let link: Link = text.parse().map_err(|error| vec![error])?;
                match link.attached() {
                    Some(interface) => driver
                        .links
                        .push((link.interface.clone(), interface.to_string())),
                    None => {
                        let name = &link.interface;
                        return Err(vec![format!(
                            "‘{text}’: no interface that is there; write --link {name}=dev:INTERFACE"
                        )]);
                    }
                }
            }
            Name::ClickPath => driver.environment.path = text(value),
            Name::Batch => match value {
                Value::Int(batch @ 1..=64, _) => driver.settings.batch = batch as usize,
                _ => return Err(vec!["--batch takes a number from 1 to 64".into()]),
            },
            // Handled before, or another program's.
            _ => {}
        }
        Ok(())
    }
}

fn execute(command: Invocation) -> u8 {
    let Invocation {
        location,
        mut driver,
        ..
    } = command;
    if let Some(start) = command.simulate {
        driver.clock = Clock::simulated((start * 1e9) as i64);
    }
    let function = Location::function(&location).filter(|_| command.functions);
    let source = match function {
        Some(function) => match function.settings(&driver.variables) {
            Ok(settings) => {
                driver.variables = settings;
                Ok(Source::function(function))
            }
            Err(error) => Err(error.to_string()),
        },
        None => {
            let hint = match &location {
                Some(Location::File(path)) if command.functions => function::suggest(path),
                _ => String::new(),
            };
            Location::read(location).map_err(|error| error + &hint)
        }
    };
    let driver = Arc::new(driver);
    let source = match source {
        Ok(source) => source,
        Err(message) => {
            complain(&message);
            return 1;
        }
    };
    let mut diagnostics = Diagnostics::new();
    let router = driver.router(&source, false, &mut diagnostics);
    chatter_all(&diagnostics);
    let Some(mut router) = router else {
        return 1;
    };
    let mut code = 0;
    if let Some(output) = command.output
        && let Err(message) = write_flat(&mut router, &output)
    {
        complain(&message);
        code = 1;
    }
    run::complain_of_pin(command.affinity);
    let spent = run::Spent::start();
    if !command.quit && !router.graph().elements.is_empty() {
        if let Err(error) = run_to_the_end(&mut router, &driver, command.affinity, command.warnings)
        {
            complain(&format!("the router stopped: {}", reason(&error)));
            code = 1;
        }
    } else if !command.quit && command.warnings {
        chatter(&format!(
            "warning: {}: configuration has no elements, exiting",
            source.name
        ));
    }
    if command.time {
        print(&format!("{}\n", spent.report()));
    }
    match handlers::print(&mut router, &command.handlers) {
        Ok(true) => {}
        Ok(false) => code = 1,
        Err(error) => {
            // A broken pipe means that the reader has gone.
            if error.kind() != io::ErrorKind::BrokenPipe {
                complain(&format!("standard output: {}", reason(&error)));
            }
            code = 1;
        }
    }
    let mut code = code as u8;
    if let Some(handler) = command.exit_handler {
        code = match handlers::exit_code(&mut router, &handler) {
            // As the system cuts it.
            Ok(code) => code as u8,
            Err(message) => {
                complain(&message);
                u8::MAX
            }
        };
    }
    router.end_with_process();
    code
}

fn run_to_the_end(
    router: &mut Router,
    driver: &Arc<Driver>,
    affinity: Option<usize>,
    warnings: bool,
) -> io::Result<()> {
    let threads = RouterThreads::start(router, driver, affinity)?;
    if warnings {
        for line in router.advice() {
            chatter(&format!("warning: {line}"));
        }
    }
    let result = run::run(router, driver, &threads);
    result.and(threads.end(router))
}

fn write_flat(router: &mut Router, output: &std::path::Path) -> Result<(), String> {
    let text = router.read(None, "flatconfig", "").unwrap_or_default();
    tools::write(output, &text)
}
