use router::{Class, Declared, Element};

macro_rules! null {
    ($(#[$doc:meta])* $name:ident, $processing:literal) => {
        $(#[$doc])*
        #[derive(Default)]
        pub struct $name;

        impl Class for $name {
            const NAME: &'static str = stringify!($name);
            const PORTS: &'static str = "1/1";
            const PROCESSING: &'static str = $processing;
            const SEGMENTS: bool = true;
        }

        impl Declared for $name {}

        impl Element for $name {}
    };
}

null! {
    /// Passes packets on unchanged.
    ///
    /// # Arguments
    /// None.
    ///
    /// # Ports
    /// One input, one output, agnostic.
    ///
    /// # Handlers
    /// None of its own.
    ///
    /// # Example
    /// ```click
    /// FromDump(in.pcap) -> Null -> Discard;
    /// ```
    ///
    /// # See also
    /// PushNull, PullNull, Idle
    Null, "a/a"
}

null! {
    /// Passes packets on unchanged; only pushes.
    ///
    /// # Arguments
    /// None.
    ///
    /// # Ports
    /// One push input, one push output.
    ///
    /// # Handlers
    /// None of its own.
    ///
    /// # Example
    /// ```click
    /// FromDump(in.pcap) -> PushNull -> Discard;
    /// ```
    ///
    /// # See also
    /// Null, PullNull
    PushNull, "h/h"
}

null! {
    /// Passes packets on unchanged; only pulls.
    ///
    /// # Arguments
    /// None.
    ///
    /// # Ports
    /// One pull input, one pull output.
    ///
    /// # Handlers
    /// None of its own.
    ///
    /// # Example
    /// ```click
    /// InfiniteSource(LIMIT 10) -> Queue -> PullNull -> Discard;
    /// ```
    ///
    /// # See also
    /// Null, PushNull
    PullNull, "l/l"
}
