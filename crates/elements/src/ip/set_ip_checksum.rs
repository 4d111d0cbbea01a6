use crate::prelude::*;

/// Computes the checksum of IP headers.
///
/// The header is where it is marked, or at the packet's start if it is not. Packets too short for
/// their header are dropped, the first with a message. Elements that change an IP header update its
/// checksum; this element is for headers written by other means.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> Strip(14) -> StoreIPAddress(18.26.4.1, 12) -> SetIPChecksum -> Discard;
/// ```
///
/// # See also
/// CheckIPHeader, DecIPTTL, SetUDPChecksum, SetTCPChecksum
#[derive(Element)]
#[element(ports = "1/1", segments)]
pub struct SetIPChecksum {
    /// Packets dropped.
    #[handler(read)]
    drops: u64,
}

/// Computes the checksum of the IP header that `bytes` start with; false if there is none.
#[inline(always)]
fn fill(bytes: &mut [u8]) -> bool {
    if let Some(header) = bytes.first_chunk_mut::<20>()
        && header[0] & 0x0f == 5
    {
        Ipv4Packet::new_unchecked(header).fill_checksum();
        return true;
    }
    fill_longer(bytes)
}

#[cold]
fn fill_longer(bytes: &mut [u8]) -> bool {
    let available = bytes.len();
    let mut ip = Ipv4Packet::new_unchecked(bytes);
    let fits = (20..=available).contains(&ip.header_len());
    if fits {
        ip.fill_checksum();
    }
    fits
}

impl SetIPChecksum {
    #[cold]
    fn refuse(&mut self, cx: &mut Cx<'_>, packet: &Packet) -> Verdict {
        if self.drops == 0 {
            cx.chatter("SetIPChecksum: bad input packet");
        }
        self.drops += packet.stands_for() as u64;
        Verdict::Drop
    }
}

impl Element for SetIPChecksum {
    #[inline]
    fn effects(&self) -> Effects {
        Effects {
            edit: Some(Edit::sum_ip()),
            ..Effects::default()
        }
    }

    #[inline(always)]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let filled = match packet.network_header_mut() {
            Some(header) => fill(header),
            None => fill(packet.data_mut()),
        };
        if filled {
            return Verdict::Forward;
        }
        self.refuse(cx, packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn checksums_come_out_right() {
        let mut rig = Rig::new("i :: Inject -> s :: SetIPChecksum -> c :: Collect;");
        let address = Ipv4Addr::new(1, 2, 3, 4);
        let packet = udp((address, 1), (address, 2), &[]);
        let mut wrong = packet.clone();
        wrong[10..12].fill(0xee);
        rig.push("i", &wrong);
        rig.push_with("i", &[&[0; 2], &wrong[..]].concat(), |packet| {
            packet.set_network_header(2, 20)
        });
        assert_eq!(
            rig.data("c"),
            [packet.clone(), [vec![0; 2], packet].concat()]
        );
    }

    #[test]
    fn headers_that_do_not_fit_are_dropped() {
        let mut rig = Rig::new("i :: Inject -> s :: SetIPChecksum -> c :: Collect;");
        rig.push_all("i", &[vec![0x45; 19], vec![0x44; 20], vec![0x46; 23]]);
        assert!(rig.data("c").is_empty());
        assert_eq!(rig.read("s.drops"), "3");
        assert_eq!(rig.printed(), ["SetIPChecksum: bad input packet"]);
    }
}
