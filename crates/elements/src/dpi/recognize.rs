//! What a flow's first bytes say of its protocol.

mod datagram;
mod stream;

pub use datagram::{datagram, rtp};
pub use stream::{from_client, from_server};

use super::guess::{Found, Guess, begins};
use super::name::Name;
use super::protocol::Protocol;
use super::reader::Reader;

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
