use super::SessionTable;
use crate::filters::dispatch::{DROP, send};
use crate::prelude::*;

/// Takes the headers off session frames of PPPoE.
///
/// A packet goes on without its headers, and counts for its session. It is dropped if
/// the frame is not of the session's host, if its source is not the session's address or of its prefix, or
/// before the session is up. A frame of another protocol goes to the PPPoEServer as it is.
///
/// # Example
/// ```click
/// b :: PPPoEServer(2:0:0:0:0:1, 100.64.0.1, 100.64.0.0/22, USERS "ann secret");
/// FromDump(in.pcap) -> decap :: PPPoEDecap(b) -> CheckIPHeader -> Discard;
/// Idle -> [0] b;
/// decap[1] -> [1] b;
/// b -> Discard;
/// ```
///
/// # See also
/// PPPoEServer, PPPoEEncap
#[derive(Element)]
#[element(ports = "1/2-3", processing = "h/h")]
#[inputs("session frames")]
#[outputs(
    "packets of IPv4",
    "frames of control packets",
    "packets of IPv6, which are dropped without it"
)]
pub struct PPPoEDecap {
    /// The PPPoEServer.
    #[arg(mandatory)]
    server: Option<Link<dyn SessionTable>>,
}

impl Element for PPPoEDecap {
    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        let mut outputs = [DROP; BATCH];
        if let Some(server) = self.server {
            cx.reach(server, |server, _| server.take_off(batch, &mut outputs));
        }
        send(cx, batch, &outputs)
    }
}
