//! Networks of the host's own kernel: namespaces, and their addresses, routes and forwarding.

use std::fs::{self, File};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, mount_bind, unmount};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use ::switch::netlink::{self, Interface, KernelRoute, Netlink};

use super::namespace;
use crate::error::{Error, Kind, Result};
use crate::model::Forwarding;

/// Where `ip netns` keeps namespaces by their names.
const FOLDER: &str = "/run/netns";
/// The number of the file system that namespaces are files of.
const NSFS: rustix::fs::FsWord = 0x6e73_6673;

fn file(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}

/// Whether there is a namespace called `name`.
pub fn exists(name: &str) -> bool {
    is_namespace(&file(name))
}

/// Whether a namespace is kept at `path`: a process that is killed while it removes one leaves an
/// empty file.
fn is_namespace(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|files| files.f_type == NSFS)
}

/// Removes the file of a namespace `name` that a killed process had begun to make, or not quite
/// removed: nothing but the name.
pub fn sweep(name: &str) {
    let path = file(name);
    if path.exists() && !is_namespace(&path) {
        // A failure shows when the namespace is made.
        let _ = fs::remove_file(path);
    }
}

/// Makes a namespace that `ip netns` knows, with its loopback up. The process has this thread only.
pub fn create(name: &str) -> Result<()> {
    let path = file(name);
    let refused = |what: &str, error: &dyn std::fmt::Display| {
        Error::refused(format_args!("network namespace ‘{name}’: {what}: {error}"))
    };
    fs::create_dir_all(FOLDER).map_err(|error| refused("its folder", &error))?;
    let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    match rustix::fs::open(&path, flags, Mode::empty()) {
        Ok(_) => {}
        Err(Errno::EXIST) if !is_namespace(&path) => {}
        Err(Errno::EXIST) => return Err(is_taken(name)),
        Err(error) => return Err(refused("its file", &error)),
    }
    let made = bind_new(&path).and_then(|()| set_loopback_up(name));
    if made.is_err() {
        // Also an incomplete one.
        let _ = delete(name);
    }
    made
}

/// Sets the loopback of a namespace up.
pub fn set_loopback_up(name: &str) -> Result<()> {
    let up = with_netlink(Some(name), |netlink| {
        let loopback = netlink.index("lo")?;
        netlink.set_up(loopback)
    });
    up?.map_err(|error| {
        Error::refused(format_args!(
            "network namespace ‘{name}’: its loopback: {error}"
        ))
    })
}

/// That there is a namespace of that name already.
pub fn is_taken(name: &str) -> Error {
    Error::new(
        Kind::Exists,
        format_args!(
            "there is already a network namespace ‘{name}’: write existing = true to use it, or `ip netns delete {name}` first"
        ),
    )
}

/// Makes a namespace and keeps it at `path`.
fn bind_new(path: &Path) -> Result<()> {
    let refused = |error: Errno| {
        Error::refused(format_args!(
            "network namespace ‘{}’: {error}",
            path.display()
        ))
    };
    let here = File::open("/proc/self/ns/net").map_err(Error::failed)?;
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET)
        .map_err(|error| refused(Errno::from_raw_os_error(error as i32)))?;
    let bound = mount_bind("/proc/self/ns/net", path).map_err(refused);
    move_into_link_name_space(here.as_fd(), Some(LinkNameSpaceType::Network))
        .expect("a thread can go back to the namespace that it came from");
    bound
}

/// Removes a namespace's name; it goes when nothing is in it any more.
pub fn delete(name: &str) -> Result<()> {
    let path = file(name);
    let _ = unmount(&path, UnmountFlags::DETACH);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::refused(
            format_args!("network namespace ‘{name}’ cannot be removed: {error}"),
        )),
        _ => Ok(()),
    }
}

/// Does `work` with a netlink socket in a namespace; `None` is the host's own.
fn with_netlink<T>(
    place: Option<&str>,
    work: impl FnOnce(&mut Netlink) -> std::io::Result<T>,
) -> Result<std::io::Result<T>> {
    let socket = || Netlink::new();
    let netlink = match place {
        Some(name) => namespace::within(name, socket)?,
        None => socket(),
    };
    Ok(netlink.and_then(|mut netlink| work(&mut netlink)))
}

fn called(place: Option<&str>) -> String {
    place.map_or("the host".into(), |name| format!("namespace ‘{name}’"))
}

/// Gives an interface these addresses, and takes others away that are in `old`.
pub fn set_addresses(
    place: Option<&str>,
    interface: &str,
    old: &[IpNet],
    new: &[IpNet],
) -> Result<()> {
    let set = with_netlink(place, |netlink| {
        let index = netlink.index(interface)?;
        for address in old.iter().filter(|address| !new.contains(address)) {
            // It may have been taken away by hand.
            let _ = netlink.remove_address(index, *address);
        }
        new.iter()
            .try_for_each(|address| netlink.add_address(index, *address))
    })?;
    set.map_err(|error| {
        Error::refused(format_args!(
            "the addresses of ‘{interface}’ in {}: {error}",
            called(place)
        ))
    })
}

/// An interface; `None` if there is none of that name.
pub fn interface(place: Option<&str>, interface: &str) -> Result<Option<Interface>> {
    let found = with_netlink(place, |netlink| netlink.interface(interface))?;
    match found {
        Ok(interface) => Ok(Some(interface)),
        Err(error) if error.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => Ok(None),
        Err(error) => Err(Error::refused(format_args!(
            "interface ‘{interface}’ in {}: {error}",
            called(place)
        ))),
    }
}

/// The name of the host's interface of a number; `None` if there is none.
pub fn name_of(index: u32) -> Option<String> {
    let found = with_netlink(None, Netlink::interfaces).ok()?.ok()?;
    let it = found.into_iter().find(|it| it.index == index);
    it.map(|it| it.name)
}

/// Gives an interface an MTU, in bytes.
pub fn set_mtu(place: Option<&str>, interface: &str, mtu: u16) -> Result<()> {
    let set = with_netlink(place, |netlink| {
        let index = netlink.index(interface)?;
        netlink.set_mtu(index, mtu)
    })?;
    set.map_err(|error| {
        Error::refused(format_args!(
            "the MTU of ‘{interface}’ in {}: {error}",
            called(place)
        ))
    })
}

/// A route of a namespace, by its interface's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceRoute {
    /// Where to.
    pub to: IpNet,
    /// The next router.
    pub via: Option<IpAddr>,
    /// The interface.
    pub interface: Option<String>,
    /// Which of several to one prefix is taken: that with the least.
    pub metric: Option<u32>,
}

impl InterfaceRoute {
    /// The route, with its interface's number.
    fn found(&self, netlink: &mut Netlink) -> std::io::Result<KernelRoute> {
        let interface = self.interface.as_ref();
        Ok(KernelRoute {
            to: self.to,
            via: self.via,
            device: interface.map(|name| netlink.index(name)).transpose()?,
            metric: self.metric,
        })
    }
}

/// Sets routes of a namespace, and removes others that are in `old`. Those without a gateway come
/// first: others' gateways may be reached by them.
pub fn set_routes(place: &str, old: &[InterfaceRoute], new: &[InterfaceRoute]) -> Result<()> {
    for route in old.iter().filter(|route| !new.contains(route)) {
        // It went with its interface or address, perhaps.
        let _ = with_netlink(Some(place), |netlink| {
            let route = route.found(netlink)?;
            netlink.remove_route(&route)
        });
    }
    let (straight, by_gateway): (Vec<_>, Vec<_>) = new.iter().partition(|it| it.via.is_none());
    for route in straight.into_iter().chain(by_gateway) {
        let set = with_netlink(Some(place), |netlink| {
            let route = route.found(netlink)?;
            netlink.add_route(&route)
        })?;
        set.map_err(|error| {
            Error::refused(format_args!(
                "the route to {} in namespace ‘{place}’: {error}",
                route.to
            ))
        })?;
    }
    Ok(())
}

/// What there is in a namespace.
pub struct Seen {
    interfaces: Vec<Interface>,
    addresses: Vec<(u32, IpNet)>,
    routes: Vec<KernelRoute>,
}

/// Looks at a namespace; `None` is the host's own.
pub fn look(place: Option<&str>) -> Result<Seen> {
    let seen = with_netlink(place, |netlink| {
        Ok(Seen {
            interfaces: netlink.interfaces()?,
            addresses: netlink.addresses()?,
            routes: netlink.routes()?,
        })
    })?;
    seen.map_err(|error| Error::refused(format_args!("reading {}: {error}", called(place))))
}

impl Seen {
    fn interface(&self, name: &str) -> Option<&Interface> {
        self.interfaces.iter().find(|it| it.name == name)
    }

    /// Whether there is an interface of this name, and set up.
    pub fn is_up(&self, interface: &str) -> bool {
        self.interface(interface).is_some_and(|it| it.is_up)
    }

    /// Whether an interface that is there has not all of these addresses.
    pub fn lacks_addresses(&self, interface: &str, addresses: &[IpNet]) -> bool {
        self.interface(interface).is_some_and(|it| {
            let mut wanted = addresses.iter();
            wanted.any(|address| !self.addresses.contains(&(it.index, *address)))
        })
    }

    /// Whether there is such a route.
    pub fn has_route(&self, route: &InterfaceRoute) -> bool {
        let interface = route.interface.as_ref();
        let device = interface.map(|name| self.interface(name).map(|it| it.index));
        self.routes.iter().any(|it| {
            let metrics = [it.metric, route.metric].map(|given| netlink::metric(route.to, given));
            (it.to, it.via) == (route.to, route.via)
                && metrics[0] == metrics[1]
                && device.is_none_or(|device| device == it.device)
        })
    }
}

/// Where the kernel keeps whether a namespace forwards IPv4 and IPv6 packets.
const FORWARDING: [&str; 2] = [
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/net/ipv6/conf/all/forwarding",
];

/// What IP packets a namespace forwards between its interfaces.
pub fn forwarding(place: &str) -> Result<Forwarding> {
    let is = namespace::within(place, || {
        let [ipv4, ipv6] = FORWARDING.map(|file| match fs::read_to_string(file) {
            // A kernel without IPv6 forwards none.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            read => read.map(|value| value.trim() != "0"),
        });
        Ok(Forwarding {
            ipv4: ipv4?,
            ipv6: ipv6?,
        })
    })?;
    is.map_err(|error| unforwarded(place, &error))
}

/// Sets whether a namespace forwards IP packets between its interfaces.
pub fn set_forwarding(place: &str, to: Forwarding) -> Result<()> {
    let set = namespace::within(place, || {
        let mut files = FORWARDING.iter().zip([to.ipv4, to.ipv6]);
        files.try_for_each(|(file, on)| {
            // A kernel without IPv6 has nothing to set there.
            match fs::write(file, if on { "1" } else { "0" }) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
                done => done,
            }
        })
    })?;
    set.map_err(|error| unforwarded(place, &error))
}

fn unforwarded(place: &str, error: &std::io::Error) -> Error {
    Error::refused(format_args!("forwarding in namespace ‘{place}’: {error}"))
}
