use super::route_table::{Kind, Order, route_lookup};

route_lookup! {
    /// Looks up IP routes by the longest prefix, with tables of any size.
    ///
    /// Each packet's destination annotation is looked up in the routing table; the packet leaves
    /// by the route's output, and if the route has a gateway, the annotation becomes that. Packets
    /// without a route are dropped, the first five with a message.
    ///
    /// A look-up takes a few nanoseconds, whatever the number of routes; the table's memory
    /// follows the number of routes. A route for a mask that is no prefix is taken too, but while
    /// there is one, each look-up goes through all routes.
    ///
    /// # Arguments
    /// - `ADDR/MASK [GATEWAY] OUTPUT`, ... (route): the routes. A bare address is a route for it
    ///   alone; `-` is no gateway.
    ///
    /// # Ports
    /// One push input; any number of push outputs.
    ///
    /// # Handlers
    /// - `table` (read): the routes, one a line.
    /// - `lookup` (read with an address): output and gateway for the address; -1 if there is no
    ///   route.
    /// - `add` (write): adds a route; fails if its prefix has one.
    /// - `set` (write): adds a route, or replaces its prefix's.
    /// - `remove` (write): removes a route, `ADDR/MASK [[GATEWAY] OUTPUT]`.
    /// - `ctrl` (write): `add`, `set` and `remove` commands, one a line; all are done, or none.
    /// - `flush` (write): removes all routes.
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
    RadixIPLookup,
    Kind {
        order: Order::Latest,
        complains_as: Some("IPRouteTable"),
        dynamic: true,
        flush: true,
    }
}
