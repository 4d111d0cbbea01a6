use alloc::string::{String, ToString};

use packet::Packet;
use router::args::{Args, Argument, Context, Failed, FixedPoint, Invalid, Parser, unparse};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList, Random, Verdict};

use crate::values;

/// Binary digits of a probability.
const BITS: u32 = 28;
const ONE: u32 = 1 << BITS;

/// Changes each bit of packets with a probability.
///
/// # Arguments
/// - `P` (0 to 1): the probability.
/// - `KIND` (`flip`, `set` or `clear`; `flip`): what happens to a bit.
/// - `ACTIVE` (boolean, true): whether it changes anything.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// - `p_bit_error`, `error_kind`, `active` (read, write): the arguments.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 100) -> SetCRC32 -> RandomBitErrors(0.0001) -> CheckCRC32 -> Discard;
/// ```
///
/// # See also
/// RandomSample, SetCRC32
#[derive(Default)]
pub struct RandomBitErrors {
    probability: Probability,
    kind: Kind,
    active: bool,
}

impl Class for RandomBitErrors {
    const NAME: &'static str = "RandomBitErrors";
    const PORTS: &'static str = "1/1";
}

/// A probability in parts of 2²⁸.
#[derive(Clone, Copy, Default)]
struct Probability(u32);

impl Argument for Probability {
    fn parse(text: &str, context: &Context<'_>) -> Result<Self, Invalid> {
        match (FixedPoint { bits: BITS }).parse(text, context)? {
            probability @ ..=ONE => Ok(Probability(probability)),
            _ => Err(Invalid::because("must be between 0 and 1")),
        }
    }
}

impl Probability {
    /// 64 bits, each of which is set with this probability, independent of the others.
    ///
    /// Each bit stands for the comparison of a random number with the probability. All are compared
    /// at a time, digit by digit from the first, until none is undecided any more: after 7 or 8
    /// random words on average.
    #[inline]
    fn bits(self, random: &mut Random) -> u64 {
        if self.0 >= ONE {
            return u64::MAX;
        }
        let (mut below, mut undecided) = (0, u64::MAX);
        let mut digits = self.0 << (u32::BITS - BITS);
        // Where only zeroes follow, a number that is equal so far is not below any more.
        while digits != 0 && undecided != 0 {
            let word = random.next_u64();
            if digits >> (u32::BITS - 1) == 1 {
                below |= undecided & !word;
                undecided &= word;
            } else {
                undecided &= !word;
            }
            digits <<= 1;
        }
        below
    }
}

/// What happens to a bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Flip,
    Set,
    Clear,
}

impl Kind {
    const ALL: [(&'static str, Kind); 3] =
        [("set", Kind::Set), ("clear", Kind::Clear), ("flip", Kind::Flip)];

    fn name(self) -> &'static str {
        let named = Kind::ALL.iter().find(|(_, kind)| *kind == self);
        named.map_or("flip", |(name, _)| name)
    }

    #[inline]
    fn apply(self, word: u64, bits: u64) -> u64 {
        match self {
            Kind::Flip => word ^ bits,
            Kind::Set => word | bits,
            Kind::Clear => word & !bits,
        }
    }
}

impl Argument for Kind {
    fn parse(text: &str, _: &Context<'_>) -> Result<Self, Invalid> {
        let known = Kind::ALL.iter().find(|(name, _)| *name == text);
        match known {
            Some((_, kind)) => Ok(*kind),
            None if text.is_empty() => Ok(Kind::Flip),
            None => Err(Invalid::because(alloc::format!(
                "bad action ‘{text}’ (must be ‘set’, ‘clear’, or ‘flip’)"
            ))),
        }
    }
}

impl Declared for RandomBitErrors {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        args.mandatory_positional("P", &mut self.probability)
            .positional_or("KIND", &mut self.kind, Kind::Flip)
            .positional_or("ACTIVE", &mut self.active, true)
            .complete()?;
        if self.probability.0 == 0 {
            args.warning("zero bit error probability (underflow?)");
        }
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read_write("p_bit_error").read_write("error_kind");
        list.read_write("active");
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "p_bit_error" => Ok(unparse::real2(self.probability.0.into(), BITS)),
            "error_kind" => Ok(self.kind.name().to_string()),
            "active" => Ok(self.active.to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "p_bit_error" => values::argument(cx, 0, "P", value, &mut self.probability),
            "error_kind" => values::argument(cx, 1, "KIND", value, &mut self.kind),
            "active" => {
                self.active = values::boolean(cx, value)?;
                Ok(())
            }
            _ => Err(HandlerError::Unknown),
        }
    }
}

impl Element for RandomBitErrors {
    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if !self.active || self.probability.0 == 0 {
            return Verdict::Forward;
        }
        let random = cx.random();
        let (words, rest) = packet.data_mut().as_chunks_mut::<8>();
        for word in words {
            let bits = self.probability.bits(random);
            if bits != 0 {
                *word = self.kind.apply(u64::from_ne_bytes(*word), bits).to_ne_bytes();
            }
        }
        if !rest.is_empty() {
            let bits = self.probability.bits(random).to_ne_bytes();
            for (byte, bits) in rest.iter_mut().zip(bits) {
                *byte = self.kind.apply((*byte).into(), bits.into()) as u8;
            }
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use proptest::prelude::*;

    use super::*;
    use crate::testing::Rig;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        /// As many bits are set as the probability says, to within six standard deviations.
        #[test]
        fn bits_are_set_with_the_probability(parts in 0u32..=ONE, shift in 0u32..20, seed: u64) {
            let probability = Probability(parts >> shift);
            let mut random = Random::new(seed);
            let words = 4000;
            let ones: u64 = (0..words).map(|_| u64::from(probability.bits(&mut random).count_ones())).sum();
            let (n, p) = (words as f64 * 64.0, f64::from(probability.0) / f64::from(ONE));
            let slack = 6.0 * (n * p * (1.0 - p)).sqrt() + 1.0;
            prop_assert!((ones as f64 - n * p).abs() <= slack, "{ones} of {}", n * p);
        }
    }

    fn ones(rig: &mut Rig, byte: u8) -> u32 {
        rig.push("i", &[byte; 1003]);
        rig.data("c")[0].iter().map(|byte| byte.count_ones()).sum()
    }

    #[test]
    fn bits_are_flipped_set_or_cleared() {
        let bits = 1003 * 8;
        let half = bits / 2 - 400..bits / 2 + 400;
        let mut rig = Rig::new("i :: Inject -> r :: RandomBitErrors(0.5) -> c :: Collect;");
        for byte in [0, 0x55, 0xff] {
            assert!(half.contains(&ones(&mut rig, byte)));
        }
        rig.write("r.error_kind", "set");
        assert!(half.contains(&ones(&mut rig, 0)));
        assert_eq!(ones(&mut rig, 0xff), bits);
        rig.write("r.error_kind", "clear");
        assert!(half.contains(&ones(&mut rig, 0xff)));
        assert_eq!(ones(&mut rig, 0), 0);
        rig.write("r.p_bit_error", "1");
        assert_eq!(ones(&mut rig, 0xff), 0);
        rig.write("r.active", "false");
        assert_eq!(ones(&mut rig, 0xff), bits);
    }

    #[test]
    fn handlers_show_and_change_the_arguments() {
        let mut rig = Rig::new("Idle -> r :: RandomBitErrors(0.25) -> Discard;");
        assert_eq!((rig.read("r.p_bit_error"), rig.read("r.error_kind")), ("0.25".into(), "flip".into()));
        rig.write("r.p_bit_error", "0.5");
        rig.write("r.error_kind", "set");
        assert_eq!(rig.read("r.config"), "0.5, KIND set");
        assert_eq!((rig.read("r.p_bit_error"), rig.read("r.error_kind")), ("0.5".into(), "set".into()));
        assert!(rig.try_write("r.p_bit_error", "1.01").is_err());
        assert_eq!(rig.read("r.p_bit_error"), "0.5");
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for (arguments, message) in [
            ("", "P: required argument missing"),
            ("1.1", "P: must be between 0 and 1"),
            ("0.5, turn", "bad action 'turn' (must be 'set', 'clear', or 'flip')"),
        ] {
            let errors = Rig::errors(&format!("Idle -> RandomBitErrors({arguments}) -> Discard;"));
            assert!(errors.contains(message), "{errors}");
        }
        let mut rig = Rig::new("Idle -> RandomBitErrors(0) -> Discard;");
        assert!(rig.printed().concat().contains("zero bit error probability"));
    }
}
