//! Carrier-grade NAT: many subscribers share the ports of a few addresses.

mod log;
mod pool;
mod table;
#[cfg(test)]
mod tests;

crate::elements! {
    carrier_grade_nat: CarrierGradeNAT;
}

/// The protocols that are translated; ports of ICMP are identifiers.
const PROTOCOLS: usize = 3;

/// A protocol's number among those; `None` if it is not translated.
fn slot(protocol: u8) -> Option<usize> {
    use crate::prelude::IpProtocol;
    [IpProtocol::TCP, IpProtocol::UDP, IpProtocol::ICMP]
        .iter()
        .position(|it| it.0 == protocol)
}
