use packet::Packet;
use router::args::{Args, Failed, Port};
use router::{Class, Cx, Declared, Element, Verdict};

use super::udp_ip_encap::UDPIPEncap;
use crate::destination::Destination;

/// Puts UDP and IP headers in front of packets, whose ports go up as packets come.
///
/// As UDPIPEncap, but for the ports.
///
/// # Arguments
/// - `SRC` (IP address), `SPORT` (port): who the first packets are from.
/// - `DST` (IP address), `DPORT` (port): who they are for.
/// - `CHECKSUM` (boolean, true): whether to compute the UDP checksum.
/// - `INTERVAL` (integer, 0): packets after which both ports go up by one; never if 0.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// None of its own.
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
#[derive(Default)]
pub struct DynamicUDPIPEncap {
    encap: UDPIPEncap,
    interval: u32,
    /// Packets since the ports went up.
    count: u32,
}

impl Class for DynamicUDPIPEncap {
    const NAME: &'static str = "DynamicUDPIPEncap";
    const PORTS: &'static str = "1/1";
}

impl Declared for DynamicUDPIPEncap {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let (mut to, encap) = (None, &mut self.encap);
        args.mandatory_positional("SRC", &mut encap.source)
            .mandatory_positional_with("SPORT", Port::UDP, &mut encap.ports.0)
            .mandatory_positional("DST", &mut to)
            .mandatory_positional_with("DPORT", Port::UDP, &mut encap.ports.1)
            .positional("CHECKSUM", &mut encap.checksum)
            .positional("INTERVAL", &mut self.interval)
            .complete()?;
        if let Some(to) = to {
            encap.destination = Destination::To(to);
        }
        Ok(())
    }
}

impl Element for DynamicUDPIPEncap {
    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let verdict = self.encap.action(cx, packet);
        self.count = self.count.wrapping_add(1);
        if self.interval > 0 && self.count == self.interval {
            self.count = 0;
            let (source, destination) = &mut self.encap.ports;
            *source = source.wrapping_add(1);
            *destination = destination.wrapping_add(1);
        }
        verdict
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use crate::testing::{Rig, udp};

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
        let mut rig = Rig::new(
            "i :: Inject -> DynamicUDPIPEncap(1.0.0.1, 53, 2.0.0.2, 54) -> c :: Collect;",
        );
        rig.push_all("i", &[[7].to_vec(), [8].to_vec()]);
        let data = rig.data("c");
        assert!(data.iter().all(|packet| packet[20..24] == [0, 53, 0, 54]));
        let errors = Rig::errors("Inject -> DynamicUDPIPEncap(1.0.0.1, 53, DST_ANNO, 54) -> Collect;");
        assert!(errors.contains("DST"), "{errors}");
    }
}
