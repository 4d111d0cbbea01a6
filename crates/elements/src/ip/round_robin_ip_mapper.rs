use alloc::string::String;
use alloc::vec::Vec;

use router::args::{Args, Failed};
use router::{Class, Cx, Declared, Element, phase};

use crate::rewriter::input::{Action, Input};
use crate::rewriter::key::FlowKey;
use crate::rewriter::mapper;

/// Tells rewriters to use several patterns in turn.
///
/// An input of IPRewriter or its kin may name this element instead of a pattern. Each new flow then
/// gets the next pattern, with its own outputs; if no source is left there, the one after it.
///
/// # Arguments
/// - `PATTERN` (pattern, any number): a pattern with its outputs as IPRewriter has it:
///   `SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT`, or `NAME FOUTPUT ROUTPUT` with a name from
///   IPRewriterPatterns.
///
/// # Ports
/// None.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// servers :: RoundRobinIPMapper(- - 10.0.0.1 - 0 1, - - 10.0.0.2 - 0 1);
/// rw :: IPRewriter(servers, drop);
/// Idle -> [0] rw [0] -> Discard;
/// Idle -> [1] rw [1] -> Discard;
/// ```
///
/// # See also
/// IPRewriter, IPRewriterPatterns, SourceIPHashMapper
#[derive(Default)]
pub struct RoundRobinIPMapper {
    inputs: Vec<Input>,
    next: usize,
}

impl Class for RoundRobinIPMapper {
    const NAME: &'static str = "RoundRobinIPMapper";
    const PORTS: &'static str = "0/0";
    const PHASE: i32 = phase::DEFAULT - 1;
    const IS_A: &'static [&'static str] = &["IPMapper"];
}

impl Declared for RoundRobinIPMapper {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let patterns = args.take_raw();
        match patterns.len() {
            0 => return Err(args.fail("no patterns given")),
            1 => args.warning("only one pattern given"),
            _ => {}
        }
        for text in patterns {
            let input = Input::parse_pattern(&text, &args.context());
            match input.and_then(|resolve| resolve(cx)) {
                Ok(input) => self.inputs.push(input),
                Err(error) => args.error(error),
            }
        }
        args.finish()
    }
}

impl Element for RoundRobinIPMapper {}

impl RoundRobinIPMapper {
    /// Checks that a rewriter with this many outputs has those that the patterns name.
    pub fn check(&self, cx: &Cx<'_>, outputs: usize) -> Result<(), String> {
        mapper::check_patterns(cx, &self.inputs, outputs)
    }

    /// What the packets of `key` are to become, and their outputs; see
    /// [`mapper::map`].
    pub fn map(
        &mut self,
        cx: &mut Cx<'_>,
        key: FlowKey,
        taken: &dyn Fn(FlowKey) -> bool,
    ) -> Option<(FlowKey, [u16; 2])> {
        for _ in 0..self.inputs.len() {
            let input = self.inputs.get(self.next)?;
            self.next = (self.next + 1) % self.inputs.len();
            if let Action::Pattern(pattern) = &input.action
                && let Some(rewritten) = pattern.rewrite(key, cx.random(), taken)
            {
                return Some((rewritten, input.outputs));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use crate::testing::{Rig, udp};

    #[test]
    fn flows_get_patterns_in_turn() {
        let mut rig = Rig::new(
            "r :: RoundRobinIPMapper(- - - - 0 0, - 7-7 1.0.0.9 - 1 0, - - - - 2 0);
             i :: Inject -> CheckIPHeader -> rw :: IPRewriter(r);
             rw [0] -> Paint(0) -> c :: Collect;
             rw [1] -> Paint(1) -> c; rw [2] -> Paint(2) -> c;",
        );
        for (last, port) in [(2, 2), (2, 3), (2, 2), (3, 2), (4, 2), (2, 3), (2, 3)] {
            let to = ([1, 0, 0, last].into(), port);
            rig.push("i", &udp(([1, 0, 0, 1].into(), 1), to, &[]));
        }
        let out: Vec<u8> = rig.collected("c").iter().map(|p| p.paint()).collect();
        assert_eq!(out, [0, 1, 0, 2, 0, 1, 1]);
        assert_eq!(rig.read("rw.patterns"), "<mapper> [4]\n");
    }

    #[test]
    fn mistakes_are_named() {
        for (arguments, message) in [
            ("", "no patterns given"),
            ("- 0", "syntax error"),
            ("- x - - 0 0, - - - - 0 0", "bad source port"),
            (
                "- - - - 0 0, - - - - 0 1",
                "input spec 0: output port out of range in r :: RoundRobinIPMapper pattern 1",
            ),
        ] {
            let errors = Rig::errors(&alloc::format!(
                "r :: RoundRobinIPMapper({arguments}); Idle -> IPRewriter(r) -> Discard;"
            ));
            assert!(errors.contains(message), "{arguments}: {errors}");
        }
    }
}
