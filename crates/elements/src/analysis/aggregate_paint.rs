use packet::Packet;
use packet::anno::AGGREGATE;
use router::args::{Args, Failed};
use router::{Class, Cx, Declared, Element, Verdict};

/// Sets packets' aggregate annotation to their paint.
///
/// # Arguments
/// - `BITS` (integer from 1 to 8, 8): how many low bits of the paint count.
/// - `INCREMENTAL` (boolean, false): whether the paint becomes the low bits of the annotation, and
///   what stood there moves up.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 10, STOP true) -> Paint(3) -> AggregatePaint -> AggregateCounter -> Discard;
/// ```
///
/// # See also
/// AggregateIP, AggregateLength, AggregateCounter
#[derive(Default)]
pub struct AggregatePaint {
    bits: u32,
    incremental: bool,
}

impl Class for AggregatePaint {
    const NAME: &'static str = "AggregatePaint";
    const PORTS: &'static str = "1/1";
    const SEGMENTS: bool = true;
}

impl Declared for AggregatePaint {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let mut bits = 8i32;
        args.positional("BITS", &mut bits)
            .keyword("INCREMENTAL", &mut self.incremental)
            .complete()?;
        self.bits = match u32::try_from(bits) {
            Ok(bits @ 1..=8) => bits,
            _ => return Err(args.fail("bad number of bits")),
        };
        Ok(())
    }
}

impl Element for AggregatePaint {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let paint = u32::from(packet.paint()) & ((1 << self.bits) - 1);
        let above = match self.incremental {
            true => packet.anno(AGGREGATE) << self.bits,
            false => 0,
        };
        packet.set_anno(AGGREGATE, above | paint);
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use packet::anno::AGGREGATE;

    use crate::testing::Rig;

    #[test]
    fn the_paint_becomes_the_aggregate() {
        for (args, aggregate) in [("", 0xa5), ("4", 5), ("4, INCREMENTAL true", 0x15)] {
            let mut rig = Rig::new(&format!("i :: Inject -> AggregatePaint({args}) -> c :: Collect;"));
            rig.push_with("i", &[0], |packet| {
                packet.set_paint(0xa5);
                packet.set_anno(AGGREGATE, 1);
            });
            assert_eq!(rig.collected("c")[0].anno(AGGREGATE), aggregate, "{args}");
        }
        let errors = Rig::errors("Idle -> AggregatePaint(9) -> Discard;");
        assert!(errors.contains("bad number of bits"), "{errors}");
    }
}
