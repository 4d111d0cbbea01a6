//! The file of a node's settings, TOML.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Deserializer};
use tracing::Level;

use crate::error::{Error, Result};
use crate::log::Format;
use crate::model::plain;
use crate::tls::Files;

/// Longest file, in bytes.
const FILE_MAX: usize = 1 << 20;

/// A client's role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Read everything, change nothing.
    ReadOnly,
    /// Send guests here, and have their state kept here, too: another host of a cluster.
    Peer,
    /// Change resources, too.
    Operator,
    /// Everything: also remove all, and what concerns the node itself.
    Admin,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::ReadOnly => "read-only",
            Role::Peer => "peer",
            Role::Operator => "operator",
            Role::Admin => "admin",
        })
    }
}

/// The settings: the options of `weir node`, and what there is no option for.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Config {
    /// The group that may use the API, too.
    pub group: Option<String>,
    /// How the switch runs.
    pub switch: SwitchConfig,
    /// Where clients of the network are served.
    pub listen: Option<ListenConfig>,
    /// What is logged, and how.
    pub log: LogConfig,
    /// The role of each client of the network, by the name in its certificate.
    pub roles: BTreeMap<String, Role>,
    /// Where changes are written to.
    pub audit: AuditConfig,
}

/// How the switch runs.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct SwitchConfig {
    /// Number of lanes.
    pub lanes: Option<usize>,
    /// CPUs of the lanes; none: any.
    pub cpus: Vec<usize>,
}

/// Where clients of the network are served, and the files of certificates (PEM).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ListenConfig {
    /// Address and port.
    pub address: SocketAddr,
    /// The node's certificate.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authority that signs the certificates of clients.
    pub client_ca: PathBuf,
}

impl ListenConfig {
    /// The address, and the files of the node's side.
    pub fn files(&self) -> (SocketAddr, Files) {
        let files = Files {
            cert: self.cert.clone(),
            key: self.key.clone(),
            ca: self.client_ca.clone(),
        };
        (self.address, files)
    }
}

/// What is logged, and how.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct LogConfig {
    /// `human` or `json`.
    #[serde(deserialize_with = "text")]
    pub format: Option<Format>,
    /// The lowest level: `error`, `warn`, `info`, `debug` or `trace`.
    #[serde(deserialize_with = "text")]
    pub level: Option<Level>,
}

/// A value that is written as text.
fn text<'de, D: Deserializer<'de>, T>(from: D) -> std::result::Result<Option<T>, D::Error>
where
    T: FromStr,
    T::Err: fmt::Display,
{
    let text = String::deserialize(from)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
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
            wrong(&format_args!("line {line}: {}", plain(error.message())))
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
    fn every_option_can_be_set_and_no_other() {
        let text = "group = 'net'\n[switch]\nlanes = 2\ncpus = [0, 1]\n\
            [listen]\naddress = '192.0.2.1:7443'\ncert = 'c'\nkey = 'k'\nclient-ca = 'a'\n\
            [log]\nformat = 'json'\nlevel = 'debug'\n";
        let config: Config = toml::from_str(text).unwrap();
        assert_eq!(config.group.as_deref(), Some("net"));
        assert_eq!(
            (config.switch.lanes, config.switch.cpus),
            (Some(2), vec![0, 1])
        );
        let (address, files) = config.listen.unwrap().files();
        assert_eq!((address.port(), files.ca), (7443, "a".into()));
        assert_eq!(config.log.format, Some(Format::Json));
        assert_eq!(config.log.level, Some(Level::DEBUG));
        for (wrong, part) in [
            ("grup = 'net'", "unknown field `grup`"),
            ("[switch]\nlane = 2", "unknown field `lane`"),
            ("[log]\nformat = 'xml'", "a log's format is human or json"),
            ("[log]\nlevel = 'loud'", "level"),
            ("[listen]\naddress = '192.0.2.1:7443'", "missing field"),
            (
                "[listen]\naddress = 'here'\ncert = 'c'\nkey = 'k'\nclient-ca = 'a'",
                "address",
            ),
        ] {
            let error = toml::from_str::<Config>(wrong).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

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
        assert!(
            Role::Admin > Role::Operator
                && Role::Operator > Role::Peer
                && Role::Peer > Role::ReadOnly
        );
        for wrong in [
            "[roles]\nalice = 'root'",
            "[role]\nalice = 'admin'",
            "roles = 3",
        ] {
            assert!(toml::from_str::<Config>(wrong).is_err(), "{wrong}");
        }
    }
}
