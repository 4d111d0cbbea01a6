use packet::{Batch, Packet, anno};
use router::args::{Args, Failed, Timestamp};
use router::{Class, Cx, Declared, Element};

/// Sets the timestamp of packets: to the time at which they come, or to a fixed one.
///
/// # Arguments
/// - `TIMESTAMP` (time, the present): the time, in seconds since 1970.
/// - `FIRST` (boolean, false): whether the first timestamp annotation is set, in place of the
///   packet's timestamp.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> SetTimestamp -> ToDump(now.pcap);
/// ```
///
/// # See also
/// StoreTimestamp, AdjustTimestamp, SetTimestampDelta
#[derive(Default)]
pub struct SetTimestamp {
    time: Option<Timestamp>,
    first: bool,
}

impl Class for SetTimestamp {
    const NAME: &'static str = "SetTimestamp";
    const PORTS: &'static str = "1/1";
    const SEGMENTS: bool = true;
}

impl SetTimestamp {
    #[inline]
    fn set(&self, cx: &Cx<'_>, batch: &mut Batch) {
        let time = match self.time {
            Some(time) => time.0,
            // The clock is read once for all packets of the batch.
            None => cx.wall(),
        };
        let set = |packet: &mut Packet| match self.first {
            true => packet.set_anno_u64(anno::FIRST_TIMESTAMP, time as u64),
            false => packet.set_timestamp(time),
        };
        batch.iter_mut().for_each(set);
    }
}

impl Declared for SetTimestamp {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let (mut time, mut given, mut delta) = (Timestamp::default(), false, false);
        args.positional("TIMESTAMP", &mut time)
            .given(&mut given)
            .keyword("FIRST", &mut self.first)
            .keyword("DELTA", &mut delta)
            .complete()?;
        if delta {
            let instead = "use SetTimestampDelta(TYPE FIRST)";
            return Err(args.fail(format_args!("SetTimestamp(DELTA) is deprecated, {instead}")));
        }
        self.time = given.then_some(time);
        Ok(())
    }
}

impl Element for SetTimestamp {
    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        self.set(cx, batch);
        0
    }

    #[inline]
    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        cx.pull(0, batch, most);
        self.set(cx, batch);
    }
}

#[cfg(test)]
mod tests {
    use packet::anno;

    use crate::testing::{Rig, START};

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
        assert_eq!((first[0].timestamp(), time(&first[0])), (0, START as u64 + 7));
        assert_eq!(time(&rig.pull("p", 1)[0]), 2_000_000_000);
    }

    #[test]
    fn a_difference_is_not_set_here() {
        let errors = Rig::errors("Idle -> SetTimestamp(DELTA true) -> Discard;");
        assert!(errors.contains("use SetTimestampDelta(TYPE FIRST)"), "{errors}");
    }
}
