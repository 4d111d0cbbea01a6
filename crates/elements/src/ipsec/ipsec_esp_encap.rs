use super::associations;
use super::esp::{BlockSize, FIXED, Once};
use crate::prelude::*;

/// IP in IP: the next header of a packet in a tunnel.
const IP_IN_IP: u8 = 4;

/// Puts an ESP header before packets and padding behind them.
///
/// The header has the security parameters index, a sequence number, and an unpredictable
/// initialization vector (RFC 4303); they are those of the packet's security association, which
/// RadixIPsecLookup sets. The padding is that of RFC 4303 (1, 2, 3, ...), its length, and the
/// protocol that the packet's IP header names. Packets without an association are dropped. When the
/// sequence numbers are used up, all packets are dropped: no number is used twice.
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
/// IPsecESPUnencap, IPsecAES, IPsecAuthHMACSHA1, IPsecEncap, RadixIPsecLookup
#[derive(Element)]
#[element(ports = "1/1")]
pub struct IPsecESPEncap {
    /// Bytes of the initialization vector; packets are padded to a multiple of it. 16 is what AES
    /// needs (RFC 3602); whole IP packets then have IP in IP as their protocol, as the standard has
    /// it for tunnels.
    #[arg(default_text = "8")]
    block: BlockSize,
    without: Once,
    used_up: Once,
}

/// Bytes behind a payload of `length`, so that with them it is a multiple of `block`: padding, its
/// length, and the next header.
fn trailer(length: usize, block: usize) -> usize {
    let over = length.wrapping_add(2) % block;
    (block - over) % block + 2
}

impl IPsecESPEncap {
    fn next_header(&self, packet: &Packet) -> u8 {
        let protocol = packet.network_header().and_then(|header| header.get(9));
        match self.block {
            BlockSize::Aes if packet.network_offset() == Some(0) => IP_IN_IP,
            _ => protocol.copied().unwrap_or(IpProtocol(0).0),
        }
    }

    /// Adds room, padding and header; `None` if there is no room.
    fn wrap(&self, packet: &mut Packet, spi: u32, number: u32, vector: &[u8; 16]) -> Option<()> {
        let next_header = self.next_header(packet);
        let trailer = trailer(packet.len(), self.block.bytes());
        if !packet.push(self.block.header()) || !packet.put(trailer) {
            return None;
        }
        let data = packet.data_mut();
        let start = data.len().checked_sub(trailer)?;
        let (padding, [length, next]) = data.get_mut(start..)?.split_last_chunk_mut::<2>()?;
        for (i, byte) in padding.iter_mut().enumerate() {
            *byte = i as u8 + 1;
        }
        (*length, *next) = (padding.len() as u8, next_header);
        let (head, rest) = data.split_first_chunk_mut::<FIXED>()?;
        *head = ((u64::from(spi) << 32) | u64::from(number)).to_be_bytes();
        let block = self.block.bytes();
        rest.get_mut(..block)?.copy_from_slice(vector.get(..block)?);
        Some(())
    }
}

impl Element for IPsecESPEncap {
    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let random = cx.random().next_u64();
        let numbered = associations::with(cx, packet, |association, _| {
            let number = association.number()?;
            Some((number, association.vector(number, random)))
        });
        match numbered {
            Some(Some((number, vector))) => {
                let spi = packet.anno(anno::IPSEC_SPI);
                match self.wrap(packet, spi, number, &vector) {
                    Some(()) => Verdict::Forward,
                    None => Verdict::Drop,
                }
            }
            Some(None) => {
                let text = "IPsecESPEncap: sequence numbers used up, association needs new keys";
                self.used_up.say(cx, text);
                Verdict::Drop
            }
            None => {
                let text = "IPsecESPEncap: packet without security association";
                self.without.say(cx, text);
                Verdict::Drop
            }
        }
    }
}
