use crate::prelude::*;

/// The notation of a number that a handler is written.
pub(super) fn one_integer(text: &str, context: &Context<'_>) -> Result<i32, Invalid> {
    if click::config::split_args(text).len() != 1 {
        return Err(Invalid::because("expecting one integer"));
    }
    i32::parse(text, context).map_err(|_| Invalid::because("not an integer"))
}

/// Blocks packets whose forward rate annotation is high.
///
/// IPRateMonitor sets the annotation.
///
/// # Example
/// ```click
/// b :: Block(500);
/// FromDump(in.pcap) -> b;
/// b[0] -> Discard;
/// b[1] -> Print(blocked) -> Discard;
/// ```
///
/// # See also
/// CompareBlock, IPRateMonitor, Meter
#[derive(Element)]
#[element(ports = "1/2", processing = "a/ah", segments, handlers)]
#[outputs("packets that pass", "blocked packets")]
pub struct Block {
    /// Packets with an annotation above this are blocked; 0 blocks none.
    #[arg(mandatory, name = "THRESH", read)]
    threshold: i32,
}

#[handlers]
impl Block {
    /// The argument THRESH.
    #[write(with = one_integer)]
    fn set_thresh(&mut self, threshold: i32) {
        self.threshold = threshold;
    }
}

impl Element for Block {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let rate = i64::from(packet.anno(anno::FWD_RATE));
        if self.threshold == 0 || rate <= i64::from(self.threshold) {
            Verdict::Forward
        } else {
            Verdict::To(1)
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use packet::anno;

    use crate::testing::Rig;

    pub const TWO: &str = "b[0] -> x :: Collect; b[1] -> y :: Collect;";

    /// The output of a packet with the annotations.
    pub fn output(rig: &mut Rig, forward: u32, reverse: u32) -> usize {
        rig.push_with("i", &[1], |packet| {
            packet.set_anno(anno::FWD_RATE, forward);
            packet.set_anno(anno::REV_RATE, reverse);
        });
        let passed = rig.collected("x").len();
        assert_eq!(passed + rig.collected("y").len(), 1);
        1 - passed
    }

    #[test]
    fn high_rates_are_blocked() {
        let mut rig = Rig::new(&["i :: Inject -> b :: Block(500); ", TWO].concat());
        assert_eq!(
            [0, 500, 501, u32::MAX].map(|rate| output(&mut rig, rate, 0)),
            [0, 0, 1, 1]
        );
        rig.write("b.thresh", "0");
        assert_eq!(output(&mut rig, u32::MAX, 0), 0);
        rig.write("b.thresh", "-1");
        assert_eq!(
            (output(&mut rig, 0, 0), rig.read("b.thresh")),
            (1, "-1".into())
        );
        for (value, text) in [("1, 2", "expecting one integer"), ("x", "not an integer")] {
            let refused = router::HandlerError::failed(router::FailureKind::Failed, text);
            assert_eq!(rig.try_write("b.thresh", value), Err(refused));
        }
    }
}
