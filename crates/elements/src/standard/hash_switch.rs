use crate::filters::dispatch::dispatch;
use crate::prelude::*;

/// Sends packets to outputs by a hash of some of their bytes.
///
/// Packets with the same bytes leave by the same output: a flow stays together. The hash is the sum
/// of the bytes. Packets too short for the bytes leave by output 0.
///
/// # Example
/// ```click
/// // By the IP destination address.
/// h :: HashSwitch(16, 4);
/// FromDump(in.pcap) -> Strip(14) -> h;
/// h[0] -> Discard;
/// h[1] -> Discard;
/// ```
///
/// # See also
/// RoundRobinSwitch, RandomSwitch, StrideSwitch, Switch
#[derive(Element)]
#[element(ports = "1/1-", processing = "h", segments)]
pub struct HashSwitch {
    /// The first of the bytes.
    #[arg(mandatory)]
    offset: u32,
    /// Number of bytes, 1 at least.
    #[arg(mandatory)]
    length: u32,
    /// Number of outputs to choose from, if not all. Packets for an output that is not there are
    /// dropped.
    #[arg(default_text = "number of outputs")]
    max: Option<u32>,
}

impl HashSwitch {
    #[inline]
    fn output(&self, packet: &Packet, outputs: u32) -> u32 {
        let bytes = packet.data().get(self.offset as usize..);
        let Some(bytes) = bytes.and_then(|bytes| bytes.get(..self.length as usize)) else {
            return 0;
        };
        let sum = bytes
            .iter()
            .fold(0u32, |sum, byte| sum.wrapping_add((*byte).into()));
        match outputs {
            2 | 4 | 8 => (sum ^ (sum >> 4)) & (outputs - 1),
            _ => sum % outputs.max(1),
        }
    }
}

impl Element for HashSwitch {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if self.length == 0 {
            return Err(args.fail("length must be > 0"));
        }
        if self.max == Some(0) {
            return Err(args.fail("MAX must be > 0"));
        }
        Ok(())
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        let outputs = self.max.unwrap_or(cx.outputs() as u32);
        dispatch(cx, batch, |packet| self.output(packet, outputs))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    fn hash(outputs: usize, batch: usize) -> Rig {
        let mut config = String::from("i :: Inject -> h :: HashSwitch(1, 2);");
        for output in 0..outputs {
            config += &format!("h[{output}] -> c{output} :: Collect;");
        }
        Rig::with_batch(&config, batch)
    }

    #[test]
    fn outputs_are_those_of_click() {
        // Sums 0, 17, 450, 7 and 37.
        let packets = [[9, 0, 0], [9, 10, 7], [9, 200, 250], [9, 1, 6], [9, 30, 7]];
        for batch in [1, 64] {
            for (outputs, expected) in [
                (1, [0, 0, 0, 0, 0]),
                (2, [0, 0, 0, 1, 1]),
                (3, [0, 2, 0, 1, 1]),
                (4, [0, 0, 2, 3, 3]),
                (8, [0, 0, 6, 7, 7]),
            ] {
                let mut rig = hash(outputs, batch);
                for (packet, output) in packets.iter().zip(expected) {
                    rig.push("i", packet);
                    let data = rig.data(&format!("c{output}"));
                    assert_eq!(data, [*packet], "{outputs} outputs");
                }
            }
        }
    }

    #[test]
    fn max_limits_the_outputs() {
        for (max, expected) in [
            (1, [4, 0, 0]),
            (2, [2, 2, 0]),
            (3, [2, 1, 1]),
            (5, [1, 1, 1]),
        ] {
            let config = format!(
                "i :: Inject -> h :: HashSwitch(0, 1, MAX {max});
                 h[0] -> c0 :: Collect; h[1] -> c1 :: Collect; h[2] -> c2 :: Collect;"
            );
            for batch in [1, 64] {
                let mut rig = Rig::with_batch(&config, batch);
                rig.push_all("i", &[vec![0], vec![1], vec![2], vec![3]]);
                let found = ["c0", "c1", "c2"].map(|name| rig.data(name).len());
                assert_eq!(found, expected, "MAX {max}");
            }
        }
        Rig::refuses(
            "Idle -> HashSwitch(0, 1, MAX 0) -> Discard;",
            "MAX must be > 0",
        );
    }

    #[test]
    fn packets_with_the_same_bytes_stay_together_in_order() {
        let mut rig = hash(3, 64);
        let packets: Vec<Vec<u8>> = (0..60).map(|n| [n, n % 7, 1].to_vec()).collect();
        rig.push_all("i", &packets);
        let all: Vec<_> = (0..3)
            .map(|output| rig.data(&format!("c{output}")))
            .collect();
        assert_eq!(all.iter().map(Vec::len).sum::<usize>(), 60);
        for (output, data) in all.iter().enumerate() {
            assert!(data.windows(2).all(|pair| pair[0][0] < pair[1][0]));
            assert!(
                data.iter()
                    .all(|packet| (packet[1] + 1) as usize % 3 == output)
            );
        }
    }

    #[test]
    fn short_packets_leave_by_output_0() {
        let mut rig = hash(3, 64);
        for data in [&[][..], &[1], &[1, 2]] {
            rig.push("i", data);
        }
        assert_eq!(rig.data("c0").len(), 3);
        let config = "i :: Inject -> h :: HashSwitch(4294967295, 4294967295); h -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.push("i", &[1]);
        assert_eq!(rig.data("c").len(), 1);
        Rig::refuses("Idle -> HashSwitch(0, 0) -> Discard;", "length must be > 0");
    }
}
