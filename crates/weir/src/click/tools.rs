//! The tools beside Click's driver that scripts and Click's own suite call: `click-flatten`, which
//! writes a configuration without its compound elements, and `click-buildtool provides`, which
//! says whether element classes and features are there.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;

use click::text::encode;
use click::{Diagnostics, Environment, FlatGraph};

use super::options::{self, Argument, BadOption, Name, Options, Value};
use super::source::{ClickEnvironment, reason};
use super::{CONFIGURATION, Location, complain, once, setting, text, usage};
use crate::host::{chatter, chatter_all};

/// What `click-buildtool provides` answers yes to besides element classes: names that Click's
/// elements require of a build.
const FEATURES: [&str; 9] = [
    "userlevel",
    "umultithread",
    "int64",
    "ip6",
    "ipsec",
    "linux",
    "batch",
    "pcap",
    "analysis",
];

/// What `click-flatten` writes.
#[derive(Clone, Copy)]
enum What {
    Configuration,
    Classes,
    Names,
    Declarations,
}

struct Flatten {
    location: Option<Location>,
    output: Option<PathBuf>,
    variables: Vec<(String, String)>,
    around: Open,
    what: What,
}

/// An environment in which any class may exist: a tool does not run the configuration that it
/// rewrites.
struct Open(ClickEnvironment);

impl Environment for Open {
    fn has_class(&self, name: &str) -> bool {
        self.0.has_class(name)
    }

    fn is_open(&self) -> bool {
        true
    }

    fn has_package(&self, _name: &str) -> bool {
        true
    }

    fn library(&self, name: &str, from: &str) -> Result<Option<click::Library>, String> {
        self.0.library(name, from)
    }
}

/// Runs `click-flatten` with a command line; returns the exit code.
pub fn flatten(program: &str, arguments: Vec<OsString>) -> u8 {
    match read(program, arguments) {
        Ok(None) => 0,
        Ok(Some(command)) => command.run(),
        Err(lines) => {
            for line in &lines {
                chatter(&format!("{program}: {line}"));
            }
            chatter(&usage::short(program));
            1
        }
    }
}

/// `None` if all is said already.
fn read(program: &str, arguments: Vec<OsString>) -> Result<Option<Flatten>, Vec<String>> {
    let mut command = Flatten {
        location: None,
        output: None,
        variables: Vec::new(),
        around: Open(ClickEnvironment::new()),
        what: What::Configuration,
    };
    for argument in Options::new(&options::FLATTEN, arguments, Options::locale_quotes()) {
        match argument.map_err(|BadOption(lines)| lines)? {
            Argument::Plain(text) => match setting(&text) {
                Some(variable) => command.variables.push(variable),
                None => once(
                    &mut command.location,
                    Location::File(text.into()),
                    CONFIGURATION,
                )?,
            },
            Argument::Option { name, value, .. } => match name {
                Name::Help => {
                    let _ = crate::host::print(&usage::flatten(program));
                    return Ok(None);
                }
                Name::Version => {
                    let _ = crate::host::print(&usage::version());
                    return Ok(None);
                }
                _ => command.option(name, value)?,
            },
        }
    }
    Ok(Some(command))
}

impl Flatten {
    fn option(&mut self, name: Name, value: Value) -> Result<(), Vec<String>> {
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
                once(&mut self.output, value.text().into(), "--output file")?;
            }
            Name::ClickPath => self.around.0.path = text(value),
            Name::Classes => self.what = What::Classes,
            Name::Names => self.what = What::Names,
            Name::Declarations => self.what = What::Declarations,
            Name::Config => self.what = What::Configuration,
            // Variables are always expanded.
            _ => {}
        }
        Ok(())
    }

    fn run(self) -> u8 {
        let source = match Location::read(self.location) {
            Ok(source) => source,
            Err(message) => {
                complain(&message);
                return 1;
            }
        };
        let options = click::Options {
            environment: &self.around,
            variables: &self.variables,
            ..click::Options::default()
        };
        let mut diagnostics = Diagnostics::new();
        let flat = click::parse(&source.text, &source.name, &options, &mut diagnostics);
        chatter_all(&diagnostics);
        let Some(flat) = flat else {
            return 1;
        };
        let output = self.output.unwrap_or_else(|| "-".into());
        match write(&output, &self.what.of(&flat)) {
            Ok(()) => 0,
            Err(message) => {
                complain(&message);
                1
            }
        }
    }
}

impl What {
    fn of(self, flat: &FlatGraph) -> String {
        let elements = flat.elements.iter();
        let mut lines: Vec<String> = match self {
            What::Configuration => return flat.unparse(),
            What::Classes => elements.map(|e| e.class.to_string()).collect(),
            What::Names => elements.map(|e| e.name.clone()).collect(),
            What::Declarations => elements
                .map(|e| format!("{} :: {}", e.name, e.class))
                .collect(),
        };
        lines.sort();
        lines.dedup();
        lines.into_iter().map(|line| line + "\n").collect()
    }
}

/// Writes to a file; `-` stands for standard output. An error is a message with the file's name.
pub fn write(output: &std::path::Path, text: &str) -> Result<(), String> {
    let written = match output.as_os_str() == "-" {
        true => io::stdout().write_all(&encode(text)),
        false => std::fs::write(output, encode(text)),
    };
    written.map_err(|error| format!("{}: {}", output.display(), reason(&error)))
}

/// Runs `click-buildtool` with a command line; returns the exit code: 0 if everything that is
/// asked for is there.
pub fn buildtool(program: &str, arguments: Vec<OsString>) -> u8 {
    let mut words = arguments.iter().map(|word| word.to_string_lossy());
    let command = words.next();
    let asked: Vec<_> = words.collect();
    match (command.as_deref(), asked.is_empty()) {
        (Some("--help"), _) => match crate::host::print(&usage::buildtool(program)) {
            Ok(()) => 0,
            Err(_) => 1,
        },
        (Some("provides"), false) => {
            let library = ClickEnvironment::new().library;
            let there = |name: &str| library.has_class(name) || FEATURES.contains(&name);
            u8::from(!asked.iter().all(|name| there(name)))
        }
        _ => {
            chatter(&format!("Usage: {program} provides NAME..."));
            1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(what: What, text: &str) -> String {
        let around = Open(ClickEnvironment::new());
        let options = click::Options::new(&around);
        let mut diagnostics = Diagnostics::new();
        let flat = click::parse(text.as_bytes(), "config", &options, &mut diagnostics);
        flat.map_or_else(|| diagnostics.to_string(), |flat| what.of(&flat))
    }

    #[test]
    fn classes_need_not_be_known() {
        let text = "elementclass Pair { input -> Here($x) -> There -> output }
                    define($x 5) Source -> Pair -> sink :: Sink;";
        let whole = flat(What::Configuration, text);
        assert!(whole.contains("Pair@2/Here@1 :: Here(5);"), "{whole}");
        assert_eq!(flat(What::Classes, text), "Here\nSink\nSource\nThere\n");
        assert!(flat(What::Names, text).ends_with("sink\n"));
        assert!(flat(What::Declarations, text).contains("sink :: Sink\n"));
    }

    #[test]
    fn an_assumed_class_cannot_name_an_element() {
        let text = "elementclass Foo { A -> B; }\nA :: Idle;";
        let error = flat(What::Names, text);
        assert!(error.contains("config:2: class"), "{error}");
        let error = flat(What::Names, "A :: A;");
        assert!(error.contains("config:1: class"), "{error}");
    }

    #[test]
    fn the_build_tool_tells_what_is_there() {
        let ask = |words: &[&str]| {
            let words = words.iter().map(OsString::from).collect();
            buildtool("click-buildtool", words)
        };
        assert_eq!(ask(&["provides", "Queue", "umultithread"]), 0);
        assert_eq!(ask(&["provides", "Queue", "linuxmodule"]), 1);
        assert_eq!(ask(&["provides"]), 1);
    }
}
