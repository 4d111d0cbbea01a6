use crate::prelude::*;

/// Gives names to addresses.
///
/// Other elements' arguments may then use the names in place of the addresses. A name can have one
/// address of each kind: IPv4 and IPv6 addresses, IPv4 and IPv6 prefixes, Ethernet addresses. A
/// prefix with host bits, such as `10.0.0.1/8`, gives both. A name's scope is the compound element
/// that defines it.
///
/// # Arguments
/// - `NAME ADDRESS...` (any number of times): a name and its addresses. An address may be a name
///   defined before.
///
/// # Example
/// ```click
/// AddressInfo(me 10.0.0.1 00:01:02:03:04:05, lan 10.0.0.0/8);
/// InfiniteSource(LIMIT 1) -> IPEncap(udp, me, 10.0.0.2) -> Discard;
/// ```
///
/// # See also
/// PortInfo
#[derive(Element)]
#[element(ports = "0/0", phase = phase::INFO, raw)]
pub struct AddressInfo;

impl Element for AddressInfo {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        for entry in args.take_raw() {
            args.define_addresses(&entry);
        }
        args.finish()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn names_stand_for_addresses() {
        let config = "AddressInfo(host 10.1.2.3/8 1:2:3:4:5:6); AddressInfo(same host);
            elementclass Inner { AddressInfo(host 7.7.7.7);
                input -> SetIPAddress(host) -> output }
            i :: Inject -> SetIPAddress(same) -> a :: Collect;
            j :: Inject -> Inner -> b :: Collect;";
        let mut rig = Rig::new(config);
        rig.push("i", &[1]);
        rig.push("j", &[1]);
        assert_eq!(rig.collected("a")[0].dst_ip().octets(), [10, 1, 2, 3]);
        assert_eq!(rig.collected("b")[0].dst_ip().octets(), [7, 7, 7, 7]);
    }

    #[test]
    fn wrong_addresses_are_refused() {
        let errors = Rig::errors("AddressInfo(a, b 10.0.0.300, );");
        assert!(errors.contains("expected 'NAME [ADDRS]'"), "{errors}");
        assert_contains(&errors, "'10.0.0.300' is not a recognizable address");
    }
}
