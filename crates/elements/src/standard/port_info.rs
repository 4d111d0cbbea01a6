use crate::prelude::*;

/// Gives names to TCP and UDP ports.
///
/// Other elements' arguments may then use the names in place of the numbers. A name's scope is the
/// compound element that defines it.
///
/// # Arguments
/// - `NAME PORT[/PROTOCOL] [NAME...]` (any number of times): names of a port of tcp, udp or another
///   protocol; of tcp and udp if none is given.
///
/// # Example
/// ```click
/// PortInfo(game 7777/udp, web 8080/tcp www-alt);
/// ```
///
/// # See also
/// AddressInfo
#[derive(Element)]
#[element(ports = "0/0", phase = phase::INFO, raw)]
pub struct PortInfo;

impl Element for PortInfo {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        for entry in args.take_raw() {
            args.define_ports(&entry);
        }
        args.finish()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn names_stand_for_ports() {
        let config = "PortInfo(a 7/tcp b, # c, game 7777/udp);
            i :: Inject -> UDPIPEncap(1.0.0.1, game, 2.0.0.2, 9) -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.push("i", &[1]);
        assert_eq!(rig.data("c")[0][20..22], 7777_u16.to_be_bytes());
    }

    #[test]
    fn wrong_ports_are_refused() {
        Rig::refuses("PortInfo(a b);", "expected 'NAME PORT/PROTO'");
    }
}
