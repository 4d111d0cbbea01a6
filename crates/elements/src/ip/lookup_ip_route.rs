use super::route_table::{FixedRoutes, Order};
use crate::prelude::*;

/// An old name of StaticIPLookup.
///
/// # Example
/// ```click
/// FromDump(in.pcap, FORCE_IP true) -> LookupIPRoute(0/0 18.26.4.1 0) -> Discard;
/// ```
///
/// # See also
/// StaticIPLookup, LookupIPRouteMP
#[derive(Element)]
#[element(ports = "1/-", processing = "h/h", is_a("IPRouteTable"), segments)]
#[outputs("one for each OUTPUT of the routes")]
pub struct LookupIPRoute {
    #[delegate]
    #[init(FixedRoutes::new(Order::Lowest, Some("LinearIPLookup")))]
    routes: FixedRoutes,
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn routes_stay() {
        let mut rig = Rig::new("Idle -> rt :: LookupIPRoute(10/8 1.0.0.1 0) -> Discard;");
        assert_eq!(rig.read("rt.table"), "10.0.0.0/8\t\t1.0.0.1\t\t0\n");
        assert!(rig.try_write("rt.add", "11/8 0").is_err());
        assert!(rig.try_write("rt.flush", "").is_err());
    }
}
