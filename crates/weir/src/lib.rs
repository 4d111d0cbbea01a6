//! The `weir` command.
#![forbid(unsafe_code)]

pub mod check;
pub mod click;
mod command;
pub mod demo;
mod doctor;
pub mod element;
pub mod function;
pub mod graph;
pub mod host;
pub mod lab;
mod manual;
pub mod nouns;
mod plot;
pub mod run;
mod sock;
pub mod store;

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs with a command line; returns the exit code.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    switch::lookup::register(&click_lookup::FUNCTION);
    switch::process::Switch::at_start(|| vmm::show_title(c"weir-switch"));
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    let program = match arguments.is_empty() {
        true => "weir".into(),
        false => arguments.remove(0),
    };
    // A link named as one of Click's programs serves for it.
    let name = std::path::Path::new(&program).file_name();
    if let Some(run) = name.and_then(click_program) {
        let name = name.unwrap_or_default().to_string_lossy().into_owned();
        return run(&name, arguments).into();
    }
    if let Some(run) = arguments.first().and_then(|first| click_program(first)) {
        let name = format!("weir {}", arguments.remove(0).to_string_lossy());
        return run(&name, arguments).into();
    }
    command::main(program, arguments)
}

/// Runs one of Click's programs, under a name for messages; returns the exit code.
type Program = fn(&str, Vec<OsString>) -> u8;

fn click_program(name: &std::ffi::OsStr) -> Option<Program> {
    match name.to_str()? {
        "click" => Some(click::main),
        "click-flatten" => Some(click::flatten),
        "click-buildtool" => Some(click::buildtool),
        _ => None,
    }
}
