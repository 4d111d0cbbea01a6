//! What a port counts, in memory shared with whoever reads it.
//!
//! Each lane has counters of its own for each port and is their only writer, so a count is a load
//! and a store without a locked instruction; readers map the same file read-only
//! ([`crate::memory::CounterFile`]), add up the lanes', and cost them nothing. Counts are of frames
//! unless their names say bytes. They begin at 0 when a port is attached.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// Why a frame was dropped. A drop is counted at the port that could not take or give the frame:
/// the destination for everything about room and size, the source for everything about the frame
/// itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Reason {
    /// The guest's receive ring has no free slot.
    RingFull,
    /// The kernel has no buffer or no room in its queue for a frame to send.
    NoBuffer,
    /// The frame, or one segment of it, is longer than the port's MTU allows.
    TooLong,
    /// The frame is shorter than an Ethernet header.
    Runt,
    /// A checksum to be completed or a segmentation that cannot be done: unknown kind, a tunnel's
    /// inner headers, or numbers that contradict the frame.
    Offload,
    /// The guest's ring said what no honest guest says.
    Violation,
    /// The source address is a multicast address.
    MulticastSource,
    /// The destination is on the side that the frame came from.
    SameSide,
    /// No other port in the domain.
    NoDestination,
    /// The interface is down.
    LinkDown,
    /// The port is closed: its interface is gone, or its guest broke the ring's rules too often.
    Closed,
    /// The kernel dropped frames on their way to the switch, because the socket's queue was full.
    SocketFull,
    /// The source address is not the port's own (`protection=mac-nospoof`).
    SpoofedMac,
    /// The packet claims an IP address that is not the port's own (`protection=ip-nospoof`).
    SpoofedIp,
    /// A DHCP request for another, or a DHCP server's message (`protection=dhcp-nospoof`).
    SpoofedDhcp,
    /// Neither IP nor ARP (`protection=restricted`).
    Restricted,
    /// More broadcast, multicast or unknown unicast than the port may send (`flood-limit`).
    FloodLimit,
    /// More than the port's or the flow's rate (`maxbw`), where the sender could not be held back.
    OverLimit,
    /// A tagged frame from a port that gives access to one VLAN.
    Vlan,
    /// Lost on purpose (`loss`).
    Loss,
    /// More frames on their way than the port's line has room for (`delay`).
    LineFull,
    /// The lane that the frame was to cross to did not keep up. Counted at the source.
    CrossingFull,
    /// The frame went through too many patches, or came back by them: counted at the patch.
    PatchLoop,
    /// A packet of a tunnel that is none of its network: another VNI, or no VXLAN header.
    BadTunnel,
    /// A packet of a tunnel from a host that is no remote of the link's.
    UnknownRemote,
    /// The domain's lookup function let the frame go nowhere. Counted at the source.
    Lookup,
}

impl Reason {
    /// Number of reasons.
    pub const COUNT: usize = Self::ALL.len();

    /// All reasons, in the order of their numbers.
    pub const ALL: [Reason; 26] = [
        Reason::RingFull,
        Reason::NoBuffer,
        Reason::TooLong,
        Reason::Runt,
        Reason::Offload,
        Reason::Violation,
        Reason::MulticastSource,
        Reason::SameSide,
        Reason::NoDestination,
        Reason::LinkDown,
        Reason::Closed,
        Reason::SocketFull,
        Reason::SpoofedMac,
        Reason::SpoofedIp,
        Reason::SpoofedDhcp,
        Reason::Restricted,
        Reason::FloodLimit,
        Reason::OverLimit,
        Reason::Vlan,
        Reason::Loss,
        Reason::LineFull,
        Reason::CrossingFull,
        Reason::PatchLoop,
        Reason::BadTunnel,
        Reason::UnknownRemote,
        Reason::Lookup,
    ];

    /// The reason's name, as users see it.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::RingFull => "ring-full",
            Reason::NoBuffer => "no-buffer",
            Reason::TooLong => "too-long",
            Reason::Runt => "runt",
            Reason::Offload => "offload",
            Reason::Violation => "violation",
            Reason::MulticastSource => "multicast-source",
            Reason::SameSide => "same-side",
            Reason::NoDestination => "no-destination",
            Reason::LinkDown => "link-down",
            Reason::Closed => "closed",
            Reason::SocketFull => "socket-full",
            Reason::SpoofedMac => "spoofed-mac",
            Reason::SpoofedIp => "spoofed-ip",
            Reason::SpoofedDhcp => "spoofed-dhcp",
            Reason::Restricted => "restricted",
            Reason::FloodLimit => "flood-limit",
            Reason::OverLimit => "over-limit",
            Reason::Vlan => "vlan",
            Reason::Loss => "loss",
            Reason::LineFull => "line-full",
            Reason::CrossingFull => "crossing-full",
            Reason::PatchLoop => "patch-loop",
            Reason::BadTunnel => "bad-tunnel",
            Reason::UnknownRemote => "unknown-remote",
            Reason::Lookup => "lookup",
        }
    }
}

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
    spare: [AtomicU64; 18],
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

    /// Counts frames among those that came in that stand for several.
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

    /// Counts a frontend of a vhost-user port that came, or went.
    pub(crate) fn frontend(&self, came: bool) {
        match came {
            true => add(&self.frontends_came, 1),
            false => add(&self.frontends_went, 1),
        }
    }

    /// Counts one chain of `frames` slots taken up together, by a wake-up or by a poll.
    #[inline]
    pub(crate) fn chain(&self, frames: u64, by_wakeup: bool) {
        add(
            if by_wakeup {
                &self.by_wakeup
            } else {
                &self.by_poll
            },
            frames,
        );
        let class = match frames {
            0..10 => 0,
            10..=50 => 1,
            _ => 2,
        };
        add(&self.chains[class], 1);
    }

    /// Counts a change from sleeping to polling.
    pub(crate) fn woke(&self) {
        add(&self.wakeups, 1);
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
        for counter in first.into_iter().chain(&self.chains).chain(&self.drops) {
            counter.store(0, Ordering::Relaxed);
        }
    }

    /// The counters now. Each is exact; together they are as of about the same moment.
    pub fn read(&self) -> PortStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PortStats {
            frames_in: get(&self.frames_in),
            bytes_in: get(&self.bytes_in),
            frames_out: get(&self.frames_out),
            bytes_out: get(&self.bytes_out),
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
    /// Frames that the switch gave to the port; of one that was cut, each segment.
    pub frames_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Frames picked up while the port was being polled.
    pub by_poll: u64,
    /// Frames picked up first thing after a wake-up.
    pub by_wakeup: u64,
    /// Times the port went from sleeping to being polled.
    pub wakeups: u64,
    /// Chains of fewer than 10 frames taken up at once.
    pub chains_under_10: u64,
    /// Chains of 10 to 50 frames.
    pub chains_10_to_50: u64,
    /// Chains of more than 50 frames.
    pub chains_over_50: u64,
    /// Of the frames that the switch took from the port, those that stand for several segments.
    pub segmented_in: u64,
    /// Frames that stand for several and were cut for the port, since it takes segments only.
    pub cut: u64,
    /// Frontends of a vhost-user port that came.
    pub frontends_came: u64,
    /// Those of them that went again.
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

    /// Whether a vhost-user port has a frontend.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_numbered_as_listed_and_named_as_serialized() {
        for (i, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, i);
            let json = serde_json::to_string(&reason).unwrap();
            assert_eq!(json, format!("{:?}", reason.name()));
        }
    }
}
