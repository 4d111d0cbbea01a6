//! The `weir` command.
#![forbid(unsafe_code)]

pub mod check;
pub mod click;
mod command;
pub mod demo;
pub mod element;
pub mod host;
pub mod lab;
pub mod run;

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs with a command line; returns the exit code.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    let program = match arguments.is_empty() {
        true => "weir".into(),
        false => arguments.remove(0),
    };
    let name = std::path::Path::new(&program).file_name();
    if name.is_some_and(|name| name == "click") {
        return click::main("click", arguments).into();
    }
    if arguments.first().is_some_and(|first| first == "click") {
        arguments.remove(0);
        return click::main("weir click", arguments).into();
    }
    command::main(program, arguments)
}
