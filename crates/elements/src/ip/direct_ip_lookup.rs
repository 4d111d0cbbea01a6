use router::Element;

use super::route_table::{FlushableRoutes, Order, lookup_methods};

/// Looks up IP routes by the longest prefix; packets without a route are dropped silently.
///
/// As RadixIPLookup, on the same table. Click's element of this name needs 33 MB for any
/// table; this one does not.
///
/// # Example
/// ```click
/// FromDump(in.pcap, FORCE_IP true) -> DirectIPLookup(0/0 18.26.4.1 0) -> Discard;
/// ```
///
/// # See also
/// RadixIPLookup, RangeIPLookup
#[derive(Element)]
#[element(ports = "1/-", processing = "h/h", is_a("IPRouteTable"), segments)]
#[outputs("one for each OUTPUT of the routes")]
pub struct DirectIPLookup {
    #[flatten]
    #[init(FlushableRoutes::new(Order::Latest, None))]
    routes: FlushableRoutes,
}

impl Element for DirectIPLookup {
    lookup_methods!();
}
