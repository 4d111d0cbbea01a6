use crate::prelude::*;

/// Makes the payload of IP packets an ICMP message of one type and code.
///
/// Type and code are set, and the checksum computed. The IP header must be marked; it does not
/// change. Packets that are too short are dropped with a message.
///
/// # Example
/// ```click
/// RandomSource(64, LIMIT 10) -> ForceIP -> ForceICMP(echo, 0) -> IPPrint -> Discard;
/// ```
///
/// # See also
/// ForceIP, ForceTCP, ForceUDP
#[derive(Element)]
#[element(ports = "1/1")]
pub struct ForceICMP {
    /// The message's type, by number or name.
    #[arg(mandatory, name = "TYPE", default = -1, with = NamedInt(Kind::IcmpType), kind = "ICMP type")]
    kind: i32,
    /// The message's code, by number or name.
    #[arg(mandatory, with = WordArg, kind = "ICMP code")]
    code: String,
    type_and_code: (u8, u8),
}

impl ForceICMP {
    fn force(&self, packet: &mut Packet) -> Option<()> {
        let header = packet.network_header()?;
        let ip = Ipv4Packet::new_quoted(header).ok()?;
        let (start, end) = (ip.header_len(), usize::from(ip.total_len()));
        let message = packet.network_header_mut()?.get_mut(start..end)?;
        let [kind, code, ..] = message.first_chunk_mut::<8>()?;
        (*kind, *code) = self.type_and_code;
        Icmpv4Packet::new_unchecked(message).fill_checksum();
        Some(())
    }
}

impl Element for ForceICMP {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let Ok(kind) = u8::try_from(self.kind) else {
            return Err(args.fail("ICMP type must be between 0 and 255"));
        };
        let codes = NamedInt(Kind::IcmpCode(kind));
        let code = args.context().parse_with::<u8>(codes, &self.code);
        let code = code.map_err(|_| args.fail("argument 2 takes ICMP code"))?;
        self.type_and_code = (kind, code);
        Ok(())
    }

    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        match self.force(packet) {
            Some(()) => Verdict::Forward,
            None => {
                cx.chatter("ForceICMP: bad lengths");
                Verdict::Drop
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn type_code_and_checksum_are_set() {
        let config = "i :: Inject -> MarkIPHeader -> ForceICMP(unreachable, port) -> c :: Collect;";
        let mut rig = Rig::new(config);
        let packet = udp(([1, 0, 0, 1].into(), 1), ([2, 0, 0, 2].into(), 2), &[9; 31]);
        rig.push("i", &packet);
        let made = rig.data("c").remove(0);
        assert_eq!(made[20..22], [3, 3]);
        assert_eq!(checksum(&made[20..]), 0);
        assert_eq!((&made[..20], &made[24..]), (&packet[..20], &packet[24..]));
        rig.push("i", &packet[..40]);
        assert_eq!(rig.printed(), ["ForceICMP: bad lengths"]);
    }

    #[test]
    fn wrong_arguments_are_refused() {
        let errors = Rig::errors("Idle -> ForceICMP(300, 0) -> Discard;");
        assert!(
            errors.contains("ICMP type") || errors.contains("TYPE"),
            "{errors}"
        );
        Rig::refuses(
            "Idle -> ForceICMP(, 0) -> Discard;",
            "ICMP type must be between 0 and 255",
        );
        Rig::refuses(
            "Idle -> ForceICMP(3, zork) -> Discard;",
            "argument 2 takes ICMP code",
        );
    }
}
