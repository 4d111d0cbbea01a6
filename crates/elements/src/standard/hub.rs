use super::tee::copy;
use crate::prelude::*;

/// Sends packets to every output but the one whose number is that of their input.
///
/// The last of those outputs gets the packet itself, the others get copies.
///
/// # Example
/// ```click
/// h :: Hub;
/// FromDump(left.pcap) -> [0] h [0] -> Discard;
/// FromDump(right.pcap) -> [1] h [1] -> ToDump(left-only.pcap);
/// Idle -> [2] h [2] -> ToDump(both.pcap);
/// ```
///
/// # See also
/// Tee, EtherSwitch
#[derive(Element)]
#[element(ports = "-/=", processing = "h", flow = "#/[^#]", segments)]
pub struct Hub;

/// No output: a hub of one port has no destination.
const NOWHERE: usize = usize::MAX;

impl Element for Hub {
    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) -> usize {
        let outputs = cx.outputs();
        let Some(last) = (0..outputs).rfind(|output| *output != port) else {
            return NOWHERE;
        };
        for output in (0..last).filter(|output| *output != port) {
            copy(cx, output, batch);
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    fn hub(ports: usize, batch: usize) -> Rig {
        let mut config = String::from("h :: Hub;");
        for port in 0..ports {
            config += &format!("i{port} :: Inject -> [{port}] h [{port}] -> c{port} :: Collect;");
        }
        Rig::with_batch(&config, batch)
    }

    #[test]
    fn every_port_but_the_packets_own_gets_it() {
        for batch in [1, 64] {
            let mut rig = hub(4, batch);
            for port in 0..4 {
                let packets = [vec![port], vec![port + 10]];
                rig.push_all(&format!("i{port}"), &packets);
            }
            for port in 0..4 {
                let data = rig.data(&format!("c{port}"));
                let expected = (0..4).filter(|from| *from != port);
                let expected = expected.flat_map(|from| [vec![from], vec![from + 10]]);
                assert!(
                    data.into_iter().eq(expected),
                    "port {port}, batches of {batch}"
                );
            }
            assert_eq!(rig.outstanding(), 0);
        }
    }

    #[test]
    fn a_hub_of_one_port_drops() {
        let mut rig = hub(1, 64);
        rig.push("i0", &[1]);
        assert_eq!((rig.data("c0").len(), rig.outstanding()), (0, 0));
    }
}
