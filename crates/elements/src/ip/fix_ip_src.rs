use crate::prelude::*;

/// Sets the source address of IP packets with the Fix IP Source annotation.
///
/// An ICMP error comes from the address of the interface that it leaves by. ICMPError does not know
/// the interface and sets the Fix IP Source annotation. In front of the interface, this element
/// gives packets with the annotation the interface's address and a new checksum, and clears the
/// annotation. Packets must have their IP header marked.
///
/// # Example
/// ```click
/// FromDevice(eth0) -> Strip(14) -> CheckIPHeader
///     -> ICMPError(18.26.4.24, unreachable, host)
///     -> FixIPSrc(18.26.4.1) -> Queue -> ToDevice(eth0);
/// ```
///
/// # See also
/// ICMPError
#[derive(Element)]
#[element(ports = "1/1", segments)]
pub struct FixIPSrc {
    /// The interface's address.
    #[arg(mandatory, name = "IPADDR")]
    address: Ipv4Addr,
}

impl Element for FixIPSrc {
    #[inline]
    fn affects(&self, packet: &Packet) -> bool {
        packet.anno(FIX_IP_SRC) != 0
    }

    #[inline]
    fn effects(&self) -> Effects {
        Effects {
            no_op: Facts::SOURCE_STAYS,
            ..Effects::default()
        }
    }

    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if packet.anno(FIX_IP_SRC) != 0
            && let Some(header) = packet.network_header_mut()
        {
            let mut ip = Ipv4Packet::new_unchecked(header);
            ip.set_source(self.address);
            ip.fill_checksum();
            packet.set_anno(FIX_IP_SRC, 0);
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn the_source_is_set_where_it_is_asked_for() {
        let config = "i :: Inject -> MarkIPHeader -> FixIPSrc(3.0.0.3) -> c :: Collect;";
        let mut rig = Rig::new(config);
        let (a, b) = (Ipv4Addr::new(1, 0, 0, 1), Ipv4Addr::new(2, 0, 0, 2));
        rig.push("i", &ping(a, b, &[]));
        rig.push_with("i", &ping(a, b, &[]), |packet| {
            packet.set_anno(FIX_IP_SRC, 1)
        });
        let packets = rig.collected("c");
        assert_eq!(packets[0].data(), ping(a, b, &[]));
        assert_eq!(packets[1].data(), ping(Ipv4Addr::new(3, 0, 0, 3), b, &[]));
        assert_eq!(packets[1].anno(FIX_IP_SRC), 0);
    }
}
