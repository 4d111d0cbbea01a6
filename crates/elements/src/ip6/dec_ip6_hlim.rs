use alloc::string::{String, ToString};

use packet::Packet;
use packet::wire::Ipv6Packet;
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList, Verdict};

/// Takes one hop off the hop limit of IPv6 packets, and drops those that have none left.
///
/// Packets must have their IPv6 header marked; those that have not are taken for expired.
///
/// # Arguments
/// None.
///
/// # Ports
/// One agnostic input. Output 0 is agnostic. Output 1, optional, is push: packets whose hop limit
/// was 0 or 1, unchanged.
///
/// # Handlers
/// - `drops` (read): packets that had no hop left.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> Strip(14) -> CheckIP6Header -> hops :: DecIP6HLIM -> Discard;
/// hops[1] -> ICMP6Error(2001:db8::1, 3, 0) -> IP6Print -> Discard;
/// ```
///
/// # See also
/// ICMP6Error, CheckIP6Header, DecIPTTL
#[derive(Default)]
pub struct DecIP6HLIM {
    drops: u64,
}

impl Class for DecIP6HLIM {
    const NAME: &'static str = "DecIP6HLIM";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const SEGMENTS: bool = true;
}

impl Declared for DecIP6HLIM {
    fn handlers(&self, list: &mut HandlerList) {
        list.read("drops");
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "drops" => Ok(self.drops.to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }
}

impl Element for DecIP6HLIM {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let header = packet.network_header_mut().unwrap_or_default();
        if Ipv6Packet::new_unchecked(header).decrement_hop_limit() {
            return Verdict::Forward;
        }
        self.drops += 1;
        Verdict::To(1)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use crate::testing::Rig;
    use crate::testing::ip6::{addr, packet};

    #[test]
    fn a_hop_is_taken_off_while_there_is_one() {
        let mut rig = Rig::new(
            "i :: Inject -> MarkIP6Header -> d :: DecIP6HLIM -> c :: Collect;
            d[1] -> old :: Collect;",
        );
        let limits = [0u8, 1, 2, 255];
        let packets: Vec<_> = limits
            .iter()
            .map(|limit| {
                let mut packet = packet(59, addr("::1"), addr("::2"), &[]);
                packet[7] = *limit;
                packet
            })
            .collect();
        rig.push_all("i", &packets);
        let left: Vec<_> = rig.data("c").iter().map(|packet| packet[7]).collect();
        assert_eq!(left, [1, 254]);
        assert_eq!(rig.data("old"), packets[..2]);
        assert_eq!(rig.read("d.drops"), "2");
        // Nothing marked, or less than a header.
        rig.push("i", &[]);
        rig.push("i", &packets[3][..30]);
        assert_eq!(rig.read("d.drops"), "4");
    }
}
