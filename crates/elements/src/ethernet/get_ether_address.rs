use super::ether_field::{annotate, offset};
use crate::prelude::*;

/// Copies an Ethernet address from packets into an annotation.
///
/// Packets that do not have the address are dropped.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> GetEtherAddress(0, src) -> StoreEtherAddress(OFFSET dst, ANNO 0) -> Discard;
/// ```
///
/// # See also
/// StoreEtherAddress, SetEtherAddress
#[derive(Element)]
#[element(ports = "1/1-2", processing = "a/ah", live)]
#[outputs(
    "packets with their annotation",
    "packets that do not have the address"
)]
pub struct GetEtherAddress {
    /// The six-byte annotation to set.
    #[arg(mandatory)]
    anno: AnnoOf<6>,
    /// The address: bytes from the packet's start, or a field of the Ethernet header there.
    #[arg(mandatory, name = "OFFSET", with = WordArg, kind = "integer, `src` or `dst`")]
    field: String,
    offset: usize,
}

impl Element for GetEtherAddress {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.offset = offset(&self.field, args)?;
        Ok(())
    }

    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let bytes = packet.data().get(self.offset..);
        let Some(address) = bytes.and_then(|bytes| bytes.first_chunk().copied()) else {
            return Verdict::To(1);
        };
        annotate(packet, self.anno.offset(), address);
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn annotations_carry_addresses() {
        let config = "i :: Inject -> GetEtherAddress(42, 1)
            -> StoreEtherAddress(OFFSET 7, ANNO 42) -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.push("i", &[0, 1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0]);
        assert_eq!(rig.data("c"), [[0, 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6]]);
    }

    #[test]
    fn packets_without_the_address_leave_by_output_1() {
        let config = "i :: Inject -> e :: GetEtherAddress(0, 4294967295) -> c :: Collect;
            e[1] -> short :: Collect;";
        let mut rig = Rig::new(config);
        rig.push("i", &[0; 60]);
        assert_eq!(rig.data("short"), [[0; 60]]);
    }

    #[test]
    fn wrong_offsets_and_annotations_are_refused() {
        for (arguments, error) in [
            ("0, -1", "type mismatch: bad OFFSET"),
            ("43, 0", "ANNO: parse error"),
        ] {
            let config = alloc::format!("Inject -> GetEtherAddress({arguments}) -> Collect;");
            Rig::refuses(&config, error);
        }
    }
}
