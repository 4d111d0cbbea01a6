use crate::prelude::*;

/// The color of a packet that goes to every output.
const EVERYWHERE: u8 = 255;

/// Sends packets to the output that their color names.
///
/// A packet of color 255 goes to every output. A packet whose color has no output is dropped.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 10) -> Paint(1) -> p :: PaintSwitch;
/// p[0] -> Discard;
/// p[1] -> Print(painted) -> Discard;
/// ```
///
/// # See also
/// Paint, Switch
#[derive(Element)]
#[element(ports = "1/-", processing = "h", segments)]
#[outputs("one for each color, from 0 on")]
pub struct PaintSwitch {
    /// The annotation that holds the color.
    #[arg(positional, default = AnnoOf::new(anno::PAINT), default_text = "PAINT")]
    anno: AnnoOf<1>,
}

impl PaintSwitch {
    /// The output for all packets of a batch, if they are of one color.
    fn common(&self, batch: &Batch) -> Option<usize> {
        let at = self.anno.offset();
        let mut colors = batch.iter().map(|packet| packet.annotations()[at]);
        let first = colors.next()?;
        let same = first != EVERYWHERE && colors.all(|color| color == first);
        same.then_some(first.into())
    }
}

impl Element for PaintSwitch {
    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        if let Some(port) = self.common(batch) {
            return port;
        }
        for packet in batch.drain() {
            let color = packet.annotations()[self.anno.offset()];
            if color != EVERYWHERE {
                cx.emit(color.into(), packet);
                continue;
            }
            let last = cx.outputs().saturating_sub(1);
            for port in 0..last {
                if let Some(copy) = cx.pool().clone(&packet) {
                    cx.emit(port, copy);
                }
            }
            cx.emit(last, packet);
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn colors_choose_outputs() {
        for batch in [1, 64] {
            let config = "i :: Inject -> Null -> p :: PaintSwitch;
                p[0] -> a :: Collect; p[1] -> b :: Collect;";
            let mut rig = Rig::with_batch(config, batch);
            for color in [0, 1, 2, 255] {
                rig.push_with("i", &[color], |packet| packet.set_paint(color));
            }
            assert_eq!(rig.data("a"), [[0], [255]]);
            assert_eq!(rig.data("b"), [[1], [255]]);
            assert_eq!(rig.outstanding(), 0);
        }
    }

    #[test]
    fn colors_choose_outputs_within_a_batch() {
        let config = "i :: Inject -> q :: Queue -> u :: Unqueue(BURST 64, ACTIVE false)
            -> p :: PaintSwitch; p[0] -> a :: Collect; p[1] -> b :: Collect;";
        let mut rig = Rig::new(config);
        for color in [1, 0, 255, 1] {
            rig.push_with("i", &[color], |packet| packet.set_paint(color));
        }
        rig.write("u.active", "true");
        rig.run();
        assert_eq!(rig.data("a"), [[0], [255]]);
        assert_eq!(rig.data("b"), [[1], [255], [1]]);
    }
}
