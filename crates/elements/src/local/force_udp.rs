use packet::Packet;
use packet::checksum::pseudo_header_v4;
use packet::wire::{Ipv4Packet, UdpPacket};
use router::args::{Args, Failed, Port};
use router::{Class, Cx, Declared, Element, Random, Verdict};

/// Makes what IP packets carry UDP datagrams.
///
/// Length and destination port are set, and the checksum is computed. The IP header has to be
/// marked; it stays as it is. Packets that are too short are dropped with a message.
///
/// # Arguments
/// - `DPORT` (UDP port, -1): the destination port to set; -1: a random one below 1024 for each
///   packet.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// RandomSource(64, LIMIT 10) -> ForceIP -> ForceUDP(53) -> IPPrint -> Discard;
/// ```
///
/// # See also
/// ForceIP, ForceTCP, ForceICMP
#[derive(Default)]
pub struct ForceUDP {
    port: Option<u16>,
}

impl Class for ForceUDP {
    const NAME: &'static str = "ForceUDP";
    const PORTS: &'static str = "1/1";
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

impl Declared for ForceUDP {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if args.raw().is_empty() || args.raw() == ["-1"] {
            return Ok(());
        }
        let (mut port, mut given) = (0, false);
        args.positional_with("DPORT", Port::UDP, &mut port)
            .given(&mut given)
            .complete()?;
        self.port = given.then_some(port);
        Ok(())
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
    use crate::testing::{Rig, udp};

    #[test]
    fn lengths_ports_and_checksums_are_set() {
        let config = "i :: Inject -> MarkIPHeader -> ForceUDP(53) -> CheckUDPHeader
            -> c :: Collect; j :: Inject -> MarkIPHeader -> ForceUDP(-1) -> CheckUDPHeader
            -> d :: Collect;";
        let mut rig = Rig::new(config);
        let right = udp(([1, 0, 0, 1].into(), 1), ([2, 0, 0, 2].into(), 53), &[9; 31]);
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
