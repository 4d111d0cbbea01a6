//! VLAN tags (IEEE Std 802.1Q, clause 9.6).
//!
//! The view is of what follows an EtherType that [`EtherType::is_vlan`]: the tag's control
//! information, and the EtherType of what it tags. Tags nest: the payload may be one again.
//!
//! ```text
//!  0                                2      4
//! +----------+----------+----------+------+----------
//! | priority | DEI, 1 b | id, 12 b | type | payload
//! +----------+----------+----------+------+----------
//! ```

use super::{EtherType, EthernetFrame, WireError};

/// The header's fields.
mod field {
    use super::EtherType;
    use crate::wire::Field;
    pub const CONTROL: Field<0, u16> = Field::NEW;
    pub const TYPE: Field<2, EtherType> = Field::NEW;
}

/// How many tags [`skip_tags`] goes through: a service tag, a customer tag, and two to spare.
pub const MAX_TAGS: usize = 4;

/// A tag's control information.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VlanTag {
    /// Priority code point, 0 to 7.
    pub priority: u8,
    /// Drop eligible indicator.
    pub drop_eligible: bool,
    /// VLAN identifier, 0 to 4095. 0 means that the tag carries a priority alone; 4095 is reserved.
    pub id: u16,
}

impl VlanTag {
    /// Reads control information as it is in a header.
    #[inline(always)]
    pub const fn from_control(control: u16) -> VlanTag {
        VlanTag {
            priority: (control >> 13) as u8,
            drop_eligible: control & 0x1000 != 0,
            id: control & 0x0fff,
        }
    }

    /// Control information as it is in a header. Bits past a field's size are left out.
    #[inline(always)]
    pub const fn to_control(self) -> u16 {
        (self.priority as u16) << 13 | (self.drop_eligible as u16) << 12 | (self.id & 0x0fff)
    }
}

view! {
    /// A view of a VLAN tag, from behind the EtherType that announces it, and what it tags.
    VlanPacket, 4
}

impl<T: AsRef<[u8]>> VlanPacket<T> {
    /// A view of `buffer`.
    ///
    /// # Errors
    /// [`WireError::Truncated`] under 4 bytes.
    #[inline(always)]
    pub fn new_checked(buffer: T) -> Result<Self, WireError> {
        if buffer.as_ref().len() < Self::HEADER_LEN {
            return Err(WireError::Truncated);
        }
        Ok(VlanPacket { buffer })
    }

    /// The tag's control information as a number.
    #[inline(always)]
    pub fn control(&self) -> u16 {
        field::CONTROL.get(self.header())
    }

    /// The tag's control information.
    #[inline(always)]
    pub fn tag(&self) -> VlanTag {
        VlanTag::from_control(self.control())
    }

    /// What is tagged.
    #[inline(always)]
    pub fn ethertype(&self) -> EtherType {
        field::TYPE.get(self.header())
    }

    /// What follows the tag.
    #[inline(always)]
    pub fn payload(&self) -> &[u8] {
        self.bytes().get(Self::HEADER_LEN..).unwrap_or_default()
    }
}

impl<T: AsMut<[u8]>> VlanPacket<T> {
    /// Sets the tag's control information.
    #[inline(always)]
    pub fn set_tag(&mut self, tag: VlanTag) {
        field::CONTROL.put(self.header_mut(), tag.to_control());
    }

    /// Sets what is tagged.
    #[inline(always)]
    pub fn set_ethertype(&mut self, ethertype: EtherType) {
        field::TYPE.put(self.header_mut(), ethertype);
    }

    /// What follows the tag.
    #[inline(always)]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let bytes = self.buffer.as_mut();
        bytes.get_mut(Self::HEADER_LEN..).unwrap_or_default()
    }
}

/// What an Ethernet frame carries behind its tags, and at which byte of the frame that starts.
///
/// # Errors
/// [`WireError::Truncated`] if the frame ends inside its header or a tag; behind [`MAX_TAGS`] tags,
/// the EtherType of one more is an answer, not an error.
#[inline]
pub fn skip_tags(frame: &[u8]) -> Result<(EtherType, usize), WireError> {
    let mut ethertype = EthernetFrame::new_checked(frame)?.ethertype();
    let mut at = EthernetFrame::<&[u8]>::HEADER_LEN;
    for _ in 0..MAX_TAGS {
        if !ethertype.is_vlan() {
            break;
        }
        let tag = VlanPacket::new_checked(frame.get(at..).unwrap_or_default())?;
        ethertype = tag.ethertype();
        at += VlanPacket::<&[u8]>::HEADER_LEN;
    }
    Ok((ethertype, at))
}
