use crate::prelude::*;

/// Sets the timestamp of packets: to the time at which they come, or to a fixed one.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> SetTimestamp -> ToDump(now.pcap);
/// ```
///
/// # See also
/// StoreTimestamp, AdjustTimestamp, SetTimestampDelta
#[derive(Element)]
#[element(ports = "1/1", segments)]
pub struct SetTimestamp {
    /// The time, in seconds since 1970; default: the current time.
    #[arg(positional)]
    timestamp: Option<Timestamp>,
    /// Whether the first timestamp annotation is set, in place of the packet's timestamp.
    #[arg]
    first: bool,
    /// Refused: SetTimestampDelta does that.
    #[arg]
    delta: bool,
}

impl Element for SetTimestamp {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if self.delta {
            let instead = "use SetTimestampDelta(TYPE FIRST)";
            return Err(args.fail(format_args!("SetTimestamp(DELTA) is deprecated, {instead}")));
        }
        Ok(())
    }

    #[inline]
    fn batch(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        // The clock is read once for all packets of the batch.
        let time = self.timestamp.map_or_else(|| cx.wall(), |time| time.0);
        for packet in batch.iter_mut() {
            if self.first {
                packet.set_anno_u64(anno::FIRST_TIMESTAMP, time as u64);
            } else {
                packet.set_timestamp(time);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn packets_carry_the_time() {
        let config = "i :: Inject -> SetTimestamp -> c :: Collect;
            j :: Inject -> SetTimestamp(1.5) -> d :: Collect;
            k :: Inject -> SetTimestamp(FIRST true) -> e :: Collect;
            l :: Inject -> Queue -> SetTimestamp(2, FIRST true) -> p :: Puller;";
        let mut rig = Rig::new(config);
        rig.pause(7);
        for name in ["i", "j", "k", "l"] {
            rig.push(name, &[1]);
        }
        assert_eq!(rig.collected("c")[0].timestamp(), START + 7);
        assert_eq!(rig.collected("d")[0].timestamp(), 1_500_000_000);
        let first = rig.collected("e");
        let time = |packet: &packet::Packet| packet.anno_u64(anno::FIRST_TIMESTAMP);
        assert_eq!(
            (first[0].timestamp(), time(&first[0])),
            (0, START as u64 + 7)
        );
        assert_eq!(time(&rig.pull("p", 1)[0]), 2_000_000_000);
    }

    #[test]
    fn a_difference_is_not_set_here() {
        Rig::refuses(
            "Idle -> SetTimestamp(DELTA true) -> Discard;",
            "use SetTimestampDelta(TYPE FIRST)",
        );
    }
}
