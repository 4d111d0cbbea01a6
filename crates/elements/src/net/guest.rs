//! The host's element classes as a guest sees them: devices under Click's names, and a reason for
//! each class that cannot be there.

use router::ClassEntry;
use router::args::{Args, Argument, Context, Invalid};

mod from_device;
mod to_device;

use from_device::FromDevice;
use to_device::ToDevice;

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
#[derive(Clone, Copy, Default)]
struct Given(bool);

impl Argument for Given {
    fn parse(_: &str, _: &Context<'_>) -> Result<Self, Invalid> {
        Ok(Given(true))
    }
}

/// Warns of arguments that say how the host's kernel is to be used.
fn warn_of(args: &Args<'_>, given: &[(&str, Given)]) {
    for (name, _) in given.iter().filter(|(_, given)| given.0) {
        args.warning(format_args!("{name} has no meaning in a guest; ignored"));
    }
}
