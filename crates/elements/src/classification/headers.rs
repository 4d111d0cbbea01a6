//! The headers of one packet, as slices: the input of a program.

/// The bytes of one packet as a program sees them.
///
/// An element fills this in from the packet's data and header offsets; it is
/// three words of slices and an offset, built on the stack.
#[derive(Clone, Copy, Debug, Default)]
pub struct Headers<'a> {
    /// For [`super::classifier()`] programs the packet's data; for IP
    /// programs the packet from its MAC header on, empty when none is set
    /// (then `ether` primitives see a packet too short for them).
    pub front: &'a [u8],
    /// From the network header to the end of the packet. Unused by
    /// [`super::classifier()`] programs.
    pub network: &'a [u8],
    /// Offset of the transport header in `network`, in bytes: the network
    /// header's length.
    pub transport: usize,
}

impl<'a> Headers<'a> {
    /// The view of a Classifier: the packet's data.
    #[inline(always)]
    pub fn data(data: &'a [u8]) -> Headers<'a> {
        Headers {
            front: data,
            network: &[],
            transport: 0,
        }
    }

    /// The view of an IP program over a packet without a MAC header:
    /// `network` from the IP header to the end, `transport` the IP header's
    /// length in bytes.
    #[inline(always)]
    pub fn ip(network: &'a [u8], transport: usize) -> Headers<'a> {
        Headers {
            front: &[],
            network,
            transport,
        }
    }

    /// The same with the MAC header: `mac` runs from the Ethernet header's
    /// first byte (it may run to the end of the packet).
    #[inline(always)]
    pub fn with_mac(self, mac: &'a [u8]) -> Headers<'a> {
        Headers { front: mac, ..self }
    }

    /// The bytes of one area.
    #[inline(always)]
    pub(super) fn area(&self, area: Area) -> &'a [u8] {
        match area {
            Area::Front => self.front,
            Area::Network => self.network,
            Area::Transport => self.network.get(self.transport..).unwrap_or(&[]),
        }
    }
}

/// A packet with headers.
///
/// Most rules read the network header alone, so an implementation finds other headers only when they
/// are requested.
pub trait View<'a>: Copy {
    /// All headers.
    fn headers(self) -> Headers<'a>;

    /// [`Headers::front`].
    #[inline(always)]
    fn front(self) -> &'a [u8] {
        self.headers().front
    }

    /// The first `N` bytes from a network header of 20 bytes on, if they are there.
    #[inline(always)]
    fn plain_ip<const N: usize>(self) -> Option<&'a [u8; N]> {
        let Headers {
            network, transport, ..
        } = self.headers();
        network.first_chunk().filter(|_| transport == 20)
    }
}

impl<'a> View<'a> for Headers<'a> {
    #[inline(always)]
    fn headers(self) -> Headers<'a> {
        self
    }
}

/// Which header an offset counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Area {
    /// The packet's data, or its MAC header.
    Front,
    /// The network header.
    Network,
    /// The transport header.
    Transport,
}

impl Area {
    pub(super) const ALL: [Area; 3] = [Area::Front, Area::Network, Area::Transport];
}
