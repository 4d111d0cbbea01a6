//! Patterns of IPFilter, one for each output: what IPClassifier and DualStackClassifier share.

use super::ip_filter::filter;
use crate::classification::{Compiled, Diagnostics, Program, dual_stack_classifier, ip_classifier};
use crate::filters::compile::{RouterNames, classification_effects, take_compiled};
use crate::filters::dispatch::{DROP, send};
use crate::prelude::*;
use crate::rewriter::headers::is_ip6;

/// The patterns; of packets of both versions of IP if `BOTH` says so.
#[derive(Component)]
#[component(handlers, dynamic)]
pub(super) struct PatternList<const BOTH: bool> {
    /// The patterns.
    #[arg(rest, name = "PATTERN", kind = "pattern, one for each output")]
    patterns: Vec<String>,
    program: Option<Program>,
    /// Click warns of unreachable outputs only while the router starts.
    started: bool,
}

impl<const BOTH: bool> PatternList<BOTH> {
    /// The number in a handler's name `patternN`.
    fn pattern_number(&self, name: &str) -> Result<usize, HandlerError> {
        let number = name.strip_prefix("pattern").and_then(|n| n.parse().ok());
        number
            .filter(|number| *number < self.patterns.len())
            .ok_or(HandlerError::Unknown)
    }

    fn compile(patterns: &[String], names: &RouterNames<'_>) -> Result<Compiled, Diagnostics> {
        let patterns = patterns.iter();
        let patterns: Vec<_> = patterns
            .map(|pattern| click::config::unquote_text(pattern))
            .collect();
        match BOTH {
            false => ip_classifier(&patterns, names),
            true => dual_stack_classifier(&patterns, names),
        }
    }
}

#[handlers]
impl<const BOTH: bool> PatternList<BOTH> {
    /// The compiled patterns.
    #[read]
    fn program(&self) -> Option<String> {
        self.program.as_ref().map(Program::text)
    }
}

impl<const BOTH: bool> DynamicHandlers for PatternList<BOTH> {
    fn list_dynamic(&self, list: &mut HandlerList) {
        for output in 0..self.patterns.len() {
            list.read_write(format!("pattern{output}"));
        }
    }

    fn read_dynamic(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        _: &str,
    ) -> Result<String, HandlerError> {
        let number = self.pattern_number(name)?;
        Ok(self.patterns[number].clone())
    }

    fn write_dynamic(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        let number = self.pattern_number(name)?;
        let mut patterns = self.patterns.clone();
        patterns[number] = value.to_string();
        let compiled = Self::compile(&patterns, &RouterNames(cx.names()));
        let compiled = compiled
            .map_err(|errors| HandlerError::failed(FailureKind::Failed, errors.to_string()))?;
        self.program = Some(compiled.program);
        cx.set_config(click::config::join_args(&patterns));
        self.patterns = patterns;
        Ok(())
    }
}

impl<const BOTH: bool> Element for PatternList<BOTH> {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let outputs = cx.outputs();
        if self.patterns.len() != outputs {
            return Err(args.fail(format_args!(
                "need {outputs} arguments, one per output port"
            )));
        }
        let compiled = Self::compile(&self.patterns, &RouterNames(args.context()));
        self.program = Some(take_compiled(args, compiled, !self.started)?);
        Ok(())
    }

    fn initialize(&mut self, _cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.started = true;
        Ok(())
    }

    #[inline]
    fn effects(&self) -> Effects {
        match BOTH {
            false => classification_effects(self.program.as_ref()),
            // Programs that are fused look at IPv4 headers.
            true => Effects::of_observer(),
        }
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        match &self.program {
            Some(program) if BOTH && batch.iter().any(is_ip6) => {
                let mut outputs = [DROP; BATCH];
                for (packet, output) in batch.iter().zip(&mut outputs) {
                    let found = program.classify_dual_stack(packet, is_ip6(packet));
                    *output = found.map_or(DROP, |found| found as u32);
                }
                send(cx, batch, &outputs)
            }
            _ => filter(cx, batch, self.program.as_mut()),
        }
    }
}
