//! TCP (RFC 9293).
//!
//! ```text
//!  0        2             4          8     12                          14       16         18       20
//! +--------+-------------+----------+-----+---------------------------+--------+----------+--------+---------
//! | source | destination | sequence | ack | offset 4, 3 b, flags 9 b  | window | checksum | urgent | options
//! +--------+-------------+----------+-----+---------------------------+--------+----------+--------+---------
//! ```

mod options;

pub use options::{TcpOption, TcpOptions};

use super::WireError;
use crate::checksum::{Delta, Sum};
use core::ops::{Add, BitOr, Sub};

/// The header's fields.
mod field {
    use super::TcpSequence;
    use crate::wire::Field;
    pub const SOURCE: Field<0, u16> = Field::NEW;
    pub const DESTINATION: Field<2, u16> = Field::NEW;
    pub const SEQUENCE: Field<4, TcpSequence> = Field::NEW;
    pub const ACKNOWLEDGMENT: Field<8, TcpSequence> = Field::NEW;
    /// Header length in words of 4 bytes in the high 4 bits, flags in the low 9.
    pub const FLAGS: Field<12, u16> = Field::NEW;
    pub const WINDOW: Field<14, u16> = Field::NEW;
    pub const CHECKSUM: Field<16, u16> = Field::NEW;
    pub const URGENT: Field<18, u16> = Field::NEW;
}

/// A sequence number. Arithmetic wraps around; order holds between numbers less than 2^31 apart
/// (RFC 9293, section 3.4), so there is no total order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct TcpSequence(pub u32);

value! {
    TcpSequence, 4,
    |bytes| TcpSequence(u32::from_be_bytes(bytes)),
    |sequence: TcpSequence| sequence.0.to_be_bytes();
}

impl TcpSequence {
    /// Whether this number comes before `other`.
    #[inline(always)]
    pub const fn is_before(self, other: TcpSequence) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }
}

/// The number `bytes` later.
impl Add<u32> for TcpSequence {
    type Output = TcpSequence;

    #[inline(always)]
    fn add(self, bytes: u32) -> TcpSequence {
        TcpSequence(self.0.wrapping_add(bytes))
    }
}

/// How many bytes this number is after the other.
impl Sub for TcpSequence {
    type Output = u32;

    #[inline(always)]
    fn sub(self, earlier: TcpSequence) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }
}

/// A set of flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct TcpFlags(u16);

impl TcpFlags {
    /// No flag.
    pub const NONE: TcpFlags = TcpFlags(0);
    /// The sender has no more data.
    pub const FIN: TcpFlags = TcpFlags(0x001);
    /// Synchronize sequence numbers.
    pub const SYN: TcpFlags = TcpFlags(0x002);
    /// Reset the connection.
    pub const RST: TcpFlags = TcpFlags(0x004);
    /// Push data to the user.
    pub const PSH: TcpFlags = TcpFlags(0x008);
    /// The acknowledgment number counts.
    pub const ACK: TcpFlags = TcpFlags(0x010);
    /// The urgent pointer counts.
    pub const URG: TcpFlags = TcpFlags(0x020);
    /// ECN echo (RFC 3168).
    pub const ECE: TcpFlags = TcpFlags(0x040);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: TcpFlags = TcpFlags(0x080);
    /// Accurate ECN (RFC 9768), once the nonce sum.
    pub const AE: TcpFlags = TcpFlags(0x100);

    /// The flags in the low 9 bits of `bits`.
    #[inline(always)]
    pub const fn from_bits(bits: u16) -> TcpFlags {
        TcpFlags(bits & 0x1ff)
    }

    /// The flags as a number of 9 bits.
    #[inline(always)]
    pub const fn to_bits(self) -> u16 {
        self.0
    }

    /// Whether all of `flags` are set.
    #[inline(always)]
    pub const fn contains(self, flags: TcpFlags) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Whether any of `flags` is set.
    #[inline(always)]
    pub const fn intersects(self, flags: TcpFlags) -> bool {
        self.0 & flags.0 != 0
    }
}

/// The flags of both sets.
impl BitOr for TcpFlags {
    type Output = TcpFlags;

    #[inline(always)]
    fn bitor(self, other: TcpFlags) -> TcpFlags {
        TcpFlags(self.0 | other.0)
    }
}

view! {
    /// A view of a TCP segment. It ends where the buffer ends: TCP has no length of its own.
    TcpPacket, 20
}

impl<T: AsRef<[u8]>> TcpPacket<T> {
    /// A view of `buffer`, one whole segment.
    ///
    /// # Errors
    /// [`WireError::Truncated`] under 20 bytes, [`WireError::HeaderLength`] if the data offset is
    /// below 20 bytes or past the end of the buffer.
    #[inline(always)]
    pub fn new_checked(buffer: T) -> Result<Self, WireError> {
        let packet = TcpPacket { buffer };
        let available = packet.bytes().len();
        if available < Self::HEADER_LEN {
            return Err(WireError::Truncated);
        }
        let header_len = packet.header_len();
        if header_len < Self::HEADER_LEN || header_len > available {
            return Err(WireError::HeaderLength);
        }
        Ok(packet)
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

    /// The number of the first byte of data, or of the SYN.
    #[inline(always)]
    pub fn sequence(&self) -> TcpSequence {
        field::SEQUENCE.get(self.header())
    }

    /// The number that the sender expects next.
    #[inline(always)]
    pub fn acknowledgment(&self) -> TcpSequence {
        field::ACKNOWLEDGMENT.get(self.header())
    }

    /// Length of the header with its options, 20 to 60: the data offset.
    #[inline(always)]
    pub fn header_len(&self) -> usize {
        usize::from(field::FLAGS.get(self.header()) >> 12) * 4
    }

    /// The flags.
    #[inline(always)]
    pub fn flags(&self) -> TcpFlags {
        TcpFlags::from_bits(field::FLAGS.get(self.header()))
    }

    /// How much the sender has room for, before scaling (RFC 7323, section 2).
    #[inline(always)]
    pub fn window(&self) -> u16 {
        field::WINDOW.get(self.header())
    }

    /// The checksum.
    #[inline(always)]
    pub fn checksum(&self) -> u16 {
        field::CHECKSUM.get(self.header())
    }

    /// Where urgent data ends, in bytes from the sequence number.
    #[inline(always)]
    pub fn urgent(&self) -> u16 {
        field::URGENT.get(self.header())
    }

    /// The options with their padding.
    #[inline(always)]
    pub fn option_bytes(&self) -> &[u8] {
        let bytes = self.bytes();
        let end = self.header_len().min(bytes.len());
        bytes.get(Self::HEADER_LEN..end).unwrap_or_default()
    }

    /// The options, one by one.
    #[inline]
    pub fn options(&self) -> TcpOptions<'_> {
        TcpOptions::new(self.option_bytes())
    }

    /// The data.
    #[inline(always)]
    pub fn payload(&self) -> &[u8] {
        self.bytes().get(self.header_len()..).unwrap_or_default()
    }

    /// Whether the checksum holds. `pseudo` is the pseudo header's sum.
    #[inline]
    pub fn verify_checksum(&self, pseudo: Sum) -> bool {
        pseudo.add_bytes(self.bytes()).is_valid()
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> TcpPacket<T> {
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

    /// Sets the sequence number.
    #[inline(always)]
    pub fn set_sequence(&mut self, sequence: TcpSequence) {
        field::SEQUENCE.put(self.header_mut(), sequence);
    }

    /// Sets the acknowledgment number.
    #[inline(always)]
    pub fn set_acknowledgment(&mut self, acknowledgment: TcpSequence) {
        field::ACKNOWLEDGMENT.put(self.header_mut(), acknowledgment);
    }

    /// Sets the length of the header, rounded down to a multiple of 4 up to 60, and the flags.
    #[inline(always)]
    pub fn set_header_len_and_flags(&mut self, length: usize, flags: TcpFlags) {
        let word = offset_and_flags(length, flags);
        field::FLAGS.put(self.header_mut(), word);
    }

    /// Sets the window, before scaling.
    #[inline(always)]
    pub fn set_window(&mut self, window: u16) {
        field::WINDOW.put(self.header_mut(), window);
    }

    /// Sets the checksum field to `checksum` as it is.
    #[inline(always)]
    pub fn set_checksum(&mut self, checksum: u16) {
        field::CHECKSUM.put(self.header_mut(), checksum);
    }

    /// Sets where urgent data ends.
    #[inline(always)]
    pub fn set_urgent(&mut self, urgent: u16) {
        field::URGENT.put(self.header_mut(), urgent);
    }

    /// Computes the checksum. `pseudo` is the pseudo header's sum.
    #[inline]
    pub fn fill_checksum(&mut self, pseudo: Sum) {
        self.set_checksum(0);
        let checksum = pseudo.add_bytes(self.bytes()).checksum();
        self.set_checksum(checksum);
    }

    /// Brings the checksum up to date with a change in the segment or the pseudo header.
    #[inline(always)]
    pub fn update_checksum(&mut self, delta: Delta) {
        let checksum = delta.apply(self.checksum());
        self.set_checksum(checksum);
    }

    /// The options with their padding. Room for them is made by [`Self::set_header_len_and_flags`].
    #[inline(always)]
    pub fn option_bytes_mut(&mut self) -> &mut [u8] {
        let end = self.header_len();
        let bytes = self.buffer.as_mut();
        let end = end.min(bytes.len());
        bytes.get_mut(Self::HEADER_LEN..end).unwrap_or_default()
    }

    /// The data.
    #[inline(always)]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let start = self.header_len();
        self.buffer.as_mut().get_mut(start..).unwrap_or_default()
    }
}

#[inline(always)]
fn offset_and_flags(length: usize, flags: TcpFlags) -> u16 {
    ((length / 4).min(15) as u16) << 12 | flags.to_bits()
}

/// The values of a TCP header without options, but for the checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpHeader {
    /// The sender's port.
    pub source: u16,
    /// The receiver's port.
    pub destination: u16,
    /// The number of the first byte of data, or of the SYN.
    pub sequence: TcpSequence,
    /// The number that the sender expects next.
    pub acknowledgment: TcpSequence,
    /// The flags.
    pub flags: TcpFlags,
    /// How much the sender has room for, before scaling.
    pub window: u16,
    /// Where urgent data ends, in bytes from the sequence number.
    pub urgent: u16,
}

impl TcpHeader {
    /// Reads a segment's header; passes over options.
    #[inline]
    pub fn parse<T: AsRef<[u8]>>(packet: &TcpPacket<T>) -> Self {
        TcpHeader {
            source: packet.source(),
            destination: packet.destination(),
            sequence: packet.sequence(),
            acknowledgment: packet.acknowledgment(),
            flags: packet.flags(),
            window: packet.window(),
            urgent: packet.urgent(),
        }
    }

    /// Writes a segment's header of 20 bytes, its checksum zero.
    #[inline]
    pub fn emit<T: AsMut<[u8]>>(&self, packet: &mut TcpPacket<T>) {
        if let Some(place) = packet.header_mut() {
            *place = self.to_bytes();
        }
    }

    /// The header as it goes on the wire, its checksum zero.
    #[inline]
    pub fn to_bytes(&self) -> [u8; 20] {
        let mut bytes = [0; 20];
        field::SOURCE.set(&mut bytes, self.source);
        field::DESTINATION.set(&mut bytes, self.destination);
        field::SEQUENCE.set(&mut bytes, self.sequence);
        field::ACKNOWLEDGMENT.set(&mut bytes, self.acknowledgment);
        field::FLAGS.set(&mut bytes, offset_and_flags(20, self.flags));
        field::WINDOW.set(&mut bytes, self.window);
        field::URGENT.set(&mut bytes, self.urgent);
        bytes
    }
}
