use super::route_table::{FlushableRoutes, Order};
use crate::prelude::*;

/// Looks up IP routes in ranges of addresses; packets without a route are dropped silently.
///
/// As RadixIPLookup, with the same table, which consists of ranges, as that of Click's
/// RangeIPLookup.
///
/// # Example
/// ```click
/// FromDump(in.pcap, FORCE_IP true) -> RangeIPLookup(0/0 18.26.4.1 0) -> Discard;
/// ```
///
/// # See also
/// RadixIPLookup, DirectIPLookup
#[derive(Element)]
#[element(ports = "1/-", processing = "h/h", is_a("IPRouteTable"), segments)]
#[outputs("one for each OUTPUT of the routes")]
pub struct RangeIPLookup {
    #[delegate]
    #[init(FlushableRoutes::new(Order::Latest, None))]
    routes: FlushableRoutes,
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn routes_are_added_and_flushed() {
        let mut rig = Rig::new("Idle -> rt :: RangeIPLookup(10/8 0) -> Discard;");
        rig.write("rt.add", "11/8 1.0.0.1 0");
        let id = rig.router.find("rt");
        let hop = rig.router.read(id, "lookup", "11.0.0.1");
        assert_eq!(hop.as_deref(), Ok("0 1.0.0.1"));
        assert!(rig.try_write("rt.add", "11/8 0").is_err());
        rig.write("rt.flush", "");
        assert_eq!(rig.read("rt.table"), "");
    }
}
