//! A security association: the keys and counters of one tunnel.

use super::ciphers::{AES_BLOCK, AesKey, DesKey, Direction, SHORT_BLOCK};
use super::tag::MacKey;
use super::window::Window;
use crate::prelude::*;

/// What a configuration says of an association.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Spec {
    /// Security parameters index; not 0.
    pub spi: u32,
    encryption_key: Vec<u8>,
    authentication_key: Vec<u8>,
    /// The first sequence number.
    start: u32,
    /// How far behind the highest sequence number packets may be.
    window: u8,
}

impl Spec {
    /// Takes `SPI ENCRYPT_KEY AUTH_KEY REPLAY OOSIZE`, the words that `args` has.
    pub fn read(args: &mut Args<'_>) -> Result<Spec, Failed> {
        let mut spec = Spec {
            spi: 0,
            encryption_key: Vec::new(),
            authentication_key: Vec::new(),
            start: 0,
            window: 0,
        };
        args.read()
            .mandatory_positional("SPI", &mut spec.spi)
            .mandatory_positional("ENCRYPT_KEY", &mut spec.encryption_key)
            .mandatory_positional("AUTH_KEY", &mut spec.authentication_key)
            .mandatory_positional("REPLAY", &mut spec.start)
            .mandatory_positional("OOSIZE", &mut spec.window)
            .complete()?;
        spec.check().map_err(|error| args.fail(error))?;
        Ok(spec)
    }

    fn check(&self) -> Result<(), &'static str> {
        let digits = |key: &[u8]| key.iter().all(u8::is_ascii_hexdigit);
        if self.spi == 0 {
            return Err("SPI: must not be 0");
        }
        if self.start == 0 {
            return Err("REPLAY: must not be 0, which no receiver accepts");
        }
        // 32 digits would do as a key of 32 bytes, but be another than who wrote them thinks.
        if digits(&self.encryption_key) || digits(&self.authentication_key) {
            return Err("key is text: write hexadecimal digits as \\<0123...>");
        }
        if !matches!(self.encryption_key.len(), 16 | 32) {
            return Err("ENCRYPT_KEY: key has bad length, should have 16 or 32 bytes");
        }
        if !matches!(self.authentication_key.len(), 16 | 20) {
            return Err("AUTH_KEY: key has bad length, should have 16 or 20 bytes");
        }
        Ok(())
    }
}

/// The keys and counters of one tunnel.
pub(super) struct Association {
    spec: Spec,
    aes: AesKey,
    des: DesKey,
    pub mac: MacKey,
    /// The number of the next packet sent; `None`: all numbers are used up.
    next: Option<u32>,
    pub window: Window,
}

impl Association {
    /// `None` if a key does not have a fitting length.
    pub fn new(spec: Spec) -> Option<Association> {
        Some(Association {
            aes: AesKey::new(&spec.encryption_key)?,
            des: DesKey::new(spec.encryption_key.first_chunk::<SHORT_BLOCK>()?),
            mac: MacKey::new(&spec.authentication_key)?,
            next: Some(spec.start),
            window: Window::new(spec.start, spec.window),
            spec,
        })
    }

    /// Security parameters index.
    pub fn spi(&self) -> u32 {
        self.spec.spi
    }

    /// Whether it is what `spec` asks for.
    pub fn is(&self, spec: &Spec) -> bool {
        self.spec == *spec
    }

    /// AES with the encryption key.
    pub fn aes(&self) -> &AesKey {
        &self.aes
    }

    /// DES with the first bytes of the encryption key.
    pub fn des(&self) -> &DesKey {
        &self.des
    }

    /// The number for a packet to be sent. A number is used once: RFC 4303, section 3.3.3.
    pub fn number(&mut self) -> Option<u32> {
        let number = self.next?;
        self.next = number.checked_add(1);
        Some(number)
    }

    /// An initialization vector that nobody can foretell: a nonce, encrypted (NIST SP 800-38A,
    /// appendix C).
    pub fn vector(&self, number: u32, random: u64) -> [u8; AES_BLOCK] {
        let mut block = [0; AES_BLOCK];
        let (head, tail) = block.split_at_mut(8);
        head.copy_from_slice(&random.to_ne_bytes());
        tail[..4].copy_from_slice(&number.to_be_bytes());
        tail[4..].copy_from_slice(&self.spec.spi.to_be_bytes());
        self.aes.one(Direction::Encrypt, &mut block);
        block
    }

    /// Goes on with the counters of `old`, if it is the same association.
    pub fn take(&mut self, old: &Association) {
        if self.is(&old.spec) {
            (self.next, self.window) = (old.next, old.window.clone());
        }
    }

    /// A line for handlers: index, number of the next packet sent, highest number received. Keys
    /// are not shown.
    pub fn line(&self) -> String {
        let (spi, highest) = (self.spec.spi, self.window.highest());
        match self.next {
            Some(next) => alloc::format!("{spi}\t{next}\t{highest}\n"),
            None => alloc::format!("{spi}\t-\t{highest}\n"),
        }
    }
}

#[cfg(test)]
impl Association {
    /// Lets the next packet sent have this number.
    pub fn skip_to(&mut self, number: u32) {
        self.next = Some(number);
    }
}
