//! What the packets of a connection have shown so far.

use crate::prelude::*;
use crate::rewriter::flow::Direction;

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Packets in one direction; of TCP, those of a connection that was picked up in the middle.
    New,
    /// Packets in both directions, of a protocol other than TCP.
    Replied,
    /// TCP: a SYN.
    SynSent,
    /// TCP: a SYN in both directions.
    SynReceived,
    /// TCP: a handshake.
    Established,
    /// TCP: a FIN of the side that opened the connection.
    FinForward,
    /// TCP: a FIN of the other side.
    FinReply,
    /// TCP: a FIN of both sides.
    Closed,
    /// TCP: a RST.
    Reset,
}

/// Which connections make room for others when all are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Claim {
    /// They are over: these first.
    Over,
    /// The other side is not known to be there: these next.
    Unconfirmed,
    /// They have their place until their time is up.
    Confirmed,
}

/// TCP's flags.
pub const FIN: u8 = 1;
/// See [`FIN`].
pub const SYN: u8 = 2;
/// See [`FIN`].
pub const RST: u8 = 4;
/// See [`FIN`].
pub const ACK: u8 = 16;

/// What a TCP segment does to its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Its state is this now.
    State(State),
    /// It is the first of another connection with the same addresses and ports.
    Restart,
    /// No connection has such a segment here.
    Invalid,
}

/// Whether a TCP header may have these flags: some do not go together, and a segment without any is
/// none.
pub fn are_flags_valid(flags: u8) -> bool {
    match flags & (FIN | SYN | RST) {
        0 | FIN => flags & ACK != 0,
        SYN | RST => true,
        _ => false,
    }
}

impl State {
    /// Whether the connection makes room for others.
    pub fn claim(self) -> Claim {
        match self {
            State::Closed | State::Reset => Claim::Over,
            State::New | State::SynSent | State::SynReceived => Claim::Unconfirmed,
            State::Replied | State::Established | State::FinForward | State::FinReply => {
                Claim::Confirmed
            }
        }
    }

    /// The state after a packet of another protocol than TCP.
    pub fn after_packet(self, direction: Direction) -> State {
        match direction {
            Direction::Forward => self,
            Direction::Reply => State::Replied,
        }
    }

    /// Whether a TCP connection had no handshake yet.
    pub fn is_opening(self) -> bool {
        matches!(self, State::New | State::SynSent | State::SynReceived)
    }

    /// What a TCP segment with `flags` does (RFC 9293, section 3.3.2, as seen from between). `ends` if its RST
    /// or FIN counts: its numbers are right.
    pub fn after_segment(self, direction: Direction, flags: u8, ends: bool) -> Step {
        use Direction::{Forward, Reply};
        use State::*;
        if flags & RST != 0 {
            // Before the other side answered, only its refusal is one.
            return match (self, direction) {
                (SynSent, Forward) => Step::State(self),
                _ if !ends => Step::State(self),
                _ => Step::State(Reset),
            };
        }
        let state = match (flags & SYN != 0, flags & ACK != 0, self, direction) {
            (true, false, Closed | Reset, _) => return Step::Restart,
            (true, false, SynSent, Reply) => SynReceived,
            (true, true, SynSent, Reply) => SynReceived,
            // Sent again, or an attempt that the side that has the connection answers.
            (true, ..) => self,
            (_, _, SynSent, Forward) => return Step::Invalid,
            // The other side still has a former connection, and says so.
            (_, _, SynSent, Reply) => return Step::State(self),
            (_, _, SynReceived, Forward) => Established,
            // Picked up in the middle, and now answered.
            (_, _, New, Reply) => Established,
            _ => self,
        };
        if flags & FIN == 0 || !ends {
            return Step::State(state);
        }
        Step::State(match (state, direction) {
            (FinReply, Forward) | (FinForward, Reply) => Closed,
            (SynReceived | Established, Forward) => FinForward,
            (SynReceived | Established, Reply) => FinReply,
            _ => state,
        })
    }

    /// The same, if the other side's segments take another path, and only those of the side that opened the
    /// connection are seen.
    pub fn after_one_way_segment(self, flags: u8) -> Step {
        use State::*;
        let state = match (flags & (RST | SYN | FIN), self) {
            (SYN, FinForward | Reset) => return Step::Restart,
            (SYN, _) => self,
            (0, New | SynSent) => Established,
            (0, _) => self,
            (FIN, New | SynSent | Established) => FinForward,
            (FIN, _) => self,
            _ => Reset,
        };
        Step::State(state)
    }
}

impl core::fmt::Display for State {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            State::New => "new",
            State::Replied => "replied",
            State::SynSent => "syn-sent",
            State::SynReceived => "syn-received",
            State::Established => "established",
            State::FinForward | State::FinReply => "fin",
            State::Closed => "closed",
            State::Reset => "reset",
        })
    }
}

/// Seconds that TCP connections live without packets, by their states.
#[derive(Component, Clone)]
pub struct TcpTimeouts {
    /// Seconds that a TCP connection lives without packets before its handshake is done.
    #[arg(default = 240)]
    tcp_opening: u32,
    /// Seconds that an established TCP connection lives without packets.
    #[arg(default = 7440)]
    tcp: u32,
    /// Seconds that a TCP connection lives without packets after a FIN of one side.
    #[arg(default = 240)]
    tcp_closing: u32,
    /// Seconds that a TCP connection lives without packets after a FIN of both sides.
    #[arg(default = 240)]
    tcp_closed: u32,
    /// Seconds that a TCP connection lives without packets after a RST.
    #[arg(default = 10)]
    tcp_reset: u32,
}

/// Seconds that connections live without packets, by their states.
#[derive(Component, Clone)]
pub struct Timeouts {
    #[flatten]
    tcp: TcpTimeouts,
    /// Seconds that a UDP flow lives without packets.
    #[arg(default = 300)]
    udp: u32,
    /// Seconds that a UDP flow lives without packets before the first reply.
    #[arg(default = 120)]
    udp_opening: u32,
    /// Seconds that ICMP queries live without packets.
    #[arg(default = 60)]
    icmp: u32,
    /// Seconds that flows of other protocols live without packets.
    #[arg(default = 600)]
    other: u32,
}

impl TcpTimeouts {
    /// The timeout of a connection.
    pub fn of(&self, state: State) -> u32 {
        match state {
            State::Established => self.tcp,
            State::FinForward | State::FinReply => self.tcp_closing,
            State::Closed => self.tcp_closed,
            State::Reset => self.tcp_reset,
            _ => self.tcp_opening,
        }
    }
}

impl Timeouts {
    /// The timeout of a connection.
    pub fn of(&self, protocol: IpProtocol, state: State) -> u32 {
        match (protocol, state) {
            (IpProtocol::TCP, state) => self.tcp.of(state),
            (IpProtocol::UDP, State::Replied) => self.udp,
            (IpProtocol::UDP, _) => self.udp_opening,
            (IpProtocol::ICMP | IpProtocol::ICMPV6, _) => self.icmp,
            _ => self.other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The states of a connection whose segments are these: `<` for replies, and the flags' letters.
    fn states(segments: &str) -> Vec<String> {
        let mut state = State::SynSent;
        let steps = segments.split(' ').map(|segment| {
            let direction = match segment.starts_with('<') {
                true => Direction::Reply,
                false => Direction::Forward,
            };
            let flags = segment.chars().map(|letter| match letter {
                'F' => FIN,
                'S' => SYN,
                'R' => RST,
                'A' => ACK,
                _ => 0,
            });
            match state.after_segment(direction, flags.sum(), true) {
                Step::State(next) => {
                    state = next;
                    next.to_string()
                }
                step => std::format!("{step:?}"),
            }
        });
        steps.collect()
    }

    #[test]
    fn a_connection_opens_and_closes() {
        let words = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
        for (segments, expected) in [
            (
                "<SA A <A FA <A <FA A",
                "syn-received established established fin fin closed closed",
            ),
            ("<SA A <FA A FA", "syn-received established fin fin closed"),
            (
                "S <SA S A S",
                "syn-sent syn-received syn-received established established",
            ),
            // Both open.
            (
                "<S SA <SA A",
                "syn-received syn-received syn-received established",
            ),
            // Refused; the opener's own RST says nothing yet.
            ("R <RA S", "syn-sent reset Restart"),
            ("<SA A R A", "syn-received established reset reset"),
            (
                "<SA A FA <FA S",
                "syn-received established fin closed Restart",
            ),
            (
                "A <A <FA R S",
                "Invalid syn-sent syn-sent syn-sent syn-sent",
            ),
        ] {
            assert_eq!(states(segments), words(expected), "{segments}");
        }
    }

    #[test]
    fn flags_that_do_not_go_together_are_told() {
        for flags in 0..64 {
            let has = |flag| flags & flag != 0;
            let right = match (has(SYN), has(FIN), has(RST)) {
                (true, false, false) | (false, false, true) => true,
                (false, _, false) => has(ACK),
                _ => false,
            };
            assert_eq!(are_flags_valid(flags), right, "{flags}");
        }
    }
}
