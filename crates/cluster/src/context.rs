//! Where a cluster is: its etcd, and the certificate to show to etcd and to nodes. A host that joined has one in its
//! state, with who it is; commands elsewhere take a file.

use std::fs;
use std::path::{Path, PathBuf};

use node::error::{Error, Result};
use node::paths::Paths;
use node::tls::Files;
use serde::{Deserialize, Serialize};

use crate::files::{make_folder, write_private};
use crate::keys;
use crate::own_etcd::Own;

/// Where a cluster is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Context {
    /// Addresses of etcd.
    pub etcd: Vec<String>,
    /// The prefix of the cluster's keys.
    pub prefix: String,
    /// The certificate to show to etcd.
    pub tls: Option<Files>,
    /// The certificate to show to nodes.
    pub node_tls: Option<Files>,
    /// An etcd of this host.
    pub own: Option<Own>,
    /// Who this host is, if it joined.
    pub host: Option<Identity>,
    /// Whether this host keeps its guests when it is cut off from etcd.
    pub keep: bool,
    /// Whether this host never leads.
    pub follows: bool,
    /// Seconds of a host's lease, as they were when this host joined.
    pub lease_s: Option<u64>,
    /// The UDP port of WireGuard, if frames between hosts are encrypted.
    pub wireguard: Option<u16>,
}

/// Who a host is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Identity {
    /// Its name in the cluster.
    pub name: String,
    /// Tells it from another host of that name.
    pub id: String,
}

/// A context as its file has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Text {
    /// Addresses of etcd.
    etcd: Vec<String>,
    /// The prefix of the cluster's keys.
    #[serde(default = "prefix")]
    prefix: String,
    /// Certificate to show to etcd and nodes (PEM).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cert: Option<PathBuf>,
    /// Its private key (PEM).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<PathBuf>,
    /// The authority that signed etcd's and the nodes' certificates (PEM).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ca: Option<PathBuf>,
    /// Whether this host keeps its guests when it is cut off from etcd.
    #[serde(default)]
    keep: bool,
    /// Whether this host never leads.
    #[serde(default)]
    follows: bool,
    /// Seconds of a host's lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lease_s: Option<u64>,
    /// The UDP port of WireGuard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wireguard: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    own: Option<Own>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host: Option<Identity>,
}

fn prefix() -> String {
    keys::PREFIX.into()
}

/// The folder of what a host that joined keeps.
pub fn folder(paths: &Paths) -> PathBuf {
    paths.state.join("cluster")
}

/// The file of the context of a host that joined.
pub fn file(paths: &Paths) -> PathBuf {
    folder(paths).join("host.toml")
}

impl Context {
    /// The context of a file; without one, of this host.
    pub fn find(path: Option<&Path>, paths: &Paths) -> Result<Context> {
        let own = file(paths);
        match path {
            Some(path) => Context::read(path),
            None if own.is_file() => Context::read(&own),
            None => Err(Error::invalid(
                "this host is in no cluster: `weir cluster init` makes one, `weir cluster join` joins one, and --cluster=FILE or WEIR_CLUSTER names one",
            )),
        }
    }

    /// Reads a file.
    pub fn read(path: &Path) -> Result<Context> {
        let wrong = |why: &str| Error::invalid(format_args!("{}: {why}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| wrong(&error.to_string()))?;
        let text: Text = toml::from_str(&text).map_err(|error: toml::de::Error| {
            let before = error.span().and_then(|span| text.get(..span.start));
            let line = before.unwrap_or("").matches('\n').count() + 1;
            wrong(&format!("line {line}: {}", error.message()))
        })?;
        let files = match (text.cert, text.key, text.ca) {
            (Some(cert), Some(key), Some(ca)) => Some(Files { cert, key, ca }),
            (None, None, None) => None,
            _ => {
                return Err(wrong(
                    "cert, key and ca belong together: set all of them, or none",
                ));
            }
        };
        if !text.prefix.ends_with('/') {
            return Err(wrong("prefix: it ends in ‘/’, as in /weir/"));
        }
        Ok(Context {
            etcd: text.etcd,
            prefix: text.prefix,
            tls: text.own.as_ref().map(Own::files).or_else(|| files.clone()),
            node_tls: files,
            own: text.own,
            host: text.host,
            keep: text.keep,
            follows: text.follows,
            lease_s: text.lease_s,
            wireguard: text.wireguard,
        })
    }

    /// Writes the file of this host.
    pub fn write(&self, paths: &Paths) -> Result<()> {
        let (cert, key, ca) = match self.node_tls.clone() {
            Some(Files { cert, key, ca }) => (Some(cert), Some(key), Some(ca)),
            None => (None, None, None),
        };
        let text = Text {
            etcd: self.etcd.clone(),
            prefix: self.prefix.clone(),
            cert,
            key,
            ca,
            own: self.own.clone(),
            host: self.host.clone(),
            keep: self.keep,
            follows: self.follows,
            lease_s: self.lease_s,
            wireguard: self.wireguard,
        };
        let text = toml::to_string(&text).map_err(Error::failed)?;
        make_folder(&folder(paths))?;
        write_private(&file(paths), text.as_bytes())
    }

    /// This host.
    pub fn identity(&self) -> Result<&Identity> {
        self.host.as_ref().ok_or_else(|| {
            Error::invalid("this file names no host: `weir cluster join` makes one that does")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_read_as_it_is_written() {
        let folder = std::env::temp_dir().join(format!("weir-context-{}", std::process::id()));
        let paths = Paths {
            run: folder.clone(),
            state: folder.clone(),
        };
        let error = Context::find(None, &paths).unwrap_err().error;
        assert!(error.starts_with("this host is in no cluster"), "{error}");
        let files = Files {
            cert: "/c".into(),
            key: "/k".into(),
            ca: "/a".into(),
        };
        let context = Context {
            etcd: vec!["https://e:1".into()],
            prefix: prefix(),
            tls: Some(files.clone()),
            node_tls: Some(files),
            own: None,
            host: Some(Identity {
                name: "a".into(),
                id: "1".into(),
            }),
            keep: true,
            follows: true,
            lease_s: Some(5),
            wireguard: Some(51820),
        };
        context.write(&paths).unwrap();
        assert_eq!(Context::find(None, &paths).unwrap(), context);
        let page = include_str!("../../../docs/cluster.md");
        let documented = page.split("```toml\n").find(|it| it.starts_with("etcd"));
        let documented = documented.unwrap().split("```").next().unwrap();
        let path = folder.join("ops.toml");
        fs::write(&path, documented).unwrap();
        let ops = Context::read(&path).unwrap();
        assert!(ops.node_tls.is_some() && ops.host.is_none());
        let refused = |text: &str| {
            let path = folder.join("x.toml");
            fs::write(&path, text).unwrap();
            Context::read(&path).unwrap_err().error
        };
        let error = refused("etcd = ['http://e:1']\ncert = '/c'\n");
        assert!(error.contains("belong together"), "{error}");
        let error = refused("etcd = ['http://e:1']\ncolour = 1\n");
        assert!(error.contains("line 2: unknown field"), "{error}");
        let error = refused("etcd = ['http://e:1']\nprefix = '/x'\n");
        assert!(error.contains("ends in ‘/’"), "{error}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
