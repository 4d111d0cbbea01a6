use super::encap::{Encap, code_of};
use crate::prelude::*;

/// Puts an ICMP header and an IP header in front of packets.
///
/// If messages of the type have a sequence number, it counts up from 1 and skips 0. The IP
/// identification is the same number. The IP header is marked, and the destination address
/// annotation set to the destination.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 1, STOP true)
///     -> ICMPIPEncap(1.0.0.1, 2.0.0.2, unreachable, host)
///     -> IPPrint -> Discard;
/// ```
///
/// # See also
/// ICMPPingEncap, ICMPError
#[derive(Element)]
#[element(ports = "1/1")]
pub struct ICMPIPEncap {
    #[delegate(configured = complete)]
    encap: Encap,
    /// The ICMP type, such as `echo` or `unreachable`.
    #[arg(mandatory, name = "TYPE", with = NamedInt(Kind::IcmpType), kind = "integer or name")]
    type_number: i32,
    /// The ICMP code, such as `needfrag`.
    #[arg(
        positional,
        with = WordArg,
        kind = "integer or name",
        default = "0".into(),
        default_text = "0"
    )]
    code: String,
    /// The ICMP identifier, if messages of the type have one.
    #[arg(default = 0)]
    identifier: u16,
}

impl ICMPIPEncap {
    fn complete(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let kind = u8::try_from(self.type_number).map_err(|_| args.fail("invalid TYPE"))?;
        let code = code_of(&args.context(), kind, &self.code);
        self.encap.code = code.ok_or_else(|| args.fail("invalid CODE"))?;
        self.encap.icmp_type = Icmpv4Type(kind);
        self.encap.ident = self.identifier;
        self.encap.make_template(cx);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn types_and_codes_have_names() {
        for (arguments, header) in [
            ("8, 0", &[8u8, 0, 0, 0, 0, 9, 0, 1][..]),
            ("echo-reply", &[0, 0, 0, 0, 0, 9, 0, 1]),
            ("unreachable, needfrag", &[3, 4, 0, 0, 0, 0, 0, 0]),
            ("5, toshost", &[5, 3, 0, 0, 0, 0, 0, 0]),
            (
                "timestamp",
                &[13, 0, 0, 0, 0, 9, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            ),
        ] {
            let mut rig = Rig::new(&format!(
                "i :: Inject -> ICMPIPEncap(1.0.0.1, 2.0.0.2, {arguments}, IDENTIFIER 9) -> c :: Collect;"
            ));
            rig.push("i", &[7]);
            let mut packet = rig.data("c").remove(0);
            assert_eq!(checksum(&packet[20..]), 0, "{arguments}");
            packet[22..24].fill(0);
            assert_eq!(packet[20..], [header, &[7]].concat(), "{arguments}");
        }
    }

    #[test]
    fn unknown_types_and_codes_are_refused() {
        for (arguments, error) in [
            ("256", "invalid TYPE"),
            ("echo, needfrag", "invalid CODE"),
            ("3, 256", "invalid CODE"),
            // As in Click: it stands where the type is to stand.
            ("IDENTIFIER 9, 3, 1", "TYPE: invalid number"),
        ] {
            let element = format!("ICMPIPEncap(1.0.0.1, 2.0.0.2, {arguments})");
            Rig::refuses(&format!("Inject -> {element} -> Collect;"), error);
        }
    }
}
