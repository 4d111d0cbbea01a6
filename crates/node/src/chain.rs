//! Chains: functions in a row. The next function receives by its first side what one sends by its
//! second, and the other way round.
//!
//! The functions run in guests of their own, with stubs between them ([`wire`](crate::wire)), or
//! fused: as one configuration ([`fuse`]), in which each function's elements have its name in
//! front, as click-combine has it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use click::config::{split_args, unquote_text};
use click::{Connection, FlatElement, FlatGraph, Location};

use crate::check::{self, RECEIVERS, SENDERS};
use crate::function::{self, FunctionError, read};

/// Most functions of a chain.
pub const FUNCTIONS_MAX: usize = 16;

/// A function in its place in a chain.
#[derive(Debug)]
pub struct Stage {
    /// Its name, which no other of the chain has: the function's or file's, with a number behind
    /// it from the second of a name on.
    pub name: String,
    /// The function, or the file.
    pub file: PathBuf,
    /// Its interfaces towards the first side of the chain and towards the second. A function at an
    /// end may have the inner one alone.
    pub sides: [Option<String>; 2],
    /// Its other interfaces.
    pub others: Vec<String>,
    /// Its elements.
    graph: FlatGraph,
    /// For each element, whether its first input pulls.
    pulls: Vec<bool>,
}

/// Why there is no such chain.
#[derive(Debug, thiserror::Error)]
pub enum ChainError {
    /// Too few or too many functions.
    #[error("a chain has 1 to {FUNCTIONS_MAX} functions, not {0}")]
    Length(usize),
    /// A function, or a value of its parameters.
    #[error("{function}: {why}")]
    Function {
        /// The function's name in the chain.
        function: String,
        /// The reason.
        why: FunctionError,
    },
    /// A configuration with errors: what Click would say, line by line.
    #[error("{0}")]
    Configuration(String),
    /// A function without two sides.
    #[error(
        "‘{function}’ has {count} interface{plural}: a function has two in a chain, or one at its ends",
        plural = if *.count == 1 { "" } else { "s" }
    )]
    OneSide {
        /// The function's name in the chain.
        function: String,
        /// How many it has.
        count: usize,
    },
    /// A function that has no interface of that name.
    #[error("‘{function}’ has no interface ‘{interface}’: its interfaces are {has}")]
    NoInterface {
        /// The function's name in the chain.
        function: String,
        /// The name.
        interface: String,
        /// What there is.
        has: String,
    },
    /// A value for a function that the chain does not have.
    #[error("the chain has no function ‘{function}’: its functions are {has}")]
    NoFunction {
        /// The name.
        function: String,
        /// What there is.
        has: String,
    },
    /// Two elements that share the frames of an inner interface.
    #[error(
        "‘{function}’ receives from ‘{interface}’ by two elements: one of a fused chain has one receiver for each inner interface"
    )]
    Receivers {
        /// The function's name in the chain.
        function: String,
        /// The interface.
        interface: String,
    },
    /// Two outer interfaces of one name.
    #[error(
        "‘{one}’ and ‘{other}’ both have an outer interface ‘{interface}’, which one guest cannot have: leave out ‘fuse’"
    )]
    SameInterface {
        /// The first function.
        one: String,
        /// The second one.
        other: String,
        /// The interface.
        interface: String,
    },
    /// Other sides than switches for them.
    #[error("‘between’ needs a stub or link for each open side of the chain: {open}, not {given}")]
    Ends {
        /// Sides.
        open: usize,
        /// Switches.
        given: usize,
    },
    /// A name from which no VNICs' names can be made.
    #[error("a chain's name has at most {0} letters: the names of its VNICs begin with it")]
    Name(usize),
    /// A part of a guest that follows from the functions.
    #[error(
        "‘guest’ is for memory, cpus and the like: configurations and interfaces follow from ‘functions’"
    )]
    Guest,
    /// An interface without a switch.
    #[error(
        "‘{function}’ has a further interface: give it a stub or link, as in {function}.{interface}=lan"
    )]
    NoLink {
        /// The function's name in the chain.
        function: String,
        /// The interface.
        interface: String,
    },
    /// A switch for an interface that is in the row, or is not there.
    #[error("‘{function}’ has no further interface ‘{interface}’ besides the two in the row")]
    NotOther {
        /// The function's name in the chain.
        function: String,
        /// The interface.
        interface: String,
    },
    /// A part that the wire has already.
    #[error(
        "it makes a {kind} ‘{name}’, which the wire has already: give one of them another name"
    )]
    Taken {
        /// Stub, vnic or guest.
        kind: &'static str,
        /// The name.
        name: String,
    },
}

/// Values of parameters, or of something else, by function and name.
pub type PerFunction = BTreeMap<String, BTreeMap<String, String>>;

/// The functions of a chain, each `NAME[:INTERFACE]`. Files are relative to `folder`.
pub fn stages(
    functions: &[String],
    parameters: &PerFunction,
    folder: &Path,
    cpus: usize,
) -> Result<Vec<Stage>, ChainError> {
    if !(1..=FUNCTIONS_MAX).contains(&functions.len()) {
        return Err(ChainError::Length(functions.len()));
    }
    let mut stages: Vec<Stage> = Vec::new();
    for function in functions {
        let (file, first) = match function.rsplit_once(':') {
            Some((file, first)) => (file, Some(first)),
            None => (function.as_str(), None),
        };
        let name = free_name(file, &stages);
        let given = parameters.get(&name).cloned().unwrap_or_default();
        let (path, given) = match function::find(file.as_ref()) {
            Some(function) => (PathBuf::from(file), function.beside(folder, given)),
            None => (folder.join(file), given.into_iter().collect()),
        };
        let read = read(&path, &given, abi::boot::CONFIG_MAX);
        let configuration = read.map_err(|why| ChainError::Function {
            function: name.clone(),
            why,
        })?;
        let checked = check::graph(&configuration.whole(), &path.display().to_string(), cpus);
        let checked = checked
            .map_err(|said| ChainError::Configuration(said.to_string().trim_end().into()))?;
        let is_end = [stages.is_empty(), stages.len() + 1 == functions.len()];
        stages.push(Stage::new(name, file, first, checked, is_end)?);
    }
    check_names(&stages, parameters.keys())?;
    Ok(stages)
}

/// Refuses names of functions that the chain does not have.
pub fn check_names<'n>(
    stages: &[Stage],
    mut names: impl Iterator<Item = &'n String>,
) -> Result<(), ChainError> {
    let has = |name: &&String| stages.iter().any(|stage| stage.name == **name);
    match names.find(|name| !has(name)) {
        Some(name) => Err(ChainError::NoFunction {
            function: name.clone(),
            has: listed(stages.iter().map(|stage| &stage.name)),
        }),
        None => Ok(()),
    }
}

fn listed<'n>(names: impl Iterator<Item = &'n String>) -> String {
    names.map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// A name for the function or file that no stage before it has, and that elements can have.
fn free_name(file: &str, before: &[Stage]) -> String {
    let stem = Path::new(file).file_stem().unwrap_or_default();
    let stem = stem.to_string_lossy();
    let name = stem.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    let is_free = |name: &String| before.iter().all(|stage| stage.name != *name);
    let mut names = (1..).map(|number| match number {
        1 => name.clone(),
        number => format!("{name}{number}"),
    });
    names.find(is_free).unwrap_or_default()
}

impl Stage {
    fn new(
        name: String,
        file: &str,
        first: Option<&str>,
        (graph, pulls): (FlatGraph, Vec<bool>),
        [is_first, is_last]: [bool; 2],
    ) -> Result<Stage, ChainError> {
        let mut interfaces: Vec<String> = Vec::new();
        for (interface, _) in check::named(&graph, &check::DEVICES) {
            if !interfaces.contains(&interface) {
                interfaces.push(interface);
            }
        }
        let count = interfaces.len();
        let first = first.or(interfaces.first().map(String::as_str));
        let at = interfaces.iter().position(|it| Some(it.as_str()) == first);
        let sides = match (at, count, is_first, is_last) {
            (None, 1.., ..) => {
                return Err(ChainError::NoInterface {
                    function: name,
                    interface: first.unwrap_or_default().into(),
                    has: listed(interfaces.iter()),
                });
            }
            (Some(at), 2.., ..) => [Some(interfaces.remove(at)), Some(interfaces.remove(0))],
            (Some(_), 1, _, true) => [interfaces.pop(), None],
            (Some(_), 1, true, _) => [None, interfaces.pop()],
            _ => {
                return Err(ChainError::OneSide {
                    function: name,
                    count,
                });
            }
        };
        Ok(Stage {
            name,
            file: file.into(),
            sides,
            others: interfaces,
            graph,
            pulls,
        })
    }

    /// Whether an element of some classes names an interface.
    fn is_at(element: &FlatElement, classes: &[&str], interface: &str) -> bool {
        let first = || split_args(&element.config).into_iter().next();
        classes.contains(&&*element.class)
            && first().is_some_and(|first| unquote_text(&first) == interface)
    }

    /// Replaces the elements of an inner interface by ones that pass packets on. Their indices are
    /// from `start` on.
    fn open(&mut self, interface: &str, start: usize) -> Result<Ends, ChainError> {
        let mut ends = Ends::default();
        for (i, element) in self.graph.elements.iter_mut().enumerate() {
            let (class, config) = if Self::is_at(element, &SENDERS, interface) {
                ends.senders.push(start + i);
                match self.pulls[i] {
                    // As much at once as a port sends.
                    true => ("Unqueue", "BURST 64"),
                    false => ("Null", ""),
                }
            } else if Self::is_at(element, &RECEIVERS, interface) {
                if ends.receiver.replace(start + i).is_some() {
                    return Err(ChainError::Receivers {
                        function: self.name.clone(),
                        interface: interface.into(),
                    });
                }
                ("Null", "")
            } else {
                continue;
            };
            element.class = class.into();
            element.config = config.into();
        }
        Ok(ends)
    }
}

/// The elements of an inner interface.
#[derive(Default)]
struct Ends {
    senders: Vec<usize>,
    receiver: Option<usize>,
}

/// The stages as one configuration. Interfaces between them have addresses that follow from the
/// `name` of the chain.
pub fn fuse(name: &str, mut stages: Vec<Stage>) -> Result<String, ChainError> {
    check_outer(&stages)?;
    let names = listed(stages.iter().map(|stage| &stage.name));
    let last = stages.len() - 1;
    let mut all = FlatGraph::default();
    // What the stage before sends towards the next one by, and what it receives from there by.
    let mut before = Ends::default();
    for (i, stage) in stages.iter_mut().enumerate() {
        let start = all.elements.len();
        let (mut inner, mut ends) = (Vec::new(), [Ends::default(), Ends::default()]);
        let sides = stage.sides.clone().into_iter().enumerate();
        for (side, interface) in sides.filter(|(side, _)| [i > 0, i < last][*side]) {
            let interface = interface.unwrap_or_default();
            let address = address([name, &stage.name, &interface]);
            inner.push(format!("{interface} {address}"));
            ends[side] = stage.open(&interface, start)?;
        }
        let mut graph = std::mem::take(&mut stage.graph);
        if !inner.is_empty() {
            // The numbers of elements without a name begin at 1.
            graph.elements.push(FlatElement {
                name: "AddressInfo@0".into(),
                class: "AddressInfo".into(),
                config: inner.join(", "),
                location: Location::default(),
            });
        }
        // Their names differ.
        let _ = all.install(&stage.name, graph);
        let [first, second] = ends;
        if i > 0 {
            join(&mut all, &before.senders, first.receiver);
            join(&mut all, &first.senders, before.receiver);
        }
        before = second;
    }
    all.connections.sort_by_key(|it| (it.to, it.from));
    Ok(format!("// A chain in one guest: {names}.\n\n{all}"))
}

/// Connects what sends to what receives. Where there is nothing at the other end, packets end, or
/// none come.
fn join(all: &mut FlatGraph, senders: &[usize], receiver: Option<usize>) {
    match receiver {
        Some(receiver) if senders.is_empty() => all.elements[receiver].class = "Idle".into(),
        Some(receiver) => all
            .connections
            .extend(senders.iter().map(|&from| Connection {
                from: (from, 0),
                to: (receiver, 0),
                location: Location::default(),
            })),
        None => {
            for &sender in senders {
                all.elements[sender].class = "Discard".into();
            }
        }
    }
}

/// Refuses outer interfaces of one name.
fn check_outer(stages: &[Stage]) -> Result<(), ChainError> {
    let mut seen: BTreeMap<&str, &Stage> = BTreeMap::new();
    let last = stages.len() - 1;
    for (i, stage) in stages.iter().enumerate() {
        let first = stage.sides[0].iter().filter(|_| i == 0);
        let second = stage.sides[1].iter().filter(|_| i == last);
        for interface in first.chain(second).chain(&stage.others) {
            if let Some(other) = seen.insert(interface, stage) {
                return Err(ChainError::SameInterface {
                    one: other.name.clone(),
                    other: stage.name.clone(),
                    interface: interface.clone(),
                });
            }
        }
    }
    Ok(())
}

/// A locally administered Ethernet address, the same for the same names (FNV-1a).
fn address(names: [&str; 3]) -> String {
    let bytes = names.iter().flat_map(|name| name.bytes().chain([0]));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let [_, b, c, d, e, f, ..] = hash.to_le_bytes();
    format!("02:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fuses configurations.
    fn fused(configurations: &[(&str, &str)]) -> Result<String, ChainError> {
        let last = configurations.len() - 1;
        let stage = |(i, (name, text)): (usize, &(&str, &str))| {
            let checked = check::graph(text.as_bytes(), name, 1).unwrap();
            Stage::new(name.to_string(), name, None, checked, [i == 0, i == last])
        };
        let stages: Result<Vec<_>, _> = configurations.iter().enumerate().map(stage).collect();
        fuse("c", stages?)
    }

    const WIRE: &str = "FromNetfront(a) -> ToNetfront(b); FromNetfront(b) -> ToNetfront(a);";

    /// The chain of elements that a configuration's text has from one on.
    fn path(text: &str, from: &str) -> String {
        let start = text.find(&format!("\n{from} -> ")).unwrap() + 1;
        let end = text[start..].find(';').unwrap();
        text[start..start + end]
            .replace("\n   ", "")
            .replace(" -> ", " > ")
    }

    #[test]
    fn frames_go_from_one_to_the_next_and_back() {
        let text = fused(&[("x", WIRE), ("y", WIRE)]).unwrap();
        assert_eq!(
            path(&text, "x/FromNetfront@1"),
            "x/FromNetfront@1 > x/ToNetfront@2 > y/FromNetfront@1 > y/ToNetfront@2"
        );
        assert_eq!(
            path(&text, "y/FromNetfront@3"),
            "y/FromNetfront@3 > y/ToNetfront@4 > x/FromNetfront@3 > x/ToNetfront@4"
        );
        for line in [
            "x/FromNetfront@1 :: FromNetfront(a);",
            "x/ToNetfront@2 :: Null;",
            "y/FromNetfront@1 :: Null;",
            "y/ToNetfront@2 :: ToNetfront(b);",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn a_queue_s_packets_are_pulled() {
        let queued = "FromNetfront(a) -> Queue -> ToNetfront(b); FromNetfront(b) -> ToNetfront(a);";
        let text = fused(&[("x", queued), ("y", WIRE)]).unwrap();
        assert!(
            text.contains("x/ToNetfront@3 :: Unqueue(BURST 64);"),
            "{text}"
        );
    }

    #[test]
    fn an_end_without_another_side_is_closed() {
        let one_way = "FromNetfront(a) -> ToNetfront(b);";
        let text = fused(&[("x", WIRE), ("y", one_way)]).unwrap();
        assert!(text.contains("x/FromNetfront@3 :: Idle;"), "{text}");
        let text = fused(&[("x", one_way), ("y", WIRE)]).unwrap();
        assert!(text.contains("y/ToNetfront@4 :: Discard;"), "{text}");
    }

    #[test]
    fn each_has_its_own_names_for_addresses() {
        let host = "FromNetfront(a) -> HostEtherFilter(a) -> ToNetfront(b);
            FromNetfront(b) -> HostEtherFilter(b) -> ToNetfront(a);";
        let text = fused(&[("x", host), ("y", host), ("z", host)]).unwrap();
        let info = |stage: &str| {
            let start = text.find(&format!("{stage}/AddressInfo@0")).unwrap();
            text[start..].lines().next().unwrap().to_string()
        };
        let (x, y) = (info("x"), info("y"));
        assert!(x.contains("(b 02:") && !x.contains("a 02:"), "{x}");
        assert!(y.contains("(a 02:") && y.contains(", b 02:"), "{y}");
        // The first one's outer interface and the inner ones of its name are told apart.
        let interfaces = ["a", "b"].map(|name| (name.to_string(), [2; 6]));
        let said = check::check(text.as_bytes(), "f", &interfaces, 1, "x");
        assert_eq!(said.errors(), 0, "{said}");
    }

    #[test]
    fn an_inner_interface_has_one_receiver() {
        let two = "FromNetfront(a) -> ToNetfront(b); FromNetfront(a) -> ToNetfront(b);";
        let error = fused(&[("x", WIRE), ("y", two)]).unwrap_err().to_string();
        assert!(
            error.starts_with("‘y’ receives from ‘a’ by two elements"),
            "{error}"
        );
    }
}
