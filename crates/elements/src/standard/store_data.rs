use crate::prelude::*;

/// Overwrites bytes of packets.
///
/// A packet that ends before OFFSET does not change. Without GROW, packets keep their length: bytes
/// beyond their end are not written. If memory for a longer packet lacks, the packet is dropped.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> StoreData(12, \<0800>) -> Discard;
/// ```
///
/// # See also
/// MoveData, Clipboard, Strip, Unstrip
#[derive(Element)]
#[element(ports = "1/1")]
pub struct StoreData {
    /// Offset of the first byte.
    #[arg(mandatory)]
    offset: u32,
    /// The bytes.
    #[arg(mandatory, kind = "bytes")]
    data: Vec<u8>,
    /// Bits that are overwritten, no more bytes than DATA; from the mask's end on, all bits are.
    #[arg(positional, kind = "bytes")]
    mask: Vec<u8>,
    /// Whether a packet that ends within DATA grows.
    #[arg]
    grow: bool,
    /// Neither MASK nor GROW is given.
    plain: bool,
}

impl StoreData {
    /// Overwrites the bits of the mask; false if there is no memory for a longer packet.
    fn store(&self, packet: &mut Packet) -> bool {
        let Some(place) = packet.len().checked_sub(self.offset as usize) else {
            return true;
        };
        let missing = self.data.len().saturating_sub(place);
        if self.grow && place > 0 && missing > 0 {
            let before = packet.len();
            if !packet.put(missing) {
                return false;
            }
            packet.data_mut()[before..].fill(0);
        }
        let place = packet.data_mut().get_mut(self.offset as usize..);
        let masks = self.mask.iter().copied().chain(core::iter::repeat(0xff));
        let bytes = self.data.iter().zip(masks);
        for (place, (byte, mask)) in place.unwrap_or_default().iter_mut().zip(bytes) {
            *place = *place & !mask | byte & mask;
        }
        true
    }
}

impl Element for StoreData {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if self.mask.len() > self.data.len() {
            return Err(args.fail("MASK must be no longer than DATA"));
        }
        self.plain = self.mask.is_empty() && !self.grow;
        Ok(())
    }

    #[inline]
    fn effects(&self) -> Effects {
        let edit = || Edit::store(self.offset as usize, &self.data);
        Effects {
            edit: self.plain.then(edit).flatten(),
            ..Effects::default()
        }
    }

    #[inline(always)]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if !self.plain {
            let stored = self.store(packet);
            return if stored {
                Verdict::Forward
            } else {
                Verdict::Drop
            };
        }
        let place = packet.data_mut().get_mut(self.offset as usize..);
        let place = place.unwrap_or_default();
        match (self.data.as_slice(), place) {
            // A byte or a few, as usual, without a call.
            (&[byte], [first, ..]) => *first = byte,
            (data, place) => {
                let pairs = place.iter_mut().zip(data);
                pairs.for_each(|(place, byte)| *place = *byte);
            }
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn bytes_are_overwritten_where_there_are_any() {
        let mut rig = Rig::new("i :: Inject -> StoreData(2, \\<09 08>) -> c :: Collect;");
        let packets: [&[u8]; 4] = [&[1, 2, 3, 4, 5], &[1, 2, 3], &[1, 2], &[]];
        packets.iter().for_each(|data| rig.push("i", data));
        let expected: [&[u8]; 4] = [&[1, 2, 9, 8, 5], &[1, 2, 9], &[1, 2], &[]];
        assert_eq!(rig.data("c"), expected);
        Rig::refuses(
            "Idle -> StoreData(4) -> Discard;",
            "DATA: required argument missing",
        );
    }

    fn stored(arguments: &str, data: &[u8]) -> Vec<Vec<u8>> {
        let config = format!("i :: Inject -> StoreData({arguments}) -> c :: Collect;");
        let mut rig = Rig::new(&config);
        rig.push("i", data);
        rig.data("c")
    }

    #[test]
    fn a_mask_chooses_bits() {
        assert_eq!(
            stored("1, \\<FF>, MASK \\<02>", &[1, 0x10, 3]),
            [[1, 0x12, 3]]
        );
        let two = stored("0, \\<A5 07>, \\<0F>", &[0xf0, 0xf0, 9]);
        assert_eq!(two, [[0xf5, 7, 9]]);
        Rig::refuses(
            "Idle -> StoreData(0, \\<01>, \\<01 02>) -> Discard;",
            "MASK must be no longer than DATA",
        );
    }

    #[test]
    fn a_packet_grows_if_it_may() {
        assert_eq!(stored("1, \\<09 08>, GROW true", &[1, 2]), [[1, 9, 8]]);
        assert_eq!(stored("2, \\<09 08>, GROW true", &[1, 2]), [[1, 2]]);
        assert_eq!(
            stored("1, \\<09 08>, \\<0F 0F>, GROW true", &[1, 2]),
            [[1, 9, 8]]
        );
    }
}
