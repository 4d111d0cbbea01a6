//! The order of a source's packets: flows take turns, and so do sizes.

/// The flow and the size of the next packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turns {
    /// The flow's number.
    pub flow: u32,
    /// Which source address it has.
    pub address: u32,
    /// How many flows before it have this address.
    pub round: u16,
    /// Which size it is.
    pub size: usize,
    flows: u32,
    addresses: u32,
    sizes: usize,
    /// Packets after which each flow had all sizes that it meets by taking turns, and those left until then.
    period: u64,
    left: u64,
}

impl Turns {
    /// Those of so many flows, source addresses and sizes: one at least of each.
    pub fn new(flows: u32, addresses: u32, sizes: usize) -> Turns {
        let (mut divisor, mut rest) = (flows as usize, sizes);
        while rest > 0 {
            (divisor, rest) = (rest, divisor % rest);
        }
        let period = u64::from(flows) * (sizes / divisor) as u64;
        Turns {
            flows,
            addresses,
            sizes,
            period,
            left: period,
            ..Turns::default()
        }
    }

    /// Goes to the next packet.
    #[inline]
    pub fn advance(&mut self) {
        self.flow += 1;
        self.address += 1;
        if self.flow == self.flows {
            (self.flow, self.address, self.round) = (0, 0, 0);
        } else if self.address == self.addresses {
            self.address = 0;
            self.round = self.round.wrapping_add(1);
        }
        self.size += 1;
        self.left -= 1;
        if self.left == 0 {
            // One size is left out, so that flows meet others.
            self.size += 1;
            self.left = self.period;
        }
        if self.size >= self.sizes {
            self.size %= self.sizes;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn every_flow_has_every_size_as_often() {
        for (flows, sizes) in (1..14).flat_map(|flows| (1..14).map(move |sizes| (flows, sizes))) {
            let mut turns = Turns::new(flows, 1, sizes);
            for _ in 0..2 {
                let mut seen = BTreeSet::new();
                for _ in 0..flows as usize * sizes {
                    seen.insert((turns.flow, turns.size));
                    turns.advance();
                }
                assert_eq!(seen.len(), flows as usize * sizes, "{flows} {sizes}");
            }
        }
    }

    #[test]
    fn flows_share_addresses_when_all_were_used() {
        let mut turns = Turns::new(5, 2, 1);
        let mut flows = Vec::new();
        for _ in 0..6 {
            flows.push((turns.address, turns.round));
            turns.advance();
        }
        assert_eq!(flows, [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (0, 0)]);
    }
}
