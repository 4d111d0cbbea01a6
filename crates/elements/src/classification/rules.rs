//! Parsed rules: the code of each, and the output of packets that match it
//! first.

use super::expression::Expression;
use super::headers::Headers;
use super::instruction::{DROP, FAIL, Instruction, Jump, Layout};
use crate::prelude::*;

/// Rules in order of precedence.
///
/// This form defines their meaning: the first rule whose code ends in
/// something else than [`FAIL`] decides.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) layout: Layout,
    /// All rules' code, one behind the other, jumps relative to each rule.
    pub(super) code: Vec<Instruction>,
    /// Where each rule's code begins, and the end.
    starts: Vec<u32>,
    outputs: Vec<Option<u32>>,
}

impl Rules {
    pub(super) fn new(layout: Layout) -> Rules {
        Rules {
            layout,
            code: Vec::new(),
            starts: alloc::vec![0],
            outputs: Vec::new(),
        }
    }

    /// Appends a rule; `None` drops packets that match.
    pub(super) fn push(&mut self, expression: &Expression, output: Option<u32>) {
        let success = output.map_or(DROP, |output| -(output as Jump));
        self.code.extend(expression.assemble(success));
        self.starts.push(self.code.len() as u32);
        self.outputs.push(output);
    }

    pub(super) fn len(&self) -> usize {
        self.outputs.len()
    }

    pub(super) fn output(&self, rule: usize) -> Option<u32> {
        self.outputs[rule]
    }

    pub(super) fn code_of(&self, rule: usize) -> &[Instruction] {
        &self.code[self.starts[rule] as usize..self.starts[rule + 1] as usize]
    }

    /// Whether one rule matches, by running its code.
    pub(super) fn matches(&self, rule: usize, headers: &Headers<'_>) -> bool {
        let code = self.code_of(rule);
        let mut at = 0;
        loop {
            let instruction = &code[at];
            let yes = instruction.test.matches(self.layout, headers);
            match instruction.jumps[usize::from(yes)] {
                FAIL => return false,
                next @ 1.. => at = next as usize,
                _ => return true,
            }
        }
    }

    /// The output of the first rule that matches.
    pub(super) fn classify(&self, headers: &Headers<'_>) -> Option<u32> {
        let first = (0..self.len()).find(|&rule| self.matches(rule, headers))?;
        self.outputs[first]
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        self.code.capacity() * size_of::<Instruction>()
            + self.starts.capacity() * 4
            + self.outputs.capacity() * 8
    }
}
