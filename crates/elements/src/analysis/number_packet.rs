use super::numbering::{Numbering, Numbers};
use crate::prelude::*;

/// Numbers packets: writes 0 into the first one, 1 into the next, as 8 bytes.
///
/// A packet that is too short for the number is lengthened with zeros. If its IP header is marked,
/// the header's length field becomes the number of bytes from the header to the packet's end;
/// checksums are not updated. Without memory, the packet is dropped.
///
/// # Example
/// ```click
/// InfiniteSource(LENGTH 64, LIMIT 100, STOP true) -> n :: NumberPacket
///     -> c :: CheckNumberPacket(COUNT 100) -> Discard;
/// DriverManager(pause, print n.count, print c.min);
/// ```
///
/// # See also
/// CheckNumberPacket, RecordTimestamp, TimestampDiff
#[derive(Element)]
#[element(ports = "1/1", provides(Numbers))]
pub struct NumberPacket {
    #[flatten]
    numbering: Numbering,
    /// Packets numbered.
    #[handler(read)]
    count: u64,
}

impl NumberPacket {
    /// Makes room for the number; false if there is no memory.
    #[cold]
    fn lengthen(&self, packet: &mut Packet) -> bool {
        let (before, end) = (packet.len(), self.numbering.end());
        if !packet.put(end - before) {
            return false;
        }
        packet.data_mut()[before..].fill(0);
        if let Some(header) = packet.network_header_mut() {
            let length = u16::try_from(header.len()).unwrap_or(u16::MAX);
            if let Some(field) = header.get_mut(2..4) {
                field.copy_from_slice(&length.to_be_bytes());
            }
        }
        true
    }
}

impl Numbers for NumberPacket {
    fn net_order(&self) -> bool {
        self.numbering.net_order
    }
}

impl Element for NumberPacket {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if packet.len() < self.numbering.end() && !self.lengthen(packet) {
            return Verdict::Drop;
        }
        self.numbering.write(packet, self.count);
        self.count += 1;
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn numbers_ascend_in_either_byte_order() {
        let config = "i :: Inject -> n :: NumberPacket(1) -> NumberPacket(9, NET_ORDER true)
            -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.push_all("i", &[vec![7; 18], vec![7; 18]]);
        for (number, data) in (0u64..).zip(rig.data("c")) {
            assert_eq!((data[0], data[17]), (7, 7));
            assert_eq!(data[1..9], number.to_ne_bytes());
            assert_eq!(data[9..17], number.to_be_bytes());
        }
        assert_eq!(rig.read("n.count"), "2");
    }

    #[test]
    fn short_packets_grow() {
        let mut rig = Rig::new("i :: Inject -> NumberPacket(NET_ORDER true) -> c :: Collect;");
        let address = Ipv4Addr::new(1, 2, 3, 4);
        let packet = udp((address, 1), (address, 2), &[5]);
        rig.push_with("i", &packet, |packet| packet.set_network_header(0, 20));
        rig.push("i", &packet);
        let grown = rig.data("c");
        assert_eq!(grown[0][..4], [0x45, 0, 0, 48]);
        assert_eq!(grown[0][4..29], packet[4..]);
        assert_eq!(grown[0][29..], [0; 19]);
        // Without a marked header, no length is written.
        assert_eq!(grown[1][..29], packet);
        assert_eq!(grown[1][40..], 1u64.to_be_bytes());
    }

    #[test]
    fn a_number_beyond_memory_drops_the_packet() {
        let mut rig = Rig::new("i :: Inject -> n :: NumberPacket(4294967295) -> c :: Collect;");
        rig.push("i", &[1]);
        assert!(rig.data("c").is_empty());
        assert_eq!(rig.read("n.count"), "0");
    }
}
