use super::super::sender::Sender;
use super::{Ignored, warn_of};
use crate::prelude::*;

/// ToNetfront under the name and with the arguments of the host's ToDevice.
#[derive(Element)]
#[element(
    name = "ToDevice",
    ports = "1/0",
    processing = "a",
    is_a("ToNetfront"),
    segments,
    take_over,
    provides(Addressed)
)]
pub struct GuestToDevice {
    /// The interface's name, as the guest was given it.
    #[arg(mandatory, name = "DEVNAME")]
    interface: String,
    /// Without meaning in a guest.
    #[arg]
    debug: bool,
    /// Without meaning in a guest.
    #[arg(with = word, kind = "word")]
    method: Ignored,
    /// Most frames pulled each time it is scheduled.
    #[arg(default = 64)]
    burst: u32,
    #[delegate(configured = complete)]
    sender: Sender,
}

fn word(text: &str, context: &Context<'_>) -> Result<Ignored, Invalid> {
    WordArg.parse(text, context).map(Some)
}

impl GuestToDevice {
    fn complete(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        warn_of(args, &[("METHOD", &self.method)]);
        if self.burst == 0 {
            return Err(args.fail("bad BURST"));
        }
        self.sender.interface.clone_from(&self.interface);
        self.sender.burst = self.burst;
        Ok(())
    }
}
