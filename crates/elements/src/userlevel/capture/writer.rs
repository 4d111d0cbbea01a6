//! Writing the classic format.

use super::pcap::{HEADER, MAGIC, MAGIC_NANOSECONDS, VERSION};
use crate::headers::link_type::LinkType;

/// A file's head.
pub fn file_header(nanoseconds: bool, snaplen: u32, link: LinkType) -> [u8; HEADER] {
    let magic = if nanoseconds {
        MAGIC_NANOSECONDS
    } else {
        MAGIC
    };
    let mut head = [0; HEADER];
    head[0..4].copy_from_slice(&magic.to_ne_bytes());
    head[4..6].copy_from_slice(&VERSION.0.to_ne_bytes());
    head[6..8].copy_from_slice(&VERSION.1.to_ne_bytes());
    // Eight bytes stay 0: time zone and accuracy.
    head[16..20].copy_from_slice(&snaplen.to_ne_bytes());
    head[20..24].copy_from_slice(&link.0.to_ne_bytes());
    head
}

/// What stands in front of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// When it was seen, in nanoseconds since 1970.
    pub time: i64,
    /// Bytes that follow.
    pub captured: u32,
    /// Bytes that it had on its link.
    pub length: u32,
}

/// A packet's head.
#[inline]
pub fn record_header(record: &Record, nanoseconds: bool) -> [u8; 16] {
    let (seconds, fraction) = (
        record.time.div_euclid(1_000_000_000) as u32,
        record.time.rem_euclid(1_000_000_000) as u32,
    );
    let fraction = if nanoseconds {
        fraction
    } else {
        fraction / 1000
    };
    let mut head = [0; 16];
    head[0..4].copy_from_slice(&seconds.to_ne_bytes());
    head[4..8].copy_from_slice(&fraction.to_ne_bytes());
    head[8..12].copy_from_slice(&record.captured.to_ne_bytes());
    head[12..16].copy_from_slice(&record.length.to_ne_bytes());
    head
}
