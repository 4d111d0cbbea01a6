use super::header_compression::{
    CONTEXTS, FULL_HEADER, HEADERS, Headers, OTHER, compress, compressible, replace,
};
use crate::prelude::*;

/// Compresses the headers of TCP packets (RFC 2507).
///
/// Packets must start with their IP header. The first packet of a flow leaves whole, with a context
/// identifier. Later packets leave with the changes only, in 5 to 20 bytes instead of 40. These
/// packets always leave whole: other protocols, fragments, and packets with IP options, with a
/// wrong length or checksum, or with the TCP flags SYN, FIN or RST. Fourteen flows have a context;
/// a further flow takes the context of another, which starts again with a whole packet.
///
/// The first byte is the packet's type: 0 is whole, 1 whole after its context identifier, 2
/// compressed. The decompressor must get all packets in order: after a loss, the flow's packets are
/// wrong until the next whole one, and the receiver drops them by their checksum.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> Strip(14) -> CheckIPHeader -> RFC2507c -> RFC2507d -> IPPrint -> Discard;
/// ```
///
/// # See also
/// RFC2507d
#[derive(Element)]
#[element(ports = "1/1", alias("RFC2507Comp"))]
pub struct RFC2507c {
    contexts: [Option<Headers>; CONTEXTS],
}

impl RFC2507c {
    /// The context of the flow of `headers`, and what it held; one is made if there is none.
    fn context(&mut self, cx: &mut Cx<'_>, headers: &Headers) -> (usize, Option<Headers>) {
        // Addresses and ports.
        let same = |old: &Headers| old[12..24] == headers[12..24];
        let of_flow = |context: &Option<Headers>| context.as_ref().is_some_and(same);
        if let Some(at) = self.contexts.iter().position(of_flow) {
            return (at, self.contexts[at].replace(*headers));
        }
        let free = self.contexts.iter().position(|context| context.is_none());
        let at = free.unwrap_or_else(|| cx.random().below(CONTEXTS as u32) as usize);
        self.contexts[at] = Some(*headers);
        (at, None)
    }
}

impl Element for RFC2507c {
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let fits = match compressible(packet.data()).copied() {
            None => replace(packet, 0, &[OTHER]),
            Some(headers) => {
                let (at, old) = self.context(cx, &headers);
                let id = at as u8 + 1;
                match old.and_then(|old| compress(id, &old, &headers)) {
                    Some(changes) => replace(packet, HEADERS, &changes.bytes[..changes.len]),
                    None => replace(packet, 0, &[FULL_HEADER, id]),
                }
            }
        };
        packet.clear_network_header();
        if fits {
            Verdict::Forward
        } else {
            Verdict::Drop
        }
    }
}
