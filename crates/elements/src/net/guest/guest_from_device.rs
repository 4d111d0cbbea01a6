use alloc::borrow::Cow;

use super::super::receiver::{Receiver, Receives};
use super::{Ignored, given, warn_of};
use crate::headers::link_type::LinkType;
use crate::prelude::*;

/// FromNetfront under the name and with the arguments of the host's FromDevice.
#[derive(Element)]
#[element(
    name = "FromDevice",
    ports = "0/1-2",
    processing = "/h",
    is_a("FromNetfront"),
    segments,
    handlers,
    provides(Receives, Addressed, Descriptors)
)]
#[outputs("frames", "with FORCE_IP, frames that are not IP")]
pub struct GuestFromDevice {
    /// The interface's name, as the guest was given it.
    #[arg(mandatory, name = "DEVNAME")]
    interface: String,
    /// Without meaning in a guest.
    #[arg(positional, with = given, kind = "anything")]
    promisc: Ignored,
    /// Without meaning in a guest.
    #[arg(positional, with = given, kind = "anything")]
    snaplen: Ignored,
    /// Without meaning in a guest.
    #[arg(with = given, kind = "anything")]
    sniffer: Ignored,
    /// Whether only IP packets leave by output 0, their network header marked.
    #[arg]
    force_ip: bool,
    /// Without meaning in a guest.
    #[arg(with = given, kind = "anything")]
    method: Ignored,
    /// Without meaning in a guest.
    #[arg(with = given, kind = "anything")]
    capture: Ignored,
    /// Without meaning in a guest.
    #[arg(with = given, kind = "anything")]
    bpf_filter: Ignored,
    /// Without meaning in a guest.
    #[arg(with = given, kind = "anything")]
    protocol: Ignored,
    /// Without meaning in a guest.
    #[arg(with = given, kind = "anything")]
    outbound: Ignored,
    /// Without meaning in a guest.
    #[arg(with = given, kind = "anything")]
    headroom: Ignored,
    /// Without meaning in a guest.
    #[arg(with = given, kind = "anything")]
    encap: Ignored,
    /// Most frames each time it is scheduled.
    #[arg(default = 64)]
    burst: u32,
    /// Whether frames carry the time at which they were received.
    #[arg]
    timestamp: bool,
    #[delegate(configured = complete)]
    receiver: Receiver,
}

#[handlers]
impl GuestFromDevice {
    /// The link type.
    #[read(name = "encap")]
    fn link_type(&self) -> Cow<'static, str> {
        LinkType::ETHERNET.name()
    }

    /// Unknown: the switch counts frames that found no room in the ring.
    #[read]
    fn kernel_drops(&self) -> &'static str {
        "??"
    }
}

impl GuestFromDevice {
    fn complete(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let ignored = [
            ("PROMISC", &self.promisc),
            ("SNAPLEN", &self.snaplen),
            ("SNIFFER", &self.sniffer),
            ("METHOD", &self.method),
            ("CAPTURE", &self.capture),
            ("BPF_FILTER", &self.bpf_filter),
            ("PROTOCOL", &self.protocol),
            ("OUTBOUND", &self.outbound),
            ("HEADROOM", &self.headroom),
            ("ENCAP", &self.encap),
        ];
        warn_of(args, &ignored);
        if self.burst == 0 {
            return Err(args.fail("BURST out of range"));
        }
        self.receiver.interface.clone_from(&self.interface);
        (self.receiver.burst, self.receiver.timestamp) = (self.burst, self.timestamp);
        self.receiver.force_ip = self.force_ip.then_some(LinkType::ETHERNET);
        Ok(())
    }
}
