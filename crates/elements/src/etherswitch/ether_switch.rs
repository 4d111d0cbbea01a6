use alloc::string::{String, ToString};

use packet::wire::EthernetFrame;
use packet::{Batch, Packet};
use router::args::{Args, Failed, SecondsArg};
use router::{Class, Cx, Declared, Element, ElementId, HandlerError, HandlerList};

use super::stations::Stations;

const SECOND: u64 = 1_000_000_000;
/// Seconds of silence after which stations are forgotten, if not given (IEEE Std 802.1D, table
/// 7-5).
const TIMEOUT: u32 = 300;
/// Most stations, if not given: of a big building, in half a MiB.
const CAPACITY: u32 = 8192;

/// Where a frame goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// By one port.
    Out(usize),
    /// By every port but its own.
    Flood,
    Nowhere,
}

/// What a switch knows, and the frame's way that follows.
struct Switch {
    stations: Stations,
    /// In seconds; 0: nothing is learned.
    timeout: u32,
    capacity: u32,
    /// A shorter time that holds for now, in nanoseconds.
    ageing: Option<u64>,
}

impl Default for Switch {
    fn default() -> Self {
        Switch {
            stations: Stations::new(CAPACITY as usize),
            timeout: TIMEOUT,
            capacity: CAPACITY,
            ageing: None,
        }
    }
}

impl Switch {
    fn configure(&mut self, args: &mut Args<'_>) -> Result<(), Failed> {
        args.keyword_with("TIMEOUT", SecondsArg(0), &mut self.timeout)
            .keyword("CAPACITY", &mut self.capacity)
            .complete()?;
        self.stations = Stations::new(self.capacity as usize);
        Ok(())
    }

    /// How long stations may be silent, in nanoseconds.
    fn timeout(&self) -> u64 {
        let timeout = u64::from(self.timeout) * SECOND;
        self.ageing.map_or(timeout, |ageing| timeout.min(ageing))
    }

    /// Learns a frame's source, and looks its destination up.
    #[inline(always)]
    fn way(&mut self, source: usize, packet: &Packet, now: u64, timeout: u64) -> Way {
        let Ok(frame) = EthernetFrame::new_checked(packet.data()) else {
            return Way::Nowhere;
        };
        if timeout == 0 {
            return Way::Flood;
        }
        let from = frame.source();
        if !from.is_group() {
            self.stations.learn(from, source as u32, now, timeout);
        }
        let to = frame.destination();
        if to.is_group() {
            return Way::Flood;
        }
        match self.stations.find(to, now, timeout) {
            Some(port) => Way::Out(port as usize),
            None => Way::Flood,
        }
    }

    fn handlers(list: &mut HandlerList) {
        list.read("table").read_write("timeout");
    }

    fn read(&self, name: &str) -> Result<String, HandlerError> {
        match name {
            "table" => Ok(self.stations.table()),
            "timeout" => Ok(self.timeout.to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        if name != "timeout" {
            return Err(HandlerError::Unknown);
        }
        let timeout = cx.names().parse_with(SecondsArg(0), value.trim());
        self.timeout = timeout.map_err(|_| "expected timeout (integer)")?;
        Ok(())
    }
}

/// Sends a frame out by every output but `source`, the last first.
fn flood(cx: &mut Cx<'_>, source: usize, packet: Packet) {
    let outputs = cx.outputs();
    let last = usize::from(source == 0);
    for port in (last + 1..outputs).rev().filter(|port| *port != source) {
        // Where there is no buffer for a copy, this output goes without.
        if let Some(copy) = cx.pool().clone(&packet) {
            cx.emit(port, copy);
        }
    }
    cx.emit(last, packet);
}

/// Switches Ethernet frames between ports, and learns which stations are at which.
///
/// Each input with the output of its number is a port. A frame for a station that was seen at a
/// port goes there, or nowhere if it came from there; others go to every port but their own. Frames
/// from group addresses teach nothing, and packets too short for an Ethernet header are dropped.
///
/// # Arguments
/// - `TIMEOUT` (time in seconds, 300): how long a silent station is remembered; with 0, nothing is
///   learned, and all frames go to all other ports.
/// - `CAPACITY` (integer, 8192): most stations; when they are as many, frames for others go to all
///   other ports.
///
/// # Ports
/// Two or more push inputs, as many push outputs.
///
/// # Handlers
/// - `table` (read): the stations known and their ports, a line for each.
/// - `timeout` (read, write): the argument.
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
#[derive(Default)]
pub struct EtherSwitch {
    switch: Switch,
}

impl Class for EtherSwitch {
    const NAME: &'static str = "EtherSwitch";
    const PORTS: &'static str = "2-/=";
    const PROCESSING: &'static str = "h";
    const FLOW: &'static str = "#/[^#]";
    const SEGMENTS: bool = true;
}

impl Declared for EtherSwitch {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.switch.configure(args)
    }

    fn handlers(&self, list: &mut HandlerList) {
        Switch::handlers(list);
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        self.switch.read(name)
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        self.switch.write(cx, name, value)
    }
}

impl Element for EtherSwitch {
    fn push(&mut self, cx: &mut Cx<'_>, source: usize, batch: &mut Batch) -> usize {
        let (now, timeout) = (cx.steady().0, self.switch.timeout());
        // Frames for the first destination go on as the batch they came as.
        let mut main = None;
        batch.filter(
            &mut (&mut self.switch, cx),
            |(switch, _), packet| match switch.way(source, packet, now, timeout) {
                Way::Out(port) if port == source => Some(Way::Nowhere),
                Way::Out(port) if *main.get_or_insert(port) == port => None,
                way => Some(way),
            },
            |(_, cx), packet, way| match way {
                Way::Out(port) => cx.emit(port, packet),
                Way::Flood => flood(cx, source, packet),
                Way::Nowhere => cx.kill(packet),
            },
        );
        main.unwrap_or(source)
    }
}

/// Switches Ethernet frames as EtherSwitch does, with one more output that gets all of them.
///
/// The last output gets a copy of every frame, also of those that go nowhere else.
///
/// # Arguments
/// - `TIMEOUT` (time in seconds, 300): how long a silent station is remembered; with 0, nothing is
///   learned, and all frames go to all other ports.
/// - `CAPACITY` (integer, 8192): most stations; when they are as many, frames for others go to all
///   other ports.
///
/// # Ports
/// Any number of push inputs, as many push outputs and one more.
///
/// # Handlers
/// - `table` (read): the stations known and their ports, a line for each.
/// - `timeout` (read, write): the argument.
///
/// # Example
/// ```click
/// switch :: ListenEtherSwitch;
/// FromDevice(eth0) -> [0] switch [0] -> Queue -> ToDevice(eth0);
/// FromDevice(eth1) -> [1] switch [1] -> Queue -> ToDevice(eth1);
/// switch [2] -> Print(seen) -> Discard;
/// ```
///
/// # See also
/// EtherSwitch, EtherSpanTree
#[derive(Default)]
pub struct ListenEtherSwitch {
    switch: Switch,
}

impl Class for ListenEtherSwitch {
    const NAME: &'static str = "ListenEtherSwitch";
    const PORTS: &'static str = "-/=+";
    const PROCESSING: &'static str = "h";
    const FLOW: &'static str = "#/[^#]";
    const IS_A: &'static [&'static str] = &["EtherSwitch"];
}

impl Declared for ListenEtherSwitch {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.switch.configure(args)
    }

    fn handlers(&self, list: &mut HandlerList) {
        Switch::handlers(list);
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        self.switch.read(name)
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        self.switch.write(cx, name, value)
    }
}

impl Element for ListenEtherSwitch {
    fn push(&mut self, cx: &mut Cx<'_>, source: usize, batch: &mut Batch) -> usize {
        let (now, timeout) = (cx.steady().0, self.switch.timeout());
        let listen = cx.outputs().saturating_sub(1);
        for packet in batch.drain() {
            match self.switch.way(source, &packet, now, timeout) {
                Way::Out(port) if port == source => cx.emit(listen, packet),
                Way::Out(port) => {
                    if let Some(copy) = cx.pool().clone(&packet) {
                        cx.emit(listen, copy);
                    }
                    cx.emit(port, packet);
                }
                Way::Flood => flood(cx, source, packet),
                Way::Nowhere => cx.emit(listen, packet),
            }
        }
        source
    }
}

/// Lets the switch `id` forget silent stations after `nanoseconds` for now, or by its own timeout
/// again.
pub(super) fn set_ageing(cx: &mut Cx<'_>, id: ElementId, nanoseconds: Option<u64>) {
    let done = cx.with(id, |element: &mut EtherSwitch, _| {
        element.switch.ageing = nanoseconds;
    });
    if done.is_none() {
        cx.with(id, |element: &mut ListenEtherSwitch, _| {
            element.switch.ageing = nanoseconds;
        });
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;
    use alloc::vec::Vec;

    use crate::testing::{Rig, ether};

    fn rig(arguments: &str, batch: usize) -> Rig {
        let config = format!(
            "i0 :: Inject -> [0] s :: EtherSwitch({arguments}); i1 :: Inject -> [1] s;
             i2 :: Inject -> [2] s;
             s[0] -> Paint(0) -> q :: Collect; s[1] -> Paint(1) -> q; s[2] -> Paint(2) -> q;"
        );
        Rig::with_batch(&config, batch)
    }

    fn frame(to: u8, from: u8, n: u8) -> Vec<u8> {
        ether([to; 6], [from; 6], 0x0800, &[n])
    }

    /// Outputs and numbers of what left, in order.
    fn left(rig: &mut Rig) -> Vec<(u8, u8)> {
        let packets = rig.collected("q");
        packets.iter().map(|packet| (packet.paint(), packet.data()[14])).collect()
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
        let to_1: Vec<u8> = out.iter().filter(|(p, _)| *p == 1).map(|(_, n)| *n).collect();
        assert_eq!(to_1.len(), 3);
        assert!(to_1.iter().position(|n| *n == 1) < to_1.iter().position(|n| *n == 4));
        out.sort_unstable();
        assert_eq!(out, [(1, 1), (1, 3), (1, 4), (2, 2), (2, 3), (2, 6)]);
    }

    #[test]
    fn group_sources_and_short_packets_teach_nothing() {
        let mut rig = rig("", 1);
        rig.push("i0", &frame(4, 3, 1));
        assert_eq!(left(&mut rig).len(), 2);
        rig.push("i0", &[2; 13]);
        assert_eq!(rig.read("s.table"), "");
        assert_eq!((rig.collected("q").len(), rig.outstanding()), (0, 0));
    }

    #[test]
    fn silent_stations_are_forgotten() {
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

    #[test]
    fn a_listener_sees_every_frame() {
        let mut rig = Rig::with_batch(
            "i0 :: Inject -> [0] s :: ListenEtherSwitch; i1 :: Inject -> [1] s;
             s[0] -> Paint(0) -> q :: Collect; s[1] -> Paint(1) -> q; s[2] -> Paint(2) -> q;",
            1,
        );
        rig.push("i0", &frame(4, 2, 1));
        assert_eq!(left(&mut rig), [(2, 1), (1, 1)]);
        rig.push("i1", &frame(2, 4, 2));
        assert_eq!(left(&mut rig), [(2, 2), (0, 2)]);
        rig.push("i1", &frame(4, 6, 3));
        assert_eq!(left(&mut rig), [(2, 3)]);
        rig.push("i1", &[9; 13]);
        assert_eq!(rig.collected("q")[0].paint(), 2);
    }

    #[test]
    fn a_switch_has_two_ports_at_least() {
        let errors: String = Rig::errors("Inject -> EtherSwitch -> Collect;");
        assert!(errors.contains("EtherSwitch"), "{errors}");
    }
}
