use super::learning::{Aging, FLOOD, Learning, flood, flood_all};
use crate::filters::dispatch::send;
use crate::prelude::*;

/// Switches Ethernet frames between ports, and learns the ports of stations.
///
/// Each input with the output of its number is a port. A frame for a station that was seen at a
/// port goes to that port, and is dropped if it came from there. Other frames go to every port but
/// their own, as do all frames to group addresses. Packets too short for an Ethernet header are
/// dropped.
///
/// # Example
/// ```click
/// switch :: EtherSwitch;
/// FromDevice(eth0) -> [0] switch [0] -> Queue -> ToDevice(eth0);
/// FromDevice(eth1) -> [1] switch [1] -> Queue -> ToDevice(eth1);
/// ```
///
/// # See also
/// ListenEtherSwitch, EtherSpanTree, Hub
#[derive(Element)]
#[element(
    ports = "2-/=",
    processing = "h",
    flow = "#/[^#]",
    segments,
    provides(Aging)
)]
pub struct EtherSwitch {
    #[flatten]
    learning: Learning,
}

impl Aging for EtherSwitch {
    fn set_aging(&mut self, nanoseconds: Option<u64>) {
        self.learning.aging = nanoseconds;
    }
}

impl Element for EtherSwitch {
    fn configured(&mut self, _cx: &mut Cx<'_>, _args: &mut Args<'_>) -> Result<(), Failed> {
        self.learning.configured();
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, source: usize, batch: &mut Batch) -> usize {
        let outputs = self.learning.outputs(cx, source, batch);
        if outputs.flooded == 0 {
            return send(cx, batch, &outputs.of);
        }
        if outputs.flooded == first(batch.len()) {
            return flood_all(cx, source, batch);
        }
        for (packet, output) in batch.drain().zip(outputs.of) {
            match output {
                FLOOD => flood(cx, source, packet),
                port => cx.emit(port as usize, packet),
            }
        }
        source
    }
}

#[cfg(test)]
pub(super) mod tests {
    use alloc::format;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use crate::testing::{Rig, ether};

    fn rig(arguments: &str, batch: usize) -> Rig {
        let config = format!(
            "i0 :: Inject -> [0] s :: EtherSwitch({arguments}); i1 :: Inject -> [1] s;
             i2 :: Inject -> [2] s;
             s[0] -> Paint(0) -> q :: Collect; s[1] -> Paint(1) -> q; s[2] -> Paint(2) -> q;"
        );
        Rig::with_batch(&config, batch)
    }

    pub fn frame(to: u8, from: u8, n: u8) -> Vec<u8> {
        ether([to; 6], [from; 6], 0x0800, &[n])
    }

    /// Outputs and numbers of the packets that left, in order.
    pub fn left(rig: &mut Rig) -> Vec<(u8, u8)> {
        let packets = rig.collected("q");
        packets
            .iter()
            .map(|packet| (packet.paint(), packet.data()[14]))
            .collect()
    }

    #[test]
    fn frames_go_where_their_station_was_seen() {
        let mut rig = rig("", 1);
        rig.push("i0", &frame(4, 2, 1));
        assert_eq!(left(&mut rig), [(2, 1), (1, 1)]);
        rig.push("i1", &frame(2, 4, 2));
        assert_eq!(left(&mut rig), [(0, 2)]);
        rig.push("i1", &frame(4, 6, 3));
        assert_eq!(left(&mut rig), [], "a station at its own port");
        rig.push("i2", &frame(4, 2, 4));
        assert_eq!(left(&mut rig), [(1, 4)]);
        rig.push("i1", &frame(2, 4, 5));
        assert_eq!(left(&mut rig), [(2, 5)], "the station moved");
        rig.push("i1", &frame(0xff, 4, 6));
        assert_eq!(left(&mut rig), [(2, 6), (0, 6)]);
        let table = "02-02-02-02-02-02 2\n04-04-04-04-04-04 1\n06-06-06-06-06-06 1\n";
        assert_eq!(rig.read("s.table"), table);
        assert_eq!(rig.outstanding(), 0);
    }

    #[test]
    fn batches_are_taken_apart_by_destination() {
        let mut rig = rig("", 64);
        rig.push("i1", &frame(0xff, 4, 0));
        rig.push("i2", &frame(0xff, 6, 0));
        left(&mut rig);
        let frames = [(4, 1), (6, 2), (8, 3), (4, 4), (2, 5), (6, 6)];
        rig.push_all("i0", &frames.map(|(to, n)| frame(to, 2, n)));
        let mut out = left(&mut rig);
        let to_1: Vec<u8> = out
            .iter()
            .filter(|(p, _)| *p == 1)
            .map(|(_, n)| *n)
            .collect();
        assert_eq!(to_1.len(), 3);
        assert!(to_1.iter().position(|n| *n == 1) < to_1.iter().position(|n| *n == 4));
        out.sort_unstable();
        assert_eq!(out, [(1, 1), (1, 3), (1, 4), (2, 2), (2, 3), (2, 6)]);
    }

    #[test]
    fn group_addresses_are_flooded_though_learned_and_short_packets_are_dropped() {
        let mut rig = rig("", 1);
        rig.push("i0", &frame(4, 3, 1));
        assert_eq!(left(&mut rig).len(), 2);
        assert_eq!(rig.read("s.table"), "03-03-03-03-03-03 0\n");
        rig.push("i1", &frame(3, 4, 2));
        assert_eq!(left(&mut rig), [(2, 2), (0, 2)]);
        rig.push("i0", &[2; 13]);
        assert_eq!((rig.collected("q").len(), rig.outstanding()), (0, 0));
    }

    #[test]
    fn silent_stations_are_dropped() {
        let mut rig = rig("TIMEOUT 2", 1);
        rig.push("i0", &frame(4, 2, 1));
        left(&mut rig);
        rig.advance(1_900_000_000);
        rig.push("i1", &frame(2, 4, 2));
        assert_eq!(left(&mut rig), [(0, 2)]);
        rig.advance(200_000_000);
        rig.push("i1", &frame(2, 4, 3));
        assert_eq!(left(&mut rig), [(2, 3), (0, 3)]);
        rig.write("s.timeout", "0");
        rig.push("i2", &frame(4, 2, 4));
        assert_eq!(left(&mut rig), [(1, 4), (0, 4)], "a hub");
        assert_eq!(rig.read("s.timeout"), "0");
        let refused = rig.try_write("s.timeout", "x");
        assert_eq!(refused, Err("expected timeout (integer)".into()));
    }

    #[test]
    fn stations_beyond_the_capacity_stay_unknown() {
        let mut rig = rig("CAPACITY 2", 1);
        for station in [2, 4, 6, 8] {
            rig.push("i0", &frame(0xff, station, 0));
        }
        assert_eq!(rig.read("s.table").lines().count(), 2);
    }

    proptest! {
        /// Frames leave by the same outputs one by one and in batches, in the same order by each, whether a batch's
        /// frames are all known, all flooded or some of both.
        #[test]
        fn batches_go_where_single_frames_go(
            batches in prop::collection::vec((0usize..3, prop::collection::vec((0u8..5, 0u8..5), 1..9)), 1..20),
            learns: bool,
        ) {
            for class in ["EtherSwitch", "ListenEtherSwitch"] {
                let ports = if class == "EtherSwitch" { 3 } else { 4 };
                let mut config = format!("s :: {class}(TIMEOUT {}); q :: Collect;", u8::from(learns));
                for port in 0..ports {
                    config += &format!("s[{port}] -> Paint({port}) -> q;");
                }
                for port in 0..3 {
                    config += &format!("i{port} :: Inject -> [{port}] s;");
                }
                let leave = |batch: usize| {
                    let mut rig = Rig::with_batch(&config, batch);
                    for (number, (port, frames)) in batches.iter().enumerate() {
                        // The last address is a group's.
                        let station = |n: u8| if n == 4 { 1 } else { 2 * n + 2 };
                        let frames: Vec<_> = frames
                            .iter()
                            .map(|(to, from)| frame(station(*to), 2 * from + 2, number as u8))
                            .collect();
                        rig.push_all(&format!("i{port}"), &frames);
                    }
                    let left = rig.collected("q");
                    let of = |port: u8| {
                        let left = left.iter().filter(move |packet| packet.paint() == port);
                        left.map(|packet| packet.data().to_vec()).collect::<Vec<_>>()
                    };
                    (0..ports).map(of).collect::<Vec<_>>()
                };
                prop_assert_eq!(leave(1), leave(64));
            }
        }
    }

    #[test]
    fn a_switch_has_two_ports_at_least() {
        Rig::refuses("Inject -> EtherSwitch -> Collect;", "EtherSwitch");
    }
}
