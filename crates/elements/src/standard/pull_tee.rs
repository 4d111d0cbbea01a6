use super::tee::{Arms, copy};
use crate::prelude::*;

/// Sends a copy of each packet that is pulled to every other output.
///
/// # Example
/// ```click
/// t :: PullTee;
/// InfiniteSource(LIMIT 10) -> Queue -> t;
/// t[0] -> Discard;
/// t[1] -> Print(copy) -> Discard;
/// ```
///
/// # See also
/// Tee
#[derive(Element)]
#[element(ports = "1/1-", processing = "l/lh", segments)]
#[outputs("packets pulled", "copies")]
pub struct PullTee {
    #[flatten]
    arms: Arms,
}

impl Element for PullTee {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.arms.check(cx.outputs(), args)
    }

    #[inline]
    fn pulled(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for port in 1..cx.outputs() {
            copy(cx, port, batch);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn a_pull_sends_copies_to_the_push_outputs() {
        let config =
            "i :: Inject -> Queue -> t :: PullTee; t -> p :: Puller; t[1] -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.push_all("i", &[vec![1], vec![2], vec![3]]);
        assert_eq!(rig.pull("p", 2).len(), 2);
        assert_eq!(rig.data("c"), [[1], [2]]);
    }

    #[test]
    fn copies_leave_before_the_packet_goes_on() {
        let config = "i :: Inject -> Queue -> t :: PullTee -> Script(TYPE PACKET, print \"packet\", return 0)
                -> Unqueue -> Discard;
            t[1] -> Script(TYPE PACKET, print \"copy\", return 0) -> Discard;";
        let mut rig = Rig::with_batch(config, 1);
        rig.push_all("i", &[vec![1], vec![2]]);
        rig.run();
        assert_eq!(rig.printed(), ["copy\n", "packet\n", "copy\n", "packet\n"]);
    }
}
