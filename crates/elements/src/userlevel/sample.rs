//! How likely a packet that is read from a file is taken.

use crate::prelude::*;

/// Binary digits of a probability.
const BITS: u32 = 28;

/// A probability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample(u32);

impl Sample {
    /// Every packet is taken.
    pub const ALL: Sample = Sample(1 << BITS);

    /// Looks whether the argument SAMPLE makes sense.
    pub fn check(&mut self, args: &Args<'_>) {
        if self.0 > Sample::ALL.0 {
            args.warning("SAMPLE probability reduced to 1");
            *self = Sample::ALL;
        } else if self.0 == 0 {
            args.warning("SAMPLE probability is 0; emitting no packets");
        }
    }

    /// Draws whether a packet is one of the sample.
    #[inline]
    pub fn draw(self, cx: &mut Cx<'_>) -> bool {
        self == Sample::ALL || cx.random().bits(BITS) < self.0
    }
}

impl Default for Sample {
    fn default() -> Self {
        Sample::ALL
    }
}

impl Argument for Sample {
    const KIND: &'static str = "probability";

    fn parse(text: &str, context: &Context<'_>) -> Result<Self, Invalid> {
        FixedPoint { bits: BITS }.parse(text, context).map(Sample)
    }
}

impl Shown for Sample {
    fn shown(&self) -> String {
        unparse::real2(self.0.into(), BITS)
    }
}
