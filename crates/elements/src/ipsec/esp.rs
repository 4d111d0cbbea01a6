//! The shape of ESP packets, and what the elements that work on them share.

use super::ciphers::{AES_BLOCK, Direction, SHORT_BLOCK};
use super::tag::TAG;
use crate::prelude::*;

/// Bytes of index and sequence number in front of the initialization vector.
pub(super) const FIXED: usize = 8;

/// The `BLOCK` argument: bytes of an initialization vector, and of what packets are padded to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum BlockSize {
    /// 8, as DES needs it and Click has it.
    #[default]
    Short,
    /// 16, as RFC 3602 has it for AES.
    Aes,
}

impl BlockSize {
    pub fn bytes(self) -> usize {
        match self {
            BlockSize::Short => SHORT_BLOCK,
            BlockSize::Aes => AES_BLOCK,
        }
    }

    /// Bytes in front of the payload.
    pub fn header(self) -> usize {
        FIXED + self.bytes()
    }
}

impl Argument for BlockSize {
    const KIND: &'static str = "8 or 16";

    fn parse(text: &str, context: &Context<'_>) -> Result<Self, Invalid> {
        match context.parse::<u32>(text)? {
            8 => Ok(BlockSize::Short),
            16 => Ok(BlockSize::Aes),
            _ => Err(Invalid::because("should be 8 or 16")),
        }
    }
}

/// The arguments of the elements that encrypt and decrypt payloads.
#[derive(Component)]
pub(super) struct Cipher {
    /// 1 encrypts, 0 decrypts.
    #[arg(mandatory)]
    encrypt: i32,
    /// Bytes at the packet's end that do not change: an authentication tag that was added before
    /// encryption. 0 if the tag is added to the encrypted packet, as in the standard.
    #[arg(positional, default = TAG as u32, default_text = "12")]
    ignore: u32,
}

impl Cipher {
    pub fn direction(&self) -> Direction {
        if self.encrypt == 1 {
            Direction::Encrypt
        } else {
            Direction::Decrypt
        }
    }

    /// Bytes of the payload that are encrypted; `None` if it is too short.
    pub fn length(&self, payload: &[u8]) -> Option<usize> {
        payload.len().checked_sub(self.ignore as usize)
    }
}

/// Prints a message the first time only: packets must not flood the console.
#[derive(Default)]
pub(super) struct Once(bool);

impl Once {
    pub fn say(&mut self, cx: &mut router::Cx<'_>, text: &str) {
        if !core::mem::replace(&mut self.0, true) {
            cx.chatter(text);
        }
    }
}
