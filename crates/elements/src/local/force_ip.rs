use crate::prelude::*;

/// Makes packets legal IP packets.
///
/// The bytes at a packet's start become an IPv4 header: version, total length, and checksum are
/// set, and an impossible header length is replaced by the longest one that fits. Fragment bits and
/// offset are cleared, except in one packet of eight, the second, tenth and so on, where they are
/// left as they are. The header is marked. Packets of fewer than 20 bytes are dropped.
///
/// # Example
/// ```click
/// RandomSource(64, LIMIT 10) -> ForceIP -> IPPrint -> Discard;
/// ```
///
/// # See also
/// ForceTCP, ForceUDP, ForceICMP, RandomSource
#[derive(Element)]
#[element(ports = "1/1")]
pub struct ForceIP {
    count: u32,
}

impl Element for ForceIP {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let length = packet.len();
        let data = packet.data_mut();
        let Some(first) = data.first_mut().filter(|_| length >= 20) else {
            return Verdict::Drop;
        };
        let mut header_len = usize::from(*first & 0x0f) * 4;
        if header_len < 20 || header_len > length {
            header_len = (length / 4).min(15) * 4;
        }
        *first = 0x40 | (header_len / 4) as u8;
        let mut ip = Ipv4Packet::new_unchecked(data);
        ip.set_total_len(length.min(usize::from(u16::MAX)) as u16);
        if self.count & 7 != 1 {
            ip.set_fragment(false, false, 0);
        }
        self.count = self.count.wrapping_add(1);
        ip.fill_checksum();
        packet.set_network_header(0, header_len);
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn one_of_eight_stays_a_fragment() {
        let mut rig = Rig::new("i :: Inject -> ForceIP -> c :: Collect;");
        let packets = std::vec![std::vec![0xff; 40]; 10];
        rig.push_all("i", &packets);
        let fragments: std::vec::Vec<bool> = rig
            .data("c")
            .iter()
            .map(|data| data[6..8] != [0, 0])
            .collect();
        let expected = [
            false, true, false, false, false, false, false, false, false, true,
        ];
        assert_eq!(fragments, expected);
        rig.push("i", &[1; 19]);
        assert!(rig.data("c").is_empty());
    }

    proptest! {
        #[test]
        fn any_bytes_become_a_legal_packet(data in prop::collection::vec(any::<u8>(), 20..200)) {
            let mut rig = Rig::new("i :: Inject -> ForceIP -> k :: CheckIPHeader(CHECKSUM true)
                -> c :: Collect; k[1] -> bad :: Collect;");
            rig.push("i", &data);
            let packets = rig.collected("c");
            // Addresses may be bad ones still.
            let bad = rig.collected("bad");
            let packet = packets.first().or(bad.first()).unwrap();
            let header = usize::from(packet.data()[0] & 15) * 4;
            prop_assert!(packet.data()[0] >> 4 == 4 && header >= 20 && header <= data.len());
            prop_assert_eq!(checksum(&packet.data()[..header]), 0);
            prop_assert_eq!(&packet.data()[12..], &data[12..]);
        }
    }
}
