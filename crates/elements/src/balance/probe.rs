//! One check of a server by TCP: as a client that opens a connection, may ask for a page, and resets
//! the connection as soon as it knows.

use crate::local::segment::Segment;
use crate::prelude::*;

/// Bytes of a status line up to its code: `HTTP/1.1 200`.
const STATUS: usize = 12;

/// A check that is under way.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// Whether a page is asked for.
    asks: bool,
    /// Whether the server accepted the connection.
    open: bool,
    /// The next number to send, and the number expected next.
    sequence: u32,
    expected: u32,
    line: [u8; STATUS],
    have: usize,
}

/// A segment to send: flags and numbers, and whether the request is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Send {
    pub flags: TcpFlags,
    pub sequence: u32,
    pub acknowledgment: u32,
    pub request: bool,
}

/// Why a server is not healthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nothing came in time.
    Silent,
    /// The server reset the connection.
    Refused,
    /// A page's status is neither success nor another place.
    Status(u16),
    /// What came is no HTTP.
    Foreign,
}

impl core::fmt::Display for Failure {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Failure::Silent => f.write_str("no answer in time"),
            Failure::Refused => f.write_str("connection refused"),
            Failure::Status(code) => write!(f, "HTTP status {code}"),
            Failure::Foreign => f.write_str("the answer is not HTTP"),
        }
    }
}

/// What a segment of the server leads to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    pub send: Option<Send>,
    /// How the check ended.
    pub result: Option<Result<(), Failure>>,
}

impl Probe {
    /// A check that begins with this sequence number.
    pub fn new(asks: bool, sequence: u32) -> Probe {
        Probe {
            asks,
            open: false,
            sequence,
            expected: 0,
            line: [0; STATUS],
            have: 0,
        }
    }

    fn segment(&self, flags: TcpFlags, request: bool) -> Send {
        Send {
            flags,
            sequence: self.sequence,
            acknowledgment: self.expected,
            request,
        }
    }

    /// What is sent first, and again as long as no answer comes.
    pub fn next(&self) -> Send {
        match self.open {
            false => Send {
                acknowledgment: 0,
                ..self.segment(TcpFlags::SYN, false)
            },
            true => self.segment(TcpFlags::PSH | TcpFlags::ACK, true),
        }
    }

    /// Ends the check, and the connection with it: after a request of so many bytes, its number is behind them.
    fn end(&self, result: Result<(), Failure>, sent: u32) -> Step {
        let mut reset = self.segment(TcpFlags::RST | TcpFlags::ACK, false);
        reset.sequence = reset.sequence.wrapping_add(sent);
        Step {
            send: Some(reset),
            result: Some(result),
        }
    }

    /// The server's answer, with its data; `request` is the request's length.
    pub fn receive(&mut self, segment: &Segment<IpAddr>, data: &[u8], request: u32) -> Step {
        let sent = if self.open { request } else { 1 };
        let behind = segment.acknowledgment.wrapping_sub(self.sequence);
        if segment.has(TcpFlags::RST) {
            let is_ours = match self.open {
                false => segment.has(TcpFlags::ACK) && behind == 1,
                true => segment.sequence == self.expected,
            };
            return Step {
                send: None,
                result: is_ours.then_some(Err(Failure::Refused)),
            };
        }
        if !segment.has(TcpFlags::ACK) || behind > sent {
            return Step::default();
        }
        if !self.open {
            if !segment.has(TcpFlags::SYN) || behind != 1 {
                return Step::default();
            }
            self.sequence = self.sequence.wrapping_add(1);
            self.expected = segment.sequence.wrapping_add(1);
            self.open = true;
            return match self.asks {
                false => self.end(Ok(()), 0),
                true => Step {
                    send: Some(self.next()),
                    result: None,
                },
            };
        }
        // What came before, or leaves a gap, is sent again by the server.
        if segment.sequence != self.expected || segment.has(TcpFlags::SYN) {
            return Step::default();
        }
        let taken = data.len().min(STATUS - self.have);
        self.line[self.have..self.have + taken].copy_from_slice(&data[..taken]);
        self.have += taken;
        self.expected = self.expected.wrapping_add(data.len() as u32);
        if self.have == STATUS {
            return self.end(status(&self.line), request);
        }
        match segment.has(TcpFlags::FIN) {
            true => self.end(Err(Failure::Foreign), request),
            false => Step::default(),
        }
    }
}

/// Whether a status line is that of a page that is there.
pub fn status(line: &[u8; STATUS]) -> Result<(), Failure> {
    let code = line.strip_prefix(b"HTTP/1.").and_then(|rest| match rest {
        [b'0' | b'1', b' ', code @ ..] if code.iter().all(u8::is_ascii_digit) => Some(
            code.iter()
                .fold(0, |code, digit| 10 * code + u16::from(digit - b'0')),
        ),
        _ => None,
    });
    match code {
        Some(200..400) => Ok(()),
        Some(code) => Err(Failure::Status(code)),
        None => Err(Failure::Foreign),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACK: TcpFlags = TcpFlags::ACK;
    const REQUEST: u32 = 50;

    fn segment(
        flags: TcpFlags,
        sequence: u32,
        acknowledgment: u32,
        payload: u32,
    ) -> Segment<IpAddr> {
        Segment {
            source: (Ipv4Addr::LOCALHOST.into(), 80),
            destination: (Ipv4Addr::LOCALHOST.into(), 1),
            flags,
            sequence,
            acknowledgment,
            payload,
        }
    }

    /// A probe whose connection is open; the server's numbers begin at 700.
    fn open(asks: bool) -> (Probe, Step) {
        let mut probe = Probe::new(asks, u32::MAX);
        assert_eq!(probe.next().sequence, u32::MAX);
        let answer = segment(TcpFlags::SYN | ACK, 700, 0, 0);
        let step = probe.receive(&answer, &[], REQUEST);
        (probe, step)
    }

    #[test]
    fn an_open_port_is_enough_for_tcp() {
        let (_, step) = open(false);
        let send = step.send.unwrap();
        assert_eq!(step.result, Some(Ok(())));
        assert!(send.flags.contains(TcpFlags::RST) && send.sequence == 0);
    }

    #[test]
    fn a_closed_port_is_told_at_once() {
        let refuse = |acknowledgment| segment(TcpFlags::RST | ACK, 0, acknowledgment, 0);
        let mut probe = Probe::new(true, 9);
        assert_eq!(probe.receive(&refuse(9), &[], REQUEST), Step::default());
        let step = probe.receive(&refuse(10), &[], REQUEST);
        assert_eq!(step.result, Some(Err(Failure::Refused)));
    }

    #[test]
    fn the_status_may_come_in_pieces_and_twice() {
        let (mut probe, step) = open(true);
        let send = step.send.unwrap();
        assert!(send.request && send.sequence == 0 && send.acknowledgment == 701);
        assert_eq!(probe.next(), send);
        let text = b"HTTP/1.1 204 No Content\r\n";
        for (at, length) in [(5, 4), (0, 4), (0, 4), (4, 4)] {
            let answer = segment(ACK, 701 + at, REQUEST, length);
            let data = &text[at as usize..][..length as usize];
            assert_eq!(probe.receive(&answer, data, REQUEST), Step::default());
        }
        let answer = segment(ACK, 709, REQUEST, 10);
        let step = probe.receive(&answer, &text[8..18], REQUEST);
        assert_eq!(step.result, Some(Ok(())));
        let reset = step.send.unwrap();
        assert_eq!((reset.sequence, reset.acknowledgment), (REQUEST, 719));
    }

    #[test]
    fn statuses_are_told_apart() {
        for (line, expected) in [
            (b"HTTP/1.0 399", Ok(())),
            (b"HTTP/1.1 503", Err(Failure::Status(503))),
            (b"HTTP/1.1 100", Err(Failure::Status(100))),
            (b"HTTP/2.0 200", Err(Failure::Foreign)),
            (b"SSH-2.0-Open", Err(Failure::Foreign)),
        ] {
            assert_eq!(status(line), expected);
        }
    }

    proptest::proptest! {
        /// Whatever comes, a check ends once, and no failure is made up before an answer.
        #[test]
        fn any_segments(
            asks: bool,
            start: u32,
            steps in proptest::collection::vec((0u16..64, 0u32..4, 0u32..60, proptest::collection::vec(0u8.., 0..20)), 0..40),
        ) {
            let mut probe = Probe::new(asks, start);
            for (flags, sequence, acknowledgment, data) in steps {
                let flags = TcpFlags::from_bits(flags);
                let (sequence, acknowledgment) = (700 + sequence, start.wrapping_add(acknowledgment));
                let segment = segment(flags, sequence, acknowledgment, data.len() as u32);
                let was_open = probe.open;
                let step = probe.receive(&segment, &data, REQUEST);
                proptest::prop_assert!(was_open || asks || step.result != Some(Err(Failure::Foreign)));
                if step.result.is_some() {
                    break;
                }
            }
        }
    }
}
