use super::route_table::{Kind, Order, route_lookup};

route_lookup! {
    /// Looks up IP routes by the longest prefix, in a table that does not change.
    ///
    /// As RadixIPLookup, without the handlers that change the table.
    ///
    /// # Arguments
    /// - `ADDR/MASK [GATEWAY] OUTPUT`, ... (route): the routes.
    ///
    /// # Ports
    /// One push input; any number of push outputs.
    ///
    /// # Handlers
    /// - `table`, `lookup` (read): as RadixIPLookup's.
    ///
    /// # Example
    /// ```click
    /// FromDump(in.pcap, FORCE_IP true)
    ///     -> rt :: StaticIPLookup(18.26.4.24/32 0, 18.26.4/24 1, 0/0 18.26.4.1 1);
    /// rt[0] -> Discard;
    /// rt[1] -> Discard;
    /// ```
    ///
    /// # See also
    /// RadixIPLookup, LinearIPLookup
    StaticIPLookup,
    Kind {
        order: Order::Lowest,
        complains_as: Some("LinearIPLookup"),
        dynamic: false,
        flush: false,
    }
}

route_lookup! {
    /// StaticIPLookup under its old name.
    ///
    /// # Arguments
    /// - `ADDR/MASK [GATEWAY] OUTPUT`, ... (route): the routes.
    ///
    /// # Ports
    /// One push input; any number of push outputs.
    ///
    /// # Handlers
    /// As StaticIPLookup's.
    ///
    /// # Example
    /// ```click
    /// FromDump(in.pcap, FORCE_IP true) -> LookupIPRoute(0/0 18.26.4.1 0) -> Discard;
    /// ```
    ///
    /// # See also
    /// StaticIPLookup
    LookupIPRoute,
    Kind {
        order: Order::Lowest,
        complains_as: Some("LinearIPLookup"),
        dynamic: false,
        flush: false,
    }
}
