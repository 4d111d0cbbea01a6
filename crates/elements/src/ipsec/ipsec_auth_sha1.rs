use super::auth::Authenticator;
use super::tag;
use crate::prelude::*;

/// Adds a checksum to packets, or verifies it, by SHA-1.
///
/// The checksum is the first 96 bits of the digest and stands at the packet's end. There is no key,
/// so an attacker who changes a packet can compute it too: it does not protect. Use
/// IPsecAuthHMACSHA1.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 10, STOP true) -> IPsecAuthSHA1(0) -> IPsecAuthSHA1(1) -> Discard;
/// ```
///
/// # See also
/// IPsecAuthHMACSHA1
#[derive(Element)]
#[element(ports = "1/1-2", processing = "a/ah")]
#[outputs(
    "packets with a tag, or authentic ones",
    "packets that are not authentic"
)]
pub struct IPsecAuthSHA1 {
    #[flatten]
    authenticator: Authenticator,
}

impl Element for IPsecAuthSHA1 {
    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let done = self.authenticator.run(packet, tag::plain);
        self.authenticator.verdict(cx, done)
    }
}
