use crate::prelude::*;

/// Makes the payload of IP packets a TCP segment.
///
/// An impossible TCP header length is replaced by a random one that fits, and the checksum is
/// computed. The IP header must be marked; it does not change. Packets that are too short are
/// dropped with a message.
///
/// # Example
/// ```click
/// RandomSource(64, LIMIT 10) -> ForceIP -> ForceTCP(80, FLAGS 2) -> IPPrint -> Discard;
/// ```
///
/// # See also
/// ForceIP, ForceUDP, ForceICMP
#[derive(Element)]
#[element(ports = "1/1")]
pub struct ForceTCP {
    /// The destination port to set; 0: none.
    #[arg(positional, name = "DPORT", default = TcpPort(0), default_text = "0")]
    port: TcpPort,
    /// Without DPORT, sets the destination port of three packets of eight: of two to 80, of one to a
    /// random one below 1024.
    #[arg(positional, name = "RANDOM_DPORT")]
    random: bool,
    /// The flags to set; -1: none.
    #[arg(positional, default = -1)]
    flags: i32,
    count: u32,
}

impl ForceTCP {
    fn port(&self, random: &mut Random) -> Option<u16> {
        let TcpPort(port) = self.port;
        match (port, self.count & 7) {
            (1.., _) => Some(port),
            (0, 0 | 1) if self.random => Some(80),
            (0, 3) if self.random => Some(random.below(1024) as u16),
            _ => None,
        }
    }

    fn force(&mut self, random: &mut Random, packet: &mut Packet) -> Option<()> {
        let ip = Ipv4Packet::new_quoted(packet.network_header()?).ok()?;
        let (start, end) = (ip.header_len(), usize::from(ip.total_len()));
        let (source, destination) = (ip.source(), ip.final_destination());
        let protocol = ip.protocol().0;
        let segment = packet.network_header_mut()?.get_mut(start..end)?;
        let length = segment.len();
        if length < 20 {
            return None;
        }
        let mut tcp = TcpPacket::new_unchecked(segment);
        let (mut header_len, mut flags) = (tcp.header_len(), tcp.flags());
        if header_len < 20 || header_len > length {
            let most = (length.min(60) - 20) / 4;
            header_len = 20 + 4 * random.below(most as u32 + 1) as usize;
        }
        if self.flags != -1 {
            flags = TcpFlags::from_bits(self.flags as u16);
        }
        tcp.set_header_len_and_flags(header_len, flags);
        if let Some(port) = self.port(random) {
            tcp.set_destination(port);
        }
        self.count = self.count.wrapping_add(1);
        tcp.fill_checksum(pseudo_header_v4(
            source,
            destination,
            protocol,
            length as u16,
        ));
        Some(())
    }
}

impl Element for ForceTCP {
    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        match self.force(cx.random(), packet) {
            Some(()) => Verdict::Forward,
            None => {
                cx.chatter("ForceTCP: bad lengths");
                Verdict::Drop
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn ports_and_flags_are_set() {
        let config = "i :: Inject -> MarkIPHeader -> ForceTCP(81, FLAGS 0x12)
            -> CheckTCPHeader -> c :: Collect;
            j :: Inject -> MarkIPHeader -> ForceTCP(RANDOM_DPORT true) -> d :: Collect;";
        let mut rig = Rig::new(config);
        let segment = tcp(
            ([1, 0, 0, 1].into(), 1),
            ([2, 0, 0, 2].into(), 2),
            0,
            &[9; 31],
        );
        rig.push("i", &segment);
        let made = rig.data("c").remove(0);
        assert_eq!((&made[22..24], made[33]), (&[0, 81][..], 0x12));
        rig.push_all("j", &std::vec![segment.clone(); 8]);
        let ports: std::vec::Vec<u8> = rig.data("d").iter().map(|data| data[23]).collect();
        assert_eq!((ports[0], ports[1], ports[2], ports[4]), (80, 80, 2, 2));
        rig.push("i", &segment[..39]);
        assert_eq!(rig.printed(), ["ForceTCP: bad lengths"]);
    }

    proptest! {
        #[test]
        fn any_bytes_become_a_segment(data in prop::collection::vec(any::<u8>(), 80..200)) {
            let mut rig = Rig::new("i :: Inject -> ForceIP -> SetIPAddress(1.0.0.1)
                -> f :: ForceTCP -> c :: Collect;");
            rig.push("i", &data);
            // Source routes make the receiver another address: the checksum is that one's.
            let made = rig.data("c").remove(0);
            let at = usize::from(made[0] & 15) * 4;
            let header = usize::from(made[at + 12] >> 4) * 4;
            prop_assert!(header >= 20 && at + header <= made.len());
        }
    }
}
