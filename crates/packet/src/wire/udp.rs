//! UDP (RFC 768).
//!
//! ```text
//!  0        2             4        6          8
//! +--------+-------------+--------+----------+----------
//! | source | destination | length | checksum | payload
//! +--------+-------------+--------+----------+----------
//! ```

use super::WireError;
use crate::checksum::{Delta, Sum};

/// The header's fields.
mod field {
    use crate::wire::Field;
    pub const SOURCE: Field<0, u16> = Field::NEW;
    pub const DESTINATION: Field<2, u16> = Field::NEW;
    pub const LENGTH: Field<4, u16> = Field::NEW;
    pub const CHECKSUM: Field<6, u16> = Field::NEW;
}

view! {
    /// A view of a UDP datagram.
    UdpPacket, 8
}

impl<T: AsRef<[u8]>> UdpPacket<T> {
    /// A view of `buffer`, which may go on behind the datagram.
    ///
    /// # Errors
    /// [`WireError::Truncated`] under 8 bytes, [`WireError::Length`] if the length field is below 8
    /// or past the end of the buffer.
    #[inline(always)]
    pub fn new_checked(buffer: T) -> Result<Self, WireError> {
        let bytes = buffer.as_ref();
        let Some(header) = bytes.first_chunk::<8>() else {
            return Err(WireError::Truncated);
        };
        let length = usize::from(field::LENGTH.get(header));
        if length < Self::HEADER_LEN || length > bytes.len() {
            return Err(WireError::Length);
        }
        Ok(UdpPacket { buffer })
    }

    /// The sender's port.
    #[inline(always)]
    pub fn source(&self) -> u16 {
        field::SOURCE.get(self.header())
    }

    /// The receiver's port.
    #[inline(always)]
    pub fn destination(&self) -> u16 {
        field::DESTINATION.get(self.header())
    }

    /// Length of header and data.
    #[inline(always)]
    pub fn length(&self) -> u16 {
        field::LENGTH.get(self.header())
    }

    /// The checksum. 0 says that there is none, which only IPv4 allows.
    #[inline(always)]
    pub fn checksum(&self) -> u16 {
        field::CHECKSUM.get(self.header())
    }

    /// Header and data, as far as the length field says and the buffer goes.
    #[inline(always)]
    fn datagram(&self) -> &[u8] {
        let bytes = self.bytes();
        bytes.get(..usize::from(self.length())).unwrap_or(bytes)
    }

    /// The data.
    #[inline(always)]
    pub fn payload(&self) -> &[u8] {
        self.datagram().get(Self::HEADER_LEN..).unwrap_or_default()
    }

    /// Whether the checksum holds, or (IPv4 only: see [`Self::checksum`]) there is none. `pseudo` is
    /// the pseudo header's sum.
    #[inline]
    pub fn verify_checksum(&self, pseudo: Sum) -> bool {
        self.checksum() == 0 || pseudo.add_bytes(self.datagram()).is_valid()
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> UdpPacket<T> {
    /// Sets the sender's port.
    #[inline(always)]
    pub fn set_source(&mut self, port: u16) {
        field::SOURCE.put(self.header_mut(), port);
    }

    /// Sets the receiver's port.
    #[inline(always)]
    pub fn set_destination(&mut self, port: u16) {
        field::DESTINATION.put(self.header_mut(), port);
    }

    /// Sets the length of header and data.
    #[inline(always)]
    pub fn set_length(&mut self, length: u16) {
        field::LENGTH.put(self.header_mut(), length);
    }

    /// Sets the checksum field to `checksum` as it is.
    #[inline(always)]
    pub fn set_checksum(&mut self, checksum: u16) {
        field::CHECKSUM.put(self.header_mut(), checksum);
    }

    /// Computes the checksum. `pseudo` is the pseudo header's sum.
    #[inline]
    pub fn fill_checksum(&mut self, pseudo: Sum) {
        self.set_checksum(0);
        let checksum = pseudo.add_bytes(self.datagram()).checksum();
        self.set_checksum(mark_present(checksum));
    }

    /// Sets the checksum of a datagram whose pseudo header, header without checksum, and data sum up to `sum`.
    #[inline(always)]
    pub fn set_checksum_of(&mut self, sum: Sum) {
        self.set_checksum(mark_present(sum.checksum()));
    }

    /// Brings the checksum, if there is one, up to date with a change in the datagram or the pseudo
    /// header.
    #[inline(always)]
    pub fn update_checksum(&mut self, delta: Delta) {
        let checksum = self.checksum();
        if checksum != 0 {
            self.set_checksum(mark_present(delta.apply(checksum)));
        }
    }

    /// The data.
    #[inline(always)]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let length = usize::from(self.length());
        let bytes = self.buffer.as_mut();
        let length = length.min(bytes.len());
        bytes.get_mut(Self::HEADER_LEN..length).unwrap_or_default()
    }
}

/// A computed checksum of zero is sent as 0xffff, its equal, because zero means none.
#[inline(always)]
fn mark_present(checksum: u16) -> u16 {
    if checksum == 0 { 0xffff } else { checksum }
}

/// The values of a UDP header, but for the checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpHeader {
    /// The sender's port.
    pub source: u16,
    /// The receiver's port.
    pub destination: u16,
    /// Length of header and data.
    pub length: u16,
}

impl UdpHeader {
    /// Reads a datagram's header.
    #[inline]
    pub fn parse<T: AsRef<[u8]>>(packet: &UdpPacket<T>) -> Self {
        UdpHeader {
            source: packet.source(),
            destination: packet.destination(),
            length: packet.length(),
        }
    }

    /// Writes a datagram's header, with no checksum.
    #[inline]
    pub fn emit<T: AsMut<[u8]>>(&self, packet: &mut UdpPacket<T>) {
        if let Some(place) = packet.header_mut() {
            *place = self.to_bytes();
        }
    }

    /// The header as it goes on the wire, with no checksum.
    #[inline]
    pub fn to_bytes(&self) -> [u8; 8] {
        let mut bytes = [0; 8];
        field::SOURCE.set(&mut bytes, self.source);
        field::DESTINATION.set(&mut bytes, self.destination);
        field::LENGTH.set(&mut bytes, self.length);
        bytes
    }
}
