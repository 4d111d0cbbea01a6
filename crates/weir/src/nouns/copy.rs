//! `weir save`, `restore`, `clone`, `migrate`: guests that go on from copies.

use std::path::{Path, PathBuf};

use clap::Args;
use node::error::Error;
use node::model::{Clones, Guest, Migrate, Migrated, Object, Restore, Save, is_pattern};

use super::cluster::ClusterOption;
use super::output::{made, print};
use super::verb::{Progress, Waiting};
use super::{Result, client, clustered};

/// Saves a guest's state to a file, and stops it, unless it is a template
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

/// Restores a saved guest, which continues where it stood
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

/// Moves running guests to another node, with their state and addresses
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  weir migrate fw host2:6640
  weir migrate 'fw-*' host2:6640
  weir migrate fw host2:6640 --link outside=eth3
  weir migrate --cluster fw b

The other node listens there (`weir node --listen`), its certificate names the host, and this node's
certificate has the role of an operator there. Both run the same build. The guests of a pattern go one after
the other; one that cannot go stays, and the others go.")]
pub struct MigrateArgs {
    /// The guest, or a pattern of guests, as in 'fw-*'
    pub guest: String,
    /// The other node; with --cluster, the other host's name
    #[arg(value_name = "HOST:PORT")]
    pub to: String,
    #[command(flatten)]
    pub cluster: ClusterOption,
    /// A link of the other node for an interface; default: the one of the same name
    #[arg(long = "link", value_name = "INTERFACE=LINK", value_parser = pair)]
    pub links: Vec<(String, String)>,
    /// Print how it went as JSON; of a pattern, a list
    #[arg(long)]
    pub json: bool,
}

fn pair(text: &str) -> std::result::Result<(String, String), String> {
    let (interface, link) = text
        .split_once('=')
        .filter(|(interface, link)| !interface.is_empty() && !link.is_empty())
        .ok_or("write INTERFACE=LINK")?;
    Ok((interface.into(), link.into()))
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

/// Runs `weir migrate`.
pub fn migrate(args: &MigrateArgs) -> Result {
    if let Some(context) = args.cluster.context()? {
        if !args.links.is_empty() {
            return Err(Error::invalid(
                "--link and --cluster exclude each other: links of a cluster's hosts have the same names",
            ));
        }
        return clustered::migrate(&context, &args.guest, &args.to);
    }
    let migrate = Migrate {
        to: args.to.clone(),
        links: args.links.iter().cloned().collect(),
    };
    if !is_pattern(&args.guest) {
        let migrated = migrate_one(&args.guest, args, &migrate)?;
        return if args.json {
            made(true, &migrated)
        } else {
            Ok(())
        };
    }
    let guests = client().select::<Guest>(std::slice::from_ref(&args.guest))?;
    let (mut migrated, mut failed) = (Vec::new(), Vec::new());
    for Object { name, .. } in guests {
        match migrate_one(&name, args, &migrate) {
            Ok(one) => migrated.push(one),
            Err(error) if error.error.contains(&format!("‘{name}’")) => failed.push(error),
            Err(error) => failed.push(error.within(|why| format!("guest ‘{name}’: {why}"))),
        }
    }
    if args.json {
        made(true, &migrated)?;
    }
    let sentences: Vec<_> = failed.iter().map(|error| error.error.as_str()).collect();
    match failed.first() {
        None => Ok(()),
        Some(first) => Err(Error {
            error: sentences.join("\n"),
            ..first.clone()
        }),
    }
}

/// Migrates one guest, and says how that went.
fn migrate_one(guest: &str, args: &MigrateArgs, migrate: &Migrate) -> Result<Migrated> {
    let to = &args.to;
    let waiting = Waiting::new(
        &format!("guest ‘{guest}’ migrates to {to}"),
        format!(
            "interrupted: the node goes on with the migration of guest ‘{guest}’; `weir ls {guest}` here and there shows where it is"
        ),
    );
    let migrated = client().migrate(guest, migrate);
    drop(waiting);
    let migrated = migrated?;
    if !args.json {
        print(&format!(
            "guest ‘{guest}’ goes on at {to}: {:.1} ms without it, {} bytes sent in {:.1} ms\n",
            migrated.blackout_ms, migrated.bytes, migrated.total_ms
        ))?;
    }
    Ok(migrated)
}
