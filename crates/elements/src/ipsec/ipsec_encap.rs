use crate::prelude::*;

/// Puts an IP header in front of packets for the gateway that their annotation names.
///
/// The destination is the destination address annotation, which RadixIPsecLookup set to the
/// tunnel's other end. Without SRC, the packet is marked for FixIPSrc, which sets the source.
/// Length, identification and checksum are set for each packet.
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
#[derive(Element)]
#[element(ports = "1/1", live)]
pub struct IPsecEncap {
    /// The protocol of the payload; 50 is ESP.
    #[arg(mandatory, name = "PROTO", with = NamedInt(Kind::IpProtocol), kind = "IP protocol")]
    protocol: i32,
    /// The source address, instead of FixIPSrc's.
    #[arg(name = "SRC", default = Ipv4Addr::UNSPECIFIED)]
    source: Ipv4Addr,
    /// Time to live.
    #[arg(default = 250)]
    ttl: u8,
    /// Type of service.
    #[arg(default = 0)]
    tos: u8,
    /// Whether the packets must not be fragmented.
    #[arg(name = "DF")]
    dont_fragment: bool,
    ident: u16,
}

impl Element for IPsecEncap {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if u8::try_from(self.protocol).is_err() {
            return Err(args.fail("bad IP protocol"));
        }
        Ok(())
    }

    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if !packet.push(20) {
            return Verdict::Drop;
        }
        let Ok(total_len) = u16::try_from(packet.len()) else {
            return Verdict::Drop;
        };
        let header = Ipv4Header {
            tos: self.tos,
            total_len,
            ident: self.ident,
            dont_fragment: self.dont_fragment,
            more_fragments: false,
            fragment_offset: 0,
            ttl: self.ttl,
            protocol: IpProtocol(self.protocol as u8),
            source: self.source,
            destination: packet.dst_ip(),
        };
        self.ident = self.ident.wrapping_add(1);
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
