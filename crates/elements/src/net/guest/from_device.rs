use alloc::string::String;

use router::args::{Args, Failed};
use router::{Cx, Element, Ran, TaskId, handlers};

use super::super::receiver::{Receiver, Receives};
use super::{Given, warn_of};
use crate::link_type::LinkType;

/// FromNetfront under the name and with the arguments of the host's FromDevice.
#[derive(Element)]
#[element(
    ports = "0/1-2",
    processing = "/h",
    is_a("FromNetfront"),
    segments,
    handlers,
    provides(Receives)
)]
pub struct FromDevice {
    /// The interface's name, as the guest was given it.
    #[arg(mandatory, name = "DEVNAME")]
    interface: String,
    /// Without meaning in a guest.
    #[arg(positional)]
    promisc: Given,
    /// Without meaning in a guest.
    #[arg(positional)]
    snaplen: Given,
    /// Without meaning in a guest.
    #[arg]
    sniffer: Given,
    /// Whether only IP packets leave by output 0.
    #[arg]
    force_ip: bool,
    /// Without meaning in a guest.
    #[arg]
    method: Given,
    /// Without meaning in a guest.
    #[arg]
    capture: Given,
    /// Without meaning in a guest.
    #[arg]
    bpf_filter: Given,
    /// Without meaning in a guest.
    #[arg]
    protocol: Given,
    /// Without meaning in a guest.
    #[arg]
    outbound: Given,
    /// Without meaning in a guest.
    #[arg]
    headroom: Given,
    /// Without meaning in a guest.
    #[arg(name = "ENCAP")]
    encap_given: Given,
    /// Most frames each time it is scheduled.
    #[arg(default = 64)]
    burst: u32,
    #[flatten]
    receiver: Receiver,
}

impl Receives for FromDevice {
    fn interface(&self) -> &str {
        &self.interface
    }
}

#[handlers]
impl FromDevice {
    /// What the frames begin with: `ETHER`.
    #[read]
    fn encap(&self) -> String {
        LinkType::ETHERNET.name().into_owned()
    }

    /// Not known: the switch counts what found no room in the ring.
    #[read]
    fn kernel_drops(&self) -> &'static str {
        "??"
    }
}

impl Element for FromDevice {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        warn_of(
            args,
            &[
                ("PROMISC", self.promisc),
                ("SNAPLEN", self.snaplen),
                ("SNIFFER", self.sniffer),
                ("METHOD", self.method),
                ("CAPTURE", self.capture),
                ("BPF_FILTER", self.bpf_filter),
                ("PROTOCOL", self.protocol),
                ("OUTBOUND", self.outbound),
                ("HEADROOM", self.headroom),
                ("ENCAP", self.encap_given),
            ],
        );
        if self.burst == 0 {
            return Err(args.fail("BURST out of range"));
        }
        self.receiver.interface = self.interface.clone();
        self.receiver.burst = self.burst;
        self.receiver.force_ip = self.force_ip.then_some(LinkType::ETHERNET);
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.receiver.initialize(cx)
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, _task: TaskId) -> Ran {
        self.receiver.run_task(cx)
    }
}
