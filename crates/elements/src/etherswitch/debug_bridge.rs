use super::bpdu::Bpdu;
use crate::prelude::*;

/// Prints a line for each message of the spanning tree protocol, and passes it on.
///
/// The line of a configuration shows its sender and port, the cost of the path to the root, and the
/// root; then its age, maximum age, hello time and forward delay, in 256ths of a second. `TC` is a
/// topology change, `TCA` its acknowledgment; `tc` and `tca` mean that the flag is not set. Numbers
/// are hexadecimal.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> Classifier(14/4242) -> DebugBridge(eth0) -> Discard;
/// ```
///
/// # See also
/// EtherSpanTree, Print
#[derive(Element)]
#[element(ports = "1/1")]
pub struct DebugBridge {
    /// Starts each line.
    #[arg(mandatory)]
    label: String,
}

impl Element for DebugBridge {
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let label = &self.label;
        match Bpdu::parse(packet.data()) {
            Some(message) => cx.chatter(format_args!("{label} {message}")),
            None => cx.chatter(format_args!("{label} ???")),
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use super::super::bpdu::{Bpdu, BridgeId, Configuration, Ticks, Times};
    use crate::testing::*;

    #[test]
    fn messages_are_shown() {
        let configuration = Configuration {
            root: BridgeId(0x8000_0201_0101_0101),
            cost: 19,
            bridge: BridgeId(0xdead_0202_0202_0202),
            port: 0x8002,
            age: Ticks(0x100),
            times: Times {
                max_age: Ticks(0x1400),
                hello: Ticks(0x200),
                forward_delay: Ticks(0xf00),
            },
            topology_change: true,
            acknowledgment: false,
        };
        let mut rig = Rig::new("i :: Inject -> DebugBridge(eth0) -> c :: Collect;");
        for message in [Bpdu::Configuration(configuration), Bpdu::Notification] {
            rig.push("i", &message.to_frame(EtherAddress([2; 6])));
        }
        rig.push("i", &[0; 60]);
        let expected = [
            "eth0 CFG dead020202020202:8002: tca TC  00000013 -> 8000020101010101  \
             a/m/h/d: 100/1400/200/f00",
            "eth0 TCM",
            "eth0 ???",
        ];
        assert_eq!(rig.printed(), expected);
        assert_eq!(rig.collected("c").len(), 3);
    }

    #[test]
    fn a_label_is_needed() {
        Rig::refuses(
            "Inject -> DebugBridge -> Collect;",
            "LABEL: required argument missing",
        );
    }
}
