//! Applications: programs whose sockets network stack modules serve, started by a command or by the node.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use netkernel::protocol::{Limits, Token};
use serde::{Deserialize, Serialize};
use switch::properties::ApplicationProperties;
use utoipa::ToSchema;

use super::nsm::bytes;
use super::object::{Object, Spec, Verb, is_default, record};
use super::properties::ApplicationTable;
use super::stats::counters;
use super::{Restart, State};
use crate::error::{Fault, Result};

/// An application: a program, with its children, whose sockets an NSM serves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Application {
    /// The NSM that its new sockets go to.
    pub nsm: String,
    /// The program that the node runs, and its arguments, as a shell splits them; none: the program was started by
    /// `weir sock run`.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schema(value_type = Vec<String>, example = json!(["nginx", "-g", "daemon off;"]))]
    pub run: CommandLine,
    /// The folder that the program starts in; default: the root folder. In a wire's file it is relative to the wire's
    /// own folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub directory: Option<PathBuf>,
    /// Variables of the program's environment, besides `PATH`, and `HOME`, `USER`, `LOGNAME` and `SHELL` of its user.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// The user that the program runs as, with the user's groups; default: the node's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// How the program's socket calls come to the NSM.
    #[serde(default, skip_serializing_if = "is_default")]
    pub intercept: Intercept,
    /// When the node restarts the program that it runs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub restart: Restart,
    /// What it may have: `maxbw`, `conns`, `weight`.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schema(value_type = ApplicationTable)]
    pub properties: ApplicationProperties,
}

impl Application {
    /// What it may have, as CoreEngine is told.
    pub fn limits(&self) -> Limits {
        let properties = &self.properties;
        Limits {
            weight: properties.weight,
            bytes_per_second: properties.maxbw.map(bytes),
            sockets: properties.conns,
        }
    }

    /// Whether the node runs its program.
    pub fn is_run(&self) -> bool {
        !self.run.0.is_empty()
    }

    /// Whether it can become `other` while its program runs.
    pub fn can_become(&self, other: &Application) -> bool {
        let there = Application {
            nsm: self.nsm.clone(),
            restart: self.restart,
            properties: self.properties.clone(),
            ..other.clone()
        };
        there == *self
    }

    /// Refuses a program that cannot be started.
    pub fn check_run(&self) -> Result<()> {
        if self.run.0.first().is_none_or(String::is_empty) {
            return Err(Fault::NoProgram {}.into());
        }
        let is_name = |name: &String| !name.is_empty() && !name.contains(['=', '\0']);
        if let Some(name) = self.environment.keys().find(|name| !is_name(name)) {
            let name = name.clone();
            return Err(Fault::NoVariable { name }.into());
        }
        let has_zero = |text: &String| text.contains('\0');
        let fields = [
            ("run", self.run.0.iter().any(has_zero)),
            ("environment", self.environment.values().any(has_zero)),
            ("user", self.user.as_ref().is_some_and(has_zero)),
        ];
        if let Some((field, _)) = fields.into_iter().find(|(_, wrong)| *wrong) {
            return Err(Fault::ZeroByte { field }.into());
        }
        if let Some(directory) = self.directory.as_ref().filter(|it| !it.is_absolute()) {
            let directory = directory.display().to_string();
            return Err(Fault::RelativeDirectory { directory }.into());
        }
        Ok(())
    }
}

/// A program and its arguments: a list of words, or a text that is split as a POSIX shell splits it, with quotes and
/// without expansions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Words")]
pub struct CommandLine(pub Vec<String>);

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.0.iter().map(String::as_str);
        // Words with a zero byte are refused before.
        f.write_str(&shlex::try_join(words).unwrap_or_default())
    }
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "it is a command line, \"PROGRAM ARGUMENT…\", or a list of words"
)]
enum Words {
    Line(String),
    List(Vec<String>),
}

impl TryFrom<Words> for CommandLine {
    type Error = String;

    fn try_from(words: Words) -> std::result::Result<CommandLine, String> {
        let line = match words {
            Words::List(words) => return Ok(CommandLine(words)),
            Words::Line(line) => line,
        };
        let words = shlex::split(&line);
        let words = words
            .ok_or_else(|| format!("‘{line}’ is not a command line: a quote is not closed"))?;
        Ok(CommandLine(words))
    }
}

/// How a program's socket calls come to its NSM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Intercept {
    /// By the program's file: `preload` for one with glibc, `syscall` for Go, static ones and others.
    #[default]
    Auto,
    /// By a library that is loaded before the C library; programs without one keep the kernel's sockets.
    Preload,
    /// By a filter of system calls, for all programs and children, Go and static ones too.
    Syscall,
}

/// An application as it is. Counters run from its start, or the last one of CoreEngine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct ApplicationStatus {
    /// Whether its program runs.
    pub state: State,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The process that it was started as.
    pub pid: u32,
    /// Number of times that this node has restarted its program.
    pub restarts: u32,
    /// Processes of it that use sockets.
    pub processes: usize,
    /// Its sockets.
    pub sockets: usize,
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
    /// Connections made and accepted.
    pub connections: u64,
    /// Sockets refused, since the application or its NSM had as many as it may.
    pub refused: u64,
    /// Seconds of processor time that the process has used that it was started as, and its children that have ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<f64>,
    /// Queue elements that broke the protocol.
    pub violations: u64,
}

counters!(
    ApplicationStatus: sent = "sent_bytes", received = "received_bytes", connections,
    refused = "refused_sockets", violations,
);

impl Spec for Application {
    type Status = ApplicationStatus;
    const PATH: &'static str = "applications";
    const NOUN: &'static str = "application";
    const CALLED: [&'static str; 2] = ["an application", "applications"];
    const CHANGEABLE: &'static [&'static str] = &["nsm", "properties", "restart"];
    const VERBS: &'static [Verb] = &[Verb::List, Verb::Show, Verb::Put, Verb::Patch, Verb::Delete];

    fn note(verb: Verb) -> &'static str {
        match verb {
            Verb::Put | Verb::Patch => {
                "With another `nsm`, new sockets go there; present ones stay where they are. `properties` and `restart` can change, too."
            }
            Verb::Delete => {
                "Its sockets are closed. A program that the node runs ends, by SIGTERM and after 10 s by SIGKILL; other programs go on without sockets."
            }
            _ => "",
        }
    }

    fn example() -> Object<Application> {
        let mut application = Object::new("curl-4711", Application::default());
        application.spec.nsm = "stack1".into();
        application.spec.properties.conns = Some(100);
        application.status = ApplicationStatus {
            state: State::Up,
            pid: 4711,
            processes: 1,
            sockets: 1,
            sent: 78,
            received: 612,
            connections: 1,
            ..ApplicationStatus::default()
        };
        application
    }
}

record!(ApplicationRecord: "applications", Application);

/// An application.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ApplicationRecord {
    /// Its name.
    pub name: String,
    /// What is wanted.
    pub spec: Application,
    /// Of one that the node runs: its number; never given twice.
    #[serde(default)]
    pub id: u64,
    /// By what its processes prove to CoreEngine that they are its.
    pub token: Token,
    /// The process that it was started as.
    pub pid: u32,
    /// Whether that is a guest's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub guest: bool,
    /// When that was started, in clock ticks since the boot of the machine; none if it had ended.
    pub started: Option<u64>,
    /// Of one that the node runs: how it ended, if it is not to be restarted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
}

impl ApplicationRecord {
    /// Whether the process runs that it was started as.
    pub fn runs(&self) -> bool {
        self.started.is_some() && vmm::started(self.pid) == self.started
    }
}

/// How a program ended that is not to be restarted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ended {
    /// Whether with code 0.
    pub well: bool,
    /// In words.
    pub how: String,
}

/// A program that is to become an application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Admission {
    /// The application's name.
    pub name: String,
    /// The NSM that its sockets are to go to.
    pub nsm: String,
    /// What it may have: `maxbw`, `conns`, `weight`.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schema(value_type = ApplicationTable)]
    pub properties: ApplicationProperties,
    /// The program's process: the application lasts at least as long.
    pub pid: u32,
}

/// What an application's programs need in their environment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Admitted {
    /// `LD_PRELOAD`: the library that redirects sockets.
    #[schema(value_type = String)]
    pub library: PathBuf,
    /// `WEIR_SOCK`: where, and as which application, its processes join CoreEngine. It is a secret of the application.
    pub sock: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_a_line_or_a_list_of_words() {
        let run = |toml: &str| {
            let text = format!("nsm = 'web'\nrun = {toml}");
            let application = toml::from_str::<Application>(&text);
            application.map(|it| it.run.0).map_err(|e| e.to_string())
        };
        let words = ["nginx", "-g", "daemon off;"].map(String::from).to_vec();
        assert_eq!(run(r#""nginx -g 'daemon off;'""#), Ok(words.clone()));
        assert_eq!(run("['nginx', '-g', 'daemon off;']"), Ok(words));
        assert!(run(r#""nginx 'x""#).unwrap_err().contains("quote"));
        assert!(run("7").unwrap_err().contains("a list of words"));
    }

    #[test]
    fn a_program_that_cannot_be_started_is_refused() {
        let with = |change: fn(&mut Application)| {
            let mut it = Application {
                run: CommandLine(vec!["true".into()]),
                ..Application::default()
            };
            change(&mut it);
            it.check_run().map_err(|error| error.error)
        };
        assert_eq!(with(|_| {}), Ok(()));
        let none = with(|it| it.run.0.clear()).unwrap_err();
        assert!(none.contains("run"), "{none}");
        let relative = with(|it| it.directory = Some("a".into())).unwrap_err();
        assert!(relative.contains("‘a’"), "{relative}");
        let name = with(|it| drop(it.environment.insert("A=".into(), String::new())));
        assert!(name.unwrap_err().contains("‘A=’"));
        assert!(with(|it| it.run.0.push("\0".into())).is_err());
    }
}
