use router::Element;

use super::route_table::{Order, Routes, lookup_methods};

/// Looks up IP routes by the longest prefix; kept for old configurations.
///
/// As LinearIPLookup, and with a warning that says to use that or RadixIPLookup.
///
/// # Example
/// ```click
/// FromDump(in.pcap, FORCE_IP true) -> SortedIPLookup(0/0 18.26.4.1 0) -> Discard;
/// ```
///
/// # See also
/// RadixIPLookup, LinearIPLookup
#[derive(Element)]
#[element(ports = "1/-", processing = "h/h", is_a("IPRouteTable"), segments)]
#[outputs("one for each OUTPUT of the routes")]
pub struct SortedIPLookup {
    #[flatten]
    #[init(Routes::new(Order::Lowest, Some("SortedIPLookup")))]
    routes: Routes,
}

impl Element for SortedIPLookup {
    lookup_methods!("SortedIPLookup is deprecated; use LinearIPLookup or RadixIPLookup instead");
}
