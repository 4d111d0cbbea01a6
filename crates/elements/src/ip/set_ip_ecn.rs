use super::tos::header;
use crate::prelude::*;

/// Sets the explicit congestion notification field of IP packets.
///
/// The field is the lower two bits of the type of service; the others stay, and the header's
/// checksum is updated. Packets without a marked IP header pass unchanged.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> CheckIPHeader(14) -> SetIPECN(no) -> Discard;
/// ```
///
/// # See also
/// SetIPDSCP, MarkIPCE
#[derive(Element)]
#[element(ports = "1/1", live, handlers)]
pub struct SetIPECN {
    /// The field: not ECN-capable, ECT(1), ECT(0), or congestion experienced. `-`, `ECT(1)`,
    /// `ECT(0)` and `CE` are other names.
    #[arg(mandatory, name = "ECN", with = Any, kind = "no, ect1, ect2, ce, or 0 to 3")]
    argument: String,
    field: u8,
}

fn field(text: &str) -> Option<u8> {
    Some(match text {
        "0" | "no" | "-" => Ecn::NotCapable as u8,
        "1" | "ect1" | "ECT(1)" => Ecn::Capable1 as u8,
        "2" | "ect2" | "ECT(0)" => Ecn::Capable0 as u8,
        "3" | "ce" | "CE" => Ecn::Congested as u8,
        _ => return None,
    })
}

const BAD_ECN: &str = "bad ECN argument";

#[handlers]
impl SetIPECN {
    /// The argument ECN.
    #[read(calm)]
    fn ecn(&self) -> &str {
        &self.argument
    }

    /// The argument ECN.
    #[write]
    fn set_ecn(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), HandlerError> {
        let text = click::config::uncomment(value);
        self.field = field(&text).ok_or(BAD_ECN)?;
        self.argument = text.to_string();
        write_argument(cx, "ECN", Some(0), value);
        Ok(())
    }
}

impl Element for SetIPECN {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.field = field(&self.argument).ok_or_else(|| args.fail(BAD_ECN))?;
        Ok(())
    }

    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if let Some(mut ip) = header(packet) {
            ip.rewrite_tos(ip.tos() & !3 | self.field);
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn its_handler_has_the_text() {
        let mut rig = Rig::new("i :: Inject -> MarkIPHeader -> s :: SetIPECN(no) -> c :: Collect;");
        assert_eq!(rig.read("s.ecn"), "no");
        rig.write("s.ecn", "ce");
        assert_eq!(rig.read("s.ecn"), "ce");
        rig.push("i", &ping(A, A, &[]));
        assert_eq!(rig.data("c")[0][1] & 3, 3);
    }
}
