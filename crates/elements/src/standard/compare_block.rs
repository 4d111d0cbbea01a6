use super::block::one_integer;
use crate::prelude::*;

/// Blocks packets whose forward rate annotation is high compared with the reverse one.
///
/// IPRateMonitor sets the annotations; an annotation of 0 counts as 1. A packet is blocked if one
/// of them is above THRESH, and the forward one times FWD_WEIGHT is more than the reverse one times
/// REV_WEIGHT.
///
/// # Example
/// ```click
/// b :: CompareBlock(5, 2, 100);
/// FromDump(in.pcap) -> b;
/// b[0] -> Discard;
/// b[1] -> Print(blocked) -> Discard;
/// ```
///
/// # See also
/// Block, IPRateMonitor
#[derive(Element)]
#[element(ports = "1/2", processing = "a/ah", handlers)]
#[outputs("packets that pass", "blocked packets")]
pub struct CompareBlock {
    /// Factor of the forward rate.
    #[arg(mandatory, name = "FWD_WEIGHT", read)]
    forward: i32,
    /// Factor of the reverse rate.
    #[arg(mandatory, name = "REV_WEIGHT", read)]
    reverse: i32,
    /// Packets with rates of at most this pass.
    #[arg(mandatory, name = "THRESH", read)]
    threshold: i32,
}

#[handlers]
impl CompareBlock {
    /// The argument FWD_WEIGHT.
    #[write(with = one_integer)]
    fn set_fwd_weight(&mut self, weight: i32) {
        self.forward = weight;
    }

    /// The argument REV_WEIGHT.
    #[write(with = one_integer)]
    fn set_rev_weight(&mut self, weight: i32) {
        self.reverse = weight;
    }

    /// The argument THRESH.
    #[write(with = one_integer)]
    fn set_thresh(&mut self, threshold: i32) {
        self.threshold = threshold;
    }
}

impl Element for CompareBlock {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        // 2³² times a weight of 31 bits: no product overflows.
        let forward = i64::from(packet.anno(anno::FWD_RATE).max(1));
        let reverse = i64::from(packet.anno(anno::REV_RATE).max(1));
        let high = forward.max(reverse) > i64::from(self.threshold);
        let weighs = i64::from(self.forward) * forward > i64::from(self.reverse) * reverse;
        if high && weighs {
            Verdict::To(1)
        } else {
            Verdict::Forward
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::standard::block::tests::{TWO, output};
    use crate::testing::*;

    #[test]
    fn rates_are_compared() {
        let mut rig = Rig::new(&["i :: Inject -> b :: CompareBlock(5, 2, 100); ", TWO].concat());
        for (forward, reverse, blocked) in [
            (100, 100, 0),
            (101, 101, 1),
            (101, 253, 0),
            (0, 101, 0),
            (101, 0, 1),
            (u32::MAX, 1, 1),
            (1, u32::MAX, 0),
        ] {
            assert_eq!(
                output(&mut rig, forward, reverse),
                blocked,
                "{forward}, {reverse}"
            );
        }
        rig.write("b.fwd_weight", "-2147483648");
        rig.write("b.rev_weight", "2147483647");
        assert_eq!(output(&mut rig, u32::MAX, u32::MAX), 0);
        rig.write("b.thresh", "7");
        rig.assert_handlers(&[("b.thresh", "7"), ("b.rev_weight", "2147483647")]);
    }
}
