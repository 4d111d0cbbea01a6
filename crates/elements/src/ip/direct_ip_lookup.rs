use super::route_table::{FlushableRoutes, Order};
use crate::prelude::*;

/// Looks up IP routes by the longest prefix; packets without a route are dropped silently.
///
/// As RadixIPLookup, with the same table. Click's DirectIPLookup needs 33 MB for any table; this
/// one does not.
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
    #[delegate]
    #[init(FlushableRoutes::new(Order::Latest, None))]
    routes: FlushableRoutes,
}
