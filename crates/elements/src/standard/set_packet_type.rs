use packet::{Packet, PacketType};
use router::args::{Args, Failed, WordArg};
use router::{Class, Cx, Declared, Element, Verdict};

/// Sets how packets came off their link, or seem to have.
///
/// # Arguments
/// - `TYPE` (`HOST`, `BROADCAST`, `MULTICAST`, `OTHERHOST`, `OUTGOING` or `LOOPBACK`): the packet
///   type; small letters will do.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> SetPacketType(BROADCAST) -> DropBroadcasts -> Discard;
/// ```
///
/// # See also
/// DropBroadcasts
#[derive(Default)]
pub struct SetPacketType {
    kind: PacketType,
}

impl Class for SetPacketType {
    const NAME: &'static str = "SetPacketType";
    const PORTS: &'static str = "1/1";
    const SEGMENTS: bool = true;
}

/// The packet type that is called `name`.
fn parse(name: &str) -> Option<PacketType> {
    Some(match name.to_ascii_uppercase().as_str() {
        "HOST" => PacketType::Host,
        "BROADCAST" => PacketType::Broadcast,
        "MULTICAST" => PacketType::Multicast,
        "OTHERHOST" => PacketType::OtherHost,
        "OUTGOING" => PacketType::Outgoing,
        "LOOPBACK" => PacketType::Loopback,
        _ => return None,
    })
}

impl Declared for SetPacketType {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let mut name = alloc::string::String::new();
        args.mandatory_positional_with("TYPE", WordArg, &mut name)
            .complete()?;
        let Some(kind) = parse(&name) else {
            return Err(args.fail(format_args!("unrecognized packet type ‘{name}’")));
        };
        self.kind = kind;
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }
}

impl Element for SetPacketType {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        packet.set_packet_type(self.kind);
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use packet::PacketType;

    use crate::testing::Rig;

    #[test]
    fn the_type_is_set() {
        let mut rig = Rig::new("i :: Inject -> s :: SetPacketType(BROADCAST) -> c :: Collect;");
        rig.push("i", &[1]);
        rig.write("s.config", "otherhost");
        rig.push("i", &[1]);
        let types = rig.collected("c");
        let types = types.iter().map(|packet| packet.packet_type());
        assert!(types.eq([PacketType::Broadcast, PacketType::OtherHost]));
        let errors = Rig::errors("Idle -> SetPacketType(x) -> Discard;");
        assert!(errors.contains("unrecognized packet type 'x'"), "{errors}");
    }
}
