use super::route_table::{Kind, Order, route_lookup};

route_lookup! {
    /// Looks up IP routes by the longest prefix; packets without a route are dropped silently.
    ///
    /// As RadixIPLookup, on the same table. Click's element of this name needs 33 MB for any
    /// table; this one does not.
    ///
    /// # Arguments
    /// - `ADDR/MASK [GATEWAY] OUTPUT`, ... (route): the routes.
    ///
    /// # Ports
    /// One push input; any number of push outputs.
    ///
    /// # Handlers
    /// - `table`, `lookup` (read): as RadixIPLookup's.
    /// - `add`, `set`, `remove`, `ctrl`, `flush` (write): as RadixIPLookup's.
    ///
    /// # Example
    /// ```click
    /// FromDump(in.pcap, FORCE_IP true) -> DirectIPLookup(0/0 18.26.4.1 0) -> Discard;
    /// ```
    ///
    /// # See also
    /// RadixIPLookup, RangeIPLookup
    DirectIPLookup,
    Kind {
        order: Order::Latest,
        complains_as: None,
        dynamic: true,
        flush: true,
    }
}

route_lookup! {
    /// Looks up IP routes in ranges of addresses; packets without a route are dropped silently.
    ///
    /// As RadixIPLookup, on the same table, which is made of ranges as that of Click's element of
    /// this name.
    ///
    /// # Arguments
    /// - `ADDR/MASK [GATEWAY] OUTPUT`, ... (route): the routes.
    ///
    /// # Ports
    /// One push input; any number of push outputs.
    ///
    /// # Handlers
    /// - `table`, `lookup` (read): as RadixIPLookup's.
    /// - `add`, `set`, `remove`, `ctrl`, `flush` (write): as RadixIPLookup's.
    ///
    /// # Example
    /// ```click
    /// FromDump(in.pcap, FORCE_IP true) -> RangeIPLookup(0/0 18.26.4.1 0) -> Discard;
    /// ```
    ///
    /// # See also
    /// RadixIPLookup, DirectIPLookup
    RangeIPLookup,
    Kind {
        order: Order::Latest,
        complains_as: None,
        dynamic: true,
        flush: true,
    }
}
