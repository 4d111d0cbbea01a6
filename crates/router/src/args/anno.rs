//! Packet annotations, by offset or name.

use super::{Argument, Context, Invalid, Kind, Parser};

const AREA: u32 = packet::anno::ANNO_BYTES as u32;

/// A place in a packet's annotation area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Annotation {
    /// First byte, below 48.
    pub offset: u8,
    /// Size in bytes; 0 if unknown.
    pub size: u8,
}

/// An annotation of `.0` bytes (0: of any size): its offset, 0 to 47, or its
/// name: `PAINT`, `DST_IP`, `AGGREGATE`.
#[derive(Clone, Copy, Debug)]
pub struct AnnoArg(pub u8);

impl Parser<Annotation> for AnnoArg {
    fn parse(&self, text: &str, context: &Context<'_>) -> Result<Annotation, Invalid> {
        let value = context
            .names
            .int_or_number(Kind::Annotation, text, context.element);
        let value = value.ok_or(Invalid::PARSE)?;
        let (size, offset) = (value >> 16, value & 0xFFFF);
        let wanted = u32::from(self.0);
        let fits = if wanted > 0 {
            (size == 0 || size == wanted) && offset + wanted <= AREA
        } else {
            offset < AREA && size <= AREA
        };
        if !fits {
            return Err(Invalid::PARSE);
        }
        Ok(Annotation {
            offset: offset as u8,
            size: if wanted > 0 { self.0 } else { size as u8 },
        })
    }
}

/// An annotation of any size.
impl Argument for Annotation {
    const KIND: &'static str = "annotation";

    fn parse(text: &str, context: &Context<'_>) -> Result<Self, Invalid> {
        AnnoArg(0).parse(text, context)
    }
}

/// An annotation of `SIZE` bytes; the first by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AnnoOf<const SIZE: usize>(u8);

impl<const SIZE: usize> AnnoOf<SIZE> {
    /// A named annotation, which is as long.
    pub const fn new(anno: packet::anno::Anno) -> Self {
        assert!(anno.size == SIZE);
        AnnoOf(anno.offset as u8)
    }

    /// The first byte.
    #[inline(always)]
    pub const fn offset(self) -> usize {
        self.0 as usize
    }

    /// The same, for [`packet::Packet::anno`].
    #[inline(always)]
    pub const fn anno(self) -> packet::anno::Anno {
        packet::anno::Anno {
            name: "",
            offset: self.0 as usize,
            size: SIZE,
        }
    }
}

impl<const SIZE: usize> Argument for AnnoOf<SIZE> {
    const KIND: &'static str = "annotation";

    fn parse(text: &str, context: &Context<'_>) -> Result<Self, Invalid> {
        let anno = AnnoArg(SIZE as u8).parse(text, context)?;
        Ok(AnnoOf(anno.offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_names_and_sizes() {
        let parse = |size, text| {
            let parsed = AnnoArg(size).parse(text, &Context::blank()).ok()?;
            Some((parsed.offset, parsed.size))
        };
        assert_eq!(parse(1, "PAINT"), Some((16, 1)));
        assert_eq!(parse(1, "17"), Some((17, 1)));
        assert_eq!(parse(4, "PAINT"), None);
        assert_eq!(parse(1, "DST_IP"), None);
        assert_eq!(parse(1, "57"), None);
        assert_eq!(parse(4, "44"), Some((44, 4)));
        assert_eq!(parse(4, "45"), None);
        assert_eq!(parse(0, "AGGREGATE"), Some((20, 4)));
        assert_eq!(parse(0, "47"), Some((47, 0)));
        assert_eq!(parse(0, "48"), None);
        assert_eq!(parse(0, "-1"), None);
    }
}
