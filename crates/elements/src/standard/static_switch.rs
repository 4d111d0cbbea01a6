use super::switch::NOWHERE;
use crate::prelude::*;

/// Sends all packets to one output.
///
/// # Example
/// ```click
/// s :: StaticSwitch(1);
/// InfiniteSource(LIMIT 100) -> s;
/// s[0] -> Print(never) -> Discard;
/// s[1] -> Discard;
/// ```
///
/// # See also
/// Switch
#[derive(Element)]
#[element(ports = "1/-", processing = "h", segments)]
pub struct StaticSwitch {
    /// The output; without an output of that number, packets are dropped.
    #[arg(mandatory)]
    output: i32,
}

impl Element for StaticSwitch {
    #[inline]
    fn push(&mut self, _cx: &mut Cx<'_>, _port: usize, _batch: &mut Batch) -> usize {
        usize::try_from(self.output).unwrap_or(NOWHERE)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    const TWO: &str = "s[0] -> a :: Collect; s[1] -> b :: Collect;";

    #[test]
    fn packets_without_an_output_are_dropped() {
        let mut rig = Rig::new(&["i :: Inject -> s :: StaticSwitch(1);", TWO].concat());
        rig.push("i", &[1]);
        assert_eq!(rig.data("b"), [[1]]);
        let mut rig = Rig::new(&["i :: Inject -> s :: StaticSwitch(5);", TWO].concat());
        rig.push("i", &[1]);
        assert_eq!(rig.outstanding(), 0);
        Rig::refuses(
            &["Inject -> s :: StaticSwitch;", TWO].concat(),
            "OUTPUT: required argument missing",
        );
    }
}
