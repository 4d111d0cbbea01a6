use super::associations;
use super::auth::Authenticator;
use crate::prelude::*;

/// Adds an authentication tag to packets, or verifies it, by HMAC-SHA-1.
///
/// The tag is the first 96 bits of the digest (RFC 2404) and stands at the packet's end. The key
/// is that of the packet's security association, which RadixIPsecLookup sets. Packets with a
/// wrong tag, and those without an association, leave by output 1.
///
/// # Example
/// ```click
/// Idle -> rt :: RadixIPsecLookup(10.0.0.1 0, 10.1/16 1 234
///     \<0123456789abcdef0123456789abcdef> \<00112233445566778899aabbccddeeff> 1 64);
/// rt[0] -> StripIPHeader -> IPsecAuthHMACSHA1(1) -> IPsecAES(0, IGNORE 0)
///     -> IPsecESPUnencap -> Discard;
/// rt[1] -> Discard;
/// ```
///
/// # See also
/// IPsecAES, IPsecESPUnencap, RadixIPsecLookup
#[derive(Element)]
#[element(ports = "1/1-2", processing = "a/ah")]
#[outputs(
    "packets with a tag, or authentic ones",
    "packets that are not authentic"
)]
pub struct IPsecAuthHMACSHA1 {
    #[flatten]
    authenticator: Authenticator,
}

impl Element for IPsecAuthHMACSHA1 {
    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let auth = &self.authenticator;
        let done = associations::with(cx, packet, |association, packet| {
            auth.run(packet, |data| association.mac.tag(data))
        });
        self.authenticator.verdict(cx, done.flatten())
    }
}
