//! The router that an input asks for: which it may have, and the ports around a single element.

use std::collections::HashSet;
use std::io::Write;
use std::sync::{LazyLock, Mutex};

use click::Limits;
use elements::testing::{Bench, Cable, Rig};
use router::{Class, ClassEntry, Graph, Library};

/// Longest text, in bytes.
const TEXT: usize = 2048;
/// Most packet buffers: few, so that elements meet their end.
const BUFFERS: usize = 512;
/// Most ports on a side of a single element.
const PORTS: usize = 6;
const LIMITS: Limits = Limits {
    elements: 64,
    connections: 256,
    port: 64,
    text: 1 << 14,
};

/// A class whose purpose is to keep every buffer.
static LEFT_OUT: &[ClassEntry] = &[ClassEntry::refused("DiscardNoFree", "keeps every packet")];
/// Classes that send a given number of packets at a stroke, whatever it is.
const BURSTS: &[&str] = &[
    "Burster",
    "InfiniteSource",
    "RandomSource",
    "TimedUnqueue",
    "Unqueue",
    "Unqueue2",
];
/// Classes that send on what comes back to them once only.
const ENDS: &[&str] = &["ICMPError", "ICMP6Error"];

/// `text` with numbers of at most `most` digits.
fn with_short_numbers(text: &str, most: usize) -> String {
    let mut short = String::new();
    let mut digits = 0;
    let (mut before, mut hexadecimal) = (' ', false);
    for c in text.chars() {
        match before.is_ascii_alphanumeric() {
            true => hexadecimal |= digits == 1 && before == '0' && matches!(c, 'x' | 'X'),
            false => (hexadecimal, digits) = (false, 0),
        }
        before = c;
        if c.is_digit(if hexadecimal { 16 } else { 10 }) {
            digits += 1;
            if digits > most {
                continue;
            }
        }
        short.push(c);
    }
    short
}

/// The fewest and most ports that one side of a class's port specification allows.
fn range(side: &str) -> (usize, usize) {
    match side.split_once('-') {
        None => side.parse().map_or((0, PORTS), |count| (count, count)),
        Some((least, most)) => (least.parse().unwrap_or(0), most.parse().unwrap_or(PORTS)),
    }
}

/// What stands at a port by a class's processing: push, pull or either.
fn code(side: &str, port: usize) -> u8 {
    let codes = side.as_bytes();
    codes.get(port).or(codes.last()).copied().unwrap_or(b'a')
}

/// How a router is made of an input's text.
pub struct Setup {
    text: String,
    choices: u8,
    most: usize,
    library: Library,
}

impl Setup {
    /// `None` if `text` is none to try.
    pub fn new(text: &str, choices: u8) -> Option<Setup> {
        let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
        let most = match words.any(|word| BURSTS.contains(&word)) {
            true => 3,
            false => 20,
        };
        let mut library = elements::guest_library();
        library.add(LEFT_OUT);
        (text.len() <= TEXT).then(|| Setup {
            text: text.to_owned(),
            choices,
            most,
            library,
        })
    }

    /// Whether the text is a whole configuration.
    pub fn is_whole(&self) -> bool {
        self.text.contains("->") || self.text.contains(" :: ")
    }

    /// A value to be written, as it may be.
    pub fn tame(&self, value: &[u8]) -> String {
        with_short_numbers(&String::from_utf8_lossy(value), self.most)
    }

    /// The configuration; around a single element with the arguments `other`, if any.
    pub fn config(&self, other: Option<&[u8]>) -> String {
        let other = other.filter(|other| !other.is_empty());
        if self.is_whole() {
            return match other {
                Some(other) => self.tame(other),
                None => self.tame(self.text.as_bytes()),
            };
        }
        let (class, arguments) = self.text.split_once('(').unwrap_or((&self.text, ""));
        let arguments = arguments.strip_suffix(')').unwrap_or(arguments);
        let arguments = self.tame(other.unwrap_or(arguments.as_bytes()));
        let mut config = format!("e :: {class}({arguments});\n");
        if let Some(entry) = self.library.find(class.trim()) {
            self.connect(entry, &mut config);
        }
        config
    }

    fn connect(&self, entry: &ClassEntry, config: &mut String) {
        let (inputs, outputs) = entry.ports.split_once('/').unwrap_or((entry.ports, "="));
        let choose =
            |(least, most): (usize, usize), choice: u8| (least + choice as usize).min(most);
        let inputs = choose(range(inputs), self.choices & 3);
        let outputs = match outputs.strip_prefix('=') {
            Some(more) => inputs + more.len(),
            None => choose(range(outputs), self.choices >> 2 & 3),
        };
        let (before, after) = entry
            .processing
            .split_once('/')
            .unwrap_or((entry.processing, entry.processing));
        let pulls = |code: u8| code == b'l' || code == b'a' && self.choices & 0x10 != 0;
        for i in 0..inputs {
            let queue = match pulls(code(before, i)) {
                true => "Queue(9) -> ",
                false => "",
            };
            config.push_str(&format!("i{i} :: Inject -> {queue}[{i}] e;\n"));
        }
        for i in 0..outputs {
            let class = match pulls(code(after, i)) {
                true => "Puller",
                false => "Collect",
            };
            config.push_str(&format!("e [{i}] -> o{i} :: {class};\n"));
        }
    }

    /// The router, if the configuration is right and ends what it starts.
    pub fn rig(&self, cables: &[(&str, &Cable)]) -> Option<Rig> {
        let bench = Bench {
            batch: if self.choices & 0x20 == 0 { 64 } else { 1 },
            library: self.library.clone(),
            limits: LIMITS,
            buffers: BUFFERS,
            cables,
        };
        let rig = Rig::on(bench, &self.config(None)).ok()?;
        (!circles(rig.router.graph())).then_some(rig)
    }
}

/// Whether a packet that is pushed may go round for ever.
pub fn circles(graph: &Graph) -> bool {
    let elements = graph.elements.len();
    let ends = |i: usize| ENDS.contains(&graph.elements[i].class.name);
    let push = |c: &&click::Connection| {
        graph.elements[c.from.0].outputs[c.from.1] && !ends(c.from.0) && !ends(c.to.0)
    };
    // What leads nowhere is taken away until nothing is left, or only circles.
    let mut left: HashSet<usize> = (0..elements).collect();
    loop {
        let leads_on = |i: &usize| {
            let mut connections = graph.wiring.iter().filter(push);
            connections.any(|c| c.from.0 == *i && left.contains(&c.to.0))
        };
        let next: HashSet<usize> = left.iter().copied().filter(leads_on).collect();
        if next.len() == left.len() {
            return !left.is_empty();
        }
        left = next;
    }
}

/// Notes the classes of a router that was made.
pub fn reached(graph: &Graph) {
    static SEEN: LazyLock<Mutex<HashSet<&'static str>>> = LazyLock::new(Mutex::default);
    static FILE: LazyLock<Option<std::ffi::OsString>> =
        LazyLock::new(|| std::env::var_os("ELEMENTS_REACHED"));
    let Some(file) = &*FILE else {
        return;
    };
    let mut seen = SEEN.lock().expect("no panic is survived");
    for element in &graph.elements {
        if seen.insert(element.class.name) {
            let mut options = std::fs::OpenOptions::new();
            let file = options.create(true).append(true).open(file);
            let line = format!("{}\n", element.class.name);
            let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
            written.expect("the file of ELEMENTS_REACHED can be written");
        }
    }
}

/// The elements of class `C` of a router.
pub fn elements_of<C: Class>(graph: &Graph) -> Vec<String> {
    let elements = graph.elements.iter();
    let found = elements.filter(|element| element.class.name == C::NAME);
    found.map(|element| element.name.clone()).collect()
}
