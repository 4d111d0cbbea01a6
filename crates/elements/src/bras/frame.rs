//! PPPoE frames (RFC 2516): the header behind Ethernet's, and the tags of discovery.
//!
//! ```text
//!  0              1      2         4        6
//! +--------------+------+---------+--------+----------
//! | version type | code | session | length | payload
//! +--------------+------+---------+--------+----------
//! ```

use crate::prelude::*;

/// Discovery frames.
pub const DISCOVERY: EtherType = EtherType(0x8863);
/// Session frames.
pub const SESSION: EtherType = EtherType(0x8864);
/// Length of an Ethernet header.
pub const ETHER: usize = 14;
/// Length of a PPPoE header.
pub const HEADER: usize = 6;
/// Length of a session frame's headers: Ethernet, PPPoE, and PPP's protocol.
pub const HEADERS: usize = ETHER + HEADER + 2;
/// Longest payload of a PPPoE frame.
pub const PAYLOAD_MAX: usize = 1494;
/// Version 1, type 1.
const VERSION_TYPE: u8 = 0x11;

/// What a discovery frame is for.
pub mod code {
    /// A host asks for concentrators.
    pub const PADI: u8 = 0x09;
    /// A concentrator offers itself.
    pub const PADO: u8 = 0x07;
    /// A host asks for a session.
    pub const PADR: u8 = 0x19;
    /// A concentrator confirms a session.
    pub const PADS: u8 = 0x65;
    /// A session ended.
    pub const PADT: u8 = 0xa7;
    /// The code of session frames.
    pub const SESSION: u8 = 0;
}

/// What a tag is about.
pub mod tag {
    /// No more tags.
    pub const END: u16 = 0x0000;
    /// A service.
    pub const SERVICE_NAME: u16 = 0x0101;
    /// The concentrator's name.
    pub const AC_NAME: u16 = 0x0102;
    /// The host's mark of its request.
    pub const HOST_UNIQ: u16 = 0x0103;
    /// The concentrator's mark of its offer.
    pub const AC_COOKIE: u16 = 0x0104;
    /// The mark of an agent on the way.
    pub const RELAY_SESSION_ID: u16 = 0x0110;
    /// There is no such service.
    pub const SERVICE_NAME_ERROR: u16 = 0x0201;
    /// The concentrator has no session to give.
    pub const AC_SYSTEM_ERROR: u16 = 0x0202;
}

/// A PPPoE header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the frame is for.
    pub code: u8,
    /// The session; 0 before there is one.
    pub session: u16,
    /// Bytes behind the header.
    pub length: u16,
}

impl Header {
    /// Reads a header and the payload behind it, without the padding of a short frame; `None` if the
    /// version is another or the payload is not whole.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Option<(Header, &[u8])> {
        let (&[version, code, a, b, c, d], rest) = bytes.split_first_chunk::<HEADER>()?;
        let header = Header {
            code,
            session: u16::from_be_bytes([a, b]),
            length: u16::from_be_bytes([c, d]),
        };
        let payload = rest.get(..usize::from(header.length))?;
        (version == VERSION_TYPE).then_some((header, payload))
    }

    /// The header on the wire.
    #[inline]
    pub fn to_bytes(self) -> [u8; HEADER] {
        let ([a, b], [c, d]) = (self.session.to_be_bytes(), self.length.to_be_bytes());
        [VERSION_TYPE, self.code, a, b, c, d]
    }
}

/// The tags of a PADI or PADR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiscoveryTags<'p> {
    /// The service that the host asks for; empty if it takes any.
    pub service: &'p [u8],
    /// The host's mark, which its answer bears.
    pub host_uniq: Option<&'p [u8]>,
    /// The mark of an agent on the way, which the answer bears.
    pub relay: Option<&'p [u8]>,
    /// The concentrator's mark of its offer.
    pub cookie: Option<&'p [u8]>,
}

impl<'p> DiscoveryTags<'p> {
    /// Reads the tags; `None` if one is cut off, or if there is not exactly one service.
    pub fn parse(payload: &'p [u8]) -> Option<DiscoveryTags<'p>> {
        let (mut request, mut services, mut rest) = (DiscoveryTags::default(), 0, payload);
        while !rest.is_empty() {
            let (&[a, b, c, d], tail) = rest.split_first_chunk::<4>()?;
            let length = usize::from(u16::from_be_bytes([c, d]));
            let (value, tail) = tail.split_at_checked(length)?;
            rest = tail;
            match u16::from_be_bytes([a, b]) {
                tag::END => break,
                tag::SERVICE_NAME => {
                    services += 1;
                    request.service = value;
                }
                tag::HOST_UNIQ => request.host_uniq = Some(value),
                tag::RELAY_SESSION_ID => request.relay = Some(value),
                tag::AC_COOKIE => request.cookie = Some(value),
                // Others are for others (RFC 2516, section 5).
                _ => {}
            }
        }
        (services == 1).then_some(request)
    }
}

/// A discovery frame that is written.
pub struct DiscoveryFrame {
    bytes: Vec<u8>,
}

impl DiscoveryFrame {
    /// A frame without tags.
    pub fn new(from: EtherAddress, to: EtherAddress, code: u8, session: u16) -> DiscoveryFrame {
        let ether = EthernetHeader {
            destination: to,
            source: from,
            ethertype: DISCOVERY,
        };
        let header = Header {
            code,
            session,
            length: 0,
        };
        let mut bytes = Vec::with_capacity(128);
        bytes.extend_from_slice(&ether.to_bytes());
        bytes.extend_from_slice(&header.to_bytes());
        DiscoveryFrame { bytes }
    }

    /// Adds a tag.
    pub fn tag(mut self, kind: u16, value: &[u8]) -> DiscoveryFrame {
        self.bytes.extend_from_slice(&kind.to_be_bytes());
        let length = u16::try_from(value.len()).unwrap_or(u16::MAX);
        self.bytes.extend_from_slice(&length.to_be_bytes());
        self.bytes.extend_from_slice(value);
        self
    }

    /// Adds the marks of a request.
    pub fn marks_of(self, request: &DiscoveryTags<'_>) -> DiscoveryFrame {
        let marks = [
            (tag::HOST_UNIQ, request.host_uniq),
            (tag::RELAY_SESSION_ID, request.relay),
        ];
        let marks = marks.into_iter();
        let there = marks.filter_map(|(kind, value)| Some((kind, value?)));
        there.fold(self, |answer, (kind, value)| answer.tag(kind, value))
    }

    /// The frame; `None` if its tags do not fit in one.
    pub fn finish(mut self) -> Option<Vec<u8>> {
        let length = self.bytes.len() - ETHER - HEADER;
        if length > PAYLOAD_MAX {
            return None;
        }
        let place = self.bytes.get_mut(ETHER + 4..)?.first_chunk_mut()?;
        *place = (length as u16).to_be_bytes();
        Some(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOST: EtherAddress = EtherAddress([2, 0, 0, 0, 0, 9]);

    #[test]
    fn an_answer_bears_the_marks_of_the_request() {
        let request = DiscoveryTags {
            service: b"isp",
            host_uniq: Some(b"abc"),
            relay: Some(b""),
            cookie: None,
        };
        let answer = DiscoveryFrame::new(EtherAddress::ZERO, HOST, code::PADO, 0)
            .tag(tag::SERVICE_NAME, request.service)
            .marks_of(&request);
        let frame = answer.finish().unwrap();
        let (header, payload) = Header::parse(&frame[ETHER..]).unwrap();
        assert_eq!((header.code, header.session), (code::PADO, 0));
        assert_eq!(DiscoveryTags::parse(payload), Some(request));
        // What does not fit in a frame is not sent.
        let long = DiscoveryFrame::new(HOST, HOST, code::PADO, 0).tag(tag::HOST_UNIQ, &[0; 1491]);
        assert_eq!(long.finish(), None);
    }

    #[test]
    fn requests_have_one_service_and_whole_tags() {
        let one = [1, 1, 0, 0];
        assert!(DiscoveryTags::parse(&one).is_some());
        assert!(DiscoveryTags::parse(&[]).is_none());
        assert!(DiscoveryTags::parse(&[one, one].concat()).is_none());
        assert!(DiscoveryTags::parse(&[1, 1, 0, 1]).is_none());
        assert!(DiscoveryTags::parse(&[&one[..], &[1, 3]].concat()).is_none());
        // Nothing behind the end counts.
        assert!(DiscoveryTags::parse(&[&one[..], &[0, 0, 0, 0, 9]].concat()).is_some());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Some((header, payload)) = Header::parse(&bytes) {
                prop_assert_eq!(&bytes[..HEADER], header.to_bytes());
                prop_assert_eq!(payload.len(), usize::from(header.length));
            }
            DiscoveryTags::parse(&bytes);
        }
    }
}
