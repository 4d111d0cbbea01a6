//! Reading a Linux network through netlink.

mod interfaces;
mod queueing;
mod routing;

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::{LinkAttribute, LinkMessage};
use netlink_packet_route::neighbour::NeighbourMessage;
use netlink_packet_route::nsid::{NsidAttribute, NsidMessage};
use netlink_packet_route::route::RouteMessage;
use netlink_packet_route::rule::RuleMessage;
use netlink_packet_route::tc::TcMessage;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use switch::netlink::{KernelRoute, Netlink};
use switch::nftables::{self, Table};

use super::CaptureError;
use super::seen::{InterfaceKind, SeenNamespace};
use interfaces::{address, bridge_vlans, link};
use queueing::shape;
use routing::{neighbour, route, rule};

/// Where `ip netns` and container engines keep namespaces.
const FOLDERS: [&str; 2] = ["/run/netns", "/run/docker/netns"];
/// What `statfs` says of a file that is a namespace (linux/magic.h).
const NAMESPACE_MAGIC: u64 = 0x6e73_6673;

/// A namespace to be looked at.
struct NamespaceFile {
    name: Option<String>,
    file: File,
    inode: u64,
}

/// Reads the namespace of this thread and those called `names`, by name or process number; all that
/// have names, if none are given. The first is this thread's.
pub fn read(names: &[String]) -> Result<Vec<SeenNamespace>, CaptureError> {
    let namespaces = namespaces(names)?;
    let mut others = Vec::new();
    if !names.is_empty() {
        open_named(&mut others);
    }
    let mut seen = Vec::new();
    for ns in &namespaces {
        let (mut netlink, forwards, tables) = inside(&namespaces[0], ns)?;
        let mut read = namespace(ns, &mut netlink, &namespaces, &others).map_err(|error| {
            CaptureError::Read {
                namespace: ns.name.clone().unwrap_or_else(|| "this one".into()),
                error,
            }
        })?;
        read.forwards = forwards;
        read.policies.extend(tables.iter().map(filtering));
        let at = seen.len();
        for link in &mut read.interfaces {
            if let InterfaceKind::Veth { namespace, .. } = &mut link.kind {
                namespace.get_or_insert(at);
            }
        }
        seen.push(read);
    }
    Ok(seen)
}

/// A table of nftables as a phrase.
fn filtering(table: &Table) -> String {
    let Table {
        family,
        name,
        rules,
    } = table;
    let are = if *rules == 1 { "rule" } else { "rules" };
    format!("the nftables table ‘{family} {name}’ ({rules} {are})")
}

/// A netlink socket in `ns`, whether it forwards, and its tables of nftables. The thread comes back to `home`: a socket
/// stays in the namespace where it was made.
fn inside(
    home: &NamespaceFile,
    ns: &NamespaceFile,
) -> Result<(Netlink, bool, Vec<Table>), CaptureError> {
    let enter = |file: &File| {
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).map_err(|error| {
            match error {
                rustix::io::Errno::PERM => CaptureError::Permission,
                error => CaptureError::System(error.into()),
            }
        })
    };
    if ns.inode != home.inode {
        enter(&ns.file)?;
    }
    let netlink = Netlink::new();
    let forwards = ["ipv4/ip_forward", "ipv6/conf/all/forwarding"]
        .iter()
        .any(|file| {
            fs::read_to_string(Path::new("/proc/sys/net").join(file))
                .is_ok_and(|it| it.trim() == "1")
        });
    let tables = nftables::tables();
    if ns.inode != home.inode {
        enter(&home.file)?;
    }
    Ok((netlink?, forwards, tables?))
}

/// The namespaces to look at, this thread's first, none twice.
fn namespaces(names: &[String]) -> Result<Vec<NamespaceFile>, CaptureError> {
    let mut namespaces = Vec::new();
    open(&mut namespaces, None, Path::new("/proc/thread-self/ns/net"))?;
    if names.is_empty() {
        open_named(&mut namespaces);
    }
    for name in names {
        let path = find(name).ok_or_else(|| CaptureError::NoNamespace(name.clone()))?;
        open(&mut namespaces, Some(name), &path)?;
    }
    Ok(namespaces)
}

/// Adds all namespaces that have names.
fn open_named(namespaces: &mut Vec<NamespaceFile>) {
    for folder in FOLDERS {
        let mut entries: Vec<_> = fs::read_dir(folder)
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        entries.sort();
        for name in entries {
            // One that goes away meanwhile is not part of the network any more.
            let _ = open(namespaces, Some(&name), &Path::new(folder).join(&name));
        }
    }
}

/// Where the namespace with a name, or of the process with a number, is.
fn find(name: &str) -> Option<PathBuf> {
    let named = FOLDERS.iter().map(|folder| Path::new(folder).join(name));
    let process = name
        .parse::<u32>()
        .ok()
        .map(|pid| PathBuf::from(format!("/proc/{pid}/ns/net")));
    named
        .chain(process)
        .find(|path| !name.contains('/') && path.exists())
}

fn open(
    namespaces: &mut Vec<NamespaceFile>,
    name: Option<&str>,
    path: &Path,
) -> Result<(), CaptureError> {
    use std::os::unix::fs::MetadataExt;
    let file = File::open(path)?;
    // A name whose namespace is not mounted (yet, or any more) is an ordinary file.
    if rustix::fs::fstatfs(&file).map_err(io::Error::from)?.f_type as u64 != NAMESPACE_MAGIC {
        return Err(CaptureError::NoNamespace(path.display().to_string()));
    }
    let inode = file.metadata()?.ino();
    if namespaces.iter().all(|ns| ns.inode != inode) {
        let name = name.map(str::to_string);
        namespaces.push(NamespaceFile { name, file, inode });
    }
    Ok(())
}

/// Reads a namespace among those looked at, `namespaces`. Of `others`, only names are told.
fn namespace(
    ns: &NamespaceFile,
    netlink: &mut Netlink,
    namespaces: &[NamespaceFile],
    others: &[NamespaceFile],
) -> io::Result<SeenNamespace> {
    let beyond = ids(netlink, others)?;
    let ids = ids(netlink, namespaces)?;
    let mut links = Vec::new();
    let (mut routes, mut policies) = (Vec::new(), Vec::new());
    for answer in netlink.dump(RouteNetlinkMessage::GetLink(LinkMessage::default()))? {
        if let RouteNetlinkMessage::NewLink(message) = answer {
            let mut link = link(&message, &ids);
            let elsewhere = message
                .attributes
                .iter()
                .find_map(|attribute| match attribute {
                    LinkAttribute::LinkNetNsId(id) if !ids.contains_key(id) => beyond.get(id),
                    _ => None,
                });
            link.beyond = elsewhere.and_then(|at| others[*at].name.clone());
            links.push(link);
        }
    }
    for answer in netlink.dump(RouteNetlinkMessage::GetAddress(AddressMessage::default()))? {
        if let RouteNetlinkMessage::NewAddress(message) = answer {
            let link = links
                .iter_mut()
                .find(|link| link.index == message.header.index);
            if let (Some(link), Some((address, peer))) = (link, address(&message)) {
                link.addresses.push(address);
                // The peer of an address is a route to it, and no more.
                routes.extend(peer.map(|to| KernelRoute {
                    to,
                    via: None,
                    device: Some(link.index),
                    metric: None,
                }));
            }
        }
    }
    for answer in netlink.dump(RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default()))? {
        if let RouteNetlinkMessage::NewQueueDiscipline(message) = answer {
            let index = message.header.index;
            let link = links.iter_mut().find(|link| link.index as i32 == index);
            if let Some(link) = link {
                shape(&message, link, netlink)?;
            }
        }
    }
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        let mut question = NeighbourMessage::default();
        question.header.family = family;
        for answer in netlink.dump(RouteNetlinkMessage::GetNeighbour(question))? {
            if let RouteNetlinkMessage::NewNeighbour(message) = answer {
                policies.extend(neighbour(&message, &links));
            }
        }
    }
    bridge_vlans(netlink, &mut links)?;
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        let mut question = RuleMessage::default();
        question.header.family = family;
        // A kernel without policy routing has no rules to tell.
        let rules = netlink.dump(RouteNetlinkMessage::GetRule(question));
        for answer in rules.into_iter().flatten() {
            if let RouteNetlinkMessage::NewRule(message) = answer {
                policies.extend(rule(&message));
            }
        }
        let mut question = RouteMessage::default();
        question.header.address_family = family;
        for answer in netlink.dump(RouteNetlinkMessage::GetRoute(question))? {
            if let RouteNetlinkMessage::NewRoute(message) = answer {
                routes.extend(route(&message, &mut policies));
            }
        }
    }
    Ok(SeenNamespace {
        name: ns.name.clone(),
        forwards: false,
        interfaces: links,
        routes,
        policies,
    })
}

/// By which number the socket's namespace knows the others: number to namespace.
fn ids(netlink: &mut Netlink, namespaces: &[NamespaceFile]) -> io::Result<HashMap<i32, usize>> {
    let mut ids = HashMap::new();
    for (at, ns) in namespaces.iter().enumerate() {
        let mut question = NsidMessage::default();
        let file = ns.file.as_raw_fd() as u32;
        question.attributes.push(NsidAttribute::Fd(file));
        for answer in netlink.get(RouteNetlinkMessage::GetNsId(question))? {
            if let RouteNetlinkMessage::NewNsId(answer) = answer {
                let id = answer
                    .attributes
                    .iter()
                    .find_map(|attribute| match attribute {
                        NsidAttribute::Id(id) if *id >= 0 => Some(*id),
                        _ => None,
                    });
                ids.extend(id.map(|id| (id, at)));
            }
        }
    }
    Ok(ids)
}
