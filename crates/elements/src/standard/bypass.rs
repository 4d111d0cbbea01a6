use crate::prelude::*;

/// Leads packets past an optional path, or through it.
///
/// Packets go from input 0 to output 0; while the element is active they take the path that starts
/// at output 1 instead. That path may lead elsewhere, or back to input 1 and from there to output
/// 0. On a pull path, an active Bypass pulls from input 1.
///
/// # Example
/// ```click
/// b :: Bypass;
/// InfiniteSource(LIMIT 10) -> Counter(COUNT_CALL 5 b.active true) -> b -> Discard;
/// b[1] -> Print(late) -> [1]b;
/// ```
///
/// # See also
/// Switch, PullSwitch, InputSwitch, Null
#[derive(Element)]
#[element(ports = "1-2/1-2", flow = "xy/[xy]x", segments)]
#[inputs("packets", "the end of the optional path")]
#[outputs("packets", "the start of the optional path")]
pub struct Bypass {
    /// Whether packets take the optional path.
    #[arg(positional, read, write, error = "syntax error")]
    active: bool,
    /// Accepted as Click has it, and ignored. Packets always pass the element, which costs one call
    /// for a batch.
    #[arg]
    inline: bool,
}

impl Bypass {
    /// The port on the other side of port `port`, of `ports`.
    #[inline]
    fn other(&self, port: usize, ports: usize) -> usize {
        usize::from(self.active && port == 0 && ports > 1)
    }
}

impl Element for Bypass {
    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, port: usize, _batch: &mut Batch) -> usize {
        self.other(port, cx.outputs())
    }

    #[inline]
    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, _batch: &mut Batch, most: usize) {
        cx.pull_through(self.other(port, cx.inputs()), most);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn an_active_bypass_takes_the_optional_path() {
        for batch in [1, 64] {
            let config = "i :: Inject -> b :: Bypass -> c :: Collect; b[1] -> Paint(7) -> [1]b;";
            let mut rig = Rig::with_batch(config, batch);
            assert_eq!(rig.read("b.active"), "false");
            rig.push_all("i", &[vec![1], vec![2]]);
            rig.write("b.active", "true");
            rig.push_all("i", &[vec![3], vec![4]]);
            let paints = rig.collected("c");
            let paints = paints.iter().map(|packet| packet.paint());
            assert!(paints.eq([0, 0, 7, 7]));
            assert!(rig.try_write("b.active", "perhaps").is_err());
        }
    }

    #[test]
    fn where_packets_are_pulled_the_path_leads_back_through_it() {
        let config = "i :: Inject -> Queue -> n :: Counter(COUNT_CALL 3 b.active true)
            -> b :: Bypass -> p :: Puller; b[1] -> Paint(7) -> [1]b;";
        let mut rig = Rig::with_batch(config, 1);
        for n in 1..=4 {
            rig.push("i", &[n]);
        }
        // The third packet is on its way past when the call comes.
        for paint in [0, 0, 0, 7] {
            assert_eq!(rig.pull("p", 1)[0].paint(), paint);
        }
        assert!(rig.pull("p", 1).is_empty());
        rig.push("i", &[5]);
        assert_eq!(rig.pull("p", 64)[0].paint(), 7);
    }

    #[test]
    fn bypasses_may_stand_in_a_row_and_in_each_other() {
        let config =
            "i :: Inject -> Queue -> a :: Bypass(true) -> b :: Bypass(true) -> p :: Puller;
            a[1] -> c :: Bypass(true) -> Paint(1) -> [1]a; c[1] -> Paint(2, ANNO 17) -> [1]c;
            b[1] -> Paint(3, ANNO 18) -> [1]b;";
        let mut rig = Rig::new(config);
        rig.push("i", &[1]);
        let packets = rig.pull("p", 9);
        assert_eq!(packets[0].annotations()[16..19], [1, 2, 3]);
        drop(packets);
        rig.write("c.active", "false");
        rig.write("b.active", "false");
        rig.push("i", &[1]);
        assert_eq!(rig.pull("p", 9)[0].annotations()[16..19], [1, 0, 0]);
    }

    #[test]
    fn without_an_optional_path_it_makes_no_difference() {
        let mut rig = Rig::new("i :: Inject -> b :: Bypass(true, INLINE true) -> c :: Collect;");
        rig.push("i", &[1]);
        assert_eq!(rig.data("c"), [[1]]);
    }

    #[test]
    fn a_path_in_a_circle_gives_nothing() {
        let config = "Idle -> b :: Bypass(true) -> t :: PullTee -> p :: Puller; t[1] -> Discard;
            b[1] -> [1]b;";
        let mut rig = Rig::new(config);
        assert!(rig.pull("p", 1).is_empty());
    }
}
