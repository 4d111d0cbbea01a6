//! Authentication tags: the first 96 bits of a digest (RFC 2404).

use hmac::{Hmac, KeyInit, Mac};
use sha1::{Digest, Sha1};
use subtle::ConstantTimeEq;

/// Bytes of a tag.
pub(super) const TAG: usize = 12;

/// A tag.
pub(super) type Tag = [u8; TAG];

fn first(digest: impl AsRef<[u8]>) -> Tag {
    let mut tag = [0; TAG];
    for (to, from) in tag.iter_mut().zip(digest.as_ref()) {
        *to = *from;
    }
    tag
}

/// SHA-1 of the data.
pub(super) fn plain(data: &[u8]) -> Tag {
    first(Sha1::digest(data))
}

/// A key, taken in already.
#[derive(Clone)]
pub(super) struct MacKey(Hmac<Sha1>);

impl MacKey {
    /// Takes in a key of any length.
    pub fn new(key: &[u8]) -> Option<MacKey> {
        Hmac::new_from_slice(key).ok().map(MacKey)
    }

    /// HMAC-SHA-1 of the data.
    pub fn tag(&self, data: &[u8]) -> Tag {
        let mut mac = self.0.clone();
        mac.update(data);
        first(mac.finalize().into_bytes())
    }
}

/// Whether two tags are the same, in a time that does not depend on where they differ.
pub(super) fn same(one: &Tag, other: &Tag) -> bool {
    one.ct_eq(other).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipsec::tests::hex;

    #[test]
    fn hmac_agrees_with_rfc_2202() {
        // Section 3, cases 1, 2, 5 and 6.
        for (key, data, digest) in [
            (
                &[0x0b; 20][..],
                &b"Hi There"[..],
                "b617318655057264e28bc0b6",
            ),
            (
                b"Jefe",
                b"what do ya want for nothing?",
                "effcdf6ae5eb2fa2d27416d5",
            ),
            (
                &[0x0c; 20],
                b"Test With Truncation",
                "4c1a03424b55e07fe7f27be1",
            ),
            (
                &[0xaa; 80],
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                "aa4ae5e15272d00e95705637",
            ),
        ] {
            let tag = MacKey::new(key).unwrap().tag(data);
            assert_eq!(tag.as_slice(), hex(digest));
        }
    }

    #[test]
    fn sha1_agrees_with_rfc_3174() {
        assert_eq!(plain(b"abc").as_slice(), hex("a9993e364706816aba3e2571"));
    }

    #[test]
    fn tags_differ_in_any_bit() {
        let tag = plain(b"abc");
        assert!(same(&tag, &tag));
        for bit in 0..8 * TAG {
            let mut other = tag;
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!same(&tag, &other));
        }
    }
}
