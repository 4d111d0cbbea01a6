use packet::Packet;
use router::args::{Args, Failed};
use router::{Class, Cx, Declared, Element, Verdict};

use super::association::Association;
use super::associations;
use super::ciphers::{AES_BLOCK, Direction, SHORT_BLOCK};
use super::esp::{BlockSize, FIXED, Once};
use super::tag::TAG;

/// Encrypts or decrypts the payload of ESP packets by AES.
///
/// The key, of 128 or 256 bits, is that of the packet's security association, which
/// RadixIPsecLookup sets; the initialization vector is the packet's. Packets without an
/// association, or whose payload is not whole blocks, are dropped.
///
/// With `BLOCK 16` this is AES-CBC as the standard has it (RFC 3602). By default it is what Click's
/// element of this name does: the vector has 8 bytes, the first half of each block is chained, and
/// of a payload that is half a block too long, the half is filled up with the first bytes of the
/// authentication tag behind it.
///
/// # Arguments
/// - `ENCRYPT` (integer): 1 encrypts, 0 decrypts.
/// - `IGNORE` (integer, 12): bytes at the packet's end that are left as they are: those of an
///   authentication tag that is there before encryption. 0 where the tag is put on what is
///   encrypted, as the standard has it.
/// - `BLOCK` (8 or 16, 8): bytes of the initialization vector; the same as IPsecESPEncap's.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// None of its own.
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
#[derive(Default)]
pub struct IPsecAES {
    direction: Direction,
    ignore: usize,
    block: BlockSize,
    complaint: Once,
}

impl Class for IPsecAES {
    const NAME: &'static str = "IPsecAES";
    const PORTS: &'static str = "1/1";
}

impl IPsecAES {
    /// Works on a packet's payload; `None` if it has not the right shape.
    fn run(&self, association: &Association, data: &mut [u8]) -> Option<()> {
        let (head, payload) = data.split_at_mut_checked(self.block.header())?;
        let (_, vector) = head.split_at_checked(FIXED)?;
        let mut length = payload.len().checked_sub(self.ignore)?;
        let aes = association.aes();
        let done = match self.block {
            BlockSize::Aes => {
                let payload = payload.get_mut(..length)?;
                aes.chain(self.direction, vector.first_chunk()?, payload)
            }
            BlockSize::Short => {
                if length % AES_BLOCK == SHORT_BLOCK {
                    length += SHORT_BLOCK;
                }
                let payload = payload.get_mut(..length)?;
                aes.half_chain(self.direction, vector.first_chunk()?, payload)
            }
        };
        done.then_some(())
    }
}

/// Takes the arguments that the ciphers have in common.
pub(super) fn direction(encrypt: i32) -> Direction {
    match encrypt {
        1 => Direction::Encrypt,
        _ => Direction::Decrypt,
    }
}

impl Declared for IPsecAES {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let (mut encrypt, mut ignore) = (0i32, TAG as u32);
        args.mandatory_positional("ENCRYPT", &mut encrypt)
            .positional("IGNORE", &mut ignore)
            .keyword("BLOCK", &mut self.block)
            .complete()?;
        (self.direction, self.ignore) = (direction(encrypt), ignore as usize);
        Ok(())
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
