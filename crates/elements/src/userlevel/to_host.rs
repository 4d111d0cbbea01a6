use rustix::io::Errno;

use super::from_host::HostInterface;
use super::host_device::HostDevice;
use crate::prelude::*;

/// Sends Ethernet frames to the host by the interface of a FromHost.
///
/// # Example
/// ```click
/// FromHost(fake0, 192.0.2.1/24) -> EtherMirror -> ToHost(fake0);
/// ```
///
/// # See also
/// FromHost, KernelTap
#[derive(Element)]
#[element(ports = "1/0", processing = "h", phase = phase::DEFAULT + 1)]
pub struct ToHost {
    /// The interface, as the FromHost names it.
    #[arg(mandatory, name = "DEVNAME", read, handler = "dev_name")]
    name: String,
    device: Option<HostDevice>,
    /// Frames that the kernel refused.
    #[handler(read)]
    drops: u64,
    /// Why the last frame that was refused was.
    refused: Option<Errno>,
}

impl Element for ToHost {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        for id in (0..cx.graph().elements.len()).map(ElementId::new) {
            let other = cx.link::<dyn HostInterface>(id);
            let device = other.and_then(|other| cx.view(other)?.device(&self.name));
            if device.is_some() {
                self.device = device;
                return Ok(());
            }
        }
        let name = &self.name;
        Err(cx.error(format_args!(
            "ToHost({name}) requires an initialized FromHost with the same dev_name"
        )))
    }

    fn cleanup(&mut self, _cx: &mut Cx<'_>) {
        self.device = None;
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        for packet in batch.drain() {
            match &self.device {
                Some(_) if packet.len() < 14 => cx.chatter("ToHost: packet too small"),
                Some(device) => {
                    if let Err(errno) = device.send(packet.data()) {
                        self.drops += 1;
                        if self.refused.replace(errno) != Some(errno) {
                            let (name, reason) = (&self.name, super::os_error(&errno.into()));
                            cx.chatter(format_args!("ToHost({name}): write failed: {reason}"));
                        }
                    }
                }
                None => {}
            }
            cx.kill(packet);
        }
        0
    }
}
