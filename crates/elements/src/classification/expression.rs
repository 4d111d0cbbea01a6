//! Pattern expressions in postfix order.
//!
//! Postfix keeps a pattern in one flat vector however deep it nests: building,
//! assembling and rewriting walk it with an explicit stack, so no pattern can
//! exhaust the program stack.

use super::instruction::{FAIL, Instruction, Jump, SUCCESS, Test};
use crate::prelude::*;

/// `word & (mask << shift) > above << shift` over the four bytes at `offset`.
/// A packet too short for it does not match, unless `short_yes`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compare {
    pub offset: u16,
    pub shift: u32,
    pub mask: u32,
    pub above: u32,
    pub short_yes: bool,
}

/// One postfix operator or operand.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    Test(Test),
    Compare(Compare),
    /// Negates the operand before it.
    Not,
    /// Joins that many operands before it.
    And(u32),
    Or(u32),
    /// `a ? b : c ? d : e`, with all of them as operands.
    Ternary(u32),
}

/// Joins the operands that were pushed since [`Expression::open`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Joint {
    And,
    Or,
    Ternary,
}

/// A position in an expression, from [`Expression::open`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    op: usize,
    height: u32,
}

/// A boolean expression over tests.
#[derive(Clone, Debug, Default)]
pub(super) struct Expression {
    ops: Vec<Op>,
    /// Operands not yet joined.
    height: u32,
}

impl Expression {
    /// Makes room for another pattern.
    pub(super) fn clear(&mut self) {
        self.ops.clear();
        self.height = 0;
    }

    pub(super) fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        self.ops.capacity() * size_of::<Op>()
    }

    pub(super) fn open(&self) -> Mark {
        Mark {
            op: self.ops.len(),
            height: self.height,
        }
    }

    pub(super) fn push_test(&mut self, test: Test) {
        self.ops.push(Op::Test(test));
        self.height += 1;
    }

    pub(super) fn push_compare(&mut self, compare: Compare) {
        self.ops.push(Op::Compare(compare));
        self.height += 1;
    }

    /// Joins everything since `mark` into one operand. Nothing since then
    /// joins to nothing.
    pub(super) fn close(&mut self, mark: Mark, joint: Joint) {
        let operands = self.height - mark.height;
        if operands < 2 {
            return;
        }
        self.ops.push(match joint {
            Joint::And => Op::And(operands),
            Joint::Or => Op::Or(operands),
            Joint::Ternary => Op::Ternary(operands),
        });
        self.height = mark.height + 1;
    }

    /// Like [`Self::close`] with [`Joint::And`], and nothing joins to a test
    /// that always matches.
    pub(super) fn close_all(&mut self, mark: Mark) {
        if self.height == mark.height {
            self.push_test(Test::ALWAYS);
        }
        self.close(mark, Joint::And);
    }

    /// Negates the one operand since `mark`: packets too short for a test
    /// change sides too.
    pub(super) fn negate(&mut self, mark: Mark) {
        if self.height > mark.height {
            self.ops.push(Op::Not);
        }
    }

    /// Negates the one operand since `mark`, except that a packet too short
    /// for it still does not match: `src port != 5` needs a source port.
    pub(super) fn negate_present(&mut self, mark: Mark) {
        for op in &mut self.ops[mark.op..] {
            match op {
                Op::Test(test) => test.short_yes = !test.short_yes,
                Op::Compare(compare) => compare.short_yes = !compare.short_yes,
                _ => {}
            }
        }
        self.negate(mark);
    }

    /// Assembles the expression into instructions: packets that match go to
    /// `success`, others to [`FAIL`]. Operands become instructions in order.
    pub(super) fn assemble(&self, success: Jump) -> Vec<Instruction> {
        let mut code = Vec::with_capacity(self.ops.len());
        let mut starts: Vec<usize> = Vec::with_capacity(self.ops.len());
        for op in &self.ops {
            match *op {
                Op::Test(test) => {
                    starts.push(code.len());
                    code.push(Instruction::new(test));
                }
                Op::Compare(compare) => {
                    starts.push(code.len());
                    compare.assemble(&mut code);
                }
                Op::Not => {
                    let first = starts.last().copied().unwrap_or(0);
                    redirect(&mut code[first..], FAIL, SUCCESS);
                }
                Op::And(n) => join(&mut code, &mut starts, n, Joint::And),
                Op::Or(n) => join(&mut code, &mut starts, n, Joint::Or),
                Op::Ternary(n) => join(&mut code, &mut starts, n, Joint::Ternary),
            }
        }
        redirect(&mut code, success, FAIL);
        code
    }
}

/// Replaces the targets [`SUCCESS`] and [`FAIL`].
fn redirect(code: &mut [Instruction], success: Jump, fail: Jump) {
    for jump in code.iter_mut().flat_map(|i| &mut i.jumps) {
        match *jump {
            SUCCESS => *jump = success,
            FAIL => *jump = fail,
            _ => {}
        }
    }
}

/// Links the last `n` operands, which begin at the ends of `starts`.
fn join(code: &mut [Instruction], starts: &mut Vec<usize>, n: u32, joint: Joint) {
    let first = starts.len() - n as usize;
    let operands = &starts[first..];
    let at = |i: usize| operands[i] as Jump;
    let mut i = 0;
    while i + 1 < operands.len() {
        let range = operands[i]..operands[i + 1];
        match joint {
            Joint::Or => redirect(&mut code[range], SUCCESS, at(i + 1)),
            Joint::Ternary if i + 2 < operands.len() => {
                redirect(&mut code[range], at(i + 1), at(i + 2));
                i += 1;
            }
            Joint::And | Joint::Ternary => redirect(&mut code[range], at(i + 1), FAIL),
        }
        i += 1;
    }
    starts.truncate(first + 1);
}

impl Compare {
    /// A comparison is decided from the top bits down. While the bound's top
    /// bit is 0, any top bit set in the packet means "greater"; while it is
    /// 1, all of them must be set to go on.
    fn assemble(&self, code: &mut Vec<Instruction>) {
        let (mut mask, mut above) = (self.mask, self.above & self.mask);
        let first = code.len();
        while above < mask {
            let high = above > mask >> 1;
            let differs = if high {
                !above.wrapping_add(1) & mask
            } else {
                above
            };
            // Bits above the first one that matters to the rest.
            let rest = u64::MAX
                .checked_shr(differs.leading_zeros() + 32)
                .unwrap_or(0);
            let top = mask & !(rest as u32);
            let wanted = if high { top } else { 0 };
            let mut test = Test::new(self.offset, wanted << self.shift, top << self.shift);
            // "Not all zero" is a negation that short packets do not pass.
            test.short_yes = self.short_yes == high;
            let next = code.len() as Jump + 1;
            let mut instruction = Instruction::new(test);
            instruction.jumps = if high { [FAIL, next] } else { [SUCCESS, next] };
            code.push(instruction);
            mask &= !top;
            above &= mask;
            debug_assert!(top != 0);
        }
        match code[first..].last_mut() {
            // Behind the last test the packet equals the bound: not greater.
            Some(last) if last.no() == FAIL => last.jumps = [FAIL, SUCCESS],
            Some(last) => last.jumps = [SUCCESS, FAIL],
            None => {
                let mut never = Instruction::new(Test::ALWAYS);
                never.jumps = [SUCCESS, FAIL];
                code.push(never);
            }
        }
    }
}
