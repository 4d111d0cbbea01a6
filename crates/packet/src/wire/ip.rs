//! What both versions of IP have in common.

numbers! {
    /// The protocol that an IP packet carries (IANA, "Assigned Internet Protocol Numbers"). In IPv6
    /// also the kind of an extension header.
    IpProtocol(u8, 1) {
        /// IPv6 hop-by-hop options (RFC 8200, section 4.3).
        HOP_BY_HOP = 0,
        /// ICMP for IPv4.
        ICMP = 1,
        /// IGMP.
        IGMP = 2,
        /// IPv4 in IP (RFC 2003).
        IPV4 = 4,
        /// TCP.
        TCP = 6,
        /// UDP.
        UDP = 17,
        /// DCCP (RFC 4340).
        DCCP = 33,
        /// IPv6 in IP (RFC 4213).
        IPV6 = 41,
        /// IPv6 routing header (RFC 8200, section 4.4).
        ROUTING = 43,
        /// IPv6 fragment header (RFC 8200, section 4.5).
        FRAGMENT = 44,
        /// GRE (RFC 2784).
        GRE = 47,
        /// Encapsulating security payload (RFC 4303).
        ESP = 50,
        /// Authentication header (RFC 4302).
        AUTHENTICATION = 51,
        /// ICMP for IPv6.
        ICMPV6 = 58,
        /// Nothing follows (RFC 8200, section 4.7).
        NO_NEXT_HEADER = 59,
        /// IPv6 destination options (RFC 8200, section 4.6).
        DESTINATION_OPTIONS = 60,
        /// OSPF.
        OSPF = 89,
        /// SCTP.
        SCTP = 132,
        /// IPv6 mobility header (RFC 6275).
        MOBILITY = 135,
        /// UDP-Lite (RFC 3828).
        UDP_LITE = 136,
        /// Host identity protocol (RFC 7401).
        HOST_IDENTITY = 139,
        /// Shim6 (RFC 5533).
        SHIM6 = 140,
    }
}

impl IpProtocol {
    /// Whether [`ports`] reads this protocol's ports.
    #[inline(always)]
    pub const fn has_ports(self) -> bool {
        matches!(
            self,
            IpProtocol::TCP
                | IpProtocol::UDP
                | IpProtocol::DCCP
                | IpProtocol::SCTP
                | IpProtocol::UDP_LITE
        )
    }

    /// Whether this is an IPv6 extension header with a length that a walk can step over (IANA,
    /// "IPv6 Extension Header Types"; all but ESP, which hides the headers behind it).
    #[inline(always)]
    pub const fn is_extension(self) -> bool {
        matches!(
            self,
            IpProtocol::HOP_BY_HOP
                | IpProtocol::ROUTING
                | IpProtocol::FRAGMENT
                | IpProtocol::AUTHENTICATION
                | IpProtocol::DESTINATION_OPTIONS
                | IpProtocol::MOBILITY
                | IpProtocol::HOST_IDENTITY
                | IpProtocol::SHIM6
        )
    }
}

/// As a decimal number.
impl core::fmt::Display for IpProtocol {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.fmt(f)
    }
}

/// Explicit congestion notification (RFC 3168, section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// The transport does not know of it.
    NotCapable = 0,
    /// ECT(1).
    Capable1 = 1,
    /// ECT(0).
    Capable0 = 2,
    /// A router on the way was congested.
    Congested = 3,
}

impl Ecn {
    /// The code point in the low two bits of a type of service or traffic class.
    #[inline(always)]
    pub const fn from_tos(tos: u8) -> Ecn {
        match tos & 3 {
            0 => Ecn::NotCapable,
            1 => Ecn::Capable1,
            2 => Ecn::Capable0,
            _ => Ecn::Congested,
        }
    }
}

/// Source and destination port of a transport header, of which the first 4 bytes are enough: TCP,
/// UDP, UDP-Lite, DCCP and SCTP all start with them. Works for the 8 bytes quoted in ICMP errors.
#[inline(always)]
pub fn ports(transport: &[u8]) -> Option<(u16, u16)> {
    let [a, b, c, d] = *transport.first_chunk()?;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}
