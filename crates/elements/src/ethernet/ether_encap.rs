use crate::prelude::*;

/// Puts a fixed Ethernet header in front of packets.
///
/// The header is marked as the packet's MAC header.
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
#[derive(Element)]
#[element(ports = "1/1", segments, live)]
pub struct EtherEncap {
    /// The type of the payload, such as 0x0800 for IPv4.
    #[arg(mandatory, read, write, config, alias = "etht", then = make_header)]
    ethertype: u16,
    /// The source address.
    #[arg(mandatory, name = "SRC", read, write, config, then = make_header)]
    source: EtherAddress,
    /// The destination address.
    #[arg(mandatory, name = "DST", read, write, config, then = make_header)]
    destination: EtherAddress,
    /// The header on the wire.
    header: [u8; 14],
}

impl EtherEncap {
    fn make_header(&mut self, _cx: &mut Cx<'_>) {
        let header = EthernetHeader {
            destination: self.destination,
            source: self.source,
            ethertype: EtherType(self.ethertype),
        };
        self.header = header.to_bytes();
    }
}

impl Element for EtherEncap {
    fn configured(&mut self, cx: &mut Cx<'_>, _args: &mut Args<'_>) -> Result<(), Failed> {
        self.make_header(cx);
        Ok(())
    }

    #[inline]
    fn effects(&self) -> Effects {
        // What was stripped and is overwritten may have been an IP header.
        Effects {
            edit: Edit::encapsulate(&self.header),
            preserves: Facts::UNICAST.and(Facts::SOURCE_STAYS),
            ..Effects::default()
        }
    }

    #[inline(always)]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if !packet.push(self.header.len()) {
            return Verdict::Drop;
        }
        packet.set_whole_mac_header(self.header.len());
        if let Some(place) = packet.data_mut().first_chunk_mut() {
            *place = self.header;
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

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
        assert_eq!(packets[0].network_offset(), Some(14));
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
        assert_eq!(
            error,
            HandlerError::failed(FailureKind::Failed, "SRC: parse error")
        );
        rig.write("e.config", "1, 0:0:0:0:0:9, 3:3:3:3:3:3");
        assert_eq!(rig.read("e.src"), "00-00-00-00-00-09");
    }

    #[test]
    fn all_arguments_are_needed() {
        Rig::refuses(
            "Inject -> EtherEncap(0x0800) -> Collect;",
            "SRC: required argument missing",
        );
    }
}
