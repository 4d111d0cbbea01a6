use packet::Batch;
use router::args::{Args, Failed};
use router::{Class, Cx, Declared, Element};

/// Takes the argument N, which only says how many outputs the user expects.
fn expect_outputs(cx: &Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
    let outputs = cx.outputs();
    let mut n = outputs as u32;
    args.positional("N", &mut n).complete()?;
    if n as usize != outputs {
        return Err(args.fail(format_args!("{outputs} outputs implies {outputs} arms")));
    }
    Ok(())
}

/// Sends a copy of each packet out by output `port`.
#[inline]
pub(super) fn copy(cx: &mut Cx<'_>, port: usize, batch: &Batch) {
    let mut copies = cx.batch();
    for packet in batch.iter() {
        // Where there is no buffer for a copy, this output goes without.
        if let Some(copy) = cx.pool().clone(packet) {
            let _ = copies.push(copy);
        }
    }
    cx.push(port, copies);
}

/// Sends a copy of each packet to every output.
///
/// The last output gets the packet itself, the others copies.
///
/// # Arguments
/// - `N` (integer): number of outputs; only checked against those connected.
///
/// # Ports
/// One push input, one or more push outputs.
///
/// # Handlers
/// None of its own.
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
#[derive(Default)]
pub struct Tee;

impl Class for Tee {
    const NAME: &'static str = "Tee";
    const PORTS: &'static str = "1/1-";
    const PROCESSING: &'static str = "h";
    const SEGMENTS: bool = true;
}

impl Declared for Tee {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        expect_outputs(cx, args)
    }
}

impl Element for Tee {
    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        let last = cx.outputs() - 1;
        for port in 0..last {
            copy(cx, port, batch);
        }
        last
    }
}

/// Sends a copy of each packet that is pulled to every other output.
///
/// # Arguments
/// - `N` (integer): number of outputs; only checked against those connected.
///
/// # Ports
/// One pull input. Output 0 is pull; the others are push, and get the copies.
///
/// # Handlers
/// None of its own.
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
#[derive(Default)]
pub struct PullTee;

impl Class for PullTee {
    const NAME: &'static str = "PullTee";
    const PORTS: &'static str = "1/1-";
    const PROCESSING: &'static str = "l/lh";
    const SEGMENTS: bool = true;
}

impl Declared for PullTee {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        expect_outputs(cx, args)
    }
}

impl Element for PullTee {
    #[inline]
    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        cx.pull(0, batch, most);
        for port in 1..cx.outputs() {
            copy(cx, port, batch);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use crate::testing::Rig;

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
    fn a_pull_sends_copies_to_the_push_outputs() {
        let config = "i :: Inject -> Queue -> t :: PullTee; t -> p :: Puller; t[1] -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.push_all("i", &[vec![1], vec![2], vec![3]]);
        assert_eq!(rig.pull("p", 2).len(), 2);
        assert_eq!(rig.data("c"), [[1], [2]]);
    }

    #[test]
    fn a_wrong_number_of_outputs_is_refused() {
        let errors = Rig::errors("Inject -> t :: Tee(3) -> Collect;");
        assert!(errors.contains("1 outputs implies 1 arms"), "{errors}");
    }
}
