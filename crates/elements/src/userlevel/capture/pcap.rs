//! The classic format: a head of 24 bytes, then each packet behind a head of 16
//! (<https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcap/>).

use super::input::Input;
use super::{CaptureError, Frame, PACKET_MAX, format_error};
use crate::headers::link_type::LinkType;

/// Bytes of the file's head.
pub const HEADER: usize = 24;
/// Bytes of a packet's head.
const RECORD: usize = 16;
/// Bytes that a modified libpcap (1998) adds to a packet's head.
const MODIFIED: usize = 8;

pub const MAGIC: u32 = 0xa1b2_c3d4;
pub const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const MAGIC_MODIFIED: u32 = 0xa1b2_cd34;
pub const VERSION: (u16, u16) = (2, 4);

/// What the file's head says of the packets' heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    big_endian: bool,
    nanoseconds: bool,
    modified: bool,
    minor: u16,
}

impl Format {
    /// Reads a file's head.
    pub fn parse(head: &[u8]) -> Result<(Format, LinkType), CaptureError> {
        let short = || format_error("not a tcpdump file (too short)");
        let head: &[u8; HEADER] = head.first_chunk().ok_or_else(short)?;
        let known = [MAGIC, MAGIC_NANOSECONDS, MAGIC_MODIFIED];
        let [a, b, c, d, ..] = *head;
        let (magic, big_endian) = match [a, b, c, d] {
            bytes if known.contains(&u32::from_le_bytes(bytes)) => {
                (u32::from_le_bytes(bytes), false)
            }
            bytes if known.contains(&u32::from_be_bytes(bytes)) => {
                (u32::from_be_bytes(bytes), true)
            }
            _ => return Err(format_error("not a tcpdump file (bad magic number)")),
        };
        let format = |minor| Format {
            big_endian,
            nanoseconds: magic == MAGIC_NANOSECONDS,
            modified: magic == MAGIC_MODIFIED,
            minor,
        };
        let half = |at: usize| match (big_endian, [head[at], head[at + 1]]) {
            (true, bytes) => u16::from_be_bytes(bytes),
            (false, bytes) => u16::from_le_bytes(bytes),
        };
        let major = half(4);
        if major != VERSION.0 {
            return Err(CaptureError::Format(format!(
                "unknown major version {major}"
            )));
        }
        let format = format(half(6));
        let [.., w, x, y, z] = *head;
        // The upper half holds the length of a frame check sequence, where there is one.
        let link = format.word([w, x, y, z]) & 0x03ff_ffff;
        Ok((format, LinkType(link)))
    }

    #[inline]
    fn word(&self, bytes: [u8; 4]) -> u32 {
        if self.big_endian {
            u32::from_be_bytes(bytes)
        } else {
            u32::from_le_bytes(bytes)
        }
    }

    /// Reads a packet's head.
    #[inline]
    fn record(&self, head: &[u8; RECORD]) -> Result<Record, CaptureError> {
        let [
            s0,
            s1,
            s2,
            s3,
            f0,
            f1,
            f2,
            f3,
            c0,
            c1,
            c2,
            c3,
            l0,
            l1,
            l2,
            l3,
        ] = *head;
        let seconds = self.word([s0, s1, s2, s3]);
        let fraction = self.word([f0, f1, f2, f3]);
        let (mut captured, mut length) = (self.word([c0, c1, c2, c3]), self.word([l0, l1, l2, l3]));
        // Files before version 2.3 have the two the other way round, those of 2.3 some of them.
        if self.minor < 3 || (self.minor == 3 && captured > length) {
            core::mem::swap(&mut captured, &mut length);
        }
        if captured as usize > PACKET_MAX {
            return Err(format_error("bad packet header; giving up"));
        }
        let unit = if self.nanoseconds { 1 } else { 1000 };
        Ok(Record {
            time: i64::from(seconds) * 1_000_000_000 + i64::from(fraction) * unit,
            // tcptrace writes packets with a byte too many.
            captured: captured.min(length) as usize,
            skipped: captured.saturating_sub(length) as usize,
            missing: length.saturating_sub(captured),
        })
    }
}

struct Record {
    time: i64,
    captured: usize,
    skipped: usize,
    missing: u32,
}

/// The next packet, if all of it is at hand and nothing is unusual about it.
#[inline]
pub fn at_hand<'i>(input: &'i mut Input, format: &Format, link: LinkType) -> Option<Frame<'i>> {
    let bytes = input.at_hand();
    let record = format.record(bytes.first_chunk()?).ok()?;
    let whole = RECORD + record.captured;
    if format.modified || record.skipped > 0 || bytes.len() < whole {
        return None;
    }
    let bytes = input.peek_and_consume(whole, 0)?;
    Some(Frame {
        time: record.time,
        data: bytes.get(RECORD..)?,
        missing: record.missing,
        link,
    })
}

/// The next packet.
#[inline]
pub fn next<'i>(
    input: &'i mut Input,
    format: &Format,
    link: LinkType,
) -> Result<Option<Frame<'i>>, CaptureError> {
    let head = if format.modified {
        RECORD + MODIFIED
    } else {
        RECORD
    };
    let Some(Some(bytes)) = input.peek(head)?.map(|bytes| bytes.first_chunk()) else {
        return Ok(None);
    };
    let record = match format.record(bytes) {
        Ok(record) => record,
        Err(error) => {
            input.consume(RECORD);
            return Err(error);
        }
    };
    let whole = head + record.captured + record.skipped;
    // One with a byte too many may be the file's last.
    if input.peek(head + record.captured)?.is_none() {
        return Ok(None);
    }
    let _ = input.peek(whole)?;
    let Some(bytes) = input.peek_and_consume(head + record.captured, record.skipped) else {
        return Ok(None);
    };
    Ok(Some(Frame {
        time: record.time,
        data: bytes.get(head..).unwrap_or(&[]),
        missing: record.missing,
        link,
    }))
}
