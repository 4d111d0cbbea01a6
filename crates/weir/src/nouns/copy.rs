//! `weir save`, `restore`, `clone`: guests that go on from copies.

use std::path::{Path, PathBuf};

use clap::Args;
use node::error::Error;
use node::model::{Clones, Restore, Save};

use super::output::made;
use super::verb::Progress;
use super::{Result, client};

/// Saves a guest's state to a file, and stops it
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  weir save fw fw.saved
  weir save --keep fw fw.saved")]
pub struct SaveArgs {
    /// The guest
    pub guest: String,
    /// The file on the node's host; an existing one is replaced
    pub file: PathBuf,
    /// Have the guest go on; frames in its rings are not saved then
    #[arg(long)]
    pub keep: bool,
    /// Print the file and its length as JSON
    #[arg(long)]
    pub json: bool,
}

/// Has a saved guest go on where it stood
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  weir restore fw.saved
  weir restore fw.saved --name fw2")]
pub struct RestoreArgs {
    /// The file on the node's host
    pub file: PathBuf,
    /// The guest's name; default: the one it had
    #[arg(long)]
    pub name: Option<String>,
    /// Print the guest as JSON
    #[arg(long)]
    pub json: bool,
}

/// Makes copies of a guest, with its state and addresses of their own
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  weir clone fw fw2
  weir clone fw --count 100 --name 'fw-{}'
  weir template fw && weir clone fw --count 100")]
pub struct CloneArgs {
    /// The guest, or a template
    pub guest: String,
    /// The copy's name
    #[arg(conflicts_with_all = ["name", "count"], required_unless_present = "count")]
    pub copy: Option<String>,
    /// Number of copies
    #[arg(long, value_name = "N")]
    pub count: Option<u32>,
    /// The copies' name, with {} for the number of each; default: GUEST-{}
    #[arg(long, value_name = "NAME", requires = "count")]
    pub name: Option<String>,
    /// The first copy's number
    #[arg(long, value_name = "N", requires = "count", default_value_t = 1)]
    pub first: u32,
    /// Print the copies as JSON
    #[arg(long)]
    pub json: bool,
}

/// The path that the node knows a file by.
fn absolute(file: &Path) -> Result<PathBuf> {
    let path = std::path::absolute(file);
    path.map_err(|error| Error::invalid(format_args!("{}: {error}", file.display())))
}

/// Runs `weir save`.
pub fn save(args: &SaveArgs) -> Result {
    let save = Save {
        file: absolute(&args.file)?,
        keep: args.keep,
    };
    let saved = client().save(&args.guest, &save)?;
    made(args.json, &saved)
}

/// Runs `weir restore`.
pub fn restore(args: &RestoreArgs) -> Result {
    let restore = Restore {
        file: absolute(&args.file)?,
        name: args.name.clone(),
    };
    let guest = client().restore(&restore)?;
    made(args.json, &guest)
}

/// Runs `weir clone`.
pub fn clone(args: &CloneArgs) -> Result {
    let series = || {
        let name = args.name.clone();
        name.unwrap_or_else(|| format!("{}-{{}}", args.guest))
    };
    let clones = Clones {
        name: args.copy.clone().unwrap_or_else(series),
        count: args.count.unwrap_or(1),
        first: args.first,
    };
    let mut progress = Progress::new(Some(clones.count.into()));
    client().clone_guest(&args.guest, &clones, |outcome| progress.tell(outcome))?;
    let outcomes = progress.end()?;
    made(args.json, &outcomes)
}
