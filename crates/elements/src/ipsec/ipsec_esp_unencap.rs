use super::associations;
use super::esp::{BlockSize, Once};
use super::window::Replay;
use crate::prelude::*;

/// The next header of a dummy packet, which means nothing (RFC 4303, section 2.6).
const NO_NEXT_HEADER: u8 = 59;

/// Removes the ESP header and padding of packets, and drops replayed packets.
///
/// Packets must be authenticated and decrypted before. Their sequence number must be new, and not
/// before the window of their security association (RFC 4303, section 3.4.3); the padding must be
/// 1, 2, 3, ... of the given length. Other packets are dropped, the first of each kind with a
/// message. Dummy packets are dropped without a message.
///
/// # Example
/// ```click
/// Idle -> rt :: RadixIPsecLookup(10.0.0.1 0, 10.1/16 1 234
///     \<0123456789abcdef0123456789abcdef> \<00112233445566778899aabbccddeeff> 1 64);
/// rt[0] -> StripIPHeader -> IPsecAuthHMACSHA1(1) -> IPsecAES(0, IGNORE 0)
///     -> IPsecESPUnencap -> CheckIPHeader -> Discard;
/// rt[1] -> Discard;
/// ```
///
/// # See also
/// IPsecESPEncap, IPsecAES, IPsecAuthHMACSHA1, RadixIPsecLookup
#[derive(Element)]
#[element(ports = "1/1")]
pub struct IPsecESPUnencap {
    /// Bytes of the initialization vector; the same as IPsecESPEncap's.
    #[arg(default_text = "8")]
    block: BlockSize,
    /// Packets that were replayed, or before the window.
    #[handler(read)]
    replays: u64,
    /// Packets whose header or padding was wrong.
    #[handler(read)]
    malformed: u64,
    without: Once,
    old: Once,
    seen: Once,
    length: Once,
    padding: Once,
}

/// What is wrong with a packet's trailer.
#[derive(Debug, PartialEq, Eq)]
enum Malformed {
    Length,
    Padding,
}

/// Length of padding and trailer of a payload, and the next header.
fn trailer(payload: &[u8]) -> Result<(usize, u8), Malformed> {
    let (rest, [length, next]) = payload.split_last_chunk::<2>().ok_or(Malformed::Length)?;
    let length = usize::from(*length);
    let start = rest.len().checked_sub(length).ok_or(Malformed::Length)?;
    let padding = rest.get(start..).unwrap_or_default();
    let right = (1..=u8::MAX).zip(padding).all(|(i, byte)| i == *byte);
    if right {
        Ok((length + 2, *next))
    } else {
        Err(Malformed::Padding)
    }
}

impl IPsecESPUnencap {
    #[cold]
    fn replayed(&mut self, cx: &mut Cx<'_>, replay: Replay) -> Verdict {
        self.replays += 1;
        let (once, text) = match replay {
            Replay::Old => (&mut self.old, "This packet is too old to be accepted"),
            Replay::Seen => (&mut self.seen, "This packet is already seen..."),
        };
        once.say(cx, &alloc::format!("Replay protection: {text}"));
        Verdict::Drop
    }

    #[cold]
    fn malformed(&mut self, cx: &mut Cx<'_>, malformed: Malformed) -> Verdict {
        self.malformed += 1;
        match malformed {
            Malformed::Length => self.length.say(cx, "Invalid padding length"),
            Malformed::Padding => self.padding.say(cx, "Corrupt padding"),
        }
        Verdict::Drop
    }
}

impl Element for IPsecESPUnencap {
    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let head = packet.data().first_chunk::<8>();
        let (Some(&[_, _, _, _, a, b, c, d]), Some(payload)) =
            (head, packet.data().get(self.block.header()..))
        else {
            return self.malformed(cx, Malformed::Length);
        };
        let (trailer, next) = match trailer(payload) {
            Ok(trailer) => trailer,
            Err(malformed) => return self.malformed(cx, malformed),
        };
        let number = u32::from_be_bytes([a, b, c, d]);
        let accepted = associations::with(cx, packet, |association, _| {
            association.window.accept(number)
        });
        match accepted {
            Some(Ok(())) => {}
            Some(Err(replay)) => return self.replayed(cx, replay),
            None => {
                let text = "IPsecESPUnencap: packet without security association";
                self.without.say(cx, text);
                return Verdict::Drop;
            }
        }
        if next == NO_NEXT_HEADER {
            return Verdict::Drop;
        }
        packet.pull(self.block.header());
        packet.take(trailer);
        Verdict::Forward
    }
}
