use router::args::{Args, Failed, FixedPoint, Kind, Parser, Value};
use router::{Class, Cx, Declared, Element, phase, schedule};

/// Gives names to addresses.
///
/// Other elements' arguments may then use the names in place of the addresses. A name may stand
/// for one address of each kind: IPv4 and IPv6 addresses, IPv4 and IPv6 prefixes, Ethernet
/// addresses. A prefix with host bits, such as `10.0.0.1/8`, gives both. Names are seen in the
/// compound element in which they are defined and inside.
///
/// # Arguments
/// - `NAME ADDRESS...` (any number of times): a name and its addresses. An address may be a name
///   that is known already.
///
/// # Ports
/// None.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// AddressInfo(me 10.0.0.1 00:01:02:03:04:05, lan 10.0.0.0/8);
/// InfiniteSource(LIMIT 1) -> IPEncap(udp, me, 10.0.0.2) -> Discard;
/// ```
///
/// # See also
/// PortInfo
#[derive(Default)]
pub struct AddressInfo;

impl Class for AddressInfo {
    const NAME: &'static str = "AddressInfo";
    const PORTS: &'static str = "0/0";
    const PHASE: i32 = phase::INFO;
}

impl Declared for AddressInfo {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        for entry in args.take_raw() {
            args.define_addresses(&entry);
        }
        args.finish()
    }
}

impl Element for AddressInfo {}

/// Gives names to TCP and UDP ports.
///
/// Other elements' arguments may then use the names in place of the numbers. Names are seen in the
/// compound element in which they are defined and inside.
///
/// # Arguments
/// - `NAME PORT[/PROTOCOL] [NAME...]` (any number of times): names of a port of tcp, udp or another
///   protocol; of tcp and udp if none is given.
///
/// # Ports
/// None.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// PortInfo(game 7777/udp, web 8080/tcp www-alt);
/// ```
///
/// # See also
/// AddressInfo
#[derive(Default)]
pub struct PortInfo;

impl Class for PortInfo {
    const NAME: &'static str = "PortInfo";
    const PORTS: &'static str = "0/0";
    const PHASE: i32 = phase::INFO;
}

impl Declared for PortInfo {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        for entry in args.take_raw() {
            args.define_ports(&entry);
        }
        args.finish()
    }
}

impl Element for PortInfo {}

/// Sets how often elements' tasks run in relation to others.
///
/// An element with parameter 2 is scheduled four times as often as one with parameter 0.5; 1 is
/// usual, and with 0 an element's task never runs. A parameter of a compound element multiplies
/// those of the elements inside. Names are seen in the compound element in which they are defined
/// and inside; definitions further out replace those further in.
///
/// # Arguments
/// - `ELEMENT PARAMETER` (any number of times): the name of an element and its parameter, a number
///   that is not negative.
///
/// # Ports
/// None.
///
/// # Handlers
/// None of its own. The `tickets` handler of an element with a task shows its share; 1024 is usual.
///
/// # Example
/// ```click
/// ScheduleInfo(fast 2, slow 0.5);
/// fast :: InfiniteSource(LIMIT 100) -> Discard;
/// slow :: InfiniteSource(LIMIT 100) -> Discard;
/// ```
///
/// # See also
/// InfiniteSource, Unqueue
#[derive(Default)]
pub struct ScheduleInfo;

impl Class for ScheduleInfo {
    const NAME: &'static str = "ScheduleInfo";
    const PORTS: &'static str = "0/0";
    const PHASE: i32 = phase::INFO;
}

const SCHEDULE: Kind = schedule::KIND;

impl Declared for ScheduleInfo {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        for entry in args.take_raw() {
            let words = click::config::split_space(&entry);
            let bits = schedule::FRACTION;
            let share = match words.as_slice() {
                [] => continue,
                [_, share] => FixedPoint { bits }.parse(share, &args.context()).ok(),
                _ => None,
            };
            match share {
                Some(share) => args.define(SCHEDULE, &words[0], Value::Int(share)),
                None => args.error("expected ‘ELEMENTNAME PARAM’"),
            }
        }
        args.finish()
    }
}

impl Element for ScheduleInfo {}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

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
    fn what_is_no_address_or_port_is_refused() {
        let errors = Rig::errors("AddressInfo(a, b 10.0.0.300, );");
        assert!(errors.contains("expected 'NAME [ADDRS]'"), "{errors}");
        assert!(errors.contains("'10.0.0.300' is not a recognizable address"), "{errors}");
        let errors = Rig::errors("PortInfo(a b);");
        assert!(errors.contains("expected 'NAME PORT/PROTO'"), "{errors}");
        Rig::new("PortInfo(a 7/tcp b, # c, d 8);");
    }

    #[test]
    fn shares_become_tickets() {
        let config = "ScheduleInfo(c 2, c/s 0.5, d 0);
            elementclass C { s :: InfiniteSource -> output; }
            c :: C -> Discard; d :: InfiniteSource -> Discard; e :: InfiniteSource -> Discard;";
        let mut rig = Rig::new(config);
        assert_eq!(rig.read("c/s.tickets"), "1024");
        assert_eq!(rig.read("e.tickets"), "1024");
        for _ in 0..10 {
            rig.step();
        }
        assert_eq!(rig.read("d.count"), "0");
        assert_ne!(rig.read("e.count"), "0");
        let errors = Rig::errors("ScheduleInfo(c);");
        assert!(errors.contains("ELEMENTNAME PARAM"), "{errors}");
    }
}
