//! Dispatch of a batch's packets to several outputs.

use crate::prelude::*;
use simd::{BLOCK, Kernel, Level, Simd};

const _: () = assert!(simd::WIDTH == BATCH);

/// The output of dropped packets: no element has it.
pub const DROP: u32 = crate::classification::NO_OUTPUT;

/// [Dispatches](Cx::dispatch) each packet to the output that `choose` returns. The result is for
/// [`push`](router::Element::push) to return. A batch with one output costs only the choice.
#[inline]
pub fn dispatch(
    cx: &mut Cx<'_>,
    batch: &mut Batch,
    mut choose: impl FnMut(&mut Packet) -> u32,
) -> usize {
    if let [packet] = batch.as_mut_slice() {
        return choose(packet) as usize;
    }
    let mut outputs = [0; BATCH];
    for (packet, output) in batch.iter_mut().zip(&mut outputs) {
        *output = choose(packet);
    }
    send(cx, batch, &outputs)
}

/// As [`dispatch`], with the choices made: `outputs` has one for each packet.
#[inline]
pub fn send(cx: &mut Cx<'_>, batch: &mut Batch, outputs: &[u32; BATCH]) -> usize {
    if batch.len() == 1 {
        return outputs[0] as usize;
    }
    // Nearly always there are few outputs: clearing a set for each packet takes longer than the rest.
    let mut few = OutputSets::<8>::EMPTY;
    if group(outputs, batch.len(), &mut few) {
        return send_sets(cx, batch, few.as_slice());
    }
    let mut sets = OutputSets::<BATCH>::EMPTY;
    group(outputs, batch.len(), &mut sets);
    send_sets(cx, batch, sets.as_slice())
}

/// As [`send`], with the choices by output: each output with a bit for each of its packets, the
/// lowest for the first packet. Every packet is in one set.
#[inline]
pub fn send_sets(cx: &mut Cx<'_>, batch: &mut Batch, sets: &[(u32, u64)]) -> usize {
    match sets {
        [] => 0,
        [(output, _)] => *output as usize,
        _ => cx.dispatch(batch, sets),
    }
}

/// At most `N` outputs, each with a bit for each of its packets.
struct OutputSets<const N: usize> {
    sets: [(u32, u64); N],
    count: usize,
}

impl<const N: usize> OutputSets<N> {
    const EMPTY: OutputSets<N> = OutputSets {
        sets: [(DROP, 0); N],
        count: 0,
    };

    fn as_slice(&self) -> &[(u32, u64)] {
        &self.sets[..self.count.min(N)]
    }
}

/// Groups the first `count` packets by their `outputs`; false if there are more than `N` outputs.
fn group<const N: usize>(outputs: &[u32; BATCH], count: usize, sets: &mut OutputSets<N>) -> bool {
    let kernel = GroupByOutput {
        outputs,
        count,
        sets,
    };
    simd::run(Level::detected(), kernel)
}

struct GroupByOutput<'a, const N: usize> {
    outputs: &'a [u32; BATCH],
    count: usize,
    sets: &'a mut OutputSets<N>,
}

impl<const N: usize> Kernel for GroupByOutput<'_, N> {
    type Output = bool;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> bool {
        let blocks = self.count.div_ceil(BLOCK);
        let mut pending = packet::first(self.count);
        for set in &mut self.sets.sets {
            if pending == 0 {
                break;
            }
            let output = self.outputs[pending.trailing_zeros() as usize % BATCH];
            let same = simd.within(self.outputs, blocks, u32::MAX, output, 0) & pending;
            *set = (output, same);
            self.sets.count += 1;
            pending ^= same;
        }
        pending == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use simd::Level;

    use super::*;

    proptest! {
        #[test]
        fn routes_have_each_packet_once(
            chosen in proptest::collection::vec(prop_oneof![0u32..4, 0u32..70, Just(DROP)], 0..=BATCH),
            rest: u32,
        ) {
            let mut outputs = [rest; BATCH];
            outputs[..chosen.len()].copy_from_slice(&chosen);
            for level in Level::all() {
                let mut sets = OutputSets::<BATCH>::EMPTY;
                let count = chosen.len();
                let all = simd::run(level, GroupByOutput { outputs: &outputs, count, sets: &mut sets });
                prop_assert!(all);
                let mut few = OutputSets::<8>::EMPTY;
                let all = simd::run(level, GroupByOutput { outputs: &outputs, count, sets: &mut few });
                prop_assert_eq!(all, sets.as_slice().len() <= 8);
                prop_assert!(sets.as_slice().starts_with(few.as_slice()));
                for (i, output) in outputs.iter().enumerate() {
                    let with = sets.as_slice().iter().filter(|(_, set)| set >> i & 1 == 1);
                    let with: alloc::vec::Vec<u32> = with.map(|(output, _)| *output).collect();
                    let expected: &[u32] = if i < count { &[*output] } else { &[] };
                    prop_assert_eq!(&with[..], expected);
                }
            }
        }
    }
}
