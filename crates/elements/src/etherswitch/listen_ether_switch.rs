use super::learning::{Aging, FLOOD, Learning, flood, flood_all};
use crate::filters::dispatch::{DROP, send};
use crate::prelude::*;
use crate::standard::tee::copy;

/// Switches Ethernet frames as EtherSwitch does, with one more output that gets all of them.
///
/// The last output gets a copy of every frame, also of frames that go to no other output.
///
/// # Example
/// ```click
/// switch :: ListenEtherSwitch;
/// FromDevice(eth0) -> [0] switch [0] -> Queue -> ToDevice(eth0);
/// FromDevice(eth1) -> [1] switch [1] -> Queue -> ToDevice(eth1);
/// switch [2] -> Print(seen) -> Discard;
/// ```
///
/// # See also
/// EtherSwitch, EtherSpanTree
#[derive(Element)]
#[element(
    ports = "-/=+",
    processing = "h",
    flow = "#/[^#]",
    is_a("EtherSwitch"),
    provides(Aging)
)]
pub struct ListenEtherSwitch {
    #[flatten]
    learning: Learning,
}

impl Aging for ListenEtherSwitch {
    fn set_aging(&mut self, nanoseconds: Option<u64>) {
        self.learning.aging = nanoseconds;
    }
}

impl Element for ListenEtherSwitch {
    fn configured(&mut self, _cx: &mut Cx<'_>, _args: &mut Args<'_>) -> Result<(), Failed> {
        self.learning.configured();
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, source: usize, batch: &mut Batch) -> usize {
        let outputs = self.learning.outputs(cx, source, batch);
        let listen = cx.outputs().saturating_sub(1);
        if outputs.flooded == 0 {
            copy(cx, listen, batch);
            return send(cx, batch, &outputs.of);
        }
        if outputs.flooded == first(batch.len()) {
            return flood_all(cx, source, batch);
        }
        for (packet, output) in batch.drain().zip(outputs.of) {
            match output {
                FLOOD => flood(cx, source, packet),
                DROP => cx.emit(listen, packet),
                port => {
                    if let Some(copy) = cx.pool().clone(&packet) {
                        cx.emit(listen, copy);
                    }
                    cx.emit(port as usize, packet);
                }
            }
        }
        source
    }
}

#[cfg(test)]
mod tests {
    use crate::etherswitch::ether_switch::tests::{frame, left};
    use crate::testing::*;

    #[test]
    fn a_listener_sees_every_frame() {
        let mut rig = Rig::with_batch(
            "i0 :: Inject -> [0] s :: ListenEtherSwitch; i1 :: Inject -> [1] s;
             s[0] -> Paint(0) -> q :: Collect; s[1] -> Paint(1) -> q; s[2] -> Paint(2) -> q;",
            1,
        );
        rig.push("i0", &frame(4, 2, 1));
        assert_eq!(left(&mut rig), [(2, 1), (1, 1)]);
        rig.push("i1", &frame(2, 4, 2));
        assert_eq!(left(&mut rig), [(2, 2), (0, 2)]);
        rig.push("i1", &frame(4, 6, 3));
        assert_eq!(left(&mut rig), [(2, 3)]);
        rig.push("i1", &[9; 13]);
        assert_eq!(rig.collected("q")[0].paint(), 2);
    }
}
