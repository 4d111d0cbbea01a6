use super::ip_gw_options::IPGWOptions;
use crate::prelude::*;

/// Combines the output elements of an IP router.
///
/// As `DropBroadcasts -> PaintTee(COLOR) -> IPGWOptions(IPADDR) -> FixIPSrc(IPADDR) -> DecIPTTL ->
/// CheckLength(MTU)`. Packets must have their IP header marked.
///
/// # Example
/// ```click
/// FromDevice(eth0) -> IPInputCombo(1) -> o :: IPOutputCombo(1, 18.26.4.1, 1500)
///     -> out :: Queue -> ToDevice(eth0);
/// o[1] -> ICMPError(18.26.4.1, redirect, host) -> out;
/// o[2] -> ICMPError(18.26.4.1, parameterproblem) -> out;
/// o[3] -> ICMPError(18.26.4.1, timeexceeded) -> out;
/// o[4] -> IPFragmenter(1500) -> out;
/// ```
///
/// # See also
/// IPInputCombo, DropBroadcasts, PaintTee, IPGWOptions, FixIPSrc, DecIPTTL, CheckLength,
/// IPFragmenter
#[derive(Element)]
#[element(ports = "1/5", processing = "h/h", segments)]
#[outputs(
    "packets to be sent",
    "copies of packets of the color",
    "packets with a malformed option",
    "packets that have no hop left",
    "packets that are too long"
)]
pub struct IPOutputCombo {
    /// The paint of packets that arrived by this interface, 0 to 255.
    #[arg(mandatory)]
    color: u8,
    /// The interface's address.
    #[arg(mandatory, name = "IPADDR")]
    address: Ipv4Addr,
    /// Longest packet.
    #[arg(mandatory)]
    mtu: u32,
    options: IPGWOptions,
}

impl Element for IPOutputCombo {
    fn configured(&mut self, _cx: &mut Cx<'_>, _args: &mut Args<'_>) -> Result<(), Failed> {
        self.options = IPGWOptions::of(self.address);
        Ok(())
    }

    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if matches!(
            packet.packet_type(),
            PacketType::Broadcast | PacketType::Multicast
        ) {
            return Verdict::Drop;
        }
        if packet.paint() == self.color
            && let Some(copy) = cx.pool().clone(packet)
        {
            cx.emit(1, copy);
        }
        let fix = packet.anno(FIX_IP_SRC) != 0;
        let header = packet.network_header_mut().unwrap_or_default();
        if Ipv4Packet::new_unchecked(&*header).header_len() > 20
            && let Err(at) = self.options.fill(cx, header)
        {
            packet.set_anno(ICMP_PARAMPROB, at as u32);
            return Verdict::To(2);
        }
        let mut ip = Ipv4Packet::new_unchecked(header);
        if fix {
            ip.set_source(self.address);
            ip.fill_checksum();
        }
        let alive = ip.decrement_ttl();
        if fix {
            packet.set_anno(FIX_IP_SRC, 0);
        }
        if !alive {
            Verdict::To(3)
        } else if packet.segment_len() > self.mtu as usize {
            Verdict::To(4)
        } else {
            Verdict::Forward
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    fn rig() -> Rig {
        Rig::new(
            "i :: Inject -> MarkIPHeader -> o :: IPOutputCombo(7, 9.9.9.9, 60);
             o[0] -> c :: Collect; o[1] -> painted :: Collect; o[2] -> options :: Collect;
             o[3] -> expired :: Collect; o[4] -> long :: Collect;",
        )
    }

    #[test]
    fn packets_leave_with_a_hop_less() {
        let mut rig = rig();
        let packet = udp((A, 1), (B, 2), &[]);
        rig.push("i", &packet);
        rig.push_with("i", &packet, |packet| packet.set_anno(FIX_IP_SRC, 1));
        rig.push_with("i", &packet, |p| p.set_packet_type(PacketType::Broadcast));
        let sent = rig.collected("c");
        assert_eq!(sent.len(), 2);
        for packet in &sent {
            assert_eq!(packet.data()[8], 63);
            assert_eq!(checksum(&packet.data()[..20]), 0);
            assert_eq!(packet.anno(FIX_IP_SRC), 0);
        }
        assert_eq!(sent[0].data()[12..16], A.octets());
        assert_eq!(sent[1].data()[12..16], [9, 9, 9, 9]);
    }

    #[test]
    fn what_needs_more_leaves_by_its_output() {
        let mut rig = rig();
        let packet = udp((A, 1), (B, 2), &[]);
        rig.push_with("i", &packet, |packet| packet.set_paint(7));
        assert_eq!(rig.data("painted"), [&packet[..]]);
        assert_eq!(rig.data("c").len(), 1);
        let mut expired = packet.clone();
        expired[8] = 1;
        rig.push("i", &expired);
        assert_eq!(rig.data("expired"), [expired]);
        rig.push("i", &udp((A, 1), (B, 2), &[0; 33]));
        assert_eq!(rig.data("long").len(), 1);
        let mut option = packet.clone();
        option[0] = 0x46;
        option[20..24].copy_from_slice(&[7, 3, 3, 0]);
        rig.push("i", &option);
        assert_eq!(rig.collected("options")[0].anno(ICMP_PARAMPROB), 22);
    }
}
