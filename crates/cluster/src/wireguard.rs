//! The encrypted way between hosts: each has a WireGuard interface whose address follows from its public key, and takes
//! the other members of its networks as peers. The kernel's WireGuard is used, else the program wireguard-go.
//!
//! Nobody but the cluster's hosts knows these addresses: keys and addresses are told through etcd, and never cross the
//! network in clear.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::{ErrorKind as Io, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ipnet::Ipv6Net;
use node::error::{Error, Result};
use node::paths::Paths;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use switch::netlink::Netlink;

use crate::context::{Identity, folder};
use crate::files::{make_folder, write_private};

/// What all addresses begin with: a local prefix (RFC 4193), "weir" in ASCII.
const PREFIX: Ipv6Addr = Ipv6Addr::new(0xfd77, 0x6569, 0x7200, 0, 0, 0, 0, 0);
/// Length of the prefix.
const PREFIX_BITS: u8 = 48;
/// The metric of the route to nowhere: more than that of any other.
const NOWHERE_METRIC: u32 = u32::MAX - 1;
/// What VXLAN adds to an IP packet in IPv6, in bytes.
const VXLAN: u16 = 70;
/// MTU of a WireGuard interface on Ethernet, in bytes: 1500 less 80.
const MTU: u16 = 1420;
/// MTU of a network of VXLAN inside WireGuard, in bytes.
pub const NETWORK_MTU: u16 = MTU - VXLAN;

/// Seconds between packets to a peer. The first starts a session, so that the first frame need not wait for one, and
/// the peer of an interface that was made again hears of it.
const KEEPALIVE_S: u16 = 25;

/// A public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Key([u8; 32]);

impl Key {
    /// The address of the host that has this key.
    pub fn address(&self) -> Ipv6Addr {
        let mut address = PREFIX.octets();
        address[6..].copy_from_slice(&self.0[..10]);
        address.into()
    }
}

impl TryFrom<String> for Key {
    type Error = String;

    fn try_from(text: String) -> Result<Key, String> {
        let bytes = BASE64.decode(&text).ok().and_then(|it| it.try_into().ok());
        let wrong = || format!("‘{}’ is no key of WireGuard", text.escape_debug());
        bytes.map(Key).ok_or_else(wrong)
    }
}

impl From<Key> for String {
    fn from(key: Key) -> String {
        BASE64.encode(key.0)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from(*self))
    }
}

/// How a host is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Peer {
    /// Its public key.
    pub key: Key,
    /// Its address on the network between the hosts.
    pub endpoint: IpAddr,
}

/// What an interface is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Its UDP port, and that of its peers.
    pub port: u16,
    /// The other hosts.
    pub peers: BTreeSet<Peer>,
    /// The largest MTU of the networks, in bytes.
    pub mtu: u16,
}

impl Plan {
    /// What `wg syncconf` reads.
    fn text(&self, private: &str) -> String {
        let mut text = format!(
            "[Interface]\nPrivateKey = {private}\nListenPort = {}\n",
            self.port
        );
        for Peer { key, endpoint } in &self.peers {
            let (at, inside) = (SocketAddr::new(*endpoint, self.port), key.address());
            text += &format!(
                "[Peer]\nPublicKey = {key}\nEndpoint = {at}\nAllowedIPs = {inside}/128\nPersistentKeepalive = {KEEPALIVE_S}\n"
            );
        }
        text
    }
}

/// The WireGuard interface of a host.
#[derive(Clone, Debug)]
pub struct Wireguard {
    interface: String,
    private: PathBuf,
}

impl Wireguard {
    /// That of a host that joins, or joined. The host has it only if [`open`](Self::open) was called.
    pub fn of(paths: &Paths, host: &Identity) -> Wireguard {
        let id: String = host.id.chars().take(8).collect();
        Wireguard {
            interface: format!("wg-{id}"),
            private: folder(paths).join("wireguard.key"),
        }
    }

    /// Brings the interface up, if it is not, also for a key that is known already. Returns the host's key, and whether
    /// the interface must be told its plan.
    pub fn open(&self, key: Option<Key>) -> Result<(Key, bool)> {
        let key = key.map_or_else(|| self.public_key(), Ok)?;
        let wrong = |error| self.wrong(error);
        let mut netlink = Netlink::new().map_err(wrong)?;
        let address = Ipv6Net::new(key.address(), PREFIX_BITS)
            .map_err(Error::failed)?
            .into();
        let found = netlink.interface(&self.interface);
        if let Ok(found) = &found
            && found.is_up
            && netlink
                .addresses()
                .map_err(wrong)?
                .contains(&(found.index, address))
        {
            return Ok((key, false));
        }
        if found.is_err() {
            self.make(&mut netlink)?;
        }
        tracing::info!("WireGuard interface {} is brought up", self.interface);
        let up = |netlink: &mut Netlink| {
            // While the interface is away, frames for its peers leave by no other.
            netlink.set_unreachable(address.trunc(), NOWHERE_METRIC, true)?;
            let index = netlink.index(&self.interface)?;
            netlink.add_address(index, address)?;
            netlink.set_up(index)
        };
        up(&mut netlink).map_err(wrong)?;
        Ok((key, true))
    }

    fn wrong(&self, error: std::io::Error) -> Error {
        Error::refused(format_args!(
            "WireGuard interface {}: {error}",
            self.interface
        ))
    }

    fn public_key(&self) -> Result<Key> {
        let key = wg(&["pubkey"], &self.private_key()?)?;
        Key::try_from(key).map_err(Error::failed)
    }

    /// Brings the interface up for the first time; refused, nothing of it stays.
    pub fn try_out(&self, port: u16) -> Result<()> {
        let plan = Plan {
            port,
            peers: BTreeSet::new(),
            mtu: NETWORK_MTU,
        };
        let done = self.open(None).and_then(|_| self.tell(&plan));
        if done.is_err() {
            self.close();
        }
        done
    }

    /// Makes the interface.
    fn make(&self, netlink: &mut Netlink) -> Result<()> {
        let name = &self.interface;
        let refused = match netlink.add_wireguard(name) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        if refused.raw_os_error() != Some(Errno::OPNOTSUPP.raw_os_error()) {
            return Err(self.wrong(refused));
        }
        // It goes on by itself, also without this process.
        let status = Command::new("wireguard-go")
            .arg(name)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .status();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(_) => Err(Error::refused(format_args!(
                "this kernel has no WireGuard, and wireguard-go fails: `wireguard-go -f {name}` says why"
            ))),
            Err(error) if error.kind() == Io::NotFound => Err(Error::refused(
                "this kernel has no WireGuard, and wireguard-go is missing: load the kernel's module or install wireguard-go, or make the cluster without --wireguard",
            )),
            Err(error) => Err(Error::refused(format_args!("wireguard-go: {error}"))),
        }
    }

    /// Tells the interface its port and peers.
    pub fn tell(&self, plan: &Plan) -> Result<()> {
        let wrong = |error| self.wrong(error);
        let mtu = MTU.max(plan.mtu.saturating_add(VXLAN));
        let mut netlink = Netlink::new().map_err(wrong)?;
        let there = netlink.interface(&self.interface).map_err(wrong)?;
        if there.mtu != u32::from(mtu) {
            netlink.set_mtu(there.index, mtu).map_err(wrong)?;
        }
        let text = plan.text(&self.private_key()?);
        let told = wg(&["syncconf", &self.interface, "/dev/stdin"], &text);
        told.map(drop).map_err(|error| {
            match error.error.contains("Address already in use") {
                true => Error::refused(format_args!(
                    "UDP port {} of WireGuard is in use on this host: free it, or make the cluster with another --wireguard=PORT",
                    plan.port
                )),
                false => error,
            }
        })
    }

    /// Removes the interface, if there is one; wireguard-go then ends.
    pub fn close(&self) {
        let remove = || {
            let mut netlink = Netlink::new()?;
            let prefix = Ipv6Net::new(PREFIX, PREFIX_BITS).map_err(std::io::Error::other)?;
            let _ = netlink.set_unreachable(prefix.into(), NOWHERE_METRIC, false);
            let index = netlink.index(&self.interface)?;
            netlink.remove_link(index)
        };
        if let Err(error) = remove() {
            tracing::debug!("WireGuard interface {}: {error}", self.interface);
        }
        let _ = fs::remove_file(&self.private);
    }

    /// The private key of this host, which it makes once.
    fn private_key(&self) -> Result<String> {
        let path = self.private.display();
        let is_key = |text: &String| Key::try_from(text.trim().to_string()).is_ok();
        let kept = fs::read_to_string(&self.private);
        let is_missing = kept
            .as_ref()
            .is_err_and(|error| error.kind() == Io::NotFound);
        match kept {
            Ok(key) if is_key(&key) => return Ok(key),
            Err(error) if !is_missing && error.kind() != Io::InvalidData => {
                return Err(Error::failed(format_args!("{path}: {error}")));
            }
            _ => {}
        }
        // An interface that is up has the key that others know.
        let running = wg(&["show", &self.interface, "private-key"], "");
        let key = match running.ok().filter(is_key) {
            Some(key) => key,
            None if is_missing => wg(&["genkey"], "")?,
            None => {
                return Err(Error::refused(format_args!(
                    "{path} holds no key of WireGuard: `weir cluster leave` and `weir cluster join` make another"
                )));
            }
        };
        if let Some(folder) = self.private.parent() {
            make_folder(folder)?;
        }
        write_private(&self.private, key.as_bytes())?;
        Ok(key)
    }
}

/// Runs `wg`, which reads `input`.
fn wg(arguments: &[&str], input: &str) -> Result<String> {
    let failed = |error: std::io::Error| match error.kind() {
        Io::NotFound => Error::refused(
            "wg is missing: install it (Debian's wireguard-tools), or make the cluster without --wireguard",
        ),
        _ => Error::failed(format_args!("wg: {error}")),
    };
    let mut command = Command::new("wg");
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take()
        && let Err(error) = stdin.write_all(input.as_bytes())
        && error.kind() != Io::BrokenPipe
    {
        let _ = child.kill();
        let _ = child.wait();
        return Err(failed(error));
    }
    let output = child.wait_with_output().map_err(failed)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Error::refused(format_args!(
            "`wg {}` fails: {}",
            arguments.join(" "),
            said.trim()
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of RFC 7748, section 6.1: Alice's.
    const ALICE: &str = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=";

    #[test]
    fn an_address_follows_from_a_key() {
        let key = Key::try_from(ALICE.to_string()).unwrap();
        assert_eq!(key.to_string(), ALICE);
        let address: Ipv6Addr = "fd77:6569:7200:8520:f009:8930:a754:748b".parse().unwrap();
        assert_eq!(key.address(), address);
        for wrong in ["", "x", "hSDwCYkwp1R0i33ctD73Wg==", "\n"] {
            let error = Key::try_from(wrong.to_string()).unwrap_err();
            assert!(error.ends_with("is no key of WireGuard"), "{error}");
        }
    }

    #[test]
    fn a_peer_may_send_from_the_address_of_its_key_alone() {
        let peer = |endpoint: &str| Peer {
            key: Key::try_from(ALICE.to_string()).unwrap(),
            endpoint: endpoint.parse().unwrap(),
        };
        let plan = Plan {
            port: 7,
            peers: BTreeSet::from([peer("192.0.2.1"), peer("2001:db8::1")]),
            mtu: NETWORK_MTU,
        };
        let text = plan.text("P");
        assert!(text.starts_with("[Interface]\nPrivateKey = P\nListenPort = 7\n[Peer]\n"));
        assert!(text.contains(
            "\nEndpoint = 192.0.2.1:7\nAllowedIPs = fd77:6569:7200:8520:f009:8930:a754:748b/128\nPersistentKeepalive = 25\n"
        ));
        assert!(text.contains("\nEndpoint = [2001:db8::1]:7\n"));
    }
}
