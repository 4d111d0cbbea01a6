use super::header_compression::{
    COMPRESSED_TCP, CONTEXTS, FULL_HEADER, HEADERS, Headers, OTHER, decompress, ip_checksum,
    replace,
};
use crate::prelude::*;

/// Restores the headers that RFC2507c compressed.
///
/// Packets of another form are dropped, and so are compressed packets of a flow without a whole
/// packet before.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> Strip(14) -> CheckIPHeader -> RFC2507c -> RFC2507d -> IPPrint -> Discard;
/// ```
///
/// # See also
/// RFC2507c
#[derive(Element)]
#[element(ports = "1/1", alias("RFC2507Decomp"))]
pub struct RFC2507d {
    contexts: [Option<Headers>; CONTEXTS],
    /// Packets dropped.
    #[handler(read)]
    drops: u64,
}

impl RFC2507d {
    fn restore(&mut self, packet: &mut Packet) -> Option<()> {
        let data = packet.data();
        let kind = *data.first()?;
        if kind == OTHER {
            packet.pull(1);
            return Some(());
        }
        let id = usize::from(*data.get(1)?);
        let context = self.contexts.get_mut(id.checked_sub(1)?)?;
        match kind {
            FULL_HEADER => {
                let headers = data.get(2..)?.first_chunk::<HEADERS>();
                let tcp = |headers: &&Headers| headers[0] == 0x45 && headers[9] == 6;
                *context = headers.filter(tcp).copied();
                packet.pull(2);
            }
            COMPRESSED_TCP => {
                let mut headers = (*context)?;
                let length = decompress(&mut headers, data)?;
                let total = u16::try_from(data.len() - length + HEADERS).ok()?;
                headers[2..4].copy_from_slice(&total.to_be_bytes());
                let checksum = ip_checksum(&headers);
                headers[10..12].copy_from_slice(&checksum.to_be_bytes());
                *context = Some(headers);
                replace(packet, length, &headers).then_some(())?;
            }
            _ => return None,
        }
        Some(())
    }
}

impl Element for RFC2507d {
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        packet.clear_network_header();
        if self.restore(packet).is_none() {
            self.drops += 1;
            return Verdict::Drop;
        }
        if let Ok(ip) = Ipv4Packet::new_checked(packet.data()) {
            let length = ip.header_len();
            packet.set_network_header(0, length);
        }
        Verdict::Forward
    }
}
