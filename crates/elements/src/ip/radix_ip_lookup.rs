use super::route_table::{FlushableRoutes, Order};
use crate::prelude::*;

/// Looks up IP routes by the longest prefix, with tables of any size.
///
/// Each packet's destination annotation is looked up in the routing table; the packet leaves by the
/// route's output, and a route's gateway replaces the annotation. Packets without a route are
/// dropped, the first five with a message.
///
/// A lookup takes a few nanoseconds with any number of routes. The table's memory is proportional
/// to the number of routes. A route may have a mask that is not a prefix; while there is one, each
/// lookup goes through all routes.
///
/// # Example
/// ```click
/// FromDump(in.pcap, FORCE_IP true)
///     -> rt :: RadixIPLookup(18.26.4.24/32 0, 18.26.4/24 1, 0/0 18.26.4.1 1);
/// rt[0] -> Discard;   // for this host
/// rt[1] -> Discard;   // to the local network
/// ```
///
/// # See also
/// StaticIPLookup, LinearIPLookup, DirectIPLookup, RangeIPLookup, GetIPAddress
#[derive(Element)]
#[element(ports = "1/-", processing = "h/h", is_a("IPRouteTable"), segments)]
#[outputs("one for each OUTPUT of the routes")]
pub struct RadixIPLookup {
    #[delegate]
    #[init(FlushableRoutes::new(Order::Latest, Some("IPRouteTable")))]
    routes: FlushableRoutes,
}
