use super::tos::{check_code_point, header};
use crate::prelude::*;

/// Sets the differentiated services code point of IP packets.
///
/// The code point is the upper six bits of the type of service; the others stay, and the header's
/// checksum is updated. Packets without a marked IP header pass unchanged.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> CheckIPHeader(14) -> SetIPDSCP(46) -> Discard;
/// ```
///
/// # See also
/// SetIPECN, MarkIPCE
#[derive(Element)]
#[element(ports = "1/1", segments, live)]
pub struct SetIPDSCP {
    /// The code point, 0 to 63.
    #[arg(mandatory, read, write, config, calm, then = check)]
    dscp: u32,
}

impl SetIPDSCP {
    fn check(&mut self, _cx: &mut Cx<'_>) -> Result<(), &'static str> {
        check_code_point(self.dscp)
    }
}

impl Element for SetIPDSCP {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        check_code_point(self.dscp).map_err(|error| args.fail(error))
    }

    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if let Some(mut ip) = header(packet) {
            ip.rewrite_tos((self.dscp as u8) << 2 | ip.tos() & 3);
        }
        Verdict::Forward
    }
}
