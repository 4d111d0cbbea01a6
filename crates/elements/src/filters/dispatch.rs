//! Sending the packets of a batch different ways.

use simd::{BLOCK, Kernel, Level, Simd};

use crate::prelude::*;

const _: () = assert!(simd::LANES == BATCH);

/// The output of packets that are to be dropped: no element has it.
pub const DROP: u32 = crate::classification::NO_OUTPUT;

/// Sends each packet by the output that `choose` names: the batch is [dispatched](Cx::dispatch), and what
/// is returned is for [`push`](router::Element::push) to return. A batch that goes one way costs nothing
/// more than the choice.
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
    // Nearly always there are few: to clear room for as many as there are packets takes longer than
    // the rest.
    let mut few = Routes::<8>::EMPTY;
    if sort(outputs, batch.len(), &mut few) {
        return route(cx, batch, few.as_slice());
    }
    let mut routes = Routes::<BATCH>::EMPTY;
    sort(outputs, batch.len(), &mut routes);
    route(cx, batch, routes.as_slice())
}

/// As [`send`], with the choices the other way round: outputs, each with a bit for each packet
/// that goes there, the lowest for the first packet. Every packet has one.
#[inline]
pub fn route(cx: &mut Cx<'_>, batch: &mut Batch, routes: &[(u32, u64)]) -> usize {
    match routes {
        [] => 0,
        [(output, _)] => *output as usize,
        _ => cx.dispatch(batch, routes),
    }
}

/// At most `N` outputs, each with a bit for each packet that goes there.
struct Routes<const N: usize> {
    routes: [(u32, u64); N],
    count: usize,
}

impl<const N: usize> Routes<N> {
    const EMPTY: Routes<N> = Routes {
        routes: [(DROP, 0); N],
        count: 0,
    };

    fn as_slice(&self) -> &[(u32, u64)] {
        &self.routes[..self.count.min(N)]
    }
}

/// Finds the routes that the first `count` of `outputs` make; false if they are more than there is
/// room for.
fn sort<const N: usize>(outputs: &[u32; BATCH], count: usize, routes: &mut Routes<N>) -> bool {
    let kernel = Sort {
        outputs,
        count,
        routes,
    };
    simd::run(Level::detected(), kernel)
}

struct Sort<'a, const N: usize> {
    outputs: &'a [u32; BATCH],
    count: usize,
    routes: &'a mut Routes<N>,
}

impl<const N: usize> Kernel for Sort<'_, N> {
    type Output = bool;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> bool {
        let blocks = self.count.div_ceil(BLOCK);
        let mut pending = packet::first(self.count);
        for route in &mut self.routes.routes {
            if pending == 0 {
                break;
            }
            let output = self.outputs[pending.trailing_zeros() as usize % BATCH];
            let same = simd.within(self.outputs, blocks, u32::MAX, output, 0) & pending;
            *route = (output, same);
            self.routes.count += 1;
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
                let mut routes = Routes::<BATCH>::EMPTY;
                let count = chosen.len();
                let all = simd::run(level, Sort { outputs: &outputs, count, routes: &mut routes });
                prop_assert!(all);
                let mut few = Routes::<8>::EMPTY;
                let all = simd::run(level, Sort { outputs: &outputs, count, routes: &mut few });
                prop_assert_eq!(all, routes.as_slice().len() <= 8);
                prop_assert!(routes.as_slice().starts_with(few.as_slice()));
                for (i, output) in outputs.iter().enumerate() {
                    let with = routes.as_slice().iter().filter(|(_, set)| set >> i & 1 == 1);
                    let with: alloc::vec::Vec<u32> = with.map(|(output, _)| *output).collect();
                    let expected: &[u32] = if i < count { &[*output] } else { &[] };
                    prop_assert_eq!(&with[..], expected);
                }
            }
        }
    }
}
