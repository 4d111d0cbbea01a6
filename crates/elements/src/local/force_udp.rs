use crate::prelude::*;

/// Makes the payload of IP packets a UDP datagram.
///
/// Length and destination port are set, and the checksum is computed. The IP header must be marked;
/// it does not change. Packets that are too short are dropped with a message.
///
/// # Example
/// ```click
/// RandomSource(64, LIMIT 10) -> ForceIP -> ForceUDP(53) -> IPPrint -> Discard;
/// ```
///
/// # See also
/// ForceIP, ForceTCP, ForceICMP
#[derive(Element)]
#[element(ports = "1/1")]
pub struct ForceUDP {
    /// The destination port to set; -1: a random one below 1024 for each packet.
    #[arg(positional, name = "DPORT", with = port_or_none, kind = "port", default_text = "-1")]
    port: Option<u16>,
}

/// A port, or -1 for none.
fn port_or_none(text: &str, context: &Context<'_>) -> Result<Option<u16>, Invalid> {
    match text {
        "-1" => Ok(None),
        _ => Port::UDP.parse(text, context).map(Some),
    }
}

impl ForceUDP {
    fn force(&self, random: &mut Random, packet: &mut Packet) -> Option<()> {
        let ip = Ipv4Packet::new_quoted(packet.network_header()?).ok()?;
        let (start, end) = (ip.header_len(), usize::from(ip.total_len()));
        let (source, destination) = (ip.source(), ip.final_destination());
        let protocol = ip.protocol().0;
        let datagram = packet.network_header_mut()?.get_mut(start..end)?;
        let length = datagram.len() as u16;
        if length < 8 {
            return None;
        }
        let mut udp = UdpPacket::new_unchecked(datagram);
        udp.set_length(length);
        udp.set_destination(self.port.unwrap_or_else(|| random.below(1024) as u16));
        udp.fill_checksum(pseudo_header_v4(source, destination, protocol, length));
        Some(())
    }
}

impl Element for ForceUDP {
    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        match self.force(cx.random(), packet) {
            Some(()) => Verdict::Forward,
            None => {
                cx.chatter("ForceUDP: bad lengths");
                Verdict::Drop
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn lengths_ports_and_checksums_are_set() {
        let config = "i :: Inject -> MarkIPHeader -> ForceUDP(53) -> CheckUDPHeader
            -> c :: Collect; j :: Inject -> MarkIPHeader -> ForceUDP(-1) -> CheckUDPHeader
            -> d :: Collect;";
        let mut rig = Rig::new(config);
        let right = udp(
            ([1, 0, 0, 1].into(), 1),
            ([2, 0, 0, 2].into(), 53),
            &[9; 31],
        );
        let mut wrong = right.clone();
        wrong[22..28].fill(0xee);
        rig.push("i", &wrong);
        assert_eq!(rig.data("c"), [right]);
        rig.push("j", &wrong);
        assert!(rig.data("d")[0][22] < 4);
        rig.push("i", &wrong[..50]);
        assert_eq!(rig.printed(), ["ForceUDP: bad lengths"]);
    }
}
