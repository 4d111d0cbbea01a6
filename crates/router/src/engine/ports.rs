//! Ports: how many an element has, which of them push and pull, and which inputs' packets may leave
//! by which outputs. Codes and messages are Click's.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;
use core::ops::{Index, IndexMut};

use click::{Diagnostics, FlatGraph, Location};

use super::element::ClassEntry;
use crate::prelude::*;

/// The least and most that one half of a port count code allows.
fn range(code: &str) -> Option<(usize, usize)> {
    let number = |text: &str| text.parse::<usize>().ok();
    match code.split_once('-') {
        None => number(code).map(|n| (n, n)),
        Some(("", "")) => Some((0, usize::MAX)),
        Some(("", high)) => Some((0, number(high)?)),
        Some((low, "")) => Some((number(low)?, usize::MAX)),
        Some((low, high)) => Some((number(low)?, number(high)?)),
    }
}

/// Numbers of ports that an element of port count code `code` has when `inputs` and `outputs` of
/// them are connected. `None` if the code is not one.
pub fn port_counts(code: &str, inputs: usize, outputs: usize) -> Option<(usize, usize)> {
    let (ins, outs) = code.split_once('/').unwrap_or((code, code));
    let (low, high) = range(ins)?;
    let inputs = inputs.clamp(low, high);
    if let Some(more) = outs.strip_prefix('=') {
        return more
            .bytes()
            .all(|b| b == b'+')
            .then(|| (inputs, inputs + more.len()));
    }
    let (low, high) = range(outs)?;
    Some((inputs, outputs.clamp(low, high)))
}

/// Whether a port pushes or pulls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processing {
    /// Packets are pushed through it.
    Push,
    /// Packets are pulled through it.
    Pull,
    /// Either, as the connected port needs it.
    Agnostic,
}

impl Processing {
    fn word(self) -> &'static str {
        match self {
            Processing::Push => "push",
            Processing::Pull => "pull",
            Processing::Agnostic => "agnostic",
        }
    }
}

fn codes(half: &str, ports: usize) -> impl Iterator<Item = Processing> {
    let mut codes = half.bytes().map(|code| match code {
        b'h' | b'H' => Processing::Push,
        b'l' | b'L' => Processing::Pull,
        _ => Processing::Agnostic,
    });
    let mut last = Processing::Agnostic;
    (0..ports).map(move |_| {
        last = codes.next().unwrap_or(last);
        last
    })
}

/// The two halves of a code; one that has no slash is both.
fn halves(code: &str) -> (&str, &str) {
    code.split_once('/').unwrap_or((code, code))
}

/// A value for each port of one side, element by element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortTable<T> {
    /// Where the ports of each element begin; and behind the last, where those end.
    starts: Vec<usize>,
    values: Vec<T>,
}

impl<T> PortTable<T> {
    /// The values of elements with these numbers of ports.
    fn new(counts: impl Iterator<Item = usize>, values: impl FnOnce(usize) -> Vec<T>) -> Self {
        let mut starts = alloc::vec![0];
        let mut count = 0;
        starts.extend(counts.map(|ports| {
            count += ports;
            count
        }));
        let values = values(count);
        PortTable { starts, values }
    }

    /// The values of an element's ports.
    pub fn of(&self, element: usize) -> &[T] {
        &self.values[self.starts[element]..self.starts[element + 1]]
    }

    /// The number of a port among all.
    fn number(&self, (element, port): (usize, usize)) -> usize {
        self.starts[element] + port
    }

    /// The same for other values.
    fn map<U>(&self, value: impl FnMut(&T) -> U) -> PortTable<U> {
        PortTable {
            starts: self.starts.clone(),
            values: self.values.iter().map(value).collect(),
        }
    }
}

impl<T> Index<(usize, usize)> for PortTable<T> {
    type Output = T;

    fn index(&self, port: (usize, usize)) -> &T {
        &self.values[self.number(port)]
    }
}

impl<T> IndexMut<(usize, usize)> for PortTable<T> {
    fn index_mut(&mut self, port: (usize, usize)) -> &mut T {
        let number = self.number(port);
        &mut self.values[number]
    }
}

/// The processing of each input and output by code `code`; the last letter of each half goes for
/// all further ports.
pub fn processing(code: &str, inputs: usize, outputs: usize) -> (Vec<Processing>, Vec<Processing>) {
    let (ins, outs) = halves(code);
    (codes(ins, inputs).collect(), codes(outs, outputs).collect())
}

/// The ports a flow code's letter class stands for, one class a port.
struct FlowCodes<'c> {
    code: &'c str,
    last: &'c str,
}

impl<'c> Iterator for FlowCodes<'c> {
    type Item = &'c str;

    /// The next port's class: a letter, `#`, or what stands between brackets. The last one goes
    /// for all further ports.
    fn next(&mut self) -> Option<&'c str> {
        if !self.code.is_empty() {
            let len = match self.code.strip_prefix('[') {
                Some(rest) => rest.find(']').map_or(self.code.len(), |end| end + 2),
                None => self.code.chars().next().map_or(1, char::len_utf8),
            };
            (self.last, self.code) = self.code.split_at(len);
        }
        Some(self.last)
    }
}

/// Whether the class `letters` of port `port` has `letter` (`None`: the port's own number).
fn class_has(class: &str, port: usize, other: &str, other_port: usize) -> bool {
    let inside = |class: &str| -> (bool, String) {
        let class = class.trim_start_matches('[').trim_end_matches(']');
        match class.strip_prefix('^') {
            Some(rest) => (true, rest.into()),
            None => (false, class.into()),
        }
    };
    let ((not_a, a), (not_b, b)) = (inside(class), inside(other));
    let letters = (b'A'..=b'Z').chain(b'a'..=b'z').map(char::from);
    let in_class = |class: &str, not: bool, letter: char| class.contains(letter) != not;
    if letters
        .into_iter()
        .any(|l| in_class(&a, not_a, l) && in_class(&b, not_b, l))
    {
        return true;
    }
    // `#` stands for the port's own number.
    let numbers = [port, other_port];
    numbers.into_iter().any(|n| {
        let has = |class: &str, not: bool, own: usize| (class.contains('#') && own == n) != not;
        has(&a, not_a, port) && has(&b, not_b, other_port)
    })
}

/// The flow code of elements whose packets may leave by any output.
const ALL_FLOWS: &str = "x/x";

/// For each output whether packets that came in by input `port` may leave by it (or, with
/// `backward`, for each input whether they may have led to output `port`), by flow code `code`.
pub fn flow(code: &str, port: usize, others: usize, backward: bool) -> Vec<bool> {
    if code == ALL_FLOWS {
        return alloc::vec![true; others];
    }
    let (ins, outs) = code.split_once('/').unwrap_or((code, code));
    let (own, other) = if backward { (outs, ins) } else { (ins, outs) };
    let walk = |code| FlowCodes { code, last: "" };
    let own = walk(own).nth(port).unwrap_or("");
    walk(other)
        .take(others)
        .enumerate()
        .map(|(i, class)| class_has(own, port, class, i))
        .collect()
}

/// An element, for messages.
pub(crate) fn element_name(graph: &FlatGraph, i: usize) -> String {
    alloc::format!("{} :: {}", graph.elements[i].name, graph.elements[i].class)
}

/// The processing of every port of a graph.
pub struct Resolved {
    /// For each input whether it is push.
    pub inputs: PortTable<bool>,
    /// For each output whether it is push.
    pub outputs: PortTable<bool>,
}

#[derive(Debug)]
struct Ends {
    from: (usize, usize),
    to: (usize, usize),
    through: bool,
    /// It was said that they differ.
    done: bool,
}

/// Checks ports and connections of `graph`, whose elements are of `classes`, and settles what
/// pushes and what pulls. `None` if that cannot be; the reasons are in `diagnostics`.
pub fn resolve(
    graph: &mut FlatGraph,
    classes: &[&'static ClassEntry],
    diagnostics: &mut Diagnostics,
) -> Option<Resolved> {
    let counts = check_range(graph, classes, diagnostics)?;
    let resolved = settle(graph, classes, &counts, diagnostics)?;
    check_completeness(graph, &counts, &resolved, diagnostics).then_some(resolved)
}

fn check_range(
    graph: &mut FlatGraph,
    classes: &[&'static ClassEntry],
    diagnostics: &mut Diagnostics,
) -> Option<Vec<(usize, usize)>> {
    let used = graph.port_counts();
    let counts: Vec<_> = used
        .iter()
        .zip(classes)
        .map(|(&(ins, outs), class)| port_counts(class.ports, ins, outs).unwrap_or((ins, outs)))
        .collect();
    let before = diagnostics.errors();
    for c in &graph.connections {
        for (side, (element, port), limit) in [
            ("input", c.to, counts[c.to.0].0),
            ("output", c.from, counts[c.from.0].1),
        ] {
            if port >= limit {
                let name = element_name(graph, element);
                diagnostics.error(
                    &graph.elements[element].location,
                    format_args!("‘{name}’ has no {side} {port}"),
                );
            }
        }
    }
    (diagnostics.errors() == before).then_some(counts)
}

fn settle(
    graph: &FlatGraph,
    classes: &[&'static ClassEntry],
    counts: &[(usize, usize)],
    diagnostics: &mut Diagnostics,
) -> Option<Resolved> {
    let all = || classes.iter().zip(counts);
    let inputs = PortTable::new(counts.iter().map(|count| count.0), |_| {
        let kinds = all().map(|(class, count)| codes(halves(class.processing).0, count.0));
        kinds.flatten().collect()
    });
    let outputs = PortTable::new(counts.iter().map(|count| count.1), |_| {
        let kinds = all().map(|(class, count)| codes(halves(class.processing).1, count.1));
        kinds.flatten().collect()
    });
    let mut ends: Vec<Ends> = graph
        .connections
        .iter()
        .map(|c| Ends {
            from: c.from,
            to: c.to,
            through: false,
            done: false,
        })
        .collect();
    // An agnostic input and an agnostic output that packets pass between are of one kind.
    for (i, class) in classes.iter().enumerate() {
        for (input, kind) in inputs.of(i).iter().enumerate() {
            if *kind != Processing::Agnostic {
                continue;
            }
            let flows = match class.flow {
                ALL_FLOWS => None,
                code => Some(flow(code, input, counts[i].1, false)),
            };
            let flows = |output: usize| flows.as_ref().is_none_or(|flows| flows[output]);
            let kinds = outputs.of(i).iter().enumerate();
            let through =
                kinds.filter(|(output, kind)| **kind == Processing::Agnostic && flows(*output));
            ends.extend(through.map(|(output, _)| Ends {
                from: (i, output),
                to: (i, input),
                through: true,
                done: false,
            }));
        }
    }
    let before = diagnostics.errors();
    let mut spread = Spread {
        inputs,
        outputs,
        ends,
    };
    spread.run(|end, from, to| mixed(graph, end, from, to, diagnostics));
    let Spread {
        inputs, outputs, ..
    } = spread;
    // Ports that are still agnostic are connected only to agnostic ports: they push.
    let is_push = |kind: &Processing| *kind != Processing::Pull;
    (diagnostics.errors() == before).then(|| Resolved {
        inputs: inputs.map(is_push),
        outputs: outputs.map(is_push),
    })
}

/// Ports, and the connections that agree on what their two ports are.
struct Spread {
    inputs: PortTable<Processing>,
    outputs: PortTable<Processing>,
    ends: Vec<Ends>,
}

impl Spread {
    /// Gives each agnostic port the processing of the port at the other end, and reports ends that
    /// differ to `mixed`. The result is that of repeated passes over all ends in order until
    /// nothing changes; after the first pass, only ends that may have changed are visited.
    fn run(&mut self, mut mixed: impl FnMut(&Ends, Processing, Processing)) {
        let mut due = BinaryHeap::new();
        let touching = Touching::new(self);
        for i in 0..self.ends.len() {
            if let Some(side) = self.settle(i, &mut mixed) {
                // All behind it are looked at in this round anyway.
                let before = touching.of(self.number(&self.ends[i], side));
                let before = before.iter().filter(|end| **end < i);
                due.extend(before.map(|end| Reverse((1, *end))));
            }
        }
        while let Some(Reverse((round, i))) = due.pop() {
            if let Some(side) = self.settle(i, &mut mixed) {
                let others = touching.of(self.number(&self.ends[i], side)).iter();
                let next = |end: usize| (round + usize::from(end < i), end);
                due.extend(
                    others
                        .filter(|end| **end != i)
                        .map(|end| Reverse(next(*end))),
                );
            }
        }
    }

    /// The number of a port among all ports: the outputs come first.
    fn number(&self, end: &Ends, side: Side) -> usize {
        match side {
            Side::From => self.outputs.number(end.from),
            Side::To => self.outputs.values.len() + self.inputs.number(end.to),
        }
    }

    /// Makes the two ports of `ends[i]` the same kind; which of them changed.
    fn settle(
        &mut self,
        i: usize,
        mixed: &mut impl FnMut(&Ends, Processing, Processing),
    ) -> Option<Side> {
        let end = &mut self.ends[i];
        let from = &mut self.outputs[end.from];
        let to = &mut self.inputs[end.to];
        match (*from, *to) {
            (a, b) if a == b => None,
            (Processing::Agnostic, kind) => {
                *from = kind;
                Some(Side::From)
            }
            (kind, Processing::Agnostic) => {
                *to = kind;
                Some(Side::To)
            }
            (from, to) => {
                if !core::mem::replace(&mut end.done, true) {
                    mixed(end, from, to);
                }
                None
            }
        }
    }
}

/// One of two ports that a connection joins.
#[derive(Clone, Copy)]
enum Side {
    From,
    To,
}

/// Which ends each port is at.
struct Touching {
    /// Where in `ends` those of each port end; they start where the port's before it end.
    reach: Vec<usize>,
    ends: Vec<usize>,
}

impl Touching {
    fn new(spread: &Spread) -> Touching {
        let all = &spread.ends;
        let ports = |end: &Ends| [Side::From, Side::To].map(|side| spread.number(end, side));
        let count = spread.outputs.values.len() + spread.inputs.values.len();
        let mut reach = alloc::vec![0; count + 1];
        for port in all.iter().flat_map(ports) {
            reach[port + 1] += 1;
        }
        for port in 0..count {
            reach[port + 1] += reach[port];
        }
        let mut ends = alloc::vec![0; 2 * all.len()];
        for (i, end) in all.iter().enumerate() {
            for port in ports(end) {
                ends[reach[port]] = i;
                reach[port] += 1;
            }
        }
        Touching { reach, ends }
    }

    fn of(&self, port: usize) -> &[usize] {
        let start = port.checked_sub(1).map_or(0, |before| self.reach[before]);
        &self.ends[start..self.reach[port]]
    }
}

fn mixed(
    graph: &FlatGraph,
    end: &Ends,
    from: Processing,
    to: Processing,
    diagnostics: &mut Diagnostics,
) {
    let (from_name, to_name) = (
        element_name(graph, end.from.0),
        element_name(graph, end.to.0),
    );
    let (from_word, to_word) = (from.word(), to.word());
    let at = Location::unknown();
    if end.through {
        diagnostics.error(
            &at,
            format_args!(
                "agnostic ‘{from_name}’ in mixed context: {to_word} input {}, {from_word} output {}",
                end.to.1, end.from.1
            ),
        );
    } else {
        diagnostics.error(
            &at,
            format_args!(
                "‘{from_name}’ {from_word} output {} connected to ‘{to_name}’ {to_word} input {}",
                end.from.1, end.to.1
            ),
        );
    }
}

fn check_completeness(
    graph: &FlatGraph,
    counts: &[(usize, usize)],
    resolved: &Resolved,
    diagnostics: &mut Diagnostics,
) -> bool {
    let before = diagnostics.errors();
    for (is_output, side) in [(false, "input"), (true, "output")] {
        let ports = counts.iter();
        let ports = ports.map(|&(ins, outs)| if is_output { outs } else { ins });
        let mut uses = PortTable::new(ports, |count| alloc::vec![0_usize; count]);
        for c in &graph.connections {
            let (element, port) = if is_output { c.from } else { c.to };
            uses[(element, port)] += 1;
            // Push outputs and pull inputs are active: they lead to one place.
            let active = if is_output {
                resolved.outputs[(element, port)]
            } else {
                !resolved.inputs[(element, port)]
            };
            if active && uses[(element, port)] == 2 {
                let active_side = if is_output {
                    "push output"
                } else {
                    "pull input"
                };
                let name = element_name(graph, element);
                diagnostics.error(
                    &graph.elements[element].location,
                    format_args!("illegal reuse of ‘{name}’ {active_side} {port}"),
                );
            }
        }
        if !uses.values.contains(&0) {
            continue;
        }
        for element in 0..counts.len() {
            let uses = uses.of(element).iter().enumerate();
            for (port, _) in uses.filter(|(_, uses)| **uses == 0) {
                let name = element_name(graph, element);
                diagnostics.error(
                    &graph.elements[element].location,
                    format_args!("‘{name}’ {side} {port} unused"),
                );
            }
        }
    }
    diagnostics.errors() == before
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kind() -> impl Strategy<Value = Processing> {
        prop_oneof![
            1 => Just(Processing::Push),
            1 => Just(Processing::Pull),
            4 => Just(Processing::Agnostic),
        ]
    }

    proptest! {
        /// The order of messages is that of Click, which looks at all connections in rounds.
        #[test]
        fn kinds_spread_as_in_rounds(
            kinds in proptest::collection::vec((kind(), kind()), 1..12),
            pairs in proptest::collection::vec((any::<u8>(), any::<u8>()), 0..24),
        ) {
            let table = |kinds: Vec<Processing>| PortTable::new(kinds.iter().map(|_| 1), |_| kinds.clone());
            let (inputs, outputs) = kinds.iter().copied().unzip();
            let (mut inputs, mut outputs) = (table(inputs), table(outputs));
            let pick = |n: u8| (usize::from(n) % kinds.len(), 0);
            let ends = || pairs.iter().map(|(from, to)| Ends {
                from: pick(*from),
                to: pick(*to),
                through: false,
                done: false,
            });
            let mut spread = Spread {
                inputs: inputs.clone(),
                outputs: outputs.clone(),
                ends: ends().collect(),
            };
            let mut said = Vec::new();
            spread.run(|end, from, to| said.push((end.from, end.to, from, to)));

            let mut expected = Vec::new();
            let mut changed = true;
            while core::mem::take(&mut changed) {
                for end in ends() {
                    let (from, to) = (&mut outputs[end.from], &mut inputs[end.to]);
                    if *from == *to {
                        continue;
                    }
                    let mixed = (end.from, end.to, *from, *to);
                    if *from == Processing::Agnostic {
                        (*from, changed) = (*to, true);
                    } else if *to == Processing::Agnostic {
                        (*to, changed) = (*from, true);
                    } else if !expected.contains(&mixed) {
                        expected.push(mixed);
                    }
                }
            }
            let mut seen = Vec::new();
            said.retain(|mixed| !seen.contains(mixed) && { seen.push(*mixed); true });
            prop_assert_eq!(said, expected);
            prop_assert_eq!((spread.inputs, spread.outputs), (inputs, outputs));
        }
    }
}
