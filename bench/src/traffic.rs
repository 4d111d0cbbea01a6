//! Traffic for the benchmarks: frames of flows, in capture files. Every run makes the same frames.

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags};

/// A small random number generator (xorshift64*), for reproducible runs.
pub struct Random(u64);

impl Random {
    /// A generator with a seed.
    pub fn new(seed: u64) -> Random {
        Random(0x9e37_79b9_7f4a_7c15 ^ seed << 1)
    }

    /// 32 bits.
    pub fn word(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u32) -> u32 {
        ((u64::from(self.word()) * u64::from(n)) >> 32) as u32
    }

    /// One of several, with equal probability.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u32) as usize]
    }
}

/// A flow: addresses, protocol, ports.
#[derive(Clone, Copy)]
pub struct Flow {
    /// Source address.
    pub source: u32,
    /// Destination address.
    pub destination: u32,
    /// IP protocol.
    pub protocol: u8,
    /// Source and destination port.
    pub ports: (u16, u16),
}

impl Flow {
    /// A frame of the flow, `length` bytes from the Ethernet header on, at least 42, with a valid IP
    /// checksum and no UDP checksum.
    pub fn frame(&self, length: usize) -> Vec<u8> {
        let mut frame = vec![0; length];
        frame[5] = 2;
        frame[11] = 1;
        frame[12] = 8;
        let ip = &mut frame[14..];
        let ip_length = ip.len() as u16;
        ip[0] = 0x45;
        ip[2..4].copy_from_slice(&ip_length.to_be_bytes());
        ip[8] = 64;
        ip[9] = self.protocol;
        ip[12..16].copy_from_slice(&self.source.to_be_bytes());
        ip[16..20].copy_from_slice(&self.destination.to_be_bytes());
        ip[20..22].copy_from_slice(&self.ports.0.to_be_bytes());
        ip[22..24].copy_from_slice(&self.ports.1.to_be_bytes());
        if self.protocol == 17 {
            ip[24..26].copy_from_slice(&(ip_length - 20).to_be_bytes());
        }
        let sum = checksum(words(&ip[..20]));
        ip[10..12].copy_from_slice(&sum);
        frame
    }
}

/// The sum of the 16-bit words of bytes.
pub fn words(bytes: &[u8]) -> u32 {
    let word = |pair: &[u8]| u32::from(u16::from_be_bytes([pair[0], pair[1]]));
    bytes.chunks_exact(2).map(word).sum()
}

/// The Internet checksum of words that sum up to that.
pub fn checksum(sum: u32) -> [u8; 2] {
    let sum = (sum & 0xffff) + (sum >> 16);
    (!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes()
}

/// Makes the transport header of a [flow's frame](Flow::frame) whole: that of a TCP acknowledgment of 20 bytes, or of an
/// echo request.
pub fn set_transport(frame: &mut [u8], protocol: u8) {
    match protocol {
        6 => frame[46..48].copy_from_slice(&[0x50, 0x10]),
        1 => frame[34..38].copy_from_slice(&[8, 0, 0, 0]),
        _ => {}
    }
}

/// Writes a capture of frames as libpcap does: little-endian, microseconds, Ethernet.
///
/// # Errors
/// The file's.
pub fn capture(path: &Path, frames: impl Iterator<Item = Vec<u8>>) -> io::Result<()> {
    let mut bytes = Vec::new();
    let words = |bytes: &mut Vec<u8>, words: &[u32]| {
        for word in words {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
    };
    words(&mut bytes, &[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1]);
    for frame in frames {
        let length = frame.len() as u32;
        words(&mut bytes, &[1, 0, length, length]);
        bytes.extend_from_slice(&frame);
    }
    std::fs::write(path, bytes)
}

/// Frames that [`burst`] sends.
pub const BURST: usize = 64;

/// Sends a burst of `frames` by a packet socket, beginning with frame `at`. Returns how many the kernel took.
///
/// # Errors
/// Those of the kernel, but for a lack of buffers and an interruption.
pub fn burst(socket: &OwnedFd, frames: &[Vec<u8>], at: usize) -> Result<u64, String> {
    let parts: [_; BURST] =
        std::array::from_fn(|i| [IoSlice::new(&frames[(at + i) % frames.len()])]);
    let mut controls: [_; BURST] = std::array::from_fn(|_| SendAncillaryBuffer::default());
    let mut control = controls.iter_mut();
    let mut messages = parts.each_ref().map(|parts| {
        let control = control.next().expect("as many as there are parts");
        MMsgHdr::new(parts, control)
    });
    match rustix::net::sendmmsg(socket, &mut messages, SendFlags::empty()) {
        Ok(n) => Ok(n as u64),
        Err(Errno::NOBUFS | Errno::INTR) => Ok(0),
        Err(error) => Err(format!("cannot send: {error}")),
    }
}
