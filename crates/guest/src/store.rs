//! The guest's connection to the control store: the rings of its control region carry its elements' requests.

use abi::store::GuestEnd;
use elements::store::link::{Broken, Carrier, StoreLink};
use router::{Router, StoreBox};

use crate::Platform;

/// The connection.
pub(crate) struct Connection {
    store: StoreBox,
    link: StoreLink,
    carrier: Rings,
    /// Whether the guest has said that it uses the store.
    wanted: bool,
}

/// The rings.
struct Rings {
    end: GuestEnd<'static>,
    platform: &'static Platform,
}

impl Carrier for Rings {
    fn is_new(&mut self) -> bool {
        self.end.look()
    }

    fn read(&mut self, into: &mut [u8]) -> Result<usize, Broken> {
        self.end.read(into).map_err(|_| Broken)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        self.end.write(bytes).map_err(|_| Broken)
    }

    fn flush(&mut self, written: bool, read: bool) {
        if written || (read && self.end.store_waits()) {
            self.platform.ring_store();
        }
    }
}

impl Connection {
    /// The connection that carries the requests in `store`.
    pub(crate) fn new(platform: &'static Platform, store: StoreBox) -> Connection {
        let end = platform.control().store().guest();
        Connection {
            link: StoreLink::new(store.clone()),
            store,
            carrier: Rings { end, platform },
            wanted: false,
        }
    }

    /// Whether there is something to be moved either way.
    pub(crate) fn has_work(&self) -> bool {
        if !self.store.is_used() {
            return false;
        }
        let end = &self.carrier.end;
        !self.wanted
            || self.link.has_work()
            || end.is_new()
            || end.available() != Ok(0)
            || (self.link.is_unsent() && end.free() != Ok(0))
    }

    /// Moves what there is, and tells the router's elements.
    pub(crate) fn turn(&mut self, router: &mut Router) {
        if !core::mem::replace(&mut self.wanted, true) {
            self.carrier.end.want();
        }
        self.link.turn(&mut self.carrier, router);
    }
}
