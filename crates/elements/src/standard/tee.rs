use crate::prelude::*;

/// Sends a copy of each packet out by output `port`.
#[inline]
pub(crate) fn copy(cx: &mut Cx<'_>, port: usize, batch: &Batch) {
    let mut copies = cx.batch();
    cx.pool().clone_all(batch, &mut copies);
    cx.push(port, copies);
}

/// Sends copies to every output. The argument N only says how many outputs the user expects.
#[derive(Component)]
pub(super) struct Arms {
    /// Number of outputs; only checked against those connected.
    #[arg(positional)]
    n: Option<u32>,
}

impl Arms {
    pub fn check(&self, outputs: usize, args: &Args<'_>) -> Result<(), Failed> {
        if self.n.is_some_and(|n| n as usize != outputs) {
            return Err(args.fail(format_args!("{outputs} outputs implies {outputs} arms")));
        }
        Ok(())
    }
}

impl Element for Arms {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.check(cx.outputs(), args)
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        let last = cx.outputs() - 1;
        for port in 0..last {
            copy(cx, port, batch);
        }
        last
    }
}

/// Sends a copy of each packet to every output.
///
/// The last output gets the packet itself, the others copies.
///
/// # Example
/// ```click
/// t :: Tee;
/// InfiniteSource(LIMIT 10) -> t;
/// t[0] -> Discard;
/// t[1] -> Print(copy) -> Discard;
/// ```
///
/// # See also
/// PullTee, PaintTee
#[derive(Element)]
#[element(ports = "1/1-", processing = "h", segments)]
pub struct Tee {
    #[delegate]
    arms: Arms,
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn every_output_gets_each_packet_with_its_annotations() {
        let config = "i :: Inject -> t :: Tee(2); t[0] -> a :: Collect; t[1] -> b :: Collect;";
        for batch in [1, 64] {
            let mut rig = Rig::with_batch(config, batch);
            rig.push_with("i", &[1, 2], |packet| packet.set_paint(7));
            rig.push("i", &[3]);
            for name in ["a", "b"] {
                let packets = rig.collected(name);
                assert_eq!(packets[0].data(), [1, 2]);
                assert_eq!(packets[0].paint(), 7);
                assert_eq!(packets[1].data(), [3]);
            }
            assert_eq!(rig.outstanding(), 0);
        }
    }

    #[test]
    fn a_wrong_number_of_outputs_is_refused() {
        Rig::refuses(
            "Inject -> t :: Tee(3) -> Collect;",
            "1 outputs implies 1 arms",
        );
    }
}
