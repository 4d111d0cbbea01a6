//! Reading a Linux network through netlink.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use netlink_packet_core::Nla;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    AfSpecBridge, BridgeStpState, BridgeVlanInfoFlags, InfoBridge, InfoData, InfoKind, InfoVlan,
    InfoVxlan, LinkAttribute, LinkExtentMask, LinkFlags, LinkInfo, LinkLayerType, LinkMessage,
};
use netlink_packet_route::nsid::{NsidAttribute, NsidMessage};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteMetric,
    RouteProtocol, RouteType,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleHeader, RuleMessage};
use netlink_packet_route::tc::{TcAttribute, TcMessage, TcOption};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use switch::lookup::Mac;

use super::CaptureError;
use super::seen::{Kind, Link, Namespace, Route};
use crate::netlink::{Netlink, own_address};

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
    let mut others = Vec::new();
    if !names.is_empty() {
        open_named(&mut others);
    }
    let mut seen = Vec::new();
    for place in &places {
        let (mut netlink, forwards) = inside(&places[0], place)?;
        let mut read = namespace(place, &mut netlink, &places, &others).map_err(|error| {
            CaptureError::Read {
                namespace: place.name.clone().unwrap_or_else(|| "this one".into()),
                error,
            }
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
        open_named(&mut places);
    }
    for name in names {
        let path = find(name).ok_or_else(|| CaptureError::NoNamespace(name.clone()))?;
        open(&mut places, Some(name), &path)?;
    }
    Ok(places)
}

/// Adds all namespaces that have names.
fn open_named(places: &mut Vec<Place>) {
    for folder in FOLDERS {
        let mut entries: Vec<_> = fs::read_dir(folder)
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        entries.sort();
        for name in entries {
            // One that goes away meanwhile is not part of the network any more.
            let _ = open(places, Some(&name), &Path::new(folder).join(&name));
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

/// Reads a namespace among those looked at, `places`. Of `others`, only names are told.
fn namespace(
    place: &Place,
    netlink: &mut Netlink,
    places: &[Place],
    others: &[Place],
) -> io::Result<Namespace> {
    let beyond = ids(netlink, others)?;
    let ids = ids(netlink, places)?;
    let mut links = Vec::new();
    let (mut routes, mut policies) = (Vec::new(), Vec::new());
    for answer in netlink.dump(RouteNetlinkMessage::GetLink(LinkMessage::default()))? {
        if let RouteNetlinkMessage::NewLink(message) = answer {
            let mut link = link(&message, &ids);
            let elsewhere = find_in(&message.attributes, |attribute| match attribute {
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
                routes.extend(peer.map(|to| Route {
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
            LinkAttribute::Address(mac) => link.mac = mac.as_slice().try_into().ok().map(Mac),
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

/// The address, unless the kernel gives it by itself (loopback and link-local ones), and its peer,
/// if it has one: the prefix is the peer's then.
fn address(message: &AddressMessage) -> Option<(IpNet, Option<IpNet>)> {
    let net = own_address(message)?;
    let own = match net.addr() {
        IpAddr::V4(address) => !address.is_loopback(),
        IpAddr::V6(address) => !address.is_loopback() && !address.is_unicast_link_local(),
    };
    let peer = find_in(&message.attributes, |attribute| match attribute {
        AddressAttribute::Address(peer) if *peer != net.addr() => Some(*peer),
        _ => None,
    });
    let peer = peer.and_then(|peer| IpNet::new(peer, net.prefix_len()).ok());
    own.then(|| match peer {
        Some(peer) => (IpNet::from(net.addr()), Some(peer.trunc())),
        None => (net, None),
    })
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

/// A route that somebody set: the kernel's own follow from the addresses. What a wire cannot have
/// is added to `policies`, a phrase each.
fn route(message: &RouteMessage, policies: &mut Vec<String>) -> Option<Route> {
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
    let route = Route::of(message)?;
    let to = route.to;
    let other = find_in(&message.attributes, |attribute| match attribute {
        RouteAttribute::MultiPath(hops) => Some(format!("by {} gateways at once", hops.len())),
        RouteAttribute::Via(_) => Some("by a gateway of another protocol".into()),
        RouteAttribute::EncapType(_) => Some("with an encapsulation".into()),
        _ => None,
    });
    let policy = match (nowhere, other) {
        _ if table != u32::from(RouteHeader::RT_TABLE_MAIN) => {
            Some(format!("the route to {to} of table {table}"))
        }
        (Some(kind), _) => Some(format!("the {kind} route to {to}")),
        (None, Some(how)) => Some(format!("the route to {to} {how}")),
        (None, None) if header.tos > 0 => Some(format!("the route to {to} of tos {}", header.tos)),
        (None, None) if header.source_prefix_length > 0 => {
            Some(format!("the route to {to} of some sources only"))
        }
        (None, None) => None,
    };
    if policy.is_some() {
        policies.extend(policy);
        return None;
    }
    let mut left_out = |what: &str| policies.push(format!("the {what} of the route to {to}"));
    if header.flags.contains(RouteFlags::Onlink) {
        left_out("‘onlink’");
    }
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::PrefSource(RouteAddress::Inet(src)) => left_out(&format!("src {src}")),
            RouteAttribute::PrefSource(RouteAddress::Inet6(src)) => {
                left_out(&format!("src {src}"));
            }
            RouteAttribute::Metrics(metrics) => {
                for metric in metrics {
                    match metric {
                        RouteMetric::Mtu(mtu) => left_out(&format!("mtu {mtu}")),
                        RouteMetric::Lock(_) => {}
                        _ => left_out("tuning of TCP"),
                    }
                }
            }
            _ => {}
        }
    }
    Some(route)
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

/// Queueing disciplines that limit, delay and lose nothing, but for what does not fit.
const PLAIN: [&str; 9] = [
    "noqueue",
    "pfifo_fast",
    "pfifo",
    "bfifo",
    "fq_codel",
    "fq",
    "codel",
    "sfq",
    "mq",
];

/// Adds what a queueing discipline does: those of tc-tbf(8) and tc-netem(8), and that of tc-htb(8)
/// where it limits all traffic as one.
fn shape(message: &TcMessage, link: &mut Link, netlink: &mut Netlink) -> io::Result<()> {
    let shaping = &mut link.shaping;
    match (kind_of(message).unwrap_or(""), options(message)) {
        ("tbf", Some(options)) => shaping.rate = tbf(&options).or(shaping.rate),
        ("netem", Some(options)) => netem(&options, link),
        ("htb", Some(options)) => {
            let mut question = TcMessage::default();
            question.header.index = message.header.index;
            let classes = netlink.dump(RouteNetlinkMessage::GetTrafficClass(question))?;
            let classes = classes.iter().filter_map(|answer| match answer {
                RouteNetlinkMessage::NewTrafficClass(class) => Some(class),
                _ => None,
            });
            let own = classes.filter(|class| {
                kind_of(class) == Some("htb")
                    && class.header.handle.major == message.header.handle.major
            });
            match htb(&options, &own.collect::<Vec<_>>()) {
                Some(rate) => shaping.rate = Some(rate),
                None => {
                    let text =
                        "its queueing discipline ‘htb’, by which not all traffic is of one class,";
                    link.queueing.push(text.into());
                }
            }
        }
        (kind, _) if PLAIN.contains(&kind) => {}
        (kind, _) => link
            .queueing
            .push(format!("its queueing discipline ‘{kind}’")),
    }
    Ok(())
}

fn kind_of(message: &TcMessage) -> Option<&str> {
    find_in(&message.attributes, |attribute| match attribute {
        TcAttribute::Kind(kind) => Some(kind.as_str()),
        _ => None,
    })
}

/// TCA_OPTIONS of a queueing discipline or a class.
fn options(message: &TcMessage) -> Option<Vec<u8>> {
    find_in(&message.attributes, |attribute| match attribute {
        TcAttribute::Options(options) => find_in(options, |option| match option {
            TcOption::Other(bytes) => {
                let mut value = vec![0; bytes.value_len()];
                bytes.emit_value(&mut value);
                Some(value)
            }
            _ => None,
        }),
        _ => None,
    })
}

/// The rate of a hierarchical token bucket's only class, if it is the one that all traffic takes,
/// in bits a second (linux/pkt_sched.h: the default class's number stands at 8 of `tc_htb_glob`, a
/// class's `tc_htb_opt` begins as `tc_tbf_qopt` does).
fn htb(discipline: &[u8], classes: &[&TcMessage]) -> Option<u64> {
    const INIT: u16 = 2;
    const RATE64: u16 = 6;
    let [class] = classes else {
        return None;
    };
    let (_, init) = attributes(discipline).find(|(kind, _)| *kind == INIT)?;
    let default = u32_at(init, 8)?;
    let takes_all = default == u32::from(class.header.handle.minor);
    takes_all.then(|| rate(&options(class)?, RATE64)).flatten()
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

/// The rate in TCA_OPTIONS of a token bucket filter, in bits a second.
fn tbf(options: &[u8]) -> Option<u64> {
    const RATE64: u16 = 4;
    rate(options, RATE64)
}

/// The rate in the parameters of a bucket, in bits a second (linux/pkt_sched.h: they begin with a
/// `tc_ratespec`, whose rate stands at 8; larger ones are in the attribute `large`).
fn rate(options: &[u8], large: u16) -> Option<u64> {
    const PARAMETERS: u16 = 1;
    let find = |wanted| attributes(options).find(|(kind, _)| *kind == wanted);
    let large = find(large).and_then(|(_, contents)| u64_at(contents, 0));
    let small = find(PARAMETERS).and_then(|(_, contents)| u32_at(contents, 8));
    Some(large.or(small.map(u64::from))? * 8)
}

/// What TCA_OPTIONS of a network emulator say (linux/pkt_sched.h: `tc_netem_qopt`, then attributes).
fn netem(options: &[u8], link: &mut Link) {
    const HEADER: usize = 24;
    const REORDER: u16 = 3;
    const CORRUPT: u16 = 4;
    const LOSS: u16 = 5;
    const RATE: u16 = 6;
    const RATE64: u16 = 8;
    const LATENCY64: u16 = 10;
    const JITTER64: u16 = 11;
    let shaping = &mut link.shaping;
    let mut left_out = |what: &str| link.queueing.push(format!("the {what} of its netem"));
    if let Some(loss) = u32_at(options, 8) {
        shaping.loss = f64::from(loss) / f64::from(u32::MAX);
    }
    if u32_at(options, 16).is_some_and(|share| share > 0) {
        left_out("duplication");
    }
    for (kind, contents) in attributes(options.get(HEADER..).unwrap_or(&[])) {
        let share = u32_at(contents, 0).unwrap_or(0);
        match kind {
            REORDER if share > 0 => left_out("reordering"),
            CORRUPT if share > 0 => left_out("corruption"),
            LOSS => left_out("model of loss"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_of_a_network_emulator_has_no_counterpart_is_noted() {
        let mut options = vec![0; 24];
        options[16] = 1;
        // An attribute of 12 bytes, its number, a share.
        options.extend([12_u16, 4].map(u16::to_ne_bytes).concat());
        options.extend([1; 8]);
        let mut link = Link::default();
        netem(&options, &mut link);
        assert_eq!(
            link.queueing,
            [
                "the duplication of its netem",
                "the corruption of its netem"
            ]
        );
    }
}
