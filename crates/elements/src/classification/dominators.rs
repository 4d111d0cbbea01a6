//! Skips tests whose outcome is already decided where they are reached.
//!
//! On the path `x ≥ 6? yes → y = 2? yes → x ≥ 6?` the last test is known to
//! succeed, so the branch into it can skip to its yes branch. An exact answer
//! would follow every path to an instruction. Instead each instruction keeps
//! at most [`MAX_LISTS`] *lists* of branches such that every path to it takes
//! all branches of at least one list. A branch skips its target when all
//! lists agree on the target's outcome.
//!
//! A branch is numbered `2 × instruction + outcome`. Equal tests share the
//! number of the first of them, so that a list can be searched by test.

use super::instruction::{DROP, Instruction, Jump};
use crate::prelude::*;

/// More lists than this are replaced by the branches common to all.
const MAX_LISTS: usize = 4;

/// Moves every branch of `code` past all tests that earlier branches decide.
pub(super) fn shorten(code: &mut [Instruction]) {
    let mut optimizer = Optimizer::new(code);
    for state in 0..optimizer.code.len() {
        optimizer.compute_lists(state);
        optimizer.shift(state, 1);
        optimizer.shift(state, 0);
    }
}

fn branch(state: usize, outcome: usize) -> i32 {
    ((state << 1) | outcome) as i32
}

struct Optimizer<'a> {
    code: &'a mut [Instruction],
    /// Bytes certain to exist when an instruction runs.
    known: Vec<u32>,
    /// The first instruction with the same test.
    id: Vec<usize>,
    /// All lists, one behind the other. The last branch of a list is the
    /// owner's own, with an outcome that is set when the list is used.
    lists: Vec<i32>,
    /// Start of each list, and the end.
    list_start: Vec<usize>,
    /// The first list of each instruction, and the end.
    first_list: Vec<usize>,
    /// The branches that lead to each instruction.
    predecessors: Vec<Vec<i32>>,
}

impl<'a> Optimizer<'a> {
    fn new(code: &'a mut [Instruction]) -> Optimizer<'a> {
        let mut predecessors = vec![Vec::new(); code.len()];
        for (i, instruction) in code.iter().enumerate().rev() {
            for outcome in [1, 0] {
                if instruction.jumps[outcome] > 0 {
                    predecessors[instruction.jumps[outcome] as usize].push(branch(i, outcome));
                }
            }
        }
        Optimizer {
            known: known_lengths(code),
            id: test_ids(code),
            lists: Vec::new(),
            list_start: vec![0],
            first_list: vec![0],
            predecessors,
            code,
        }
    }

    fn lists_of(&self, state: usize) -> core::ops::Range<usize> {
        self.first_list[state]..self.first_list[state + 1]
    }

    fn set_branch(&mut self, state: usize, outcome: usize, to: Jump) {
        let this = branch(state, outcome);
        let old = self.code[state].jumps[outcome];
        if old > 0 {
            self.predecessors[old as usize].retain(|&b| b != this);
        }
        if to > 0 {
            let list = &mut self.predecessors[to as usize];
            let at = list.iter().position(|&b| b >= this).unwrap_or(list.len());
            list.insert(at, this);
        }
        self.code[state].jumps[outcome] = to;
    }

    /// Computes the lists of `state` from those of its predecessors.
    fn compute_lists(&mut self, state: usize) {
        let predecessors = self.predecessors[state].clone();
        let ranges = self.incoming(&predecessors);
        let lists_before = self.list_start.len();
        let own = branch(self.id[state], 0);
        let mut reachable = !ranges.is_empty();
        if ranges.len() > MAX_LISTS {
            let common = common_branches(&self.lists, &ranges);
            self.lists.extend(common);
            self.lists.push(own);
            self.list_start.push(self.lists.len());
        } else if reachable && let Some(outcome) = self.copy_lists(&ranges, own) {
            // Decided on every path: the instruction is unreachable.
            let to = self.code[state].jumps[outcome];
            for &b in &predecessors {
                self.set_branch((b >> 1) as usize, (b & 1) as usize, to);
            }
            reachable = false;
        }
        if !reachable {
            self.list_start.truncate(lists_before);
            self.lists.truncate(self.list_start[lists_before - 1]);
            if state > 0 {
                self.set_branch(state, 0, DROP);
                self.set_branch(state, 1, DROP);
            } else {
                self.lists.push(own);
                self.list_start.push(self.lists.len());
            }
        }
        self.first_list.push(self.list_start.len() - 1);
    }

    /// The predecessors' lists that can lead here, each ending in the branch
    /// taken (or before it, when both branches lead here).
    fn incoming(&mut self, predecessors: &[i32]) -> Vec<(usize, usize)> {
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for (i, &b) in predecessors.iter().enumerate() {
            let from = (b >> 1) as usize;
            if i > 0 && (predecessors[i - 1] >> 1) as usize == from {
                if let Some(last) = ranges.last_mut() {
                    last.1 = last.0.max(last.1 - 1);
                }
                continue;
            }
            let taken = branch(self.id[from], (b & 1) as usize);
            for list in self.lists_of(from) {
                let (start, end) = (self.list_start[list], self.list_start[list + 1]);
                let contradicts = |&other: &i32| other ^ taken == 1;
                if !self.lists[start..end - 1].iter().any(contradicts) {
                    self.lists[end - 1] = taken;
                    ranges.push((start, end));
                }
            }
        }
        ranges
    }

    /// Copies the lists in `ranges` as this instruction's own; the outcome of
    /// its test when all of them decide it alike.
    fn copy_lists(&mut self, ranges: &[(usize, usize)], own: i32) -> Option<usize> {
        let mut own = own;
        let mut decided = Some(0);
        for &(start, end) in ranges {
            let last = self.lists[start..end].last().copied().unwrap_or(-1);
            let mut here = None;
            for i in start..end {
                let b = self.lists[i];
                // It occurs again at the end.
                if i < end - 1 && b >> 1 == last >> 1 {
                    continue;
                }
                if b >> 1 == own >> 1 {
                    here = Some(b);
                }
                self.lists.push(b);
            }
            decided = match (decided, here) {
                (Some(0), Some(b)) => {
                    own = b;
                    Some(1)
                }
                (Some(count), Some(b)) if b == own => Some(count + 1),
                _ => None,
            };
            self.lists.push(own);
            self.list_start.push(self.lists.len());
        }
        decided
            .filter(|&count| count > 0)
            .map(|_| (own & 1) as usize)
    }

    /// Moves one branch past tests that are decided when it is taken.
    fn shift(&mut self, state: usize, outcome: usize) {
        let next = self.code[state].jumps[outcome];
        let lists = self.lists_of(state);
        if lists.is_empty() || next <= 0 {
            return;
        }
        let paths: Vec<Vec<Jump>> = lists
            .map(|list| self.decided_path(state, outcome, next, list))
            .collect();
        let to = match &paths[..] {
            [path] => path.last().copied(),
            _ => last_common(&paths),
        };
        match to {
            Some(to) if to != next => self.set_branch(state, outcome, to),
            _ => {}
        }
    }

    /// The instructions from `next` on that one list decides, up to and with
    /// the first that it does not.
    fn decided_path(&mut self, state: usize, outcome: usize, next: Jump, list: usize) -> Vec<Jump> {
        let (start, end) = (self.list_start[list], self.list_start[list + 1]);
        self.lists[end - 1] = branch(self.id[state], outcome);
        let mut path = vec![next];
        let mut to = next;
        while to > 0 {
            let target = &self.code[to as usize];
            let decided = self.lists[start..end].iter().rev().find_map(|&b| {
                let (from, yes) = ((b >> 1) as usize, b & 1 == 1);
                let (taken, known) = (&self.code[from], self.known[from]);
                let (implies, implies_not) = if yes {
                    (
                        taken.implies(target, known),
                        taken.implies_not(target, known),
                    )
                } else {
                    (
                        taken.not_implies(target, known),
                        taken.not_implies_not(target, known),
                    )
                };
                (implies || implies_not).then_some(usize::from(implies))
            });
            let Some(outcome) = decided else { break };
            to = target.jumps[outcome];
            path.push(to);
        }
        path
    }
}

/// The number of bytes that exist on every path to each instruction.
fn known_lengths(code: &[Instruction]) -> Vec<u32> {
    let mut known = vec![i32::MAX as u32; code.len()];
    if let Some(first) = known.first_mut() {
        *first = 0;
    }
    for (i, instruction) in code.iter().enumerate() {
        let short = usize::from(instruction.test.short_yes);
        let tested = instruction.test.required_length().max(known[i]);
        for (outcome, length) in [(1 - short, tested), (short, known[i])] {
            let to = instruction.jumps[outcome];
            if to > 0 {
                known[to as usize] = known[to as usize].min(length);
            }
        }
    }
    known
}

/// For each instruction the first one with the same test.
fn test_ids(code: &[Instruction]) -> Vec<usize> {
    let key = |&i: &usize| {
        let test = &code[i].test;
        (test.offset, test.short_yes, test.mask, test.value, i)
    };
    let mut order: Vec<usize> = (0..code.len()).collect();
    order.sort_unstable_by_key(key);
    let mut id = vec![0; code.len()];
    let mut first = 0;
    for (n, &i) in order.iter().enumerate() {
        if n == 0 || code[first].test != code[i].test {
            first = i;
        }
        id[i] = first;
    }
    id
}

/// The branches that all lists have, found by stepping through them in
/// parallel in ascending order.
fn common_branches(lists: &[i32], ranges: &[(usize, usize)]) -> Vec<i32> {
    let mut common = Vec::new();
    let mut at: Vec<usize> = ranges.iter().map(|range| range.0).collect();
    let mut candidate = -1;
    loop {
        let (mut list, mut agreed) = (0, 0);
        while agreed < ranges.len() {
            while at[list] < ranges[list].1 && lists[at[list]] < candidate {
                at[list] += 1;
            }
            if at[list] >= ranges[list].1 {
                return common;
            }
            if lists[at[list]] > candidate {
                candidate = lists[at[list]];
                agreed = 0;
            }
            list = (list + 1) % ranges.len();
            agreed += 1;
        }
        common.push(candidate);
        candidate += 1;
    }
}

/// The furthest target that all paths pass.
fn last_common(paths: &[Vec<Jump>]) -> Option<Jump> {
    let end = paths[0].last().copied()?;
    if end <= 0 && paths.iter().all(|path| path.last() == Some(&end)) {
        return Some(end);
    }
    let mut all = Vec::new();
    let mut ranges = Vec::new();
    for path in paths {
        ranges.push((all.len(), all.len() + path.len()));
        all.extend_from_slice(path);
    }
    common_branches(&all, &ranges).last().copied()
}
