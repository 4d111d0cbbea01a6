//! The switch's own elements: where frames come into a configuration and where they leave it.

use packet::Batch;
use router::args::{Args, Failed};
use router::{Class, ClassEntry, Cx, DeviceId, Element, HandlerError, HandlerList, Side};

/// The classes that a configuration in a switch has besides a guest's.
pub static CLASSES: &[ClassEntry] = &[ClassEntry::of::<FromPort>(), ClassEntry::of::<ToPort>()];

/// Gives out the frames that came from a port of the switch.
///
/// For configurations that say where a switch's frames go (`weir switch set --lookup click`) only.
///
/// # Arguments
/// - `PORT`: the port's name, or `*` for every port that no other FromPort names.
///
/// # Ports
/// One output, push.
///
/// # Handlers
/// - `port` (read): the name.
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
#[derive(Default)]
pub struct FromPort {
    port: String,
}

impl FromPort {
    /// The port's name.
    pub fn port(&self) -> String {
        self.port.clone()
    }
}

impl Class for FromPort {
    const NAME: &'static str = "FromPort";
    const PORTS: &'static str = "0/1";
    const PROCESSING: &'static str = "h/h";
}

impl Element for FromPort {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        args.mandatory_positional("PORT", &mut self.port).complete()
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read("port");
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "port" => Ok(self.port.clone()),
            _ => Err(HandlerError::Unknown),
        }
    }
}

/// Says that frames go to a port of the switch.
///
/// For configurations that say where a switch's frames go (`weir switch set --lookup click`) only.
///
/// # Arguments
/// - `PORT`: the port's name, or `*` for every port of the domain but the one that the frame came
///   from. A port that is not there gets nothing: the frame is dropped.
///
/// # Ports
/// One input, push.
///
/// # Handlers
/// - `port` (read): the name.
/// - `count` (read): packets that came here.
///
/// # Example
/// ```click
/// FromPort(vm1) -> ToPort(vm2);
/// FromPort(vm2) -> ToPort(vm1);
/// ```
///
/// # See also
/// FromPort
#[derive(Default)]
pub struct ToPort {
    port: String,
    exit: Option<DeviceId>,
    count: u64,
}

impl Class for ToPort {
    const NAME: &'static str = "ToPort";
    const PORTS: &'static str = "1/0";
    const PROCESSING: &'static str = "h/h";
}

impl Element for ToPort {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        args.mandatory_positional("PORT", &mut self.port).complete()
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.exit = cx.device(&self.port, Side::Transmit);
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        self.count += batch.len() as u64;
        if let Some(exit) = self.exit {
            cx.transmit(exit, batch);
        }
        0
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read("port");
        list.read("count");
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "port" => Ok(self.port.clone()),
            "count" => Ok(self.count.to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn take_state(&mut self, _cx: &mut Cx<'_>, old: &mut dyn Element) {
        let old: &mut dyn std::any::Any = old;
        if let Some(old) = old.downcast_mut::<ToPort>() {
            self.count = old.count;
        }
    }
}
