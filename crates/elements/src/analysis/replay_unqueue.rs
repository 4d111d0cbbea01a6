use super::recording::Recording;
use crate::prelude::*;

/// Loads packets, then sends copies of them over and over.
///
/// Packets are pulled, painted with their input's number and kept until an input gives none, or
/// LIMIT is reached. Of several inputs, the packet with the earliest timestamp comes first; what
/// other inputs have when one is dry is not loaded. Then the packets leave by output 0.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> ReplayUnqueue(STOP 10) -> Counter -> Discard;
/// ```
///
/// # See also
/// MultiReplayUnqueue, Unqueue, FromDump
#[derive(Element)]
#[element(ports = "1-/=", processing = "l/h", flow = "#/#")]
#[inputs("packets to load")]
#[outputs("copies")]
pub struct ReplayUnqueue {
    #[delegate]
    #[init(Recording::new(false))]
    recording: Recording,
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    const MILLISECOND: u64 = 1_000_000;

    fn rig(arguments: &str) -> Rig {
        Rig::new(&format!(
            "i :: Inject -> q :: Queue -> r :: ReplayUnqueue({arguments}) -> c :: Collect;"
        ))
    }

    fn fill(rig: &mut Rig) {
        for n in 0..3 {
            rig.push_with("i", &[n], |packet| {
                packet.set_paint(9);
                packet.set_timestamp(i64::from(n) * MILLISECOND as i64);
            });
        }
    }

    #[test]
    fn packets_are_sent_several_times() {
        let mut rig = rig("STOP 2");
        fill(&mut rig);
        assert_eq!(rig.read("r.loaded"), "false");
        rig.run();
        assert_eq!(rig.data("c"), [[0], [1], [2], [0], [1], [2]]);
        assert_eq!(rig.read("r.loaded"), "true");
        rig.assert_handlers(&[("r.stop", "0"), ("r.active", "false")]);
        assert_eq!(
            rig.printed(),
            [
                "Loading r with 1 inputs.",
                "r : Successfully loaded 3 packets. Input 0 dried out."
            ]
        );
        assert_eq!(rig.end(), 0);
    }

    #[test]
    fn loops_are_told_if_it_is_to() {
        for (arguments, expected) in [
            (
                "STOP 2",
                &[
                    "r :: ReplayUnqueue: Replay loop (2 loops left)",
                    "r :: ReplayUnqueue: Replay loop (1 loops left)",
                    "r :: ReplayUnqueue: stopped because there is 0 loops left",
                ][..],
            ),
            (
                "STOP 1, STOP_TIME 9",
                &[
                    "r :: ReplayUnqueue: continue after 0/9 seconds (1 loops left)",
                    "r :: ReplayUnqueue: stopped early after 0/9 seconds because there is 0 loops left",
                ],
            ),
        ] {
            let mut rig = rig(&format!("{arguments}, VERBOSE true"));
            fill(&mut rig);
            rig.run();
            let told = rig.printed();
            let told: Vec<_> = told.iter().filter(|line| line.contains("loop")).collect();
            assert_eq!(told, expected);
        }
    }

    #[test]
    fn the_driver_stops_at_the_end() {
        let mut rig = rig("STOP 1");
        fill(&mut rig);
        assert_eq!(rig.run(), Status::Stopped);
    }

    #[test]
    fn a_burst_is_sent_at_a_time() {
        let mut rig = rig("STOP 1, BURST 2, QUICK_CLONE 1, FREEONTERMINATE false");
        fill(&mut rig);
        rig.step();
        assert_eq!(rig.data("c"), [[0], [1]]);
        rig.run();
        assert_eq!(rig.data("c"), [[2]]);
    }

    #[test]
    fn the_limit_bounds_what_is_loaded() {
        let mut rig = rig("STOP 1, LIMIT 2");
        fill(&mut rig);
        rig.run();
        assert_eq!(rig.data("c"), [[0], [1]]);
        assert_eq!(rig.read("q.length"), "1");
    }

    #[test]
    fn copies_are_painted_with_the_input() {
        let mut rig = rig("STOP 1");
        fill(&mut rig);
        rig.run();
        assert!(rig.collected("c").iter().all(|packet| packet.paint() == 0));
    }

    #[test]
    fn timestamps_set_the_pace() {
        let mut rig = rig("STOP 2, TIMING 200");
        fill(&mut rig);
        rig.run();
        assert_eq!(rig.data("c"), [[0]]);
        rig.advance(MILLISECOND / 2 - 1);
        assert!(rig.data("c").is_empty());
        rig.advance(1);
        assert_eq!(rig.data("c"), [[1]]);
        rig.advance(MILLISECOND / 2);
        // The next round starts where the last one ends.
        assert_eq!(rig.data("c"), [[2], [0]]);
        rig.write("r.timing", "0");
        rig.run();
        assert_eq!(rig.data("c"), [[1], [2]]);
    }

    #[test]
    fn sending_ends_after_a_time() {
        let mut rig = rig("STOP_TIME 1, TIMING 1");
        fill(&mut rig);
        rig.advance(999 * MILLISECOND);
        assert_eq!(rig.read("r.active"), "true");
        rig.advance(2 * MILLISECOND);
        assert_eq!(rig.read("r.active"), "false");
        assert!(rig.data("c").len() > 10);
    }

    #[test]
    fn it_can_be_started_later_and_again() {
        let mut rig = rig("ACTIVE false");
        fill(&mut rig);
        rig.run();
        assert!(rig.data("c").is_empty());
        for round in 0..2 {
            rig.write("r.active", "true");
            rig.step();
            assert_eq!(rig.data("c").len(), 3, "round {round}");
            rig.write("r.active", "false");
            rig.write("r.reset", "");
            assert_eq!(rig.read("r.loaded"), "false");
            assert_eq!(rig.outstanding(), 0);
            fill(&mut rig);
        }
    }

    #[test]
    fn loading_waits_for_an_active_notifier() {
        let config = "i :: Inject -> q :: SimpleQueue
            -> r :: ReplayUnqueue(STOP 1, USE_SIGNAL true, LIMIT 3) -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.step();
        assert_eq!(rig.read("r.loaded"), "false");
        fill(&mut rig);
        rig.run();
        assert_eq!(rig.data("c").len(), 3);
    }

    #[test]
    fn its_handlers_can_be_called_while_it_loads() {
        let config = "i :: Inject -> q :: Queue -> Counter(COUNT_CALL 2 r.active false)
            -> r :: ReplayUnqueue(STOP 1) -> c :: Collect;";
        let mut rig = Rig::new(config);
        fill(&mut rig);
        rig.run();
        assert_eq!(rig.printed(), ["Loading r with 1 inputs."]);
        rig.assert_handlers(&[
            ("r.active", "false"),
            ("r.loaded", "false"),
            ("q.length", "0"),
        ]);
        rig.write("r.active", "true");
        rig.run();
        assert_eq!(rig.data("c"), [[0], [1], [2]]);
        assert_eq!(rig.end(), 0);
    }

    #[test]
    fn without_packets_nothing_is_sent() {
        let mut rig = rig("");
        assert_ne!(rig.run(), Status::Busy);
        assert_eq!(rig.read("r.active"), "false");
    }

    #[test]
    fn functions_of_time_are_refused() {
        let errors = Rig::errors("Idle -> ReplayUnqueue(TIMING_FNT \"10 + x\") -> Discard;");
        assert!(errors.contains("write the handler 'timing'"), "{errors}");
    }
}
