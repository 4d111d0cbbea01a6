use crate::prelude::*;

/// Drops packets that are pushed into it, and never has packets to be pulled.
///
/// Connects unused ports: its inputs and outputs can be push or pull.
///
/// # Example
/// ```click
/// c :: Classifier(12/0800, -);
/// FromDump(in.pcap) -> c;
/// c[0] -> ToDump(ip.pcap);
/// c[1] -> Idle;
/// ```
///
/// # See also
/// Discard, Null
#[derive(Element)]
#[element(ports = "-/-", flow = "x/y", segments)]
pub struct Idle;

impl Element for Idle {
    fn configured(&mut self, cx: &mut Cx<'_>, _args: &mut Args<'_>) -> Result<(), Failed> {
        cx.never_notifies();
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        cx.pool().recycle(batch);
        0
    }

    fn pull(&mut self, _cx: &mut Cx<'_>, _port: usize, _batch: &mut Batch, _most: usize) {}
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn packets_are_dropped_and_pullers_sleep() {
        let config = "i :: Inject -> n :: Idle -> c :: Collect; n[1] -> u :: Unqueue -> c;";
        let mut rig = Rig::new(config);
        rig.push("i", &[1]);
        rig.run();
        assert_eq!((rig.collected("c").len(), rig.outstanding()), (0, 0));
        assert_eq!(rig.read("u.scheduled"), "false");
    }
}
