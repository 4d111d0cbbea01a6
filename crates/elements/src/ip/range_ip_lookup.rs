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
