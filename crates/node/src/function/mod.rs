//! Functions: configurations that come with the program, each with parameters that are checked.
//!
//! A function is a Click configuration in `examples/functions`, and a file there is all that there
//! is of it: its comments declare its parameters ([`declaration`]), and are its manual page.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use declaration::Relation;
use ipnet::IpNet;
use router::nearest;

use crate::files;

mod declaration;
mod kind;
mod origin;

pub use declaration::{Declaration, Parameter};
pub use kind::Kind;
pub use origin::explain;

/// A configuration that comes with the program.
#[derive(Debug)]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// The configuration.
    pub text: &'static str,
}

/// The table of functions: each file of `examples/functions` by its name.
macro_rules! functions {
    ($($name:literal)*) => {
        &[$(Function {
            name: $name,
            text: include_str!(concat!("../../../../examples/functions/", $name, ".click")),
        }),*]
    };
}

/// All functions, by name.
pub static FUNCTIONS: &[Function] = functions! {
    "balancer"
    "bras"
    "cache"
    "cgnat"
    "ddos"
    "dpi"
    "firewall"
    "generator"
    "ids"
    "mirror"
    "monitor"
    "nat44"
    "nat64"
    "responder"
    "router"
    "router6"
    "shaper"
    "sink"
    "wire"
};

/// Why a configuration was not read.
#[derive(Debug, thiserror::Error)]
pub enum FunctionError {
    /// There is nothing of this name.
    #[error(
        "there is neither a file nor a function ‘{path}’{hint}: `weir function` lists the functions"
    )]
    Neither {
        /// What was asked for.
        path: PathBuf,
        /// The function that may have been meant.
        hint: String,
    },
    /// A file that cannot be read.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// There is no such parameter.
    #[error(
        "the function ‘{function}’ has no parameter ‘{name}’{hint}: `weir function {function}` lists its parameters"
    )]
    Parameter {
        /// The function.
        function: &'static str,
        /// The parameter.
        name: String,
        /// The parameter that may have been meant.
        hint: String,
    },
    /// A parameter has two values.
    #[error("the parameter ‘{0}’ is given twice")]
    Twice(String),
    /// A value that a parameter does not take.
    #[error("{name}={value}: {why}")]
    Value {
        /// The parameter.
        name: String,
        /// The value.
        value: String,
        /// What is wrong with it, and what would be right.
        why: String,
    },
    /// A file that a parameter names, with the line that is wrong.
    #[error("{0}")]
    Content(String),
}

/// A configuration as a user names it: its text, and its variables.
#[derive(Debug)]
pub struct Configuration {
    /// The text.
    pub text: Vec<u8>,
    /// Values of variables, in Click's language.
    pub settings: Vec<(String, String)>,
}

impl Configuration {
    /// The text, with the variables' definitions in front.
    pub fn whole(&self) -> Vec<u8> {
        let settings = self.settings.iter();
        let settings = settings.map(|(name, value)| (name.as_str(), value.as_str()));
        let mut whole = click::settings::join(settings, "").into_bytes();
        whole.extend_from_slice(&self.text);
        whole
    }
}

/// `; did you mean …` with the nearest of some names.
fn hint<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> String {
    nearest(name, known).map_or_else(String::new, |near| format!("; did you mean ‘{near}’?"))
}

/// The function of this name. A file of the same name is `./NAME`.
pub fn find(name: &Path) -> Option<&'static Function> {
    FUNCTIONS
        .iter()
        .find(|function| name == Path::new(function.name))
}

/// Whether a text may be the name of a function rather than a file's.
fn is_name(text: &str) -> bool {
    !text.contains(['/', '.'])
}

/// What may be meant by a name that is neither a function's nor a file's.
pub fn suggest(name: &Path) -> String {
    let name = name.to_str().filter(|name| is_name(name));
    let names = FUNCTIONS.iter().map(|function| function.name);
    name.map_or_else(String::new, |name| hint(name, names))
}

/// Reads the configuration that a user names: a function, or a file of at most `most` bytes.
pub fn read(
    name: &Path,
    settings: &[(String, String)],
    most: usize,
) -> Result<Configuration, FunctionError> {
    if let Some(function) = find(name) {
        return Ok(Configuration {
            text: function.text.into(),
            settings: function.settings(settings)?,
        });
    }
    let text = files::read(name, most).map_err(|error| {
        let path = name.into();
        let is_name = name.to_str().is_some_and(is_name);
        match error.kind() {
            std::io::ErrorKind::NotFound if is_name => FunctionError::Neither {
                path,
                hint: suggest(name),
            },
            _ => FunctionError::File { path, error },
        }
    })?;
    Ok(Configuration {
        text,
        settings: settings.to_vec(),
    })
}

impl Function {
    /// What its comments declare.
    pub fn declaration(&self) -> Declaration<'static> {
        Declaration::of(self.text)
    }

    /// Values of its parameters that are written in a folder's file: names of files are relative to the folder.
    pub fn beside(
        &self,
        folder: &Path,
        given: impl IntoIterator<Item = (String, String)>,
    ) -> Vec<(String, String)> {
        let parameters = self.declaration().parameters;
        let is_file = |name: &String| {
            let mut files = parameters.iter().filter(|it| it.kind.is_file());
            files.any(|it| it.name == name)
        };
        let given = given.into_iter().map(|(name, value)| {
            let there = folder.join(&value);
            match there.to_str() {
                Some(there) if is_file(&name) && !value.is_empty() => (name, there.to_string()),
                _ => (name, value),
            }
        });
        given.collect()
    }

    /// The variables of its configuration for some values of its parameters.
    pub fn settings(
        &self,
        given: &[(String, String)],
    ) -> Result<Vec<(String, String)>, FunctionError> {
        self.change(&BTreeMap::new(), given)
    }

    /// The variables that change if parameters get some values, while others `have` values of old.
    pub fn change(
        &self,
        have: &BTreeMap<String, String>,
        given: &[(String, String)],
    ) -> Result<Vec<(String, String)>, FunctionError> {
        let parameters = self.declaration().parameters;
        let mut settings: Vec<(String, String)> = Vec::with_capacity(given.len());
        for (name, value) in given {
            let parameter = parameters.iter().find(|parameter| parameter.name == name);
            let Some(parameter) = parameter else {
                return Err(FunctionError::Parameter {
                    function: self.name,
                    name: name.clone(),
                    hint: hint(name, parameters.iter().map(|parameter| parameter.name)),
                });
            };
            if settings.iter().any(|(other, _)| other == name) {
                return Err(FunctionError::Twice(name.clone()));
            }
            let value = parameter.kind.take(value).map_err(|wrong| match wrong {
                kind::Wrong::Value(why) => FunctionError::Value {
                    name: name.clone(),
                    value: value.clone(),
                    why,
                },
                kind::Wrong::Content(text) => FunctionError::Content(text),
            })?;
            settings.push((name.clone(), value));
        }
        check_networks(&parameters, have, &settings)?;
        check_relations(&parameters, have, &settings)?;
        Ok(settings)
    }
}

/// The value of a parameter: the one that is given, that it had, or its default.
fn value(
    parameter: &Parameter<'_>,
    have: &BTreeMap<String, String>,
    given: &[(String, String)],
) -> String {
    let given = given.iter().find(|(name, _)| name == parameter.name);
    let value = given.map(|(_, value)| value.as_str());
    let value = value.or_else(|| have.get(parameter.name).map(String::as_str));
    value.unwrap_or(parameter.default).to_string()
}

/// Refuses addresses and prefixes that are not where their parameters' relations say.
fn check_relations(
    parameters: &[Parameter<'_>],
    have: &BTreeMap<String, String>,
    given: &[(String, String)],
) -> Result<(), FunctionError> {
    let network = |parameter: &Parameter<'_>| {
        let text = value(parameter, have, given);
        let address = text.parse::<IpAddr>().map(IpNet::from);
        let net = text.parse::<IpNet>().or(address).ok()?;
        Some((text, net))
    };
    for parameter in parameters {
        let (others, is_within) = match &parameter.relation {
            Relation::None => continue,
            Relation::Within(other) => (core::slice::from_ref(other), true),
            Relation::Without(others) => (&others[..], false),
        };
        // A text that is empty stands for nothing.
        let Some((text, own)) = network(parameter) else {
            continue;
        };
        for other in others {
            let found = parameters.iter().find(|it| it.name == other);
            let Some((there, net)) = found.and_then(network) else {
                continue;
            };
            let why = match is_within {
                true if !net.contains(&own) => {
                    format!("it is not in {other}={there}; give one of them another value")
                }
                false if own.contains(&net) => {
                    format!("{other}={there} is in it; write a prefix without it")
                }
                _ => continue,
            };
            return Err(FunctionError::Value {
                name: parameter.name.into(),
                value: text,
                why,
            });
        }
    }
    Ok(())
}

/// Refuses networks that cannot be told apart, and own addresses that no host of their network has.
fn check_networks(
    parameters: &[Parameter<'_>],
    have: &BTreeMap<String, String>,
    given: &[(String, String)],
) -> Result<(), FunctionError> {
    let value = |parameter| value(parameter, have, given);
    let networks = parameters.iter().filter_map(|parameter| {
        let mut suffixes = [("_net", "_ip"), ("_net6", "_ip6")].into_iter();
        let own = suffixes.find_map(|(of_net, of_own)| {
            let name = parameter.name.strip_suffix(of_net)?;
            Some(format!("{name}{of_own}"))
        });
        let net = value(parameter).parse::<IpNet>().ok()?;
        Some((own?, parameter, net))
    });
    let networks: Vec<_> = networks.collect();
    for (i, (own, parameter, net)) in networks.iter().enumerate() {
        let wrong = |why| FunctionError::Value {
            name: parameter.name.into(),
            value: net.to_string(),
            why,
        };
        if let Some((_, other, _)) = networks[..i].iter().find(|(.., other)| other == net) {
            let other = other.name;
            return Err(wrong(format!("{other} is the same network; write another")));
        }
        let own = parameters.iter().find(|parameter| parameter.name == own);
        let address = own.and_then(|own| value(own).parse::<IpAddr>().ok());
        let why = match (net, address) {
            (IpNet::V4(net), Some(IpAddr::V4(address)))
                if net.prefix_len() < 31
                    && (address == net.network() || address == net.broadcast()) =>
            {
                format!("its own address {address} is that of the network or its broadcast address")
            }
            // RFC 4291, section 2.6.1; RFC 6164.
            (IpNet::V6(net), Some(IpAddr::V6(address)))
                if net.prefix_len() < 127 && address == net.network() =>
            {
                format!("its own address {address} is that of all routers of the network")
            }
            _ => continue,
        };
        return Err(wrong(format!("{why}; write the address of a host")));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
