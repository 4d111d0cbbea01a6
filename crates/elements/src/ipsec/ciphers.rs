//! Ciphers in the modes that ESP uses: cipher block chaining.

use aes::cipher::{
    Block, BlockCipherDecrypt, BlockCipherEncrypt, BlockModeDecrypt, BlockModeEncrypt, InnerIvInit,
    KeyInit,
};
use aes::{Aes128, Aes256};
use des::Des;

/// Bytes of an AES block.
pub(super) const AES_BLOCK: usize = 16;
/// Bytes of a DES block, and of what Click chains of an AES block.
pub(super) const SHORT_BLOCK: usize = 8;

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Encrypt,
    Decrypt,
}

/// AES with a key of some length, expanded.
pub(super) enum AesKey {
    Bits128(Aes128),
    Bits256(Aes256),
}

impl AesKey {
    /// Expands a key of 16 or 32 bytes; `None` if it has another length.
    pub fn new(key: &[u8]) -> Option<AesKey> {
        match key.len() {
            16 => Aes128::new_from_slice(key).ok().map(AesKey::Bits128),
            32 => Aes256::new_from_slice(key).ok().map(AesKey::Bits256),
            _ => None,
        }
    }

    /// CBC with whole blocks (RFC 3602); false, and nothing done, if `data` is not whole blocks.
    pub fn chain(&self, direction: Direction, iv: &[u8; AES_BLOCK], data: &mut [u8]) -> bool {
        match self {
            AesKey::Bits128(key) => chain(key, direction, iv, data),
            AesKey::Bits256(key) => chain(key, direction, iv, data),
        }
    }

    /// CBC as Click's AES element has it: of each block only the first half is combined with the
    /// first half of the block before. False, and nothing done, if `data` is not whole blocks.
    pub fn half_chain(
        &self,
        direction: Direction,
        iv: &[u8; SHORT_BLOCK],
        data: &mut [u8],
    ) -> bool {
        let (blocks, []) = data.as_chunks_mut::<AES_BLOCK>() else {
            return false;
        };
        let mut before = *iv;
        for block in blocks {
            let came = *block;
            match direction {
                Direction::Encrypt => {
                    combine(block, &before);
                    self.one(direction, block);
                    before.copy_from_slice(&block[..SHORT_BLOCK]);
                }
                Direction::Decrypt => {
                    self.one(direction, block);
                    combine(block, &before);
                    before.copy_from_slice(&came[..SHORT_BLOCK]);
                }
            }
        }
        true
    }

    /// A block by itself.
    pub fn one(&self, direction: Direction, block: &mut [u8; AES_BLOCK]) {
        let block = block.into();
        match (self, direction) {
            (AesKey::Bits128(key), Direction::Encrypt) => key.encrypt_block(block),
            (AesKey::Bits256(key), Direction::Encrypt) => key.encrypt_block(block),
            (AesKey::Bits128(key), Direction::Decrypt) => key.decrypt_block(block),
            (AesKey::Bits256(key), Direction::Decrypt) => key.decrypt_block(block),
        }
    }
}

fn combine(block: &mut [u8; AES_BLOCK], with: &[u8; SHORT_BLOCK]) {
    for (byte, other) in block.iter_mut().zip(with) {
        *byte ^= other;
    }
}

/// DES with a key of 8 bytes, whose parity bits do not count.
pub(super) struct DesKey(Des);

impl DesKey {
    pub fn new(key: &[u8; SHORT_BLOCK]) -> DesKey {
        DesKey(Des::new(key.into()))
    }

    /// CBC (RFC 2405); false, and nothing done, if `data` is not whole blocks.
    pub fn chain(&self, direction: Direction, iv: &[u8; SHORT_BLOCK], data: &mut [u8]) -> bool {
        chain(&self.0, direction, iv, data)
    }
}

fn chain<C: BlockCipherEncrypt + BlockCipherDecrypt>(
    cipher: &C,
    direction: Direction,
    iv: &[u8],
    data: &mut [u8],
) -> bool {
    let (blocks, rest) = Block::<C>::slice_as_chunks_mut(data);
    let Ok(iv) = <&Block<C>>::try_from(iv) else {
        return false;
    };
    if !rest.is_empty() {
        return false;
    }
    match direction {
        Direction::Encrypt => cbc::Encryptor::inner_iv_init(cipher, iv).encrypt_blocks(blocks),
        Direction::Decrypt => cbc::Decryptor::inner_iv_init(cipher, iv).decrypt_blocks(blocks),
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipsec::tests::hex;
    use crate::testing::*;

    fn array<const N: usize>(text: &str) -> [u8; N] {
        hex(text).try_into().unwrap()
    }

    #[test]
    fn aes_agrees_with_rfc_3602() {
        // Section 4, cases 1 and 2.
        for (key, iv, plain, cipher) in [
            (
                "06a9214036b8a15b512e03d534120006",
                "3dafba429d9eb430b422da802c9fac41",
                b"Single block msg".to_vec(),
                "e353779c1079aeb82708942dbe77181a",
            ),
            (
                "c286696d887c9aa0611bbb3e2025a45a",
                "562e17996d093d28ddb3ba695a2e6f58",
                (0..32).collect(),
                "d296cd94c2cccf8a3a863028b5e1dc0a7586602d253cfff91b8266bea6d61ab1",
            ),
        ] {
            let key = AesKey::new(&hex(key)).unwrap();
            let mut data = plain.clone();
            assert!(key.chain(Direction::Encrypt, &array(iv), &mut data));
            assert_eq!(data, hex(cipher));
            assert!(key.chain(Direction::Decrypt, &array(iv), &mut data));
            assert_eq!(data, plain);
        }
    }

    #[test]
    fn longer_keys_agree_with_fips_197() {
        let key: Vec<u8> = (0..32).collect();
        let mut block: [u8; 16] = array("00112233445566778899aabbccddeeff");
        let cipher = "8ea2b7ca516745bfeafc49904b496089";
        AesKey::new(&key)
            .unwrap()
            .one(Direction::Encrypt, &mut block);
        assert_eq!(block.as_slice(), hex(cipher));
        assert!(AesKey::new(&[0; 20]).is_none());
    }

    #[test]
    fn des_agrees_with_fips_81() {
        let key = DesKey::new(&array("0123456789abcdef"));
        let iv = array("1234567890abcdef");
        let mut data = b"Now is the time for all ".to_vec();
        assert!(key.chain(Direction::Encrypt, &iv, &mut data));
        assert_eq!(
            data,
            hex("e5c7cdde872bf27c43e934008c389c0f683788499a7c05f6")
        );
    }

    proptest! {
        #[test]
        fn what_is_encrypted_can_be_decrypted(
            key: [u8; 32],
            length in prop_oneof![Just(16usize), Just(32)],
            iv: [u8; 16],
            plain in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let aes = AesKey::new(&key[..length]).unwrap();
            let des = DesKey::new(key.first_chunk().unwrap());
            let short = iv.first_chunk().unwrap();
            type Cipher<'c> = &'c dyn Fn(Direction, &mut [u8]) -> bool;
            let ciphers: [(Cipher<'_>, usize); 3] = [
                (&|way, data| aes.chain(way, &iv, data), 16),
                (&|way, data| aes.half_chain(way, short, data), 16),
                (&|way, data| des.chain(way, short, data), 8),
            ];
            for (cipher, block) in ciphers {
                let mut data = plain.clone();
                let whole = data.len().is_multiple_of(block);
                prop_assert_eq!(cipher(Direction::Encrypt, &mut data), whole);
                prop_assert_eq!(data == plain, !whole || plain.is_empty());
                prop_assert_eq!(cipher(Direction::Decrypt, &mut data), whole);
                prop_assert_eq!(&data, &plain);
            }
        }
    }
}
