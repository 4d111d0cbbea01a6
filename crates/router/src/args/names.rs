//! The name database: names defined by AddressInfo, PortInfo and similar elements, and predefined
//! names.

use alloc::collections::BTreeMap;
use core::net::{Ipv4Addr, Ipv6Addr};
use core::sync::atomic::{AtomicBool, Ordering};

use super::context::scopes;
use super::{Argument, Context, EtherAddress, Host, Ipv4Prefix, Ipv6Prefix, tables};
use crate::prelude::*;

/// The kind of thing that a name denotes. The same name can have several kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// IPv4 address.
    Ip,
    /// IPv4 prefix.
    IpPrefix,
    /// IPv6 address.
    Ip6,
    /// IPv6 prefix.
    Ip6Prefix,
    /// Ethernet address.
    Ether,
    /// IP protocol: a number up to 255, or one of Click's sets of protocols.
    IpProtocol,
    /// Port of an IP protocol.
    Port(u8),
    /// ICMP type.
    IcmpType,
    /// Code of an ICMP type.
    IcmpCode(u8),
    /// Packet annotation: size in bytes shifted left by 16, and offset.
    Annotation,
    /// A kind that an element keeps for itself.
    Other(u32),
}

impl Kind {
    /// Ports of TCP.
    pub const TCP_PORT: Kind = Kind::Port(tables::TCP);
    /// Ports of UDP.
    pub const UDP_PORT: Kind = Kind::Port(tables::UDP);
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number: protocol, port, type, code, annotation.
    Int(u32),
    /// An IPv4 address.
    Ip(Ipv4Addr),
    /// An IPv4 address and mask.
    IpPrefix(Ipv4Prefix),
    /// An IPv6 address.
    Ip6(Ipv6Addr),
    /// An IPv6 address and prefix length.
    Ip6Prefix(Ipv6Prefix),
    /// An Ethernet address.
    Ether(EtherAddress),
}

/// Names of one kind in one scope.
#[derive(Clone)]
struct Table {
    kind: Kind,
    /// Empty, or a compound element's name with a slash after it.
    scope: String,
    values: BTreeMap<String, Value>,
}

/// All names of a router.
///
/// A name defined by element `a/b/x` is seen by the elements in `a/b/`. A
/// look-up from there tries `a/b/`, then `a/`, then top level, then the built-in
/// names, then the machine's own (services, protocols, network devices).
pub struct NameDatabase {
    tables: Vec<Table>,
    /// From the machine's files of protocols and services. By name first: most words of a filter's
    /// rules are names of no kind.
    system: BTreeMap<String, Vec<(Kind, u32)>>,
    host: Option<Box<dyn Host>>,
    /// Whether the address of one of its interfaces was asked for.
    asked: AtomicBool,
    /// Root scopes, one for each configuration: a lookup from inside does not go beyond them.
    roots: Vec<String>,
}

impl Default for NameDatabase {
    fn default() -> Self {
        Self::new()
    }
}

impl NameDatabase {
    /// Only the built-in names.
    pub const fn new() -> Self {
        NameDatabase {
            tables: Vec::new(),
            system: BTreeMap::new(),
            host: None,
            asked: AtomicBool::new(false),
            roots: Vec::new(),
        }
    }

    /// Sets the scopes at which look-ups from inside end; each has a slash at its end.
    pub fn set_roots(&mut self, roots: Vec<String>) {
        self.roots = roots;
    }

    /// Takes over what elements of another router defined in the scopes that are chosen.
    pub(crate) fn take_defined(&mut self, other: &NameDatabase, chosen: impl Fn(&str) -> bool) {
        let tables = other.tables.iter();
        let chosen = tables.filter(|table| chosen(&table.scope));
        self.tables.extend(chosen.cloned());
    }

    /// The scopes that a name is looked up in from `element`, innermost first.
    pub(super) fn scopes<'s>(&self, element: &'s str) -> impl Iterator<Item = &'s str> + use<'s> {
        let mut roots = self.roots.iter();
        let root = roots.find(|root| element.starts_with(root.as_str()));
        let shortest = root.map_or(0, String::len);
        scopes(element).take_while(move |scope| scope.len() >= shortest)
    }

    /// Lets names be network devices and home directories of the machine.
    pub fn set_host(&mut self, host: Box<dyn Host>) {
        self.host = Some(host);
    }

    /// Takes another database's view of the machine.
    pub fn take_host(&mut self, other: NameDatabase) {
        self.host = other.host;
    }

    /// Whether an address of one of the machine's interfaces was asked for since the last call.
    pub fn take_asked(&mut self) -> bool {
        core::mem::take(self.asked.get_mut())
    }

    /// Adds the protocols of a file in the format of protocols(5). They count
    /// after the built-in ones.
    pub fn add_system_protocols(&mut self, file: &str) {
        for (names, number) in tables::entries(file) {
            let Some(number) = number.parse().ok().filter(|&n: &u32| n < 256) else {
                continue;
            };
            for name in names {
                self.add_system(Kind::IpProtocol, name, number);
            }
        }
    }

    /// Adds the services of a file in the format of services(5), of the
    /// protocols known by then. They count after the built-in ones.
    pub fn add_system_services(&mut self, file: &str) {
        for (names, port) in tables::entries(file) {
            let Some((port, protocol)) = port.split_once(['/', ',']) else {
                continue;
            };
            let protocol = self.int(Kind::IpProtocol, protocol, "");
            let protocol = protocol.and_then(|p| u8::try_from(p).ok());
            if let (Ok(port), Some(protocol)) = (port.parse::<u16>(), protocol) {
                for name in names {
                    self.add_system(Kind::Port(protocol), name, port.into());
                }
            }
        }
    }

    fn add_system(&mut self, kind: Kind, name: &str, number: u32) {
        let numbers = self.system.entry(name.to_string()).or_default();
        numbers.retain(|(known, _)| *known != kind);
        numbers.push((kind, number));
    }

    /// Defines `name`, as element `from` does it. An earlier definition in the
    /// same scope is replaced.
    pub fn define(&mut self, kind: Kind, name: &str, value: Value, from: &str) {
        let scope = scopes(from).next().unwrap_or("");
        let same = |t: &Table| t.kind == kind && t.scope == scope;
        let table = match self.tables.iter().position(same) {
            Some(at) => &mut self.tables[at],
            None => {
                self.tables.push(Table {
                    kind,
                    scope: scope.to_string(),
                    values: BTreeMap::new(),
                });
                let last = self.tables.len() - 1;
                &mut self.tables[last]
            }
        };
        table.values.insert(name.to_string(), value);
    }

    /// What routers' elements defined `name` as, seen from element `from`.
    pub fn defined(&self, kind: Kind, name: &str, from: &str) -> Option<Value> {
        if self.tables.is_empty() {
            return None;
        }
        self.scopes(from).find_map(|scope| {
            let tables = self.tables.iter();
            tables
                .filter(|t| t.kind == kind && t.scope == scope)
                .find_map(|t| t.values.get(name).copied())
        })
    }

    /// What elements in `scope` itself (empty, or a compound's name with a slash after it) defined
    /// `name` as.
    pub fn defined_in(&self, kind: Kind, name: &str, scope: &str) -> Option<Value> {
        let tables = self.tables.iter();
        tables
            .filter(|t| t.kind == kind && t.scope == scope)
            .find_map(|t| t.values.get(name).copied())
    }

    /// The number `name` stands for: defined, built in, or the system's.
    pub fn int(&self, kind: Kind, name: &str, from: &str) -> Option<u32> {
        match self.defined(kind, name, from) {
            Some(Value::Int(value)) => Some(value),
            _ => tables::built_in(kind, name)
                .or_else(|| self.system_int(kind, name))
                .or_else(|| self.host.as_deref()?.number(kind, name)),
        }
    }

    /// The number that the added files of protocols and services have for `name`.
    pub fn system_int(&self, kind: Kind, name: &str) -> Option<u32> {
        let numbers = self.system.get(name)?;
        let number = numbers.iter().find(|(known, _)| *known == kind);
        number.map(|(_, number)| *number)
    }

    /// A name for the number `value`: one defined, else a built-in one.
    pub fn name_of(&self, kind: Kind, value: u32, from: &str) -> Option<&str> {
        let defined = self.scopes(from).find_map(|scope| {
            let tables = self.tables.iter();
            let mut names = tables
                .filter(|t| t.kind == kind && t.scope == scope)
                .flat_map(|t| &t.values);
            names.find_map(|(name, &v)| (v == Value::Int(value)).then_some(name.as_str()))
        });
        defined.or_else(|| tables::built_in_name(kind, value))
    }

    /// The IPv4 address called `name`. Suffixes choose among what the name
    /// stands for: `:ip` (or `:ip4`), `:bcast` and `:gw`.
    pub fn ip(&self, name: &str, from: &str) -> Option<Ipv4Addr> {
        let host = self.host.as_deref();
        let Some((base, suffix)) = name.rsplit_once(':') else {
            return self.plain_ip(name, from);
        };
        if is_any(suffix, &["ip", "ip4"]) {
            self.plain_ip(base, from)
        } else if is_any(suffix, &["bcast"]) {
            self.ip_prefix(base, from).map(Ipv4Prefix::broadcast)
        } else if is_any(suffix, &["gw"]) {
            let first = |prefix: Ipv4Prefix| Ipv4Addr::from_bits(prefix.network().to_bits() | 1);
            self.defined_ip(name, from)
                .or_else(|| self.defined_ip_prefix(base, from).map(first))
                .or_else(|| host.and_then(|h| h.gateway(base)))
                .or_else(|| host.and_then(|h| h.ip_prefix(base)).map(first))
        } else {
            None
        }
    }

    fn plain_ip(&self, name: &str, from: &str) -> Option<Ipv4Addr> {
        let device = || self.host.as_deref()?.ip(name);
        self.defined_ip(name, from).or_else(device)
    }

    fn defined_ip(&self, name: &str, from: &str) -> Option<Ipv4Addr> {
        match self.defined(Kind::Ip, name, from)? {
            Value::Ip(ip) => Some(ip),
            _ => None,
        }
    }

    fn defined_ip_prefix(&self, name: &str, from: &str) -> Option<Ipv4Prefix> {
        match self.defined(Kind::IpPrefix, name, from)? {
            Value::IpPrefix(prefix) => Some(prefix),
            _ => None,
        }
    }

    /// The IPv4 prefix called `name`, or `name:net` (`:ipnet`, `:ip4net`).
    pub fn ip_prefix(&self, name: &str, from: &str) -> Option<Ipv4Prefix> {
        let name = strip_suffix(name, &["net", "ipnet", "ip4net"])?;
        let device = || self.host.as_deref()?.ip_prefix(name);
        self.defined_ip_prefix(name, from).or_else(device)
    }

    /// The IPv6 address called `name`, or `name:ip6`.
    pub fn ip6(&self, name: &str, from: &str) -> Option<Ipv6Addr> {
        match self.defined(Kind::Ip6, strip_suffix(name, &["ip6"])?, from)? {
            Value::Ip6(ip) => Some(ip),
            _ => None,
        }
    }

    /// The IPv6 prefix called `name`, or `name:ip6net`.
    pub fn ip6_prefix(&self, name: &str, from: &str) -> Option<Ipv6Prefix> {
        match self.defined(Kind::Ip6Prefix, strip_suffix(name, &["ip6net"])?, from)? {
            Value::Ip6Prefix(prefix) => Some(prefix),
            _ => None,
        }
    }

    /// The Ethernet address called `name`, or `name:eth` (`:ether`, `:ethernet`).
    pub fn ether(&self, name: &str, from: &str) -> Option<EtherAddress> {
        let name = strip_suffix(name, &["eth", "ether", "ethernet"])?;
        match self.defined(Kind::Ether, name, from) {
            Some(Value::Ether(address)) => Some(address),
            _ => {
                let address = self.host.as_deref()?.ether(name)?;
                self.asked.store(true, Ordering::Relaxed);
                Some(address)
            }
        }
    }

    /// Home directory of a user of the machine, or of the one running us.
    pub fn home(&self, user: Option<&str>) -> Option<String> {
        self.host.as_deref()?.home(user)
    }

    /// Takes one entry of AddressInfo, `NAME ADDRESS…`, from element `from`. An address may be of
    /// any kind, or a name already known. Returns the messages of errors.
    pub fn define_addresses(
        &mut self,
        entry: &str,
        elements: &dyn super::Elements,
        from: &str,
    ) -> Vec<String> {
        let mut errors = Vec::new();
        let parts = click::config::split_space(entry);
        let Some((name, addresses)) = parts.split_first() else {
            return errors;
        };
        if addresses.is_empty() {
            errors.push("expected 'NAME [ADDRS]'".to_string());
        }
        let mut seen = Vec::new();
        for address in addresses {
            let meanings = self.meanings(address, elements, from);
            if meanings.is_empty() {
                errors.push(["'", address, "' is not a recognizable address"].concat());
            }
            // An ambiguous address adds the meanings that the name hasn't yet.
            for &(kind, value) in &meanings {
                if meanings.len() == 1 || !seen.contains(&kind) {
                    self.define(kind, name, value, from);
                }
            }
            seen.extend(meanings.iter().map(|&(kind, _)| kind));
        }
        errors
    }

    /// All that `address` can be.
    fn meanings(
        &self,
        address: &str,
        elements: &dyn super::Elements,
        from: &str,
    ) -> Vec<(Kind, Value)> {
        let context = Context {
            names: self,
            elements,
            element: from,
        };
        let mut meanings = Vec::new();
        if let Ok(ether) = EtherAddress::parse(address, &context) {
            meanings.push((Kind::Ether, Value::Ether(ether)));
        }
        if let Ok(ip) = Ipv4Addr::parse(address, &context) {
            meanings.push((Kind::Ip, Value::Ip(ip)));
        } else if let Ok(prefix) = Ipv4Prefix::parse(address, &context) {
            if prefix.network() != prefix.address {
                meanings.push((Kind::Ip, Value::Ip(prefix.address)));
            }
            meanings.push((Kind::IpPrefix, Value::IpPrefix(prefix)));
        }
        if let Ok(ip) = Ipv6Addr::parse(address, &context) {
            meanings.push((Kind::Ip6, Value::Ip6(ip)));
        } else if let Ok(prefix) = Ipv6Prefix::parse(address, &context) {
            if prefix.network() != prefix.address {
                meanings.push((Kind::Ip6, Value::Ip6(prefix.address)));
            }
            meanings.push((Kind::Ip6Prefix, Value::Ip6Prefix(prefix)));
        }
        meanings
    }

    /// Takes one entry of PortInfo, `NAME PORT[/PROTOCOL] NAME…`, from element
    /// `from`. Without a protocol, it is a port of TCP and of UDP.
    pub fn define_ports(&mut self, entry: &str, from: &str) -> Result<(), String> {
        let words = click::config::split_space(entry);
        let mut words = words.iter().map(String::as_str).filter(|w| !w.is_empty());
        let name = words.next().filter(|name| !name.starts_with('#'));
        let Some(name) = name else {
            return Ok(());
        };
        let expected = || "expected 'NAME PORT/PROTO'".to_string();
        let port = words.next().ok_or_else(expected)?;
        let (port, protocol) = match port.split_once('/') {
            Some((port, protocol)) => (port, Some(protocol)),
            None => (port, None),
        };
        let port = u32::parse(port, &Context::blank()).map_err(|_| expected())?;
        let protocols = match protocol {
            None => [Some(tables::TCP), Some(tables::UDP)],
            Some(protocol) => match self.int_or_number(Kind::IpProtocol, protocol, from) {
                Some(tables::TCP_OR_UDP) => [Some(tables::TCP), Some(tables::UDP)],
                other => [other.and_then(|p| u8::try_from(p).ok()), None],
            },
        };
        let names = words.take_while(|name| !name.starts_with('#'));
        for name in core::iter::once(name).chain(names) {
            for protocol in protocols.into_iter().flatten() {
                self.define(Kind::Port(protocol), name, Value::Int(port), from);
            }
        }
        Ok(())
    }

    /// The number that `text` is or stands for.
    pub fn int_or_number(&self, kind: Kind, text: &str, from: &str) -> Option<u32> {
        self.int(kind, text, from)
            .or_else(|| u32::parse(text, &Context::blank()).ok())
    }
}

fn is_any(suffix: &str, suffixes: &[&str]) -> bool {
    suffixes.iter().any(|s| s.eq_ignore_ascii_case(suffix))
}

/// `name` without the suffix after its last colon; None if it is another one.
fn strip_suffix<'a>(name: &'a str, suffixes: &[&str]) -> Option<&'a str> {
    match name.rsplit_once(':') {
        Some((base, suffix)) => is_any(suffix, suffixes).then_some(base),
        None => Some(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::NoElements;

    fn ip(text: &str) -> Option<Ipv4Addr> {
        text.parse().ok()
    }

    #[test]
    fn scopes_go_from_the_inside_out() {
        let mut names = NameDatabase::new();
        names.define(Kind::Ip, "gw", Value::Ip(ip("1.0.0.1").unwrap()), "info");
        names.define(Kind::Ip, "gw", Value::Ip(ip("2.0.0.1").unwrap()), "a/info");
        assert_eq!(names.ip("gw", "x"), ip("1.0.0.1"));
        assert_eq!(names.ip("gw", "a/b/x"), ip("2.0.0.1"));
        assert_eq!(names.ip("gw", "ab/x"), ip("1.0.0.1"));
        assert_eq!(names.ip("gw:ip", "ab/x"), ip("1.0.0.1"));
        assert_eq!(names.ip("gw:foo", "ab/x"), None);
    }

    #[test]
    fn address_entries_define_every_meaning() {
        let mut names = NameDatabase::new();
        let entry = "host 10.0.0.5/24 00:50:BA:85:84:A9 2001:db8::5/64";
        assert!(names.define_addresses(entry, &NoElements, "").is_empty());
        assert_eq!(names.ip("host", ""), ip("10.0.0.5"));
        assert_eq!(names.ip("host:bcast", ""), ip("10.0.0.255"));
        assert_eq!(names.ip("host:gw", ""), ip("10.0.0.1"));
        let prefix = names.ip_prefix("host:net", "").unwrap();
        assert_eq!(prefix.network(), ip("10.0.0.0").unwrap());
        assert_eq!(names.ether("host:eth", "").unwrap().0[5], 0xA9);
        assert_eq!(names.ip6("host", ""), "2001:db8::5".parse().ok());
        assert_eq!(names.ip6_prefix("host:ip6net", "").unwrap().length, 64);
        // By name, of names defined before.
        assert!(
            names
                .define_addresses("alias host", &NoElements, "")
                .is_empty()
        );
        assert_eq!(names.ip("alias", ""), ip("10.0.0.5"));
    }

    #[test]
    fn address_entries_say_what_is_wrong() {
        let mut names = NameDatabase::new();
        let mut errors = |entry| names.define_addresses(entry, &NoElements, "");
        assert_eq!(errors("foo"), ["expected 'NAME [ADDRS]'"]);
        assert_eq!(errors("bar baz"), ["'baz' is not a recognizable address"]);
        assert!(errors("").is_empty());
    }

    #[test]
    fn port_entries() {
        let mut names = NameDatabase::new();
        assert_eq!(names.define_ports("game 7777/udp play", "a/x"), Ok(()));
        assert_eq!(names.define_ports("both 99 # comment", ""), Ok(()));
        assert_eq!(names.int(Kind::UDP_PORT, "play", "a/y"), Some(7777));
        assert_eq!(names.int(Kind::TCP_PORT, "play", "a/y"), None);
        assert_eq!(names.int(Kind::UDP_PORT, "play", "y"), None);
        assert_eq!(names.int(Kind::TCP_PORT, "both", ""), Some(99));
        assert_eq!(names.int(Kind::TCP_PORT, "comment", ""), None);
        let error = names.define_ports("x y", "").unwrap_err();
        assert_eq!(error, "expected 'NAME PORT/PROTO'");
    }

    #[test]
    fn system_files_fill_what_is_not_built_in() {
        let mut names = NameDatabase::new();
        names.add_system_protocols("ospf 89 OSPFIGP # routing\n#x 1\nbad 300\n");
        names.add_system_services("www 8080/tcp\nbgp 179/tcp\nqotd\t17/tcp quote\nz 1/none\n");
        assert_eq!(names.int(Kind::IpProtocol, "OSPFIGP", ""), Some(89));
        assert_eq!(names.int(Kind::TCP_PORT, "www", ""), Some(80));
        assert_eq!(names.int(Kind::TCP_PORT, "bgp", ""), Some(179));
        assert_eq!(names.int(Kind::TCP_PORT, "quote", ""), Some(17));
        assert_eq!(names.name_of(Kind::IpProtocol, 6, ""), Some("tcp"));
    }
}
