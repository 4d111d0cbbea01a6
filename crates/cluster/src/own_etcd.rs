//! An etcd of this host, for a cluster of one machine and for trying out: one member on the loopback interface, with
//! an authority and certificates of its own. It outlives the commands and the agent that start it.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use node::error::{Error, Result};
use node::tls::Files;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// Longest that etcd may take to start.
const START: Duration = Duration::from_secs(15);

/// An etcd of this host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Own {
    /// Its folder.
    pub folder: PathBuf,
    /// The port for clients.
    pub port: u16,
    /// The port for other members, of which there are none.
    pub peer_port: u16,
}

impl Own {
    /// Prepares one in a folder: its certificates and its ports.
    pub fn new(folder: &Path) -> Result<Own> {
        let mut builder = fs::DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(folder);
        made.map_err(|error| wrong(folder, &error))?;
        write_certificates(folder)?;
        let ports = [free_port()?, free_port()?];
        let [port, peer_port] = ports;
        Ok(Own {
            folder: folder.into(),
            port,
            peer_port,
        })
    }

    /// Where it is asked.
    pub fn endpoint(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// The certificate to show to it.
    pub fn files(&self) -> Files {
        Files {
            cert: self.folder.join("client.pem"),
            key: self.folder.join("client.key"),
            ca: self.folder.join("ca.pem"),
        }
    }

    fn listens(&self) -> bool {
        TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok()
    }

    fn pid_file(&self) -> PathBuf {
        self.folder.join("pid")
    }

    /// Starts it, unless it runs.
    pub fn start(&self) -> Result<()> {
        if self.listens() {
            return Ok(());
        }
        let log = self.folder.join("log");
        let file = |path: &Path| {
            let file = File::options()
                .create(true)
                .append(true)
                .mode(0o600)
                .open(path);
            file.map_err(|error| wrong(path, &error))
        };
        let (out, err) = (file(&log)?, file(&log)?);
        let client = self.endpoint();
        let peer = format!("https://127.0.0.1:{}", self.peer_port);
        let inside = |name: &str| self.folder.join(name);
        let mut command = Command::new("etcd");
        command
            .args(["--name", "weir", "--auto-compaction-retention", "1h"])
            .args(["--initial-cluster", &format!("weir={peer}")])
            .args([
                "--listen-client-urls",
                &client,
                "--advertise-client-urls",
                &client,
            ])
            .args([
                "--listen-peer-urls",
                &peer,
                "--initial-advertise-peer-urls",
                &peer,
            ])
            .arg("--data-dir")
            .arg(inside("data"))
            .args(["--client-cert-auth", "--peer-client-cert-auth"]);
        for (option, file) in [
            ("cert-file", "server.pem"),
            ("key-file", "server.key"),
            ("trusted-ca-file", "ca.pem"),
        ] {
            command.arg(format!("--{option}")).arg(inside(file));
            command.arg(format!("--peer-{option}")).arg(inside(file));
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .process_group(0)
            .spawn();
        let mut child = child.map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::failed(
                "etcd is missing: install it (Debian's etcd-server), or name one that runs by --etcd",
            ),
            _ => Error::failed(format_args!("etcd does not start: {error}")),
        })?;
        let pid = self.pid_file();
        fs::write(&pid, child.id().to_string()).map_err(|error| wrong(&pid, &error))?;
        let start = Instant::now();
        while !self.listens() {
            let ended = child.try_wait().is_ok_and(|ended| ended.is_some());
            if ended || start.elapsed() > START {
                return Err(Error::failed(format_args!(
                    "etcd does not start: its log is {}",
                    log.display()
                )));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Ends it.
    pub fn stop(&self) {
        let pid = fs::read_to_string(self.pid_file()).ok();
        let pid = pid.and_then(|pid| pid.trim().parse().ok());
        // The number may be another process's by now.
        let is_etcd = |pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let folder = self.folder.join("data");
            String::from_utf8_lossy(&line).contains(&*folder.to_string_lossy())
        };
        if let Some(pid) = pid.filter(is_etcd).and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
            let start = Instant::now();
            while self.listens() && start.elapsed() < START {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

fn wrong(path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::failed(format_args!("{}: {error}", path.display()))
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = listener.and_then(|listener| listener.local_addr());
    Ok(address.map_err(Error::failed)?.port())
}

/// An authority whose key is not kept, and two certificates that it signs: etcd's, and this host's for it.
fn write_certificates(folder: &Path) -> Result<()> {
    let key = KeyPair::generate().map_err(Error::failed)?;
    let mut params = CertificateParams::new([]).map_err(Error::failed)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let own = params.self_signed(&key).map_err(Error::failed)?;
    write(&folder.join("ca.pem"), &own.pem())?;
    let issuer = Issuer::new(params, key);
    for name in ["server", "client"] {
        let key = KeyPair::generate().map_err(Error::failed)?;
        let names = ["127.0.0.1".to_string(), "localhost".to_string()];
        let mut params = CertificateParams::new(names).map_err(Error::failed)?;
        params.distinguished_name.push(DnType::CommonName, name);
        // etcd is a client of itself, too.
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let signed = params.signed_by(&key, &issuer).map_err(Error::failed)?;
        write(&folder.join(format!("{name}.pem")), &signed.pem())?;
        write(&folder.join(format!("{name}.key")), &key.serialize_pem())?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    crate::files::write_private(path, text.as_bytes())
}
