use super::route_table::{FixedRoutes, Order};
use crate::prelude::*;

/// Looks up IP routes by the longest prefix, in a table that does not change.
///
/// As RadixIPLookup, without the handlers that change the table.
///
/// # Example
/// ```click
/// FromDump(in.pcap, FORCE_IP true)
///     -> rt :: StaticIPLookup(18.26.4.24/32 0, 18.26.4/24 1, 0/0 18.26.4.1 1);
/// rt[0] -> Discard;
/// rt[1] -> Discard;
/// ```
///
/// # See also
/// RadixIPLookup, LinearIPLookup
#[derive(Element)]
#[element(ports = "1/-", processing = "h/h", is_a("IPRouteTable"), segments)]
#[outputs("one for each OUTPUT of the routes")]
pub struct StaticIPLookup {
    #[delegate]
    #[init(FixedRoutes::new(Order::Lowest, Some("LinearIPLookup")))]
    routes: FixedRoutes,
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn routes_stay() {
        let mut rig = Rig::new("Idle -> rt :: StaticIPLookup(10/8 1.0.0.1 0) -> Discard;");
        assert_eq!(rig.read("rt.table"), "10.0.0.0/8\t\t1.0.0.1\t\t0\n");
        assert!(rig.try_write("rt.add", "11/8 0").is_err());
        assert!(rig.try_write("rt.flush", "").is_err());
    }
}
