//! Checks of a configuration before it runs, as a guest or a switch would check it.

use std::collections::BTreeMap;

use click::configurations::Configurations;
use click::{Diagnostics, FlatGraph, Location, Options, Severity};
use elements::net::dpdk;
use packet::{Batch, Pool};
use router::args::{EtherAddress, Interfaces, NameDatabase};
use router::{
    Device, Embedding, Endpoint, HandlerFlags, Library, NO_DEVICE, Router, Runtime, Settings, Side,
    Steady, StoreBox,
};

use vmm::{Exit, Place};

use crate::error::{Error, Result};
use crate::function::explain;
use crate::model::{Guest, Health};

/// Elements that name the guest's interfaces.
pub const DEVICES: [&str; 4] = [RECEIVERS[0], SENDERS[0], RECEIVERS[1], SENDERS[1]];

/// The receiving classes among them.
pub const RECEIVERS: [&str; 2] = ["FromNetfront", "FromDevice"];

/// The sending classes among them.
pub const SENDERS: [&str; 2] = ["ToNetfront", "ToDevice"];

/// Elements that name ports, in a switch.
const PORTS: [&str; 2] = ["FromPort", "ToPort"];

/// A guest's environment without devices: an embedding for checks.
struct Dry {
    interfaces: Vec<(String, [u8; 6])>,
}

/// A device without traffic, with its Ethernet address.
pub struct NoTraffic(pub [u8; 6]);

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

    fn device(&mut self, name: &str, _side: Side) -> Result<Box<dyn Device>, String> {
        let known = self.interfaces.iter().find(|(there, _)| there == name);
        let (_, mac) = known.ok_or(NO_DEVICE)?;
        Ok(Box::new(NoTraffic(*mac)))
    }

    fn socket(&mut self, _endpoint: &Endpoint) -> Result<Box<dyn Device>, String> {
        Ok(Box::new(NoTraffic([0; 6])))
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

/// Checks `source`, called `file` in messages and with settings in front ([`click::settings`]), as a guest with
/// `interfaces` (names and addresses) and `cpus` CPUs would take it. Errors and warnings are in the diagnostics.
/// `stand` is an example of the other side of `--link`, for messages.
pub fn check(
    source: &[u8],
    file: &str,
    interfaces: &[(String, [u8; 6])],
    cpus: usize,
    stand: &str,
) -> Diagnostics {
    let files = BTreeMap::from([(String::new(), file.to_string())]);
    let (diagnostics, _) = check_all(
        source,
        &files,
        interfaces,
        cpus,
        stand,
        CheckContext::Nothing,
        &[],
    );
    diagnostics
}

/// Whether a guest may run other configurations later, and its former specification.
#[derive(Clone, Copy)]
enum CheckContext<'a> {
    /// Nothing else.
    Nothing,
    /// Configurations may be installed later, which may use its interfaces. Names of the former specification are
    /// accepted.
    Installs(Option<&'a Guest>),
}

impl<'a> CheckContext<'a> {
    fn had(self) -> Option<&'a Guest> {
        match self {
            CheckContext::Nothing => None,
            CheckContext::Installs(had) => had,
        }
    }
}

/// Checks all configurations of a guest with these interfaces. Others may be installed later; `had` is what the guest was
/// before, if it was there.
pub fn check_guest(
    spec: &Guest,
    interfaces: &[(String, [u8; 6])],
    stand: &str,
    had: Option<&Guest>,
) -> Diagnostics {
    check_fields(spec, interfaces, stand, had).0
}

/// As [`check_guest`], with the field that the first error is about.
pub(crate) fn check_fields(
    spec: &Guest,
    interfaces: &[(String, [u8; 6])],
    stand: &str,
    had: Option<&Guest>,
) -> (Diagnostics, String) {
    check_all(
        spec.text().as_bytes(),
        &spec.files(),
        interfaces,
        spec.cpus(),
        stand,
        CheckContext::Installs(had),
        &spec.health,
    )
}

/// As [`check`], of a text that may have several configurations ([`click::configurations`]): `files` has the
/// configurations' names in messages, by their own names. Variables that the configurations do not have are errors, and
/// so are interfaces that nothing will use, and checks of its health that read no handler.
fn check_all(
    source: &[u8],
    files: &BTreeMap<String, String>,
    interfaces: &[(String, [u8; 6])],
    cpus: usize,
    stand: &str,
    later: CheckContext<'_>,
    health: &[Health],
) -> (Diagnostics, String) {
    let mut diagnostics = Diagnostics::new();
    let mut field = String::from("config");
    let library = elements::guest_library();
    let all = click::configurations::split(source);
    let (_, source) = click::settings::split(all.main);
    if let Some(flat) = elaborate(&all, files, &library, &mut diagnostics) {
        // Before anything else: arguments may name the interfaces too, and be odd without them.
        for (interface, location) in named(&flat, &DEVICES) {
            if !interfaces.iter().any(|(there, _)| *there == interface) {
                let place = match later {
                    CheckContext::Nothing => "as in --link",
                    CheckContext::Installs(_) => "in `interfaces`, as in",
                };
                if diagnostics.errors() == 0 {
                    field = format!("interfaces.{interface}");
                }
                diagnostics.error(
                    &location,
                    format_args!(
                        "interface ‘{interface}’ has no link: give it one, {place} {interface}={stand}"
                    ),
                );
            }
        }
        let had = later.had();
        let names = interfaces.iter().map(|(name, _)| name.as_str());
        let new = names.filter(|name| had.is_none_or(|had| !had.interfaces.contains_key(*name)));
        for name in unused(&flat, interfaces, new) {
            match later {
                CheckContext::Nothing => diagnostics.error_here(format_args!(
                    "no element uses interface ‘{name}’: leave out --link {name}={stand}, or name the interface in FromNetfront or ToNetfront"
                )),
                CheckContext::Installs(_) => diagnostics.warning_here(format_args!(
                    "no element uses interface ‘{name}’ until a configuration with FromNetfront({name}) or ToNetfront({name}) is installed"
                )),
            }
        }
        let main = [("", all.main)];
        for (name, text) in main.iter().chain(&all.installed).copied() {
            let file = files.get(name).map_or(name, String::as_str);
            let before = diagnostics.errors();
            let unknown = say_unknown(text, file, |it| knew(had, name, it), &mut diagnostics);
            if let (0, Some(unknown)) = (before, unknown) {
                field = match name {
                    "" => format!("variables.{unknown}"),
                    name => format!("configurations.{name}.variables.{unknown}"),
                };
            }
        }
        if diagnostics.errors() > 0 {
            return (diagnostics, field);
        }
        say_ports(&flat, interfaces, &mut diagnostics);
        let dry = Dry {
            interfaces: interfaces.to_vec(),
        };
        let text = click::text::decode(source);
        let router = try_out(flat, &text, &library, dry, cpus, &mut diagnostics);
        for (name, text) in main.iter().chain(&all.installed).copied() {
            let file = files.get(name).map_or(name, String::as_str);
            say_parameters(text, file, &mut diagnostics);
        }
        if let Some(mut router) = router {
            for (i, check) in health.iter().enumerate() {
                if let Err(why) = check_handler(&mut router, check, &all) {
                    if diagnostics.errors() == 0 {
                        field = format!("health[{i}]");
                    }
                    diagnostics.error_here(why);
                }
            }
            router.end();
        }
    }
    (diagnostics, field)
}

/// The graph of `source`, a configuration with settings in front, and for each element whether its first input pulls:
/// as a guest with `cpus` CPUs would take it that has all interfaces which it names. Else what is wrong with it.
pub fn graph(
    source: &[u8],
    file: &str,
    cpus: usize,
) -> std::result::Result<(FlatGraph, Vec<bool>), Diagnostics> {
    let mut diagnostics = Diagnostics::new();
    let library = elements::guest_library();
    let files = BTreeMap::from([(String::new(), file.to_string())]);
    let all = Configurations {
        installed: Vec::new(),
        main: source,
    };
    say_unknown(source, file, |_| false, &mut diagnostics);
    let flat = elaborate(&all, &files, &library, &mut diagnostics);
    let pulls = flat.as_ref().and_then(|flat| {
        let names = named(flat, &DEVICES).into_iter();
        let dry = Dry {
            interfaces: names.map(|(name, _)| (name, [2; 6])).collect(),
        };
        let text = click::text::decode(click::settings::split(source).1);
        let router = try_out(flat.clone(), &text, &library, dry, cpus, &mut diagnostics)?;
        let elements = router.graph().elements.iter();
        let pulls = elements.map(|element| element.inputs.first() == Some(&false));
        let pulls = pulls.collect();
        router.end();
        Some(pulls)
    });
    flat.zip(pulls)
        .filter(|_| diagnostics.errors() == 0)
        .ok_or(diagnostics)
}

/// Refuses a health check of a handler that does not exist. A handler of a configuration that may be installed later is
/// not checked.
fn check_handler(
    router: &mut Router,
    check: &Health,
    all: &Configurations<'_>,
) -> std::result::Result<(), String> {
    let handler = check.handler.split(' ').next().unwrap_or_default();
    let (element, name) = handler.rsplit_once('.').unwrap_or(("", handler));
    let found = router.find(element);
    if !element.is_empty() && found.is_none() {
        let other = element.split_once('/').map(|(other, _)| other);
        let is_there = |other: &str| all.installed.iter().any(|(name, _)| *name == other);
        return match other {
            Some(other) if !is_there(other) => Ok(()),
            _ => Err(format!(
                "health check ‘{handler}’: there is no element ‘{element}’"
            )),
        };
    }
    let flags = router.handler(found, name);
    if flags.is_some_and(|flags| flags.has(HandlerFlags::READ)) {
        return Ok(());
    }
    let whose = match found {
        Some(_) => format!("element ‘{element}’"),
        None => "a router".into(),
    };
    Err(format!(
        "health check ‘{handler}’: {whose} has no read handler ‘{name}’"
    ))
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
pub fn place(source: &[u8], place: Place) -> Option<String> {
    let library = elements::guest_library();
    let all = click::configurations::split(source);
    let flat = elaborate(&all, &BTreeMap::new(), &library, &mut Diagnostics::new())?;
    let part = flat.parts.get(place.configuration);
    let elements = part.map_or(0..flat.elements.len(), |part| part.elements.clone());
    let element = flat.elements.get(elements)?.get(place.element)?;
    let place = element.location.to_string();
    let line = place.trim_end_matches(':').rsplit(':').next();
    let line = line.unwrap_or_default();
    Some(format!(
        "‘{} :: {}’, line {line}",
        element.name, element.class
    ))
}

/// The `new` interfaces that no element uses, by name or as a DPDK port.
fn unused<'a>(
    flat: &FlatGraph,
    interfaces: &[(String, [u8; 6])],
    new: impl Iterator<Item = &'a str>,
) -> Vec<&'a str> {
    let ports = named(flat, &dpdk::CLASSES);
    let ports = || ports.iter().map(|(port, _)| port);
    let by_index: Vec<_> = ports()
        .filter_map(|port| dpdk::index(port, ports()))
        .filter_map(|at| interfaces.get(at))
        .map(|(name, _)| name.as_str())
        .collect();
    let is_used = |name: &&str| {
        let mut elements = flat.elements.iter();
        by_index.contains(name) || elements.any(|it| has_word(&it.config, name))
    };
    new.filter(|name| !is_used(name)).collect()
}

/// Says which variables a configuration, with its settings in front, has no use for, and returns the first.
fn say_unknown(
    text: &[u8],
    file: &str,
    is_known: impl Fn(&str) -> bool,
    diagnostics: &mut Diagnostics,
) -> Option<String> {
    let mut first = None;
    let (variables, source) = click::settings::split(text);
    let source = click::text::decode(source);
    let is_used = |name: &str| {
        let mut after = source.match_indices('$').map(|(at, _)| &source[at + 1..]);
        after.any(|rest| {
            let rest = rest.trim_start_matches(['{', '(']).strip_prefix(name);
            rest.is_some_and(|rest| !rest.starts_with(is_word))
        })
    };
    for (name, _) in variables {
        if !is_used(&name) && !is_known(&name) {
            diagnostics.error_here(format_args!(
                "{file} has no variable ‘{name}’: its text has no ${name}"
            ));
            first.get_or_insert(name);
        }
    }
    first
}

/// Says which parameters of a function the errors in its configuration are about.
fn say_parameters(text: &[u8], file: &str, diagnostics: &mut Diagnostics) {
    let (_, source) = click::settings::split(text);
    let source = click::text::decode(source);
    let mut said: Vec<(Location, String)> = Vec::new();
    let mut line = None;
    for entry in diagnostics.entries() {
        if entry.is_heading() {
            // It names its place itself.
            let place = entry.text().strip_prefix(file);
            let place = place.and_then(|place| place.strip_prefix(':')?.split(':').next());
            line = place.and_then(|place| place.parse().ok());
        } else if let (Some(line), Severity::Error) = (line, entry.severity())
            // What stands below a heading is indented.
            && entry.to_string().starts_with(' ')
        {
            let explained = explain(&source, Some(line), entry.text());
            said.extend(explained.map(|text| (Location::new(file, line), text)));
        }
    }
    said.dedup();
    for (location, text) in said {
        diagnostics.message(&location, text);
    }
}

/// How a guest with some configuration ended, in a sentence. If it could not run that, the sentence says which
/// parameters of a function are about it.
pub fn told(exit: &Exit, config: &[u8]) -> String {
    let sentence = exit.to_string();
    let source = click::configurations::split(config).main;
    let (_, source) = click::settings::split(source);
    let explained = explain(&click::text::decode(source), None, &sentence);
    match explained.filter(|_| matches!(exit, Exit::Refused(_))) {
        Some(explained) => format!("{sentence} ({explained})"),
        None => sentence,
    }
}

/// Whether a guest had a variable of one of its configurations before.
fn knew(had: Option<&Guest>, configuration: &str, variable: &str) -> bool {
    had.is_some_and(|had| {
        let variables = if configuration.is_empty() {
            Some(&had.variables)
        } else {
            let installed = had.configurations.get(configuration);
            installed.map(|it| &it.variables)
        };
        variables.is_some_and(|all| all.contains_key(variable))
    })
}

/// Whether a text has a word that nothing longer contains.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        !before.ends_with(is_word) && !after.starts_with(is_word)
    })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
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
) -> Option<Router> {
    let runtime = Runtime::new(Box::new(dry), Pool::heap(256));
    let settings = Settings {
        threads: cpus as u16,
        ..Settings::default()
    };
    Router::new(flat, text, library, runtime, settings, diagnostics).ok()
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
        let named: Vec<_> = named.collect();
        ports.extend(named.iter().filter(|port| *port != "*").cloned());
        ports.sort();
        ports.dedup();
        // A port that is not there yet is no mistake.
        let dry = Dry {
            interfaces: named.into_iter().map(|name| (name, [2; 6])).collect(),
        };
        let tried = try_out(flat, source, &library, dry, 1, &mut diagnostics);
        tried.map(Router::end);
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
        let at = |configuration, element| Place {
            configuration,
            element,
        };
        let config = "// first\ni :: Idle\n-> q :: Queue -> Idle;\n";
        let queue = place(config.as_bytes(), at(0, 1)).unwrap();
        assert_eq!(queue, "‘q :: Queue’, line 3");
        assert!(place(config.as_bytes(), at(0, 99)).is_none());
        let all = click::configurations::join([("probe", "\nj :: Idle;\n".to_string())], config);
        let probe = place(all.as_bytes(), at(1, 0)).unwrap();
        assert_eq!(probe, "‘probe/j :: Idle’, line 2");
        assert_eq!(place(all.as_bytes(), at(0, 1)), Some(queue));
        assert!(place(all.as_bytes(), at(1, 1)).is_none());
    }

    fn checked(source: &str, interfaces: &[&str]) -> Diagnostics {
        let interfaces = interfaces.iter().map(|name| (name.to_string(), [2; 6]));
        let interfaces: Vec<_> = interfaces.collect();
        check(source.as_bytes(), "x.click", &interfaces, 1, "tap:weir0")
    }

    #[test]
    fn an_error_of_an_element_names_the_parameter() {
        for (function, interfaces, parameter, value, expected) in [
            (
                "responder",
                &["port"][..],
                "dns",
                "x",
                "DNS is the parameter 'dns'",
            ),
            (
                "cache",
                &["clients", "origin"],
                "longest",
                "5000000",
                "MEMORY is the parameter 'objects', OBJECT is the parameter 'longest'",
            ),
            (
                "ddos",
                &["outside", "inside"],
                "allow",
                "nowhere",
                "it comes of the parameter 'allow'",
            ),
            (
                "generator",
                &["port"],
                "from",
                "::1",
                "SRC is the parameter 'from', DST is the parameter 'to'",
            ),
        ] {
            let function = crate::function::find(function.as_ref()).unwrap();
            let text = click::settings::join([(parameter, value)], function.text);
            let said = checked(&text, interfaces).to_string();
            assert!(said.contains(expected), "{said}");
            let text = click::settings::join([], function.text);
            let said = checked(&text, interfaces).to_string();
            assert_eq!(said, "", "{}", function.name);
        }
    }

    #[test]
    fn a_guest_that_cannot_run_names_the_parameter() {
        let function = crate::function::find("ddos".as_ref()).unwrap();
        let reason = String::from("out of memory; give a smaller CAPACITY");
        let told = |exit| told(&exit, function.text.as_bytes());
        assert_eq!(
            told(Exit::Refused(reason.clone())),
            "the configuration cannot run: out of memory; give a smaller CAPACITY (CAPACITY is the parameter \
             ‘connections’)"
        );
        let other = told(Exit::NotStarted(reason));
        assert!(!other.contains("parameter"), "{other}");
    }

    #[test]
    fn an_interface_that_no_element_uses_is_an_error() {
        let source = "FromNetfront(lan) -> Discard;";
        assert_eq!(checked(source, &["lan"]).errors(), 0);
        let wrong = checked(source, &["lan", "lan2"]);
        assert_eq!(wrong.errors(), 1, "{wrong}");
        let said = wrong.to_string();
        assert!(
            said.contains("no element uses interface 'lan2': leave out --link lan2="),
            "{said}"
        );
        // An address of an interface is a use of it, and so is a DPDK port.
        let addressed = format!("{source} Idle -> ARPResponder(10.0.0.1 b) -> Discard;");
        assert_eq!(checked(&addressed, &["b", "lan"]).errors(), 0);
        let ports = "FromDPDKDevice(0) -> ToDPDKDevice(1);";
        assert_eq!(checked(ports, &["a", "b"]).errors(), 0);
        assert_eq!(checked(ports, &["a", "b", "c"]).errors(), 1);
        // A configuration that is installed later may have it.
        let (files, interfaces) = (BTreeMap::new(), [("b".to_string(), [2; 6])]);
        let later = CheckContext::Installs(None);
        let (said, _) = check_all(b"Idle -> Discard;", &files, &interfaces, 1, "x", later, &[]);
        assert_eq!((said.errors(), said.warnings()), (0, 1), "{said}");
    }

    #[test]
    fn a_variable_that_the_text_does_not_have_is_an_error() {
        for (source, errors) in [
            ("define($RATE 1); Idle -> Discard;", 0),
            ("RatedSource(RATE $RATE) -> Discard;", 0),
            ("RatedSource(RATE ${RATE}) -> Discard;", 0),
            ("RatedSource(RATE $RATES) -> Discard;", 1),
            ("RatedSource(RATE RATE) -> Discard;", 1),
        ] {
            let text = click::settings::join([("RATE", "3"), ("RATES", "4")], source);
            let all = checked(&text, &[]).to_string();
            let said = all
                .matches("has no variable 'RATE': its text has no $RATE")
                .count();
            assert_eq!(said, errors, "{source}: {all}");
        }
    }
}
