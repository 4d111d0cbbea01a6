use crate::prelude::*;

/// Sets the packet type annotation: how a packet arrived at its link.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> SetPacketType(BROADCAST) -> DropBroadcasts -> Discard;
/// ```
///
/// # See also
/// DropBroadcasts
#[derive(Element)]
#[element(ports = "1/1", segments, live)]
pub struct SetPacketType {
    /// The packet type, also in small letters.
    #[arg(mandatory, name = "TYPE", with = WordArg,
        kind = "HOST, BROADCAST, MULTICAST, OTHERHOST, OUTGOING or LOOPBACK")]
    name: String,
    packet_type: PacketType,
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

impl Element for SetPacketType {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let name = &self.name;
        let unknown = || args.fail(format_args!("unrecognized packet type ‘{name}’"));
        self.packet_type = parse(name).ok_or_else(unknown)?;
        Ok(())
    }

    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        packet.set_packet_type(self.packet_type);
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn the_type_is_set() {
        let mut rig = Rig::new("i :: Inject -> s :: SetPacketType(BROADCAST) -> c :: Collect;");
        rig.push("i", &[1]);
        rig.write("s.config", "otherhost");
        rig.push("i", &[1]);
        let types = rig.collected("c");
        let types = types.iter().map(|packet| packet.packet_type());
        assert!(types.eq([PacketType::Broadcast, PacketType::OtherHost]));
        Rig::refuses(
            "Idle -> SetPacketType(x) -> Discard;",
            "unrecognized packet type 'x'",
        );
    }
}
