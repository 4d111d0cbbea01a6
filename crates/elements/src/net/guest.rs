//! The host's element classes as a guest sees them: devices under Click's names, and a reason for
//! each class that cannot be there.

mod guest_from_device;
mod guest_to_device;

use guest_from_device::GuestFromDevice;
use guest_to_device::GuestToDevice;

use crate::prelude::*;

const FILES: &str = "works on files: it exists in `weir click`, not in a guest";
const SOCKETS: &str = "works on the host's sockets: it exists in `weir click`, not in a guest";
const HOST: &str = "works on the host's network: it exists in `weir click`, not in a guest";
const TRIAL: &str = "is for trials: it exists in `weir click`, not in a guest";
const TERMINAL: &str = "draws on a terminal: it exists in `weir click`, not in a guest";

pub static CLASSES: &[ClassEntry] = &[
    ClassEntry::of::<GuestFromDevice>(),
    ClassEntry::of::<GuestToDevice>(),
    ClassEntry::refused("BlockThread", TRIAL),
    ClassEntry::refused("ChatterSocket", SOCKETS),
    ClassEntry::refused(
        "ControlSocket",
        "works on the host's sockets: a guest's handlers are reached through the control store",
    ),
    ClassEntry::refused("FromDump", FILES),
    ClassEntry::refused("FromHost", HOST),
    ClassEntry::refused("FromIPSummaryDump", FILES),
    ClassEntry::refused("FromNetFlowSummaryDump", FILES),
    ClassEntry::refused("FromRawSocket", SOCKETS),
    ClassEntry::refused("FromSocket", SOCKETS),
    ClassEntry::refused("IPFlowRawSockets", SOCKETS),
    ClassEntry::refused("KernelTap", HOST),
    ClassEntry::refused("KernelTun", HOST),
    ClassEntry::refused("MTDieTest", TRIAL),
    ClassEntry::refused("McastSocket", SOCKETS),
    ClassEntry::refused("NotifierDebug", TRIAL),
    ClassEntry::refused("ProgressBar", TERMINAL),
    ClassEntry::refused("RandomSeed", TRIAL),
    ClassEntry::refused("RawSocket", SOCKETS),
    ClassEntry::refused("SchedOrderTest", TRIAL),
    ClassEntry::refused("Socket", SOCKETS),
    ClassEntry::refused("ToDump", FILES),
    ClassEntry::refused("ToHost", HOST),
    ClassEntry::refused("ToIPFlowDumps", FILES),
    ClassEntry::refused("ToIPSummaryDump", FILES),
    ClassEntry::refused("ToRawSocket", SOCKETS),
    ClassEntry::refused("ToSocket", SOCKETS),
];

/// Whether an argument was given; its value does not matter.
pub(super) type Ignored = Option<String>;

/// Takes any value.
pub(super) fn given(text: &str, context: &Context<'_>) -> Result<Ignored, Invalid> {
    Any.parse(text, context).map(Some)
}

/// Warns of arguments that say how the host's kernel is to be used.
pub(super) fn warn_of(args: &Args<'_>, all: &[(&str, &Ignored)]) {
    for (name, _) in all.iter().filter(|(_, given)| given.is_some()) {
        args.warning(format_args!("{name} has no meaning in a guest; ignored"));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

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
        assert_contains(
            &errors,
            "'d :: ToDump': works on files: it exists in `weir click`, not in a guest",
        );
        assert!(!errors.contains("unknown"), "{errors}");
    }
}
