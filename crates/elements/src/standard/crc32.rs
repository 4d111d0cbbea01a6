use alloc::boxed::Box;
use alloc::string::{String, ToString};

use crc::{CRC_32_MPEG_2, Crc, Table};
use packet::Packet;
use router::args::{Args, Failed};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList, Verdict};

/// Bytes of a checksum.
const BYTES: usize = 4;

/// The sum: Ethernet's polynomial, the highest bit first, from all ones, not inverted. Its 16 KiB of
/// tables are made where they are needed, and take no room in the program.
struct Sum(Option<Box<Crc<u32, Table<16>>>>);

impl Sum {
    const NONE: Sum = Sum(None);

    fn prepare(&mut self) {
        self.0
            .get_or_insert_with(|| Box::new(Crc::<u32, Table<16>>::new(&CRC_32_MPEG_2)));
    }

    #[inline]
    fn of(&self, bytes: &[u8]) -> [u8; BYTES] {
        let sum = self.0.as_ref().map_or(0, |crc| crc.checksum(bytes));
        sum.to_ne_bytes()
    }
}

/// Adds a CRC-32 of packets' data at their end.
///
/// The four bytes are in the machine's order, as Click's. A packet for which there is no memory is
/// dropped.
///
/// # Arguments
/// None.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 10) -> SetCRC32 -> RandomBitErrors(0.001) -> CheckCRC32 -> Discard;
/// ```
///
/// # See also
/// CheckCRC32, RandomBitErrors
pub struct SetCRC32 {
    sum: Sum,
}

impl Default for SetCRC32 {
    fn default() -> Self {
        SetCRC32 { sum: Sum::NONE }
    }
}

impl Class for SetCRC32 {
    const NAME: &'static str = "SetCRC32";
    const PORTS: &'static str = "1/1";
}

impl Declared for SetCRC32 {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.sum.prepare();
        args.none()
    }
}

impl Element for SetCRC32 {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let sum = self.sum.of(packet.data());
        if !packet.put(BYTES) {
            return Verdict::Drop;
        }
        if let Some(end) = packet.data_mut().last_chunk_mut() {
            *end = sum;
        }
        Verdict::Forward
    }
}

/// Checks the CRC-32 at the end of packets and removes it; drops packets where it is wrong.
///
/// The first packet that is dropped is reported.
///
/// # Arguments
/// None.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// - `drops` (read): packets dropped.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 10) -> SetCRC32 -> RandomBitErrors(0.001) -> CheckCRC32 -> Discard;
/// ```
///
/// # See also
/// SetCRC32
pub struct CheckCRC32 {
    sum: Sum,
    drops: u64,
}

impl Default for CheckCRC32 {
    fn default() -> Self {
        CheckCRC32 {
            sum: Sum::NONE,
            drops: 0,
        }
    }
}

impl Class for CheckCRC32 {
    const NAME: &'static str = "CheckCRC32";
    const PORTS: &'static str = "1/1";
}

impl CheckCRC32 {
    #[cold]
    fn drop(&mut self, cx: &mut Cx<'_>, packet: &Packet) -> Verdict {
        if self.drops == 0 {
            cx.chatter(format_args!("CRC32 failed, len {}", packet.len()));
        }
        self.drops += 1;
        Verdict::Drop
    }
}

impl Declared for CheckCRC32 {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.sum.prepare();
        args.none()
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read("drops");
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "drops" => Ok(self.drops.to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }
}

impl Element for CheckCRC32 {
    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        match packet.data().split_last_chunk::<BYTES>() {
            Some((data, sum)) if self.sum.of(data) == *sum => {
                packet.take(BYTES);
                Verdict::Forward
            }
            _ => self.drop(cx, packet),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use crate::testing::Rig;

    /// The sum bit by bit.
    fn slow(data: &[u8]) -> u32 {
        let mut sum = u32::MAX;
        for byte in data {
            sum ^= u32::from(*byte) << 24;
            for _ in 0..8 {
                let carry = sum >> 31;
                sum = (sum << 1) ^ (carry * 0x04c1_1db7);
            }
        }
        sum
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn sums_are_right_and_found_right(
            data in prop::collection::vec(any::<u8>(), 0..200),
            bit in 0usize..2000,
        ) {
            let config = "i :: Inject -> SetCRC32 -> c :: Collect;
                j :: Inject -> n :: CheckCRC32 -> d :: Collect;";
            let mut rig = Rig::new(config);
            rig.push("i", &data);
            let mut whole = rig.data("c").remove(0);
            prop_assert_eq!(&whole[..data.len()], &data[..]);
            prop_assert_eq!(&whole[data.len()..], &slow(&data).to_ne_bytes());
            rig.push("j", &whole);
            prop_assert_eq!(rig.data("d"), vec![data]);
            // A single bit that is wrong is always found.
            let bit = bit % (whole.len() * 8);
            whole[bit / 8] ^= 1 << (bit % 8);
            rig.push("j", &whole);
            prop_assert!(rig.collected("d").is_empty());
            prop_assert_eq!(rig.read("n.drops"), "1");
        }
    }

    #[test]
    fn the_sum_is_that_of_the_catalogue() {
        assert_eq!(slow(b"123456789"), 0x0376_e6e7);
        let mut rig = Rig::new("i :: Inject -> SetCRC32 -> c :: Collect;");
        rig.push("i", b"123456789");
        assert_eq!(rig.data("c")[0][9..], 0x0376_e6e7_u32.to_ne_bytes());
    }

    #[test]
    fn the_first_wrong_packet_is_reported() {
        let mut rig = Rig::new("i :: Inject -> CheckCRC32 -> c :: Collect;");
        for length in [3, 0, 60] {
            rig.push("i", &vec![0; length]);
        }
        let none: Vec<Vec<u8>> = Vec::new();
        assert_eq!(rig.data("c"), none);
        assert_eq!(rig.printed(), ["CRC32 failed, len 3"]);
        assert_eq!(rig.outstanding(), 0);
    }
}
