use crate::prelude::*;

/// Moves the data of packets in memory, so that it starts at a certain alignment.
///
/// Elements read headers at any alignment and do not need it. It exists for configurations that
/// contain it. A packet for which there is no memory is dropped.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> Align(4, 2) -> CheckIPHeader(14) -> Discard;
/// ```
///
/// # See also
/// AlignmentInfo
#[derive(Element)]
#[element(ports = "1/1")]
pub struct Align {
    /// The alignment in bytes: 2, 4 or 8.
    #[arg(mandatory)]
    modulus: u32,
    /// Bytes from an address that is a multiple of MODULUS to the packet's first byte; less than
    /// MODULUS. -1 is the byte in front of the next multiple.
    #[arg(mandatory)]
    offset: i32,
}

impl Element for Align {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if !matches!(self.modulus, 2 | 4 | 8) {
            return Err(args.fail("MODULUS must be 2, 4, or 8"));
        }
        // MODULUS is at most 8.
        let modulus = self.modulus as i32;
        if self.offset >= modulus {
            return Err(args.fail("OFFSET must be smaller than MODULUS"));
        }
        self.offset = self.offset.rem_euclid(modulus);
        Ok(())
    }

    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if packet.align(self.modulus as usize, self.offset as usize) {
            Verdict::Forward
        } else {
            Verdict::Drop
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn data_starts_where_it_is_asked_to() {
        for (modulus, offset) in [(2, 0), (2, 1), (4, 3), (8, 2), (8, 7), (4, -1), (8, -9)] {
            let config = format!("i :: Inject -> Align({modulus}, {offset}) -> c :: Collect;");
            let mut rig = Rig::new(&config);
            for stripped in 0..8 {
                rig.push_with("i", &[7; 60], |packet| packet.pull(stripped));
            }
            for (stripped, packet) in rig.collected("c").iter().enumerate() {
                let rest = packet.data().as_ptr().addr() as isize - offset;
                assert_eq!(rest % modulus, 0);
                assert_eq!(packet.len(), 60 - stripped);
            }
        }
    }

    #[test]
    fn wrong_alignments_are_refused() {
        for (arguments, message) in [
            ("4", "OFFSET: required argument missing"),
            ("3, 0", "MODULUS must be 2, 4, or 8"),
            ("4, 4", "OFFSET must be smaller than MODULUS"),
        ] {
            Rig::refuses(&format!("Idle -> Align({arguments}) -> Discard;"), message);
        }
    }
}
