//! A subscriber of the BRAS: PPPoE discovery, LCP, PAP and IPCP (RFC 2516, 1661, 1334, 1332), over a
//! Unix socket that carries Ethernet frames.

use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Its name and secret, as PAP has them.
const CREDENTIALS: &[u8] = b"\x03ann\x06secret";
/// The session: the first that a BRAS gives.
pub const SESSION: u16 = 1;
/// The type of the frame that starts the traffic, which is nobody's.
pub const START: u16 = 0x9000;
/// How long all of it may take.
const LIMIT: Duration = Duration::from_secs(20);

/// Time after which a BRAS passes a session's packets, and some more.
const PAUSE: Duration = Duration::from_millis(250);

/// Types of PPPoE's frames.
const DISCOVERY: u16 = 0x8863;
pub const PACKETS: u16 = 0x8864;
/// Codes of discovery.
const PADI: u8 = 0x09;
const PADO: u8 = 0x07;
const PADR: u8 = 0x19;
const PADS: u8 = 0x65;
/// The tags of a service, any, and of a cookie.
const SERVICE: &[u8] = &[1, 1, 0, 0];
const COOKIE: u16 = 0x0104;
/// Protocols of PPP.
const LCP: u16 = 0xc021;
const PAP: u16 = 0xc023;
const IPCP: u16 = 0x8021;
/// Codes of control packets.
const REQUEST: u8 = 1;
const ACK: u8 = 2;
const NAK: u8 = 3;

/// A subscriber's side of the line.
pub struct Subscriber {
    socket: UnixDatagram,
    /// Where the router takes frames.
    router: PathBuf,
    own: [u8; 6],
    server: [u8; 6],
}

/// A control protocol: whether each side's request was acknowledged.
#[derive(Default)]
struct Layer {
    own: bool,
    other: bool,
}

impl Layer {
    fn is_open(&self) -> bool {
        self.own && self.other
    }
}

impl Subscriber {
    /// A subscriber of this address whose frames come to the socket `here`.
    pub fn new(here: &Path, router: &Path, own: [u8; 6]) -> std::io::Result<Subscriber> {
        for path in [here, router] {
            let _ = std::fs::remove_file(path);
        }
        let socket = UnixDatagram::bind(here)?;
        socket.set_read_timeout(Some(Duration::from_millis(50)))?;
        Ok(Subscriber {
            socket,
            router: router.into(),
            own,
            server: [0xff; 6],
        })
    }

    /// Sends a frame. The router may not be there yet.
    fn send(&self, kind: u16, code: u8, session: u16, payload: &[u8]) -> std::io::Result<()> {
        let mut frame = [self.server, self.own].concat();
        frame.extend(kind.to_be_bytes());
        frame.extend([0x11, code]);
        frame.extend(session.to_be_bytes());
        frame.extend((payload.len() as u16).to_be_bytes());
        frame.extend(payload);
        frame.resize(frame.len().max(60), 0);
        match self.socket.send_to(&frame, &self.router) {
            Err(error)
                if !matches!(
                    error.kind(),
                    ErrorKind::NotFound | ErrorKind::ConnectionRefused
                ) =>
            {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// Sends a control packet.
    fn control(&self, protocol: u16, code: u8, number: u8, data: &[u8]) -> std::io::Result<()> {
        let mut packet = protocol.to_be_bytes().to_vec();
        packet.extend([code, number]);
        packet.extend((data.len() as u16 + 4).to_be_bytes());
        packet.extend(data);
        self.send(PACKETS, 0, SESSION, &packet)
    }

    /// Gets a session up, and starts the traffic.
    pub fn start(&mut self) -> std::io::Result<()> {
        let start = Instant::now();
        let (mut lcp, mut ipcp) = (Layer::default(), Layer::default());
        let mut frame = [0; 2048];
        let mut is_offered = false;
        while !ipcp.is_open() {
            if start.elapsed() > LIMIT {
                return Err(ErrorKind::TimedOut.into());
            }
            if !is_offered {
                self.send(DISCOVERY, PADI, 0, SERVICE)?;
            }
            let length = match self.socket.recv(&mut frame) {
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            };
            let Some((code, payload)) = payload(&frame[..length]) else {
                continue;
            };
            match code {
                PADO if !is_offered => {
                    is_offered = true;
                    self.server.copy_from_slice(&frame[6..12]);
                    let cookie = cookie(payload);
                    self.send(DISCOVERY, PADR, 0, &[SERVICE, cookie].concat())?;
                }
                PADS => self.control(LCP, REQUEST, 1, &[])?,
                0 => self.answer(payload, &mut lcp, &mut ipcp)?,
                _ => (),
            }
        }
        std::thread::sleep(PAUSE);
        self.send(START, 0, 0, &[])
    }

    /// Answers a packet of PPP.
    fn answer(&self, packet: &[u8], lcp: &mut Layer, ipcp: &mut Layer) -> std::io::Result<()> {
        let [a, b, code, number, c, d, ref data @ ..] = *packet else {
            return Ok(());
        };
        let length = usize::from(u16::from_be_bytes([c, d])).saturating_sub(4);
        let data = data.get(..length).unwrap_or_default();
        let protocol = u16::from_be_bytes([a, b]);
        match (protocol, code) {
            (LCP | IPCP, REQUEST) => {
                self.control(protocol, ACK, number, data)?;
                if protocol == LCP { &mut *lcp } else { ipcp }.other = true;
            }
            (LCP, ACK) => lcp.own = true,
            (IPCP, ACK) => ipcp.own = true,
            // The address that it gets; its first request has none.
            (IPCP, NAK) => self.control(IPCP, REQUEST, 2, data)?,
            (PAP, ACK) => self.control(IPCP, REQUEST, 1, &[3, 6, 0, 0, 0, 0])?,
            _ => (),
        }
        if protocol == LCP && lcp.is_open() {
            self.control(PAP, REQUEST, 1, CREDENTIALS)?;
        }
        Ok(())
    }
}

/// The code and payload of a frame of PPPoE.
fn payload(frame: &[u8]) -> Option<(u8, &[u8])> {
    let kind = u16::from_be_bytes([*frame.get(12)?, *frame.get(13)?]);
    let length = u16::from_be_bytes([*frame.get(18)?, *frame.get(19)?]);
    let payload = frame.get(20..20 + usize::from(length))?;
    [DISCOVERY, PACKETS]
        .contains(&kind)
        .then_some((frame[15], payload))
}

/// The tag of the cookie among an offer's tags.
fn cookie(mut tags: &[u8]) -> &[u8] {
    while let [a, b, c, d, ..] = *tags {
        let end = 4 + usize::from(u16::from_be_bytes([c, d]));
        let Some(tag) = tags.get(..end) else {
            break;
        };
        if u16::from_be_bytes([a, b]) == COOKIE {
            return tag;
        }
        tags = &tags[end..];
    }
    &[]
}
