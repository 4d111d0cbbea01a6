//! The plugins of this host. They are loaded only if a policy names some: a file that hangs takes ten seconds.

use std::path::PathBuf;

use node::error::{Error, Result};
use scheduler::plugins::{Folder, Limits, Plugin};
use scheduler::{Failure, Policy};

use crate::keys::Kind;
use crate::view::View;

/// The folder of plugins, if no other is given.
pub const FOLDER: &str = "/etc/weir/plugins";
/// The variable of the environment that names another.
pub const VARIABLE: &str = "WEIR_PLUGINS";

/// The folder of this host's plugins.
pub fn folder() -> Folder {
    let path = std::env::var_os(VARIABLE).map_or_else(|| FOLDER.into(), PathBuf::from);
    Folder::new(path, Limits::default())
}

/// The plugins of a folder, and what is wrong with others.
pub fn load(folder: &mut Folder) -> (Vec<Plugin>, Vec<Failure>) {
    // Without a folder there are none.
    folder.plugins().unwrap_or_default()
}

/// The plugins of this host, if a policy names some; for a command.
pub fn of<'a>(mut policies: impl Iterator<Item = &'a Policy>) -> Vec<Plugin> {
    match policies.any(|policy| !policy.plugins().is_empty()) {
        true => load(&mut folder()).0,
        false => Vec::new(),
    }
}

/// The policies that the groups of hosts follow.
pub fn policies(view: &View) -> Vec<Policy> {
    let settings = view.settings();
    let names = settings.iter().flat_map(|it| {
        let of_groups = it.policies.values();
        of_groups.chain([&it.policy])
    });
    names.filter_map(|name| named(view, name).ok()).collect()
}

/// A policy by its name: one of the cluster's own, or a built-in one.
pub fn named(view: &View, name: &str) -> Result<Policy> {
    match view.get(&Kind::Policy.of(name)) {
        Some(policy) => Ok(policy),
        None => Policy::built_in(name).map_err(Error::not_found),
    }
}
