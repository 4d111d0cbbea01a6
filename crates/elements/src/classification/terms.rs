//! Rules rewritten as unions of terms.
//!
//! A *term* is a product: one set of allowed values per field; an absent field
//! allows anything. `src or dst port 80` is two terms; `port > 1023` stays
//! one, because unions within one field are joined. Where a rewrite would grow
//! beyond [`MAX_TERMS`], a factor is dropped instead. The terms then admit
//! more than the rule does and are marked inexact. A packet that meets such a
//! term is checked with the rule's own code.

use super::expression::{Compare, Expression, Op};
use super::fields::Fields;
use super::instruction::Test;
use super::intervals::{MAX_RANGES, Set};
use crate::prelude::*;

/// The most terms a rule may become.
pub(super) const MAX_TERMS: usize = 64;

/// Sets of allowed values by ascending field number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Term(Vec<(u8, Set)>);

impl Term {
    pub(super) fn sets(&self) -> &[(u8, Set)] {
        &self.0
    }

    /// Both terms' constraints; `None` when no packet can meet them. The second
    /// result is false when a set had to be dropped.
    fn and(&self, other: &Term) -> Option<(Term, bool)> {
        let mut sets = Vec::with_capacity(self.0.len() + other.0.len());
        let mut exact = true;
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        loop {
            match (a.peek(), b.peek()) {
                (Some(x), Some(y)) if x.0 == y.0 => {
                    let set = x.1.intersection(&y.1);
                    if set.is_empty() {
                        return None;
                    }
                    if set.ranges().len() <= MAX_RANGES {
                        sets.push((x.0, set));
                    } else {
                        exact = false;
                        sets.push((*x).clone());
                    }
                    a.next();
                    b.next();
                }
                (Some(x), Some(y)) if x.0 < y.0 => sets.extend(a.next().cloned()),
                (Some(_), None) => sets.extend(a.next().cloned()),
                (_, Some(_)) => sets.extend(b.next().cloned()),
                (None, None) => return Some((Term(sets), exact)),
            }
        }
    }

    /// Widens `self` to admit `other` as well, when the two differ in at most
    /// one field; false when they do not.
    fn absorb(&mut self, other: &Term, fields: &Fields) -> bool {
        let same = |(a, b): (&(u8, Set), &(u8, Set))| a.0 == b.0;
        if self.0.len() != other.0.len() || !self.0.iter().zip(&other.0).all(same) {
            return self.0.is_empty();
        }
        let mut differing = (0..self.0.len()).filter(|&i| self.0[i].1 != other.0[i].1);
        let Some(i) = differing.next() else {
            return true;
        };
        if differing.next().is_some() {
            return false;
        }
        let joined = self.0[i].1.union(&other.0[i].1);
        if joined.ranges().len() > MAX_RANGES {
            return false;
        }
        let max = fields.as_slice()[usize::from(self.0[i].0)].max();
        if joined.is_any(max) {
            self.0.remove(i);
        } else {
            self.0[i].1 = joined;
        }
        true
    }
}

/// A union of terms.
#[derive(Clone, Debug)]
pub(super) struct Union {
    pub(super) terms: Vec<Term>,
    /// The terms admit nothing that the rule does not.
    pub(super) exact: bool,
}

impl Union {
    /// The union of `expression`.
    pub(super) fn of(expression: &Expression, fields: &Fields) -> Union {
        let mut stack: Vec<Union> = Vec::new();
        for op in expression.ops() {
            let union = match *op {
                Op::Test(test) => Union::test(fields, test),
                Op::Compare(compare) => Union::comparison(fields, compare),
                Op::Not => match stack.pop() {
                    Some(union) => union.not(fields),
                    None => Union::everything(true),
                },
                Op::And(n) => {
                    let operands = stack.split_off(stack.len() - n as usize);
                    let all = Union::everything(true);
                    operands.into_iter().fold(all, |a, b| a.and(&b, fields))
                }
                Op::Or(n) => {
                    let operands = stack.split_off(stack.len() - n as usize);
                    let none = Union::nothing();
                    operands.into_iter().fold(none, |a, b| a.or(b, fields))
                }
                Op::Ternary(n) => {
                    let operands = stack.split_off(stack.len() - n as usize);
                    Union::ternary(&operands, fields)
                }
            };
            stack.push(union);
        }
        stack.pop().unwrap_or_else(|| Union::everything(true))
    }

    fn everything(exact: bool) -> Union {
        Union {
            terms: vec![Term::default()],
            exact,
        }
    }

    fn nothing() -> Union {
        Union {
            terms: Vec::new(),
            exact: true,
        }
    }

    /// Whether every packet is admitted, for certain.
    pub(super) fn is_everything(&self) -> bool {
        self.exact && self.terms.iter().any(|term| term.0.is_empty())
    }

    fn test(fields: &Fields, test: Test) -> Union {
        let (parts, mut exact) = fields.split(test.offset, test.mask, test.value);
        let mut sets = Vec::with_capacity(parts.len());
        for (field, mask, value) in parts {
            let max = fields.as_slice()[usize::from(field)].max();
            match Set::matching(mask, value, max) {
                Some(set) => sets.push((field, set)),
                None => exact = false,
            }
        }
        sets.sort_unstable_by_key(|(field, _)| *field);
        let union = Union {
            terms: vec![Term(sets)],
            exact,
        };
        union.with_missing(test.short_yes && test.mask != 0)
    }

    fn comparison(fields: &Fields, compare: Compare) -> Union {
        let (mask, above) = (
            compare.mask << compare.shift,
            compare.above << compare.shift,
        );
        let (parts, exact) = fields.split(compare.offset, mask, above);
        // A comparison of several fields is no product.
        let ([(field, mask, above)], true) = (&parts[..], exact) else {
            return Union::everything(false);
        };
        let max = fields.as_slice()[usize::from(*field)].max();
        let Some(set) = Set::greater(*mask, *above, max) else {
            return Union::everything(false);
        };
        let terms = if set.is_empty() {
            Vec::new()
        } else {
            vec![Term(vec![(*field, set)])]
        };
        Union { terms, exact: true }.with_missing(compare.short_yes)
    }

    /// For a leaf: a packet that lacks the bytes is admitted. A leaf over
    /// several fields admits it when any of them is missing.
    fn with_missing(mut self, missing: bool) -> Union {
        if !missing {
            return self;
        }
        match &mut self.terms[..] {
            [Term(sets)] if sets.len() == 1 => sets[0].1.missing = true,
            [Term(sets)] if sets.is_empty() => {}
            // Rare: leave the decision to the rule's own code.
            _ => return Union::everything(false),
        }
        self
    }

    fn and(self, other: &Union, fields: &Fields) -> Union {
        if self.terms.len() * other.terms.len() > 4 * MAX_TERMS {
            return self.inexact();
        }
        let mut out = Union {
            terms: Vec::new(),
            exact: self.exact && other.exact,
        };
        for a in &self.terms {
            for b in &other.terms {
                if let Some((term, exact)) = a.and(b) {
                    out.exact &= exact;
                    out.push(term, fields);
                }
            }
        }
        if out.terms.len() > MAX_TERMS {
            return self.inexact();
        }
        out
    }

    fn or(mut self, other: Union, fields: &Fields) -> Union {
        self.exact &= other.exact;
        for term in other.terms {
            self.push(term, fields);
        }
        if self.terms.len() > MAX_TERMS {
            return Union::everything(false);
        }
        self
    }

    fn push(&mut self, term: Term, fields: &Fields) {
        if !self.terms.iter_mut().any(|old| old.absorb(&term, fields)) {
            self.terms.push(term);
        }
    }

    fn inexact(mut self) -> Union {
        self.exact = false;
        self
    }

    fn not(self, fields: &Fields) -> Union {
        if !self.exact {
            return Union::everything(false);
        }
        let mut out = Union::everything(true);
        for Term(sets) in &self.terms {
            let mut without = Union::nothing();
            for (field, set) in sets {
                let set = set.complement(fields.as_slice()[usize::from(*field)].max());
                if !set.is_empty() {
                    without.push(Term(vec![(*field, set)]), fields);
                }
            }
            out = out.and(&without, fields);
        }
        out
    }

    /// `a ? b : c ? d : e`.
    fn ternary(operands: &[Union], fields: &Fields) -> Union {
        match operands {
            [] => Union::everything(true),
            [last] => last.clone(),
            [condition, yes] => condition.clone().and(yes, fields),
            _ => {
                // From the last condition back.
                let conditions = (operands.len() - 1) / 2;
                let mut rest = Union::ternary(&operands[2 * conditions..], fields);
                for pair in operands[..2 * conditions].chunks_exact(2).rev() {
                    let no = pair[0].clone().not(fields).and(&rest, fields);
                    rest = pair[0].clone().and(&pair[1], fields).or(no, fields);
                }
                rest
            }
        }
    }
}
