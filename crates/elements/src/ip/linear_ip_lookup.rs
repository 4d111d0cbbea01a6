use super::route_table::{Kind, Order, route_lookup};

route_lookup! {
    /// Looks up IP routes by the longest prefix.
    ///
    /// As RadixIPLookup, on the same table, and as fast; the name, and the order in which `table`
    /// shows the routes, are those of Click's linear table. Masks need not be prefixes: then the
    /// routes are tried in order, and a later one goes first where it is more specific.
    ///
    /// # Arguments
    /// - `ADDR/MASK [GATEWAY] OUTPUT`, ... (route): the routes.
    ///
    /// # Ports
    /// One push input; any number of push outputs.
    ///
    /// # Handlers
    /// - `table`, `lookup` (read): as RadixIPLookup's.
    /// - `add`, `set`, `remove`, `ctrl` (write): as RadixIPLookup's.
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
    LinearIPLookup,
    Kind {
        order: Order::Lowest,
        complains_as: Some("LinearIPLookup"),
        dynamic: true,
        flush: false,
    }
}

route_lookup! {
    /// Looks up IP routes by the longest prefix; kept for old configurations.
    ///
    /// As LinearIPLookup, and with a warning that says to use that or RadixIPLookup.
    ///
    /// # Arguments
    /// - `ADDR/MASK [GATEWAY] OUTPUT`, ... (route): the routes.
    ///
    /// # Ports
    /// One push input; any number of push outputs.
    ///
    /// # Handlers
    /// As LinearIPLookup's.
    ///
    /// # Example
    /// ```click
    /// FromDump(in.pcap, FORCE_IP true) -> SortedIPLookup(0/0 18.26.4.1 0) -> Discard;
    /// ```
    ///
    /// # See also
    /// RadixIPLookup, LinearIPLookup
    SortedIPLookup,
    Kind {
        order: Order::Lowest,
        complains_as: Some("SortedIPLookup"),
        dynamic: true,
        flush: false,
    },
    "SortedIPLookup is deprecated; use LinearIPLookup or RadixIPLookup instead"
}
