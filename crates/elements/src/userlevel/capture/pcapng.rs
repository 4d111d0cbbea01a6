//! The newer format: blocks, of interfaces and of packets
//! (<https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcapng/>). The blocks themselves are read
//! by the pcap-parser crate.

use pcap_parser::{Block, parse_block_be, parse_block_le};

use super::input::Input;
use super::{CaptureError, Frame, PACKET_MAX, format_error};
use crate::headers::link_type::LinkType;
use crate::prelude::*;

/// The type of a section's first block, the same in both byte orders.
pub const MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// The type of the block of a packet, the bytes before its data, and the length behind it.
const ENHANCED_PACKET: u32 = 6;
const PACKET_HEAD: usize = 28;
const TAIL: usize = 4;
/// Longest block that is read, in bytes; longer ones hold no packet and are passed over.
const BLOCK_MAX: usize = 1 << 20;
/// Most interfaces of a section.
const INTERFACES_MAX: usize = 4096;

/// One interface of a section.
#[derive(Clone, Copy)]
struct Interface {
    link: LinkType,
    snaplen: u32,
    /// Units of time a second; 0 if the file says what cannot be.
    units: u64,
    /// Seconds to add.
    offset: i64,
}

impl Interface {
    /// A packet's time, in nanoseconds since 1970.
    fn time(&self, high: u32, low: u32) -> i64 {
        let units = u64::from(high) << 32 | u64::from(low);
        // The usual units, in years that do not overflow.
        if self.offset == 0 && high < 1 << 20 {
            match self.units {
                1_000_000 => return (units * 1000) as i64,
                1_000_000_000 => return units as i64,
                _ => {}
            }
        }
        let units = u128::from(units);
        let Some(nanoseconds) = (units * 1_000_000_000).checked_div(u128::from(self.units)) else {
            return 0;
        };
        let offset = i128::from(self.offset) * 1_000_000_000;
        let time = nanoseconds as i128 + offset;
        time.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }
}

/// The section of the file that is read.
#[derive(Default)]
pub struct Section {
    big_endian: bool,
    interfaces: Vec<Interface>,
}

/// What of a block matters.
enum Content {
    Section,
    Interface(Interface),
    /// Interface, time, place and length of the data in the block, length on the link.
    Packet(Interface, i64, usize, usize, u32),
    Other,
}

impl Section {
    /// Reads up to the first interface; returns its link type.
    pub fn open(input: &mut Input) -> Result<(Section, LinkType), CaptureError> {
        let mut section = Section::default();
        loop {
            let Some(length) = section.block_length(input)? else {
                return Err(format_error("not a tcpdump file (no interface in it)"));
            };
            let content = section.block(input, length)?;
            if let Content::Packet(..) = content {
                return Err(format_error(
                    "not a tcpdump file (packet before any interface)",
                ));
            }
            input.skip(length)?;
            if let Content::Interface(interface) = content {
                return Ok((section, interface.link));
            }
        }
    }

    /// The next packet.
    pub fn next<'i>(&mut self, input: &'i mut Input) -> Result<Option<Frame<'i>>, CaptureError> {
        loop {
            let Some(length) = self.block_length(input)? else {
                return Ok(None);
            };
            if length <= BLOCK_MAX && input.peek(length)?.is_none() {
                return Ok(None);
            }
            if let Content::Packet(interface, time, at, captured, on_link) =
                self.block(input, length)?
            {
                let block = input.peek_and_consume(length, 0).unwrap_or(&[]);
                let data = block.get(at..at + captured).unwrap_or(&[]);
                return Ok(Some(Frame {
                    time,
                    data,
                    missing: on_link.saturating_sub(captured as u32),
                    link: interface.link,
                }));
            }
            input.skip(length)?;
        }
    }

    /// The next packet, if all of its block is at hand and nothing is unusual about it.
    #[inline]
    pub fn at_hand<'i>(&self, input: &'i mut Input) -> Option<Frame<'i>> {
        let bytes = input.at_hand();
        let word = |at: usize| {
            let word = *bytes.get(at..)?.first_chunk()?;
            Some(self.word(word))
        };
        if word(0)? != ENHANCED_PACKET {
            return None;
        }
        let length = word(4)? as usize;
        let captured = word(20)? as usize;
        // Without options.
        let is_sound = captured <= PACKET_MAX
            && length == PACKET_HEAD + captured.next_multiple_of(4) + TAIL
            && word(length - TAIL)? as usize == length;
        if !is_sound {
            return None;
        }
        let interface = self.interfaces.get(word(8)? as usize)?;
        let (time, link) = (interface.time(word(12)?, word(16)?), interface.link);
        let missing = word(24)?.saturating_sub(captured as u32);
        let block = input.peek_and_consume(length, 0)?;
        Some(Frame {
            time,
            data: block.get(PACKET_HEAD..PACKET_HEAD + captured)?,
            missing,
            link,
        })
    }

    #[inline]
    fn word(&self, bytes: [u8; 4]) -> u32 {
        match self.big_endian {
            true => u32::from_be_bytes(bytes),
            false => u32::from_le_bytes(bytes),
        }
    }

    /// Length of the block that follows; `None` at the end of the file.
    fn block_length(&mut self, input: &mut Input) -> Result<Option<usize>, CaptureError> {
        let Some(&[a, b, c, d, e, f, g, h, i, j, k, l]) =
            input.peek(12)?.and_then(|head| head.first_chunk())
        else {
            return Ok(None);
        };
        if [a, b, c, d] == MAGIC {
            self.big_endian = match [i, j, k, l] {
                order if u32::from_be_bytes(order) == BYTE_ORDER => true,
                order if u32::from_le_bytes(order) == BYTE_ORDER => false,
                _ => return Err(format_error("bad byte order in a section; giving up")),
            };
        }
        let length = self.word([e, f, g, h]);
        if length < 12 || !length.is_multiple_of(4) {
            return Err(format_error("bad block length; giving up"));
        }
        Ok(Some(length as usize))
    }

    /// Looks at the block that follows.
    fn block(&mut self, input: &mut Input, length: usize) -> Result<Content, CaptureError> {
        if length > BLOCK_MAX {
            return Ok(Content::Other);
        }
        let Some(bytes) = input.peek(length)? else {
            return Ok(Content::Other);
        };
        let parsed = if self.big_endian {
            parse_block_be(bytes)
        } else {
            parse_block_le(bytes)
        };
        let Ok((_, block)) = parsed else {
            return Err(format_error("bad block; giving up"));
        };
        let content = self.content(&block, bytes)?;
        match content {
            Content::Section => self.interfaces.clear(),
            Content::Interface(interface) => {
                if self.interfaces.len() == INTERFACES_MAX {
                    return Err(CaptureError::Format(format!(
                        "more than {INTERFACES_MAX} interfaces; giving up"
                    )));
                }
                self.interfaces.push(interface);
            }
            Content::Packet(..) | Content::Other => {}
        }
        Ok(content)
    }

    fn content(&self, block: &Block<'_>, bytes: &[u8]) -> Result<Content, CaptureError> {
        let packet = |interface: u32, data: &[u8], captured: u32, on_link, time: (u32, u32)| {
            let Some(interface) = self.interfaces.get(interface as usize) else {
                return Err(format_error("packet of an unknown interface; giving up"));
            };
            let captured = captured as usize;
            if captured > PACKET_MAX || captured > data.len() {
                return Err(format_error("bad packet header; giving up"));
            }
            // Where in the block the data is.
            let at = (data.as_ptr() as usize).wrapping_sub(bytes.as_ptr() as usize);
            let time = interface.time(time.0, time.1);
            Ok(Content::Packet(*interface, time, at, captured, on_link))
        };
        match block {
            Block::SectionHeader(_) => Ok(Content::Section),
            Block::InterfaceDescription(interface) => Ok(Content::Interface(Interface {
                link: LinkType(interface.linktype.0 as u32).canonical(),
                snaplen: interface.snaplen,
                units: interface.ts_resolution().unwrap_or(0),
                offset: interface.ts_offset(),
            })),
            Block::EnhancedPacket(p) => {
                packet(p.if_id, p.data, p.caplen, p.origlen, (p.ts_high, p.ts_low))
            }
            Block::SimplePacket(p) => {
                let snaplen = self.interfaces.first().map_or(0, |first| first.snaplen);
                let captured = match snaplen {
                    0 => p.origlen,
                    snaplen => p.origlen.min(snaplen),
                };
                packet(0, p.data, captured, p.origlen, (0, 0))
            }
            _ => Ok(Content::Other),
        }
    }
}
