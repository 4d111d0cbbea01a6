use super::ether_field::annotate;
use crate::prelude::*;

/// Sets an annotation of packets to a fixed Ethernet address.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> SetEtherAddress(1:1:1:1:1:1, 0) -> StoreEtherAddress(OFFSET dst, ANNO 0)
///     -> Discard;
/// ```
///
/// # See also
/// StoreEtherAddress, GetEtherAddress
#[derive(Element)]
#[element(ports = "1/1", live)]
pub struct SetEtherAddress {
    /// The address.
    #[arg(mandatory, name = "ADDR", read, write, config)]
    address: EtherAddress,
    /// The six-byte annotation to set.
    #[arg(mandatory)]
    anno: AnnoOf<6>,
}

impl Element for SetEtherAddress {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        annotate(packet, self.anno.offset(), self.address.0);
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn the_annotation_is_set() {
        let config = "i :: Inject -> s :: SetEtherAddress(1:2:3:4:5:6, 8) -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.push("i", &[]);
        assert_eq!(
            rig.collected("c")[0].annotations()[7..15],
            [0, 1, 2, 3, 4, 5, 6, 0]
        );
        rig.write("s.addr", "0:0:0:0:0:9");
        assert_eq!(rig.read("s.addr"), "00-00-00-00-00-09");
        Rig::refuses(
            "Inject -> SetEtherAddress(1:1:1:1:1:1) -> Collect;",
            "ANNO: required argument missing",
        );
    }
}
