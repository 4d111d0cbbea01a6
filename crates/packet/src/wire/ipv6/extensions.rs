//! IPv6 extension headers (RFC 8200, section 4): a bounded walk to the upper layer.

use crate::wire::{IpProtocol, WireError};

/// How many extension headers a walk goes through. RFC 8200, section 4.1, recommends each kind once
/// and destination options twice, which makes 9 of the kinds known; a packet with more than this
/// exists only to keep routers busy.
pub const MAX_EXTENSIONS: usize = 16;

/// One extension header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<'a> {
    /// Which.
    pub kind: IpProtocol,
    /// Where it starts, in bytes from the start of the IPv6 header: what the pointer of an ICMPv6
    /// parameter problem counts.
    pub at: usize,
    /// The header whole, 8 bytes at least: next header, length, data.
    pub bytes: &'a [u8],
}

impl Extension<'_> {
    /// The content of a fragment header; `None` for other kinds.
    #[inline]
    pub fn fragment(&self) -> Option<Fragment> {
        if self.kind != IpProtocol::FRAGMENT {
            return None;
        }
        let [_, _, a, b, ident @ ..] = *self.bytes.first_chunk::<8>()?;
        let word = u16::from_be_bytes([a, b]);
        Some(Fragment {
            offset: word & 0xfff8,
            more: word & 1 != 0,
            ident: u32::from_be_bytes(ident),
        })
    }
}

/// A fragment header (RFC 8200, section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Where the fragment's data belongs in the whole, in bytes: a multiple of 8.
    pub offset: u16,
    /// Whether more fragments follow behind this one's data.
    pub more: bool,
    /// Identification, the same in all fragments of a packet.
    pub ident: u32,
}

/// The upper layer behind the extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpperLayer {
    /// Which protocol.
    pub protocol: IpProtocol,
    /// Where it starts, in bytes from the start of the IPv6 header.
    pub at: usize,
    /// The fragment header on the way, if any. With an offset other than 0, what is there is data
    /// from the middle of a packet, not a header.
    pub fragment: Option<Fragment>,
}

/// The extension headers of a packet, one by one.
///
/// The walk ends at the first header that is none, at ESP, which hides what follows, and behind a
/// fragment header with an offset other than 0, where there is only data. Items are errors, and no
/// more follow, for a header that is cut off ([`WireError::Truncated`]), one with a length past the
/// end of the packet ([`WireError::OptionLength`]) and for more than [`MAX_EXTENSIONS`]
/// ([`WireError::TooManyExtensions`]).
#[derive(Clone, Debug)]
pub struct Extensions<'a> {
    /// What `rest` starts with.
    next: IpProtocol,
    rest: &'a [u8],
    at: usize,
    seen: usize,
    fragment: Option<Fragment>,
    done: bool,
}

impl<'a> Extensions<'a> {
    /// The extension headers in `payload`, what follows the fixed header, starting with a `first`.
    #[inline]
    pub fn new(first: IpProtocol, payload: &'a [u8]) -> Self {
        Extensions {
            next: first,
            rest: payload,
            at: 40,
            seen: 0,
            fragment: None,
            done: false,
        }
    }

    /// Walks to the end, and returns the upper layer there.
    ///
    /// # Errors
    /// As the walk's.
    #[inline]
    pub fn upper_layer(mut self) -> Result<UpperLayer, WireError> {
        for extension in self.by_ref() {
            extension?;
        }
        Ok(UpperLayer {
            protocol: self.next,
            at: self.at,
            fragment: self.fragment,
        })
    }

    fn step(&mut self) -> Result<Extension<'a>, WireError> {
        if self.seen == MAX_EXTENSIONS {
            return Err(WireError::TooManyExtensions);
        }
        let [next, length, ..] = *self.rest.first_chunk::<8>().ok_or(WireError::Truncated)?;
        let (kind, at) = (self.next, self.at);
        let length = match kind {
            IpProtocol::FRAGMENT => 8,
            // In words of 4 bytes, the first two not counted (RFC 4302, section 2.2).
            IpProtocol::AUTHENTICATION => (usize::from(length) + 2) * 4,
            // In units of 8 bytes, the first not counted.
            _ => (usize::from(length) + 1) * 8,
        };
        let Some((bytes, rest)) = self.rest.split_at_checked(length) else {
            // At most 16 headers of 2048 bytes lie before: the place fits 16 bits.
            return Err(WireError::OptionLength { at: at as u16 });
        };
        let extension = Extension { kind, at, bytes };
        if let Some(fragment) = extension.fragment() {
            self.fragment = Some(fragment);
            self.done = fragment.offset != 0;
        }
        self.next = IpProtocol(next);
        self.rest = rest;
        self.at += length;
        self.seen += 1;
        Ok(extension)
    }
}

impl<'a> Iterator for Extensions<'a> {
    type Item = Result<Extension<'a>, WireError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.done || !self.next.is_extension() {
            return None;
        }
        let step = self.step();
        self.done |= step.is_err();
        Some(step)
    }
}

impl core::iter::FusedIterator for Extensions<'_> {}
