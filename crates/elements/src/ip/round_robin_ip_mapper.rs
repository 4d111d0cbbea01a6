use crate::prelude::*;
use crate::rewriter::input::Input;
use crate::rewriter::key::FlowKey;
use crate::rewriter::mapper::Mapper;

/// Tells rewriters to use several patterns in turn.
///
/// An input of IPRewriter or a similar element may name this element instead of a pattern. Each new
/// flow gets the next pattern, with the pattern's outputs; if the pattern has no source left, the
/// pattern after it.
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
#[derive(Element)]
#[element(ports = "0/0", phase = phase::DEFAULT - 1, provides(Mapper))]
pub struct RoundRobinIPMapper {
    /// A pattern with its outputs as IPRewriter has it: `SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT`,
    /// or `NAME FOUTPUT ROUTPUT` with a name from IPRewriterPatterns.
    #[arg(rest, name = "PATTERN", kind = "any number of patterns")]
    patterns: Vec<String>,
    inputs: Vec<Input>,
    next: usize,
}

impl Element for RoundRobinIPMapper {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.inputs = Input::parse_patterns(&self.patterns, cx, args)?;
        Ok(())
    }
}

impl Mapper for RoundRobinIPMapper {
    fn outputs(&self) -> Vec<[u16; 2]> {
        self.inputs.iter().map(|input| input.outputs).collect()
    }

    fn map(
        &mut self,
        cx: &mut Cx<'_>,
        key: FlowKey,
        taken: &dyn Fn(FlowKey) -> bool,
    ) -> Option<(FlowKey, [u16; 2])> {
        for _ in 0..self.inputs.len() {
            let input = self.inputs.get(self.next)?;
            self.next = (self.next + 1) % self.inputs.len();
            let mapped = input.map(cx, key, taken);
            if mapped.is_some() {
                return mapped;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

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
