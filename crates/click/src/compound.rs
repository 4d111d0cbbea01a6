//! The inside of a compound element, or of a whole file: elements and
//! connections as written.

use crate::classes::ClassId;
use crate::{Context, Diagnostics, Location};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use hashbrown::HashMap;

/// Index of the inputs in pairs of inputs and outputs.
pub(crate) const INPUT: usize = 0;
/// Index of the outputs in pairs of inputs and outputs.
pub(crate) const OUTPUT: usize = 1;
/// The names of the two sides, and of the pseudoelements that stand for them.
pub(crate) const SIDES: [&str; 2] = ["input", "output"];

/// An element in a compound.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Anonymous elements are called `;Class@N` until the compound is complete.
    pub(crate) name: String,
    pub(crate) class: ClassId,
    pub(crate) config: String,
    pub(crate) location: Location,
    /// The number of input and output ports used by connections.
    pub(crate) ports: [u32; 2],
}

/// A port: the index of a node, and a number.
pub(crate) type Port = (usize, u32);

/// A connection in a compound.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) from: Port,
    pub(crate) to: Port,
    pub(crate) location: Location,
}

/// A parameter of a compound element, or a variable defined in it.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    /// A parameter's keyword, empty if positional; a defined variable's value.
    pub(crate) value: String,
}

/// Elements and connections as written between two braces, or in a file.
///
/// In a compound element, nodes 0 and 1 are `input` and `output`.
#[derive(Clone, Debug)]
pub(crate) struct Compound {
    /// The class's name; empty for inline compounds and files.
    pub(crate) name: String,
    pub(crate) location: Location,
    /// 0 for a file, one more for each compound around.
    pub(crate) depth: usize,
    /// The parameters, then the defined variables.
    pub(crate) variables: Vec<Variable>,
    pub(crate) parameters: usize,
    pub(crate) nodes: Vec<Node>,
    pub(crate) links: Vec<Link>,
    /// The numbers of input and output ports.
    pub(crate) ports: [u32; 2],
    /// The class to consider when this compound doesn't fit a use.
    pub(crate) next: Option<ClassId>,
    /// Nodes by name; anonymous elements once the compound is complete.
    index: HashMap<String, usize>,
    /// Runs of taken numbers by name prefix, so that finding a free one does
    /// not try each taken one every time.
    taken: HashMap<String, (u64, u64)>,
}

impl Compound {
    pub(crate) fn new(name: &str, location: Location, depth: usize) -> Self {
        Compound {
            name: name.into(),
            location,
            depth,
            variables: Vec::new(),
            parameters: 0,
            nodes: Vec::new(),
            links: Vec::new(),
            ports: [0, 0],
            next: None,
            index: HashMap::new(),
            taken: HashMap::new(),
        }
    }

    /// The name as messages print it.
    pub(crate) fn printable_name(&self) -> &str {
        if self.name.is_empty() {
            "<anonymous>"
        } else {
            &self.name
        }
    }

    /// The types of the parameters.
    pub(crate) fn parameter_types(&self) -> Vec<String> {
        let parameters = self.variables[..self.parameters].iter();
        parameters.map(|variable| variable.value.clone()).collect()
    }

    /// The node that `name` means here.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }

    /// Makes `name` mean `node`, or nothing. Groups use this for `input` and
    /// `output`.
    pub(crate) fn rebind(&mut self, name: &str, node: Option<usize>) -> Option<usize> {
        match node {
            Some(node) => self.index.insert(name.into(), node),
            None => self.index.remove(name),
        }
    }

    /// Adds an element. Its name must be new.
    pub(crate) fn add(
        &mut self,
        name: String,
        class: ClassId,
        config: String,
        location: Location,
    ) -> usize {
        let node = self.nodes.len();
        // Anonymous groups are called `;@N`, and are looked for once more where they end.
        if !name.starts_with(';') || name.starts_with(";@") {
            self.index.insert(name.clone(), node);
        }
        self.nodes.push(Node {
            name,
            class,
            config,
            location,
            ports: [0, 0],
        });
        node
    }

    /// The name of the next anonymous element of a class.
    pub(crate) fn anonymous_name(&self, class: &str) -> String {
        let pseudoelements = if self.depth > 0 { 2 } else { 0 };
        format!(";{class}@{}", self.nodes.len() - pseudoelements + 1)
    }

    /// Makes room for the final names of all nodes.
    pub(crate) fn reserve_names(&mut self) {
        let more = self.nodes.len().saturating_sub(self.index.len());
        self.index.reserve(more);
    }

    /// Gives an anonymous element its final name: the one it has, or with the
    /// next number that is free. The ends of a group follow suit.
    pub(crate) fn settle_name(&mut self, node: usize) {
        let Some(name) = self.nodes[node].name.strip_prefix(';') else {
            return;
        };
        let mut name = name.to_string();
        if self.index.contains_key(&name) {
            name = self.free_name(&name);
        }
        for (side, end) in SIDES.iter().zip(node + 1..) {
            let own = &self.nodes[node].name;
            let behind =
                |inner: &Node| Some(inner.name.strip_prefix(own.as_str())? == format!("/{side}"));
            if self.nodes.get(end).and_then(behind) == Some(true) {
                self.nodes[end].name = format!("{name}/{side}");
                self.index
                    .entry(self.nodes[end].name.clone())
                    .or_insert(end);
            }
        }
        self.index.insert(name.clone(), node);
        self.nodes[node].name = name;
    }

    fn free_name(&mut self, name: &str) -> String {
        let digits = name.rfind('@').map_or(name.len(), |at| at + 1);
        let (prefix, number) = name.split_at(digits);
        let end = number.find(|c: char| !c.is_ascii_digit());
        let number: u64 = number[..end.unwrap_or(number.len())].parse().unwrap_or(0);
        let run = self.taken.entry(prefix.to_string()).or_insert((1, 1));
        let mut free = number.saturating_add(1);
        if (run.0..run.1).contains(&free) {
            free = run.1;
        } else {
            *run = (free, free);
        }
        loop {
            let name = format!("{prefix}{free}");
            free += 1;
            run.1 = free;
            if !self.index.contains_key(&name) {
                return name;
            }
        }
    }

    pub(crate) fn connect(&mut self, from: Port, to: Port, location: Location) {
        for (side, (node, port)) in [(OUTPUT, from), (INPUT, to)] {
            let ports = &mut self.nodes[node].ports[side];
            *ports = (*ports).max(port + 1);
        }
        self.links.push(Link { from, to, location });
    }

    /// Checks the use of a pseudoelement, `input` or `output` as `side` says,
    /// by the links from `first_link` on; gives the number of ports it stands
    /// for. `name` is that of the compound or group.
    pub(crate) fn check_pseudoelement(
        &self,
        node: usize,
        side: usize,
        name: &str,
        first_link: usize,
        diagnostics: &mut Diagnostics,
    ) -> u32 {
        let (this, other) = (SIDES[side], SIDES[1 - side]);
        let count = self.nodes[node].ports[1 - side];
        let mut used = vec![false; count as usize];
        for link in &self.links[first_link..] {
            let (end, port) = if side == INPUT { link.from } else { link.to };
            if end == node {
                used[port as usize] = true;
            }
        }
        if self.nodes[node].ports[side] > 0 {
            let text = format!("‘{name}’ pseudoelement ‘{this}’ may only be used as {other}");
            diagnostics.error_here(text);
        }
        for (port, _) in used.iter().enumerate().filter(|(_, used)| !**used) {
            diagnostics.error_here(format_args!("‘{name}’ {this} {port} missing"));
        }
        count
    }

    /// Completes a compound element: counts its ports and names its elements.
    pub(crate) fn finish(&mut self, diagnostics: &mut Diagnostics) {
        let mut diagnostics = diagnostics.within(Context::location(&self.location));
        for side in [INPUT, OUTPUT] {
            let name = self.printable_name();
            self.ports[side] = self.check_pseudoelement(side, side, name, 0, &mut diagnostics);
        }
        for node in 0..self.nodes.len() {
            self.settle_name(node);
        }
    }

    /// `Name(<arg>, KEYWORD, ...)[1 input, 2 outputs]`.
    pub(crate) fn signature(&self) -> String {
        let types = self.variables[..self.parameters].iter();
        let types: Vec<&str> = types
            .map(|parameter| match &*parameter.value {
                "" => "<arg>",
                "__REST__" => "...",
                keyword => keyword,
            })
            .collect();
        let list = if types.is_empty() {
            String::new()
        } else {
            format!("({})", types.join(", "))
        };
        let ports = ports_text(self.ports);
        format!("{}{list}[{ports}]", self.printable_name())
    }

    /// The signature wanted of this class by a use of it.
    pub(crate) fn wanted_signature(&self, args: usize, ports: [u32; 2]) -> String {
        let list = match args {
            0 => String::new(),
            1 => "1 argument, ".into(),
            n => format!("{n} arguments, "),
        };
        format!("{}[{list}{}]", self.printable_name(), ports_text(ports))
    }
}

fn ports_text(ports: [u32; 2]) -> String {
    let plural = |n| if n == 1 { "" } else { "s" };
    let [inputs, outputs] = ports;
    format!(
        "{inputs} input{}, {outputs} output{}",
        plural(inputs),
        plural(outputs)
    )
}
