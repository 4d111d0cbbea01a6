//! Sending the packets of a batch different ways.

use packet::{BATCH, Batch, Packet};
use router::Cx;

/// The output of packets that are to be dropped: no element has it.
pub const DROP: u32 = crate::classification::NO_OUTPUT;

/// Sends each packet by the output that `choose` names. Those for the most common output stay in
/// the batch, in order, and that output is returned, for [`push`](router::Element::push) to
/// return; the others are emitted. A batch that goes one way costs nothing more than the choice.
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
    let chosen = &outputs[..batch.len().min(BATCH)];
    let [first, rest @ ..] = chosen else {
        return 0;
    };
    if rest.iter().all(|output| output == first) {
        return *first as usize;
    }
    split(cx, batch, chosen)
}

/// As [`send`], with the choices the other way round: outputs, each with a bit for each packet
/// that goes there, the lowest for the first packet. Every packet has one.
#[inline]
pub fn route(cx: &mut Cx<'_>, batch: &mut Batch, routes: &[(u32, u64)]) -> usize {
    match routes {
        [] => 0,
        [(output, _)] => *output as usize,
        [a, b] if a.1.count_ones() < b.1.count_ones() => route_apart(cx, batch, b.0, *a),
        [a, b] => route_apart(cx, batch, a.0, *b),
        _ => {
            let mut outputs = [DROP; BATCH];
            for &(output, bits) in routes {
                let mut left = bits;
                while left != 0 {
                    outputs[left.trailing_zeros() as usize % BATCH] = output;
                    left &= left - 1;
                }
            }
            send(cx, batch, &outputs)
        }
    }
}

/// The packets with a bit go elsewhere than by the output at which the others `stay`.
fn route_apart(cx: &mut Cx<'_>, batch: &mut Batch, stay: u32, (output, bits): (u32, u64)) -> usize {
    let mut others = cx.batch();
    batch.pick(bits, &mut others);
    match output {
        // Giving back a batch as a whole drops what is in it.
        DROP => cx.done(others),
        _ => cx.push(output as usize, others),
    }
    stay as usize
}

fn split(cx: &mut Cx<'_>, batch: &mut Batch, outputs: &[u32]) -> usize {
    let common = majority(outputs);
    batch.filter(
        &mut (cx, outputs.iter()),
        |(_, outputs), _| outputs.next().copied().filter(|output| *output != common),
        |(cx, _), packet, output| match output {
            DROP => cx.kill(packet),
            output => cx.emit(output as usize, packet),
        },
    );
    common as usize
}

/// The output that more than half of the packets go to, if there is one; else some output. (Boyer
/// and Moore's vote.)
fn majority(outputs: &[u32]) -> u32 {
    let (mut candidate, mut votes) = (DROP, 0);
    for &output in outputs {
        if votes == 0 {
            candidate = output;
        }
        if output == candidate {
            votes += 1;
        } else {
            votes -= 1;
        }
    }
    candidate
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn the_majority_is_found() {
        assert_eq!(majority(&[1, 2, 2, 1, 2]), 2);
        assert_eq!(majority(&[7]), 7);
        assert_eq!(majority(&[DROP, DROP, 1]), DROP);
        let mixed: Vec<u32> = (0..64).map(|i| if i % 3 == 0 { i } else { 5 }).collect();
        assert_eq!(majority(&mixed), 5);
    }
}
