use core::net::Ipv4Addr;

use packet::wire::{ArpMessage, ArpOperation, EtherAddress};
use router::args::{Args, Failed};
use router::{Class, Cx, Declared, Element, TimerId};

use super::arp_responder::{ARP_FRAME, write_arp};

/// When the first reply goes, in nanoseconds.
const FIRST: u64 = 1_000_000_000;
/// Between two replies.
const INTERVAL: u64 = 10_000_000_000;

/// Sends an ARP reply that nobody asked for, every ten seconds.
///
/// The reply says that `SRCIP` is at `SRCETH`. ARPResponder is what answers questions.
///
/// # Arguments
/// - `DSTIP` (IP address), `DSTETH` (Ethernet address): whom the reply goes to.
/// - `SRCIP` (IP address), `SRCETH` (Ethernet address): what it says.
///
/// # Ports
/// No input; one push output.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// ARPFaker(18.26.4.1, 0:e0:2b:b:1a:0, 18.26.4.99, 0:a0:c9:9c:fd:9c)
///     -> Queue -> ToDevice(eth0);
/// ```
///
/// # See also
/// ARPResponder, ARPQuerier, ARPPrint
pub struct ARPFaker {
    reply: ArpMessage,
    timer: Option<TimerId>,
}

impl Default for ARPFaker {
    fn default() -> Self {
        let nobody = (EtherAddress::ZERO, Ipv4Addr::UNSPECIFIED);
        ARPFaker {
            reply: ArpMessage {
                operation: ArpOperation::REPLY,
                ..ArpMessage::request(nobody.0, nobody.1, nobody.1)
            },
            timer: None,
        }
    }
}

impl Class for ARPFaker {
    const NAME: &'static str = "ARPFaker";
    const PORTS: &'static str = "0/1";
    const PROCESSING: &'static str = "h";
}

impl Declared for ARPFaker {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let reply = &mut self.reply;
        args.mandatory_positional("DSTIP", &mut reply.target)
            .mandatory_positional("DSTETH", &mut reply.target_hardware)
            .mandatory_positional("SRCIP", &mut reply.sender)
            .mandatory_positional("SRCETH", &mut reply.sender_hardware)
            .complete()
    }
}

impl Element for ARPFaker {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let timer = cx.timer();
        cx.schedule_after(timer, FIRST);
        self.timer = Some(timer);
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        if let Some(mut packet) = cx.pool().packet(packet::HEADROOM, ARP_FRAME) {
            packet.data_mut().fill(0);
            write_arp(&mut packet, self.reply.target_hardware, &self.reply);
            cx.emit(0, packet);
        }
        cx.schedule_after(timer, INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn replies_come_every_ten_seconds() {
        let config = "ARPFaker(1.0.0.1, 1:1:1:1:1:1, 2.0.0.2, 2:2:2:2:2:2) -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.advance(999_000_000);
        assert!(rig.data("c").is_empty());
        rig.advance(20_500_000_000);
        let reply = [
            &[1; 6][..],
            &[2; 6],
            &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2],
            &[2; 6],
            &[2, 0, 0, 2],
            &[1; 6],
            &[1, 0, 0, 1],
        ]
        .concat();
        assert_eq!(rig.data("c"), [&reply[..]; 3]);
    }

    #[test]
    fn all_arguments_are_needed() {
        let errors = Rig::errors("ARPFaker(1.0.0.1, 1:1:1:1:1:1) -> Collect;");
        assert!(errors.contains("SRCETH: required argument missing"), "{errors}");
    }
}
