use alloc::string::{String, ToString};

use packet::{Edit, Facts, Packet};
use packet::wire::{EtherAddress, EtherType, EthernetHeader};
use router::args::{Args, Failed};
use router::{Class, Cx, Element, HandlerError, HandlerFlags, HandlerList, Verdict};

use crate::values;

/// Puts a fixed Ethernet header in front of packets.
///
/// The header is marked as the packet's MAC header.
///
/// # Arguments
/// - `ETHERTYPE` (integer): what the frames carry, such as 0x0800 for IPv4.
/// - `SRC` (Ethernet address): who they are from.
/// - `DST` (Ethernet address): who they are for.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// - `ethertype`, `src`, `dst` (read, write): the arguments.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 1, STOP true)
///     -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2)
///     -> Discard;
/// ```
///
/// # See also
/// EtherRewrite, EtherMirror, ARPQuerier
pub struct EtherEncap {
    values: EthernetHeader,
    /// What `values` are on the wire.
    header: [u8; 14],
}

impl Default for EtherEncap {
    fn default() -> Self {
        EtherEncap {
            values: EthernetHeader {
                destination: EtherAddress::ZERO,
                source: EtherAddress::ZERO,
                ethertype: EtherType(0),
            },
            header: [0; 14],
        }
    }
}

impl Class for EtherEncap {
    const NAME: &'static str = "EtherEncap";
    const PORTS: &'static str = "1/1";
    const SEGMENTS: bool = true;
}

impl Element for EtherEncap {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        args.mandatory_positional("ETHERTYPE", &mut self.values.ethertype.0)
            .mandatory_positional("SRC", &mut self.values.source)
            .mandatory_positional("DST", &mut self.values.destination)
            .complete()?;
        self.header = self.values.to_bytes();
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    #[inline]
    fn keeps(&self) -> Facts {
        // What was stripped and is overwritten may have been an IP header.
        Facts::UNICAST.and(Facts::SOURCE_STAYS)
    }

    fn edit(&self) -> Option<Edit> {
        Edit::encapsulate(&self.header)
    }

    #[inline(always)]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if !packet.push(self.header.len()) {
            return Verdict::Drop;
        }
        packet.set_mac_header(0);
        if let Some(place) = packet.data_mut().first_chunk_mut() {
            *place = self.header;
        }
        Verdict::Forward
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read_write("src").read_write("dst");
        list.read_write("ethertype").read_write("etht");
        list.add("etht", HandlerFlags::DEPRECATED);
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        Ok(match name {
            "src" => self.values.source.to_string(),
            "dst" => self.values.destination.to_string(),
            "ethertype" | "etht" => self.values.ethertype.0.to_string(),
            _ => return Err(HandlerError::Unknown),
        })
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let header = &mut self.values;
        match name {
            "src" => values::argument(cx, 1, "SRC", value, &mut header.source)?,
            "dst" => values::argument(cx, 2, "DST", value, &mut header.destination)?,
            "ethertype" | "etht" => {
                values::argument(cx, 0, "ETHERTYPE", value, &mut header.ethertype.0)?;
            }
            _ => return Err(HandlerError::Unknown),
        }
        self.header = self.values.to_bytes();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use crate::testing::Rig;

    const CONFIG: &str =
        "i :: Inject -> e :: EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> c :: Collect;";

    #[test]
    fn the_header_goes_in_front_and_is_marked() {
        let mut rig = Rig::new(CONFIG);
        rig.push_all("i", &[vec![9], vec![]]);
        let packets = rig.collected("c");
        let header = [2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 8, 0];
        assert_eq!(packets[0].data(), [&header[..], &[9]].concat());
        assert_eq!(packets[1].data(), header);
        assert_eq!(packets[0].mac_offset(), Some(0));
    }

    #[test]
    fn handlers_change_the_header_and_the_configuration() {
        let mut rig = Rig::new(CONFIG);
        assert_eq!(rig.read("e.ethertype"), "2048");
        rig.write("e.ethertype", "0x0801");
        rig.write("e.dst", "3:3:3:3:3:3");
        assert_eq!(rig.read("e.etht"), "2049");
        assert_eq!(rig.read("e.dst"), "03-03-03-03-03-03");
        assert_eq!(rig.read("e.config"), "0x0801, 1:1:1:1:1:1, 3:3:3:3:3:3");
        rig.push("i", &[]);
        assert_eq!(rig.data("c")[0][..6], [3; 6]);
        let error = rig.try_write("e.src", "zork").unwrap_err();
        assert_eq!(error, "SRC: parse error".into());
        rig.write("e.config", "1, 0:0:0:0:0:9, 3:3:3:3:3:3");
        assert_eq!(rig.read("e.src"), "00-00-00-00-00-09");
    }

    #[test]
    fn all_arguments_are_needed() {
        let errors = Rig::errors("Inject -> EtherEncap(0x0800) -> Collect;");
        assert!(
            errors.contains("SRC: required argument missing"),
            "{errors}"
        );
    }
}
