//! Reading a Linux network through netlink.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use netlink_packet_core::Nla;
use netlink_packet_route::address::{AddressAttribute, AddressHeader, AddressMessage};
use netlink_packet_route::link::{
    AfSpecBridge, BridgeStpState, BridgeVlanInfoFlags, InfoBridge, InfoData, InfoKind, InfoVlan,
    InfoVxlan, LinkAttribute, LinkExtentMask, LinkFlags, LinkInfo, LinkLayerType, LinkMessage,
};
use netlink_packet_route::nsid::{NsidAttribute, NsidMessage};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteType,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleHeader, RuleMessage};
use netlink_packet_route::tc::{TcAttribute, TcMessage, TcOption};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::CaptureError;
use super::seen::{Kind, Link, Namespace, Route, Shaping};
use crate::netlink::Netlink;

/// Where `ip netns` and container engines keep namespaces.
const FOLDERS: [&str; 2] = ["/run/netns", "/run/docker/netns"];
/// What `statfs` says of a file that is a namespace (linux/magic.h).
const NAMESPACE_MAGIC: u64 = 0x6e73_6673;

/// The table of the host's own addresses (linux/rtnetlink.h: RT_TABLE_LOCAL).
const LOCAL: u32 = 255;

/// A namespace to be looked at.
struct Place {
    name: Option<String>,
    file: File,
    inode: u64,
}

/// Reads the namespace of this thread and those called `names`, by name or process number; all that
/// have names, if none are given. The first is this thread's.
pub fn read(names: &[String]) -> Result<Vec<Namespace>, CaptureError> {
    let places = places(names)?;
    let mut seen = Vec::new();
    for place in &places {
        let (mut netlink, forwards) = inside(&places[0], place)?;
        let mut read =
            namespace(place, &mut netlink, &places).map_err(|error| CaptureError::Read {
                namespace: place.name.clone().unwrap_or_else(|| "this one".into()),
                error,
            })?;
        read.forwards = forwards;
        let at = seen.len();
        for link in &mut read.links {
            if let Kind::Veth { namespace, .. } = &mut link.kind {
                namespace.get_or_insert(at);
            }
        }
        seen.push(read);
    }
    Ok(seen)
}

/// A netlink socket in `place`, and whether it forwards. The thread comes back to `home`: a socket
/// stays in the namespace where it was made.
fn inside(home: &Place, place: &Place) -> Result<(Netlink, bool), CaptureError> {
    let enter = |file: &File| {
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).map_err(|error| {
            match error {
                rustix::io::Errno::PERM => CaptureError::Permission,
                error => CaptureError::System(error.into()),
            }
        })
    };
    if place.inode != home.inode {
        enter(&place.file)?;
    }
    let netlink = Netlink::new();
    let forwards = ["ipv4/ip_forward", "ipv6/conf/all/forwarding"]
        .iter()
        .any(|file| {
            fs::read_to_string(Path::new("/proc/sys/net").join(file))
                .is_ok_and(|it| it.trim() == "1")
        });
    if place.inode != home.inode {
        enter(&home.file)?;
    }
    Ok((netlink?, forwards))
}

/// The namespaces to look at, this thread's first, none twice.
fn places(names: &[String]) -> Result<Vec<Place>, CaptureError> {
    let mut places = Vec::new();
    open(&mut places, None, Path::new("/proc/thread-self/ns/net"))?;
    if names.is_empty() {
        for folder in FOLDERS {
            let mut entries: Vec<_> = fs::read_dir(folder)
                .into_iter()
                .flatten()
                .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                .collect();
            entries.sort();
            for name in entries {
                // One that goes away meanwhile is not part of the network any more.
                let _ = open(&mut places, Some(&name), &Path::new(folder).join(&name));
            }
        }
    }
    for name in names {
        let path = find(name).ok_or_else(|| CaptureError::NoNamespace(name.clone()))?;
        open(&mut places, Some(name), &path)?;
    }
    Ok(places)
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

fn open(places: &mut Vec<Place>, name: Option<&str>, path: &Path) -> Result<(), CaptureError> {
    use std::os::unix::fs::MetadataExt;
    let file = File::open(path)?;
    // A name whose namespace is not mounted (yet, or any more) is an ordinary file.
    if rustix::fs::fstatfs(&file).map_err(io::Error::from)?.f_type as u64 != NAMESPACE_MAGIC {
        return Err(CaptureError::NoNamespace(path.display().to_string()));
    }
    let inode = file.metadata()?.ino();
    if places.iter().all(|place| place.inode != inode) {
        let name = name.map(str::to_string);
        places.push(Place { name, file, inode });
    }
    Ok(())
}

fn namespace(place: &Place, netlink: &mut Netlink, places: &[Place]) -> io::Result<Namespace> {
    let ids = ids(netlink, places)?;
    let mut links = Vec::new();
    for answer in netlink.dump(RouteNetlinkMessage::GetLink(LinkMessage::default()))? {
        if let RouteNetlinkMessage::NewLink(message) = answer {
            links.push(link(&message, &ids));
        }
    }
    for answer in netlink.dump(RouteNetlinkMessage::GetAddress(AddressMessage::default()))? {
        if let RouteNetlinkMessage::NewAddress(message) = answer {
            let link = links
                .iter_mut()
                .find(|link| link.index == message.header.index);
            if let (Some(link), Some(net)) = (link, address(&message)) {
                link.addresses.push(net);
            }
        }
    }
    for answer in netlink.dump(RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default()))? {
        if let RouteNetlinkMessage::NewQueueDiscipline(message) = answer {
            let index = message.header.index;
            let link = links.iter_mut().find(|link| link.index as i32 == index);
            if let Some(link) = link {
                shape(&message, &mut link.shaping);
            }
        }
    }
    bridge_vlans(netlink, &mut links)?;
    let (mut routes, mut policies) = (Vec::new(), Vec::new());
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
                match route(&message) {
                    Some(Ok(route)) => routes.push(route),
                    Some(Err(policy)) => policies.push(policy),
                    None => {}
                }
            }
        }
    }
    Ok(Namespace {
        name: place.name.clone(),
        forwards: false,
        links,
        routes,
        policies,
    })
}

/// By which number the socket's namespace knows the others: number to place.
fn ids(netlink: &mut Netlink, places: &[Place]) -> io::Result<HashMap<i32, usize>> {
    let mut ids = HashMap::new();
    for (at, place) in places.iter().enumerate() {
        let mut question = NsidMessage::default();
        let file = place.file.as_raw_fd() as u32;
        question.attributes.push(NsidAttribute::Fd(file));
        for answer in netlink.get(RouteNetlinkMessage::GetNsId(question))? {
            if let RouteNetlinkMessage::NewNsId(answer) = answer {
                let id = find_in(&answer.attributes, |attribute| match attribute {
                    NsidAttribute::Id(id) if *id >= 0 => Some(*id),
                    _ => None,
                });
                ids.extend(id.map(|id| (id, at)));
            }
        }
    }
    Ok(ids)
}

fn link(message: &LinkMessage, ids: &HashMap<i32, usize>) -> Link {
    let mut link = Link {
        index: message.header.index,
        up: message.header.flags.contains(LinkFlags::Up),
        ..Link::default()
    };
    let (mut kind, mut data, mut below, mut elsewhere) = (None, None, None, None);
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name.clone_from(name),
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            LinkAttribute::Controller(master) => link.master = Some(*master),
            LinkAttribute::Address(mac) => link.mac = mac.as_slice().try_into().ok(),
            LinkAttribute::Link(index) => below = Some(*index),
            LinkAttribute::LinkNetNsId(id) => elsewhere = Some(*id),
            LinkAttribute::LinkInfo(infos) => {
                for info in infos {
                    match info {
                        LinkInfo::Kind(found) => kind = Some(found.clone()),
                        LinkInfo::Data(found) => data = Some(found.clone()),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    link.kind = match (kind, data) {
        (None, _) if message.header.link_layer_type == LinkLayerType::Loopback => Kind::Loopback,
        (None, _) => Kind::Device,
        (Some(InfoKind::Bridge), data) => bridge(data),
        (Some(InfoKind::Veth), _) => Kind::Veth {
            index: below.unwrap_or(0),
            // A namespace that is not looked at gets a place that none has.
            namespace: elsewhere.map(|id| ids.get(&id).copied().unwrap_or(usize::MAX)),
        },
        (Some(InfoKind::Vlan), Some(InfoData::Vlan(infos))) => Kind::Vlan {
            id: find_in(&infos, |info| match info {
                InfoVlan::Id(id) => Some(*id),
                _ => None,
            })
            .unwrap_or(0),
            below: below.unwrap_or(0),
        },
        (Some(InfoKind::Tun), _) => Kind::Tap,
        (Some(InfoKind::Vxlan), Some(InfoData::Vxlan(infos))) => vxlan(&infos),
        (Some(kind), _) => Kind::Other(kind.to_string()),
    };
    link
}

fn find_in<'a, T, R>(all: &'a [T], which: impl Fn(&'a T) -> Option<R>) -> Option<R> {
    all.iter().find_map(which)
}

fn bridge(data: Option<InfoData>) -> Kind {
    let infos = match data {
        Some(InfoData::Bridge(infos)) => infos,
        _ => Vec::new(),
    };
    Kind::Bridge {
        vlans: infos.contains(&InfoBridge::VlanFiltering(true)),
        // Hundredths of a second.
        aging: find_in(&infos, |info| match info {
            InfoBridge::AgeingTime(time) => Some(time / 100),
            _ => None,
        })
        .unwrap_or(300),
        spanning_tree: infos.iter().any(|info| {
            matches!(info, InfoBridge::StpState(state) if *state != BridgeStpState::Disabled)
        }),
    }
}

fn vxlan(infos: &[InfoVxlan]) -> Kind {
    Kind::Vxlan {
        vni: find_in(infos, |info| match info {
            InfoVxlan::Id(id) => Some(*id),
            _ => None,
        })
        .unwrap_or(0),
        remote: find_in(infos, |info| match info {
            InfoVxlan::Group(to) => Some(IpAddr::from(*to)),
            InfoVxlan::Group6(to) => Some(IpAddr::from(*to)),
            _ => None,
        }),
        port: find_in(infos, |info| match info {
            InfoVxlan::Port(port) => Some(*port),
            _ => None,
        })
        .unwrap_or(4789),
    }
}

/// The address, unless the kernel gives it by itself: loopback and link-local ones.
fn address(message: &AddressMessage) -> Option<IpNet> {
    let AddressHeader { prefix_len, .. } = message.header;
    let of = |which: fn(&AddressAttribute) -> Option<IpAddr>| find_in(&message.attributes, which);
    let local = of(|attribute| match attribute {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    });
    let address = local.or(of(|attribute| match attribute {
        AddressAttribute::Address(address) => Some(*address),
        _ => None,
    }))?;
    let own = match address {
        IpAddr::V4(address) => !address.is_loopback(),
        IpAddr::V6(address) => !address.is_loopback() && !address.is_unicast_link_local(),
    };
    own.then(|| IpNet::new(address, prefix_len).ok()).flatten()
}

/// A rule of policy routing that is not one of the three that there always are, as a phrase.
fn rule(message: &RuleMessage) -> Option<String> {
    let RuleHeader {
        src_len, dst_len, ..
    } = message.header;
    let (mut priority, mut table) = (0, u32::from(message.header.table));
    let mut words = String::new();
    let mut narrower = false;
    for attribute in &message.attributes {
        let word = match attribute {
            RuleAttribute::Priority(number) => {
                priority = *number;
                continue;
            }
            RuleAttribute::Table(number) => {
                table = *number;
                continue;
            }
            RuleAttribute::Source(from) => format!("from {from}/{src_len} "),
            RuleAttribute::Destination(to) => format!("to {to}/{dst_len} "),
            RuleAttribute::Iifname(name) => format!("iif {name} "),
            RuleAttribute::Oifname(name) => format!("oif {name} "),
            RuleAttribute::FwMark(mark) => format!("fwmark {mark:#x} "),
            _ => continue,
        };
        narrower = true;
        words += &word;
    }
    let usual = matches!((priority, table), (0, 255) | (32766, 254) | (32767, 253));
    if usual && !narrower {
        return None;
    }
    let does = match message.header.action {
        RuleAction::ToTable => format!("lookup {table}"),
        other => format!("{other:?}").to_lowercase(),
    };
    Some(format!("the rule {priority}, ‘{words}{does}’"))
}

/// A route that somebody set, or as a phrase one that a wire cannot have: the kernel's own follow
/// from the addresses.
fn route(message: &RouteMessage) -> Option<Result<Route, String>> {
    let header = &message.header;
    let nowhere = match header.kind {
        RouteType::Unicast => None,
        RouteType::BlackHole => Some("blackhole"),
        RouteType::Unreachable => Some("unreachable"),
        RouteType::Prohibit => Some("prohibit"),
        RouteType::Throw => Some("throw"),
        // Local, broadcast and multicast ones are the kernel's.
        _ => return None,
    };
    let table = find_in(&message.attributes, |attribute| match attribute {
        RouteAttribute::Table(table) => Some(*table),
        _ => None,
    });
    let table = table.unwrap_or(header.table.into());
    let own = matches!(header.protocol, RouteProtocol::Kernel | RouteProtocol::Ra);
    if own || table == LOCAL {
        return None;
    }
    let ip = |address: &RouteAddress| match address {
        RouteAddress::Inet(address) => Some(IpAddr::from(*address)),
        RouteAddress::Inet6(address) => Some(IpAddr::from(*address)),
        _ => None,
    };
    let to = find_in(&message.attributes, |attribute| match attribute {
        RouteAttribute::Destination(to) => ip(to),
        _ => None,
    });
    let to = to.unwrap_or(match header.address_family {
        AddressFamily::Inet6 => IpAddr::from([0; 16]),
        _ => IpAddr::from([0; 4]),
    });
    let to = IpNet::new(to, header.destination_prefix_length).ok()?;
    let hops = find_in(&message.attributes, |attribute| match attribute {
        RouteAttribute::MultiPath(hops) => Some(hops.len()),
        _ => None,
    });
    let policy = match (nowhere, hops) {
        _ if table != u32::from(RouteHeader::RT_TABLE_MAIN) => {
            Some(format!("the route to {to} of table {table}"))
        }
        (Some(kind), _) => Some(format!("the {kind} route to {to}")),
        (None, Some(hops)) => Some(format!("the route to {to} by {hops} gateways at once")),
        (None, None) => None,
    };
    if let Some(policy) = policy {
        return Some(Err(policy));
    }
    Some(Ok(Route {
        to,
        via: find_in(&message.attributes, |attribute| match attribute {
            RouteAttribute::Gateway(via) => ip(via),
            _ => None,
        }),
        device: find_in(&message.attributes, |attribute| match attribute {
            RouteAttribute::Oif(index) => Some(*index),
            _ => None,
        }),
    }))
}

/// Notes which VLANs the ports of bridges take.
fn bridge_vlans(netlink: &mut Netlink, links: &mut [Link]) -> io::Result<()> {
    let mut question = LinkMessage::default();
    question.header.interface_family = AddressFamily::Bridge;
    let vlans = vec![LinkExtentMask::Brvlan];
    question.attributes.push(LinkAttribute::ExtMask(vlans));
    for answer in netlink.dump(RouteNetlinkMessage::GetLink(question))? {
        let RouteNetlinkMessage::NewLink(message) = answer else {
            continue;
        };
        let index = message.header.index;
        let Some(link) = links.iter_mut().find(|link| link.index == index) else {
            continue;
        };
        for attribute in &message.attributes {
            let LinkAttribute::AfSpecBridge(specs) = attribute else {
                continue;
            };
            for spec in specs {
                if let AfSpecBridge::VlanInfo(vlan) = spec {
                    if vlan.flags.contains(BridgeVlanInfoFlags::Pvid) {
                        link.pvid = Some(vlan.vid);
                    } else {
                        link.tagged.push(vlan.vid);
                    }
                }
            }
        }
    }
    Ok(())
}

/// Adds what a queueing discipline does: those of tc-tbf(8) and tc-netem(8).
fn shape(message: &TcMessage, shaping: &mut Shaping) {
    let kind = find_in(&message.attributes, |attribute| match attribute {
        TcAttribute::Kind(kind) => Some(kind.as_str()),
        _ => None,
    });
    let options = find_in(&message.attributes, |attribute| match attribute {
        TcAttribute::Options(options) => find_in(options, |option| match option {
            TcOption::Other(bytes) => {
                let mut value = vec![0; bytes.value_len()];
                bytes.emit_value(&mut value);
                Some(value)
            }
            _ => None,
        }),
        _ => None,
    });
    match (kind, options) {
        (Some("tbf"), Some(options)) => shaping.rate = tbf(&options).or(shaping.rate),
        (Some("netem"), Some(options)) => netem(&options, shaping),
        _ => {}
    }
}

/// The attributes in these bytes: numbers and contents.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16::from_ne_bytes([*bytes.first()?, *bytes.get(1)?]));
        let kind = u16::from_ne_bytes([*bytes.get(2)?, *bytes.get(3)?]);
        let contents = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, contents))
    })
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// The rate in TCA_OPTIONS of a token bucket filter, in bits a second (linux/pkt_sched.h:
/// `tc_tbf_qopt` begins with a `tc_ratespec`, whose rate stands at 8; larger ones are in an
/// attribute of their own).
fn tbf(options: &[u8]) -> Option<u64> {
    const PARAMETERS: u16 = 1;
    const RATE64: u16 = 4;
    let find = |wanted| attributes(options).find(|(kind, _)| *kind == wanted);
    let large = find(RATE64).and_then(|(_, contents)| u64_at(contents, 0));
    let small = find(PARAMETERS).and_then(|(_, contents)| u32_at(contents, 8));
    Some(large.or(small.map(u64::from))? * 8)
}

/// What TCA_OPTIONS of a network emulator say (linux/pkt_sched.h: `tc_netem_qopt`, then attributes).
fn netem(options: &[u8], shaping: &mut Shaping) {
    const HEADER: usize = 24;
    const RATE: u16 = 6;
    const RATE64: u16 = 8;
    const LATENCY64: u16 = 10;
    const JITTER64: u16 = 11;
    if let Some(loss) = u32_at(options, 8) {
        shaping.loss = f64::from(loss) / f64::from(u32::MAX);
    }
    for (kind, contents) in attributes(options.get(HEADER..).unwrap_or(&[])) {
        match kind {
            LATENCY64 => shaping.delay = u64_at(contents, 0).unwrap_or(0) / 1000,
            JITTER64 => shaping.jitter = u64_at(contents, 0).unwrap_or(0) / 1000,
            RATE64 => shaping.rate = u64_at(contents, 0).map(|rate| rate * 8),
            RATE => {
                let rate = u32_at(contents, 0).filter(|&rate| rate > 0);
                shaping.rate = shaping.rate.or(rate.map(|rate| u64::from(rate) * 8));
            }
            _ => {}
        }
    }
}
