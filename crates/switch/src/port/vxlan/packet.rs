//! VXLAN's header (RFC 7348, section 5): flags, a network's number, and reserved bits.

/// Its length, in bytes.
pub const HEADER: usize = 8;
/// Where receivers listen (RFC 7348, section 8.2).
pub const PORT: u16 = 4789;
/// Largest network number: it has 24 bits.
pub const VNI_MAX: u32 = (1 << 24) - 1;

const HAS_VNI: u8 = 0x08;

/// Why a packet is not one of the link's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreign;

/// The header of packets of network `vni`.
pub fn header(vni: u32) -> [u8; HEADER] {
    let [_, a, b, c] = vni.to_be_bytes();
    [HAS_VNI, 0, 0, 0, a, b, c, 0]
}

/// The frame in a packet of network `vni`. Reserved bits may be anything (RFC 7348, section 5).
pub fn inner(packet: &[u8], vni: u32) -> Result<&[u8], Foreign> {
    let (header, frame) = packet.split_first_chunk::<HEADER>().ok_or(Foreign)?;
    let [flags, _, _, _, a, b, c, _] = *header;
    let number = u32::from_be_bytes([0, a, b, c]);
    if flags & HAS_VNI == 0 || number != vni {
        return Err(Foreign);
    }
    Ok(frame)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_wrapped_is_unwrapped(vni in 0..=VNI_MAX, frame in proptest::collection::vec(any::<u8>(), 0..100), reserved: [u8; 4]) {
            let mut packet = header(vni).to_vec();
            packet.extend(&frame);
            // What other senders put into reserved bits does not matter.
            packet[0] |= reserved[0];
            packet[1..4].copy_from_slice(&reserved[1..]);
            packet[7] = reserved[0];
            prop_assert_eq!(inner(&packet, vni), Ok(&frame[..]));
            prop_assert_eq!(inner(&packet, vni ^ 1), Err(Foreign));
        }

        #[test]
        fn any_bytes_are_taken_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..40), vni in 0..4u32) {
            if let Ok(frame) = inner(&bytes, vni) {
                prop_assert_eq!(frame.len() + HEADER, bytes.len());
                prop_assert!(bytes[0] & HAS_VNI != 0);
            }
        }
    }
}
