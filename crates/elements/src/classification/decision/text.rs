//! A decision graph's text.

use super::super::instruction::{Instruction, Jump, Layout};
use super::Graph;
use crate::prelude::*;
use core::fmt::Write;

/// Runs of at least this many values of one test are shown in search order.
const SORTED_RUN: usize = 7;

impl Graph {
    /// The text of the `program` handler.
    pub(in super::super) fn text(&self) -> String {
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
        // Each run's head in the new order.
        let mut index = vec![0; self.code.len()];
        let mut length = 0;
        for run in &runs {
            index[run[0]] = length as Jump;
            length += run.len();
        }
        let target = |jump: Jump| {
            if jump > 0 { index[jump as usize] } else { jump }
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
