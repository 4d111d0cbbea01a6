use crate::prelude::*;

/// Adds bytes to the front of packets: the bytes that Strip removed.
///
/// A packet for which there is no memory is dropped.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> Strip(14) -> Unstrip(14) -> Discard;
/// ```
///
/// # See also
/// Strip, EtherEncap, IPEncap
#[derive(Element)]
#[element(ports = "1/1", segments, alias("FlowUnstrip"))]
pub struct Unstrip {
    /// Number of bytes.
    #[arg(mandatory)]
    length: u32,
}

impl Element for Unstrip {
    fn effects(&self) -> Effects {
        Effects::of_move(Edit::push(self.length as usize))
    }

    #[inline(always)]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if packet.push(self.length as usize) {
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
    fn a_long_way_back_is_found_too() {
        let mut rig = Rig::new("i :: Inject -> Unstrip(5000) -> c :: Collect;");
        rig.push("i", &[7]);
        let data = rig.data("c");
        assert_eq!((data[0].len(), data[0].last()), (5001, Some(&7)));
    }
}
