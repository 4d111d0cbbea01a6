use super::arp_responder::{ARP_FRAME, write_arp};
use crate::prelude::*;

/// When the first reply goes, in nanoseconds.
const FIRST: u64 = 1_000_000_000;
/// Between two replies.
const INTERVAL: u64 = 10_000_000_000;

/// Sends an unsolicited ARP reply every ten seconds.
///
/// The reply says that SRCIP is at SRCETH. ARPResponder answers requests.
///
/// # Example
/// ```click
/// ARPFaker(18.26.4.1, 0:e0:2b:b:1a:0, 18.26.4.99, 0:a0:c9:9c:fd:9c)
///     -> Queue -> ToDevice(eth0);
/// ```
///
/// # See also
/// ARPResponder, ARPQuerier, ARPPrint
#[derive(Element)]
#[element(ports = "0/1", processing = "h")]
pub struct ARPFaker {
    /// The IP address that the reply goes to.
    #[arg(mandatory, name = "DSTIP")]
    target: Ipv4Addr,
    /// Its Ethernet address.
    #[arg(mandatory, name = "DSTETH")]
    target_hardware: EtherAddress,
    /// The IP address that the reply announces.
    #[arg(mandatory, name = "SRCIP")]
    sender: Ipv4Addr,
    /// Its Ethernet address.
    #[arg(mandatory, name = "SRCETH")]
    sender_hardware: EtherAddress,
}

impl Element for ARPFaker {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let timer = cx.timer();
        cx.schedule_after(timer, FIRST);
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        if let Some(mut packet) = cx.pool().packet(packet::HEADROOM, ARP_FRAME) {
            packet.data_mut().fill(0);
            let reply = ArpMessage {
                operation: ArpOperation::REPLY,
                sender_hardware: self.sender_hardware,
                sender: self.sender,
                target_hardware: self.target_hardware,
                target: self.target,
            };
            write_arp(&mut packet, self.target_hardware, &reply);
            cx.emit(0, packet);
        }
        cx.schedule_after(timer, INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

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
        Rig::refuses(
            "ARPFaker(1.0.0.1, 1:1:1:1:1:1) -> Collect;",
            "SRCETH: required argument missing",
        );
    }
}
