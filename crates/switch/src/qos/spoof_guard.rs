//! The spoof guard: drops frames with forged sender addresses. The protections are dladm's
//! (illumos, dladm(8), "protection").
//!
//! A spoof guard is no firewall: it checks only the sender addresses of a frame. A frame too short
//! or malformed for the check is dropped.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::headers::{ARP, Bytes, HeaderError, IPV4, IPV6, Ip, ethertype};
use crate::counters::Reason;
use crate::mac::Mac;
use crate::properties::{IpPrefix, PortProperties, Protection};

const UDP: u8 = 17;
const ICMPV6: u8 = 58;
const ROUTER_SOLICITATION: u8 = 133;
const NEIGHBOUR_SOLICITATION: u8 = 135;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
const REDIRECT: u8 = 137;
/// Multicast listener reports, both versions, and "done": sent before there is an address.
const LISTENER: [u8; 3] = [131, 132, 143];
const DHCP_SERVER: u16 = 67;
const DHCP_CLIENT: u16 = 68;
const DHCPV6_CLIENT: u16 = 546;
const DHCPV6_SERVER: u16 = 547;
/// Where a DHCP message has the client's Ethernet address (RFC 2131: chaddr).
const CLIENT_ADDRESS: usize = 28;
/// Most options of a neighbour discovery message that are looked at.
const OPTIONS: usize = 16;

/// The protections of one port.
#[derive(Clone, Debug)]
pub struct SpoofGuard {
    mac: Option<[u8; 6]>,
    from_mac: bool,
    ip: bool,
    dhcp: bool,
    restricted: bool,
    allowed: Vec<IpPrefix>,
    /// The link-local address that goes with the Ethernet address (RFC 4291, appendix A).
    link_local: Option<Ipv6Addr>,
}

/// Why a port cannot be protected as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("protection={0} needs the port's Ethernet address: give the port one")]
pub struct NoAddress(pub Protection);

impl SpoofGuard {
    /// For a port with this Ethernet address; `None` for a port without protection.
    pub fn new(
        properties: &PortProperties,
        mac: Option<Mac>,
    ) -> Result<Option<SpoofGuard>, NoAddress> {
        let asked = &properties.protection;
        let needs = [Protection::MacNospoof, Protection::DhcpNospoof];
        if let (None, Some(needs)) = (mac, needs.iter().find(|needs| asked.contains(needs))) {
            return Err(NoAddress(*needs));
        }
        let guard = SpoofGuard {
            mac: mac.map(|mac| mac.0),
            from_mac: asked.contains(&Protection::MacNospoof),
            ip: asked.contains(&Protection::IpNospoof),
            dhcp: asked.contains(&Protection::DhcpNospoof),
            restricted: asked.contains(&Protection::Restricted),
            allowed: properties.allowed_ips.clone(),
            link_local: mac.map(link_local),
        };
        Ok((!asked.is_empty()).then_some(guard))
    }

    /// Whether a frame of `len` bytes that begins with `known` may be sent: `Ok(Ok(()))` if it may,
    /// `Ok(Err(reason))` if not, and why.
    pub fn check(&self, known: &[u8], len: usize) -> Result<Result<(), Reason>, NeedsWholeFrame> {
        match self.look(Bytes::new(known, len)) {
            Ok(()) => Ok(Ok(())),
            Err(Verdict::Drop(reason)) => Ok(Err(reason)),
            Err(Verdict::Incomplete) => Err(NeedsWholeFrame),
        }
    }

    fn look(&self, bytes: Bytes<'_>) -> Result<(), Verdict> {
        if let Some(mac) = self.checked_mac()
            && bytes.array(6).or_drop(Reason::SpoofedMac)? != mac
        {
            return Err(Verdict::Drop(Reason::SpoofedMac));
        }
        let (kind, l3) = ethertype(bytes).or_drop(self.reason())?;
        match kind {
            IPV4 | IPV6 if self.ip || self.dhcp || self.checked_mac().is_some() => {
                self.look_at_ip(bytes, kind, l3)
            }
            IPV4 | IPV6 => Ok(()),
            ARP => self.look_at_arp(bytes, l3),
            _ if self.restricted => Err(Verdict::Drop(Reason::Restricted)),
            _ => Ok(()),
        }
    }

    /// The address that frames must come from, if that is asked for.
    fn checked_mac(&self) -> Option<[u8; 6]> {
        self.mac.filter(|_| self.from_mac)
    }

    /// Why a frame is dropped whose headers cannot be read.
    fn reason(&self) -> Reason {
        match (self.restricted, self.ip) {
            (true, _) => Reason::Restricted,
            (false, true) => Reason::SpoofedIp,
            (false, false) => Reason::SpoofedMac,
        }
    }

    fn look_at_ip(&self, bytes: Bytes<'_>, kind: u16, l3: usize) -> Result<(), Verdict> {
        let ip = match Ip::parse(bytes, kind, l3) {
            Ok(Some(ip)) => ip,
            Err(HeaderError::Incomplete) => return Err(Verdict::Incomplete),
            _ => return Err(Verdict::Drop(self.reason())),
        };
        if self.ip && !self.is_own(ip.source) && !is_before_address(bytes, &ip)? {
            return Err(Verdict::Drop(Reason::SpoofedIp));
        }
        if kind == IPV6 && ip.transport == ICMPV6 {
            self.look_at_discovery(bytes, &ip)?;
        }
        if self.dhcp && ip.transport == UDP {
            self.look_at_dhcp(bytes, &ip)?;
        }
        Ok(())
    }

    fn is_own(&self, address: IpAddr) -> bool {
        self.allowed.iter().any(|prefix| prefix.contains(address))
            || self
                .link_local
                .is_some_and(|own| IpAddr::V6(own) == address)
    }

    fn look_at_arp(&self, bytes: Bytes<'_>, l3: usize) -> Result<(), Verdict> {
        if !self.ip && self.checked_mac().is_none() {
            return Ok(());
        }
        // Ethernet and IPv4 (RFC 826), or it claims nothing that is known here.
        let header = bytes.array::<6>(l3).or_drop(self.reason())?;
        if header != [0, 1, 8, 0, 6, 4] {
            return Err(Verdict::Drop(self.reason()));
        }
        let hardware = bytes.array::<6>(l3 + 8).or_drop(self.reason())?;
        if self.checked_mac().is_some_and(|mac| mac != hardware) {
            return Err(Verdict::Drop(Reason::SpoofedMac));
        }
        let mut claimed = Ipv4Addr::from(bytes.array::<4>(l3 + 14).or_drop(self.reason())?);
        if claimed.is_unspecified() {
            // A probe for an address that its sender wants: another host that probes for it at that
            // time gives it up (RFC 5227, 2.1.1).
            claimed = Ipv4Addr::from(bytes.array::<4>(l3 + 24).or_drop(self.reason())?);
        }
        if self.ip && !self.is_own(claimed.into()) {
            return Err(Verdict::Drop(Reason::SpoofedIp));
        }
        Ok(())
    }

    /// Neighbour discovery (RFC 4861) that claims an address for the sender.
    fn look_at_discovery(&self, bytes: Bytes<'_>, ip: &Ip) -> Result<(), Verdict> {
        let Some(l4) = ip.l4 else {
            return Ok(());
        };
        let kind = bytes.byte(l4).or_drop(Reason::SpoofedIp)?;
        let options = match kind {
            ROUTER_SOLICITATION => l4 + 8,
            NEIGHBOUR_SOLICITATION | NEIGHBOUR_ADVERTISEMENT => l4 + 24,
            REDIRECT => l4 + 40,
            _ => return Ok(()),
        };
        // It is never sent in fragments (RFC 6980), where it could not be checked.
        if ip.fragment {
            return Err(Verdict::Drop(Reason::SpoofedIp));
        }
        // A solicitation without a source is a probe, as ARP's (RFC 4862, 5.4.3).
        let claims = match kind {
            NEIGHBOUR_ADVERTISEMENT => true,
            NEIGHBOUR_SOLICITATION => ip.source.is_unspecified(),
            _ => false,
        };
        if claims && self.ip {
            let target = bytes.array::<16>(l4 + 8).or_drop(Reason::SpoofedIp)?;
            if !self.is_own(Ipv6Addr::from(target).into()) {
                return Err(Verdict::Drop(Reason::SpoofedIp));
            }
        }
        match self.checked_mac() {
            // The sender's address: of the source in what asks, of the target in what answers. A
            // redirect's is another's.
            Some(_) if kind == REDIRECT => Ok(()),
            Some(mac) => {
                let own = if kind == NEIGHBOUR_ADVERTISEMENT {
                    2
                } else {
                    1
                };
                check_options(bytes, options, own, mac)
            }
            None => Ok(()),
        }
    }

    fn look_at_dhcp(&self, bytes: Bytes<'_>, ip: &Ip) -> Result<(), Verdict> {
        let Some((source, destination)) = ip.ports(bytes).or_drop(Reason::SpoofedDhcp)? else {
            return Ok(());
        };
        let drop = Err(Verdict::Drop(Reason::SpoofedDhcp));
        let is_v4 = ip.source.is_ipv4();
        match (is_v4, source, destination) {
            // What a server sends.
            (true, DHCP_SERVER, _) | (true, _, DHCP_CLIENT) => drop,
            (false, DHCPV6_SERVER, _) | (false, _, DHCPV6_CLIENT) => drop,
            (true, _, DHCP_SERVER) => {
                // The rest of a fragmented request could not be checked.
                let Some(l4) = ip.l4.filter(|_| !ip.fragment) else {
                    return drop;
                };
                let client = bytes.array::<6>(l4 + 8 + CLIENT_ADDRESS);
                match client.or_drop(Reason::SpoofedDhcp)? {
                    client if Some(client) == self.mac => Ok(()),
                    _ => drop,
                }
            }
            _ => Ok(()),
        }
    }
}

/// The first bytes of the frame are not enough to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeedsWholeFrame;

enum Verdict {
    Drop(Reason),
    Incomplete,
}

trait OrDrop<T> {
    /// A frame that ends too early is dropped for `reason`.
    fn or_drop(self, reason: Reason) -> Result<T, Verdict>;
}

impl<T> OrDrop<T> for Result<T, HeaderError> {
    fn or_drop(self, reason: Reason) -> Result<T, Verdict> {
        self.map_err(|lack| match lack {
            HeaderError::Incomplete => Verdict::Incomplete,
            HeaderError::Malformed => Verdict::Drop(reason),
        })
    }
}

/// Whether a packet is sent before its sender has an address: a DHCP request, or IPv6's duplicate
/// address detection.
fn is_before_address(bytes: Bytes<'_>, ip: &Ip) -> Result<bool, Verdict> {
    if !ip.source.is_unspecified() {
        return Ok(false);
    }
    match (ip.transport, ip.l4) {
        (UDP, Some(_)) if ip.source.is_ipv4() => {
            let ports = ip.ports(bytes).or_drop(Reason::SpoofedIp)?;
            Ok(ports.is_some_and(|(_, destination)| destination == DHCP_SERVER))
        }
        (ICMPV6, Some(l4)) => {
            let kind = bytes.byte(l4).or_drop(Reason::SpoofedIp)?;
            Ok(kind == NEIGHBOUR_SOLICITATION
                || kind == ROUTER_SOLICITATION
                || LISTENER.contains(&kind))
        }
        _ => Ok(false),
    }
}

/// Whether a discovery message's options name no other link-layer address of kind `own`.
fn check_options(bytes: Bytes<'_>, at: usize, own: u8, mac: [u8; 6]) -> Result<(), Verdict> {
    let mut at = at;
    for _ in 0..OPTIONS {
        let [kind, length] = match bytes.array(at) {
            Ok(option) => option,
            Err(HeaderError::Incomplete) => return Err(Verdict::Incomplete),
            // The end of the message.
            Err(HeaderError::Malformed) => return Ok(()),
        };
        if length == 0 {
            return Err(Verdict::Drop(Reason::SpoofedMac));
        }
        if kind == own && bytes.array(at + 2).or_drop(Reason::SpoofedMac)? != mac {
            return Err(Verdict::Drop(Reason::SpoofedMac));
        }
        at += usize::from(length) * 8;
    }
    Err(Verdict::Drop(Reason::SpoofedMac))
}

fn link_local(mac: Mac) -> Ipv6Addr {
    let [a, b, c, d, e, g] = mac.0;
    let bits = [a ^ 2, b, c, 0xff, 0xfe, d, e, g];
    let [w, x, y, z] = [0, 2, 4, 6].map(|i| u16::from_be_bytes([bits[i], bits[i + 1]]));
    Ipv6Addr::new(0xfe80, 0, 0, 0, w, x, y, z)
}

#[cfg(test)]
mod tests;
