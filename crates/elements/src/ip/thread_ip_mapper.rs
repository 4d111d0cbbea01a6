use crate::prelude::*;
use crate::rewriter::input::Input;
use crate::rewriter::key::FlowKey;
use crate::rewriter::mapper::Mapper;

/// Tells rewriters to use a pattern for each thread.
///
/// An input of IPRewriter or a similar element may name this element instead of a pattern. A new
/// flow gets the pattern of the thread that its first packet comes from: the first pattern is for
/// thread 0, the next for thread 1. With more threads than patterns, patterns are used in turn.
///
/// A rewriter with such an input has mappings of its own for each thread: packets of one thread
/// never meet a flow of another. Replies have to come on the thread of their flow.
///
/// # Example
/// ```click
/// ports :: ThreadIPMapper(1.0.0.1 1024-30000 - - 0 1, 1.0.0.1 30001-65535 - - 0 1);
/// rw :: UDPRewriter(ports, drop);
/// Idle -> [0] rw [0] -> Discard;
/// Idle -> [1] rw [1] -> Discard;
/// ```
///
/// # See also
/// RoundRobinIPMapper, SourceIPHashMapper, IPRewriterPatterns, StaticThreadSched
#[derive(Element)]
#[element(ports = "0/0", phase = phase::DEFAULT - 1, provides(Mapper))]
pub struct ThreadIPMapper {
    /// A pattern with its outputs as IPRewriter has it: `SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT`,
    /// or `NAME FOUTPUT ROUTPUT` with a name from IPRewriterPatterns.
    #[arg(rest, name = "PATTERN", kind = "any number of patterns")]
    patterns: Vec<String>,
    inputs: Vec<Input>,
}

impl Element for ThreadIPMapper {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.inputs = Input::parse_patterns(&self.patterns, cx, args)?;
        Ok(())
    }
}

impl Mapper for ThreadIPMapper {
    fn outputs(&self) -> Vec<[u16; 2]> {
        self.inputs.iter().map(|input| input.outputs).collect()
    }

    fn is_per_thread(&self) -> bool {
        true
    }

    fn map(
        &mut self,
        cx: &mut Cx<'_>,
        key: FlowKey,
        taken: &dyn Fn(FlowKey) -> bool,
    ) -> Option<(FlowKey, [u16; 2])> {
        let thread = usize::from(cx.origin());
        let input = self.inputs.get(thread % self.inputs.len().max(1))?;
        input.map(cx, key, taken)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn flows_of_the_first_thread_get_the_first_pattern() {
        let mut rig = Rig::new(
            "m :: ThreadIPMapper(1.0.0.1 1024-1025# - - 0 1, 1.0.0.1 30001-65535# - - 0 1);
             i :: Inject -> CheckIPHeader -> [0] rw :: UDPRewriter(m, drop);
             j :: Inject -> CheckIPHeader -> [1] rw;
             rw [0] -> c :: Collect; rw [1] -> d :: Collect;",
        );
        let (from, to) = (Ipv4Addr::new(9, 0, 0, 1), ([10, 0, 0, 4].into(), 40));
        for port in [30, 30, 20, 10] {
            rig.push("i", &udp((from, port), to, &[]));
        }
        let out = rig.data("c");
        let ports = out
            .iter()
            .map(|data| u16::from_be_bytes([data[20], data[21]]));
        // The pattern has no port for a third flow.
        assert!(ports.eq([1024, 1024, 1025]));
        rig.push("j", &udp(to, ([1, 0, 0, 1].into(), 1025), &[]));
        assert_eq!(rig.data("d")[0][16..24], [9, 0, 0, 1, 0, 40, 0, 20]);
    }

    #[test]
    fn mistakes_are_named() {
        for (arguments, message) in [
            ("", "no patterns given"),
            ("- x - - 0 0, - - - - 0 0", "bad source port"),
            (
                "- - - - 0 0, - - - - 0 1",
                "input spec 0: output port out of range in m :: ThreadIPMapper pattern 1",
            ),
        ] {
            let errors = Rig::errors(&alloc::format!(
                "m :: ThreadIPMapper({arguments}); Idle -> IPRewriter(m) -> Discard;"
            ));
            assert!(errors.contains(message), "{arguments}: {errors}");
        }
    }
}
