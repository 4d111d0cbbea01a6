use crate::prelude::*;

/// Lengthens packets that are shorter than a number of bytes.
///
/// Without LENGTH, a packet grows by its extra length annotation: the bytes that Truncate removed,
/// or that a capture omitted. The annotation becomes 0. Without memory, the packet is dropped.
///
/// # Example
/// ```click
/// InfiniteSource(DATA \<0800>, LIMIT 10) -> Pad(60) -> Discard;
/// ```
///
/// # See also
/// Truncate, Resize
#[derive(Element)]
#[element(ports = "1/1", live)]
pub struct Pad {
    /// Least bytes of a packet; if it is 0, the annotation counts.
    #[arg(positional, default = 0)]
    length: u32,
    /// Whether added bytes are zeroes. Otherwise they have the buffer's old content, which may be
    /// part of other packets.
    #[arg(default = true)]
    zero: bool,
}

impl Element for Pad {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let before = packet.len();
        let missing = match self.length {
            0 => packet.anno(anno::EXTRA_LENGTH) as usize,
            length => (length as usize).saturating_sub(before),
        };
        if missing > 0 {
            if !packet.put(missing) {
                return Verdict::Drop;
            }
            if self.zero {
                packet.data_mut()[before..].fill(0);
            }
        }
        packet.set_anno(anno::EXTRA_LENGTH, 0);
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn padding_that_no_memory_has_room_for_drops_the_packet() {
        let mut rig = Rig::new("i :: Inject -> Pad -> c :: Collect;");
        rig.push_with("i", &[1], |packet| {
            packet.set_anno(anno::EXTRA_LENGTH, u32::MAX)
        });
        assert!(rig.collected("c").is_empty());
        assert_eq!(rig.outstanding(), 0);
        let mut rig = Rig::new("i :: Inject -> Pad(5000, ZERO false) -> c :: Collect;");
        rig.push("i", &[7]);
        assert_eq!((rig.data("c")[0].len(), rig.data("c").len()), (5000, 0));
    }
}
