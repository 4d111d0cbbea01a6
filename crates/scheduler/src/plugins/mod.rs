//! Plugins: filters, weights and balancers in Python, in the shape that oVirt's scheduler gave them.
//!
//! A plugin is a class with any of `do_filter(hosts, vm, args)`, `do_score(hosts, vm, args)` and
//! `do_balance(hosts, args)`. `hosts` is a list of names, `vm` is a name; each is a string that also has the facts as
//! attributes. A method returns its result, or prints it, as oVirt's proxy takes it. What it prints to standard error
//! is an error.
//!
//! The interface to a plugin is [`Channel`]: a request goes out, an answer comes back. [`process`] is the one that
//! runs Python. Whatever a plugin answers is checked here ([`message`]); a plugin that fails is left out of the
//! decision.

mod jail;
pub mod message;
mod pattern;
mod process;
mod units;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use jail::Limits;
pub use pattern::Pattern;
pub use process::{Folder, Process};
pub(crate) use units::PluginUnit;

/// A method of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// `do_filter`.
    Filter,
    /// `do_score`.
    Score,
    /// `do_balance`.
    Balance,
}

impl Method {
    /// All methods.
    pub const ALL: [Method; 3] = [Method::Filter, Method::Score, Method::Balance];

    /// Its name in Python.
    pub fn name(self) -> &'static str {
        match self {
            Method::Filter => "do_filter",
            Method::Score => "do_score",
            Method::Balance => "do_balance",
        }
    }
}

/// Carries a request to a plugin's process, and its answer back. Both are JSON.
pub trait Channel: Send + Sync {
    /// The answer, or what the process did instead: a sentence without a subject.
    fn exchange(&self, request: &str) -> Result<String, String>;
}

/// A plugin: a class.
#[derive(Clone)]
pub struct Plugin {
    /// The class, which is its name in a policy.
    pub class: String,
    /// Its methods, and the description of each.
    pub methods: BTreeMap<Method, String>,
    /// The properties that it takes, and what their values must match.
    pub properties: BTreeMap<String, Pattern>,
    /// Its process.
    pub channel: Arc<dyn Channel>,
}

impl Plugin {
    /// Whether it is this class and has this method.
    pub fn offers(&self, class: &str, method: Method) -> bool {
        self.class == class && self.methods.contains_key(&method)
    }
}
