use crate::prelude::*;

/// Passes packets that are no longer than a number of bytes.
///
/// Longer packets leave by output 1, or are dropped if that is not connected.
///
/// # Example
/// ```click
/// c :: CheckLength(1500);
/// FromDump(in.pcap) -> Strip(14) -> c -> Discard;
/// c[1] -> Print(large) -> Discard;
/// ```
///
/// # See also
/// Truncate, IPFragmenter
#[derive(Element)]
#[element(ports = "1/1-2", processing = "a/ah")]
#[outputs("packets of at most LENGTH bytes", "longer packets")]
pub struct CheckLength {
    /// Most bytes of a packet that passes.
    #[arg(mandatory, read, write, error = "expected integer")]
    length: u32,
}

impl Element for CheckLength {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if packet.len() > self.length as usize {
            Verdict::To(1)
        } else {
            Verdict::Forward
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn long_packets_leave_elsewhere() {
        let config =
            "i :: Inject -> c :: CheckLength(2); c[0] -> a :: Collect; c[1] -> b :: Collect;";
        let mut rig = Rig::new(config);
        for data in [&[1, 2][..], &[1, 2, 3], &[]] {
            rig.push("i", data);
        }
        assert_eq!(rig.data("a"), [&[1, 2][..], &[]]);
        assert_eq!(rig.data("b"), [[1, 2, 3]]);
        rig.write("c.length", "3");
        assert_eq!(rig.read("c.length"), "3");
        rig.push("i", &[1, 2, 3]);
        assert_eq!(rig.data("a").len(), 1);
    }

    #[test]
    fn without_output_1_they_are_dropped() {
        let mut rig = Rig::new("i :: Inject -> Queue -> CheckLength(1) -> p :: Puller;");
        for data in [&[1, 2][..], &[3], &[4, 5]] {
            rig.push("i", data);
        }
        let pulled = rig.pull("p", 9);
        assert_eq!((pulled.len(), pulled[0].data()), (1, &[3][..]));
        drop(pulled);
        assert_eq!(rig.outstanding(), 0);
        Rig::refuses(
            "Idle -> CheckLength -> Discard;",
            "LENGTH: required argument missing",
        );
    }
}
