use crate::prelude::*;

/// Sets packets' aggregate annotation to their paint.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 10, STOP true) -> Paint(3) -> AggregatePaint -> AggregateCounter -> Discard;
/// ```
///
/// # See also
/// AggregateIP, AggregateLength, AggregateCounter
#[derive(Element)]
#[element(ports = "1/1", segments)]
pub struct AggregatePaint {
    /// How many low bits of the paint count, 1 to 8.
    #[arg(positional, default = 8)]
    bits: i32,
    /// Whether the paint becomes the low bits of the annotation, after the old value is shifted up.
    #[arg]
    incremental: bool,
}

impl Element for AggregatePaint {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if (1..=8).contains(&self.bits) {
            Ok(())
        } else {
            Err(args.fail("bad number of bits"))
        }
    }

    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let paint = u32::from(packet.paint()) & ((1 << self.bits) - 1);
        let above = if self.incremental {
            packet.anno(AGGREGATE) << self.bits
        } else {
            0
        };
        packet.set_anno(AGGREGATE, above | paint);
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn the_paint_becomes_the_aggregate() {
        for (args, aggregate) in [("", 0xa5), ("4", 5), ("4, INCREMENTAL true", 0x15)] {
            let mut rig = Rig::new(&format!(
                "i :: Inject -> AggregatePaint({args}) -> c :: Collect;"
            ));
            rig.push_with("i", &[0], |packet| {
                packet.set_paint(0xa5);
                packet.set_anno(AGGREGATE, 1);
            });
            assert_eq!(rig.collected("c")[0].anno(AGGREGATE), aggregate, "{args}");
        }
        Rig::refuses(
            "Idle -> AggregatePaint(9) -> Discard;",
            "bad number of bits",
        );
    }
}
