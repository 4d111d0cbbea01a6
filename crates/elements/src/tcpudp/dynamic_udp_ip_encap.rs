use super::udp_ip_encap::UDPIPEncap;
use crate::headers::destination::Destination;
use crate::prelude::*;

/// Puts UDP and IP headers in front of packets, with ports that count up.
///
/// As UDPIPEncap, but for the ports.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 100, STOP true)
///     -> DynamicUDPIPEncap(1.0.0.1, 1234, 2.0.0.2, 1234, true, 10)
///     -> IPPrint -> Discard;
/// ```
///
/// # See also
/// UDPIPEncap, IPEncap
#[derive(Element)]
#[element(ports = "1/1")]
pub struct DynamicUDPIPEncap {
    /// The source address.
    #[arg(mandatory, name = "SRC")]
    source: Ipv4Addr,
    /// The first packets' source port.
    #[arg(mandatory, name = "SPORT")]
    source_port: UdpPort,
    /// The destination address.
    #[arg(mandatory, name = "DST")]
    destination: Ipv4Addr,
    /// The first packets' destination port.
    #[arg(mandatory, name = "DPORT")]
    destination_port: UdpPort,
    /// Whether to compute the UDP checksum.
    #[arg(positional, default = true)]
    checksum: bool,
    /// Packets after which both ports increase by one; never if 0.
    #[arg(positional, default = 0)]
    interval: u32,
    encap: UDPIPEncap,
    /// Packets since the ports went up.
    count: u32,
}

impl Element for DynamicUDPIPEncap {
    fn configured(&mut self, _cx: &mut Cx<'_>, _args: &mut Args<'_>) -> Result<(), Failed> {
        let encap = &mut self.encap;
        (encap.source, encap.source_port) = (self.source, self.source_port.0);
        encap.destination = Destination::To(self.destination);
        encap.destination_port = self.destination_port.0;
        encap.checksum = self.checksum;
        Ok(())
    }

    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let verdict = self.encap.action(cx, packet);
        self.count = self.count.wrapping_add(1);
        if self.interval > 0 && self.count == self.interval {
            self.count = 0;
            let encap = &mut self.encap;
            encap.source_port = encap.source_port.wrapping_add(1);
            encap.destination_port = encap.destination_port.wrapping_add(1);
        }
        verdict
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn ports_go_up_after_each_interval() {
        let mut rig = Rig::new(
            "i :: Inject -> DynamicUDPIPEncap(1.0.0.1, 53, 2.0.0.2, 65535, true, 2) -> c :: Collect;",
        );
        let (a, b) = (Ipv4Addr::new(1, 0, 0, 1), Ipv4Addr::new(2, 0, 0, 2));
        for up in [0, 0, 1, 1, 2] {
            rig.push("i", &[7]);
            let made = rig.data("c").remove(0);
            let expected = udp((a, 53 + up), (b, 65535u16.wrapping_add(up)), &[7]);
            assert_eq!(made[20..], expected[20..]);
        }
    }

    #[test]
    fn without_an_interval_they_stay() {
        let mut rig =
            Rig::new("i :: Inject -> DynamicUDPIPEncap(1.0.0.1, 53, 2.0.0.2, 54) -> c :: Collect;");
        rig.push_all("i", &[[7].to_vec(), [8].to_vec()]);
        let data = rig.data("c");
        assert!(data.iter().all(|packet| packet[20..24] == [0, 53, 0, 54]));
        Rig::refuses(
            "Inject -> DynamicUDPIPEncap(1.0.0.1, 53, DST_ANNO, 54) -> Collect;",
            "DST",
        );
    }
}
