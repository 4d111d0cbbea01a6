//! Completions for shells, and manual pages: what packages take along.

use std::fs;
use std::path::Path;

use clap::Command;
use clap_complete::Shell;
use node::error::{Error, Result};

use crate::nouns::output::print;

/// Prints the completions for a shell.
pub fn completions(shell: Shell, mut command: Command) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "weir", &mut text);
    print(&String::from_utf8_lossy(&text))
}

/// Writes the manual pages to a folder: `weir.1`, `weir-create.1`, and so on.
pub fn pages(folder: &Path, command: Command) -> Result<()> {
    let failed =
        |error: std::io::Error| Error::failed(format_args!("{}: {error}", folder.display()));
    fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(command.disable_help_subcommand(true), folder).map_err(failed)
}
