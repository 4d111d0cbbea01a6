//! The address learning of EtherSwitch and ListenEtherSwitch.

use super::stations::Stations;
use crate::prelude::*;

const SECOND: u64 = 1_000_000_000;
/// Seconds of silence after which stations are dropped by default (IEEE Std 802.1D, table 7-5).
const TIMEOUT: Seconds = Seconds(300);
/// Most stations by default: of a big building, in half a MiB.
const CAPACITY: u32 = 8192;

/// A frame's destination.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    Port(usize),
    /// Every port but the frame's own.
    Flood,
    Nowhere,
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

    /// Learns a frame's source, and looks its destination up.
    #[inline(always)]
    pub fn destination(
        &mut self,
        source: usize,
        packet: &Packet,
        now: u64,
        timeout: u64,
    ) -> Destination {
        let Ok(frame) = EthernetFrame::new_checked(packet.data()) else {
            return Destination::Nowhere;
        };
        if timeout == 0 {
            return Destination::Flood;
        }
        let from = frame.source();
        self.stations.learn(from, source as u32, now, timeout);
        let to = frame.destination();
        if to.is_group() {
            return Destination::Flood;
        }
        match self.stations.find(to, now, timeout) {
            Some(port) => Destination::Port(port as usize),
            None => Destination::Flood,
        }
    }
}

/// Sends a frame by every output but `source`, the last first.
pub fn flood(cx: &mut Cx<'_>, source: usize, packet: Packet) {
    let outputs = cx.outputs();
    let last = usize::from(source == 0);
    for port in (last + 1..outputs).rev().filter(|port| *port != source) {
        // If there is no buffer for a copy, this output gets none.
        if let Some(copy) = cx.pool().clone(&packet) {
            cx.emit(port, copy);
        }
    }
    cx.emit(last, packet);
}
