//! The decision graph that the `program` handler shows.
//!
//! It is a directed acyclic graph of word comparisons, in the order and with
//! the simplifications that users of Click know: rules merged in pairs,
//! conjunctions sorted by offset, branches whose outcome is already decided
//! skipped (see [`super::dominators`]), neighbouring tests of one word joined,
//! unreachable tests removed. Packets are not matched with it, because it
//! grows with the rules; it is built when someone asks for its text or for
//! the outputs it cannot reach.

use super::dominators;
use super::instruction::{DROP, FAIL, Instruction, Jump, Layout, Test};
use super::rules::Rules;
use crate::prelude::*;
use core::fmt::Write;

/// Beyond this many instructions the graph is shown as it was assembled:
/// simplifying takes time that grows with the square.
const SIMPLIFY_LIMIT: usize = 8192;

/// The same while a configuration starts, for the sake of warnings only: some
/// milliseconds.
const OUTPUTS_LIMIT: usize = 1024;

/// Runs of at least this many values of one test are shown in search order.
const SORTED_RUN: usize = 7;

/// A graph of instructions, entered at the first.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    pub(super) code: Vec<Instruction>,
    /// Set when every packet goes to the same place.
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

    /// Appends `next` as what happens to packets that match nothing here.
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
            // Step back: what moved here may belong further forward.
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

    /// Joins instruction `i` with a successor; true when it changed and is
    /// worth another look.
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

    /// Removes instructions that decide nothing or that nothing leads to.
    fn prune(&mut self) {
        if self.code.is_empty() {
            return;
        }
        let mut place = vec![-1; self.code.len()];
        for i in (0..self.code.len()).rev() {
            let this = &mut self.code[i];
            for jump in this.jumps.iter_mut().filter(|jump| **jump > 0) {
                *jump = place[*jump as usize];
            }
            place[i] = if this.yes() != this.no() && this.test.mask != 0 {
                i as Jump
            } else {
                this.yes()
            };
        }
        let first = self.code[0];
        let decides = first.yes() != first.no() && first.test.mask != 0;
        self.everything = None;
        if place[0] > 0 {
            self.code[0] = self.code[place[0] as usize];
        } else if !decides {
            self.everything = Some(place[0]);
        }
        self.compact();
    }

    fn compact(&mut self) {
        let mut place = vec![-1; self.code.len()];
        if self.everything.is_none() {
            place[0] = 0;
        }
        let mut kept = 0;
        for i in 0..self.code.len() {
            if place[i] < 0 {
                continue;
            }
            place[i] = kept as Jump;
            let this = self.code[i];
            for jump in this.jumps.into_iter().filter(|&jump| jump > 0) {
                place[jump as usize] = place[jump as usize].max(0);
            }
            self.code[kept] = this;
            kept += 1;
        }
        self.code.truncate(kept);
        for jump in self.code.iter_mut().flat_map(|i| &mut i.jumps) {
            if *jump > 0 {
                *jump = place[*jump as usize];
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

    /// The text of the `program` handler.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let code = match self.layout {
            Layout::Ip => self.grouped(),
            Layout::Data { .. } => self.code.clone(),
        };
        for (i, instruction) in code.iter().enumerate() {
            let mut shown = *instruction;
            shown.test.offset = shown.test.offset.wrapping_sub(self.layout.align());
            let _ = writeln!(text, "{i:2} {shown}");
        }
        if let (true, Some(everything)) = (self.code.is_empty(), self.everything) {
            let _ = writeln!(text, "all->[{}]", everything.unsigned_abs());
        }
        let _ = writeln!(text, "safe length {}", self.safe_length);
        let _ = writeln!(text, "alignment offset {}", self.layout.align());
        text
    }

    /// The instructions with alternatives of one test (`port 80 or 443 or …`)
    /// brought together, long runs of them in search order.
    fn grouped(&self) -> Vec<Instruction> {
        let runs = self.runs();
        // Where each run's head lands in the new order.
        let mut place = vec![0; self.code.len()];
        let mut length = 0;
        for run in &runs {
            place[run[0]] = length as Jump;
            length += run.len();
        }
        let target = |jump: Jump| {
            if jump > 0 { place[jump as usize] } else { jump }
        };
        let mut code = Vec::with_capacity(length);
        for run in runs {
            let mut values: Vec<u32> = run.iter().map(|&i| self.code[i].test.value).collect();
            if values.len() >= SORTED_RUN {
                // In the order in which a little-endian machine compares.
                values.sort_unstable_by_key(|value| value.swap_bytes());
            }
            let (head, last) = (self.code[run[0]], self.code[run[run.len() - 1]]);
            for (i, &value) in values.iter().enumerate() {
                let mut this = head;
                this.test.value = value;
                this.jumps[1] = target(head.yes());
                this.jumps[0] = if i + 1 < values.len() {
                    code.len() as Jump + 1
                } else {
                    target(last.no())
                };
                code.push(this);
            }
        }
        code
    }

    /// Partitions the reachable instructions into runs of alternatives.
    fn runs(&self) -> Vec<Vec<usize>> {
        let mut wanted = vec![0u32; self.code.len()];
        if let Some(first) = wanted.first_mut() {
            *first = 1;
        }
        for i in 0..self.code.len() {
            if wanted[i] > 0 {
                for jump in self.code[i].jumps.into_iter().filter(|&jump| jump > 0) {
                    wanted[jump as usize] += 1;
                }
            }
        }
        let mut runs = Vec::new();
        for head in 0..self.code.len() {
            if wanted[head] == 0 {
                continue;
            }
            let mut run = vec![head];
            let this = &self.code[head];
            let mut no = this.no();
            while no > 0 && wanted[no as usize] == 1 {
                let next = &self.code[no as usize];
                if next.yes() != this.yes()
                    || next.test.offset != this.test.offset
                    || next.test.mask != this.test.mask
                {
                    break;
                }
                wanted[no as usize] = 0;
                run.push(no as usize);
                no = next.no();
            }
            runs.push(run);
        }
        runs
    }
}
