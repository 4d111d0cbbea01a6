//! Configurations that a guest runs beside its main one.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Guest, check_name, name::shown};
use crate::error::{Fault, Result};

/// The name of a guest's own configuration among all that it runs.
pub const MAIN: &str = "main";

/// A configuration that a guest runs beside its main one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Configuration {
    /// Its file: in a wire's file it is read from there; in the API it is the configuration's name in messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub file: Option<PathBuf>,
    /// The configuration, in Click's language. A list of guests leaves it out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub config: String,
    /// Values of its variables, or of a function's parameters, which are its own.
    #[serde(
        default,
        alias = "parameters",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub variables: BTreeMap<String, String>,
}

impl Configuration {
    /// Its text with its variables, as a guest takes it.
    pub(super) fn text(&self) -> String {
        super::guest::text(&self.variables, &self.config)
    }

    /// What it is called in messages.
    fn file_name(&self, name: &str) -> String {
        let file = self.file.as_ref();
        file.map_or_else(|| name.into(), |file| file.display().to_string())
    }
}

/// Whether a name that is a number is one of the control store's routers beside router 0, which is the guest itself.
fn names_router(name: &str, most: usize) -> bool {
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
    !is_number || !name.starts_with('0') && name.parse().is_ok_and(|number: usize| number <= most)
}

/// State of one of the configurations that a guest runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ConfigurationState {
    /// It runs.
    Running,
    /// It has stopped by itself; its handlers can still be called.
    Halted,
    /// It could not be started with the guest.
    Error,
}

impl Guest {
    /// Checks the configurations beside the main one.
    pub(super) fn check_installed(&self) -> Result<(), Fault> {
        let most = click::configurations::INSTALLED_MAX;
        if self.configurations.len() > most {
            let count = self.configurations.len();
            return Err(Fault::Configurations { count, most });
        }
        for (name, configuration) in &self.configurations {
            if name == MAIN
                || check_name("configuration", name).is_err()
                || !names_router(name, most)
            {
                return Err(Fault::Configuration {
                    name: shown(name),
                    most,
                });
            }
            if configuration.config.trim().is_empty() {
                return Err(Fault::EmptyConfiguration { name: name.clone() });
            }
            super::guest::check_variables(&configuration.variables)?;
        }
        Ok(())
    }

    /// The files of its configurations in messages, by their names; the main one's name is empty.
    pub fn files(&self) -> BTreeMap<String, String> {
        let installed = self.configurations.iter();
        let installed = installed.map(|(name, it)| (name.clone(), it.file_name(name)));
        installed
            .chain([(String::new(), self.file_name())])
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_named_as_a_guest_or_as_a_router_of_the_store() {
        let guest = |name: &str| Guest {
            configurations: [(
                name.to_string(),
                Configuration {
                    config: "Idle;".into(),
                    ..Configuration::default()
                },
            )]
            .into(),
            ..Guest::default()
        };
        for right in ["probe", "probe-2", "1", "63", "1a"] {
            assert!(guest(right).check_installed().is_ok(), "{right}");
        }
        for wrong in [
            "0", "01", "64", "99", "0/99", "a/b", "main", "-x", ".x", "a b",
        ] {
            let error = guest(wrong).check_installed().unwrap_err().to_string();
            assert!(error.contains("not starting with ‘.’ or ‘-’, and not ‘main’"));
            assert!(error.contains("from 1 to 63"), "{error}");
        }
    }
}
