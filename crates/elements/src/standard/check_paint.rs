use crate::prelude::*;

/// Passes packets of one color.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 10) -> Paint(1) -> CheckPaint(1) -> Discard;
/// ```
///
/// # See also
/// Paint, PaintTee
#[derive(Element)]
#[element(ports = "1/1-2", processing = "a/ah", segments)]
#[outputs("packets of the color", "packets of other colors")]
pub struct CheckPaint {
    /// The color, 0 to 255.
    #[arg(mandatory, read, write, error = "expected uint8_t")]
    color: u8,
    /// The annotation that holds it.
    #[arg(positional, default = AnnoOf::new(anno::PAINT), default_text = "PAINT")]
    anno: AnnoOf<1>,
}

impl Element for CheckPaint {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if packet.annotations()[self.anno.offset()] == self.color {
            Verdict::Forward
        } else {
            Verdict::To(1)
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn only_the_right_color_passes() {
        let config = "i :: Inject -> k :: CheckPaint(2) -> a :: Collect; k[1] -> b :: Collect;";
        let mut rig = Rig::new(config);
        rig.push_with("i", &[1], |packet| packet.set_paint(2));
        rig.push_with("i", &[2], |packet| packet.set_paint(3));
        assert_eq!(rig.data("a"), [[1]]);
        assert_eq!(rig.data("b"), [[2]]);
        let mut rig = Rig::new("i :: Inject -> Queue -> CheckPaint(2) -> p :: Puller;");
        rig.push("i", &[1]);
        assert!(rig.pull("p", 1).is_empty());
        assert_eq!(rig.outstanding(), 0);
    }
}
