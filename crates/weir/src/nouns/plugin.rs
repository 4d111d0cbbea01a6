//! `weir plugin`: filters, weights and balancers in Python.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Subcommand;
use cluster::plugins::{FOLDER, VARIABLE};
use node::error::Error;
use scheduler::facts::{Guest, Host, Memory, Processors};
use scheduler::plugins::{Limits, Method, Plugin, Process};
use scheduler::{Policy, Scene};
use serde::Serialize;

use super::Result;
use super::output::{Column, Output, print};
use super::policy::{patterns, plugins, read_scene, show};

/// Lists and tries plugins of the scheduler: filters, weights and balancers in Python
#[derive(Debug, Subcommand)]
#[command(
    after_help = "A plugin is a Python class with do_filter, do_score or do_balance, as in oVirt: docs/cluster.md.

Examples:
  weir plugin ls
  weir plugin test examples/plugins/fewest_guests.py"
)]
pub enum PluginCommand {
    /// Lists the plugins of a folder
    #[command(after_help = "Examples:\n  weir plugin ls\n  weir plugin ls examples/plugins")]
    Ls {
        /// The folder
        #[arg(env = VARIABLE, default_value = FOLDER)]
        folder: PathBuf,
        #[command(flatten)]
        output: Output,
    },
    /// Calls every method of a file's plugins, in the jail, and shows what comes of it
    #[command(
        after_help = "Without a file of hosts and guests, there are three hosts with a guest each, and one guest to be placed.

Examples:
  weir plugin test examples/plugins/fewest_guests.py
  weir plugin test examples/plugins/fewest_guests.py -p maximum_vm_count=2 --on examples/placement.toml"
    )]
    Test {
        /// The plugins' file
        file: PathBuf,
        /// Hosts and guests, as `weir place --explain` reads them
        #[arg(long, value_name = "FILE")]
        on: Option<PathBuf>,
        /// Properties of the policy
        #[arg(
            short,
            long = "properties",
            value_name = "NAME=VALUE",
            value_delimiter = ','
        )]
        properties: Vec<String>,
    },
}

#[derive(Serialize)]
struct Row {
    plugin: String,
    methods: Vec<&'static str>,
    properties: BTreeMap<String, String>,
    description: String,
}

const COLUMNS: &[Column<Row>] = &[
    Column::new("plugin", |it| it.plugin.clone()),
    Column::new("methods", |it| it.methods.join(",")),
    Column::new("properties", |it| {
        let names = it.properties.keys().cloned();
        names.collect::<Vec<_>>().join(",")
    }),
    Column::new("description", |it| it.description.clone()),
];

fn row(plugin: &Plugin) -> Row {
    let mut descriptions = plugin.methods.values().filter(|text| !text.is_empty());
    Row {
        plugin: plugin.class.clone(),
        methods: plugin.methods.keys().map(|method| method.name()).collect(),
        properties: patterns(plugin),
        description: descriptions.next().cloned().unwrap_or_default(),
    }
}

/// Runs `weir plugin`.
pub fn run(command: &PluginCommand) -> Result {
    match command {
        PluginCommand::Ls { folder, output } => {
            let rows: Vec<_> = plugins(folder)?.iter().map(row).collect();
            output.show(&rows, COLUMNS)
        }
        PluginCommand::Test {
            file,
            on,
            properties,
        } => {
            let process = Arc::new(Process::new(file.clone(), Limits::default()));
            let plugins = process.plugins().map_err(Error::invalid)?;
            if plugins.is_empty() {
                let file = file.display();
                let methods = Method::ALL.map(Method::name).join(", ");
                return Err(Error::invalid(format_args!(
                    "{file} has no class with one of {methods}"
                )));
            }
            let scene = on.as_deref().map_or_else(|| Ok(example()), read_scene)?;
            let properties: Result<BTreeMap<_, _>> = properties.iter().map(|it| pair(it)).collect();
            let properties = properties?;
            // Each is tried, also behind one that fails.
            let tried = plugins.iter().map(|it| try_plugin(it, &scene, &properties));
            let failed = tried.filter_map(|it| Some(it.err()?.to_string()));
            let failed: Vec<_> = failed.collect();
            match failed.is_empty() {
                true => Ok(()),
                false => Err(Error::refused(failed.join("\n"))),
            }
        }
    }
}

fn pair(text: &str) -> Result<(String, String)> {
    let pair = text.split_once('=');
    let (name, value) = pair.ok_or_else(|| {
        let text = text.escape_debug();
        Error::invalid(format_args!("‘{text}’ is no property: write NAME=VALUE"))
    })?;
    Ok((name.into(), value.into()))
}

/// Places and balances with a policy of this plugin beside the built-in filters.
fn try_plugin(plugin: &Plugin, scene: &Scene, properties: &BTreeMap<String, String>) -> Result {
    Output::default().show(&[row(plugin)], COLUMNS)?;
    let (class, mut policy) = (&plugin.class, Policy::default());
    if plugin.methods.contains_key(&Method::Filter) {
        policy.filters.push(class.clone());
    }
    if plugin.methods.contains_key(&Method::Score) {
        policy.weights = BTreeMap::from([(class.clone(), 1)]);
    }
    if plugin.methods.contains_key(&Method::Balance) {
        policy.balancer = class.clone();
    }
    policy.properties = properties.clone();
    let mut scene = scene.clone();
    scene.policy = Some(class.clone());
    scene.policies = BTreeMap::from([(class.clone(), policy)]);
    let scheduler = scene
        .scheduler(std::slice::from_ref(plugin))
        .map_err(Error::invalid)?;
    let explained = scene.explain(&scheduler).map_err(Error::invalid)?;
    let mut failures = Vec::new();
    for explained in explained {
        let explained = explained.map_err(Error::invalid)?;
        show(&explained)?;
        failures.extend(explained.failures);
    }
    let inventory = scene.inventory().map_err(Error::invalid)?;
    let (moved, failed) = scheduler.next_move(&inventory);
    if plugin.methods.contains_key(&Method::Balance) {
        print(&match moved {
            Some(placement) => format!(
                "guest {} moves to host {}\n",
                placement.name, placement.host
            ),
            None => "no guest moves\n".into(),
        })?;
    }
    failures.extend(failed);
    match failures.first() {
        None => Ok(()),
        Some(failure) => Err(Error::refused(vmm::printable(&failure.to_string()))),
    }
}

/// Three hosts with a guest each, and a guest that is to be placed.
fn example() -> Scene {
    let guest = || Guest {
        memory: Memory(4 << 20),
        processors: Processors(100),
        ..Guest::default()
    };
    let host = || Host {
        memory: Memory(16 << 30),
        processors: Processors(8000),
        ..Host::default()
    };
    let mut scene = Scene::default();
    for number in 1..=3 {
        let (name, on) = (format!("guest-{number}"), format!("host-{number}"));
        scene.hosts.insert(on.clone(), host());
        scene.guests.insert(name.clone(), guest());
        scene.running.insert(name, on);
    }
    scene.guests.insert("new".into(), guest());
    scene
}
