use core::net::Ipv4Addr;

use packet::wire::{IpProtocol, Ipv4Header};
use packet::{Packet, anno};
use router::args::{Args, Failed, Kind, NamedInt};
use router::{Class, Cx, Declared, Element, Verdict};

/// Puts an IP header in front of packets for the gateway that their annotation names.
///
/// The destination is the destination address annotation, which RadixIPsecLookup set to the
/// tunnel's other end. The source is given, or else left open for FixIPSrc, which the packet is
/// marked for. Length, identification and checksum are each packet's own.
///
/// # Arguments
/// - `PROTO` (integer or name): what the packets carry; 50 is ESP.
/// - `SRC` (IP address): who they are from, instead of whom FixIPSrc names.
/// - `TTL` (integer, 250): time to live.
/// - `TOS` (integer, 0): type of service.
/// - `DF` (boolean, false): whether the packets must not be fragmented.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// Idle -> rt :: RadixIPsecLookup(0/0 0, 10.1/16 192.0.2.2 1 234
///     \<0123456789abcdef0123456789abcdef> \<00112233445566778899aabbccddeeff> 1 64);
/// rt[0] -> Discard;
/// rt[1] -> IPsecESPEncap -> IPsecAES(1, IGNORE 0) -> IPsecAuthHMACSHA1(0)
///     -> IPsecEncap(50) -> FixIPSrc(192.0.2.1) -> Discard;
/// ```
///
/// # See also
/// IPEncap, FixIPSrc, IPsecESPEncap, RadixIPsecLookup
pub struct IPsecEncap {
    header: Ipv4Header,
}

impl Default for IPsecEncap {
    fn default() -> Self {
        IPsecEncap {
            header: Ipv4Header {
                tos: 0,
                total_len: 0,
                ident: 0,
                dont_fragment: false,
                more_fragments: false,
                fragment_offset: 0,
                ttl: 250,
                protocol: IpProtocol(0),
                source: Ipv4Addr::UNSPECIFIED,
                destination: Ipv4Addr::UNSPECIFIED,
            },
        }
    }
}

impl Class for IPsecEncap {
    const NAME: &'static str = "IPsecEncap";
    const PORTS: &'static str = "1/1";
}

impl Declared for IPsecEncap {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let mut protocol = 0i32;
        let mut header = IPsecEncap::default().header;
        args.mandatory_positional_with("PROTO", NamedInt(Kind::IpProtocol), &mut protocol)
            .keyword("SRC", &mut header.source)
            .keyword("TTL", &mut header.ttl)
            .keyword("TOS", &mut header.tos)
            .keyword("DF", &mut header.dont_fragment)
            .complete()?;
        let protocol = u8::try_from(protocol).map_err(|_| args.fail("bad IP protocol"))?;
        header.protocol = IpProtocol(protocol);
        header.ident = self.header.ident;
        self.header = header;
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }
}

impl Element for IPsecEncap {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if !packet.push(20) {
            return Verdict::Drop;
        }
        let Ok(total_len) = u16::try_from(packet.len()) else {
            return Verdict::Drop;
        };
        let header = Ipv4Header {
            total_len,
            destination: packet.dst_ip(),
            ..self.header
        };
        self.header.ident = self.header.ident.wrapping_add(1);
        let Some(place) = packet.data_mut().first_chunk_mut() else {
            return Verdict::Drop;
        };
        *place = header.to_bytes();
        packet.set_network_header(0, 20);
        if header.source.is_unspecified() {
            packet.set_anno(anno::FIX_IP_SRC, 1);
        }
        Verdict::Forward
    }
}
