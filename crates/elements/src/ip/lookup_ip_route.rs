use router::Element;

use super::route_table::{FixedRoutes, Order, lookup_methods};

/// StaticIPLookup under its old name.
///
/// # Example
/// ```click
/// FromDump(in.pcap, FORCE_IP true) -> LookupIPRoute(0/0 18.26.4.1 0) -> Discard;
/// ```
///
/// # See also
/// StaticIPLookup
#[derive(Element)]
#[element(ports = "1/-", processing = "h/h", is_a("IPRouteTable"), segments)]
#[outputs("one for each OUTPUT of the routes")]
pub struct LookupIPRoute {
    #[flatten]
    #[init(FixedRoutes::new(Order::Lowest, Some("LinearIPLookup")))]
    routes: FixedRoutes,
}

impl Element for LookupIPRoute {
    lookup_methods!();
}
