//! The command line of everything but `weir click`.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::{check, demo, element, nouns, run};
use vmm::printable;

/// Network functions as tiny virtual machines.
#[derive(Debug, Parser)]
#[command(name = "weir", version, arg_required_else_help = true)]
struct Command {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Run(run::RunArgs),
    Read(run::ReadArgs),
    Write(run::WriteArgs),
    Top(run::TopArgs),
    Node(nouns::node::NodeArgs),
    Create(nouns::guest::CreateArgs),
    Ls(nouns::guest::LsArgs),
    Destroy(nouns::guest::DestroyArgs),
    #[command(subcommand, arg_required_else_help = true)]
    Link(nouns::link::LinkCommand),
    #[command(subcommand, arg_required_else_help = true)]
    Stub(nouns::stub::StubCommand),
    #[command(subcommand, arg_required_else_help = true)]
    Switch(nouns::switch::SwitchCommand),
    #[command(subcommand, arg_required_else_help = true)]
    Vnic(nouns::vnic::VnicCommand),
    #[command(subcommand, arg_required_else_help = true)]
    Flow(nouns::flow::FlowCommand),
    #[command(subcommand, arg_required_else_help = true)]
    Wire(nouns::wire::WireCommand),
    Check(check::CheckArgs),
    Element(element::ElementArgs),
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
    /// Says whether element classes and features are there.
    #[command(
        disable_help_flag = true,
        after_help = "Example:\n  weir click-buildtool provides IPRewriter"
    )]
    ClickBuildtool {
        /// `provides NAME...`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Shows the main job on real traffic.
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
    let words = std::iter::once(program).chain(arguments);
    let command = match Command::try_parse_from(words) {
        Ok(command) => command,
        Err(error) => {
            match error.kind() {
                ErrorKind::DisplayHelp
                | ErrorKind::DisplayVersion
                | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                    let _ = error.print();
                }
                _ => eprintln!("weir: {}", sentence(&error.render().to_string())),
            }
            return ExitCode::from(error.exit_code() as u8);
        }
    };
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
        Verb::Node(args) => noun(nouns::node::run(args)),
        Verb::Create(args) => noun(nouns::guest::create(args)),
        Verb::Ls(args) => noun(nouns::guest::ls(args)),
        Verb::Destroy(args) => noun(nouns::guest::destroy(args)),
        Verb::Link(command) => noun(nouns::link::run(command)),
        Verb::Stub(command) => noun(nouns::stub::run(command)),
        Verb::Switch(command) => noun(nouns::switch::run(command)),
        Verb::Vnic(command) => noun(nouns::vnic::run(command)),
        Verb::Flow(command) => noun(nouns::flow::run(command)),
        Verb::Wire(command) => noun(nouns::wire::run(command)),
        Verb::Check(args) => check::run(args).map_err(Into::into),
        Verb::Element(args) => element::run(args)
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
        eprintln!("weir: {}", lines.join("\n"));
        ExitCode::FAILURE
    })
}

/// What became of a command that asks a node.
fn noun(done: nouns::Result) -> Result<ExitCode, Box<dyn std::error::Error>> {
    done.map(|()| ExitCode::SUCCESS).map_err(Into::into)
}

/// What is wrong with a command line, and where to find help, in a sentence: the paragraphs before
/// the usage that `text` ends with.
fn sentence(text: &str) -> String {
    let (wrong, usage) = text.split_once("Usage: ").unwrap_or((text, "weir"));
    let words: Vec<_> = wrong.split_whitespace().collect();
    let wrong = words.join(" ").replace(" tip: ", "; ");
    let wrong = wrong.strip_prefix("error: ").unwrap_or(&wrong);
    let command = usage.split_whitespace();
    let command: Vec<_> = command
        .take_while(|word| !word.starts_with(['[', '<', '-']))
        .collect();
    format!(
        "{wrong} (‘{} --help’ shows what is possible)",
        command.join(" ")
    )
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
    use clap::{CommandFactory, Parser};

    #[test]
    fn a_bad_command_line_is_a_sentence() {
        let wrong = |words: &[&str]| {
            let error = super::Command::try_parse_from(words).unwrap_err();
            super::sentence(&error.render().to_string())
        };
        let sentence = wrong(&["weir", "run", "x.click", "--ring-slot", "64"]);
        assert!(sentence.starts_with("unexpected argument '--ring-slot' found; "));
        assert!(sentence.ends_with("(‘weir run --help’ shows what is possible)"));
        let sentence = wrong(&["weir", "read"]);
        assert!(sentence.contains("<NAME>") && sentence.contains("‘weir read --help’"));
        let sentence = wrong(&["weir", "run", "x.click", "--memory", "4X"]);
        assert!(sentence.contains("‘4X’ is no size"), "{sentence}");
        assert!(!sentence.contains('\n'));
    }

    #[test]
    fn the_command_line_is_sound() {
        super::Command::command().debug_assert();
    }
}
