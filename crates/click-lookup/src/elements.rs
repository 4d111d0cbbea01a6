//! The switch's own elements: where frames come into a configuration and where they leave it.

use packet::Batch;
use router::args::Failed;
use router::{Class, ClassEntry, Cx, DeviceId, Element, Page, Side};

/// The classes that a configuration in a switch has besides a guest's.
pub static CLASSES: &[ClassEntry] = &[ClassEntry::of::<FromPort>(), ClassEntry::of::<ToPort>()];

/// Their manual pages.
pub fn pages() -> Vec<Page> {
    let mut pages = vec![Page::of(FromPort::document), Page::of(ToPort::document)];
    pages.iter_mut().for_each(|page| page.module = "switch");
    pages
}

/// Emits the frames from a port of the switch.
///
/// For configurations that say where a switch's frames go (`weir switch set --lookup click`) only.
///
/// # Example
/// ```click
/// FromPort(*) -> c :: Classifier(12/0806, -);
/// c[0] -> ToPort(*);
/// c[1] -> ToPort(uplink);
/// ```
///
/// # See also
/// ToPort
#[derive(Element)]
#[element(ports = "0/1", processing = "h/h")]
pub struct FromPort {
    /// The port's name, or `*` for every port that no other FromPort names.
    #[arg(mandatory, read)]
    port: String,
}

impl Element for FromPort {}

/// Sends frames to a port of the switch.
///
/// For configurations that say where a switch's frames go (`weir switch set --lookup click`) only.
///
/// # Example
/// ```click
/// FromPort(vm1) -> ToPort(vm2);
/// FromPort(vm2) -> ToPort(vm1);
/// ```
///
/// # See also
/// FromPort
#[derive(Element)]
#[element(ports = "1/0", processing = "h/h")]
pub struct ToPort {
    /// The port's name, or `*` for every port of the domain except the frame's own. A frame to a
    /// port that does not exist is dropped.
    #[arg(mandatory, read)]
    port: String,
    exit: Option<DeviceId>,
    /// Packets that arrived.
    #[handler(read)]
    #[state]
    count: u64,
}

impl Element for ToPort {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let exit = cx.device(&self.port, Side::Transmit);
        self.exit = Some(exit.map_err(|why| cx.error(format_args!("{}: {why}", self.port)))?);
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        self.count += batch.len() as u64;
        if let Some(exit) = self.exit {
            cx.transmit(exit, batch);
        }
        0
    }
}
