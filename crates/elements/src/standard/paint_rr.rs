use crate::prelude::*;

/// Sends packets to the output that their color modulo the number of outputs names.
///
/// Every color has an output. PaintSwitch drops packets whose color has none.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 10) -> Paint(5) -> p :: PaintRR;
/// p[0] -> Discard;
/// p[1] -> Print(odd) -> Discard;
/// ```
///
/// # See also
/// PaintSwitch, Paint, RoundRobinSwitch
#[derive(Element)]
#[element(ports = "1/-", processing = "h", segments)]
pub struct PaintRR {
    /// The annotation that holds the color.
    #[arg(positional, default = AnnoOf::new(anno::PAINT), default_text = "PAINT")]
    anno: AnnoOf<1>,
}

impl Element for PaintRR {
    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        let (at, outputs) = (self.anno.offset(), cx.outputs().max(1));
        let output = |packet: &Packet| usize::from(packet.annotations()[at]) % outputs;
        let mut chosen = batch.iter().map(output);
        let first = chosen.next().unwrap_or(0);
        if chosen.all(|port| port == first) {
            return first;
        }
        for packet in batch.drain() {
            cx.emit(output(&packet), packet);
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn every_color_has_an_output() {
        let config = "i :: Inject -> q :: Queue -> u :: Unqueue(BURST 64, ACTIVE false)
            -> p :: PaintRR(20); p[0] -> a :: Collect; p[1] -> b :: Collect; p[2] -> c :: Collect;";
        for batch in [1, 64] {
            let mut rig = Rig::with_batch(config, batch);
            for color in [0, 1, 2, 3, 4, 255] {
                rig.push_with("i", &[color], |packet| packet.annotations_mut()[20] = color);
            }
            rig.write("u.active", "true");
            rig.run();
            assert_eq!(rig.data("a"), [[0], [3], [255]]);
            assert_eq!(rig.data("b"), [[1], [4]]);
            assert_eq!(rig.data("c"), [[2]]);
        }
    }

    #[test]
    fn a_batch_of_one_color_goes_on_whole() {
        let config = "i :: Inject -> p :: PaintRR; p[0] -> a :: Collect; p[1] -> b :: Collect;";
        let mut rig = Rig::new(config);
        rig.push_with("i", &[1], |packet| packet.set_paint(5));
        assert_eq!((rig.data("a").len(), rig.data("b").len()), (0, 1));
    }
}
