use super::ether_field::offset;
use crate::prelude::*;

/// Writes an Ethernet address into packets.
///
/// Packets that end before the address does are dropped. Exactly one of ADDR and ANNO must be given.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> StoreEtherAddress(1:1:1:1:1:1, src) -> Discard;
/// ```
///
/// # See also
/// GetEtherAddress, SetEtherAddress, EtherRewrite, EtherEncap
#[derive(Element)]
#[element(ports = "1/1-2", processing = "a/ah", segments)]
#[outputs("packets with the address", "packets that end before the address does")]
pub struct StoreEtherAddress {
    /// The address.
    #[arg(positional, name = "ADDR", read = |given: &Option<EtherAddress>| given.unwrap_or_default(),
        write, config)]
    address: Option<EtherAddress>,
    /// Where to write it: bytes from the packet's start, or a field of the Ethernet header there.
    #[arg(mandatory, name = "OFFSET", with = WordArg, kind = "integer, `src` or `dst`")]
    field: String,
    /// The six-byte annotation to take the address from.
    #[arg]
    anno: Option<AnnoOf<6>>,
    offset: usize,
}

impl Element for StoreEtherAddress {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if self.address.is_some() == self.anno.is_some() {
            return Err(args.fail("must specify exactly one of ADDR/ANNO"));
        }
        self.offset = offset(&self.field, args)?;
        Ok(())
    }

    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let address = match self.anno {
            Some(anno) => {
                let bytes = packet.annotations().get(anno.offset()..);
                let bytes = bytes.and_then(|bytes| bytes.first_chunk().copied());
                bytes.unwrap_or_default()
            }
            None => self.address.unwrap_or_default().0,
        };
        let field = packet.data_mut().get_mut(self.offset..);
        match field.and_then(|bytes| bytes.first_chunk_mut()) {
            Some(field) => *field = address,
            None => return Verdict::To(1),
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    fn rig(arguments: &str) -> Rig {
        Rig::new(&format!(
            "i :: Inject -> e :: StoreEtherAddress({arguments}) -> c :: Collect;
             e[1] -> short :: Collect;"
        ))
    }

    #[test]
    fn addresses_are_written_where_the_arguments_say() {
        for (arguments, expected) in [
            ("9:9:9:9:9:9, src", ether([1; 6], [9; 6], 0x0800, &[7; 6])),
            ("9:9:9:9:9:9, DST", ether([9; 6], [2; 6], 0x0800, &[7; 6])),
            ("9:9:9:9:9:9, 14", ether([1; 6], [2; 6], 0x0800, &[9; 6])),
        ] {
            let mut rig = rig(arguments);
            rig.push("i", &ether([1; 6], [2; 6], 0x0800, &[7; 6]));
            assert_eq!(rig.data("c"), [expected], "{arguments}");
        }
        let mut rig = rig("9:9:9:9:9:9, 14");
        rig.push("i", &[0; 19]);
        assert_eq!(rig.data("short"), [[0; 19]]);
        rig.write("e.addr", "8:8:8:8:8:8");
        rig.push("i", &[0; 20]);
        assert_eq!(rig.data("c")[0][14..], [8; 6]);
        assert_eq!(rig.read("e.config"), "8:8:8:8:8:8, 14");
    }

    #[test]
    fn contradictions_are_refused() {
        for (arguments, error) in [
            ("OFFSET src", "must specify exactly one of ADDR/ANNO"),
            (
                "1:1:1:1:1:1, 0, ANNO 0",
                "must specify exactly one of ADDR/ANNO",
            ),
            ("1:1:1:1:1:1, zork", "type mismatch: bad OFFSET"),
        ] {
            let config = format!("Inject -> StoreEtherAddress({arguments}) -> Collect;");
            Rig::refuses(&config, error);
        }
    }
}
