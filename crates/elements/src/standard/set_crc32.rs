use super::crc32::{BYTES, Sum};
use crate::prelude::*;

/// Adds a CRC-32 of packets' data at their end.
///
/// The four bytes are in the machine's order, as in Click. Without memory, a packet is dropped.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 10) -> SetCRC32 -> RandomBitErrors(0.001) -> CheckCRC32 -> Discard;
/// ```
///
/// # See also
/// CheckCRC32, RandomBitErrors
#[derive(Element)]
#[element(ports = "1/1")]
pub struct SetCRC32 {
    sum: Sum,
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

#[cfg(test)]
mod tests {
    use crate::testing::*;

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
}
