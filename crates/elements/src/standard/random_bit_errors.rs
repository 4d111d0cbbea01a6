use crate::prelude::*;

/// Binary digits of a probability.
const BITS: u32 = 28;
const ONE: u32 = 1 << BITS;
const UNDERFLOW: &str = "zero bit error probability (underflow?)";

/// Changes each bit of packets with a probability.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 100) -> SetCRC32 -> RandomBitErrors(0.0001) -> CheckCRC32 -> Discard;
/// ```
///
/// # See also
/// RandomSample, SetCRC32
#[derive(Element)]
#[element(ports = "1/1", live, handlers)]
pub struct RandomBitErrors {
    /// The probability, 0 to 1.
    #[arg(mandatory, name = "P", read, write, config, handler = "p_bit_error", then = changed)]
    probability: Probability,
    /// What happens to a bit.
    #[arg(positional, name = "KIND", default = "flip".into(), default_text = "flip", kind = "flip, set or clear",
        write, config, handler = "error_kind", then = changed)]
    kind: String,
    /// Whether it changes anything.
    #[arg(positional, default = true, read, write, error = "expected boolean")]
    active: bool,
    change: BitChange,
}

/// A probability in parts of 2²⁸.
#[derive(Clone, Copy, Default)]
struct Probability(u32);

impl Argument for Probability {
    const KIND: &'static str = "probability";

    fn parse(text: &str, context: &Context<'_>) -> Result<Self, Invalid> {
        let parts = FixedPoint { bits: BITS }.parse(text, context);
        parts.map(Probability)
    }
}

impl Shown for Probability {
    fn shown(&self) -> String {
        unparse::real2(self.0.into(), BITS)
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
enum BitChange {
    #[default]
    Flip,
    Set,
    Clear,
}

impl BitChange {
    #[inline]
    fn apply(self, word: u64, bits: u64) -> u64 {
        match self {
            BitChange::Flip => word ^ bits,
            BitChange::Set => word | bits,
            BitChange::Clear => word & !bits,
        }
    }
}

impl RandomBitErrors {
    /// Checks what the arguments say.
    fn check(&mut self) -> Result<(), String> {
        self.change = match self.kind.as_str() {
            "flip" | "" => BitChange::Flip,
            "set" => BitChange::Set,
            "clear" => BitChange::Clear,
            kind => {
                return Err(alloc::format!(
                    "bad action ‘{kind}’ (must be ‘set’, ‘clear’, or ‘flip’)"
                ));
            }
        };
        match self.probability.0 {
            ..=ONE => Ok(()),
            _ => Err("drop probability must be between 0 and 1".into()),
        }
    }

    fn changed(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.check()?;
        if self.probability.0 == 0 {
            cx.warn_writer(UNDERFLOW);
        }
        Ok(())
    }
}

#[handlers]
impl RandomBitErrors {
    /// The argument KIND.
    #[read]
    fn error_kind(&self) -> &'static str {
        match self.change {
            BitChange::Flip => "flip",
            BitChange::Set => "set",
            BitChange::Clear => "clear",
        }
    }
}

impl Element for RandomBitErrors {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.check().map_err(|error| args.fail(error))?;
        if self.probability.0 == 0 {
            args.warning(UNDERFLOW);
        }
        Ok(())
    }

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
                *word = self
                    .change
                    .apply(u64::from_ne_bytes(*word), bits)
                    .to_ne_bytes();
            }
        }
        if !rest.is_empty() {
            let bits = self.probability.bits(random).to_ne_bytes();
            for (byte, bits) in rest.iter_mut().zip(bits) {
                *byte = self.change.apply((*byte).into(), bits.into()) as u8;
            }
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;

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
        rig.assert_handlers(&[("r.p_bit_error", "0.25"), ("r.error_kind", "flip")]);
        rig.write("r.p_bit_error", "0.5");
        rig.write("r.error_kind", "set");
        assert_eq!(rig.read("r.config"), "0.5, KIND set");
        rig.assert_handlers(&[("r.p_bit_error", "0.5"), ("r.error_kind", "set")]);
        assert!(rig.try_write("r.p_bit_error", "1.01").is_err());
        assert_eq!(rig.read("r.p_bit_error"), "0.5");
        let error = rig.try_write("r.error_kind", "turn").unwrap_err();
        assert_eq!(
            error,
            "bad action ‘turn’ (must be ‘set’, ‘clear’, or ‘flip’)".into()
        );
        assert_eq!(rig.read("r.error_kind"), "set");
        rig.write("r.error_kind", "\"\"");
        assert_eq!(rig.read("r.error_kind"), "flip");
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for (arguments, message) in [
            ("", "P: required argument missing"),
            ("1.1", "drop probability must be between 0 and 1"),
            (
                "0.5, turn",
                "bad action 'turn' (must be 'set', 'clear', or 'flip')",
            ),
        ] {
            Rig::refuses(
                &format!("Idle -> RandomBitErrors({arguments}) -> Discard;"),
                message,
            );
        }
        let mut rig = Rig::new("Idle -> RandomBitErrors(0) -> Discard;");
        assert_contains(&rig.printed().concat(), "zero bit error probability");
    }
}
