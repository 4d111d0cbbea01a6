//! What a flow's first bytes say of its protocol.

mod datagram;
mod stream;

pub use datagram::{datagram, rtp};
pub use stream::{from_client, from_server};

use super::name::{Alpn, Name};
use super::protocol::Protocol;
use super::reader::Reader;

/// What was found of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The protocol.
    pub protocol: Protocol,
    /// The server's name, as the client gives it.
    pub name: Name,
    /// The first protocol that the client offers in TLS.
    pub alpn: Alpn,
}

impl Found {
    /// A protocol without names.
    pub fn new(protocol: Protocol) -> Found {
        Found {
            protocol,
            ..Found::default()
        }
    }
}

/// What bytes may be the beginning of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guess {
    /// None of the protocols begins like this.
    None,
    /// Further bytes tell more. If none come, it is this.
    More(Option<Found>),
    /// It is this.
    Found(Found),
}

impl Guess {
    /// The better one of two guesses about the same bytes.
    pub fn or(self, other: Guess) -> Guess {
        match (self, other) {
            (Guess::Found(_), _) | (Guess::More(Some(_)), Guess::More(_)) | (_, Guess::None) => {
                self
            }
            _ => other,
        }
    }
}

/// What `then` guesses if bytes begin with a prefix; more are needed if they are part of it.
pub fn begins(bytes: &[u8], prefix: &[u8], then: impl FnOnce() -> Guess) -> Guess {
    if bytes.starts_with(prefix) {
        return then();
    }
    match prefix.starts_with(bytes) {
        true => Guess::More(None),
        false => Guess::None,
    }
}

fn found(protocol: Protocol) -> Guess {
    Guess::Found(Found::new(protocol))
}

/// The protocol if a condition holds.
fn found_if(condition: bool, protocol: Protocol) -> Guess {
    match condition {
        true => found(protocol),
        false => Guess::None,
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    let mut windows = bytes.windows(part.len());
    windows.any(|window| window.eq_ignore_ascii_case(part))
}

/// A message of the DNS (RFC 1035, section 4.1) with one question: the name that is asked for.
fn dns(message: &[u8]) -> Option<Found> {
    let mut rest = Reader(message);
    rest.number(2)?;
    let flags = rest.number(2)?;
    let opcode = flags >> 11 & 15;
    let (questions, answers) = (rest.number(2)?, rest.number(2)?);
    rest.number(4)?;
    let is_reply = flags & 0x8000 != 0;
    // A query, notify or update (RFC 1035, 1996 and 2136). The bit after the flags is zero.
    let is_right = matches!(opcode, 0 | 4 | 5)
        && flags & 0x40 == 0
        && questions == 1
        && (is_reply || answers == 0);
    if !is_right {
        return None;
    }
    let (mut name, mut length) = ([0; 255], 0);
    loop {
        let label = rest.counted(1)?;
        if label.is_empty() {
            break;
        }
        if label.len() > 63 || length + label.len() + 1 > name.len() {
            return None;
        }
        name[length..length + label.len()].copy_from_slice(label);
        name[length + label.len()] = b'.';
        length += label.len() + 1;
    }
    let (kind, class) = (rest.number(2)?, rest.number(2)?);
    // The highest bit is that of multicast DNS (RFC 6762).
    let is_right = kind != 0 && matches!(class & 0x7fff, 1 | 3 | 4 | 254 | 255);
    is_right.then(|| Found {
        name: Name::new(&name[..length]).unwrap_or_default(),
        ..Found::new(Protocol::Dns)
    })
}

/// A STUN message (RFC 8489, section 5), of which there may be more behind it.
fn is_stun(message: &[u8]) -> bool {
    let mut rest = Reader(message);
    let (Some(kind), Some(length), Some(cookie)) = (rest.number(2), rest.number(2), rest.number(4))
    else {
        return false;
    };
    kind >> 14 == 0
        && length.is_multiple_of(4)
        && cookie == 0x2112_a442
        && message.len() as u64 >= 20 + length
}

/// Whether a message of SNMP (RFC 3416) or LDAP (RFC 4511) begins, in BER: a sequence, and then an INTEGER of one byte.
/// Returns the integer, and what follows.
fn ber_message(message: &[u8]) -> Option<(u64, Reader<'_>)> {
    let mut rest = Reader(message);
    if rest.byte()? != 0x30 {
        return None;
    }
    let length = match rest.byte()? {
        short @ ..=0x7f => u64::from(short),
        long @ 0x81..=0x84 => rest.number(usize::from(long & 0x7f))?,
        _ => return None,
    };
    let is_right = length as usize == rest.0.len() && rest.number(2)? == 0x0201;
    let number = rest.number(1)?;
    is_right.then_some((number, rest))
}
