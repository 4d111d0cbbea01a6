use crate::prelude::*;

/// Removes bytes from the front of packets.
///
/// The bytes stay in the packet's headroom: Unstrip restores them.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> Strip(14) -> Unstrip(14) -> Discard;
/// ```
///
/// # See also
/// Unstrip, EtherEncap, IPEncap
#[derive(Element)]
#[element(ports = "1/1", segments, alias("FlowStrip"))]
pub struct Strip {
    /// Number of bytes. A shorter packet becomes empty.
    #[arg(mandatory)]
    length: u32,
}

impl Element for Strip {
    fn effects(&self) -> Effects {
        Effects::of_move(Edit::pull(self.length as usize))
    }

    #[inline(always)]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        packet.pull(self.length as usize);
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn what_is_stripped_comes_back() {
        let config = "i :: Inject -> Strip(2) -> t :: Tee -> a :: Collect;
            t[1] -> Unstrip(2) -> b :: Collect;";
        let mut rig = Rig::new(config);
        rig.push("i", &[1, 2, 3]);
        rig.push("i", &[1]);
        assert_eq!(rig.data("a"), [&[3][..], &[]]);
        let back = rig.data("b");
        assert_eq!(back[0], [1, 2, 3]);
        assert_eq!(back[1].len(), 2);
    }

    #[test]
    fn the_length_must_be_given() {
        Rig::refuses(
            "Inject -> Strip -> Collect;",
            "LENGTH: required argument missing",
        );
    }
}
