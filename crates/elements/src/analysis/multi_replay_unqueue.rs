use super::recording::Recording;
use crate::prelude::*;

/// Loads packets from several inputs, then sends copies of them over and over, each by the output
/// of its input's number.
///
/// Packets are pulled, painted with their input's number and kept until an input gives none, or
/// LIMIT is reached. The packet with the earliest timestamp comes first. What other inputs have when
/// one is dry is not loaded.
///
/// # Example
/// ```click
/// r :: MultiReplayUnqueue(STOP 10);
/// FromDump(in.pcap) -> [0] r [0] -> Discard;
/// FromDump(out.pcap) -> [1] r [1] -> Discard;
/// ```
///
/// # See also
/// ReplayUnqueue, TimeSortedSched, FromDump
#[derive(Element)]
#[element(ports = "1-/=", processing = "l/h", flow = "#/#")]
#[inputs("packets to load")]
#[outputs("copies of the input's packets")]
pub struct MultiReplayUnqueue {
    #[delegate]
    #[init(Recording::new(true))]
    recording: Recording,
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn packets_leave_in_the_order_of_time_by_their_outputs() {
        let config =
            "i :: Inject -> q :: Queue -> [0] r :: MultiReplayUnqueue(STOP 2, ACTIVE false);
            j :: Inject -> p :: Queue -> [1] r;
            r[0] -> Paint(1, 17) -> c :: Collect; r[1] -> Paint(2, 17) -> c;";
        let mut rig = Rig::new(config);
        for (input, time) in [
            ("i", 2),
            ("i", 5),
            ("i", 9),
            ("j", 1),
            ("j", 3),
            ("j", 4),
            ("j", 6),
        ] {
            rig.push_with(input, &[time], |packet| packet.set_timestamp(time.into()));
        }
        rig.write("r.active", "true");
        rig.run();
        let packets = rig.collected("c");
        // When input 1 is dry, input 0 still has the packet of time 9.
        let mut seen: Vec<_> = packets
            .iter()
            .map(|p| (p.data()[0], p.paint(), p.annotations()[17]))
            .collect();
        seen.truncate(6);
        let mut by_output = seen.clone();
        by_output.sort_unstable();
        let expected = [
            (1, 1, 2),
            (2, 0, 1),
            (3, 1, 2),
            (4, 1, 2),
            (5, 0, 1),
            (6, 1, 2),
        ];
        assert_eq!(by_output, expected);
        assert_eq!(packets.len(), 12);
        assert_eq!(
            rig.printed(),
            [
                "Loading r with 2 inputs.",
                "r : Successfully loaded 6 packets. Input 1 dried out."
            ]
        );
        drop(packets);
        assert_eq!(rig.end(), 0);
    }

    #[test]
    fn a_reset_on_the_packets_way_frees_what_was_loaded() {
        let config = "i :: Inject -> Queue -> [0] r :: MultiReplayUnqueue(STOP 1);
            j :: Inject -> Queue -> Counter(COUNT_CALL 2 r.reset) -> [1] r;
            r[0] -> c :: Collect; r[1] -> c;";
        let mut rig = Rig::new(config);
        for (input, time) in [("i", 1), ("i", 5), ("i", 9), ("j", 2), ("j", 3), ("j", 4)] {
            rig.push_with(input, &[time], |packet| packet.set_timestamp(time.into()));
        }
        rig.run();
        // The first two, and the one of time 5, which waited for its turn, are gone.
        assert_eq!(rig.data("c"), [[3], [4]]);
        assert_eq!(rig.end(), 0);
    }

    #[test]
    fn one_input_is_replayed_to_one_output() {
        let config = "i :: Inject -> Queue -> r :: MultiReplayUnqueue(STOP 3) -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.push_all("i", &[vec![1], vec![2]]);
        rig.run();
        assert_eq!(rig.data("c"), [[1], [2], [1], [2], [1], [2]]);
    }
}
