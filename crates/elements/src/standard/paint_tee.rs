use crate::prelude::*;

/// Copies packets of one color.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 10) -> Paint(1) -> p :: PaintTee(1) -> Discard;
/// p[1] -> Print(copy) -> Discard;
/// ```
///
/// # See also
/// Paint, Tee
#[derive(Element)]
#[element(ports = "1/2", processing = "a/ah", segments)]
#[outputs("all packets", "copies of the packets of the color")]
pub struct PaintTee {
    /// The color, 0 to 255.
    #[arg(mandatory, read, write, error = "expected uint8_t")]
    color: u8,
    /// The annotation that holds it.
    #[arg(positional, default = AnnoOf::new(anno::PAINT), default_text = "PAINT")]
    anno: AnnoOf<1>,
}

impl Element for PaintTee {
    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if packet.annotations()[self.anno.offset()] == self.color
            && let Some(copy) = cx.pool().clone(packet)
        {
            cx.emit(1, copy);
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn packets_of_the_color_are_copied() {
        let config = "i :: Inject -> t :: PaintTee(2) -> a :: Collect; t[1] -> b :: Collect;";
        let mut rig = Rig::new(config);
        rig.push_with("i", &[1], |packet| packet.set_paint(2));
        rig.push("i", &[2]);
        assert_eq!(rig.data("a"), [[1], [2]]);
        assert_eq!(rig.data("b"), [[1]]);
    }
}
