use packet::Packet;
use router::args::{Args, Failed};
use router::{Class, Cx, Declared, Element, Verdict};

/// Moves the data of packets in memory, so that it starts at a certain alignment.
///
/// No element needs it: all read headers at any alignment. It is there for configurations that have
/// it. A packet for which there is no memory is dropped.
///
/// # Arguments
/// - `MODULUS` (2, 4 or 8): the alignment, in bytes.
/// - `OFFSET` (integer): bytes from an address that is a multiple of MODULUS to the packet's first
///   byte, fewer than MODULUS.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> Align(4, 2) -> CheckIPHeader(14) -> Discard;
/// ```
///
/// # See also
/// AlignmentInfo
#[derive(Default)]
pub struct Align {
    modulus: u32,
    offset: u32,
}

impl Class for Align {
    const NAME: &'static str = "Align";
    const PORTS: &'static str = "1/1";
}

impl Declared for Align {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        args.mandatory_positional("MODULUS", &mut self.modulus)
            .mandatory_positional("OFFSET", &mut self.offset)
            .complete()?;
        if !matches!(self.modulus, 2 | 4 | 8) {
            return Err(args.fail("MODULUS must be 2, 4, or 8"));
        }
        if self.offset >= self.modulus {
            return Err(args.fail("OFFSET must be smaller than MODULUS"));
        }
        Ok(())
    }
}

impl Element for Align {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        match packet.align(self.modulus as usize, self.offset as usize) {
            true => Verdict::Forward,
            false => Verdict::Drop,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use crate::testing::Rig;

    #[test]
    fn data_starts_where_it_is_asked_to() {
        for (modulus, offset) in [(2, 0), (2, 1), (4, 3), (8, 2), (8, 7)] {
            let config = format!("i :: Inject -> Align({modulus}, {offset}) -> c :: Collect;");
            let mut rig = Rig::new(&config);
            for stripped in 0..8 {
                rig.push_with("i", &[7; 60], |packet| packet.pull(stripped));
            }
            for (stripped, packet) in rig.collected("c").iter().enumerate() {
                assert_eq!(packet.data().as_ptr().addr() % modulus, offset);
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
            let errors = Rig::errors(&format!("Idle -> Align({arguments}) -> Discard;"));
            assert!(errors.contains(message), "{errors}");
        }
    }
}
