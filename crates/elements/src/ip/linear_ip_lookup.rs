use super::route_table::{Order, Routes};
use crate::prelude::*;

/// Looks up IP routes by the longest prefix.
///
/// As RadixIPLookup, with the same table and speed. The order in which `table` shows the routes is
/// that of Click's LinearIPLookup. Masks need not be prefixes: the routes are then tried in order,
/// a more specific one before a less specific one.
///
/// # Example
/// ```click
/// FromDump(in.pcap, FORCE_IP true)
///     -> rt :: LinearIPLookup(18.26.4.24/32 0, 18.26.4/24 1, 0/0 18.26.4.1 1);
/// rt[0] -> Discard;
/// rt[1] -> Discard;
/// ```
///
/// # See also
/// RadixIPLookup, StaticIPLookup
#[derive(Element)]
#[element(ports = "1/-", processing = "h/h", is_a("IPRouteTable"), segments)]
#[outputs("one for each OUTPUT of the routes")]
pub struct LinearIPLookup {
    #[delegate]
    #[init(Routes::new(Order::Lowest, Some("LinearIPLookup")))]
    routes: Routes,
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn routes_change_but_are_not_flushed() {
        let mut rig = Rig::new("Idle -> rt :: LinearIPLookup(10/8 0) -> Discard;");
        rig.write("rt.set", "10/8 1.0.0.1 0");
        assert_eq!(rig.read("rt.table"), "10.0.0.0/8\t\t1.0.0.1\t\t0\n");
        assert!(rig.try_write("rt.flush", "").is_err());
        rig.write("rt.remove", "10/8");
        assert_eq!(rig.read("rt.table"), "");
    }
}
