use crate::prelude::*;

/// Paints packets a color.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 10) -> Paint(3) -> p :: PaintSwitch;
/// p[0] -> Discard;
/// p[1] -> Discard;
/// p[2] -> Discard;
/// p[3] -> Discard;
/// ```
///
/// # See also
/// PaintSwitch, CheckPaint, PaintTee
#[derive(Element)]
#[element(ports = "1/1", segments, live)]
pub struct Paint {
    /// The color, 0 to 255.
    #[arg(mandatory, read, write, error = "expected uint8_t")]
    color: u8,
    /// The annotation that takes it.
    #[arg(positional, default = AnnoOf::new(anno::PAINT), default_text = "PAINT")]
    anno: AnnoOf<1>,
}

impl Element for Paint {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        packet.annotations_mut()[self.anno.offset()] = self.color;
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn paint_is_put_where_it_is_asked_for() {
        let config = "i :: Inject -> p :: Paint(3) -> Paint(9, 17) -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.push("i", &[1]);
        rig.write("p.color", "255");
        rig.push("i", &[1]);
        let packets = rig.collected("c");
        let paints = packets.iter().map(|p| (p.paint(), p.annotations()[17]));
        assert!(paints.eq([(3, 9), (255, 9)]));
        assert_eq!(rig.read("p.color"), "255");
        assert!(rig.try_write("p.color", "256").is_err());
    }

    #[test]
    fn wrong_colors_and_annotations_are_refused() {
        Rig::refuses(
            "Inject -> Paint(300) -> Collect;",
            "COLOR: out of range, bound 255",
        );
        Rig::refuses("Inject -> Paint(3, 99) -> Collect;", "ANNO: ");
    }
}
