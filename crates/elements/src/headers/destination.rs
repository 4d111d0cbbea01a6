//! IP addresses of both versions, and where encapsulated packets go: to a fixed one, or where their
//! annotation says.

use core::hash::Hash;

use crate::prelude::*;

/// An address that packets carry as their destination address annotation.
pub trait Address: Argument + Copy + Eq + Hash {
    /// What a packet's annotation says.
    fn annotated(packet: &Packet) -> Self;

    /// Sets a packet's annotation.
    fn annotate(self, packet: &mut Packet);

    /// As handlers show it.
    fn text(self) -> String;
}

impl Address for Ipv4Addr {
    #[inline(always)]
    fn annotated(packet: &Packet) -> Self {
        packet.dst_ip()
    }

    #[inline(always)]
    fn annotate(self, packet: &mut Packet) {
        packet.set_dst_ip(self);
    }

    fn text(self) -> String {
        self.to_string()
    }
}

impl Address for Ipv6Addr {
    #[inline(always)]
    fn annotated(packet: &Packet) -> Self {
        packet.dst_ip6()
    }

    #[inline(always)]
    fn annotate(self, packet: &mut Packet) {
        packet.set_dst_ip6(self);
    }

    fn text(self) -> String {
        unparse::ip6(self)
    }
}

/// The message about an argument that is no [`Destination`].
pub(crate) const BAD_DESTINATION: &str = "DST argument should be IP address or 'DST_ANNO'";

/// Where packets go.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Destination<A> {
    To(A),
    /// Where their destination address annotation says.
    #[default]
    Annotation,
}

impl<A: Address> Destination<A> {
    /// Reads an address or `DST_ANNO`; `None` if it is neither.
    pub fn parse(text: &str, context: &Context<'_>) -> Option<Self> {
        if text == "DST_ANNO" {
            return Some(Destination::Annotation);
        }
        context.parse(text).ok().map(Destination::To)
    }

    /// The address for a packet; sets its annotation to it.
    #[inline(always)]
    pub fn of(self, packet: &mut Packet) -> A {
        match self {
            Destination::To(address) => {
                address.annotate(packet);
                address
            }
            Destination::Annotation => A::annotated(packet),
        }
    }
}

/// As the argument has it.
impl<A: Address> core::fmt::Display for Destination<A> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Destination::To(address) => f.write_str(&address.text()),
            Destination::Annotation => f.write_str("DST_ANNO"),
        }
    }
}
