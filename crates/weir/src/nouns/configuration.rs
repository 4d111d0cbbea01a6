//! `weir install`, `weir uninstall`: several configurations in one guest.

use std::path::PathBuf;

use clap::Args;
use node::error::Error;
use node::model::Configuration;

use super::guest::{read_config, tell_messages};
use super::output::{made, print};
use super::{Result, client};
use crate::check::setting;

/// Installs another configuration on a running guest, beside its others
#[derive(Debug, Args)]
#[command(
    after_help = "Each configuration has its own elements, classes and variables. Its handlers are NAME/ELEMENT.HANDLER.
The others go on with their state. One that is installed under a name that is in use replaces that one.

Examples:
  weir install fw probe probe.click RATE=100
  weir read fw probe/c.count
  weir uninstall fw probe"
)]
pub struct InstallArgs {
    /// The guest
    pub guest: String,
    /// The configuration's name
    pub name: String,
    /// The Click configuration: a file, or a function
    pub config: PathBuf,
    /// Values for its variables, as in RATE=1000
    #[arg(value_name = "NAME=VALUE", value_parser = setting)]
    pub variables: Vec<(String, String)>,
    /// Print the guest as JSON
    #[arg(long)]
    pub json: bool,
}

/// Uninstalls a configuration of a guest
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  weir uninstall fw probe")]
pub struct UninstallArgs {
    /// The guest
    pub guest: String,
    /// The configuration's name
    pub name: String,
}

/// Runs `weir install`.
pub fn install(args: &InstallArgs) -> Result {
    let (config, variables) = read_config(&args.config, &args.variables)?;
    let configuration = Configuration {
        file: Some(args.config.clone()),
        config,
        variables,
    };
    if configuration.config.trim().is_empty() {
        let file = args.config.display();
        let empty = format!("{file}: the configuration is empty");
        return Err(Error::invalid(empty));
    }
    let guest = client().install(&args.guest, &args.name, &configuration)?;
    tell_messages(&guest);
    if !guest.status.pending.is_empty() && !args.json {
        let (guest, name) = (&args.guest, &args.name);
        print(&format!(
            "{guest}: ‘{name}’ runs from its next start on: `weir restart {guest}`\n"
        ))?;
    }
    made(args.json, &guest)
}

/// Runs `weir uninstall`.
pub fn uninstall(args: &UninstallArgs) -> Result {
    client().uninstall(&args.guest, &args.name)
}
