//! The runtime, which outlives a router that is replaced: the embedding, the packet pool, open
//! devices.

use packet::Pool;

use crate::embedding::{Device, Embedding, Endpoint, Side, Steady};
use crate::prelude::*;

/// What outlives a router when another replaces it.
pub struct Runtime {
    /// The program around the router.
    pub embedding: Box<dyn Embedding>,
    /// Where packets come from.
    pub pool: Pool,
    /// Sides of devices that are open.
    pub(crate) devices: Devices,
}

impl Runtime {
    /// A runtime in `embedding`, with packets from `pool`.
    pub fn new(embedding: Box<dyn Embedding>, pool: Pool) -> Runtime {
        Runtime {
            embedding,
            pool,
            devices: Devices::default(),
        }
    }

    /// A placeholder for a runtime that was moved elsewhere.
    pub(crate) fn placeholder() -> Runtime {
        Runtime::new(Box::new(NoEmbedding), Pool::heap(0))
    }

    /// Moves the runtime out, leaving a placeholder.
    pub(crate) fn take(&mut self) -> Runtime {
        core::mem::replace(self, Runtime::placeholder())
    }

    /// Opens a side of the device called `name`, or says why not.
    pub(crate) fn open(&mut self, name: &str, side: Side) -> Result<DeviceId, String> {
        let known = |device: &OpenDevice| device.name == name && device.side == side;
        if let Some(at) = self.devices.0.iter().position(known) {
            return Ok(DeviceId(at));
        }
        let device = self.embedding.device(name, side)?;
        Ok(self.devices.keep(name, side, device))
    }

    /// Opens the socket of the element called `name`, or says why not. One that is open already outlives a
    /// replaced router.
    pub(crate) fn open_socket(
        &mut self,
        name: &str,
        socket: &Endpoint,
    ) -> Result<DeviceId, String> {
        let name = format!("{socket:?} {name}");
        let known = |device: &OpenDevice| device.name == name;
        if let Some(at) = self.devices.0.iter().position(known) {
            return Ok(DeviceId(at));
        }
        let device = self.embedding.socket(socket)?;
        Ok(self.devices.keep(&name, Side::Receive, device))
    }
}

/// A device that an element opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceId(usize);

/// The open devices of a runtime. On several threads, a device has the same id on each.
#[derive(Default)]
pub(crate) struct Devices(Vec<OpenDevice>);

/// A side of a device that is open.
struct OpenDevice {
    /// The device's name; empty if another thread has it.
    name: String,
    side: Side,
    device: Box<dyn Device>,
}

impl OpenDevice {
    /// A device that another thread has.
    fn absent() -> OpenDevice {
        OpenDevice {
            name: String::new(),
            side: Side::Receive,
            device: Box::new(AbsentDevice),
        }
    }
}

impl Devices {
    fn keep(&mut self, name: &str, side: Side, device: Box<dyn Device>) -> DeviceId {
        self.0.push(OpenDevice {
            name: name.to_string(),
            side,
            device,
        });
        DeviceId(self.0.len() - 1)
    }

    /// An open device.
    #[inline]
    pub fn get(&mut self, id: DeviceId) -> &mut dyn Device {
        self.0[id.0].device.as_mut()
    }

    /// Moves a device to the runtime of another thread. If several elements opened it, the first
    /// call moves it.
    pub fn transfer(&mut self, DeviceId(at): DeviceId, to: &mut Devices) {
        let Some(device) = self.0.get_mut(at) else {
            return;
        };
        while to.0.len() <= at {
            to.0.push(OpenDevice::absent());
        }
        if !device.name.is_empty() {
            to.0[at] = core::mem::replace(device, OpenDevice::absent());
        }
    }
}

/// Stands for a device that another thread has.
struct AbsentDevice;

impl Device for AbsentDevice {
    fn mac(&self) -> [u8; 6] {
        [0; 6]
    }

    fn mtu(&self) -> usize {
        0
    }

    fn receive(&mut self, _pool: &mut Pool, _batch: &mut Batch, _most: usize) {}

    fn transmit(&mut self, _pool: &mut Pool, _batch: &mut Batch) {}

    fn room(&mut self) -> usize {
        0
    }
}

/// The embedding of a placeholder.
struct NoEmbedding;

impl Embedding for NoEmbedding {
    fn steady(&self) -> Steady {
        Steady(0)
    }

    fn wall(&self) -> i64 {
        0
    }

    fn chatter(&mut self, _line: &str) {}

    fn seed(&mut self) -> u64 {
        0
    }

    fn driver(&self) -> &'static str {
        ""
    }
}
