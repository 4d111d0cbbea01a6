//! The counters of ports, in memory that other processes can read, and of lanes.
//!
//! Each lane has counters of its own for each port and is their only writer, so a count is a load
//! and a store without a locked instruction; readers map the same file read-only
//! ([`crate::memory::CounterFile`]), add up the lanes' counters, and cost the lanes nothing. Counts
//! are of frames unless their names say bytes. They begin at 0 when a port is attached.

mod lane;
mod reason;

use std::sync::atomic::{AtomicU64, Ordering};

pub use lane::LaneStats;
pub(crate) use lane::{LaneCounters, LaneStatus};
pub use reason::Reason;

/// Room for reasons to come, so that the layout stays when one is added.
const REASONS_ROOM: usize = 32;

/// One port's counters, as they lie in shared memory.
#[repr(C, align(64))]
pub struct PortCounters {
    frames_in: AtomicU64,
    bytes_in: AtomicU64,
    frames_out: AtomicU64,
    bytes_out: AtomicU64,
    by_poll: AtomicU64,
    by_wakeup: AtomicU64,
    wakeups: AtomicU64,
    chains: [AtomicU64; 3],
    segmented_in: AtomicU64,
    cut: AtomicU64,
    frontends_came: AtomicU64,
    frontends_went: AtomicU64,
    /// Frames of settled flows, and their bytes, in and out; counted by one thread of all lanes.
    settled: [AtomicU64; 4],
    spare: [AtomicU64; 14],
    drops: [AtomicU64; REASONS_ROOM],
}

/// Bytes from one port's counters to the next's.
pub const PORT_COUNTERS_BYTES: usize = 512;
const _: () = assert!(size_of::<PortCounters>() == PORT_COUNTERS_BYTES);
const _: () = assert!(Reason::COUNT <= REASONS_ROOM);

/// Adds to a counter that has one writer.
#[inline]
fn add(counter: &AtomicU64, n: u64) {
    let now = counter.load(Ordering::Relaxed);
    counter.store(now.wrapping_add(n), Ordering::Relaxed);
}

/// The class of a chain by its length: under 10 frames, 10 to 50, over 50.
#[inline]
fn chain_class(frames: u64) -> usize {
    match frames {
        0..10 => 0,
        10..=50 => 1,
        _ => 2,
    }
}

impl PortCounters {
    /// Counts `frames` that came in from the port, `bytes` together.
    #[inline]
    pub(crate) fn came_in(&self, frames: u64, bytes: u64) {
        add(&self.frames_in, frames);
        add(&self.bytes_in, bytes);
    }

    /// Counts `frames` that left by the port, `bytes` together.
    #[inline]
    pub(crate) fn went_out(&self, frames: u64, bytes: u64) {
        add(&self.frames_out, frames);
        add(&self.bytes_out, bytes);
    }

    /// Takes `frames` that left by the port, `bytes` together, out of the count: they leave a second time.
    pub(crate) fn leave_again(&self, frames: u64, bytes: u64) {
        self.went_out(frames.wrapping_neg(), bytes.wrapping_neg());
    }

    /// Counts frames that came in and stand for several segments.
    #[inline]
    pub(crate) fn segmented_in(&self, frames: u64) {
        if frames > 0 {
            add(&self.segmented_in, frames);
        }
    }

    /// Counts a frame that stands for several and had to be cut for the port.
    #[inline]
    pub(crate) fn cut(&self) {
        add(&self.cut, 1);
    }

    /// Counts a frontend of a port that came, or went.
    pub(crate) fn frontend(&self, came: bool) {
        let counter = if came {
            &self.frontends_came
        } else {
            &self.frontends_went
        };
        add(counter, 1);
    }

    /// Counts one chain of `frames` slots taken together, after a wake-up or a poll.
    #[inline]
    pub(crate) fn chain(&self, frames: u64, by_wakeup: bool) {
        let by = if by_wakeup {
            &self.by_wakeup
        } else {
            &self.by_poll
        };
        add(by, frames);
        add(&self.chains[chain_class(frames)], 1);
    }

    /// Counts a change from sleeping to polling.
    pub(crate) fn woke(&self) {
        add(&self.wakeups, 1);
    }

    /// Counts frames of settled flows, and their bytes, that left by the port, if they went `out`, or came in.
    pub(crate) fn passed(&self, (frames, bytes): (u64, u64), out: bool) {
        let at = if out { 2 } else { 0 };
        add(&self.settled[at], frames);
        add(&self.settled[at + 1], bytes);
    }

    /// Counts `frames` dropped for `reason`.
    #[inline]
    pub(crate) fn dropped(&self, reason: Reason, frames: u64) {
        add(&self.drops[reason as usize], frames);
    }

    /// Sets all counters to 0.
    pub(crate) fn reset(&self) {
        let first = [
            &self.frames_in,
            &self.bytes_in,
            &self.frames_out,
            &self.bytes_out,
            &self.by_poll,
            &self.by_wakeup,
            &self.wakeups,
            &self.segmented_in,
            &self.cut,
            &self.frontends_came,
            &self.frontends_went,
        ];
        let lists = self.chains.iter().chain(&self.drops).chain(&self.settled);
        for counter in first.into_iter().chain(lists) {
            counter.store(0, Ordering::Relaxed);
        }
    }

    /// The counters now. Each is exact; together they are as of about the same moment.
    pub fn read(&self) -> PortStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PortStats {
            frames_in: get(&self.frames_in) + get(&self.settled[0]),
            bytes_in: get(&self.bytes_in) + get(&self.settled[1]),
            frames_out: get(&self.frames_out) + get(&self.settled[2]),
            bytes_out: get(&self.bytes_out) + get(&self.settled[3]),
            by_poll: get(&self.by_poll),
            by_wakeup: get(&self.by_wakeup),
            wakeups: get(&self.wakeups),
            chains_under_10: get(&self.chains[0]),
            chains_10_to_50: get(&self.chains[1]),
            chains_over_50: get(&self.chains[2]),
            segmented_in: get(&self.segmented_in),
            cut: get(&self.cut),
            frontends_came: get(&self.frontends_came),
            frontends_went: get(&self.frontends_went),
            drops: Reason::ALL.map(|reason| get(&self.drops[reason as usize])),
        }
    }
}

/// A reading of a port's counters. "In" is into the switch: what the guest or the link sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Frames that the switch took from the port. A frame that is yet to be segmented counts once.
    pub frames_in: u64,
    /// Their bytes, from the Ethernet header on.
    pub bytes_in: u64,
    /// Frames that the switch gave to the port; each segment of a segmented packet counts.
    pub frames_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Frames picked up while the port was being polled.
    pub by_poll: u64,
    /// Frames picked up first thing after a wake-up.
    pub by_wakeup: u64,
    /// Times the port went from sleeping to being polled.
    pub wakeups: u64,
    /// Chains of fewer than 10 frames taken together.
    pub chains_under_10: u64,
    /// Chains of 10 to 50 frames.
    pub chains_10_to_50: u64,
    /// Chains of more than 50 frames.
    pub chains_over_50: u64,
    /// Of the frames that the switch took from the port, frames that stand for several segments.
    pub segmented_in: u64,
    /// Frames that stand for several and were cut for the port, since it takes segments only.
    pub cut: u64,
    /// Frontends of a port that came.
    pub frontends_came: u64,
    /// Of these, frontends that went again.
    pub frontends_went: u64,
    drops: [u64; Reason::COUNT],
}

impl std::ops::AddAssign for PortStats {
    fn add_assign(&mut self, other: PortStats) {
        self.frames_in += other.frames_in;
        self.bytes_in += other.bytes_in;
        self.frames_out += other.frames_out;
        self.bytes_out += other.bytes_out;
        self.by_poll += other.by_poll;
        self.by_wakeup += other.by_wakeup;
        self.wakeups += other.wakeups;
        self.chains_under_10 += other.chains_under_10;
        self.chains_10_to_50 += other.chains_10_to_50;
        self.chains_over_50 += other.chains_over_50;
        self.segmented_in += other.segmented_in;
        self.cut += other.cut;
        self.frontends_came += other.frontends_came;
        self.frontends_went += other.frontends_went;
        for (sum, drops) in self.drops.iter_mut().zip(other.drops) {
            *sum += drops;
        }
    }
}

impl PortStats {
    /// Frames dropped for `reason`.
    pub fn dropped(&self, reason: Reason) -> u64 {
        self.drops[reason as usize]
    }

    /// Whether a frontend is connected to the port.
    pub fn has_frontend(&self) -> bool {
        self.frontends_came > self.frontends_went
    }

    /// The reasons for which frames were dropped, and how many for each; none that never happened.
    pub fn drops(&self) -> impl Iterator<Item = (Reason, u64)> + '_ {
        Reason::ALL
            .into_iter()
            .zip(self.drops)
            .filter(|&(_, frames)| frames > 0)
    }
}
