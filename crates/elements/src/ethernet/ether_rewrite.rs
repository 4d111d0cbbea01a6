use crate::prelude::*;

/// Sets the addresses of frames' Ethernet headers and leaves the type as it is.
///
/// The header is the packet's marked MAC header, or else starts the packet. The element serves links
/// with a single other end. Packets too short for an Ethernet header pass unchanged.
///
/// # Example
/// ```click
/// FromDevice(eth0)
///     -> EtherRewrite(1:1:1:1:1:1, 2:2:2:2:2:2)
///     -> Queue -> ToDevice(eth1);
/// ```
///
/// # See also
/// EtherEncap, EtherMirror, ARPQuerier
#[derive(Element)]
#[element(ports = "1/1", segments, live)]
pub struct EtherRewrite {
    /// The new source address.
    #[arg(mandatory, name = "SRC", read, write, config)]
    source: EtherAddress,
    /// The new destination address.
    #[arg(mandatory, name = "DST", read, write, config)]
    destination: EtherAddress,
}

impl EtherRewrite {
    #[inline(always)]
    fn rewrite(&self, header: &mut [u8]) {
        let mut frame = EthernetFrame::new_unchecked(header);
        if frame.header_mut().is_some() {
            frame.set_destination(self.destination);
            frame.set_source(self.source);
        }
    }
}

impl Element for EtherRewrite {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        match packet.mac_header_mut() {
            Some(header) => self.rewrite(header),
            None => self.rewrite(packet.data_mut()),
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    const CONFIG: &str =
        "i :: Inject -> e :: EtherRewrite(1:1:1:1:1:1, 2:2:2:2:2:2) -> c :: Collect;";

    #[test]
    fn addresses_are_set_and_the_type_stays() {
        let mut rig = Rig::new(CONFIG);
        rig.push_all("i", &[ether([7; 6], [8; 6], 0x1234, &[7]), vec![1; 13]]);
        let expected = [ether([2; 6], [1; 6], 0x1234, &[7]), vec![1; 13]];
        assert_eq!(rig.data("c"), expected);
    }

    #[test]
    fn the_marked_header_is_the_one() {
        let mut rig = Rig::new(CONFIG);
        let frame = [vec![5; 4], ether([7; 6], [8; 6], 0x1234, &[])].concat();
        rig.push_with("i", &frame, |packet| packet.set_mac_header(4));
        let expected = [vec![5; 4], ether([2; 6], [1; 6], 0x1234, &[])].concat();
        assert_eq!(rig.data("c"), [expected]);
    }

    #[test]
    fn handlers_change_the_arguments() {
        let mut rig = Rig::new(CONFIG);
        rig.write("e.src", "4:4:4:4:4:4");
        assert_eq!(rig.read("e.src"), "04-04-04-04-04-04");
        assert_eq!(rig.read("e.dst"), "02-02-02-02-02-02");
        assert_eq!(rig.read("e.config"), "4:4:4:4:4:4, 2:2:2:2:2:2");
    }
}
