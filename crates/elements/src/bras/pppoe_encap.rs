use super::SessionTable;
use crate::filters::dispatch::{DROP, send};
use crate::prelude::*;

/// Puts the headers of session frames of PPPoE in front of packets.
///
/// The session is that of the packet's destination; the packet counts for it. Packets are of IPv4 or IPv6, and
/// at most as long as the PPPoEServer's MTU: put an IPFragmenter before.
///
/// # Example
/// ```click
/// b :: PPPoEServer(2:0:0:0:0:1, 100.64.0.1, 100.64.0.0/22, USERS "ann secret");
/// Idle -> [0] b;
/// Idle -> [1] b;
/// b -> Discard;
/// FromDump(in.pcap) -> Strip(14) -> CheckIPHeader -> IPFragmenter(1492)
///     -> encap :: PPPoEEncap(b) -> Discard;
/// encap[1] -> ICMPError(100.64.0.1, unreachable, host) -> Discard;
/// ```
///
/// # See also
/// PPPoEServer, PPPoEDecap
#[derive(Element)]
#[element(ports = "1/1-2", processing = "h/h")]
#[inputs("packets")]
#[outputs(
    "session frames",
    "packets whose destination no session has, which are dropped without it"
)]
pub struct PPPoEEncap {
    /// The PPPoEServer.
    #[arg(mandatory)]
    server: Option<Link<dyn SessionTable>>,
}

impl Element for PPPoEEncap {
    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        let mut outputs = [DROP; BATCH];
        if let Some(server) = self.server {
            cx.reach(server, |server, _| server.put_on(batch, &mut outputs));
        }
        send(cx, batch, &outputs)
    }
}
