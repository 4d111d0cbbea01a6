use super::kernel::Kernel;
use crate::prelude::*;

/// Exchanges Ethernet frames with the host by a TAP interface.
///
/// As KernelTun, with Ethernet headers. The host resolves addresses of its network by ARP, which
/// the configuration has to answer. It accepts only frames for the interface's Ethernet address,
/// which ETHER sets.
///
/// # Example
/// ```click
/// tap :: KernelTap(192.0.2.1/24) -> c :: Classifier(12/0806, 12/0800);
/// c[0] -> ARPResponder(0.0.0.0/0 1:1:1:1:1:1) -> tap;
/// c[1] -> IPPrint -> Discard;
/// ```
///
/// # See also
/// KernelTun, FromHost, ToHost
#[derive(Element)]
#[element(
    ports = "0-1/1-2",
    processing = "a/h",
    flow = "x/y",
    phase = phase::PRIVILEGED - 1,
    is_a("KernelTun"),
    provides(Descriptors)
)]
#[inputs("frames to the host")]
#[outputs("frames from the host", "nothing")]
pub struct KernelTap {
    /// If false, it is a TUN interface, as KernelTun's.
    #[arg(default = true)]
    tap: bool,
    #[delegate(configured = complete)]
    kernel: Kernel,
}

impl KernelTap {
    fn complete(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.kernel.complete(args, "KernelTap", self.tap)
    }
}
