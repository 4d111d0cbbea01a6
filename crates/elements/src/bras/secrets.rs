//! Unpredictable bytes: cookies, challenges, identifiers.
//!
//! They are made by HMAC-SHA-1 with a key that never leaves the element: bytes that a peer sees tell
//! nothing of others.

use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;

use crate::prelude::*;

/// Length of a [`tag`](Secrets::tag).
pub const TAG: usize = 16;

/// A source of unpredictable bytes.
#[derive(Clone, Default)]
pub struct Secrets {
    key: [u8; 32],
    made: u64,
}

impl Secrets {
    pub fn new(random: &mut Random) -> Secrets {
        let mut key = [0; 32];
        for part in key.chunks_exact_mut(8) {
            part.copy_from_slice(&random.next_u64().to_le_bytes());
        }
        Secrets { key, made: 0 }
    }

    fn digest(&self, purpose: u8, parts: &[&[u8]]) -> [u8; 20] {
        let Ok(mut mac) = Hmac::<Sha1>::new_from_slice(&self.key) else {
            return [0; 20];
        };
        mac.update(&[purpose]);
        for part in parts {
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }

    /// A tag of some bytes: the same for the same bytes, and known to this element alone.
    pub fn tag(&self, parts: &[&[u8]]) -> [u8; TAG] {
        let digest = self.digest(0, parts);
        core::array::from_fn(|i| digest[i])
    }

    /// New bytes, at most 20. `random` tells copies of a machine from each other.
    pub fn bytes<const N: usize>(&mut self, random: &mut Random) -> [u8; N] {
        const { assert!(N <= 20) };
        self.made += 1;
        let parts = [self.made.to_le_bytes(), random.next_u64().to_le_bytes()];
        let digest = self.digest(1, &[&parts[0], &parts[1]]);
        core::array::from_fn(|i| digest[i])
    }
}
