//! Why frames are dropped.

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
    HandoffFull,
    /// The frame went through too many patches, or came back by them: counted at the patch.
    PatchLoop,
    /// A packet of a tunnel that is none of its network: another VNI, or no tunnel header.
    BadTunnel,
    /// A packet of a tunnel from a host that is no remote of the link's.
    UnknownRemote,
    /// The domain's lookup function let the frame go nowhere. Counted at the source.
    Lookup,
    /// Not for the guest that the port waits to start: another Ethernet address, or a question for an IP address that
    /// is not the port's own (`allowed-ips`). Of TCP with a guest for each connection: a segment of none that began here.
    NotAwaited,
    /// A new TCP connection, while each guest that there may be for one has one.
    NoGuest,
}

impl Reason {
    /// Number of reasons.
    pub const COUNT: usize = Self::ALL.len();

    /// All reasons, in the order of their numbers.
    pub const ALL: [Reason; 28] = [
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
        Reason::HandoffFull,
        Reason::PatchLoop,
        Reason::BadTunnel,
        Reason::UnknownRemote,
        Reason::Lookup,
        Reason::NotAwaited,
        Reason::NoGuest,
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
            Reason::HandoffFull => "handoff-full",
            Reason::PatchLoop => "patch-loop",
            Reason::BadTunnel => "bad-tunnel",
            Reason::UnknownRemote => "unknown-remote",
            Reason::Lookup => "lookup",
            Reason::NotAwaited => "not-awaited",
            Reason::NoGuest => "no-guest",
        }
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
