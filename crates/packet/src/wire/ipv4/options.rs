//! IPv4 options (RFC 791, section 3.1): a walk over them, and a view of those with a pointer.

use crate::wire::{Value, WireError};

numbers! {
    /// The kind of an option: copied flag, class and number in one byte (IANA, "IP Option Numbers").
    Ipv4OptionKind(u8, 1) {
        /// End of the options; what follows is padding. One byte.
        END = 0,
        /// Padding between options. One byte.
        NO_OPERATION = 1,
        /// Record route.
        RECORD_ROUTE = 7,
        /// Internet timestamp.
        TIMESTAMP = 68,
        /// Security (RFC 1108).
        SECURITY = 130,
        /// Loose source and record route.
        LOOSE_SOURCE_ROUTE = 131,
        /// Stream identifier.
        STREAM_ID = 136,
        /// Strict source and record route.
        STRICT_SOURCE_ROUTE = 137,
        /// Router alert (RFC 2113).
        ROUTER_ALERT = 148,
    }
}

impl Ipv4OptionKind {
    /// Whether every fragment carries the option, not the first alone.
    #[inline(always)]
    pub const fn is_copied(self) -> bool {
        self.0 & 0x80 != 0
    }
}

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Option<'a> {
    /// Which.
    pub kind: Ipv4OptionKind,
    /// Where it starts, in bytes from the start of the IP header: what the pointer of an ICMP
    /// parameter problem counts.
    pub at: usize,
    /// The option whole: kind, length, data.
    pub bytes: &'a [u8],
}

impl<'a> Ipv4Option<'a> {
    /// The data behind kind and length.
    #[inline]
    pub fn data(&self) -> &'a [u8] {
        self.bytes.get(2..).unwrap_or_default()
    }
}

/// The options' offset in the IP header.
const START: usize = 20;

/// A place among the options, which holds on to no packet: between two steps, the packet may be
/// changed.
///
/// ```
/// use packet::wire::{Ipv4OptionKind, Ipv4OptionWalk, Ipv4Packet, PointerOption};
/// # use core::net::Ipv4Addr;
/// let mut bytes = [0; 28];
/// bytes[0] = 0x47;
/// bytes[20..23].copy_from_slice(&[7, 7, 4]);
/// let mut packet = Ipv4Packet::new_unchecked(&mut bytes[..]);
/// let mut walk = Ipv4OptionWalk::default();
/// while let Some(Ok(option)) = walk.step(packet.option_bytes()) {
///     if option.kind == Ipv4OptionKind::RECORD_ROUTE {
///         let place = option.at - 20..option.at - 20 + option.bytes.len();
///         let route = PointerOption::new_checked(&mut packet.option_bytes_mut()[place]);
///         assert!(route.is_ok_and(|mut route| route.push(Ipv4Addr::new(10, 0, 0, 1))));
///     }
/// }
/// assert_eq!(packet.option_bytes(), [7, 7, 8, 10, 0, 0, 1, 0]);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Ipv4OptionWalk {
    next: usize,
}

impl Ipv4OptionWalk {
    /// The next option in `options`, the bytes of all; none behind the last and behind
    /// [`Ipv4OptionKind::END`], which is not returned itself.
    ///
    /// # Errors
    /// [`WireError::OptionLength`] with the option's place if its length is below 2 or past the end
    /// of the header. The walk is over then.
    #[inline]
    pub fn step<'a>(&mut self, options: &'a [u8]) -> Option<Result<Ipv4Option<'a>, WireError>> {
        let rest = options.get(self.next..)?;
        let kind = Ipv4OptionKind(*rest.first()?);
        let length = match kind {
            Ipv4OptionKind::END => {
                self.next = usize::MAX;
                return None;
            }
            Ipv4OptionKind::NO_OPERATION => 1,
            // A length that is missing, or says less than 2, asks for 0 bytes.
            _ => rest
                .get(1)
                .map_or(0, |&length| usize::from(length) * usize::from(length >= 2)),
        };
        let at = START + self.next;
        match rest.get(..length) {
            Some(bytes) if length > 0 => {
                self.next += length;
                Some(Ok(Ipv4Option { kind, at, bytes }))
            }
            _ => {
                self.next = usize::MAX;
                Some(Err(WireError::OptionLength { at: at as u16 }))
            }
        }
    }
}

/// The options of a packet, one by one; ends as [`Ipv4OptionWalk::step`] does.
#[derive(Clone, Debug)]
pub struct Ipv4Options<'a> {
    options: &'a [u8],
    walk: Ipv4OptionWalk,
}

impl<'a> Ipv4Options<'a> {
    /// The options in `options`, the bytes between the fixed header and the payload.
    #[inline]
    pub fn new(options: &'a [u8]) -> Self {
        let walk = Ipv4OptionWalk::default();
        Ipv4Options { options, walk }
    }
}

impl<'a> Iterator for Ipv4Options<'a> {
    type Item = Result<Ipv4Option<'a>, WireError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.walk.step(self.options)
    }
}

impl core::iter::FusedIterator for Ipv4Options<'_> {}

/// A view of an option that is filled or used up on the way, with a pointer to the next entry:
/// record route, both source routes, timestamp.
///
/// ```text
///  0      1        2         3                        (timestamp: 4)
/// +------+--------+---------+------------------------+---------
/// | kind | length | pointer | overflow 4 b, flag 4 b | entries     overflow, flag: timestamp only
/// +------+--------+---------+------------------------+---------
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointerOption<T> {
    buffer: T,
}

/// The kind of a timestamp option's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampFlag {
    /// Times, in milliseconds since midnight UT.
    TimeOnly,
    /// Addresses, each followed by its time.
    AddressAndTime,
    /// The same, the addresses written by the sender: each fills in a time behind its own.
    Prespecified,
    /// Any other number: undefined.
    Undefined(u8),
}

impl<T: AsRef<[u8]>> PointerOption<T> {
    /// A view of `buffer`, the bytes of one option.
    ///
    /// # Errors
    /// [`WireError::Truncated`] if the option ends before its pointer (timestamp: before its flag).
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Self, WireError> {
        let option = PointerOption { buffer };
        if option.len() < option.entries_at() {
            return Err(WireError::Truncated);
        }
        Ok(option)
    }

    /// Gives the buffer back.
    #[inline]
    pub fn into_inner(self) -> T {
        self.buffer
    }

    #[inline]
    fn byte(&self, at: usize) -> u8 {
        self.buffer.as_ref().get(at).copied().unwrap_or(0)
    }

    /// Which option.
    #[inline]
    pub fn kind(&self) -> Ipv4OptionKind {
        Ipv4OptionKind(self.byte(0))
    }

    /// Length of the whole option.
    #[inline]
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.buffer.as_ref().len()
    }

    /// Where entries start, in bytes from the start of the option: 3, or 4 in a timestamp.
    #[inline]
    pub fn entries_at(&self) -> usize {
        if self.kind() == Ipv4OptionKind::TIMESTAMP {
            4
        } else {
            3
        }
    }

    /// The pointer as it is in the option, which counts from 1: 4 is the least that makes sense, or
    /// 5 in a timestamp.
    #[inline]
    pub fn pointer(&self) -> u8 {
        self.byte(2)
    }

    /// Where the next entry is, in bytes from the start of the option; none if the pointer points
    /// before the entries, which makes the option malformed. May be past the end.
    #[inline]
    pub fn offset(&self) -> Option<usize> {
        let offset = usize::from(self.pointer()).checked_sub(1)?;
        (offset >= self.entries_at()).then_some(offset)
    }

    /// How many bytes there are from the next entry to the end. 0 also if the pointer points before
    /// the entries or past the end.
    #[inline]
    pub fn room(&self) -> usize {
        self.offset()
            .map_or(0, |offset| self.len().saturating_sub(offset))
    }

    /// What stands at the pointer: the next hop of a source route, the address of the next
    /// prespecified timestamp. None where no room for it is left.
    #[inline]
    pub fn entry<V: Value>(&self) -> Option<V> {
        let rest = self.buffer.as_ref().get(self.offset()?..)?;
        (rest.len() >= V::SIZE).then(|| V::read(rest))
    }

    /// Timestamp only: how many hops found no room, 0 to 15.
    #[inline]
    pub fn overflow(&self) -> u8 {
        self.byte(3) >> 4
    }

    /// Timestamp only: what entries are.
    #[inline]
    pub fn flag(&self) -> TimestampFlag {
        match self.byte(3) & 0x0f {
            0 => TimestampFlag::TimeOnly,
            1 => TimestampFlag::AddressAndTime,
            3 => TimestampFlag::Prespecified,
            other => TimestampFlag::Undefined(other),
        }
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> PointerOption<T> {
    /// Writes `value` at the pointer and moves the pointer behind it. False, and nothing done, where
    /// no room for it is left.
    #[inline]
    #[must_use = "what was not written must be counted or reported"]
    pub fn push<V: Value>(&mut self, value: V) -> bool {
        let Some(offset) = self.offset().filter(|_| self.room() >= V::SIZE) else {
            return false;
        };
        if let Some(place) = self.buffer.as_mut().get_mut(offset..) {
            value.write(place);
        }
        self.skip(V::SIZE);
        true
    }

    /// Moves the pointer on by `length` bytes, 255 at most.
    #[inline]
    pub fn skip(&mut self, length: usize) {
        let pointer = (usize::from(self.pointer()) + length).min(255) as u8;
        if let Some(place) = self.buffer.as_mut().get_mut(2) {
            *place = pointer;
        }
    }

    /// Timestamp only: counts one more hop that found no room. False, and nothing done, at 15.
    #[inline]
    #[must_use = "at 15 the packet must be discarded (RFC 791, section 3.1)"]
    pub fn count_overflow(&mut self) -> bool {
        if self.overflow() == 15 {
            return false;
        }
        if let Some(place) = self.buffer.as_mut().get_mut(3) {
            *place = place.wrapping_add(0x10);
        }
        true
    }
}
