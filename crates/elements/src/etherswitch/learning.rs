//! The address learning of EtherSwitch and ListenEtherSwitch.

use super::stations::Stations;
use crate::filters::dispatch::DROP;
use crate::prelude::*;
use crate::standard::tee::copy;

const SECOND: u64 = 1_000_000_000;
/// Seconds of silence after which stations are dropped by default (IEEE Std 802.1D, table 7-5).
const TIMEOUT: Seconds = Seconds(300);
/// Most stations by default: of a big building, in half a MiB.
const CAPACITY: u32 = 8192;

/// The output of frames that go to every port but their own.
pub const FLOOD: u32 = DROP - 1;

/// The outputs of a batch's frames.
pub struct Outputs {
    /// For each frame its output, [`FLOOD`] or [`DROP`].
    pub of: [u32; BATCH],
    /// A bit for each frame that is flooded, the lowest for the first.
    pub flooded: u64,
}

/// A switch whose stations can be aged faster for a while.
pub trait Aging {
    /// Drops silent stations after `nanoseconds`, or with `None` after the switch's own timeout
    /// again.
    fn set_aging(&mut self, nanoseconds: Option<u64>);
}

impl Interface for dyn Aging {
    const NAME: &'static str = "EtherSwitch";
}

/// A switch's stations, and for how long it knows them.
#[derive(Component)]
#[component(handlers)]
pub struct Learning {
    /// How long a silent station stays in the table, in seconds; with 0, nothing is learned, and
    /// all frames go to all other ports.
    #[arg(default = TIMEOUT, default_text = "300", read = |timeout: &Seconds| timeout.0, write,
        error = "expected timeout (integer)")]
    timeout: Seconds,
    /// Most stations; frames for further stations go to all other ports.
    #[arg(default = CAPACITY, default_text = "8192")]
    capacity: u32,
    #[init(Stations::new(CAPACITY as usize))]
    stations: Stations,
    /// A shorter timeout that holds for now, in nanoseconds.
    pub aging: Option<u64>,
}

#[handlers]
impl Learning {
    /// The stations known and their ports, a line for each.
    #[read]
    fn table(&self) -> String {
        self.stations.table()
    }
}

impl Learning {
    pub fn configured(&mut self) {
        self.stations = Stations::new(self.capacity as usize);
    }

    /// How long stations may be silent, in nanoseconds.
    pub fn timeout(&self) -> u64 {
        let timeout = u64::from(self.timeout.0) * SECOND;
        self.aging.map_or(timeout, |aging| timeout.min(aging))
    }

    /// Learns the sources of frames from a port, and looks up where they go.
    #[inline]
    pub fn outputs(&mut self, cx: &Cx<'_>, source: usize, batch: &Batch) -> Outputs {
        let (now, timeout) = (cx.steady().0, self.timeout());
        let mut outputs = Outputs {
            of: [DROP; BATCH],
            flooded: 0,
        };
        for (i, (packet, output)) in batch.iter().zip(&mut outputs.of).enumerate() {
            *output = self.output(source as u32, packet, now, timeout);
            outputs.flooded |= u64::from(*output == FLOOD) << i;
        }
        outputs
    }

    #[inline(always)]
    fn output(&mut self, source: u32, packet: &Packet, now: u64, timeout: u64) -> u32 {
        let Ok(frame) = EthernetFrame::new_checked(packet.data()) else {
            return DROP;
        };
        if timeout == 0 {
            return FLOOD;
        }
        self.stations.learn(frame.source(), source, now, timeout);
        let to = frame.destination();
        if to.is_group() {
            return FLOOD;
        }
        match self.stations.find(to, now, timeout) {
            Some(port) if port == source => DROP,
            Some(port) => port,
            None => FLOOD,
        }
    }
}

/// The port that a flooded frame itself leaves by; the others get copies.
fn last(source: usize) -> usize {
    usize::from(source == 0)
}

/// The ports that get copies of a flooded frame, the last first.
fn others(cx: &Cx<'_>, source: usize) -> impl Iterator<Item = usize> + use<> {
    let ports = last(source) + 1..cx.outputs();
    ports.rev().filter(move |port| *port != source)
}

/// Sends a batch by every output but `source`, the last first. The frames in it go on by the output that is
/// returned.
pub fn flood_all(cx: &mut Cx<'_>, source: usize, batch: &Batch) -> usize {
    others(cx, source).for_each(|port| copy(cx, port, batch));
    last(source)
}

/// Sends a frame by every output but `source`, the last first.
pub fn flood(cx: &mut Cx<'_>, source: usize, packet: Packet) {
    for port in others(cx, source) {
        // If there is no buffer for a copy, this output gets none.
        if let Some(copy) = cx.pool().clone(&packet) {
            cx.emit(port, copy);
        }
    }
    cx.emit(last(source), packet);
}
