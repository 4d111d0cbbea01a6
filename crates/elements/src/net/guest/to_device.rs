use alloc::string::String;

use packet::Batch;
use router::args::{Args, Failed};
use router::{Cx, Element, Ran, TaskId};

use super::super::sender::Sender;
use super::{Given, warn_of};

/// ToNetfront under the name and with the arguments of the host's ToDevice.
#[derive(Element)]
#[element(
    ports = "1/0",
    processing = "a",
    is_a("ToNetfront"),
    segments,
    take_over
)]
pub struct ToDevice {
    /// The interface's name, as the guest was given it.
    #[arg(mandatory, name = "DEVNAME")]
    interface: String,
    /// Accepted, without effect.
    #[arg]
    debug: bool,
    /// Without meaning in a guest.
    #[arg]
    method: Given,
    /// Most frames pulled each time it is scheduled.
    #[arg(default = 64)]
    burst: u32,
    #[flatten]
    sender: Sender,
}

impl ToDevice {
    fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut ToDevice) {
        self.sender.take_over(cx, &mut old.sender);
    }
}

impl Element for ToDevice {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        warn_of(args, &[("METHOD", self.method)]);
        if self.burst == 0 {
            return Err(args.fail("bad BURST"));
        }
        self.sender.interface = self.interface.clone();
        self.sender.burst = self.burst;
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.sender.initialize(cx)
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        self.sender.cleanup(cx);
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        self.sender.push(cx, batch);
        0
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, _task: TaskId) -> Ran {
        self.sender.run_task(cx)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Cable, Rig, ether, udp};

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

    #[test]
    fn a_configuration_written_for_a_host_runs_unchanged() {
        let (a, b) = (Cable::new(MAC), Cable::new([2; 6]));
        b.make_room(10);
        let config = "FromDevice(a, SNIFFER false, PROMISC true, BURST 8) -> Queue
            -> t :: ToDevice(b, METHOD LINUX);";
        let mut rig = Rig::in_guest(config, &[("a", &a), ("b", &b)]).unwrap();
        a.arrive(&[5; 60]);
        rig.run();
        assert_eq!(b.sent(), [[5; 60]]);
        let warnings = rig.printed().join("\n");
        for name in ["PROMISC", "SNIFFER", "METHOD"] {
            let warning = std::format!("{name} has no meaning in a guest; ignored");
            assert!(warnings.contains(&warning), "{warnings}");
        }
        assert!(!warnings.contains("OUTBOUND"), "{warnings}");
    }

    #[test]
    fn force_ip_sorts_out_what_is_not_ip() {
        let a = Cable::new(MAC);
        let config = "f :: FromDevice(a, FORCE_IP true) -> c :: Collect; f[1] -> o :: Collect;";
        let mut rig = Rig::in_guest(config, &[("a", &a)]).unwrap();
        let ip = udp(([1, 0, 0, 1].into(), 1), ([2, 0, 0, 2].into(), 2), &[0; 20]);
        a.arrive(&ether(MAC, [2; 6], 0x800, &ip));
        a.arrive(&ether(MAC, [2; 6], 0x806, &ip));
        rig.run();
        assert_eq!(rig.collected("c")[0].network_offset(), Some(14));
        assert_eq!(rig.collected("o").len(), 1);
        assert_eq!(rig.read("f.encap"), "ETHER");
    }

    #[test]
    fn classes_that_need_a_host_are_refused_with_a_reason() {
        let errors = Rig::in_guest("Idle -> d :: ToDump(x.pcap);", &[]);
        let errors = errors.err().unwrap();
        assert!(
            errors.contains(
                "'d :: ToDump': works on files: it exists in `weir click`, not in a guest"
            ),
            "{errors}"
        );
        assert!(!errors.contains("unknown"), "{errors}");
    }
}
