//! IPFilter's rules and IPClassifier's patterns.

use super::diagnostic::{Compiled, Diagnostics};
use super::expression::Expression;
use super::instruction::{Layout, Test};
use super::ip_parser::Parser;
use super::ip_primitive::Reporter;
use super::ip_words::{int32, split};
use super::names::{KnownWords, Names};
use super::products::WORK;
use super::program::{FEW, Program};
use super::rules::Rules;
use crate::prelude::*;

/// The error if there is no memory for the patterns.
pub const NO_MEMORY: &str =
    "no memory for so many patterns; give the guest more memory, as in --memory 32M";

/// Compiles an IPFilter with `outputs` outputs: each rule is an action
/// (`allow`, `deny`, `drop` or an output number) and a pattern, unquoted.
///
/// # Errors
/// Every mistake in every rule, in order, in Click's words.
pub fn ip_filter<R: AsRef<str>>(
    rules: &[R],
    outputs: usize,
    names: &dyn Names,
) -> Result<Compiled, Diagnostics> {
    parse_rules(rules, outputs, names, false).finish()
}

/// Compiles rules as [`ip_filter`] does, but for packets of both versions of IP: addresses may be IPv6's, too, and
/// `icmp6` is a protocol. What the rules see of an IPv6 packet is its flat form (`flat`).
///
/// # Errors
/// As of [`ip_filter`].
pub fn flow_filter<R: AsRef<str>>(
    rules: &[R],
    outputs: usize,
    names: &dyn Names,
) -> Result<Compiled, Diagnostics> {
    parse_rules(rules, outputs, names, true).finish()
}

/// Parses an IPFilter's rules.
pub(super) fn parse_rules<'r, R: AsRef<str>>(
    rules: &'r [R],
    outputs: usize,
    names: &'r dyn Names,
    both: bool,
) -> Compiler<'r> {
    let mut compiler = Compiler::new(rules.len(), names, both);
    for (number, rule) in rules.iter().enumerate() {
        let words = split(rule.as_ref());
        let Some((action, pattern)) = words.split_first() else {
            let text = format!("empty pattern {number}");
            compiler.diagnostics.error(None, text);
            continue;
        };
        let output = compiler.action(number, action, outputs);
        compiler.rule(number, pattern, output);
    }
    compiler
}

/// Compiles an IPClassifier: pattern `n`, unquoted, leads to output `n`. A
/// packet that matches no pattern is dropped.
///
/// The warnings say which outputs no packet can reach; Click gives these
/// only when the router starts, not when a pattern is changed by a handler.
///
/// # Errors
/// Every mistake in every pattern, in order, in Click's words.
pub fn ip_classifier<P: AsRef<str>>(
    patterns: &[P],
    names: &dyn Names,
) -> Result<Compiled, Diagnostics> {
    classifier(patterns, names, false)
}

/// Compiles patterns as [`ip_classifier`] does, but for packets of both versions of IP, as [`flow_filter`].
///
/// # Errors
/// As of [`ip_classifier`].
pub fn dual_stack_classifier<P: AsRef<str>>(
    patterns: &[P],
    names: &dyn Names,
) -> Result<Compiled, Diagnostics> {
    classifier(patterns, names, true)
}

fn classifier<P: AsRef<str>>(
    patterns: &[P],
    names: &dyn Names,
    both: bool,
) -> Result<Compiled, Diagnostics> {
    let mut compiler = Compiler::new(patterns.len(), names, both);
    for (number, pattern) in patterns.iter().enumerate() {
        let words = split(pattern.as_ref());
        compiler.rule(number, &words, Some(number as u32));
    }
    if compiler.diagnostics.has_errors() {
        return Err(compiler.diagnostics);
    }
    let (rules, expressions) = (compiler.rules, compiler.expressions);
    let mut compiled = Program::compile_warning(rules, &expressions, patterns.len());
    compiler.diagnostics.0.append(&mut compiled.warnings.0);
    compiled.warnings = compiler.diagnostics;
    Ok(compiled)
}

/// Rules on the way to a program.
pub(super) struct Compiler<'r> {
    words: KnownWords<'r>,
    /// The rule that is parsed.
    expression: Expression,
    pub(super) rules: Rules,
    pub(super) expressions: Vec<Expression>,
    pub(super) diagnostics: Diagnostics,
}

impl<'r> Compiler<'r> {
    fn new(rules: usize, names: &'r dyn Names, both: bool) -> Compiler<'r> {
        Compiler {
            words: KnownWords::new(names, both),
            expression: Expression::default(),
            rules: Rules::new(Layout::Ip),
            expressions: Vec::with_capacity(rules),
            diagnostics: Diagnostics::default(),
        }
    }

    fn action(&mut self, pattern: usize, word: &str, outputs: usize) -> Option<u32> {
        let error = match (word, int32(word)) {
            ("allow", _) if outputs == 0 => {
                "‘allow’ is meaningless, element has zero outputs".into()
            }
            ("allow", _) => return Some(0),
            ("deny" | "drop", _) => return None,
            (_, Some(slot)) if usize::try_from(slot).is_ok_and(|slot| slot < outputs) => {
                return Some(slot as u32);
            }
            (_, Some(slot)) => format!("slot ‘{slot}’ out of range"),
            (_, None) => format!("unknown slot ID ‘{word}’"),
        };
        self.diagnostics.error(Some(pattern), error);
        None
    }

    fn rule(&mut self, number: usize, words: &[&'r str], output: Option<u32>) {
        let expression = &mut self.expression;
        expression.clear();
        if let [] | ["-" | "any" | "all"] = words {
            expression.push_test(Test::ALWAYS);
        } else {
            let report = Reporter {
                pattern: number,
                diagnostics: &mut self.diagnostics,
            };
            let mut parser = Parser::new(words, &mut self.words, report, expression);
            let end = parser.expression(0);
            if let Some(word) = words.get(end) {
                let text = format!("garbage after expression at ‘{word}’");
                self.diagnostics.error(Some(number), text);
            }
        }
        if !self.diagnostics.has_errors() {
            if self.rules.len() >= FEW && !spare(self.rules.memory() + WORK) {
                return self.diagnostics.error(Some(number), NO_MEMORY);
            }
            self.rules.push(expression, output);
            self.expressions.push(expression.clone());
        }
    }

    fn finish(self) -> Result<Compiled, Diagnostics> {
        if self.diagnostics.has_errors() {
            return Err(self.diagnostics);
        }
        Ok(Compiled {
            program: Program::compile(self.rules, &self.expressions),
            warnings: self.diagnostics,
        })
    }
}
