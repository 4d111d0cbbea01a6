use super::route_table::{Order, RouteLookup};
use crate::prelude::*;

/// Looks up IP routes by the longest prefix, in a table that does not change.
///
/// As StaticIPLookup, without handlers. Its ports are agnostic: packets that are pulled through it
/// pass without a look-up, as in Click.
///
/// # Example
/// ```click
/// FromDump(in.pcap, FORCE_IP true) -> LookupIPRouteMP(0/0 18.26.4.1 0) -> Discard;
/// ```
///
/// # See also
/// StaticIPLookup, LookupIPRoute
#[derive(Element)]
#[element(ports = "1/-", segments)]
#[outputs("one for each OUTPUT of the routes")]
pub struct LookupIPRouteMP {
    #[delegate]
    #[init(RouteLookup::new(Order::Lowest, Some("LookupIPRouteMP")))]
    routes: RouteLookup,
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    const ROUTES: &str = "LookupIPRouteMP(10/8 1.0.0.1 1, 0/0 0)";

    #[test]
    fn pushed_packets_go_by_routes() {
        let config =
            format!("i :: Inject -> rt :: {ROUTES}; rt[0] -> a :: Collect; rt[1] -> b :: Collect;");
        let mut rig = Rig::new(&config);
        rig.push_with("i", &[0; 20], |packet| {
            packet.set_dst_ip([10, 0, 0, 9].into())
        });
        assert!(rig.collected("a").is_empty());
        assert_eq!(rig.collected("b")[0].dst_ip().octets(), [1, 0, 0, 1]);
    }

    #[test]
    fn pulled_packets_pass_without_a_look_up() {
        let config = format!(
            "InfiniteSource(LIMIT 2) -> SetIPAddress(10.0.0.9) -> Queue -> rt :: {ROUTES};
             rt[0] -> a :: Puller; rt[1] -> b :: Puller;"
        );
        let mut rig = Rig::new(&config);
        rig.run();
        for puller in ["a", "b"] {
            let packets = rig.pull(puller, 1);
            assert_eq!(packets[0].dst_ip().octets(), [10, 0, 0, 9], "{puller}");
        }
    }
}
