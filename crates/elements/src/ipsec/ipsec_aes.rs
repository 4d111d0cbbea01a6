use super::association::Association;
use super::associations;
use super::ciphers::{AES_BLOCK, SHORT_BLOCK};
use super::esp::{BlockSize, Cipher, FIXED, Once};
use crate::prelude::*;

/// Encrypts or decrypts the payload of ESP packets by AES.
///
/// The key, of 128 or 256 bits, is that of the packet's security association, which
/// RadixIPsecLookup sets; the initialization vector is the packet's. Packets without an
/// association, or whose payload is not whole blocks, are dropped.
///
/// With `BLOCK 16` this is standard AES-CBC (RFC 3602). The default is compatible with Click's
/// IPsecAES: the vector has 8 bytes, the first half of each block is chained, and a payload that
/// ends in half a block is filled with the first bytes of the authentication tag after it.
///
/// # Example
/// ```click
/// Idle -> rt :: RadixIPsecLookup(0/0 0, 10.1/16 1 234
///     \<0123456789abcdef0123456789abcdef> \<00112233445566778899aabbccddeeff> 1 64);
/// rt[0] -> Discard;
/// rt[1] -> IPsecESPEncap(BLOCK 16) -> IPsecAES(1, IGNORE 0, BLOCK 16) -> IPsecAuthHMACSHA1(0)
///     -> IPsecEncap(50) -> Discard;
/// ```
///
/// # See also
/// IPsecESPEncap, IPsecAuthHMACSHA1, RadixIPsecLookup
#[derive(Element)]
#[element(ports = "1/1", alias("Aes"))]
pub struct IPsecAES {
    #[flatten]
    cipher: Cipher,
    /// Bytes of the initialization vector; the same as IPsecESPEncap's.
    #[arg(default_text = "8")]
    block: BlockSize,
    complaint: Once,
}

impl IPsecAES {
    /// Works on a packet's payload; `None` if it has not the right shape.
    fn run(&self, association: &Association, data: &mut [u8]) -> Option<()> {
        let (head, payload) = data.split_at_mut_checked(self.block.header())?;
        let (_, vector) = head.split_at_checked(FIXED)?;
        let mut length = self.cipher.length(payload)?;
        let aes = association.aes();
        let done = match self.block {
            BlockSize::Aes => {
                let payload = payload.get_mut(..length)?;
                aes.chain(self.cipher.direction(), vector.first_chunk()?, payload)
            }
            BlockSize::Short => {
                if length % AES_BLOCK == SHORT_BLOCK {
                    length += SHORT_BLOCK;
                }
                let payload = payload.get_mut(..length)?;
                aes.half_chain(self.cipher.direction(), vector.first_chunk()?, payload)
            }
        };
        done.then_some(())
    }
}

impl Element for IPsecAES {
    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let done = associations::with(cx, packet, |association, packet| {
            self.run(association, packet.data_mut())
        });
        match done {
            Some(Some(())) => Verdict::Forward,
            Some(None) => Verdict::Drop,
            None => {
                let text = "IPsecAES: packet without security association";
                self.complaint.say(cx, text);
                Verdict::Drop
            }
        }
    }
}
