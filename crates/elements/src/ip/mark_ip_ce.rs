use super::tos::header;
use crate::prelude::*;

/// Marks IP packets as having experienced congestion.
///
/// Packets whose transport does not support congestion notification are dropped. The header's
/// checksum is updated. Packets must have their IP header marked; others are dropped.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> CheckIPHeader(14) -> MarkIPCE -> Discard;
/// ```
///
/// # See also
/// SetIPECN, SetIPDSCP
#[derive(Element)]
#[element(ports = "1/1")]
pub struct MarkIPCE {
    /// Whether to mark the packets that would be dropped.
    #[arg(positional)]
    force: bool,
    /// Packets dropped.
    #[handler(read)]
    drops: u64,
}

impl Element for MarkIPCE {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        match header(packet) {
            Some(mut ip) if self.force || ip.ecn() != Ecn::NotCapable => {
                ip.rewrite_tos(ip.tos() | Ecn::Congested as u8);
                Verdict::Forward
            }
            _ => {
                self.drops += 1;
                Verdict::Drop
            }
        }
    }
}
