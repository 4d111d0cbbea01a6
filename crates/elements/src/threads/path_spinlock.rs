use crate::prelude::*;

/// Passes packets on unchanged, each by the output of its input's number.
///
/// In FastClick it locks the path behind it, so that one thread at a time is there. Here an element
/// runs on one thread, and packets from others come to it by a ring.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> PathSpinlock -> ToDump(out.pcap);
/// ```
///
/// # See also
/// Null, StaticThreadSched
#[derive(Element)]
#[element(ports = "1-/=", flow = "#/#", segments)]
pub struct PathSpinlock {
    /// Accepted and ignored: the name of a lock.
    #[arg(positional)]
    lock: String,
}

impl Element for PathSpinlock {
    #[inline]
    fn push(&mut self, _cx: &mut Cx<'_>, port: usize, _batch: &mut Batch) -> usize {
        port
    }

    #[inline]
    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, _batch: &mut Batch, most: usize) {
        cx.pull_through(port, most);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn packets_keep_to_their_ports() {
        let mut rig = Rig::new(
            "i :: Inject -> l :: PathSpinlock(lock) -> c :: Collect;
             j :: Inject -> Queue -> [1] l [1] -> p :: Puller;",
        );
        rig.push("i", &[1]);
        rig.push("j", &[2]);
        assert_eq!(rig.data("c"), [[1]]);
        assert_eq!(rig.pull("p", 9)[0].data(), [2]);
    }
}
