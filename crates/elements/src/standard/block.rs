use alloc::string::{String, ToString};

use packet::{Packet, anno};
use router::args::{Args, Failed};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList, Verdict};

/// The integer that a handler was written.
fn integer(cx: &Cx<'_>, value: &str) -> Result<i32, HandlerError> {
    if click::config::split_args(value).len() != 1 {
        return Err("expecting one integer".into());
    }
    let parsed = cx.names().parse(value);
    parsed.map_err(|_| "not an integer".into())
}

/// Holds back packets whose forward rate annotation is high.
///
/// IPRateMonitor sets the annotation.
///
/// # Arguments
/// - `THRESH` (integer): packets whose annotation is above it leave by output 1. If it is 0, none
///   do.
///
/// # Ports
/// One input; output 0 of the same kind: packets that are let pass. Output 1 is push: the others.
///
/// # Handlers
/// - `thresh` (read, write): the argument.
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
#[derive(Default)]
pub struct Block {
    threshold: i32,
}

impl Class for Block {
    const NAME: &'static str = "Block";
    const PORTS: &'static str = "1/2";
    const PROCESSING: &'static str = "a/ah";
    const SEGMENTS: bool = true;
}

impl Declared for Block {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        args.mandatory_positional("THRESH", &mut self.threshold)
            .complete()
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read_write("thresh");
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "thresh" => Ok(self.threshold.to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        if name != "thresh" {
            return Err(HandlerError::Unknown);
        }
        self.threshold = integer(cx, value)?;
        Ok(())
    }
}

impl Element for Block {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let rate = i64::from(packet.anno(anno::FWD_RATE));
        match self.threshold == 0 || rate <= i64::from(self.threshold) {
            true => Verdict::Forward,
            false => Verdict::To(1),
        }
    }
}

/// Holds back packets whose forward rate annotation is high against the reverse one.
///
/// IPRateMonitor sets the annotations; each counts as 1 at least. A packet is held back if one of
/// them is above THRESH, and the forward one times FWD_WEIGHT is more than the reverse one times
/// REV_WEIGHT.
///
/// # Arguments
/// - `FWD_WEIGHT` (integer): factor of the forward rate.
/// - `REV_WEIGHT` (integer): factor of the reverse rate.
/// - `THRESH` (integer): rates up to this are let pass.
///
/// # Ports
/// One input; output 0 of the same kind: packets that are let pass. Output 1 is push: the others.
///
/// # Handlers
/// - `fwd_weight`, `rev_weight`, `thresh` (read, write): the arguments.
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
#[derive(Default)]
pub struct CompareBlock {
    forward: i32,
    reverse: i32,
    threshold: i32,
}

impl Class for CompareBlock {
    const NAME: &'static str = "CompareBlock";
    const PORTS: &'static str = "1/2";
    const PROCESSING: &'static str = "a/ah";
}

impl CompareBlock {
    fn number(&mut self, name: &str) -> Result<&mut i32, HandlerError> {
        match name {
            "fwd_weight" => Ok(&mut self.forward),
            "rev_weight" => Ok(&mut self.reverse),
            "thresh" => Ok(&mut self.threshold),
            _ => Err(HandlerError::Unknown),
        }
    }
}

impl Declared for CompareBlock {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        args.mandatory_positional("FWD_WEIGHT", &mut self.forward)
            .mandatory_positional("REV_WEIGHT", &mut self.reverse)
            .mandatory_positional("THRESH", &mut self.threshold)
            .complete()
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read_write("fwd_weight")
            .read_write("rev_weight")
            .read_write("thresh");
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        Ok(self.number(name)?.to_string())
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        *self.number(name)? = integer(cx, value)?;
        Ok(())
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
        match high && weighs {
            true => Verdict::To(1),
            false => Verdict::Forward,
        }
    }
}

#[cfg(test)]
mod tests {
    use packet::anno;

    use crate::testing::Rig;

    const TWO: &str = "b[0] -> x :: Collect; b[1] -> y :: Collect;";

    /// The output of a packet with the annotations.
    fn output(rig: &mut Rig, forward: u32, reverse: u32) -> usize {
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
        assert_eq!([0, 500, 501, u32::MAX].map(|rate| output(&mut rig, rate, 0)), [0, 0, 1, 1]);
        rig.write("b.thresh", "0");
        assert_eq!(output(&mut rig, u32::MAX, 0), 0);
        rig.write("b.thresh", "-1");
        assert_eq!((output(&mut rig, 0, 0), rig.read("b.thresh")), (1, "-1".into()));
        assert_eq!(rig.try_write("b.thresh", "1, 2"), Err("expecting one integer".into()));
        assert_eq!(rig.try_write("b.thresh", "x"), Err("not an integer".into()));
    }

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
            assert_eq!(output(&mut rig, forward, reverse), blocked, "{forward}, {reverse}");
        }
        rig.write("b.fwd_weight", "-2147483648");
        rig.write("b.rev_weight", "2147483647");
        assert_eq!(output(&mut rig, u32::MAX, u32::MAX), 0);
        rig.write("b.thresh", "7");
        assert_eq!((rig.read("b.thresh"), rig.read("b.rev_weight")), ("7".into(), "2147483647".into()));
    }
}
