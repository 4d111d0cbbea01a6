//! The decision graph that the `program` handler shows.
//!
//! It is a directed acyclic graph of word comparisons, in the order and with
//! the simplifications that users of Click know: rules merged in pairs,
//! conjunctions sorted by offset, branches whose outcome is already decided
//! skipped (see [`super::dominators`]), neighbouring tests of one word joined,
//! unreachable tests removed. It is not used to match packets, because it
//! grows with the rules. It is built for its text and for the list of
//! unreachable outputs.

mod text;

use super::dominators;
use super::instruction::{DROP, FAIL, Instruction, Jump, Layout, Test};
use super::rules::Rules;
use crate::prelude::*;

/// Beyond this many instructions the graph is shown as it was assembled:
/// simplifying takes time that grows with the square.
const SIMPLIFY_LIMIT: usize = 8192;

/// The same while a configuration starts, for the sake of warnings only: some
/// milliseconds.
const OUTPUTS_LIMIT: usize = 1024;

/// A graph of instructions, entered at the first.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    pub(super) code: Vec<Instruction>,
    /// Set when every packet has the same target.
    everything: Option<Jump>,
    safe_length: u32,
    layout: Layout,
}

impl Graph {
    /// Builds and simplifies the graph of an IP program, pair by pair.
    fn of_ip(rules: &Rules, simplify: bool) -> Graph {
        let mut graphs: Vec<Graph> = (0..rules.len())
            .map(|rule| Graph::new(rules.code_of(rule).to_vec(), Layout::Ip))
            .collect();
        let mut step = 1;
        while step < graphs.len() {
            for i in (0..graphs.len() - step).step_by(2 * step) {
                let next = core::mem::replace(&mut graphs[i + step], Graph::empty(Layout::Ip));
                graphs[i].append(next);
                if simplify {
                    graphs[i].simplify();
                }
            }
            step *= 2;
        }
        let single = graphs.len() <= 1;
        let mut graph = match graphs.into_iter().next() {
            Some(graph) => graph,
            None => Graph::empty(Layout::Ip),
        };
        if single && simplify {
            graph.simplify();
        }
        graph.set_failure(DROP);
        if simplify {
            graph.sort_conjunctions();
        } else {
            graph.prune();
            graph.measure();
        }
        graph
    }

    /// Builds and simplifies the graph of a Classifier program at once.
    fn of_data(rules: &Rules, simplify: bool) -> Graph {
        let mut graph = Graph::empty(rules.layout);
        for rule in 0..rules.len() {
            let next = Graph::new(rules.code_of(rule).to_vec(), rules.layout);
            if rule == 0 {
                graph = next;
            } else {
                graph.append(next);
            }
        }
        graph.set_failure(DROP);
        if simplify {
            graph.simplify();
        } else {
            graph.prune();
            graph.measure();
        }
        graph
    }

    /// The graph of `rules`, for its text.
    pub(super) fn of(rules: &Rules) -> Graph {
        Graph::built(rules, SIMPLIFY_LIMIT)
    }

    /// The graph of `rules`, which means what they mean; the text of some is simplified as Click's is, which does not.
    #[cfg(test)]
    pub(super) fn plain(rules: &Rules) -> Graph {
        Graph::built(rules, 0)
    }

    /// The graph of `rules`, to see which outputs it reaches.
    pub(super) fn for_outputs(rules: &Rules) -> Graph {
        Graph::built(rules, OUTPUTS_LIMIT)
    }

    fn built(rules: &Rules, limit: usize) -> Graph {
        let simplify = rules.code.len() <= limit;
        match rules.layout {
            Layout::Ip => Graph::of_ip(rules, simplify),
            Layout::Data { .. } => Graph::of_data(rules, simplify),
        }
    }

    fn empty(layout: Layout) -> Graph {
        Graph {
            code: Vec::new(),
            everything: Some(DROP),
            safe_length: 0,
            layout,
        }
    }

    fn new(code: Vec<Instruction>, layout: Layout) -> Graph {
        Graph {
            everything: code.is_empty().then_some(DROP),
            code,
            safe_length: 0,
            layout,
        }
    }

    fn set_failure(&mut self, to: Jump) {
        if self.everything == Some(FAIL) {
            self.everything = (to <= 0).then_some(to);
        }
        for jump in self.code.iter_mut().flat_map(|i| &mut i.jumps) {
            if *jump == FAIL {
                *jump = to;
            }
        }
    }

    /// Appends `next`, for packets that match nothing here.
    fn append(&mut self, next: Graph) {
        if !matches!(self.everything, None | Some(FAIL)) {
            return;
        }
        if self.code.is_empty() {
            *self = next;
            return;
        }
        let base = self.code.len() as Jump;
        self.set_failure(next.everything.unwrap_or(base));
        self.code.extend(next.code.into_iter().map(|mut i| {
            for jump in &mut i.jumps {
                if *jump > 0 {
                    *jump += base;
                }
            }
            i
        }));
    }

    fn simplify(&mut self) {
        self.sort_conjunctions();
        dominators::shorten(&mut self.code);
        self.combine();
        self.prune();
        match self.everything {
            Some(_) => self.code.clear(),
            None if self.code.is_empty() => self.everything = Some(DROP),
            None => {}
        }
        self.measure();
    }

    fn measure(&mut self) {
        let longest = self.code.iter().map(|i| i.test.required_length()).max();
        self.safe_length = longest
            .unwrap_or(0)
            .wrapping_sub(u32::from(self.layout.align()));
    }

    /// Sorts chains of tests that share a branch by offset, mask and value,
    /// protocol first.
    fn sort_conjunctions(&mut self) {
        let layout = self.layout;
        let key = move |test: &Test| {
            let early = layout == Layout::Ip && test.offset == 264;
            (if early { 259 } else { test.offset }, test.mask, test.value)
        };
        let from = self.sole_predecessors();
        let mut i = 0;
        while i < self.code.len() {
            let swap = (0..2).find_map(|k| {
                let (first, j) = (&self.code[i], self.code[i].jumps[k]);
                let second = self.code.get(usize::try_from(j).ok().filter(|&j| j > 0)?)?;
                let chained = from[j as usize] > 0 && first.jumps[1 - k] == second.jumps[1 - k];
                (chained && key(&first.test) > key(&second.test)).then_some((k, j as usize))
            });
            let Some((k, j)) = swap else {
                i += 1;
                continue;
            };
            let (first, second) = (self.code[i], self.code[j]);
            self.code[j] = first;
            self.code[j].jumps[k] = second.jumps[k];
            self.code[i] = second;
            self.code[i].jumps[k] = j as Jump;
            // Step back: the moved test may belong further forward.
            i = if from[i] > 0 { from[i] as usize } else { i };
        }
    }

    /// For each instruction the one that leads to it; 0 when several do or
    /// the first does, -1 when none does.
    fn sole_predecessors(&self) -> Vec<Jump> {
        let mut from = vec![-1; self.code.len()];
        for (i, instruction) in self.code.iter().enumerate() {
            for &jump in instruction.jumps.iter().filter(|&&jump| jump > 0) {
                let slot = &mut from[jump as usize];
                *slot = if *slot >= 0 { 0 } else { i as Jump };
            }
        }
        from
    }

    /// Joins tests of the same word where one outcome of the pair is shared.
    fn combine(&mut self) {
        let mut i = self.code.len();
        while i > 0 {
            if !self.combine_at(i - 1) {
                i -= 1;
            }
        }
    }

    /// Joins instruction `i` with a successor; true when it changed and may
    /// join another.
    fn combine_at(&mut self, i: usize) -> bool {
        let mut this = self.code[i];
        if this.no() > 0 {
            let no = self.code[this.no() as usize];
            if no.compatible(&this, false) && this.flippable() {
                this.flip();
            } else if let Some(bit) = this.generalizable_bit(&no) {
                this.test.value &= !bit;
                this.test.mask &= !bit;
                this.jumps[0] = no.no();
                self.code[i] = this;
                return true;
            }
        }
        self.code[i] = this;
        if this.yes() <= 0 {
            return false;
        }
        let yes = &mut self.code[this.yes() as usize];
        if this.no() == yes.yes() && yes.flippable() {
            yes.flip();
        }
        if this.no() != yes.no() || !yes.compatible(&this, true) {
            return false;
        }
        this.jumps[1] = yes.yes();
        if this.test.mask == 0 {
            this.test.offset = yes.test.offset;
        }
        this.test.value = (this.test.value & this.test.mask) | yes.test.value;
        this.test.mask |= yes.test.mask;
        self.code[i] = this;
        true
    }

    /// Removes instructions that decide nothing or are unreachable.
    fn prune(&mut self) {
        if self.code.is_empty() {
            return;
        }
        let mut index = vec![-1; self.code.len()];
        for i in (0..self.code.len()).rev() {
            let this = &mut self.code[i];
            for jump in this.jumps.iter_mut().filter(|jump| **jump > 0) {
                *jump = index[*jump as usize];
            }
            index[i] = if this.yes() != this.no() && this.test.mask != 0 {
                i as Jump
            } else {
                this.yes()
            };
        }
        let first = self.code[0];
        let decides = first.yes() != first.no() && first.test.mask != 0;
        self.everything = None;
        if index[0] > 0 {
            self.code[0] = self.code[index[0] as usize];
        } else if !decides {
            self.everything = Some(index[0]);
        }
        self.compact();
    }

    fn compact(&mut self) {
        let mut index = vec![-1; self.code.len()];
        if self.everything.is_none() {
            index[0] = 0;
        }
        let mut kept = 0;
        for i in 0..self.code.len() {
            if index[i] < 0 {
                continue;
            }
            index[i] = kept as Jump;
            let this = self.code[i];
            for jump in this.jumps.into_iter().filter(|&jump| jump > 0) {
                index[jump as usize] = index[jump as usize].max(0);
            }
            self.code[kept] = this;
            kept += 1;
        }
        self.code.truncate(kept);
        for jump in self.code.iter_mut().flat_map(|i| &mut i.jumps) {
            if *jump > 0 {
                *jump = index[*jump as usize];
            }
        }
    }

    /// Runs a packet through the graph: the output, or `None` to drop.
    #[cfg(test)]
    pub(super) fn run(&self, headers: &super::headers::Headers<'_>) -> Option<usize> {
        let mut jump = match self.everything {
            Some(everything) => everything,
            None => {
                let mut at = 0;
                loop {
                    let instruction = &self.code[at as usize];
                    let yes = instruction.test.matches(self.layout, headers);
                    at = instruction.jumps[usize::from(yes)];
                    if at <= 0 {
                        break at;
                    }
                }
            }
        };
        jump = if jump == DROP { return None } else { -jump };
        Some(jump as usize)
    }

    /// The outputs below `outputs` that no packet can reach.
    pub(super) fn unreached(&self, outputs: usize) -> Vec<usize> {
        let mut reached = vec![false; outputs];
        let jumps = self.code.iter().flat_map(|i| i.jumps);
        for jump in jumps.chain(self.everything) {
            let output = if jump <= 0 {
                jump.unsigned_abs()
            } else {
                u32::MAX
            };
            if let Some(slot) = reached.get_mut(output as usize) {
                *slot = true;
            }
        }
        (0..outputs).filter(|&output| !reached[output]).collect()
    }
}
