//! Control packets of PPP (RFC 1661, section 5) and their options.
//!
//! ```text
//!  0      1    2        4
//! +------+----+--------+------
//! | code | id | length | data
//! +------+----+--------+------
//! ```

use crate::prelude::*;

/// Protocols of PPP.
pub mod protocol {
    pub const IPV4: u16 = 0x0021;
    pub const IPV6: u16 = 0x0057;
    pub const IPCP: u16 = 0x8021;
    pub const IPV6CP: u16 = 0x8057;
    pub const LCP: u16 = 0xc021;
    pub const PAP: u16 = 0xc023;
    pub const CHAP: u16 = 0xc223;
}

/// Codes of control packets; LCP has all, network control protocols the first seven.
pub mod code {
    pub const CONFIGURE_REQUEST: u8 = 1;
    pub const CONFIGURE_ACK: u8 = 2;
    pub const CONFIGURE_NAK: u8 = 3;
    pub const CONFIGURE_REJECT: u8 = 4;
    pub const TERMINATE_REQUEST: u8 = 5;
    pub const TERMINATE_ACK: u8 = 6;
    pub const CODE_REJECT: u8 = 7;
    pub const PROTOCOL_REJECT: u8 = 8;
    pub const ECHO_REQUEST: u8 = 9;
    pub const ECHO_REPLY: u8 = 10;
    pub const DISCARD_REQUEST: u8 = 11;
}

/// A control packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control<'p> {
    pub code: u8,
    pub id: u8,
    pub data: &'p [u8],
}

impl<'p> Control<'p> {
    /// Reads a packet, which padding may follow; `None` if it is not whole.
    pub fn parse(bytes: &'p [u8]) -> Option<Control<'p>> {
        let &[code, id, a, b] = bytes.first_chunk()?;
        let data = bytes.get(4..usize::from(u16::from_be_bytes([a, b])))?;
        Some(Control { code, id, data })
    }

    /// Adds the packet to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let length = u16::try_from(4 + self.data.len()).unwrap_or(u16::MAX);
        let [a, b] = length.to_be_bytes();
        out.extend_from_slice(&[self.code, self.id, a, b]);
        out.extend_from_slice(self.data);
    }
}

/// Options that this side asks for, or suggests.
pub type Options = heapless::Vec<u8, 64>;

/// Adds an option; one that does not fit is left out.
pub fn add_option(options: &mut Options, kind: u8, data: &[u8]) {
    let length = 2 + data.len();
    if options.capacity() - options.len() >= length {
        // There is room.
        let _ = options.extend_from_slice(&[kind, length as u8]);
        let _ = options.extend_from_slice(data);
    }
}

/// An option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'p> {
    pub kind: u8,
    pub data: &'p [u8],
    /// The option with its header.
    pub whole: &'p [u8],
}

/// The options in `bytes`; `None` if one is cut off.
pub fn options(bytes: &[u8]) -> Option<impl Iterator<Item = Entry<'_>> + Clone> {
    fn next(bytes: &[u8]) -> Option<(Entry<'_>, &[u8])> {
        let &[kind, length] = bytes.first_chunk()?;
        let (whole, rest) = bytes.split_at_checked(length.into())?;
        let data = whole.get(2..)?;
        Some((Entry { kind, data, whole }, rest))
    }
    let mut rest = bytes;
    while !rest.is_empty() {
        (_, rest) = next(rest)?;
    }
    let mut rest = bytes;
    Some(core::iter::from_fn(move || {
        let (entry, tail) = next(rest)?;
        rest = tail;
        Some(entry)
    }))
}

/// What a session sends, until its frames are made.
#[derive(Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    /// The protocol and the end of each packet.
    packets: Vec<(u16, usize)>,
}

impl Outbox {
    /// Adds a control packet of a protocol.
    pub fn send(&mut self, protocol: u16, packet: Control<'_>) {
        packet.write(&mut self.bytes);
        self.packets.push((protocol, self.bytes.len()));
    }

    /// The packets, each with its protocol.
    pub fn packets(&self) -> impl Iterator<Item = (u16, &[u8])> {
        let mut start = 0;
        self.packets.iter().map(move |(protocol, end)| {
            let packet = self.bytes.get(start..*end).unwrap_or_default();
            start = *end;
            (*protocol, packet)
        })
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.packets.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn packets_end_at_their_length() {
        let packet = Control::parse(&[1, 7, 0, 6, 8, 9, 0, 0]);
        let expected = Control {
            code: 1,
            id: 7,
            data: &[8, 9],
        };
        assert_eq!(packet, Some(expected));
        for wrong in [&[1, 7, 0][..], &[1, 7, 0, 3], &[1, 7, 0, 5], &[]] {
            assert_eq!(Control::parse(wrong), None);
        }
    }

    proptest! {
        #[test]
        fn options_are_the_bytes(bytes in proptest::collection::vec(0u8..6, 0..40)) {
            if let Some(entries) = options(&bytes) {
                let wholes: Vec<&[u8]> = entries.map(|entry| entry.whole).collect();
                prop_assert_eq!(&wholes.concat(), &bytes);
            }
        }

        #[test]
        fn packets_are_read_as_they_were_written(code: u8, id: u8, data in proptest::collection::vec(any::<u8>(), 0..40)) {
            let (packet, mut out) = (Control { code, id, data: &data }, Outbox::default());
            out.send(protocol::LCP, packet);
            out.send(protocol::IPCP, packet);
            for (_, bytes) in out.packets() {
                prop_assert_eq!(Control::parse(bytes), Some(packet));
            }
            let protocols: Vec<u16> = out.packets().map(|(protocol, _)| protocol).collect();
            prop_assert_eq!(protocols, [protocol::LCP, protocol::IPCP]);
        }
    }
}
