//! Batch facts: statements that hold for every packet of a batch.

/// Facts that hold for every packet of a batch, so that an element need not check each packet.
///
/// An element that reads all headers records its findings ([`Batch::learn`](crate::Batch::learn)).
/// A batch's mutable accessors clear all facts except the caller's preserved ones
/// ([`Batch::filter_keeping`](crate::Batch::filter_keeping)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts(u8);

impl Facts {
    /// Nothing is known.
    pub const NONE: Facts = Facts(0);
    /// No packet came as a link-level broadcast or multicast.
    pub const UNICAST: Facts = Facts(1);
    /// The [FIX_IP_SRC](crate::anno::FIX_IP_SRC) annotation of all is 0.
    pub const SOURCE_STAYS: Facts = Facts(1 << 1);
    /// No network header is marked that has IP options.
    pub const NO_OPTIONS: Facts = Facts(1 << 2);
    /// From the network header to the end there are no more than [`Facts::ETHERNET`] bytes.
    pub const FITS_ETHERNET: Facts = Facts(1 << 3);
    /// The data starts with a whole IPv4 header, and the destination annotation is its destination.
    pub const DESTINATION: Facts = Facts(1 << 4);
    /// All of these.
    pub const ALL: Facts = Facts((1 << 5) - 1);

    /// The longest IP packet that fits an Ethernet frame, in bytes.
    pub const ETHERNET: usize = 1500;

    /// Both these and others.
    #[inline]
    pub const fn and(self, others: Facts) -> Facts {
        Facts(self.0 | others.0)
    }

    /// These, if `known`.
    #[inline]
    pub const fn if_so(self, known: bool) -> Facts {
        if known { self } else { Facts::NONE }
    }

    /// The facts that `others` contains too.
    #[inline]
    pub const fn among(self, others: Facts) -> Facts {
        Facts(self.0 & others.0)
    }

    /// The facts that `others` does not contain.
    #[inline]
    pub const fn without(self, others: Facts) -> Facts {
        Facts(self.0 & !others.0)
    }

    /// Whether `others`, which are some, are all among these.
    #[inline]
    pub const fn include(self, others: Facts) -> bool {
        others.0 != 0 && self.0 & others.0 == others.0
    }
}
