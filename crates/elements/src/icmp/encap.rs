//! The headers of ICMPIPEncap and ICMPPingEncap.

use crate::prelude::*;

/// Length of the IP header.
const IP: usize = 20;
/// Length of the ICMP header of timestamp messages, their times included.
const TIMESTAMP: usize = 20;

/// The headers that packets get, and the number of the next.
#[derive(Component)]
pub struct Encap {
    /// The source of the packets.
    #[arg(
        mandatory,
        name = "SRC",
        read,
        write,
        config,
        calm,
        error = "syntax error",
        then = make_template
    )]
    source: Ipv4Addr,
    /// The destination of the packets.
    #[arg(
        mandatory,
        name = "DST",
        read,
        write,
        config,
        calm,
        error = "syntax error",
        then = make_template
    )]
    destination: Ipv4Addr,
    /// The ICMP identifier, if messages of the type have one.
    pub ident: u16,
    #[init(Icmpv4Type::ECHO)]
    pub icmp_type: Icmpv4Type,
    pub code: u8,
    /// IP identification and ICMP sequence number of the next packet; never 0.
    #[init(1)]
    number: u16,
    /// The IP header without length and identification, and its checksum.
    template: [u8; IP],
}

/// The code that a name or number means with messages of a type.
pub fn code_of(context: &Context<'_>, kind: u8, text: &str) -> Option<u8> {
    let code = context
        .names
        .int_or_number(Kind::IcmpCode(kind), text, context.element);
    u8::try_from(code?).ok()
}

impl Encap {
    /// Prepares the IP header, once all arguments are known.
    pub fn make_template(&mut self, _cx: &mut Cx<'_>) {
        let header = Ipv4Header {
            tos: 0,
            total_len: 0,
            ident: 0,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 255,
            protocol: IpProtocol::ICMP,
            source: self.source,
            destination: self.destination,
        };
        self.template = header.to_bytes();
    }

    /// Length of the ICMP header.
    fn icmp_len(&self) -> usize {
        match self.icmp_type {
            Icmpv4Type::TIMESTAMP | Icmpv4Type::TIMESTAMP_REPLY => TIMESTAMP,
            _ => Icmpv4Packet::<&[u8]>::HEADER_LEN,
        }
    }

    /// The ICMP header's last four bytes: identifier and sequence number, where it has them.
    fn rest(&self) -> [u8; 4] {
        match self.icmp_type {
            Icmpv4Type::ECHO
            | Icmpv4Type::ECHO_REPLY
            | Icmpv4Type::TIMESTAMP
            | Icmpv4Type::TIMESTAMP_REPLY
            | Icmpv4Type::INFORMATION
            | Icmpv4Type::INFORMATION_REPLY => {
                let ([a, b], [c, d]) = (self.ident.to_be_bytes(), self.number.to_be_bytes());
                [a, b, c, d]
            }
            _ => [0; 4],
        }
    }
}

impl Element for Encap {
    /// Puts the headers in front of a packet.
    #[inline(always)]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let icmp_len = self.icmp_len();
        if !packet.push(IP + icmp_len) {
            return Verdict::Drop;
        }
        let (length, number) = (packet.len() as u16, self.number);
        let mut ip = Ipv4Packet::new_unchecked(packet.data_mut());
        if let Some(place) = ip.header_mut() {
            *place = self.template;
        }
        ip.set_total_len(length);
        ip.set_ident(number);
        let new = Sum::ZERO.add_u16(length).add_u16(number);
        ip.update_checksum(Delta::of_sums(Sum::ZERO, new));

        let message = packet.data_mut().get_mut(IP..).unwrap_or_default();
        if let Some(times) = message.get_mut(8..icmp_len) {
            times.fill(0);
        }
        let mut icmp = Icmpv4Packet::new_unchecked(message);
        let header = Icmpv4Header {
            icmp_type: self.icmp_type,
            code: self.code,
            rest: self.rest(),
        };
        header.emit(&mut icmp);
        icmp.fill_checksum();
        packet.set_dst_ip(self.destination);
        packet.set_network_header(0, IP);
        self.number = self.number.wrapping_add(1).max(1);
        Verdict::Forward
    }
}
