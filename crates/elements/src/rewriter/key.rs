//! Flow identifiers.

use core::fmt;

use crate::prelude::*;

/// What tells a flow's packets from others: source and destination, address and port.
///
/// In two numbers, so that a key is read from a header, compared, turned round and written in a
/// few instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// The source address in the upper half, the destination address in the lower.
    pub addresses: u64,
    /// The source port in the upper half, the destination port in the lower.
    pub ports: u32,
}

impl FlowKey {
    /// The key of packets from `source` to `destination`.
    pub fn new(source: (Ipv4Addr, u16), destination: (Ipv4Addr, u16)) -> FlowKey {
        FlowKey {
            addresses: u64::from(source.0.to_bits()) << 32 | u64::from(destination.0.to_bits()),
            ports: u32::from(source.1) << 16 | u32::from(destination.1),
        }
    }

    /// The key of the packets that answer.
    #[inline(always)]
    pub fn reverse(self) -> FlowKey {
        FlowKey {
            addresses: self.addresses.rotate_left(32),
            ports: self.ports.rotate_left(16),
        }
    }

    /// The source address.
    #[inline(always)]
    pub fn source(self) -> Ipv4Addr {
        Ipv4Addr::from_bits((self.addresses >> 32) as u32)
    }

    /// The destination address.
    #[inline(always)]
    pub fn destination(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.addresses as u32)
    }

    /// The source port.
    #[inline(always)]
    pub fn source_port(self) -> u16 {
        (self.ports >> 16) as u16
    }

    /// The destination port.
    #[inline(always)]
    pub fn destination_port(self) -> u16 {
        self.ports as u16
    }

    /// With another source address.
    pub fn with_source(self, source: Ipv4Addr) -> FlowKey {
        let addresses = self.addresses & 0xffff_ffff | u64::from(source.to_bits()) << 32;
        FlowKey { addresses, ..self }
    }

    /// With another destination address.
    pub fn with_destination(self, destination: Ipv4Addr) -> FlowKey {
        let addresses = self.addresses >> 32 << 32 | u64::from(destination.to_bits());
        FlowKey { addresses, ..self }
    }

    /// With another source port.
    pub fn with_source_port(self, port: u16) -> FlowKey {
        let ports = self.ports & 0xffff | u32::from(port) << 16;
        FlowKey { ports, ..self }
    }

    /// With another destination port.
    pub fn with_destination_port(self, port: u16) -> FlowKey {
        let ports = self.ports >> 16 << 16 | u32::from(port);
        FlowKey { ports, ..self }
    }
}

/// `(1.0.0.1, 1024, 2.0.0.2, 80)`.
impl fmt::Display for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (source, destination) = (self.source(), self.destination());
        let (from, to) = (self.source_port(), self.destination_port());
        write!(f, "({source}, {from}, {destination}, {to})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_and_replaced() {
        let (a, b) = (Ipv4Addr::new(1, 2, 3, 4), Ipv4Addr::new(250, 6, 7, 8));
        let key = FlowKey::new((a, 10), (b, 60_000));
        assert_eq!(key.to_string(), "(1.2.3.4, 10, 250.6.7.8, 60000)");
        assert_eq!(key.reverse(), FlowKey::new((b, 60_000), (a, 10)));
        let made = FlowKey::default()
            .with_destination_port(60_000)
            .with_source(a)
            .with_source_port(10)
            .with_destination(b);
        assert_eq!(made, key);
    }
}
