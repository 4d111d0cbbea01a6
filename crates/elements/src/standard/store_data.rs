use crate::prelude::*;

/// Overwrites bytes of packets.
///
/// Packets keep their length: bytes beyond their end are not written.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> StoreData(12, \<0800>) -> Discard;
/// ```
///
/// # See also
/// Clipboard, Strip, Unstrip
#[derive(Element)]
#[element(ports = "1/1")]
pub struct StoreData {
    /// Offset of the first byte.
    #[arg(mandatory)]
    offset: u32,
    /// The bytes.
    #[arg(mandatory, kind = "bytes")]
    data: Vec<u8>,
}

impl Element for StoreData {
    #[inline]
    fn effects(&self) -> Effects {
        Effects {
            edit: Edit::store(self.offset as usize, &self.data),
            ..Effects::default()
        }
    }

    #[inline(always)]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
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
        let errors = Rig::errors("Idle -> StoreData(4) -> Discard;");
        assert!(
            errors.contains("DATA: required argument missing"),
            "{errors}"
        );
    }
}
