//! Where the packets of a batch arrive.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use packet::{Batch, Pool};
use router::Device;

use switch::lookup::{Destination, PortIndex};
use switch::port::BATCH;

/// The name that stands for every port.
pub const EVERY_PORT: &str = "*";

/// Nowhere yet, and a port that is not there.
const NOWHERE: u32 = u32::MAX;
/// Every port but the source.
const EVERYWHERE: u32 = u32::MAX - 1;
/// Bits of an origin that tell a batch's packets apart.
const INDEX_BITS: u32 = BATCH.trailing_zeros();

/// What the exits of one router write, and the function around it reads: all on one thread, so the
/// atomics are plain loads and stores.
pub struct Sink {
    /// Number of the batch, by which late packets are told; not 0.
    generation: AtomicU32,
    arrived: [AtomicU32; BATCH],
    /// Packets that came where their frame had arrived elsewhere before, or too late.
    extra: AtomicU64,
    /// The ports that exits name.
    ports: Mutex<Vec<Arc<Named>>>,
}

/// A port by its name, there or not.
pub struct Named {
    name: String,
    port: AtomicU32,
}

impl Default for Sink {
    fn default() -> Self {
        Sink {
            generation: AtomicU32::new(0),
            arrived: [const { AtomicU32::new(NOWHERE) }; BATCH],
            extra: AtomicU64::new(0),
            ports: Mutex::new(Vec::new()),
        }
    }
}

impl Sink {
    /// Begins a batch; returns the origin of its first packet.
    pub fn begin(&self) -> u32 {
        let generation =
            self.generation.load(Ordering::Relaxed).wrapping_add(1) & (u32::MAX >> INDEX_BITS);
        let generation = generation.max(1);
        self.generation.store(generation, Ordering::Relaxed);
        for arrived in &self.arrived {
            arrived.store(NOWHERE, Ordering::Relaxed);
        }
        generation << INDEX_BITS
    }

    /// Where the batch's `i`-th frame goes.
    #[inline]
    pub fn arrived(&self, i: usize) -> Option<Destination> {
        match self.arrived.get(i)?.load(Ordering::Relaxed) {
            NOWHERE => None,
            EVERYWHERE => Some(Destination::Flood),
            port => Some(Destination::Port(port as PortIndex)),
        }
    }

    /// Says which port has a name, or that none has.
    pub fn name(&self, name: &str, port: Option<PortIndex>) {
        let number = port.map_or(NOWHERE, u32::from);
        let ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        match ports.iter().find(|named| named.name == name) {
            Some(named) => named.port.store(number, Ordering::Relaxed),
            None => {
                drop(ports);
                self.named(name).port.store(number, Ordering::Relaxed);
            }
        }
    }

    /// The index of the port with this name.
    fn named(&self, name: &str) -> Arc<Named> {
        let mut ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        // Names that neither a port has any more nor an exit asks for.
        ports.retain(|named| {
            Arc::strong_count(named) > 1 || named.port.load(Ordering::Relaxed) != NOWHERE
        });
        if let Some(named) = ports.iter().find(|named| named.name == name) {
            return Arc::clone(named);
        }
        let named = Arc::new(Named {
            name: name.into(),
            port: AtomicU32::new(NOWHERE),
        });
        ports.push(Arc::clone(&named));
        named
    }

    fn arrive(&self, origin: u32, at: u32) {
        let index = (origin as usize) % BATCH;
        let arrived = &self.arrived[index];
        let late = origin >> INDEX_BITS != self.generation.load(Ordering::Relaxed);
        if late || arrived.load(Ordering::Relaxed) != NOWHERE {
            let extra = self.extra.load(Ordering::Relaxed);
            self.extra.store(extra + 1, Ordering::Relaxed);
        } else {
            arrived.store(at, Ordering::Relaxed);
        }
    }
}

/// The way out to one port, as a device that frames are sent by.
pub struct Exit {
    sink: Arc<Sink>,
    /// `None` for every port.
    to: Option<Arc<Named>>,
}

impl Exit {
    /// The way to the port that is called `name`.
    pub fn new(sink: &Arc<Sink>, name: &str) -> Exit {
        Exit {
            sink: Arc::clone(sink),
            to: (name != EVERY_PORT).then(|| sink.named(name)),
        }
    }
}

impl Device for Exit {
    fn mac(&self) -> [u8; 6] {
        [0; 6]
    }

    fn mtu(&self) -> usize {
        usize::from(u16::MAX)
    }

    fn receive(&mut self, _pool: &mut Pool, _batch: &mut Batch, _most: usize) {}

    fn transmit(&mut self, pool: &mut Pool, batch: &mut Batch) {
        let at = match &self.to {
            Some(named) => named.port.load(Ordering::Relaxed),
            None => EVERYWHERE,
        };
        if at != NOWHERE {
            for packet in batch.as_slice() {
                self.sink.arrive(packet.origin(), at);
            }
        }
        pool.recycle(batch);
    }

    fn room(&mut self) -> usize {
        usize::MAX
    }
}
