//! Checking a configuration as a guest would take it, before there is a guest, or as a switch would.

use std::collections::BTreeMap;

use click::configurations::Configurations;
use click::{Diagnostics, FlatGraph, Location, Options};
use elements::net::dpdk;
use packet::{Batch, Pool};
use router::args::{EtherAddress, Interfaces, NameDatabase};
use router::{Device, Embedding, Library, Router, Runtime, Settings, Side, Steady, StoreBox};

use crate::error::{Error, Result};

/// Elements that name the guest's interfaces.
const DEVICES: [&str; 4] = ["FromNetfront", "ToNetfront", "FromDevice", "ToDevice"];

/// Those of them that receive.
const RECEIVERS: [&str; 2] = ["FromNetfront", "FromDevice"];

/// Elements that name ports, in a switch.
const PORTS: [&str; 2] = ["FromPort", "ToPort"];

/// What a guest would find around itself, without anything in it.
struct Dry {
    interfaces: Vec<(String, [u8; 6])>,
}

struct NoTraffic([u8; 6]);

impl Device for NoTraffic {
    fn mac(&self) -> [u8; 6] {
        self.0
    }
    fn mtu(&self) -> usize {
        1500
    }
    fn receive(&mut self, _pool: &mut Pool, _batch: &mut Batch, _most: usize) {}
    fn transmit(&mut self, pool: &mut Pool, batch: &mut Batch) {
        pool.recycle(batch);
    }
    fn room(&mut self) -> usize {
        0
    }
}

impl Embedding for Dry {
    fn steady(&self) -> Steady {
        Steady(0)
    }
    fn wall(&self) -> i64 {
        0
    }
    fn chatter(&mut self, _line: &str) {}
    fn seed(&mut self) -> u64 {
        0
    }
    fn driver(&self) -> &'static str {
        "guest"
    }
    fn names(&mut self) -> NameDatabase {
        let interfaces = self.interfaces.iter();
        let interfaces = interfaces.map(|(name, mac)| (name.clone(), EtherAddress(*mac)));
        let mut names = NameDatabase::new();
        names.set_host(Box::new(Interfaces(interfaces.collect())));
        names
    }

    fn device(&mut self, name: &str, _side: Side) -> Option<Box<dyn Device>> {
        let known = self.interfaces.iter().find(|(there, _)| there == name);
        known.map(|(_, mac)| Box::new(NoTraffic(*mac)) as Box<dyn Device>)
    }

    fn store(&self) -> Option<StoreBox> {
        Some(StoreBox::default())
    }

    fn device_name(&self, index: usize) -> Option<String> {
        self.interfaces.get(index).map(|(name, _)| name.clone())
    }
}

/// The interfaces that the elements of `classes` in a configuration name, and where.
pub fn named(flat: &FlatGraph, classes: &[&str]) -> Vec<(String, Location)> {
    let elements = flat.elements.iter();
    let named = elements.filter(|element| classes.contains(&&*element.class));
    named
        .filter_map(|element| {
            let first = click::config::split_args(&element.config)
                .into_iter()
                .next()?;
            let name = click::config::unquote_text(&first);
            Some((name, element.location.clone()))
        })
        .collect()
}

/// Checks `source`, called `file` in messages and with settings in front ([`click::settings`]), as a guest with `interfaces` (names and addresses)
/// and `cpus` CPUs would take it. What is wrong, or merely odd, is in the diagnostics. `stand` is what an
/// interface may stand on, for example, as `--link` has it.
pub fn check(
    source: &[u8],
    file: &str,
    interfaces: &[(String, [u8; 6])],
    cpus: usize,
    stand: &str,
) -> Diagnostics {
    let files = BTreeMap::from([(String::new(), file.to_string())]);
    check_all(source, &files, interfaces, cpus, stand)
}

/// As [`check`], of a text that may have several configurations ([`click::configurations`]): `files` are what they
/// are called in messages, by their names.
pub fn check_all(
    source: &[u8],
    files: &BTreeMap<String, String>,
    interfaces: &[(String, [u8; 6])],
    cpus: usize,
    stand: &str,
) -> Diagnostics {
    let mut diagnostics = Diagnostics::new();
    let library = elements::guest_library();
    let all = click::configurations::split(source);
    let (_, source) = click::settings::split(all.main);
    if let Some(flat) = elaborate(&all, files, &library, &mut diagnostics) {
        // Before anything else: arguments may name the interfaces too, and be odd without them.
        for (interface, location) in named(&flat, &DEVICES) {
            if !interfaces.iter().any(|(there, _)| *there == interface) {
                diagnostics.error(
                    &location,
                    format_args!(
                        "interface ‘{interface}’ has no link: give it one, as in --link {interface}={stand}"
                    ),
                );
            }
        }
        if diagnostics.errors() > 0 {
            return diagnostics;
        }
        say_ports(&flat, interfaces, &mut diagnostics);
        let dry = Dry {
            interfaces: interfaces.to_vec(),
        };
        let text = String::from_utf8_lossy(source);
        try_out(flat, &text, &library, dry, cpus, &mut diagnostics);
    }
    diagnostics
}

/// The graph of all configurations of a text.
fn elaborate(
    all: &Configurations<'_>,
    files: &BTreeMap<String, String>,
    library: &Library,
    diagnostics: &mut Diagnostics,
) -> Option<FlatGraph> {
    let mut parse = |name: &str, text: &[u8]| {
        let (variables, source) = click::settings::split(text);
        let options = Options {
            variables: &variables,
            ..Options::new(library)
        };
        let file = files.get(name).map_or(name, String::as_str);
        click::parse(source, file, &options, diagnostics)
    };
    let main = parse("", all.main);
    let installed = all.installed.iter();
    let installed: Vec<_> = installed
        .map(|(name, text)| (*name, parse(name, text)))
        .collect();
    let mut flat = main?;
    // Frames of an interface can come to one configuration only.
    let receivers = |name, flat: &FlatGraph| -> Vec<(String, String)> {
        let receivers = named(flat, &RECEIVERS).into_iter();
        receivers
            .map(|(interface, _)| (interface, String::from(name)))
            .collect()
    };
    let mut received = receivers("", &flat);
    for (name, other) in installed {
        let other = other?;
        for (interface, location) in named(&other, &RECEIVERS) {
            let has = received.iter().find(|(there, _)| *there == interface);
            if let Some((_, has)) = has {
                let has = match has.as_str() {
                    "" => "the guest's main configuration".to_string(),
                    has => format!("configuration ‘{has}’"),
                };
                diagnostics.error(
                    &location,
                    format_args!(
                        "{has} receives what comes by interface ‘{interface}’: only one configuration of a guest can"
                    ),
                );
            }
        }
        received.extend(receivers(name, &other));
        if let Err(place) = flat.install(name, other) {
            diagnostics.error(
                &place,
                format_args!(
                    "an element here is called ‘{name}/…’, as those of configuration ‘{name}’ are: give one of them another name"
                ),
            );
        }
    }
    (diagnostics.errors() == 0).then_some(flat)
}

/// The element with index `element` of a guest's configurations, and the line in its own text where it stands: its
/// elements are numbered in the order in which the guest has them.
pub fn place(source: &[u8], element: u32) -> Option<String> {
    let library = elements::guest_library();
    let all = click::configurations::split(source);
    let flat = elaborate(&all, &BTreeMap::new(), &library, &mut Diagnostics::new())?;
    let element = flat.elements.get(element as usize)?;
    let place = element.location.to_string();
    let line = place.trim_end_matches(':').rsplit(':').next();
    let line = line.unwrap_or_default();
    Some(format!(
        "‘{} :: {}’, line {line}",
        element.name, element.class
    ))
}

/// Says which interface stands for each DPDK port that the configuration names.
fn say_ports(flat: &FlatGraph, interfaces: &[(String, [u8; 6])], diagnostics: &mut Diagnostics) {
    let ports = named(flat, &dpdk::CLASSES);
    let names = || ports.iter().map(|(port, _)| port);
    let mut said: Vec<String> = Vec::new();
    for port in names() {
        let interface = dpdk::index(port, names()).and_then(|at| interfaces.get(at));
        if let Some((interface, _)) = interface {
            let text = format!("port {port} is ‘{interface}’");
            if !said.contains(&text) {
                said.push(text);
            }
        }
    }
    if let (Some((_, location)), false) = (ports.first(), said.is_empty()) {
        let said = said.join(", ");
        diagnostics.message(
            location,
            format_args!("DPDK ports are the guest's interfaces here: {said}"),
        );
    }
}

/// Makes the router, and ends it.
fn try_out(
    flat: FlatGraph,
    text: &str,
    library: &Library,
    dry: Dry,
    cpus: usize,
    diagnostics: &mut Diagnostics,
) {
    let runtime = Runtime::new(Box::new(dry), Pool::heap(256));
    let settings = Settings {
        threads: cpus as u16,
        ..Settings::default()
    };
    if let Ok(router) = Router::new(flat, text, library, runtime, settings, diagnostics) {
        router.end();
    }
}

/// Checks `source`, called `file` in messages, as a switch would take it that is to send frames by
/// it; the ports that it names, each once.
pub fn lookup(source: &str, file: &str) -> Result<Vec<String>> {
    let mut diagnostics = Diagnostics::new();
    let library = click_lookup::library();
    let options = Options::new(&library);
    let mut ports = Vec::new();
    if let Some(flat) = click::parse(source.as_bytes(), file, &options, &mut diagnostics) {
        let named = named(&flat, &PORTS).into_iter().map(|(port, _)| port);
        ports.extend(named.filter(|port| port != "*"));
        ports.sort();
        ports.dedup();
        let dry = Dry {
            interfaces: Vec::new(),
        };
        try_out(flat, source, &library, dry, 1, &mut diagnostics);
    }
    match diagnostics.errors() {
        0 => Ok(ports),
        _ => Err(Error::invalid(diagnostics.to_string().trim_end())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_is_named_with_its_line_in_its_own_configuration() {
        let config = "// first\ni :: Idle\n-> q :: Queue -> Idle;\n";
        assert_eq!(place(config.as_bytes(), 1).unwrap(), "‘q :: Queue’, line 3");
        assert!(place(config.as_bytes(), 99).is_none());
        let all = click::configurations::join([("probe", "\nj :: Idle;\n".to_string())], config);
        let probe = place(all.as_bytes(), 3).unwrap();
        assert_eq!(probe, "‘probe/j :: Idle’, line 2");
    }
}
