use super::association::Association;
use super::associations;
use super::ciphers::SHORT_BLOCK;
use super::esp::{Cipher, FIXED, Once};
use crate::prelude::*;

/// Encrypts or decrypts the payload of ESP packets by DES-CBC, a legacy cipher.
///
/// Legacy: a DES key of 56 bits is found within a day; use it only for peers without another cipher
/// (RFC 8221 forbids it). Use IPsecAES. The key is the first 8 bytes of the encryption key of the
/// packet's security association, which RadixIPsecLookup sets; the initialization vector of 8 bytes
/// is the packet's (RFC 2405). Packets without an association, or whose payload is not whole
/// blocks, are dropped.
///
/// # Example
/// ```click
/// Idle -> rt :: RadixIPsecLookup(0/0 0, 10.1/16 1 234
///     \<0123456789abcdef0123456789abcdef> \<00112233445566778899aabbccddeeff> 1 64);
/// rt[0] -> Discard;
/// rt[1] -> IPsecESPEncap -> IPsecDES(1, IGNORE 0) -> IPsecAuthHMACSHA1(0)
///     -> IPsecEncap(50) -> Discard;
/// ```
///
/// # See also
/// IPsecAES, IPsecESPEncap, RadixIPsecLookup
#[derive(Element)]
#[element(ports = "1/1", alias("Des"))]
pub struct IPsecDES {
    #[flatten]
    cipher: Cipher,
    complaint: Once,
}

impl IPsecDES {
    /// Works on a packet's payload; `None` if it has not the right shape.
    fn run(&self, association: &Association, data: &mut [u8]) -> Option<()> {
        let (head, payload) = data.split_at_mut_checked(FIXED + SHORT_BLOCK)?;
        let (_, vector) = head.split_at_checked(FIXED)?;
        let length = self.cipher.length(payload)?;
        let payload = payload.get_mut(..length)?;
        let des = association.des();
        des.chain(self.cipher.direction(), vector.first_chunk()?, payload)
            .then_some(())
    }
}

impl Element for IPsecDES {
    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let done = associations::with(cx, packet, |association, packet| {
            self.run(association, packet.data_mut())
        });
        match done {
            Some(Some(())) => Verdict::Forward,
            Some(None) => Verdict::Drop,
            None => {
                let text = "IPsecDES: packet without security association";
                self.complaint.say(cx, text);
                Verdict::Drop
            }
        }
    }
}
