use crate::prelude::*;

/// Where the address goes.
#[derive(Clone, Copy, Default)]
enum Place {
    At(usize),
    Source,
    #[default]
    Destination,
}

/// Writes an IP address into packets.
///
/// With one argument, the address is the destination address annotation, and packets where that is
/// 0.0.0.0 pass unchanged. At an offset, only the address is written. In the source or destination
/// field of the IP header, which must be marked, the checksums of IP, TCP and UDP are updated.
/// Packets too short for the address are dropped.
///
/// # Arguments
/// - `ADDR` (IP address): the address; optional.
/// - `OFFSET` (integer, `src` or `dst`): where to write it: bytes from the packet's start, or a
///   field of the IP header.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> CheckIPHeader(14) -> StoreIPAddress(18.26.4.1, src) -> Discard;
/// ```
///
/// # See also
/// SetIPChecksum, SetTCPChecksum, SetUDPChecksum, SetIPAddress, GetIPAddress
#[derive(Element)]
#[element(ports = "1/1-2", processing = "a/ah", raw)]
#[outputs("packets with the address", "packets that lack the place")]
pub struct StoreIPAddress {
    /// None: the annotation.
    address: Option<Ipv4Addr>,
    place: Place,
}

impl Element for StoreIPAddress {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let (mut offset, mut address) = (String::new(), Ipv4Addr::UNSPECIFIED);
        let fixed = args.raw().len() > 1;
        let mut read = args.read();
        if fixed {
            read = read.mandatory_positional("ADDR", &mut address);
        }
        read.mandatory_positional_with("OFFSET", WordArg, &mut offset)
            .complete()?;
        self.address = fixed.then_some(address);
        self.place = match offset.to_lowercase().as_str() {
            "src" => Place::Source,
            "dst" => Place::Destination,
            _ => match args.context().parse::<i32>(&offset).map(usize::try_from) {
                Ok(Ok(offset)) => Place::At(offset),
                _ => return Err(args.fail("type mismatch: OFFSET requires integer")),
            },
        };
        Ok(())
    }

    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let address = self.address.unwrap_or(packet.dst_ip());
        if self.address.is_none() && address.is_unspecified() {
            return Verdict::Forward;
        }
        match self.place.store(packet, address) {
            Some(()) => Verdict::Forward,
            None => Verdict::To(1),
        }
    }
}

impl Place {
    #[inline(always)]
    fn store(self, packet: &mut Packet, address: Ipv4Addr) -> Option<()> {
        if let Place::At(offset) = self {
            let place = packet.data_mut().get_mut(offset..)?.first_chunk_mut()?;
            *place = address.octets();
            return Some(());
        }
        if packet.network_header_len() < 20 {
            return None;
        }
        let header = packet.network_header_mut().unwrap_or_default();
        let mut ip = Ipv4Packet::new_unchecked(header);
        ip.header_mut()?;
        let delta = match self {
            Place::Source => ip.rewrite_source(address),
            _ => ip.rewrite_destination(address),
        };
        let (protocol, first) = (ip.protocol(), ip.is_first_fragment());
        if first {
            update(packet, protocol, delta);
        }
        Some(())
    }
}

/// Brings the transport's checksum up to date, if there is one.
#[inline(always)]
fn update(packet: &mut Packet, protocol: IpProtocol, delta: Delta) {
    let transport = packet.transport_header_mut().unwrap_or_default();
    match protocol {
        IpProtocol::TCP => TcpPacket::new_unchecked(transport).update_checksum(delta),
        IpProtocol::UDP => UdpPacket::new_unchecked(transport).update_checksum(delta),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    const C: Ipv4Addr = Ipv4Addr::new(3, 4, 5, 6);

    fn rig(args: &str) -> Rig {
        let config = format!(
            "i :: Inject -> MarkIPHeader -> s :: StoreIPAddress({args}) -> c :: Collect;
             s[1] -> short :: Collect;"
        );
        Rig::new(&config)
    }

    /// What becomes of `packet` whose annotation is 1.0.0.2.
    fn stored(args: &str, packet: &[u8]) -> Vec<u8> {
        let mut rig = rig(args);
        rig.push_with("i", packet, |packet| {
            packet.set_dst_ip(Ipv4Addr::new(1, 0, 0, 2))
        });
        rig.data("c").remove(0)
    }

    #[test]
    fn offsets_take_the_address_as_it_is() {
        let packet = [0x99; 20];
        assert_eq!(stored("0", &packet)[..6], [1, 0, 0, 2, 0x99, 0x99]);
        assert_eq!(
            stored("1.0.0.3, 16", &packet)[14..],
            [0x99, 0x99, 1, 0, 0, 3]
        );
    }

    #[test]
    fn header_fields_update_the_header_checksum() {
        let packet = [0x99; 20];
        for (args, checksum) in [("src", [0xcb, 0xca]), ("1.0.0.4, dst", [0xcb, 0xc8])] {
            assert_eq!(stored(args, &packet)[10..12], checksum, "{args}");
        }
    }

    #[test]
    fn transport_checksums_follow() {
        assert_eq!(
            stored("3.4.5.6, src", &udp((A, 5), (B, 6), &[9])),
            udp((C, 5), (B, 6), &[9])
        );
        assert_eq!(
            stored("3.4.5.6, DST", &tcp((A, 5), (B, 6), 2, &[9])),
            tcp((A, 5), (C, 6), 2, &[9])
        );
        let mut none = udp((A, 5), (B, 6), &[9]);
        none[26..28].fill(0);
        assert_eq!(stored("3.4.5.6, src", &none)[26..28], [0, 0]);
    }

    #[test]
    fn what_lacks_the_place_leaves_by_output_1() {
        let mut short = rig("3.4.5.6, 17");
        short.push("i", &[0x45; 20]);
        assert_eq!(short.data("short"), [[0x45; 20]]);
        let mut short = rig("3.4.5.6, src");
        short.push("i", &[0x45; 19]);
        short.push("i", &[0x44; 20]);
        assert_eq!(short.data("short").len(), 2);
    }

    #[test]
    fn no_annotation_no_change() {
        let mut rig = rig("dst");
        rig.push("i", &[0x45; 20]);
        assert_eq!(rig.data("c"), [[0x45; 20]]);
    }

    #[test]
    fn wrong_places_are_refused() {
        Rig::refuses(
            "Inject -> StoreIPAddress(zork) -> Collect;",
            "type mismatch: OFFSET requires integer",
        );
    }
}
