use hashbrown::HashSet;

use crate::aggregates::{AggregateListener, NotifierArgument};
use crate::prelude::*;

/// Most aggregates that are remembered.
const AGGREGATES_MAX: usize = 1 << 22;

/// Lets the first packet of each aggregate pass.
///
/// The element remembers up to 4194304 aggregates. Packets of further aggregates do not pass.
///
/// # Example
/// ```click
/// FromDump(in.pcap, STOP true, FORCE_IP true)
///     -> f :: AggregateIPFlows -> AggregateFirst(NOTIFIER f) -> ToDump(first.pcap, ENCAP IP);
/// ```
///
/// # See also
/// AggregateLast, AggregateIP, AggregateIPFlows, AggregateFilter
#[derive(Element)]
#[element(ports = "1/1-2", processing = "a/ah", provides(AggregateListener))]
#[outputs("the first packet of each aggregate", "all other packets")]
pub struct AggregateFirst {
    #[flatten]
    notifier: NotifierArgument,
    seen: HashSet<u32>,
}

impl AggregateListener for AggregateFirst {
    fn aggregate_ended(&mut self, _cx: &mut Cx<'_>, aggregate: u32) {
        self.seen.remove(&aggregate);
    }
}

impl Element for AggregateFirst {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.notifier.check(cx, args)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.notifier.listen(cx);
        Ok(())
    }

    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let aggregate = packet.anno(AGGREGATE);
        let has_room = self.seen.len() < AGGREGATES_MAX && self.seen.try_reserve(1).is_ok();
        if has_room && self.seen.insert(aggregate) {
            Verdict::Forward
        } else {
            Verdict::To(1)
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn first_packets_pass() {
        let mut rig =
            Rig::new("i :: Inject -> f :: AggregateFirst -> c :: Collect; f[1] -> d :: Collect;");
        for (n, aggregate) in [5, 6, 5, 0, 6, u32::MAX].into_iter().enumerate() {
            rig.push_with("i", &[n as u8], |packet| {
                packet.set_anno(AGGREGATE, aggregate)
            });
        }
        assert_eq!(rig.data("c").concat(), [0, 1, 3, 5]);
        assert_eq!(rig.data("d").concat(), [2, 4]);
        let errors =
            Rig::errors("Idle -> d :: Discard; Idle -> AggregateFirst(NOTIFIER d) -> Discard;");
        assert!(errors.contains("d is not an AggregateNotifier"), "{errors}");
    }

    #[test]
    fn aggregates_that_ended_are_forgotten() {
        for batch in [1, 64] {
            let config = "i :: Inject -> MarkIPHeader -> a :: AggregateIPAddrPair
                -> f :: AggregateFirst(NOTIFIER a) -> c :: Collect; f[1] -> d :: Collect;";
            let mut rig = Rig::with_batch(config, batch);
            let packet =
                crate::testing::udp(([1, 0, 0, 1].into(), 1), ([2, 0, 0, 2].into(), 2), b"");
            rig.push("i", &packet);
            rig.push("i", &packet);
            rig.write("a.clear", "");
            rig.run();
            rig.push("i", &packet);
            let of = |packets: Vec<packet::Packet>| {
                packets
                    .iter()
                    .map(|p| p.anno(AGGREGATE))
                    .collect::<Vec<_>>()
            };
            assert_eq!(of(rig.collected("c")), [1, 2]);
            assert_eq!(of(rig.collected("d")), [1]);
        }
    }
}
