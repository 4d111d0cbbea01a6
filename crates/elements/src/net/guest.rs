//! The host's element classes as a guest sees them: devices under Click's names, and a reason for
//! each class that cannot be there.

use alloc::string::String;

use packet::Batch;
use router::args::{Any, Args, Failed, WordArg};
use router::{Class, ClassEntry, Cx, Declared, Element, HandlerError, HandlerList, Ran, TaskId};

use super::receiver::Receiver;
use super::sender::Sender;
use crate::link_type::LinkType;

const FILES: &str = "works on files: it exists in `weir click`, not in a guest";
const SOCKETS: &str = "works on the host's sockets: it exists in `weir click`, not in a guest";
const HOST: &str = "works on the host's network: it exists in `weir click`, not in a guest";
const TRIAL: &str = "is for trials: it exists in `weir click`, not in a guest";
const TERMINAL: &str = "draws on a terminal: it exists in `weir click`, not in a guest";

pub static CLASSES: &[ClassEntry] = &[
    ClassEntry::of::<FromDevice>(),
    ClassEntry::of::<ToDevice>(),
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
    ClassEntry::refused("Socket", SOCKETS),
    ClassEntry::refused("ToDump", FILES),
    ClassEntry::refused("ToHost", HOST),
    ClassEntry::refused("ToIPFlowDumps", FILES),
    ClassEntry::refused("ToIPSummaryDump", FILES),
    ClassEntry::refused("ToRawSocket", SOCKETS),
    ClassEntry::refused("ToSocket", SOCKETS),
];

/// Whether an argument was given; what it says does not matter.
type Given = Option<String>;

/// Warns of arguments that say how the host's kernel is to be used.
fn warn_of(args: &Args<'_>, given: &[(&str, &Given)]) {
    for (name, _) in given.iter().filter(|(_, given)| given.is_some()) {
        args.warning(format_args!("{name} has no meaning in a guest; ignored"));
    }
}

fn any() -> impl router::args::Parser<Given> {
    |text: &str, context: &router::args::Context<'_>| context.parse_with(Any, text).map(Some)
}

/// FromNetfront under the name and with the arguments of the host's FromDevice.
#[derive(Default)]
pub(super) struct FromDevice(Receiver);

impl FromDevice {
    pub(super) fn is_of(&self, interface: &str) -> bool {
        self.0.interface == interface
    }
}

impl Class for FromDevice {
    const NAME: &'static str = "FromDevice";
    const PORTS: &'static str = "0/1-2";
    const PROCESSING: &'static str = "/h";
    const IS_A: &'static [&'static str] = &["FromNetfront"];
    const SEGMENTS: bool = true;
}

impl Declared for FromDevice {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let [
            mut promisc,
            mut snaplen,
            mut sniffer,
            mut method,
            mut capture,
        ] = [const { None }; 5];
        let [
            mut filter,
            mut protocol,
            mut outbound,
            mut headroom,
            mut encap,
        ] = [const { None }; 5];
        let mut force_ip = false;
        self.0.burst = 64;
        args.mandatory_positional("DEVNAME", &mut self.0.interface)
            .positional_with("PROMISC", any(), &mut promisc)
            .positional_with("SNAPLEN", any(), &mut snaplen)
            .keyword_with("SNIFFER", any(), &mut sniffer)
            .keyword("FORCE_IP", &mut force_ip)
            .keyword_with("METHOD", any(), &mut method)
            .keyword_with("CAPTURE", any(), &mut capture)
            .keyword_with("BPF_FILTER", any(), &mut filter)
            .keyword_with("PROTOCOL", any(), &mut protocol)
            .keyword_with("OUTBOUND", any(), &mut outbound)
            .keyword_with("HEADROOM", any(), &mut headroom)
            .keyword_with("ENCAP", any(), &mut encap)
            .keyword("BURST", &mut self.0.burst)
            .keyword("TIMESTAMP", &mut self.0.timestamp)
            .complete()?;
        warn_of(
            args,
            &[
                ("PROMISC", &promisc),
                ("SNAPLEN", &snaplen),
                ("SNIFFER", &sniffer),
                ("METHOD", &method),
                ("CAPTURE", &capture),
                ("BPF_FILTER", &filter),
                ("PROTOCOL", &protocol),
                ("OUTBOUND", &outbound),
                ("HEADROOM", &headroom),
                ("ENCAP", &encap),
            ],
        );
        if self.0.burst == 0 {
            return Err(args.fail("BURST out of range"));
        }
        self.0.force_ip = force_ip.then_some(LinkType::ETHERNET);
        Ok(())
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read("encap").read("kernel_drops");
        self.0.handlers(list);
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "encap" => Ok(LinkType::ETHERNET.name().into_owned()),
            // The switch counts what found no room in the ring; a guest does not see it.
            "kernel_drops" => Ok("??".into()),
            _ => self.0.read(name),
        }
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<(), HandlerError> {
        self.0.write(name)
    }
}

impl Element for FromDevice {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.0.initialize(cx)
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, _task: TaskId) -> Ran {
        self.0.run_task(cx)
    }
}

/// ToNetfront under the name and with the arguments of the host's ToDevice.
#[derive(Default)]
struct ToDevice(Sender);

impl Class for ToDevice {
    const NAME: &'static str = "ToDevice";
    const PORTS: &'static str = "1/0";
    const PROCESSING: &'static str = "a";
    const IS_A: &'static [&'static str] = &["ToNetfront"];
    const SEGMENTS: bool = true;
}

impl Declared for ToDevice {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let (mut debug, mut method) = (false, String::new());
        self.0.burst = 64;
        args.mandatory_positional("DEVNAME", &mut self.0.interface)
            .keyword("DEBUG", &mut debug)
            .keyword_with("METHOD", WordArg, &mut method)
            .keyword("BURST", &mut self.0.burst)
            .complete()?;
        let method = (!method.is_empty()).then_some(method);
        warn_of(args, &[("METHOD", &method)]);
        if self.0.burst == 0 {
            return Err(args.fail("bad BURST"));
        }
        Ok(())
    }

    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) {
        let old: &mut dyn core::any::Any = old;
        if let Some(old) = old.downcast_mut::<ToDevice>() {
            self.0.take_state(cx, &mut old.0);
        }
    }

    fn handlers(&self, list: &mut HandlerList) {
        self.0.handlers(list);
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        self.0.read(name)
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<(), HandlerError> {
        self.0.write(name)
    }
}

impl Element for ToDevice {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.0.initialize(cx)
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        self.0.cleanup(cx);
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        self.0.push(cx, batch);
        0
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, _task: TaskId) -> Ran {
        self.0.run_task(cx)
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
