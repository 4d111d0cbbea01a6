use super::route_table::{Order, Routes};
use crate::prelude::*;

/// Looks up IP routes by the longest prefix; kept for old configurations.
///
/// As LinearIPLookup, with a warning to use LinearIPLookup or RadixIPLookup.
///
/// # Example
/// ```click
/// FromDump(in.pcap, FORCE_IP true) -> SortedIPLookup(0/0 18.26.4.1 0) -> Discard;
/// ```
///
/// # See also
/// RadixIPLookup, LinearIPLookup
#[derive(Element)]
#[element(
    ports = "1/-",
    processing = "h/h",
    is_a("IPRouteTable"),
    segments,
    deprecated = "SortedIPLookup is deprecated; use LinearIPLookup or RadixIPLookup instead"
)]
#[outputs("one for each OUTPUT of the routes")]
pub struct SortedIPLookup {
    #[delegate]
    #[init(Routes::new(Order::Lowest, Some("SortedIPLookup")))]
    routes: Routes,
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn it_looks_up_routes_and_says_what_to_use_instead() {
        let config = "i :: Inject -> rt :: SortedIPLookup(10/8 1, 0/0 0);
            rt[0] -> a :: Collect; rt[1] -> b :: Collect;";
        let mut rig = Rig::new(config);
        rig.push_with("i", &[1], |packet| packet.set_dst_ip([10, 0, 0, 1].into()));
        rig.push_with("i", &[2], |packet| packet.set_dst_ip([11, 0, 0, 1].into()));
        assert_eq!(rig.data("a"), [[2]]);
        assert_eq!(rig.data("b"), [[1]]);
        let printed = rig.printed().concat();
        assert_contains(&printed, "SortedIPLookup is deprecated; use LinearIPLookup");
    }
}
