//! The command line of everything but `weir click`.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::{check, demo, doctor, element, function, manual, nouns, plot, run, sock, store};
use node::log;
use vmm::printable;

/// Network functions as tiny virtual machines.
#[derive(Debug, Parser)]
#[command(
    name = "weir",
    version = env!("WEIR_BUILD"),
    arg_required_else_help = true,
    after_help = "Environment:
  WEIR_RUN      the folder of sockets, by which commands find guests and the node [/run/weir]
  WEIR_STATE    the folder of what the node keeps [/var/lib/weir]
  WEIR_PLUGINS  the folder of plugins of the scheduler [/etc/weir/plugins]"
)]
struct Command {
    #[command(flatten)]
    remote: nouns::Remote,
    #[command(subcommand)]
    command: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Run(run::RunArgs),
    Read(run::ReadArgs),
    Write(run::WriteArgs),
    Top(run::TopArgs),
    #[command(flatten)]
    Noun(nouns::NounCommand),
    Check(check::CheckArgs),
    Element(element::ElementArgs),
    Function(function::FunctionArgs),
    Plot(plot::PlotArgs),
    Store(store::StoreArgs),
    #[command(subcommand, arg_required_else_help = true)]
    Sock(sock::SockCommand),
    Doctor(doctor::DoctorArgs),
    /// Prints completions of this command line for a shell
    #[command(
        after_help = "Example:\n  weir completions bash >/usr/share/bash-completion/completions/weir"
    )]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Writes manual pages, one for each command
    #[command(after_help = "Example:\n  weir man /usr/local/share/man/man1")]
    Man {
        /// The folder
        folder: PathBuf,
    },
    /// Runs a configuration as a program of this machine, with Click's own command line.
    #[command(
        disable_help_flag = true,
        after_help = "Example:\n  weir click -e 'RatedSource(RATE 10, LIMIT 20) -> Print -> Discard'"
    )]
    Click {
        /// Click's options: `weir click --help` lists them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Writes a configuration without its compound elements.
    #[command(
        disable_help_flag = true,
        after_help = "Example:\n  weir click-flatten router.click >flat.click"
    )]
    ClickFlatten {
        /// Click's options: `weir click-flatten --help` lists them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Tells whether element classes and features exist.
    #[command(
        disable_help_flag = true,
        after_help = "Example:\n  weir click-buildtool provides IPRewriter"
    )]
    ClickBuildtool {
        /// `provides NAME...`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Runs a demonstration on real traffic.
    Demo {
        #[command(subcommand)]
        demo: Demo,
    },
}

#[derive(Debug, Subcommand)]
enum Demo {
    /// A firewall in a tiny VM between two network namespaces.
    Firewall,
}

/// Runs with a command line; returns the exit code.
pub fn main(program: OsString, arguments: Vec<OsString>) -> ExitCode {
    let words: Vec<OsString> = std::iter::once(program).chain(arguments).collect();
    let command = match parse(&words) {
        Ok(command) => command,
        Err(error) => {
            match error.kind() {
                ErrorKind::DisplayHelp
                | ErrorKind::DisplayVersion
                | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                    let printed = error.print().and_then(|()| std::io::stdout().flush());
                    if let Err(error) = printed
                        && error.kind() != std::io::ErrorKind::BrokenPipe
                    {
                        log::say(format_args!("standard output: {error}"));
                        return ExitCode::FAILURE;
                    }
                }
                _ => log::say(sentence(&error, &words)),
            }
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    if let Err(error) = command.remote.choose() {
        log::say(error);
        return ExitCode::FAILURE;
    }
    let done: Result<ExitCode, Box<dyn std::error::Error>> = match &command.command {
        Verb::Run(args) => run::foreground::run(args).map_err(Into::into),
        Verb::Read(args) => run::client::read(args)
            .map(|()| ExitCode::SUCCESS)
            .map_err(Into::into),
        Verb::Write(args) => run::client::write(args)
            .map(|()| ExitCode::SUCCESS)
            .map_err(Into::into),
        Verb::Top(args) => run::client::top(args)
            .map(|()| ExitCode::SUCCESS)
            .map_err(Into::into),
        Verb::Noun(command) => nouns::run(command)
            .map(|()| ExitCode::SUCCESS)
            .map_err(Into::into),
        Verb::Check(args) => check::run(args).map_err(Into::into),
        Verb::Element(args) => element::run(args)
            .map(|()| ExitCode::SUCCESS)
            .map_err(Into::into),
        Verb::Function(args) => function::run(args)
            .map(|()| ExitCode::SUCCESS)
            .map_err(Into::into),
        Verb::Plot(args) => plot::run(args)
            .map(|()| ExitCode::SUCCESS)
            .map_err(Into::into),
        Verb::Store(args) => store::run(args)
            .map(|()| ExitCode::SUCCESS)
            .map_err(Into::into),
        Verb::Sock(command) => sock::run(command).map_err(Into::into),
        Verb::Doctor(args) => doctor::run(args).map_err(Into::into),
        Verb::Completions { shell } => manual::completions(*shell, Command::command())
            .map(|()| ExitCode::SUCCESS)
            .map_err(Into::into),
        Verb::Man { folder } => manual::pages(folder, Command::command())
            .map(|()| ExitCode::SUCCESS)
            .map_err(Into::into),
        Verb::Click { arguments } => {
            return crate::click::main("weir click", arguments.clone()).into();
        }
        Verb::ClickFlatten { arguments } => {
            return crate::click::flatten("weir click-flatten", arguments.clone()).into();
        }
        Verb::ClickBuildtool { arguments } => {
            return crate::click::buildtool("weir click-buildtool", arguments.clone()).into();
        }
        Verb::Demo {
            demo: Demo::Firewall,
        } => demo::firewall(stop()).map_err(Into::into),
    };
    done.unwrap_or_else(|error| {
        // A guest may have had a say in it.
        let lines: Vec<_> = error.to_string().lines().map(printable).collect();
        log::say(lines.join("\n"));
        let program = error.downcast_ref::<sock::SockError>();
        program.map_or(ExitCode::FAILURE, sock::SockError::code)
    })
}

fn parse(words: &[OsString]) -> Result<Command, clap::Error> {
    let matches = takes_negative(Command::command()).try_get_matches_from(words)?;
    Command::from_arg_matches(&matches)
}

/// Lets every option take a negative number as its value, so that the option's own check refuses
/// it.
fn takes_negative(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|arg| match arg.get_action().takes_values() {
        true => arg.allow_negative_numbers(true),
        false => arg,
    });
    command.mut_subcommands(takes_negative)
}

/// The error of a command line, and the way to its help, in a sentence: the paragraphs before the
/// usage or the hint that ends clap's error.
fn sentence(error: &clap::Error, words: &[OsString]) -> String {
    let text = error.render().to_string();
    let end = ["Usage: ", "For more information"].map(|end| text.find(end).unwrap_or(text.len()));
    let wrong: Vec<_> = text[..end[0].min(end[1])].split_whitespace().collect();
    let wrong = wrong.join(" ").replace(" tip: ", "; ");
    let wrong = wrong.strip_prefix("error: ").unwrap_or(&wrong);
    // The standard library's errors for numbers.
    let wrong = wrong
        .replace(
            "invalid digit found in string",
            "write a whole number, 0 or more",
        )
        .replace("number too large to fit in target type", "it is too large")
        .replace("cannot parse integer from empty string", "write a number");
    let mut command = &Command::command();
    let mut called = vec![command.get_name()];
    for word in &words[1..] {
        let Some(next) = command.find_subcommand(word) else {
            break;
        };
        command = next;
        called.push(command.get_name());
    }
    format!("{wrong} (see ‘{} --help’)", called.join(" "))
}

/// Becomes true when the user asks for the end.
fn stop() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // A signal that cannot be caught ends the demo as it is; nothing outlives it.
        let _ = signal_hook::flag::register(signal, Arc::clone(&stop));
    }
    stop
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::CommandFactory;

    #[test]
    fn a_bad_command_line_is_a_sentence() {
        let wrong = |words: &[&str]| {
            let words: Vec<_> = words.iter().map(OsString::from).collect();
            super::sentence(&super::parse(&words).unwrap_err(), &words)
        };
        let sentence = wrong(&["weir", "run", "x.click", "--ring-slot", "64"]);
        assert!(sentence.starts_with("unexpected argument '--ring-slot' found; "));
        assert!(sentence.ends_with("(see ‘weir run --help’)"));
        let sentence = wrong(&["weir", "read"]);
        assert!(sentence.contains("<NAME>") && sentence.contains("‘weir read --help’"));
        let sentence = wrong(&["weir", "run", "x.click", "--memory", "4X"]);
        assert!(sentence.contains("‘4X’ is not a size"), "{sentence}");
        assert!(sentence.ends_with("(see ‘weir run --help’)"));
        assert!(!sentence.contains('\n') && !sentence.contains("For more"));
        let sentence = wrong(&["weir", "node", "--lanes", "-1"]);
        assert!(
            sentence.contains("write a whole number, 0 or more"),
            "{sentence}"
        );
        let sentence = wrong(&["weir", "stub", "create", "--mtu", "-5", "lan"]);
        assert!(sentence.contains("-5 is not in 68..=9216"), "{sentence}");
        assert!(sentence.ends_with("(see ‘weir stub create --help’)"));
    }

    #[test]
    fn the_command_line_is_sound() {
        super::Command::command().debug_assert();
    }
}
