//! The file of a node's settings, TOML.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::{Error, Result};

/// Longest file, in bytes.
const FILE_MAX: usize = 1 << 20;

/// What a client may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Read everything, change nothing.
    ReadOnly,
    /// Change resources, too.
    Operator,
    /// Everything: also remove all, and what concerns the node itself.
    Admin,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::ReadOnly => "read-only",
            Role::Operator => "operator",
            Role::Admin => "admin",
        })
    }
}

/// The settings.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Config {
    /// The role of each client of the network, by the name in its certificate.
    pub roles: BTreeMap<String, Role>,
    /// Where changes are written to.
    pub audit: AuditConfig,
}

/// Where changes are written to, beside the log.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct AuditConfig {
    /// The file.
    pub file: Option<PathBuf>,
}

impl Config {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Config> {
        let wrong = |why: &dyn fmt::Display| {
            Error::invalid(format_args!("the settings {}: {why}", path.display()))
        };
        let bytes = crate::files::read(path, FILE_MAX).map_err(|error| wrong(&error))?;
        let text = String::from_utf8(bytes).map_err(|error| wrong(&error))?;
        toml::from_str(&text).map_err(|error: toml::de::Error| {
            let before = &text[..error.span().map_or(0, |span| span.start)];
            let line = before.matches('\n').count() + 1;
            wrong(&format_args!("line {line}: {}", error.message()))
        })
    }

    /// The role of a client with a certificate: of the first of its names that has one.
    pub fn role<'a>(&self, names: &'a [String]) -> Option<(&'a str, Role)> {
        let role = |name: &'a String| Some((name.as_str(), *self.roles.get(name)?));
        names.iter().find_map(role)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_the_role_of_its_name_and_no_other() {
        let text =
            "[roles]\nalice = 'operator'\n'ops.example.org' = 'admin'\n[audit]\nfile = '/tmp/a'\n";
        let config: Config = toml::from_str(text).unwrap();
        let role = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(ToString::to_string).collect();
            config
                .role(&names)
                .map(|(name, role)| (name.to_string(), role))
        };
        assert_eq!(role(&["alice"]), Some(("alice".into(), Role::Operator)));
        let both = role(&["bob", "ops.example.org"]);
        assert_eq!(both, Some(("ops.example.org".into(), Role::Admin)));
        assert_eq!(role(&["Alice"]), None);
        assert_eq!(role(&[]), None);
        assert!(Role::Admin > Role::Operator && Role::Operator > Role::ReadOnly);
        for wrong in [
            "[roles]\nalice = 'root'",
            "[role]\nalice = 'admin'",
            "roles = 3",
        ] {
            assert!(toml::from_str::<Config>(wrong).is_err(), "{wrong}");
        }
    }
}
