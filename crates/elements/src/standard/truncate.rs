use crate::prelude::*;

/// Shortens packets that are longer than a number of bytes.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> Truncate(68) -> ToDump(headers.pcap, EXTRA_LENGTH true);
/// ```
///
/// # See also
/// Pad, Strip, Resize, CheckLength
#[derive(Element)]
#[element(ports = "1/1", live)]
pub struct Truncate {
    /// Most bytes that remain of a packet.
    #[arg(mandatory, read, write, handler = "nbytes", error = "expected integer")]
    length: u32,
    /// Whether the bytes taken off are added to the packet's extra length annotation. Pad puts as
    /// many back.
    #[arg(default = true)]
    extra_length: bool,
}

impl Element for Truncate {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let surplus = packet.len().saturating_sub(self.length as usize);
        if surplus > 0 {
            packet.take(surplus);
            if self.extra_length {
                let extra = packet.anno(anno::EXTRA_LENGTH);
                packet.set_anno(anno::EXTRA_LENGTH, extra.saturating_add(surplus as u32));
            }
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn what_is_taken_off_is_put_back_as_zeroes() {
        let config = "i :: Inject -> t :: Truncate(2) -> a :: Tee -> x :: Collect;
            a[1] -> Pad -> y :: Collect; a[2] -> Pad(3) -> z :: Collect;";
        let mut rig = Rig::new(config);
        rig.push("i", &[1, 2, 3, 4]);
        rig.push("i", &[5]);
        let cut = rig.collected("x");
        assert_eq!(
            (cut[0].data(), cut[0].anno(anno::EXTRA_LENGTH)),
            (&[1, 2][..], 2)
        );
        assert_eq!(
            (cut[1].data(), cut[1].anno(anno::EXTRA_LENGTH)),
            (&[5][..], 0)
        );
        let back = rig.collected("y");
        assert_eq!(
            (back[0].data(), back[0].anno(anno::EXTRA_LENGTH)),
            (&[1, 2, 0, 0][..], 0)
        );
        assert_eq!(back[1].data(), [5]);
        assert_eq!(rig.data("z"), [[1, 2, 0], [5, 0, 0]]);
        rig.write("t.nbytes", "0");
        assert_eq!(rig.read("t.nbytes"), "0");
        rig.push("i", &[1, 2]);
        assert!(rig.collected("x")[0].is_empty());
        assert_eq!(rig.data("y"), [[0, 0]]);
        assert!(rig.try_write("t.nbytes", "-1").is_err());
    }

    #[test]
    fn the_annotation_can_be_left_alone() {
        let config = "i :: Inject -> Truncate(LENGTH 1, EXTRA_LENGTH false) -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.push("i", &[1, 2]);
        let packets = rig.collected("c");
        assert_eq!(
            (packets[0].data(), packets[0].anno(anno::EXTRA_LENGTH)),
            (&[1][..], 0)
        );
    }

    #[test]
    fn the_length_to_cut_to_must_be_given() {
        Rig::refuses(
            "Idle -> Truncate -> Discard;",
            "LENGTH: required argument missing",
        );
    }
}
