//! Messages of RADIUS (RFC 2865, RFC 2866, RFC 2869, RFC 3579).
//!
//! ```text
//!  0      1    2        4               20
//! +------+----+--------+---------------+------------
//! | code | id | length | authenticator | attributes
//! +------+----+--------+---------------+------------
//! ```

use hmac::{Hmac, KeyInit, Mac};
use md5::{Digest, Md5};
use subtle::ConstantTimeEq;

use super::authority::Terms;
use crate::prelude::*;

/// Length of a message without attributes.
const HEADER: usize = 20;
/// Longest message.
const LENGTH_MAX: usize = 4096;
/// Length of an authenticator.
pub const AUTHENTICATOR: usize = 16;

/// Codes of messages.
pub mod code {
    pub const ACCESS_REQUEST: u8 = 1;
    pub const ACCESS_ACCEPT: u8 = 2;
    pub const ACCESS_REJECT: u8 = 3;
    pub const ACCOUNTING_REQUEST: u8 = 4;
    pub const ACCOUNTING_RESPONSE: u8 = 5;
    pub const ACCESS_CHALLENGE: u8 = 11;
}

/// Types of attributes.
pub mod attribute {
    pub const USER_NAME: u8 = 1;
    pub const USER_PASSWORD: u8 = 2;
    pub const CHAP_PASSWORD: u8 = 3;
    pub const NAS_IP_ADDRESS: u8 = 4;
    pub const NAS_PORT: u8 = 5;
    pub const SERVICE_TYPE: u8 = 6;
    pub const FRAMED_PROTOCOL: u8 = 7;
    pub const FRAMED_IP_ADDRESS: u8 = 8;
    pub const REPLY_MESSAGE: u8 = 18;
    pub const CLASS: u8 = 25;
    pub const SESSION_TIMEOUT: u8 = 27;
    pub const IDLE_TIMEOUT: u8 = 28;
    pub const CALLING_STATION_ID: u8 = 31;
    pub const NAS_IDENTIFIER: u8 = 32;
    pub const ACCT_STATUS_TYPE: u8 = 40;
    pub const ACCT_INPUT_OCTETS: u8 = 42;
    pub const ACCT_OUTPUT_OCTETS: u8 = 43;
    pub const ACCT_SESSION_ID: u8 = 44;
    pub const ACCT_AUTHENTIC: u8 = 45;
    pub const ACCT_SESSION_TIME: u8 = 46;
    pub const ACCT_INPUT_PACKETS: u8 = 47;
    pub const ACCT_OUTPUT_PACKETS: u8 = 48;
    pub const ACCT_TERMINATE_CAUSE: u8 = 49;
    pub const ACCT_INPUT_GIGAWORDS: u8 = 52;
    pub const ACCT_OUTPUT_GIGAWORDS: u8 = 53;
    pub const EVENT_TIMESTAMP: u8 = 55;
    pub const CHAP_CHALLENGE: u8 = 60;
    pub const NAS_PORT_TYPE: u8 = 61;
    pub const MESSAGE_AUTHENTICATOR: u8 = 80;
    pub const ACCT_INTERIM_INTERVAL: u8 = 85;
    pub const FRAMED_INTERFACE_ID: u8 = 96;
    pub const FRAMED_IPV6_PREFIX: u8 = 97;
}

/// A request that is written.
pub struct RadiusRequest {
    bytes: Vec<u8>,
}

impl RadiusRequest {
    /// A request without attributes. The authenticator of an account is computed at the end.
    pub fn new(code: u8, id: u8, authenticator: [u8; AUTHENTICATOR]) -> RadiusRequest {
        let mut bytes = Vec::with_capacity(384);
        bytes.extend_from_slice(&[code, id, 0, 0]);
        bytes.extend_from_slice(&authenticator);
        // First, so that no prefix of the message is chosen by others (the attack of "Blast-RADIUS").
        if code == code::ACCESS_REQUEST {
            bytes.extend_from_slice(&[attribute::MESSAGE_AUTHENTICATOR, 18]);
            bytes.extend_from_slice(&[0; AUTHENTICATOR]);
        }
        RadiusRequest { bytes }
    }

    /// Adds an attribute, of at most 253 bytes.
    pub fn add(&mut self, kind: u8, value: &[u8]) {
        let value = value.get(..value.len().min(253)).unwrap_or_default();
        self.bytes.extend_from_slice(&[kind, 2 + value.len() as u8]);
        self.bytes.extend_from_slice(value);
    }

    /// Adds a number.
    pub fn number(&mut self, kind: u8, value: u32) {
        self.add(kind, &value.to_be_bytes());
    }

    /// Adds a password, hidden (RFC 2865, section 5.2).
    pub fn password(&mut self, password: &[u8], secret: &[u8]) {
        let mut last = self.authenticator();
        let mut hidden = Vec::with_capacity(128);
        let blocks = password.chunks(16).take(8);
        // An empty password is a block of zeros.
        let empty: &[u8] = &[];
        for block in blocks.chain(password.is_empty().then_some(empty)) {
            let mut digest = Md5::new();
            digest.update(secret);
            digest.update(last);
            last = digest.finalize().into();
            for (byte, plain) in last.iter_mut().zip(block) {
                *byte ^= plain;
            }
            hidden.extend_from_slice(&last);
        }
        self.add(attribute::USER_PASSWORD, &hidden);
    }

    fn authenticator(&self) -> [u8; AUTHENTICATOR] {
        let bytes = self.bytes.get(4..).and_then(<[u8]>::first_chunk);
        bytes.copied().unwrap_or_default()
    }

    /// The message, signed, and its authenticator.
    pub fn finish(mut self, secret: &[u8]) -> (Vec<u8>, [u8; AUTHENTICATOR]) {
        let length = (self.bytes.len() as u16).to_be_bytes();
        self.bytes[2..4].copy_from_slice(&length);
        if self.bytes[0] == code::ACCESS_REQUEST {
            let signature = signature(&[&self.bytes], secret);
            self.bytes[HEADER + 2..HEADER + 18].copy_from_slice(&signature);
        } else {
            let digest = Md5::new()
                .chain_update(&self.bytes)
                .chain_update(secret)
                .finalize();
            self.bytes[4..HEADER].copy_from_slice(&digest);
        }
        let authenticator = self.authenticator();
        (self.bytes, authenticator)
    }
}

/// HMAC-MD5 of a message.
fn signature(parts: &[&[u8]], secret: &[u8]) -> [u8; AUTHENTICATOR] {
    let Ok(mut mac) = Hmac::<Md5>::new_from_slice(secret) else {
        return [0; AUTHENTICATOR];
    };
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RadiusAnswer<'p> {
    pub code: u8,
    pub id: u8,
    message: &'p [u8],
    authenticator: &'p [u8; AUTHENTICATOR],
}

impl<'p> RadiusAnswer<'p> {
    /// Reads an answer, which padding may follow; `None` if it or one of its attributes is not whole.
    pub fn parse(bytes: &'p [u8]) -> Option<RadiusAnswer<'p>> {
        let &[code, id, a, b] = bytes.first_chunk()?;
        let length = usize::from(u16::from_be_bytes([a, b]));
        let message = bytes.get(..length).filter(|_| length <= LENGTH_MAX)?;
        let authenticator = message.get(4..HEADER)?.first_chunk()?;
        let mut rest = message.get(HEADER..)?;
        while !rest.is_empty() {
            let length = usize::from(*rest.get(1)?);
            rest = rest.get(length..).filter(|_| length >= 2)?;
        }
        Some(RadiusAnswer {
            code,
            id,
            message,
            authenticator,
        })
    }

    /// The attributes: where each value begins, its type and itself.
    fn attributes(&self) -> impl Iterator<Item = (usize, u8, &'p [u8])> {
        let (message, mut at) = (self.message, HEADER);
        core::iter::from_fn(move || {
            let &[kind, length] = message.get(at..)?.first_chunk()?;
            let start = at + 2;
            at += usize::from(length);
            Some((start, kind, message.get(start..at)?))
        })
    }

    fn find(&self, wanted: u8) -> Option<&'p [u8]> {
        let mut attributes = self.attributes();
        attributes.find_map(|(_, kind, value)| (kind == wanted).then_some(value))
    }

    fn number(&self, kind: u8) -> Option<u32> {
        Some(u32::from_be_bytes(self.find(kind)?.try_into().ok()?))
    }

    /// Whether a server that knows the secret answers this request. A Message-Authenticator that the answer has must be
    /// right.
    pub fn is_authentic(&self, request: &[u8; AUTHENTICATOR], secret: &[u8]) -> bool {
        let (Some(head), Some(attributes)) = (self.message.get(..4), self.message.get(HEADER..))
        else {
            return false;
        };
        let expected = Md5::new()
            .chain_update(head)
            .chain_update(request)
            .chain_update(attributes)
            .chain_update(secret)
            .finalize();
        if !bool::from(expected[..].ct_eq(&self.authenticator[..])) {
            return false;
        }
        let Some((at, value)) = self.signature() else {
            return true;
        };
        let (Some(before), Some(after)) = (
            self.message.get(HEADER..at),
            self.message.get(at + AUTHENTICATOR..),
        ) else {
            return false;
        };
        let parts = [head, request, before, &[0; AUTHENTICATOR], after];
        bool::from(signature(&parts, secret)[..].ct_eq(value))
    }

    /// Whether it has a Message-Authenticator.
    pub fn is_signed(&self) -> bool {
        self.signature().is_some()
    }

    /// The Message-Authenticator, and where it stands.
    fn signature(&self) -> Option<(usize, &[u8])> {
        let mut all = self.attributes();
        let found = all.find(|(_, kind, _)| *kind == attribute::MESSAGE_AUTHENTICATOR);
        found.map(|(at, _, value)| (at, value))
    }

    /// What a user gets.
    pub fn terms(&self) -> Terms {
        let address = self.number(attribute::FRAMED_IP_ADDRESS);
        // The two highest let the user or the concentrator choose.
        let address = address.filter(|address| *address < 0xffff_fffe);
        let interface_id = self.find(attribute::FRAMED_INTERFACE_ID);
        let class = self.find(attribute::CLASS);
        Terms {
            address: address.map(Ipv4Addr::from_bits),
            interface_id: interface_id.and_then(|id| id.try_into().ok()),
            lasts: self.number(attribute::SESSION_TIMEOUT).unwrap_or(0),
            idle: self.number(attribute::IDLE_TIMEOUT).unwrap_or(0),
            interim: self.number(attribute::ACCT_INTERIM_INTERVAL).unwrap_or(0),
            class: class
                .and_then(|class| heapless::Vec::from_slice(class).ok())
                .unwrap_or_default(),
        }
    }

    /// The text for the user; empty if there is none.
    pub fn text(&self) -> &'p str {
        let text = self.find(attribute::REPLY_MESSAGE);
        text.and_then(|text| core::str::from_utf8(text).ok())
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The example of RFC 2865, section 7.1.
    #[test]
    fn the_rfc_s_example_is_right() {
        let authenticator = *b"\x0f\x40\x3f\x94\x73\x97\x80\x57\xbd\x83\xd5\xcb\x98\xf4\x22\x7a";
        let secret = b"xyzzy5461";
        let mut request = RadiusRequest::new(code::ACCESS_REQUEST, 0, authenticator);
        request.password(b"arctangent", secret);
        let hidden = b"\x0d\xbe\x70\x8d\x93\xd4\x13\xce\x31\x96\xe4\x3f\x78\x2a\x0a\xee";
        assert!(request.bytes.ends_with(&[&[2, 18][..], hidden].concat()));
        let accept =
            b"\x02\x00\x00\x26\x86\xfe\x22\x0e\x76\x24\xba\x2a\x10\x05\xf6\xbf\x9b\x55\xe0\xb2\
            \x06\x06\x00\x00\x00\x01\x0f\x06\x00\x00\x00\x00\x0e\x06\xc0\xa8\x01\x03";
        let answer = RadiusAnswer::parse(accept).unwrap();
        assert_eq!((answer.code, answer.id), (code::ACCESS_ACCEPT, 0));
        assert!(answer.is_authentic(&authenticator, secret) && !answer.is_signed());
        assert!(!answer.is_authentic(&authenticator, b"xyzzy5462"));
        assert!(!answer.is_authentic(&[0; 16], secret));
    }

    #[test]
    fn answers_give_terms() {
        let attributes: [&[u8]; 5] = [
            &[8, 6, 10, 0, 0, 7],
            &[25, 4, 1, 2],
            &[27, 6, 0, 0, 0, 60],
            &[85, 3, 0],
            &[18, 4, b'h', b'i'],
        ];
        let mut bytes = vec![2, 9, 0, 0];
        bytes.extend_from_slice(&[0; 16]);
        bytes.extend(attributes.concat());
        bytes[3] = bytes.len() as u8;
        let answer = RadiusAnswer::parse(&bytes).unwrap();
        let terms = answer.terms();
        assert_eq!(terms.address, Some(Ipv4Addr::new(10, 0, 0, 7)));
        assert_eq!((&terms.class[..], terms.lasts), (&[1, 2][..], 60));
        assert_eq!((terms.interim, terms.idle), (0, 0));
        assert_eq!(answer.text(), "hi");
        bytes[21] = 7;
        assert_eq!(RadiusAnswer::parse(&bytes), None);
    }

    proptest! {
        #[test]
        fn any_answer_is_read(mut bytes in proptest::collection::vec(0u8..30, 0..120), whole: bool) {
            if whole && bytes.len() > 20 {
                bytes[2] = 0;
                bytes[3] = bytes.len() as u8;
            }
            if let Some(answer) = RadiusAnswer::parse(&bytes) {
                answer.terms();
                answer.text();
                prop_assert!(!answer.is_authentic(&[0; 16], b"secret"));
            }
        }

        /// An answer that was signed is authentic, and no other.
        #[test]
        fn changed_answers_are_not_authentic(text in proptest::collection::vec(any::<u8>(), 0..20), at in 0usize..60, bit in 0u8..8) {
            let (request, secret) = ([7; 16], b"secret");
            let mut bytes = vec![2, 1, 0, 0];
            bytes.extend_from_slice(&request);
            bytes.extend_from_slice(&[80, 18]);
            bytes.extend_from_slice(&[0; 16]);
            bytes.extend_from_slice(&[18, 2 + text.len() as u8]);
            bytes.extend_from_slice(&text);
            bytes[3] = bytes.len() as u8;
            let signed = signature(&[&bytes], secret);
            bytes[22..38].copy_from_slice(&signed);
            let digest = Md5::new().chain_update(&bytes).chain_update(secret).finalize();
            bytes[4..20].copy_from_slice(&digest);
            let is_authentic = |bytes: &[u8]| {
                RadiusAnswer::parse(bytes).is_some_and(|answer| answer.is_authentic(&request, secret) && answer.is_signed())
            };
            prop_assert!(is_authentic(&bytes));
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            prop_assert!(!is_authentic(&bytes));
        }
    }
}
