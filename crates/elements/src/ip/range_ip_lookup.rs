use router::Element;

use super::route_table::{FlushableRoutes, Order, lookup_methods};

/// Looks up IP routes in ranges of addresses; packets without a route are dropped silently.
///
/// As RadixIPLookup, on the same table, which is made of ranges as that of Click's element of
/// this name.
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
    #[flatten]
    #[init(FlushableRoutes::new(Order::Latest, None))]
    routes: FlushableRoutes,
}

impl Element for RangeIPLookup {
    lookup_methods!();
}
