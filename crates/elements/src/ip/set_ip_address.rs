use alloc::string::{String, ToString};
use core::net::Ipv4Addr;

use packet::Packet;
use packet::anno::{Anno, DST_IP};
use router::args::{AnnoArg, Args, Failed, Flags};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList, Verdict};

use super::get_ip_address::{anno_of, annotation};
use crate::values;

/// Sets packets' destination address annotation to a fixed address.
///
/// # Arguments
/// - `IPADDR` (IP address): the address.
/// - `ANNO` (annotation, DST_IP): which annotation to set; by keyword only.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// - `addr` (read, write): the address.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> Strip(14) -> SetIPAddress(18.26.4.1)
///     -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> Discard;
/// ```
///
/// # See also
/// StoreIPAddress, GetIPAddress
pub struct SetIPAddress {
    address: Ipv4Addr,
    anno: Anno,
}

impl Default for SetIPAddress {
    fn default() -> Self {
        SetIPAddress {
            address: Ipv4Addr::UNSPECIFIED,
            anno: DST_IP,
        }
    }
}

impl Class for SetIPAddress {
    const NAME: &'static str = "SetIPAddress";
    const PORTS: &'static str = "1/1";
    const SEGMENTS: bool = true;
}

impl Declared for SetIPAddress {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let mut anno = annotation(DST_IP);
        args.mandatory_positional("IPADDR", &mut self.address)
            .arg("ANNO", Flags::KEYWORD, AnnoArg(4), &mut anno)
            .complete()?;
        self.anno = anno_of(anno);
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read_write("addr");
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "addr" => Ok(self.address.to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "addr" => self.address = values::ip(cx, value)?,
            _ => return Err(HandlerError::Unknown),
        }
        Ok(())
    }
}

impl Element for SetIPAddress {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        packet.set_anno(self.anno, u32::from_ne_bytes(self.address.octets()));
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use crate::testing::Rig;

    #[test]
    fn the_annotation_is_set() {
        let config = "i :: Inject -> s :: SetIPAddress(1.2.3.4)
            -> SetIPAddress(5.6.7.8, ANNO 20) -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.push("i", &[]);
        let packets = rig.collected("c");
        assert_eq!(packets[0].dst_ip(), Ipv4Addr::new(1, 2, 3, 4));
        assert_eq!(packets[0].annotations()[20..24], [5, 6, 7, 8]);
        rig.write("s.addr", "9.9.9.9");
        assert_eq!(rig.read("s.addr"), "9.9.9.9");
        let error = rig.try_write("s.addr", "zork").unwrap_err();
        assert_eq!(error, "expected IP address".into());
        rig.write("s.config", "8.8.8.8");
        assert_eq!(rig.read("s.addr"), "8.8.8.8");
    }
}
